/** The overview's table of reviewers: how far each pair agrees. */

import { h } from "../dom.js";
import { renderSection } from "../overview/layout.js";
import { buildQueueHash } from "../queue/filters.js";
import { formatCount, pluralize, truncate } from "../text.js";

/** @import { Agreement, AgreementFigures } from "../types.js" */

/**
 * @param {Agreement} agreement
 * @param {number} disputes items in adjudication
 */
export function renderAgreement(agreement, disputes) {
  const { overall, pairs } = agreement;
  if (!overall.items && agreement.overlap === 1) return null;
  const rows = pairs.map((pair) =>
    renderRow([h("bdi", {}, truncate(pair.first, 40)), " and ", h("bdi", {}, truncate(pair.second, 40))], pair),
  );
  if (pairs.length > 1) rows.push(renderRow(["All pairs"], overall));
  const headings = ["Reviewers", "Sentences", "Kappa", "95\u202f%", "Span F1", "95\u202f%"].map((name, index) =>
    h("th", { scope: "col", class: index ? "num" : null }, name),
  );
  const link = disputes
    ? h(
        "p",
        {},
        h(
          "a",
          { href: buildQueueHash({ dataset: agreement.dataset, state: "adjudication" }) },
          `${pluralize(disputes, "sentence")} in adjudication`,
        ),
      )
    : null;
  return renderSection(
    "agreement",
    "Agreement of reviewers",
    `Sentences that several reviewers have decided (${pluralize(agreement.overlap, "decision")} needed). Kappa compares the types of the words and corrects for chance; span F1 compares whole entities. 1 is full agreement.`,
    pairs.length
      ? h("table", { class: "agreement" }, h("thead", {}, h("tr", {}, headings)), h("tbody", {}, rows))
      : h("p", { class: "empty" }, "No sentence has the answers of two reviewers yet."),
    link,
  );
}

/** @param {(Node | string)[]} name @param {AgreementFigures} figures */
const renderRow = (name, figures) =>
  h(
    "tr",
    {},
    h("th", { scope: "row" }, name),
    h("td", { class: "num" }, formatCount(figures.items)),
    h("td", { class: "num" }, formatFigure(figures.kappa)),
    h("td", { class: "num muted" }, formatInterval(figures.kappa_low, figures.kappa_high)),
    h("td", { class: "num" }, formatFigure(figures.f1)),
    h("td", { class: "num muted" }, formatInterval(figures.f1_low, figures.f1_high)),
  );

/** @param {number | null} figure */
const formatFigure = (figure) => (figure === null ? "–" : figure.toFixed(2));

/** @param {number | null} low @param {number | null} high */
const formatInterval = (low, high) =>
  low === null || high === null ? "–" : `${formatFigure(low)} to ${formatFigure(high)}`;
