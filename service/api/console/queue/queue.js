/** The queue view: the list, the open item, and the reviewer's actions on it. */

import { ApiError } from "../api.js";
import { h, showToast } from "../dom.js";
import { ItemView } from "../item/item.js";
import { SchemeCache } from "../labels/schemes.js";
import { renderMisfits } from "../misfits.js";
import { quoteDoubtfulWords, truncate } from "../text.js";
import { listWaiting, renderWaitingNotices } from "../waiting.js";
import { renderEmptyStage } from "./empty.js";
import { buildItemHash, buildQueueHash, FilterForm, parseFilter } from "./filters.js";
import { QueueList } from "./list.js";
import { Claims, Decisions, getItemKey, getItemPath, VERDICT_NAMES } from "./review.js";
import { SimilarView } from "./similar.js";

/** @import { Dataset, Decision, Item, Overview, Verdict } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { WaitingDataset } from "../waiting.js" */
/** @import { Filter } from "./filters.js" */
/** @import { OutboxEntry } from "./outbox.js" */

const PAGE_SIZE = 50;
const MAX_REFRESHED_ITEMS = 200;
const READ_ONLY_TEXT = "Your key can only read. To review, use a key with the scope `write`.";
// The choices of the filters come from the overview, which reads the whole queue.
const MAX_CHOICES_AGE_MS = 15_000;
const MAX_EMPTY_CHOICES_AGE_MS = 1000; // the page without a sentence shows counts of the overview

export class QueueView {
  /**
   * @param {Api} api
   * @param {{ getReviewer: () => string, mayWrite: () => boolean, askReviewer: () => Promise<string>,
   *   showError: (error: unknown) => void,
   *   showUnsentCount: (number: number) => void }} context
   */
  constructor(api, context) {
    this.api = api;
    this.context = context;
    this.decisions = new Decisions(api, {
      onChange: () => this.onOutboxChange(),
      onRefused: (entry, error) => this.onRefused(entry, error),
    });
    this.claims = new Claims(api);
    this.filters = new FilterForm((filter) => {
      location.hash = buildQueueHash(filter);
    });
    this.list = new QueueList({ open: (key) => this.select(key), more: () => this.loadMore() });
    this.stage = h("section", { class: "stage", "aria-label": "Open sentence" });
    this.similar = new SimilarView(api, (error) => context.showError(error));
    this.notices = h("div", { class: "notices" });
    /** @type {WaitingDataset[]} */
    this.waiting = [];
    this.element = h(
      "div",
      { class: "queue" },
      h("h1", { class: "sr" }, "Review queue"),
      this.filters.element,
      this.notices,
      h(
        "div",
        { class: "workspace" },
        this.list.element,
        h("div", { class: "desk" }, this.stage, this.similar.element),
      ),
    );
    /** @type {Filter} */
    this.filter = parseFilter(new URLSearchParams());
    /** @type {Item[]} */
    this.items = [];
    /** @type {string | null} */
    this.nextCursor = null;
    /** @type {string | null} */
    this.selected = null;
    /** @type {ItemView | null} */
    this.view = null;
    /** @type {Record<string, number> | null} */
    this.counts = null;
    /** @type {Item | null} the open item, if it is no longer in the list */
    this.unlistedItem = null;
    this.drafts = new Map();
    /** @type {Map<string, string>} words of decided sentences by item key, for messages */
    this.excerpts = new Map();
    /** @type {string[] | null} */
    this.datasets = null;
    /** @type {number | null} how many sentences the service has judged */
    this.sentences = null;
    /** @type {Overview | null} */
    this.overview = null;
    this.schemes = new SchemeCache(api);
    this.isShown = false;
    this.isLoaded = false;
    this.requestNumber = 0;
    this.choicesLoadedAt = 0;
    this.isDeciding = false;
    this.isSending = false;
    this.unsentCount = this.decisions.outbox.unsent.length;
    context.showUnsentCount(this.unsentCount);
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    const filter = parseFilter(query);
    if (JSON.stringify(filter) !== JSON.stringify(this.filter)) {
      this.selected = null;
      this.items = [];
      this.nextCursor = null;
      this.isLoaded = false;
    }
    this.selected = query.get("item") ?? this.selected;
    this.isShown = true;
    this.filter = filter;
    this.filters.show(filter);
    await Promise.all([this.refresh(), this.loadChoices()]);
  }

