/** The annotators of a dataset: sentences, what reviewers found, and agreement with the model. */

import { h } from "../dom.js";
import { buildQueueHash } from "../queue/filters.js";
import { formatCount } from "../text.js";
import { renderEmpty, renderSection } from "./layout.js";

/** @import { AnnotatorFigures, DatasetAnnotators } from "../types.js" */

const OTHER = "(other)";

/** The page of one annotator. @param {string} dataset @param {string} annotator */
export const buildAnnotatorHash = (dataset, annotator) => `#/mine?${new URLSearchParams({ dataset, annotator })}`;

/** F1 with its interval, such as `0.87 (0.81–0.92)`. @param {AnnotatorFigures} figures */
export function formatF1({ f1, low, high }) {
  if (f1 === null || low === null || high === null) return "–";
  return `${f1.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}

/** What differs most from the model, in words. @param {AnnotatorFigures} figures */
export function describeConfusion({ confusions }) {
  if (!confusions.length) return "–";
  return explainConfusion(confusions[0]);
}

/** @param {{ given: string, found: string, spans: number }} confusion */
export function explainConfusion({ given, found, spans }) {
  if (given === "O") return `${found} missed (${formatCount(spans)})`;
  if (found === "O") return `${given} where the model finds nothing (${formatCount(spans)})`;
  if (given === found) return `extent of ${given} (${formatCount(spans)})`;
  return `${given} for ${found} (${formatCount(spans)})`;
}

/** @param {DatasetAnnotators} figures @param {string} dataset */
export function renderAnnotatorFigures({ annotators, meaning, not_shown: notShown }, dataset) {
  const rows = annotators.map((figures) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        figures.annotator === OTHER
          ? OTHER
          : h("a", { href: buildAnnotatorHash(dataset, figures.annotator) }, h("bdi", {}, figures.annotator)),
      ),
      h("td", { class: "num" }, formatCount(figures.sentences)),
      h(
        "td",
        { class: "num" },
        h(
          "a",
          { href: buildQueueHash({ dataset, annotator: figures.annotator, state: "all" }) },
          formatCount(figures.items),
        ),
      ),
      h("td", { class: "num" }, formatCount(figures.decided)),
      h("td", { class: "num" }, formatCount(figures.confirmed_errors)),
      h("td", { class: "num" }, figures.errors_per_100 === null ? "–" : figures.errors_per_100.toFixed(1)),
      ...(notShown
        ? []
        : [h("td", { class: "num" }, formatF1(figures)), h("td", { class: "muted" }, describeConfusion(figures))]),
    ),
  );
  const numbers = [
    "Sentences",
    "Ever in review",
    "Decided",
    "Wrong",
    "Wrong per 100",
    ...(notShown ? [] : ["F1 (95 %)"]),
  ];
  const headings = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Annotator"),
    ...numbers.map((name) => h("th", { scope: "col", class: "num" }, name)),
    notShown ? null : h("th", { scope: "col" }, "Differs most"),
  );
  return renderSection(
    "annotators",
    "Annotators",
    "Sentences that were judged, those that were or are in review, and what reviewers decided. What nobody reviewed is not among the wrong ones.",
    annotators.length
      ? h(
          "div",
          { class: "scroll", tabindex: 0, role: "group", "aria-labelledby": "annotators-title" },
          h("table", { class: "annotators" }, h("thead", {}, headings), h("tbody", {}, rows)),
        )
      : renderEmpty("No sentence names an annotator."),
    annotators.length ? h("p", { class: "note" }, notShown ?? meaning) : null,
  );
}
