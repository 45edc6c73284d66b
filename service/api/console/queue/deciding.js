/** The reviewer decides about the open item, or undoes a decision. */

import { ApiError } from "../api.js";
import { showToast } from "../dom.js";
import { quoteDoubtfulWords, truncate } from "../text.js";
import { buildItemHash, buildQueueHash } from "./filters.js";
import { getItemKey, VERDICT_NAMES } from "./review.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Draft } from "../item/draft.js" */
/** @import { OutboxEntry } from "./outbox.js" */
/** @import { QueueView } from "./queue.js" */

const READ_ONLY_TEXT = "Your key can only read. To review, use a key with the role `reviewer`.";

export class Deciding {
  /** @param {QueueView} view */
  constructor(view) {
    this.view = view;
    /** @type {Map<string, string>} words of decided sentences by item key, for messages */
    this.excerpts = new Map();
    /** @type {Map<string, Draft[]>} by item key, the drafts to show when a decision is undone; the last decision's last */
    this.undoneDrafts = new Map();
    this.isDeciding = false;
    this.isSending = false;
  }

  /** The reviewer's name, if they may decide; empty otherwise. */
  async requireReviewer() {
    const { context } = this.view;
    if (!context.mayWrite()) {
      showToast(READ_ONLY_TEXT, { wrong: true });
      return "";
    }
    return context.getReviewer() || (await context.askReviewer());
  }

  /** @param {Verdict} verdict @param {Draft} [undone] the draft to show when the decision is undone; else the present one */
  async decide(verdict, undone = this.view.itemView?.draft.copy()) {
    const { context, decisions, loaded } = this.view;
    const itemView = this.view.itemView;
    const item = loaded.openItem;
    if (!itemView || !item || item.state === "closed" || this.isDeciding) return;
    this.isDeciding = true;
    try {
      const reviewer = await this.requireReviewer();
      if (!reviewer) return;
      const excerpt = quoteDoubtfulWords(item);
      this.excerpts.set(getItemKey(item), excerpt);
      this.isSending = true;
      const { decision, outcome } = await decisions.decide(
        item,
        reviewer,
        verdict,
        itemView.collectAnswer(verdict),
        excerpt,
      );
      this.isSending = false;
      const key = getItemKey(item);
      if (undone) this.undoneDrafts.set(key, [...(this.undoneDrafts.get(key) ?? []), undone]);
      const unsavedEdit = verdict !== "error" && itemView.draft.needsError ? ". Your edit is not saved." : "";
      itemView.draft.forgetHistory();
      this.view.many.bulk.undoable = []; // the last decision is this one
      const isSaved = outcome === "sent";
      showToast(
        isSaved
          ? `${VERDICT_NAMES[verdict]}: ${excerpt}${unsavedEdit}`
          : `Not saved yet: ${VERDICT_NAMES[verdict]}, ${excerpt}. It is sent when the service answers.`,
        { action: { name: "Undo", run: () => this.undo(decision) } },
      );
      if (isSaved) this.view.drafts.delete(key); // an unsent decision may still be refused
      await this.openNext(item, isSaved);
    } catch (error) {
      context.showError(error);
      if (error instanceof ApiError) this.view.refresh(); // the item may have changed
    } finally {
      this.isSending = false;
      this.isDeciding = false;
    }
  }

  /**
   * Opens the next item: the one that the service hands out, or the one after it in the list if the service can't.
   * @param {Item} item the decided one
   * @param {boolean} isSaved
   */
  async openNext(item, isSaved) {
    const { loaded } = this.view;
    if (isSaved && (await this.view.openHandedOut(item))) return;
    const index = loaded.items.findIndex((candidate) => getItemKey(candidate) === getItemKey(item));
    if (index + 1 >= loaded.items.length && loaded.nextCursor) await this.view.loadMore();
    const target = loaded.items[index + 1] ?? loaded.items[index - 1];
    loaded.applyDecisions();
    loaded.unlistedItem = null;
    loaded.selected = target ? getItemKey(target) : null;
    if (!target) await this.view.refresh();
    await this.view.draw();
    this.view.itemView?.focus();
  }

  /** Undoes the last edit of the open sentence; if there is none, the last decision. */
  undoLast() {
    if (this.isSending) return; // the edits are on their way: neither they nor an earlier decision are meant
    if (!this.view.itemView?.undoEdit() && !this.view.many.undo()) this.undo();
  }

  /** Withdraws a decision and opens its item. @param {Decision | null} [requested] */
  async undo(requested) {
    const { context, decisions, loaded } = this.view;
    const decision = requested ?? decisions.lastUndoable;
    if (!decision) {
      const show = () => {
        location.hash = buildQueueHash({ ...loaded.filter, state: "decided" });
      };
      showToast(
        "There is no decision to undo since this page was opened. To undo earlier ones, choose State: Decided.",
        { action: { name: "Show", run: show } },
      );
      return;
    }
    const open = loaded.openItem;
    const excerpt =
      this.excerpts.get(getItemKey(decision)) ??
      (open && getItemKey(open) === getItemKey(decision) ? quoteDoubtfulWords(open) : truncate(decision.id, 40));
    this.view.claims.cancelNext(); // the item of this decision is shown, not the one after it
    let outcome;
    try {
      outcome = await decisions.withdraw(decision, excerpt);
    } catch (error) {
      context.showError(error);
      return;
    }
    showToast(
      outcome === "sent" ? `Undone: ${excerpt}` : `Not undone yet: ${excerpt}. It is sent when the service answers.`,
    );
    const key = getItemKey(decision);
    const draft = this.undoneDrafts.get(key)?.pop();
    if (draft && loaded.selected === key) this.view.itemView?.restoreDraft(draft);
    else if (draft) this.view.drafts.set(key, draft);
    loaded.selected = key;
    await this.view.refresh();
    this.view.itemView?.focus();
  }

  /** The service has refused a decision from the outbox. @param {OutboxEntry} entry @param {Error} error */
  onRefused({ decision, excerpt }, error) {
    const { isShown, loaded } = this.view;
    const openRefused = () => {
      location.hash = buildItemHash({ ...loaded.filter, state: "all" }, decision);
    };
    const subject = decision.withdrawn ? "Your undo" : `Your decision (${VERDICT_NAMES[decision.verdict]})`;
    showToast(`${subject} was not accepted, ${excerpt}: ${error.message}`, {
      wrong: true,
      lasting: true,
      action: { name: isShown ? "Close" : "Show", run: isShown ? () => {} : openRefused },
    });
    if (!isShown) return;
    loaded.selected = getItemKey(decision);
    this.view.refresh();
  }
}
