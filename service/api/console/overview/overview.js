/** What the queue and the decisions add up to. */

import { h } from "../dom.js";
import { cut } from "../text.js";
import {
  annotatorTable,
  confusionMap,
  figures,
  flagChart,
  precisionChart,
  rankerTable,
  scoreChart,
  thresholdChart,
} from "./sections.js";

/** @import { Dataset, Overview, Thresholds } from "../types.js" */
/** @import { Api } from "../api.js" */

const MOST_ASKED = 12;
const EVERY = 3000;

export class OverviewView {
  /** @param {Api} api @param {{ failed: (error: unknown) => void }} desk */
  constructor(api, desk) {
    this.api = api;
    this.desk = desk;
    this.dataset = "";
    this.select = /** @type {HTMLSelectElement} */ (h("select", { id: "overview-dataset" }));
    this.select.addEventListener("change", () => {
      location.hash = `#/overview${this.select.value ? `?${new URLSearchParams({ dataset: this.select.value })}` : ""}`;
    });
    this.body = h("div", { class: "overview-body" });
    this.element = h(
      "div",
      { class: "overview" },
      h(
        "div",
        { class: "overview-head" },
        h("h1", {}, "Overview"),
        h("div", { class: "field" }, h("label", { for: "overview-dataset" }, "Dataset"), this.select),
      ),
      this.body,
    );
    this.shown = false;
    this.asked = 0;
    this.drawn = 0;
    this.waiting = false;
    /** @type {(() => void) | null} */
    this.draw = null;
    new ResizeObserver(() => this.fit()).observe(this.body);
    this.width = 0;
  }

  /** Charts are drawn in the size they are shown at. */
  fit() {
    if (!this.shown || !this.draw || Math.abs(this.body.clientWidth - this.width) < 8) return;
    this.draw();
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    this.shown = true;
    this.dataset = query.get("dataset") ?? "";
    await this.refresh();
  }

  hide() {
    this.shown = false;
  }

  /** Drawn anew at once, but not all the time while much is coming in. */
  changed() {
    if (!this.shown || this.waiting) return;
    this.waiting = true;
    setTimeout(
      () => {
        this.waiting = false;
        if (this.shown) this.refresh();
      },
      Math.max(0, this.drawn + EVERY - Date.now()),
    );
  }

  async refresh() {
    const asked = (this.asked += 1);
    this.drawn = Date.now();
    try {
      const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
      const names = datasets.map((one) => one.name);
      // One dataset is what "all" are: then everything can be told, recall too.
      const one = this.dataset || (names.length === 1 ? names[0] : "");
      if (one && !names.includes(one)) {
        if (asked === this.asked && this.shown) this.strange(names, one);
        return;
      }
      const wanted = one ? [one] : names.slice(0, MOST_ASKED);
      const [overview, ...learned] = await Promise.all([
        this.api.get("v1/overview", { dataset: one }),
        ...wanted.map((name) => this.api.get(`v1/datasets/${encodeURIComponent(name)}/thresholds`)),
      ]);
      if (asked !== this.asked || !this.shown) return;
      this.offer(names, one);
      this.draw = () => {
        this.width = this.body.clientWidth;
        if (!this.width) return; // not on the page yet: it is told when it is
        const top = scrollY;
        const classes = this.body.querySelector("details.classes[open]") !== null;
        this.body.replaceChildren(
          ...this.sections(overview, learned, { one, whole: learned.length === names.length || one !== "" }),
        );
        this.body.querySelector("details.classes")?.toggleAttribute("open", classes);
        scrollTo(0, top);
      };
      this.draw();
    } catch (error) {
      this.desk.failed(error);
    }
  }

  /** There is no such dataset. @param {string[]} names @param {string} one */
  strange(names, one) {
    this.draw = null;
    this.offer(names, "");
    this.body.replaceChildren(
      h(
        "p",
        { class: "empty" },
        "There is no dataset called ",
        h("b", {}, cut(one, 80)),
        ". ",
        h("a", { href: "#/overview" }, "Show all datasets"),
      ),
    );
  }

  /** @param {string[]} names @param {string} one */
  offer(names, one) {
    const options = [
      ...(names.length === 1 ? [] : [h("option", { value: "" }, "All")]),
      ...names.map((name) => h("option", { value: name }, name)),
    ];
    this.select.replaceChildren(...options);
    this.select.value = one;
  }

  /**
   * @param {Overview} overview
   * @param {Thresholds[]} learned
   * @param {{ one: string, whole: boolean }} about
   */
  sections(overview, learned, { one, whole }) {
    const half = this.width < 760 ? this.width : (this.width - 48) / 2;
    const busiest = [...learned].sort((a, b) => b.sentences - a.sentences)[0];
    return [
      figures(overview, whole ? learned : []),
      h("div", { class: "columns" }, flagChart(overview, whole ? learned : [], half), precisionChart(overview, half)),
      scoreChart(overview, this.width),
      busiest ? thresholdChart(busiest, this.width, !one && learned.length > 1) : null,
      h("div", { class: "columns" }, confusionMap(overview.confusions, one), annotatorTable(overview.annotators, one)),
      one ? rankerTable(overview.ranker) : null,
    ].filter((part) => part !== null);
  }
}
