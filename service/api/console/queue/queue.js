/** The queue view: filters, the list, the open item and similar ones, drawn from what is loaded. */

import { BulkActions } from "../bulk/actions.js";
import { h, showToast } from "../dom.js";
import { ItemView } from "../item/item.js";
import { SchemeCache } from "../labels/schemes.js";
import { renderMisfits } from "../misfits.js";
import { renderWaitingNotices } from "../waiting.js";
import { Choices } from "./choices.js";
import { Deciding } from "./deciding.js";
import { renderEmptyStage } from "./empty.js";
import { buildQueueHash, FilterForm, parseFilter } from "./filters.js";
import { QueueList } from "./list.js";
import { LoadedItems } from "./loaded_items.js";
import { ProgressLine } from "./progress.js";
import { Claims, Decisions, getItemKey, hasDecided, isClaimedByOther } from "./review.js";
import { SimilarView } from "./similar.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { Draft } from "../item/draft.js" */
/** @import { Scheme } from "../labels/scheme.js" */

export class QueueView {
  /**
   * @param {Api} api
   * @param {{ getReviewer: () => string, mayWrite: () => boolean, askReviewer: () => Promise<string>,
   *   showError: (error: unknown) => void,
   *   showUnsentCount: (number: number) => void }} context
   */
  constructor(api, context) {
    this.context = context;
    this.deciding = new Deciding(this);
    this.decisions = new Decisions(api, {
      onChange: () => this.onOutboxChange(),
      onRefused: (entry, error) => this.deciding.onRefused(entry, error),
    });
    this.loaded = new LoadedItems(api, this.decisions, context.getReviewer);
    this.choices = new Choices(api);
    this.schemes = new SchemeCache(api);
    this.claims = new Claims(api);
    this.filters = new FilterForm({
      onChange: (filter) => {
        location.hash = buildQueueHash(filter);
      },
      // Without an entry in the browser's history for each letter.
      onTyping: (filter) => location.replace(buildQueueHash(filter)),
      onLeave: () => this.focusList(),
    });
    this.many = new BulkActions(api, this);
    this.list = new QueueList(
      { open: (key) => this.select(key), more: () => this.loadMore(), toggle: (item) => this.many.toggle(item) },
      this.many.element,
    );
    this.stage = h("section", { class: "stage", "aria-label": "Open sentence" });
    this.similar = new SimilarView(api, (error) => context.showError(error));
    this.progress = new ProgressLine(api, context.getReviewer);
    this.notices = h("div", { class: "notices" });
    this.element = h(
      "div",
      { class: "queue" },
      h("h1", { class: "sr" }, "Review queue"),
      this.filters.element,
      this.progress.element,
      this.notices,
      h(
        "div",
        { class: "workspace" },
        this.list.element,
        h("div", { class: "desk" }, this.stage, this.similar.element),
      ),
    );
    /** @type {ItemView | null} */
    this.itemView = null;
    /** @type {Record<string, number> | null} */
    this.counts = null;
    this.drafts = new Map();
    this.isShown = false;
    this.unsentCount = this.decisions.outbox.unsent.length;
    context.showUnsentCount(this.unsentCount);
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    const filter = parseFilter(query);
    if (!this.loaded.hasFilter(filter)) this.many.selection.clear();
    this.loaded.setFilter(filter);
    this.claims.cancelNext();
    const requested = query.get("item") ?? this.loaded.selected;
    this.loaded.selected = requested;
    this.isShown = true;
    this.filters.show(filter);
    const isSearch = this.choices.isFor(filter) && !this.choices.isOld(false); // of the same items: the choices stay
    await Promise.all([
      requested === null ? this.showNext() : this.refresh(),
      isSearch ? null : this.loadChoices(),
      this.loadProgress(),
    ]);
  }

  /** Opens the next item, or reads the list again if the service hands none out. */
  async showNext() {
    if (!(await this.openHandedOut(null))) await this.refresh();
  }

