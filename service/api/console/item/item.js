/** The open item: a sentence with its doubts, the correction, decisions and the buttons to decide. */

import { h, showToast } from "../dom.js";
import { isAdjudication, VERDICT_NAMES } from "../queue/review.js";
import { renderAnswers } from "../team/answers.js";
import { formatAge, formatDateTime, truncate } from "../text.js";
import { renderBecause } from "./because.js";
import { renderDecisions } from "./decision_list.js";
import { renderDetails } from "./details.js";
import { DoubtList } from "./doubts.js";
import { Draft } from "./draft.js";
import { renderNotices } from "./notices.js";
import { SpanEditing } from "./span_editing.js";
import { renderVerdict } from "./verdict.js";
import { WordTable } from "./word_table.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Scheme } from "../labels/scheme.js" */

/** @type {readonly [Verdict, string][]} */
const VERDICT_KEYS = [
  ["error", "e"],
  ["ok", "o"],
  ["unsure", "u"],
];

/** @type {readonly [number, string, string, string][]} */
const STEP_BUTTONS = [
  [-1, "p", "←", "Previous sentence"],
  [1, "n", "→", "Next sentence"],
];

/**
 * `unsent`: the reviewer's decision about the item that is not sent yet.
 * @typedef {{ reviewer: string, mayWrite: boolean, unsent: Decision | null }} ReviewerStatus
 * @typedef {{ step: (offset: number) => void, decide: (verdict: Verdict, undone?: Draft) => void,
 *   undo: (decision: Decision) => void }} ItemHandlers
 */

