/** The queue: what is shown, what is open, and where one goes next. */

import { ApiError } from "./api.js";
import { h, toast } from "./dom.js";
import { addressOf, Filters, readFilter } from "./filters.js";
import { ItemView, VERDICTS } from "./item.js";
import { Palette } from "./labels.js";
import { List } from "./list.js";
import { Claims, Decisions, keyOf, pathOf } from "./review.js";
import { Schemes } from "./schemes.js";

/** @import { Decision, Item, Verdict } from "./types.js" */
/** @import { Api } from "./api.js" */
/** @import { Filter } from "./filters.js" */

const PAGE = 50;
const MOST = 200;
const OFFERED_EVERY = 15_000; // what filters offer may be this old: summing up a large queue takes a while

export class QueueView {
  /**
   * @param {Api} api
   * @param {{ reviewer: () => string, askName: () => Promise<string>, failed: (error: unknown) => void }} desk
   */
  constructor(api, desk) {
    this.api = api;
    this.desk = desk;
    this.decisions = new Decisions(api);
    this.claims = new Claims(api);
    this.filters = new Filters((filter) => {
      location.hash = addressOf(filter);
    });
    this.list = new List({ open: (key) => this.select(key), more: () => this.more() });
    this.stage = h("section", { class: "stage", "aria-label": "Open sentence" });
    this.element = h("div", { class: "queue" }, h("h1", { class: "sr" }, "Review queue"), this.filters.element, h("div", { class: "desk" }, this.list.element, this.stage));
    /** @type {Filter} */
    this.filter = readFilter(new URLSearchParams());
    /** @type {Item[]} */
    this.items = [];
    /** @type {string | null} */
    this.next = null;
    /** @type {string | null} */
    this.selected = null;
    /** @type {ItemView | null} */
    this.view = null;
    /** @type {Record<string, number> | null} */
    this.counts = null;
    /** @type {Item | null} the open item where the list has it no more */
    this.stray = null;
    this.drafts = new Map();
    this.palette = new Palette();
    this.schemes = new Schemes(api, this.palette);
    this.shown = false;
    this.asked = 0;
    this.offered = 0;
    this.deciding = false;
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    const filter = readFilter(query);
    if (JSON.stringify(filter) !== JSON.stringify(this.filter)) {
      this.selected = null;
      this.items = [];
      this.next = null;
    }
    this.selected = query.get("item") ?? this.selected;
    this.shown = true;
    this.filter = filter;
    this.filters.show(filter);
    await Promise.all([this.refresh(), this.choices()]);
  }

  hide() {
    this.shown = false;
    this.claims.leave();
  }

  /** Something has changed in the queue. @param {Record<string, number>} counts */
  changed(counts) {
    this.counts = counts;
    if (!this.shown) return;
    this.refresh();
    if (Date.now() - this.offered > OFFERED_EVERY) this.choices();
  }

  async choices() {
    this.offered = Date.now();
    try {
      const [{ datasets }, overview] = await Promise.all([this.api.get("v1/datasets"), this.api.get("v1/overview", { dataset: this.filter.dataset })]);
      this.filters.offer(datasets.map((/** @type {{ name: string }} */ one) => one.name), overview);
    } catch (error) {
      this.desk.failed(error);
    }
  }

  /** @param {{ limit: number, after?: string | null }} part */
  page({ limit, after }) {
    const { free, ...wanted } = this.filter;
    return this.api.get("v1/review", { ...wanted, reviewer: free ? this.desk.reviewer() : "", limit, after });
  }

  /** Reads again what is shown. What is open stays open, whatever became of it. */
  async refresh() {
    const asked = (this.asked += 1);
    try {
      const limit = Math.min(MOST, Math.max(PAGE, Math.ceil(this.items.length / PAGE) * PAGE));
      const page = await this.page({ limit });
      if (asked !== this.asked || !this.shown) return;
      this.take(page.items, page.next);
      const open = this.selected;
      if (open !== null && !this.items.some((item) => keyOf(item) === open)) await this.again(open, asked);
    } catch (error) {
      this.desk.failed(error);
    }
    if (asked === this.asked && this.shown) await this.draw();
  }

  /** @param {Item[]} items @param {string | null} next */
  take(items, next) {
    const kept = this.items.find((item) => keyOf(item) === this.selected);
    this.items = items.map((item) => this.decisions.over(item)).filter((item) => this.filter.state === "all" || item.state === this.filter.state);
    this.next = next;
    if (kept && !this.items.some((item) => keyOf(item) === this.selected)) this.stray = kept;
    else this.stray = null;
  }

  /** The open item is not among the others any more: decided, closed or filtered out meanwhile. @param {string} key @param {number} asked */
  async again(key, asked) {
    const at = key.indexOf("/");
    try {
      const found = this.decisions.over(await this.api.get(pathOf({ dataset: key.slice(0, at), id: key.slice(at + 1) })));
      if (asked === this.asked) this.stray = found;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      this.stray = null;
    }
  }

  async more() {
    if (!this.next) return;
    try {
      const page = await this.page({ limit: PAGE, after: this.next });
      const known = new Set(this.items.map(keyOf));
      const fresh = page.items.filter((/** @type {Item} */ item) => !known.has(keyOf(item)));
      this.take([...this.items, ...fresh], page.next);
    } catch (error) {
      this.desk.failed(error);
    }
    await this.draw();
  }

