/** The page of one annotator: their figures, what they confuse most, and their sentences in review. */

import { ApiError } from "../api.js";
import { h } from "../dom.js";
import { explainConfusion, formatF1 } from "../overview/annotators.js";
import { renderEmpty, renderSection } from "../overview/layout.js";
import { formatCount, pluralize } from "../text.js";
import { View } from "../view.js";
import { renderOwnItem } from "./own_item.js";

/** @import { Api } from "../api.js" */
/** @import { AnnotatorFigures, Dataset, DatasetAnnotators, OwnItem } from "../types.js" */
/** @typedef {{ showError: (error: unknown) => void, getOwnName: () => string }} Context */

const MAX_CONFUSIONS = 5;

/** @extends {View<Context>} */
export class MineView extends View {
  /** @param {Api} api @param {Context} context `getOwnName`: the name of an annotator's key; empty for others */
  constructor(api, context) {
    super(context);
    this.api = api;
    this.annotator = "";
    this.select = /** @type {HTMLSelectElement} */ (h("select", { id: "mine-dataset" }));
    this.select.addEventListener("change", () => {
      const query = { dataset: this.select.value, ...(this.context.getOwnName() ? {} : { annotator: this.annotator }) };
      location.hash = `#/mine?${new URLSearchParams(query)}`;
    });
    this.title = h("h1", {}, "My annotations");
    this.body = h("div", { class: "overview-body" });
    this.element = h(
      "div",
      { class: "overview mine" },
      h(
        "div",
        { class: "overview-head" },
        this.title,
        h("div", { class: "field" }, h("label", { for: "mine-dataset" }, "Dataset"), this.select),
      ),
      this.body,
    );
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const own = this.context.getOwnName();
    this.annotator = own || (query.get("annotator") ?? "");
    this.title.replaceChildren(own ? "My annotations" : "Annotations of ", own ? "" : h("bdi", {}, this.annotator));
    const asked = query.get("dataset") ?? "";
    const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
    const names = datasets.map((dataset) => dataset.name);
    const dataset = names.includes(asked) ? asked : (names[0] ?? "");
    const path = `v1/datasets/${encodeURIComponent(dataset)}/annotators/${encodeURIComponent(this.annotator)}`;
    const items = (/** @type {string} */ state) => this.api.get(`${path}/items`, { state });
    const none = (/** @type {unknown} */ error) => {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      return null;
    };
    const [answer, ...pages] =
      dataset && this.annotator
        ? await Promise.all([this.api.get(path).catch(none), items("open"), items("adjudication"), items("decided")])
        : [null];
    if (!this.isCurrent(query)) return;
    this.select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    this.select.value = dataset;
    const listed = pages.flatMap((/** @type {{ items: OwnItem[] }} */ page) => page.items);
    const isCut = pages.some((/** @type {{ next: string | null }} */ page) => page.next !== null);
    this.body.replaceChildren(...this.renderSections(answer, listed, isCut));
  }

  /** @param {DatasetAnnotators | null} answer @param {OwnItem[]} items @param {boolean} isCut */
  renderSections(answer, items, isCut) {
    if (!answer) return [renderEmpty("There are no sentences of this annotator in the dataset.")];
    const [figures] = answer.annotators;
    const list = (
      /** @type {string} */ id,
      /** @type {string} */ title,
      /** @type {OwnItem["result"][]} */ results,
    ) => {
      const chosen = items.filter((item) => results.includes(item.result));
      return renderSection(
        id,
        `${title} (${formatCount(chosen.length)})`,
        "",
        chosen.length ? h("ol", { class: "own-items" }, chosen.map(renderOwnItem)) : renderEmpty("None."),
      );
    };
    return [
      renderFigures(figures, answer),
      answer.not_shown ? null : renderConfusions(figures),
      answer.not_shown ? null : renderWeeks(figures),
      list("wrong", "Wrong", ["wrong"]),
      list("doubted", "In doubt", ["doubted", "unclear"]),
      list("right", "Right", ["right"]),
      isCut ? h("p", { class: "note" }, "Only the first sentences of each kind are shown.") : null,
    ].filter((part) => part !== null);
  }
}

/** @param {AnnotatorFigures} figures @param {DatasetAnnotators} answer */
function renderFigures(figures, answer) {
  const parts = [
    pluralize(figures.sentences, "sentence"),
    `${formatCount(figures.decided)} decided by reviewers, ${formatCount(figures.confirmed_errors)} wrong`,
    ...(answer.not_shown ? [] : [`F1 against the model ${formatF1(figures)}`]),
  ];
  return renderSection(
    "figures",
    "In numbers",
    `${parts.join("; ")}.`,
    h("p", { class: "note" }, answer.not_shown ?? answer.meaning),
  );
}

/** @param {AnnotatorFigures} figures */
function renderConfusions({ confusions }) {
  return renderSection(
    "own-confusions",
    "What differs most",
    "Compared with what the model finds, which may be wrong too.",
    confusions.length
      ? h(
          "ul",
          {},
          confusions.slice(0, MAX_CONFUSIONS).map((entry) => h("li", {}, explainConfusion(entry))),
        )
      : renderEmpty("Nothing."),
  );
}

/** @param {AnnotatorFigures} figures */
function renderWeeks({ weeks }) {
  const rows = weeks.map(({ week, sentences, f1 }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, week),
      h("td", { class: "num" }, formatCount(sentences)),
      h("td", { class: "num" }, f1 === null ? "–" : f1.toFixed(2)),
    ),
  );
  const headings = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Week of"),
    ...["Sentences", "F1"].map((name) => h("th", { scope: "col", class: "num" }, name)),
  );
  return renderSection(
    "weeks",
    "By week",
    "",
    h("table", { class: "annotators" }, h("thead", {}, headings), h("tbody", {}, rows)),
  );
}