  /**
   * Opens the next item that is free for the reviewer.
   * @param {Item | null} left the item that the reviewer leaves
   * @returns {Promise<boolean>} whether the view shows what the service says: an item, or that nothing is free
   */
  async openHandedOut(left) {
    const { loaded } = this;
    const reviewer = this.context.getReviewer();
    const { state, free, verdict, decided_by, ...filters } = loaded.filter;
    const isHandedOut = (state === "open" || state === "adjudication") && !verdict && !decided_by;
    if (!isHandedOut || !reviewer || !this.context.mayWrite()) return false;
    const set = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
    let item;
    try {
      item = await this.claims.openNext({ ...set, state }, reviewer, left);
    } catch {
      return false; // the list says what comes next, as far as it is loaded
    }
    if (item === undefined) return true; // another list is shown meanwhile
    if (item && hasDecided(this.decisions.applyUnconfirmed(item), reviewer) && state === "open") item = null;
    loaded.selected = item && getItemKey(item);
    loaded.unlistedItem = item;
    await this.refresh();
    if (left) this.itemView?.focus(); // else the reviewer may be somewhere else on the page
    return true;
  }

  hide() {
    this.isShown = false;
    this.claims.cancelNext();
    this.claims.release();
  }

  /** The queue has changed. @param {Record<string, number>} counts */
  onQueueChange(counts) {
    this.counts = counts;
    this.similar.invalidate();
    if (!this.isShown) return;
    if (this.loaded.isLoaded && this.loaded.selected === null) this.showNext();
    else this.refresh();
    this.loadProgress();
    if (this.choices.isOld(!this.loaded.items.length) || this.namesUnknownDataset) this.loadChoices();
  }

  /** Whether the filter names a dataset that does not exist. */
  get namesUnknownDataset() {
    return this.choices.isUnknown(this.loaded.filter.dataset) && !this.loaded.items.length;
  }

  /** The number of unsent decisions has changed. */
  onOutboxChange() {
    const { length } = this.decisions.outbox.unsent;
    this.context.showUnsentCount(length);
    const isShorter = length < this.unsentCount;
    this.unsentCount = length;
    this.redraw();
    if (isShorter && this.isShown) this.refresh();
  }

  async loadChoices() {
    try {
      const { filter } = this.loaded;
      await this.choices.load(filter);
      if (!this.choices.isFor(this.loaded.filter)) return; // others are being loaded
      const { datasets, names, waiting } = this.choices;
      this.notices.replaceChildren(...renderWaitingNotices(waiting), ...renderMisfits(datasets, filter.dataset));
      this.filters.setChoices(names ?? [], this.choices);
      if (!this.loaded.items.length) await this.redraw(); // the dataset may not exist
    } catch (error) {
      this.context.showError(error);
    }
  }

  async loadProgress() {
    const { dataset } = this.loaded.filter;
    if (this.choices.isUnknown(dataset)) return;
    try {
      await this.progress.load(dataset);
    } catch (error) {
      this.context.showError(error);
    }
  }

  /** Reads the list again and draws it. */
  async refresh() {
    let isLast = true;
    try {
      isLast = await this.loaded.refresh();
    } catch (error) {
      this.context.showError(error);
    }
    if (isLast && this.isShown) await this.draw();
  }

  async loadMore() {
    try {
      await this.loaded.loadMore();
    } catch (error) {
      this.context.showError(error);
    }
    await this.draw();
  }

  /** @param {string} key */
  async select(key) {
    this.claims.cancelNext();
    this.loaded.selected = key;
    await this.draw();
  }

  /** Draws the current state again, unless a refresh that draws by itself is under way. */
  async redraw() {
    const { isLoaded, openItem, selected } = this.loaded;
    if (this.isShown && isLoaded && (openItem || selected === null)) await this.draw();
  }

  async draw() {
    const { loaded } = this;
    if (!loaded.openItem) {
      const reviewer = this.context.getReviewer();
      const free = loaded.items.find((item) => !isClaimedByOther(item, reviewer));
      loaded.selected = free ? getItemKey(free) : null;
    }
    const item = loaded.openItem;
    const schemes = await this.schemes.getAll([...loaded.items, ...(item ? [item] : [])].map(({ dataset }) => dataset));
    if (loaded.openItem !== item) return;
    this.list.show(loaded.items, {
      selected: loaded.selected,
      more: loaded.nextCursor !== null,
      reviewer: this.context.getReviewer(),
      total: this.findTotal(),
      findUnsent: (listed) => this.decisions.findUnsent(listed),
      findPalette: (listed) => schemes[listed.dataset].palette,
      isMarked: (listed) => this.many.isSelected(listed),
      canMark: this.context.mayWrite(),
    });
    this.many.show();
    if (item) this.drawItem(item, schemes[item.dataset]);
    else this.drawEmpty();
  }