export class ItemView {
  /**
   * @param {Item} item
   * @param {{ scheme: Scheme, status: ReviewerStatus, drafts: Map<string, Draft>, handlers: ItemHandlers }} context
   */
  constructor(item, { scheme, status, drafts, handlers }) {
    const key = `${item.dataset}/${item.id}`;
    const savedDraft = drafts.get(key);
    this.draft =
      savedDraft?.revision === item.revision ? savedDraft : new Draft(item, scheme, findOwnDecision(item, status));
    this.draft.update(item);
    drafts.set(key, this.draft);
    this.item = item;
    this.scheme = scheme;
    this.status = status;
    this.handlers = handlers;
    this.editing = new SpanEditing(this.draft, { onEdit: () => this.showDraft() });
    this.doubts = new DoubtList(this.draft, {
      onAnswer: (number, answer) => this.answer(number, answer),
      onSelect: (number) => {
        this.editing.selectDoubt(number);
        this.editing.selection.focus();
      },
    });
    this.table = new WordTable(this.draft, {
      onChange: () => this.showDraft(),
      onDone: () => this.editing.selection.focus(),
    });
    this.title = h("h2", { tabindex: -1, class: "item-title" });
    this.head = h("header");
    this.notices = h("div", { class: "notices" });
    this.decisionList = h("div", { class: "decisions" });
    this.sideBySide = h("div");
    this.note = /** @type {HTMLInputElement} */ (
      h("input", { id: "note", maxlength: 2000, placeholder: "Reason, for later readers", autocomplete: "off" })
    );
    this.note.value = this.draft.note;
    this.note.addEventListener("input", () => {
      this.draft.note = this.note.value;
    });
    this.note.addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") this.title.focus();
    });
    this.buttons = VERDICT_KEYS.map(([verdict, key]) =>
      h(
        "button",
        {
          type: "button",
          class: `verdict ${verdict}`,
          "aria-keyshortcuts": key,
          "data-verdict": verdict,
          on: { click: () => handlers.decide(verdict) },
        },
        VERDICT_NAMES[verdict],
        h("kbd", {}, key),
      ),
    );
    const steps = STEP_BUTTONS.map(([offset, key, sign, name]) =>
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-keyshortcuts": key,
          title: name,
          on: { click: () => handlers.step(offset) },
        },
        h("span", { class: "sr" }, name),
        h("span", { class: "sign", "aria-hidden": "true" }, sign),
        h("kbd", { "aria-hidden": "true" }, key),
      ),
    );
    this.actions = h(
      "div",
      { class: "actions", role: "group", "aria-label": "Your decision" },
      this.doubts.current,
      this.buttons,
      h("div", { class: "steps" }, steps),
    );
    this.answers = /** @type {HTMLFieldSetElement} */ (
      h(
        "fieldset",
        { class: "bare", "aria-label": "Your correction" },
        this.editing.tools,
        this.doubts.element,
        renderBecause(item),
        this.table.element,
        h("div", { class: "note-row" }, h("label", { for: "note" }, "Note"), this.note),
      )
    );
    this.element = h(
      "article",
      { class: "item", "aria-labelledby": "item-title" },
      this.head,
      this.notices,
      this.sideBySide,
      this.editing.sentence.element,
      this.editing.status,
      this.answers,
      this.decisionList,
      renderDetails(item),
      this.actions,
    );
    this.title.id = "item-title";
    this.update(item, status);
  }

  /** Whether `update` can show this item, so that the draft stays. @param {Item} item */
  canShow(item) {
    return this.isSameItem(item) && !this.isReannotated(item) && item.blind === this.item.blind;
  }

  /** Whether the item is a newer annotation than the one shown. @param {Item} item */
  isReannotated(item) {
    return this.isSameItem(item) && (item.revision !== this.item.revision || item.scored_at !== this.item.scored_at);
  }

  /** @param {Item} item */
  isSameItem(item) {
    return item.dataset === this.item.dataset && item.id === this.item.id;
  }

  /**
   * Shows changes of the item, such as other reviewers' decisions.
   * @param {Item} item
   * @param {ReviewerStatus} status
   */
  update(item, status) {
    this.item = item;
    this.status = status;
    const closed = item.state === "closed";
    this.answers.hidden = closed;
    this.answers.disabled = this.doubts.current.disabled = !status.mayWrite || closed;
    this.editing.isEnabled = status.mayWrite && !closed;
    this.editing.sentence.element.hidden = !item.tokens.length;
    this.head.replaceChildren(...this.renderHeading());
    this.notices.replaceChildren(...renderNotices(item, status, this.scheme, this.handlers.undo));
    this.sideBySide.replaceChildren(...renderAnswers(item, this.scheme));
    this.decisionList.replaceChildren(...renderDecisions(item, status, this.handlers.undo));
    const settles = isAdjudication(item, status.reviewer);
    const ownDecision = findOwnDecision(item, status);
    for (const button of this.buttons) {
      const isUseless = settles && button.dataset.verdict === "unsure";
      /** @type {HTMLButtonElement} */ (button).disabled = closed || !status.mayWrite || isUseless;
      button.title = status.mayWrite ? "" : "Your key may only read";
      button.setAttribute("aria-pressed", String(ownDecision?.verdict === button.dataset.verdict));
    }
  }

  renderHeading() {
    const { item } = this;
    this.title.replaceChildren(
      h("span", { class: "muted" }, `${item.dataset} / `),
      h("bdi", {}, truncate(item.id, 80)),
    );
    const facts = [
      h("span", { class: `state ${item.state}` }, item.state),
      item.annotator !== null && h("span", {}, "by ", h("bdi", {}, truncate(item.annotator, 60))),
      item.document !== null && h("span", {}, "in ", h("bdi", {}, truncate(item.document, 60))),
      item.batch !== null && h("span", {}, "batch ", h("bdi", {}, truncate(item.batch, 60))),
      item.annotated_at !== null &&
        h("span", { title: formatDateTime(item.annotated_at) }, `annotated ${formatAge(item.annotated_at)}`),
      renderSource(item.source),
    ];
    return [
      h("div", { class: "about" }, this.title, h("p", { class: "facts" }, facts)),
      item.state === "closed" ? "" : renderVerdict(item),
    ];
  }

  /** Shows the draft, after it has changed. */
  showDraft() {
    this.editing.show();
    this.doubts.show();
    this.table.show();
  }

  /**
   * Accepts or rejects a doubt, or all of them. The last answer decides about the sentence.
   * @param {number | "all" | null} number null: there is no doubt left
   * @param {"accepted" | "rejected"} answer
   */
  answer(number, answer) {
    if (!this.editing.isEnabled) return;
    if (number === null || !this.draft.doubts.length) {
      showToast("Every doubt has an answer. Save the sentence with `e` (error) or `o` (OK).");
      return;
    }
    if (number !== "all" && answer === "accepted" && !this.draft.canAccept(number)) {
      showToast("The suggested type is not in the label set. Reject it, or choose another type.");
      return;
    }
    const undone = this.draft.copy(); // undoing the decision undoes this answer too
    if (number === "all") this.draft.answerAll(answer);
    else this.draft.answer(number, answer);
    this.showDraft();
    const { currentDoubt } = this.draft;
    if (currentDoubt === null) this.handlers.decide(this.draft.verdict, undone);
    else this.editing.selectDoubt(currentDoubt);
  }

  /** Opens the table of words at the selected word. */
  openTable() {
    this.table.focus(this.editing.selection.head);
  }

  /** Shows an earlier draft of this item again. @param {Draft} draft */
  restoreDraft(draft) {
    if (draft.revision === this.draft.revision) this.draft.restore(draft);
    this.showDraft();
  }

  /** Undoes the last edit of the draft. Returns whether there was one. */
  undoEdit() {
    if (!this.draft.undo()) return false;
    this.showDraft();
    return true;
  }

  /** @param {string} key @returns {boolean} whether the key was used */
  handleKey(key) {
    /** @type {Record<string, () => void>} */
    const keys = {
      a: () => this.answer(this.draft.currentDoubt, "accepted"),
      r: () => this.answer(this.draft.currentDoubt, "rejected"),
      A: () => this.answer("all", "accepted"),
      R: () => this.answer("all", "rejected"),
      c: () => this.openTable(),
    };
    if (this.item.state === "closed") return false;
    keys[key]?.();
    return key in keys || this.editing.handleKey(key);
  }

  /** The correction and the note of a decision. @param {Verdict} verdict */
  collectAnswer(verdict) {
    const note = this.draft.note.trim();
    return { ...(verdict === "error" ? this.draft.collect() : {}), ...(note ? { note } : {}) };
  }

  focus() {
    this.title.focus();
  }
}

/** The reviewer's decision in force, or null. @param {Item} item @param {ReviewerStatus} status */
function findOwnDecision(item, { reviewer, unsent }) {
  const own = unsent ?? item.decisions.findLast((decision) => decision.reviewer === reviewer);
  return own && !own.withdrawn ? own : null;
}

/**
 * The source, as a link only if it is a web address: a `javascript:` address would run.
 * @param {string | null} source
 */
function renderSource(source) {
  if (!source) return null;
  if (!/^https?:\/\//i.test(source) || !URL.canParse(source))
    return h("span", { class: "source" }, truncate(source, 120));
  return h(
    "a",
    { href: source, target: "_blank", rel: "noopener noreferrer", class: "source", title: source },
    "Open source",
    h("span", { "aria-hidden": "true" }, " ↗"),
  );
}
