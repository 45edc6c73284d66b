/** The overview's tables: confusions, annotators and the ranker. */

import { h } from "../dom.js";
import { buildQueueHash } from "../queue/filters.js";
import { formatCount, formatPercent, pluralize } from "../text.js";
import { renderMeter } from "./charts.js";
import { renderEmpty, renderSection } from "./layout.js";

/** @import { Annotator, Confusion, Overview } from "../types.js" */

const HEAT_STEPS = 5;
const MAX_TYPES = 24;
const MAX_SHOWN_PAIRS = 20;
const MIN_SHOWN_OFFSET = 0.005; // smaller offsets are rounded to 0.00

/**
 * Content that may be wider than the page, with a hint if it is.
 * @param {HTMLElement} content
 * @param {string} titleId
 */
function renderScrollable(content, titleId) {
  const hint = h("p", { class: "note", "aria-hidden": "true", hidden: true }, "More to the right →");
  const box = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-labelledby": titleId }, content);
  const showHint = () => {
    const hasMore = box.scrollWidth - box.clientWidth - box.scrollLeft > 4;
    hint.hidden = !hasMore;
    box.classList.toggle("cut", hasMore);
  };
  box.addEventListener("scroll", showHint, { passive: true });
  new ResizeObserver(showHint).observe(box);
  return h("div", {}, box, hint);
}

/** @param {Confusion[]} confusions @param {string} dataset */
export function renderConfusionMap(confusions, dataset) {
  const largest = Math.max(1, ...confusions.map((entry) => entry.items));
  /** @param {"given" | "suggested"} side */
  const listTypes = (side) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const entry of confusions) sums.set(entry[side], (sums.get(entry[side]) ?? 0) + entry.items);
    return [...sums]
      .sort((a, b) => b[1] - a[1])
      .slice(0, MAX_TYPES)
      .map(([name]) => name)
      .sort((a, b) => Number(b === "O") - Number(a === "O") || a.localeCompare(b));
  };
  const [rows, columns] = [listTypes("given"), listTypes("suggested")];
  /** @param {string} given @param {string} suggested */
  const renderCell = (given, suggested) => {
    const confusion = confusions.find((entry) => entry.given === given && entry.suggested === suggested);
    if (!confusion || !confusion.items) return h("td", { class: "none" }, h("span", { class: "sr" }, "0"));
    // The square root spreads small numbers out.
    const heat = Math.ceil(HEAT_STEPS * Math.sqrt(confusion.items / largest));
    const decided = confusion.decided
      ? `; ${formatCount(confusion.decided)} decided, ${formatCount(confusion.right)} right`
      : "";
    const description = `${pluralize(confusion.items, "sentence")} given ${given}, suggested ${suggested}${decided}`;
    return h(
      "td",
      { class: `h${heat}` },
      h(
        "a",
        {
          href: buildQueueHash({ dataset, given, suggested, state: "all" }),
          title: description,
          "aria-label": description,
        },
        formatCount(confusion.items),
      ),
    );
  };
  const table = h(
    "table",
    { class: "noise" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td", { class: "corner" }, "given ↓ should be →"),
        columns.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((given) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, given),
          columns.map((suggested) => renderCell(given, suggested)),
        ),
      ),
    ),
  );
  return renderSection(
    "confusions",
    "Confusions",
    "Sentences in review by given and suggested type of a doubtful word. A cell links to them.",
    confusions.length ? renderScrollable(table, "confusions-title") : renderEmpty("No label is doubted."),
  );
}

/** @param {Annotator[]} annotators @param {string} dataset */
export function renderAnnotatorTable(annotators, dataset) {
  const largest = Math.max(1, ...annotators.map((entry) => entry.items));
  const rows = annotators.map(({ annotator, items, decided, errors }) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        annotator === null
          ? h("span", { class: "muted" }, "unknown")
          : h("a", { href: buildQueueHash({ dataset, annotator, state: "all" }) }, h("bdi", {}, annotator)),
      ),
      h("td", { class: "num" }, formatCount(items)),
      h("td", { class: "meter-cell" }, renderMeter(items / largest, "doubt")),
      h("td", { class: "num" }, formatCount(decided)),
      h("td", { class: "num" }, formatCount(errors)),
      h("td", { class: "num muted" }, decided ? formatPercent(errors / decided) : "–"),
    ),
  );
  const headings = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Annotator"),
    h("th", { scope: "col", class: "num" }, "Ever in review"),
    h("td", { class: "meter-cell" }),
    ...["Decided", "Wrong", "Share"].map((name) => h("th", { scope: "col", class: "num" }, name)),
  );
  return renderSection(
    "annotators",
    "Annotators",
    "Sentences that were or are in review, by annotator. Of the flagged ones: how many are decided, how many of these are wrong, and their share. Choose a dataset to see how many sentences they labelled.",
    annotators.length
      ? h("table", { class: "annotators" }, h("thead", {}, headings), h("tbody", {}, rows))
      : renderEmpty("No sentence is flagged."),
  );
}

/** @param {Overview} overview */
export function renderRankerTable({ ranker, ranker_pairs: pairs }) {
  const types = Object.entries(ranker ?? {}).sort((a, b) => b[1] - a[1]);
  const learnedPairs = pairs
    .filter(({ offset }) => Math.abs(offset) >= MIN_SHOWN_OFFSET)
    .sort((a, b) => Math.abs(b.offset) - Math.abs(a.offset))
    .slice(0, MAX_SHOWN_PAIRS);
  /** @type {[string, number][]} */
  const offsets = [
    ...types,
    ...learnedPairs.map(
      ({ given, suggested, offset }) => /** @type {[string, number]} */ ([`${given} → ${suggested}`, offset]),
    ),
  ];
  const largest = Math.max(0.1, ...offsets.map(([, offset]) => Math.abs(offset)));
  const rows = offsets.map(([type, offset]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, type),
      h(
        "td",
        { class: "num" },
        Math.abs(offset) < MIN_SHOWN_OFFSET ? "0.00" : `${offset < 0 ? "−" : "+"}${Math.abs(offset).toFixed(2)}`,
      ),
      h("td", { class: "meter-cell" }, renderMeter(Math.abs(offset) / largest, offset > 0 ? "doubt" : "")),
      h("td", { class: "muted" }, Math.abs(offset) < MIN_SHOWN_OFFSET ? "as before" : offset > 0 ? "sooner" : "later"),
    ),
  );
  const headings = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Given type, or given → suggested"),
    h("th", { scope: "col", class: "num", colspan: 2 }, "Offset"),
    h("th", { scope: "col" }, "Comes"),
  );
  return renderSection(
    "ranker",
    "Ranker",
    "What the ranker has learned from the decisions: types that are wrong more often than their scores suggest come sooner. A pair adds to its given type.",
    rows.length
      ? h("table", { class: "offsets" }, h("thead", {}, headings), h("tbody", {}, rows))
      : renderEmpty("Off: the ranker starts after 25 decisions, unless the dataset's settings say otherwise."),
  );
}
