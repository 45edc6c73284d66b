/** The items of the list: the pages that are loaded, the open item, and what comes after it. No DOM. */

import { ApiError } from "../api.js";
import { NO_FILTER } from "./filters.js";
import { getItemKey, getItemPath, hasDecided } from "./review.js";

/** @import { Item } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { Filter } from "./filters.js" */
/** @import { Decisions } from "./review.js" */

const PAGE_SIZE = 50;
const MAX_REFRESHED_ITEMS = 200;

export class LoadedItems {
  /**
   * @param {Api} api
   * @param {Decisions} decisions
   * @param {() => string} getReviewer
   */
  constructor(api, decisions, getReviewer) {
    this.api = api;
    this.decisions = decisions;
    this.getReviewer = getReviewer;
    /** @type {Filter} */
    this.filter = { ...NO_FILTER };
    /** @type {Item[]} */
    this.items = [];
    /** @type {string | null} */
    this.nextCursor = null;
    /** @type {string | null} the key of the open item */
    this.selected = null;
    /** @type {Item | null} the open item, if it is no longer in the list */
    this.unlistedItem = null;
    this.isLoaded = false;
    this.requestNumber = 0;
  }

  /** @param {Filter} filter */
  hasFilter(filter) {
    return JSON.stringify(filter) === JSON.stringify(this.filter);
  }

  /** Another filter empties the list. @param {Filter} filter */
  setFilter(filter) {
    if (!this.hasFilter(filter)) {
      this.selected = null;
      this.items = [];
      this.nextCursor = null;
      this.isLoaded = false;
    }
    this.filter = filter;
  }

  /** The filter as parameters of the API. */
  get query() {
    const { free, ...filters } = this.filter;
    return { ...filters, viewer: this.getReviewer(), reviewer: free ? this.getReviewer() : "" };
  }

  get openItem() {
    return (
      this.items.find((item) => getItemKey(item) === this.selected) ??
      (this.unlistedItem && getItemKey(this.unlistedItem) === this.selected ? this.unlistedItem : null)
    );
  }

  /** The position of the open item in the list; -1 if it is not listed. */
  get openIndex() {
    return this.items.findIndex((item) => getItemKey(item) === this.selected);
  }

  /** @param {{ limit: number, after?: string | null }} part */
  fetchPage({ limit, after }) {
    return this.api.get("v1/review", { ...this.query, limit, after }).catch((error) => {
      // The dataset does not exist: the page says so in place of the sentence.
      if (error instanceof ApiError && error.status === 404) return { items: [], next: null };
      throw error;
    });
  }

  /**
   * Reads the list again. The open item stays open, even if it is no longer in the list.
   * @returns {Promise<boolean>} whether no later call has taken over
   */
  async refresh() {
    const requestNumber = (this.requestNumber += 1);
    const limit = Math.min(
      MAX_REFRESHED_ITEMS,
      Math.max(PAGE_SIZE, Math.ceil(this.items.length / PAGE_SIZE) * PAGE_SIZE),
    );
    const page = await this.fetchPage({ limit });
    if (requestNumber !== this.requestNumber) return false;
    this.set(page.items, page.next);
    const { selected } = this;
    if (selected !== null && this.openIndex < 0) await this.reloadSelected(selected, requestNumber);
    return requestNumber === this.requestNumber;
  }

  /** @param {Item[]} items @param {string | null} next */
  set(items, next) {
    const selectedItem = this.items.find((item) => getItemKey(item) === this.selected);
    this.items = items.map((item) => this.decisions.applyUnconfirmed(item)).filter((item) => this.belongs(item));
    this.nextCursor = next;
    this.isLoaded = true;
    this.unlistedItem = selectedItem && this.openIndex < 0 ? selectedItem : null;
  }

  /** Whether the item is in the list. An item is not open for a reviewer who has decided it. @param {Item} item */
  belongs(item) {
    const { state } = this.filter;
    return state === "all" || (item.state === state && (state !== "open" || !hasDecided(item, this.getReviewer())));
  }

  /** Shows decisions that the queue has not read yet. */
  applyDecisions() {
    this.set(this.items, this.nextCursor);
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
        await this.api.get(getItemPath({ dataset: key.slice(0, slash), id: key.slice(slash + 1) }), {
          viewer: this.getReviewer(),
        }),
      );
      if (requestNumber === this.requestNumber) this.unlistedItem = item;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      this.unlistedItem = null;
    }
  }

  async loadMore() {
    if (!this.nextCursor) return;
    const page = await this.fetchPage({ limit: PAGE_SIZE, after: this.nextCursor });
    const listedKeys = new Set(this.items.map(getItemKey));
    const newItems = page.items.filter((/** @type {Item} */ item) => !listedKeys.has(getItemKey(item)));
    this.set([...this.items, ...newItems], page.next);
  }
}
