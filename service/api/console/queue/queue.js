/** The queue: what is shown, what is open, and where one goes next. */

import { ApiError } from "../api.js";
import { h, toast } from "../dom.js";
import { emptyStage } from "./empty.js";
import { addressOf, Filters, readFilter } from "./filters.js";
import { ItemView, VERDICTS } from "./item.js";
import { List } from "./list.js";
import { Claims, Decisions, keyOf, pathOf } from "./review.js";
import { Schemes } from "../labels/schemes.js";
import { cut, wordsOf } from "../text.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { Filter } from "./filters.js" */
/** @import { Waiting } from "./outbox.js" */

const PAGE = 50;
const MOST = 200;
const READ_ONLY = "Your key may only read: deciding needs one with the scope `write`.";
const OFFERED_EVERY = 15_000; // what filters offer may be this old: summing up a large queue takes a while

export class QueueView {
  /**
   * @param {Api} api
   * @param {{ reviewer: () => string, mayWrite: () => boolean, askName: () => Promise<string>, failed: (error: unknown) => void,
   *   unsent: (number: number) => void }} desk
   */
  constructor(api, desk) {
    this.api = api;
    this.desk = desk;
    this.decisions = new Decisions(api, {
      changed: () => this.moved(),
      refused: (one, error) => this.refused(one, error),
    });
    this.claims = new Claims(api);
    this.filters = new Filters((filter) => {
      location.hash = addressOf(filter);
    });
    this.list = new List({ open: (key) => this.select(key), more: () => this.more() });
    this.stage = h("section", { class: "stage", "aria-label": "Open sentence" });
    this.element = h(
      "div",
      { class: "queue" },
      h("h1", { class: "sr" }, "Review queue"),
      this.filters.element,
      h("div", { class: "desk" }, this.list.element, this.stage),
    );
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
    /** @type {Map<string, string>} the words of what was decided, for messages */
    this.words = new Map();
    /** @type {string[] | null} */
    this.datasets = null;
    this.schemes = new Schemes(api);
    this.shown = false;
    this.loaded = false;
    this.asked = 0;
    this.offered = 0;
    this.deciding = false;
    this.unsent = this.decisions.outbox.waiting.length;
    desk.unsent(this.unsent);
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    const filter = readFilter(query);
    if (JSON.stringify(filter) !== JSON.stringify(this.filter)) {
      this.selected = null;
      this.items = [];
      this.next = null;
      this.loaded = false;
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
    if (Date.now() - this.offered > OFFERED_EVERY || this.strange) this.choices();
  }

  /** Whether the filter names a dataset that there is not. */
  get strange() {
    const { dataset } = this.filter;
    return dataset !== "" && this.datasets !== null && !this.datasets.includes(dataset) && !this.items.length;
  }

  /** What could not be sent has become more or less. */
  moved() {
    const { length } = this.decisions.outbox.waiting;
    this.desk.unsent(length);
    const fewer = length < this.unsent;
    this.unsent = length;
    this.redraw();
    if (fewer && this.shown) this.refresh();
  }

  /** A decision that had waited was not taken. @param {Waiting} one @param {Error} error */
  refused({ decision, told }, error) {
    const key = keyOf(decision);
    const look = () => {
      location.hash = addressOf({ ...this.filter, state: "all" }) + `&item=${encodeURIComponent(key)}`;
    };
    const what = decision.withdrawn ? "Taking it back" : `Your decision (${VERDICTS[decision.verdict]})`;
    toast(`${what} was not accepted, ${told}: ${error.message}`, {
      wrong: true,
      lasting: true,
      action: { name: this.shown ? "Close" : "Look at it", run: this.shown ? () => {} : look },
    });
    if (!this.shown) return;
    this.selected = key;
    this.refresh();
  }

  async choices() {
    this.offered = Date.now();
    try {
      const { datasets } = await this.api.get("v1/datasets");
      this.datasets = datasets.map((/** @type {{ name: string }} */ one) => one.name);
      const known = this.filter.dataset === "" || this.datasets?.includes(this.filter.dataset);
      this.filters.offer(
        this.datasets ?? [],
        await this.api.get("v1/overview", { dataset: known ? this.filter.dataset : "" }),
      );
      if (!this.items.length) await this.redraw(); // what is missing may be the dataset
    } catch (error) {
      this.desk.failed(error);
    }
  }

  /** @param {{ limit: number, after?: string | null }} part */
  page({ limit, after }) {
    const { free, ...wanted } = this.filter;
    return this.api
      .get("v1/review", { ...wanted, reviewer: free ? this.desk.reviewer() : "", limit, after })
      .catch((error) => {
        // Without its dataset there is nothing; that is told in the place of the sentence.
        if (error instanceof ApiError && error.status === 404) return { items: [], next: null };
        throw error;
      });
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
    this.items = items
      .map((item) => this.decisions.over(item))
      .filter((item) => this.filter.state === "all" || item.state === this.filter.state);
    this.next = next;
    this.loaded = true;
    if (kept && !this.items.some((item) => keyOf(item) === this.selected)) this.stray = kept;
    else this.stray = null;
  }

  /** The open item is not among the others any more: decided, closed or filtered out meanwhile. @param {string} key @param {number} asked */
  async again(key, asked) {
    const at = key.indexOf("/");
    try {
      const found = this.decisions.over(
        await this.api.get(pathOf({ dataset: key.slice(0, at), id: key.slice(at + 1) })),
      );
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
    return (
      this.items.find((item) => keyOf(item) === this.selected) ??
      (this.stray && keyOf(this.stray) === this.selected ? this.stray : null)
    );
  }

  /** @param {string} key */
  async select(key) {
    this.selected = key;
    await this.draw();
  }

  /** Draws again what is there; not while it is still being read, which draws by itself. */
  async redraw() {
    if (this.shown && this.loaded && (this.open || this.selected === null)) await this.draw();
  }

  async draw() {
    if (!this.open && this.items.length) this.selected = keyOf(this.items[0]);
    const item = this.open;
    const plain = Object.entries(this.filter).every(([name, value]) => name === "state" || !value);
    const total = plain && this.counts && this.filter.state in this.counts ? this.counts[this.filter.state] : null;
    const waits = (/** @type {Item} */ one) => this.decisions.waiting(one);
    this.list.show(this.items, {
      selected: this.selected,
      more: this.next !== null,
      reviewer: this.desk.reviewer(),
      total,
      waits,
    });
    if (!item) {
      this.view = null;
      this.selected = null;
      this.claims.leave();
      this.stage.replaceChildren(emptyStage(this.filter, { plain, strange: this.strange }));
      return;
    }
    const scheme = await this.schemes.of(item.dataset);
    if (this.open !== item) return;
    const now = { reviewer: this.desk.reviewer(), may: this.desk.mayWrite(), waiting: this.decisions.waiting(item) };
    if (this.view?.fits(item)) {
      this.view.update(item, now);
    } else {
      const told = {
        step: (/** @type {number} */ by) => this.step(by),
        decide: (/** @type {Verdict} */ verdict) => this.decide(verdict),
        undo: (/** @type {Decision} */ decision) => this.undo(decision),
      };
      if (this.view?.isOlder(item) && item.state !== "closed")
        toast("It was annotated again meanwhile: look at it anew.");
      const held = this.stage.contains(document.activeElement);
      this.view = new ItemView(item, { scheme, now, drafts: this.drafts, told });
      this.stage.replaceChildren(this.view.element);
      if (held) this.view.focus();
    }
    this.claims.open(item, now.may ? now.reviewer : "");
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
    if (!this.desk.mayWrite()) {
      toast(READ_ONLY, { wrong: true });
      return;
    }
    const reviewer = this.desk.reviewer() || (await this.desk.askName());
    if (!reviewer) return;
    this.deciding = true;
    try {
      const words = wordsOf(item);
      this.words.set(keyOf(item), words);
      const { decision, outcome } = await this.decisions.decide(item, reviewer, verdict, view.answer(verdict), words);
      const saved = outcome === "sent";
      toast(
        saved
          ? `${VERDICTS[verdict]}: ${words}`
          : `Not saved yet: ${VERDICTS[verdict]}, ${words}. It is sent when the service answers.`,
        { action: { name: "Undo", run: () => this.undo(decision) } },
      );
      if (saved) this.drafts.delete(keyOf(item)); // else it may still be refused, and chosen again
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
      const show = () => {
        location.hash = addressOf({ ...this.filter, state: "decided" });
      };
      toast(
        "Nothing was decided here since the page was opened. What was decided before has its Undo under State: Decided.",
        { action: { name: "Show", run: show } },
      );
      return;
    }
    const words =
      this.words.get(keyOf(decision)) ??
      (this.open && keyOf(this.open) === keyOf(decision) ? wordsOf(this.open) : cut(decision.id, 40));
    let outcome;
    try {
      outcome = await this.decisions.withdraw(decision, words);
    } catch (error) {
      this.desk.failed(error);
      return;
    }
    toast(
      outcome === "sent"
        ? `Taken back: ${words}`
        : `Not taken back yet: ${words}. It is sent when the service answers.`,
    );
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