  /** The filters that are set, without the state. */
  get setFilters() {
    return Object.entries(this.loaded.filter)
      .filter(([name, value]) => name !== "state" && value)
      .map(([name]) => name);
  }

  /** How many items the list would have with all pages; null: not known. */
  findTotal() {
    const { state } = this.loaded.filter;
    return !this.setFilters.length && this.counts && state in this.counts ? this.counts[state] : null;
  }

  drawEmpty() {
    this.itemView = null;
    this.loaded.selected = null;
    this.claims.release();
    this.similar.clear();
    this.stage.replaceChildren(
      renderEmptyStage(this.loaded.filter, {
        isWholeQueue: this.setFilters.every((name) => name === "dataset"),
        namesUnknownDataset: this.namesUnknownDataset,
        overview: this.choices.overview,
        datasets: this.choices.names ?? [],
        sentences: this.choices.sentences,
        waiting: this.choices.waiting,
        claimed: this.loaded.items.length,
      }),
    );
    if (this.choices.isOld(true)) this.loadChoices();
  }

  /** @param {Item} item @param {Scheme} scheme */
  drawItem(item, scheme) {
    const status = {
      reviewer: this.context.getReviewer(),
      mayWrite: this.context.mayWrite(),
      unsent: this.decisions.findUnsent(item),
    };
    if (this.itemView?.canShow(item)) {
      this.itemView.update(item, status);
    } else {
      const handlers = {
        step: (/** @type {number} */ offset) => this.step(offset),
        decide: (/** @type {Verdict} */ verdict, /** @type {Draft | undefined} */ undone) =>
          this.deciding.decide(verdict, undone),
        undo: (/** @type {Decision} */ decision) => this.deciding.undo(decision),
      };
      if (this.itemView?.isReannotated(item) && item.state !== "closed")
        showToast("This sentence was annotated again. Please review it again.");
      const hadFocus = this.stage.contains(document.activeElement);
      this.itemView = new ItemView(item, { scheme, status, drafts: this.drafts, handlers });
      this.stage.replaceChildren(this.itemView.element);
      if (hadFocus) this.itemView.focus();
    }
    this.similar.show(item, this.loaded.filter, scheme);
    this.claims.open(item, status.mayWrite ? status.reviewer : "");
  }

  /** @param {number} offset */
  async step(offset) {
    const { loaded } = this;
    const index = loaded.openIndex;
    if (offset > 0 && index + offset >= loaded.items.length && loaded.nextCursor) await this.loadMore();
    const target = loaded.items[Math.max(0, Math.min(index + offset, loaded.items.length - 1))];
    if (!target || getItemKey(target) === loaded.selected) {
      showToast(offset > 0 ? "This is the last sentence." : "This is the first sentence.");
      return;
    }
    await this.select(getItemKey(target));
    this.itemView?.focus();
  }

  /** Moves the focus to the list, or to the sentence if the list is folded up or empty. */
  focusList() {
    if (!this.list.focus()) this.itemView?.focus();
  }

  focusSimilar() {
    if (!this.similar.focus()) showToast("No other open sentence has the same words.");
  }

  /** @param {string} key */
  handleKey(key) {
    /** @type {Record<string, () => void>} */
    const keys = {
      e: () => this.deciding.decide("error"),
      o: () => this.deciding.decide("ok"),
      u: () => this.deciding.decide("unsure"),
      z: () => this.deciding.undoLast(),
      n: () => this.step(1),
      j: () => this.step(1),
      p: () => this.step(-1),
      k: () => this.step(-1),
      f: () => this.filters.focus(),
      "/": () => this.filters.focusSearch(),
      s: () => this.focusSimilar(),
      b: () => this.many.open(),
    };
    if (this.itemView?.handleKey(key)) return true;
    const run = keys[key] ?? keys[key.toLowerCase()];
    run?.();
    return run !== undefined;
  }
}
