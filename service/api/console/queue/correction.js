/** The corrected labels: a choice for each flagged word, and for any other word that the reviewer picks. */

import { h, renderArrow } from "../dom.js";
import { proposeLabels } from "../labels/labels.js";
import { formatPercent, truncate } from "../text.js";

/** @import { Item } from "../types.js" */
/** @import { Scheme } from "../labels/labels.js" */

const OTHER_LABEL = "\u0000";

/**
 * A reviewer's unsaved corrections of an item. They stay while the reviewer looks at other items.
 * @typedef {{ revision: number, labels: string[], otherLabel: Set<number>, rows: Set<number>, note: string }} Draft
 */

/** @param {Item} item @param {Scheme} scheme @returns {Draft} */
export function createDraft(item, scheme) {
  const labels = proposeLabels(item, scheme);
  const changed = item.labels.map((_, index) => index).filter((index) => labels[index] !== item.labels[index]);
  return {
    revision: item.revision,
    labels,
    otherLabel: new Set(),
    rows: new Set([...item.doubtful.map((flag) => flag.index), ...changed].sort((a, b) => a - b)),
    note: "",
  };
}

/**
 * The correction of a decision: the corrected labels, or only the wrong words, or nothing. Prefixes are adapted to what the
 * reviewer chose, so that the labels are valid in the scheme.
 * @param {Item} item
 * @param {Draft} draft
 * @param {Scheme} scheme
 * @returns {{ labels?: string[], words?: number[] }}
 */
export function collectCorrection(item, draft, scheme) {
  const changed = item.labels.map((_, index) => index).filter((index) => draft.labels[index] !== item.labels[index]);
  if (draft.otherLabel.size) return { words: [...new Set([...changed, ...draft.otherLabel])].sort((a, b) => a - b) };
  return changed.length ? { labels: scheme.repair(draft.labels, item.labels) } : {};
}

/** The table with one row per word. */
export class Correction {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   * @param {Draft} draft
   * @param {{ onChange: () => void, onDone: () => void }} handlers
   *   `onDone`: the reviewer leaves a choice with Enter or Escape
   */
  constructor(item, scheme, draft, { onChange, onDone }) {
    this.item = item;
    this.draft = draft;
    this.onChange = onChange;
    this.onDone = onDone;
    this.options = scheme.listOptions(item);
    this.flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
    this.body = h("tbody");
    this.element = h(
      "table",
      { class: "correction" },
      h("caption", { class: "sr" }, "Doubtful words and their corrected labels"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["Word", "Given", "", "Corrected", "Suggested", "Threshold"].map((name) =>
            name ? h("th", { scope: "col", class: getCellClass(name) }, name) : h("td"),
          ),
        ),
      ),
      this.body,
    );
    this.renderRows();
  }

  renderRows() {
    this.body.replaceChildren(...[...this.draft.rows].sort((a, b) => a - b).map((index) => this.renderRow(index)));
  }

  /** @param {number} index */
  renderRow(index) {
    const { item } = this;
    const flag = this.flags.get(index);
    const pGiven = item.words[index]?.p_given;
    return h(
      "tr",
      { class: flag ? "" : "extra", "data-row": index },
      h("th", { scope: "row" }, h("bdi", { class: flag ? "doubtful" : "" }, truncate(item.tokens[index], 60))),
      h(
        "td",
        { class: "given" },
        h("span", { class: "label" }, item.labels[index]),
        pGiven === null || pGiven === undefined ? "" : h("span", { class: "p" }, formatPercent(pGiven)),
      ),
      h("td", {}, renderArrow()),
      h("td", {}, this.renderChoice(index)),
      h(
        "td",
        { class: "suggested" },
        flag
          ? [
              h("span", { class: "label" }, flag.suggested),
              flag.p_suggested === null ? null : h("span", { class: "p" }, formatPercent(flag.p_suggested)),
            ]
          : h("span", { class: "muted" }, "–"),
      ),
      h(
        "td",
        { class: "num", "data-name": "threshold" },
        flag && flag.threshold !== null ? flag.threshold.toFixed(3) : "–",
      ),
    );
  }

  /** @param {number} index */
  renderChoice(index) {
    const { item, draft } = this;
    const flag = this.flags.get(index);
    const given = item.labels[index];
    const select = /** @type {HTMLSelectElement} */ (
      h(
        "select",
        {
          "aria-label": `Corrected label of ${truncate(item.tokens[index], 60)}`,
          "data-choice": index,
          name: `label-${index}`,
        },
        [...new Set([...this.options, given, draft.labels[index]])].map((label) =>
          h(
            "option",
            { value: label },
            label + (label === given ? " (as given)" : label === flag?.suggested ? " (suggested)" : ""),
          ),
        ),
        h("option", { value: OTHER_LABEL }, "wrong, another label"),
      )
    );
    select.value = draft.otherLabel.has(index) ? OTHER_LABEL : draft.labels[index];
    select.addEventListener("change", () => {
      if (select.value === OTHER_LABEL) draft.otherLabel.add(index);
      else draft.otherLabel.delete(index);
      draft.labels[index] = select.value === OTHER_LABEL ? given : select.value;
      this.onChange();
    });
    select.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      this.onDone();
    });
    return select;
  }

  /**
   * Focuses the choice of a word, and adds it if there is none. Without an index it focuses the first.
   * @param {number} [index]
   */
  focus(index) {
    if (index !== undefined && !this.draft.rows.has(index)) {
      this.draft.rows.add(index);
      this.renderRows();
    }
    const selector = index === undefined ? "[data-choice]" : `[data-choice="${index}"]`;
    /** @type {HTMLElement | null} */ (this.body.querySelector(selector))?.focus();
  }
}

/** @param {string} name */
const getCellClass = (name) => (name === "Threshold" ? "num" : "");