  hide() {
    this.isShown = false;
    this.claims.release();
  }

  /** The queue has changed. @param {Record<string, number>} counts */
  onQueueChange(counts) {
    this.counts = counts;
    this.similar.invalidate();
    if (!this.isShown) return;
    this.refresh();
    const maxAgeMs = this.items.length ? MAX_CHOICES_AGE_MS : MAX_EMPTY_CHOICES_AGE_MS;
    if (Date.now() - this.choicesLoadedAt > maxAgeMs || this.namesUnknownDataset) this.loadChoices();
  }

  /** Whether the filter names a dataset that does not exist. */
  get namesUnknownDataset() {
    const { dataset } = this.filter;
    return dataset !== "" && this.datasets !== null && !this.datasets.includes(dataset) && !this.items.length;
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

  /** The service has refused a decision from the outbox. @param {OutboxEntry} entry @param {Error} error */
  onRefused({ decision, excerpt }, error) {
    const key = getItemKey(decision);
    const openRefused = () => {
      location.hash = buildItemHash({ ...this.filter, state: "all" }, decision);
    };
    const subject = decision.withdrawn ? "Your undo" : `Your decision (${VERDICT_NAMES[decision.verdict]})`;
    showToast(`${subject} was not accepted, ${excerpt}: ${error.message}`, {
      wrong: true,
      lasting: true,
      action: { name: this.isShown ? "Close" : "Show", run: this.isShown ? () => {} : openRefused },
    });
    if (!this.isShown) return;
    this.selected = key;
    this.refresh();
  }

  async loadChoices() {
    this.choicesLoadedAt = Date.now();
    try {
      const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
      const names = datasets.map((dataset) => dataset.name);
      const { dataset } = this.filter;
      this.datasets = names;
      this.waiting = listWaiting(datasets, dataset);
      this.notices.replaceChildren(...renderWaitingNotices(this.waiting), ...renderMisfits(datasets, dataset));
      this.sentences = datasets
        .filter(({ name }) => dataset === "" || name === dataset)
        .reduce((sum, { sentences }) => sum + sentences, 0);
      const isKnown = dataset === "" || names.includes(dataset);
      this.overview = await this.api.get("v1/overview", { dataset: isKnown ? dataset : "" });
      this.filters.setChoices(names, this.overview);
      if (!this.items.length) await this.redraw(); // the dataset may not exist
    } catch (error) {
      this.context.showError(error);
    }
  }

  /** @param {{ limit: number, after?: string | null }} part */
  fetchPage({ limit, after }) {
    const { free, ...filters } = this.filter;
    return this.api
      .get("v1/review", { ...filters, reviewer: free ? this.context.getReviewer() : "", limit, after })
      .catch((error) => {
        // The dataset does not exist: the page says so in place of the sentence.
        if (error instanceof ApiError && error.status === 404) return { items: [], next: null };
        throw error;
      });
  }

  /** Reads the list again. The open item stays open, even if it is no longer in the list. */
  async refresh() {
    const requestNumber = (this.requestNumber += 1);
    try {
      const limit = Math.min(
        MAX_REFRESHED_ITEMS,
        Math.max(PAGE_SIZE, Math.ceil(this.items.length / PAGE_SIZE) * PAGE_SIZE),
      );
      const page = await this.fetchPage({ limit });
      if (requestNumber !== this.requestNumber || !this.isShown) return;
      this.setItems(page.items, page.next);
      const selected = this.selected;
      if (selected !== null && !this.items.some((item) => getItemKey(item) === selected))
        await this.reloadSelected(selected, requestNumber);
    } catch (error) {
      this.context.showError(error);
    }
    if (requestNumber === this.requestNumber && this.isShown) await this.draw();
  }

  /** @param {Item[]} items @param {string | null} next */
  setItems(items, next) {
    const selectedItem = this.items.find((item) => getItemKey(item) === this.selected);
    this.items = items
      .map((item) => this.decisions.applyUnconfirmed(item))
      .filter((item) => this.filter.state === "all" || item.state === this.filter.state);
    this.nextCursor = next;
    this.isLoaded = true;
    if (selectedItem && !this.items.some((item) => getItemKey(item) === this.selected))
      this.unlistedItem = selectedItem;
    else this.unlistedItem = null;
  }

  /**
   * Reads the open item, which is no longer in the list: decided, closed or filtered out.
   * @param {string} key
   * @param {number} requestNumber
   */
  async reloadSelected(key, requestNumber) {
    const slash = key.indexOf("/");
    try {
      const item = this.decisions.applyUnconfirmed(
        await this.api.get(getItemPath({ dataset: key.slice(0, slash), id: key.slice(slash + 1) })),
      );
      if (requestNumber === this.requestNumber) this.unlistedItem = item;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      this.unlistedItem = null;
    }
  }

  async loadMore() {
    if (!this.nextCursor) return;
    try {
      const page = await this.fetchPage({ limit: PAGE_SIZE, after: this.nextCursor });
      const listedKeys = new Set(this.items.map(getItemKey));
      const newItems = page.items.filter((/** @type {Item} */ item) => !listedKeys.has(getItemKey(item)));
      this.setItems([...this.items, ...newItems], page.next);
    } catch (error) {
      this.context.showError(error);
    }
    await this.draw();
  }

  get openItem() {
    return (
      this.items.find((item) => getItemKey(item) === this.selected) ??
      (this.unlistedItem && getItemKey(this.unlistedItem) === this.selected ? this.unlistedItem : null)
    );
  }

  /** @param {string} key */
  async select(key) {
    this.selected = key;
    await this.draw();
  }

  /** Draws the current state again, unless a refresh that draws by itself is under way. */
  async redraw() {
    if (this.isShown && this.isLoaded && (this.openItem || this.selected === null)) await this.draw();
  }

  async draw() {
    if (!this.openItem && this.items.length) this.selected = getItemKey(this.items[0]);
    const item = this.openItem;
    const setFilters = Object.entries(this.filter).filter(([name, value]) => name !== "state" && value);
    const isUnfiltered = !setFilters.length;
    const total =
      isUnfiltered && this.counts && this.filter.state in this.counts ? this.counts[this.filter.state] : null;
    const schemes = await this.schemes.getAll([...this.items, ...(item ? [item] : [])].map(({ dataset }) => dataset));
    if (this.openItem !== item) return;
    this.list.show(this.items, {
      selected: this.selected,
      more: this.nextCursor !== null,
      reviewer: this.context.getReviewer(),
      total,
      findUnsent: (listed) => this.decisions.findUnsent(listed),
      findPalette: (listed) => schemes[listed.dataset].palette,
    });
    if (!item) {
      this.view = null;
      this.selected = null;
      this.claims.release();
      this.similar.clear();
      this.stage.replaceChildren(
        renderEmptyStage(this.filter, {
          isWholeQueue: setFilters.every(([name]) => name === "dataset"),
          namesUnknownDataset: this.namesUnknownDataset,
          overview: this.overview,
          sentences: this.sentences,
          waiting: this.waiting,
        }),
      );
      if (Date.now() - this.choicesLoadedAt > MAX_EMPTY_CHOICES_AGE_MS) this.loadChoices();
      return;
    }
    const scheme = schemes[item.dataset];
    const status = {
      reviewer: this.context.getReviewer(),
      mayWrite: this.context.mayWrite(),
      unsent: this.decisions.findUnsent(item),
    };
    if (this.view?.canShow(item)) {
      this.view.update(item, status);
    } else {
      const handlers = {
        step: (/** @type {number} */ offset) => this.step(offset),
        decide: (/** @type {Verdict} */ verdict) => this.decide(verdict),
        undo: (/** @type {Decision} */ decision) => this.undo(decision),
      };
      if (this.view?.isReannotated(item) && item.state !== "closed")
        showToast("This sentence was annotated again. Please review it again.");
      const hadFocus = this.stage.contains(document.activeElement);
      this.view = new ItemView(item, { scheme, status, drafts: this.drafts, handlers });
      this.stage.replaceChildren(this.view.element);
      if (hadFocus) this.view.focus();
    }
    this.similar.show(item, this.filter, scheme);
    this.claims.open(item, status.mayWrite ? status.reviewer : "");
  }

  /** @param {number} offset */
  async step(offset) {
    const index = this.items.findIndex((item) => getItemKey(item) === this.selected);
    if (offset > 0 && index + offset >= this.items.length && this.nextCursor) await this.loadMore();
    const target = this.items[Math.max(0, Math.min(index + offset, this.items.length - 1))];
    if (!target || getItemKey(target) === this.selected) {
      showToast(offset > 0 ? "This is the last sentence." : "This is the first sentence.");
      return;
    }
    await this.select(getItemKey(target));
    this.view?.focus();
  }

  /** @param {Verdict} verdict */
  async decide(verdict) {
    const { view } = this;
    const item = this.openItem;
    if (!view || !item || item.state === "closed" || this.isDeciding) return;
    if (!this.context.mayWrite()) {
      showToast(READ_ONLY_TEXT, { wrong: true });
      return;
    }
    const reviewer = this.context.getReviewer() || (await this.context.askReviewer());
    if (!reviewer) return;
    this.isDeciding = true;
    try {
      const excerpt = quoteDoubtfulWords(item);
      this.excerpts.set(getItemKey(item), excerpt);
      this.isSending = true;
      const { decision, outcome } = await this.decisions.decide(
        item,
        reviewer,
        verdict,
        view.collectAnswer(verdict),
        excerpt,
      );
      this.isSending = false;
      view.draft.forgetHistory();
      const isSaved = outcome === "sent";
      showToast(
        isSaved
          ? `${VERDICT_NAMES[verdict]}: ${excerpt}`
          : `Not saved yet: ${VERDICT_NAMES[verdict]}, ${excerpt}. It is sent when the service answers.`,
        { action: { name: "Undo", run: () => this.undo(decision) } },
      );
      if (isSaved) this.drafts.delete(getItemKey(item)); // an unsent decision may still be refused
      await this.openNext(item);
    } catch (error) {
      this.context.showError(error);
      if (error instanceof ApiError) this.refresh(); // the item may have changed
    } finally {
      this.isSending = false;
      this.isDeciding = false;
    }
  }

  /** Opens the item after the decided one. @param {Item} item */
  async openNext(item) {
    const index = this.items.findIndex((candidate) => getItemKey(candidate) === getItemKey(item));
    if (index + 1 >= this.items.length && this.nextCursor) await this.loadMore();
    const target = this.items[index + 1] ?? this.items[index - 1];
    this.setItems(this.items, this.nextCursor);
    this.unlistedItem = null;
    this.selected = target ? getItemKey(target) : null;
    if (!target) await this.refresh();
    await this.draw();
    this.view?.focus();
  }

  /** Withdraws a decision and opens its item. @param {Decision | null} [requested] */
  async undo(requested) {
    const decision = requested ?? this.decisions.lastUndoable;
    if (!decision) {
      const show = () => {
        location.hash = buildQueueHash({ ...this.filter, state: "decided" });
      };
      showToast(
        "There is no decision to undo since this page was opened. To undo earlier ones, choose State: Decided.",
        { action: { name: "Show", run: show } },
      );
      return;
    }
    const excerpt =
      this.excerpts.get(getItemKey(decision)) ??
      (this.openItem && getItemKey(this.openItem) === getItemKey(decision)
        ? quoteDoubtfulWords(this.openItem)
        : truncate(decision.id, 40));
    let outcome;
    try {
      outcome = await this.decisions.withdraw(decision, excerpt);
    } catch (error) {
      this.context.showError(error);
      return;
    }
    showToast(
      outcome === "sent" ? `Undone: ${excerpt}` : `Not undone yet: ${excerpt}. It is sent when the service answers.`,
    );
    this.selected = getItemKey(decision);
    await this.refresh();
    this.view?.focus();
  }

  /** Undoes the last edit of the open sentence; if there is none, the last decision. */
  undoLast() {
    if (this.isSending) return; // the edits are on their way: neither they nor an earlier decision are meant
    if (!this.view?.undoEdit()) this.undo();
  }

  focusSimilar() {
    if (!this.similar.focus()) showToast("No other open sentence has the same words.");
  }

  /** @param {string} key */
  handleKey(key) {
    /** @type {Record<string, () => void>} */
    const keys = {
      e: () => this.decide("error"),
      o: () => this.decide("ok"),
      u: () => this.decide("unsure"),
      z: () => this.undoLast(),
      n: () => this.step(1),
      j: () => this.step(1),
      p: () => this.step(-1),
      k: () => this.step(-1),
      f: () => this.filters.focus(),
      "/": () => this.filters.focusSearch(),
      s: () => this.focusSimilar(),
    };
    if (this.view?.handleKey(key)) return true;
    const run = keys[key] ?? keys[key.toLowerCase()];
    run?.();
    return run !== undefined;
  }
}