  get open() {
    return this.items.find((item) => keyOf(item) === this.selected) ?? (this.stray && keyOf(this.stray) === this.selected ? this.stray : null);
  }

  /** @param {string} key */
  async select(key) {
    this.selected = key;
    await this.draw();
  }

  async draw() {
    if (!this.open && this.items.length) this.selected = keyOf(this.items[0]);
    const item = this.open;
    const plain = Object.entries(this.filter).every(([name, value]) => name === "state" || !value);
    const total = plain && this.counts && this.filter.state in this.counts ? this.counts[this.filter.state] : null;
    this.list.show(this.items, { selected: this.selected, more: this.next !== null, reviewer: this.desk.reviewer(), total });
    if (!item) {
      this.view = null;
      this.selected = null;
      this.claims.leave();
      this.stage.replaceChildren(this.empty(plain));
      return;
    }
    const scheme = await this.schemes.of(item.dataset);
    if (this.open !== item) return;
    if (this.view?.fits(item)) {
      this.view.update(item, this.desk.reviewer());
    } else {
      const told = { step: (/** @type {number} */ by) => this.step(by), decide: (/** @type {Verdict} */ verdict) => this.decide(verdict), undo: (/** @type {Decision} */ decision) => this.undo(decision) };
      if (this.view?.isOlder(item)) toast("It was annotated again meanwhile: look at it anew.");
      const held = this.stage.contains(document.activeElement);
      this.view = new ItemView(item, { scheme, palette: this.palette, reviewer: this.desk.reviewer(), drafts: this.drafts, told });
      this.stage.replaceChildren(this.view.element);
      if (held) this.view.focus();
    }
    this.claims.open(item, this.desk.reviewer());
  }

  /** @param {boolean} plain */
  empty(plain) {
    const quiet = this.filter.state === "open" && plain;
    return h(
      "div",
      { class: "empty-stage" },
      h("h2", {}, quiet ? "Nothing to review" : "Nothing matches"),
      h("p", { class: "note" }, quiet ? "Every doubtful sentence is decided. New ones appear here by themselves, seconds after they were annotated." : "No sentence of the queue fits these filters."),
      quiet
        ? h("p", { class: "note" }, "Send labelled sentences to ", h("code", {}, "POST /v1/sentences"), " or to the sentences topic; the ", h("a", { href: "docs" }, "API documentation"), " shows how.")
        : h("p", {}, h("a", { href: "#/queue" }, "Clear the filters")),
    );
  }

  /** @param {number} by */
  async step(by) {
    const now = this.items.findIndex((item) => keyOf(item) === this.selected);
    if (by > 0 && now + by >= this.items.length && this.next) await this.more();
    const to = this.items[Math.max(0, Math.min(now + by, this.items.length - 1))];
    if (!to || keyOf(to) === this.selected) {
      toast(by > 0 ? "This is the last one." : "This is the first one.");
      return;
    }
    await this.select(keyOf(to));
    this.view?.focus();
  }

  /** @param {Verdict} verdict */
  async decide(verdict) {
    const { view } = this;
    const item = this.open;
    if (!view || !item || item.state === "closed" || this.deciding) return;
    const reviewer = this.desk.reviewer() || (await this.desk.askName());
    if (!reviewer) return;
    this.deciding = true;
    try {
      const decision = await this.decisions.decide(item, reviewer, verdict, view.answer(verdict));
      toast(`${VERDICTS[verdict]}: ${item.id}`, { action: { name: "Undo", run: () => this.undo(decision) } });
      this.drafts.delete(keyOf(item));
      await this.goOn(item);
    } catch (error) {
      this.desk.failed(error);
      if (error instanceof ApiError) this.refresh(); // it may be another one by now
    } finally {
      this.deciding = false;
    }
  }

  /** To the one after the decided one. @param {Item} item */
  async goOn(item) {
    const now = this.items.findIndex((one) => keyOf(one) === keyOf(item));
    if (now + 1 >= this.items.length && this.next) await this.more();
    const to = this.items[now + 1] ?? this.items[now - 1];
    this.take(this.items, this.next);
    this.stray = null;
    this.selected = to ? keyOf(to) : null;
    if (!to) await this.refresh();
    await this.draw();
    this.view?.focus();
  }

  /** Takes a decision back, and opens the item again. @param {Decision | null} [which] */
  async undo(which) {
    const decision = which ?? this.decisions.last;
    if (!decision) {
      toast("There is nothing to undo.");
      return;
    }
    try {
      await this.decisions.withdraw(decision);
    } catch (error) {
      this.desk.failed(error);
      return;
    }
    toast(`Taken back: ${decision.id}`);
    this.selected = keyOf(decision);
    await this.refresh();
    this.view?.focus();
  }

  /** @param {string} key */
  press(key) {
    /** @type {Record<string, () => void>} */
    const keys = {
      e: () => this.decide("error"),
      o: () => this.decide("ok"),
      u: () => this.decide("unsure"),
      c: () => this.view?.correct(),
      z: () => this.undo(),
      n: () => this.step(1),
      j: () => this.step(1),
      p: () => this.step(-1),
      k: () => this.step(-1),
      f: () => this.filters.focus(),
    };
    keys[key]?.();
    return key in keys;
  }
}
