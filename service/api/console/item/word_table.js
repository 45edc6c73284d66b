/** The labels word by word: a choice for each flagged or corrected word, and for any other that the reviewer picks. */

import { h, renderArrow } from "../dom.js";
import { formatPercent, truncate } from "../text.js";

/** @import { Draft } from "./draft.js" */

const OTHER_LABEL = "\u0000";

/** The table with one row per word. It is closed until the reviewer asks for it. */
export class WordTable {
  /**
   * @param {Draft} draft
   * @param {{ onChange: () => void, onDone: () => void }} handlers
   *   `onDone`: the reviewer leaves a choice with Enter or Escape
   */
  constructor(draft, { onChange, onDone }) {
    const { item, scheme } = draft;
    this.item = item;
    this.draft = draft;
    this.onChange = onChange;
    this.onDone = onDone;
    this.options = scheme.listOptions(item);
    this.flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
    this.body = h("tbody");
    const table = h(
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
    this.element = /** @type {HTMLDetailsElement} */ (
      h(
        "details",
        { class: "word-table" },
        h("summary", {}, "Labels word by word ", h("kbd", {}, "c")),
        table,
        // A choice takes letters to find a label, so the keys that decide work outside of it only.
        h(
          "p",
          { class: "note leave", id: "leave-words" },
          h("kbd", {}, "Enter"),
          " or ",
          h("kbd", {}, "Esc"),
          " goes back to the sentence, where ",
          h("kbd", {}, "e"),
          " saves and ",
          h("kbd", {}, "z"),
          " undoes. In a choice, ",
          h("kbd", {}, "Ctrl+Z"),
          " undoes.",
        ),
      )
    );
    this.show();
  }

  /** Shows the labels of the draft. A choice keeps the focus. */
  show() {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const choice = focused && this.body.contains(focused) ? focused.dataset.choice : undefined;
    this.body.replaceChildren(...[...this.draft.rows].sort((a, b) => a - b).map((index) => this.renderRow(index)));
    if (choice !== undefined) this.focusChoice(`[data-choice="${choice}"]`);
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
          "aria-describedby": "leave-words",
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
      draft.chooseLabel(index, select.value === OTHER_LABEL ? null : select.value);
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
   * Opens the table and focuses the choice of a word, which it adds if there is none.
   * @param {number | null} index null: the first
   */
  focus(index) {
    this.element.open = true;
    if (index !== null && !this.draft.rows.has(index)) {
      this.draft.rows.add(index);
      this.show();
    }
    this.focusChoice(index === null ? "[data-choice]" : `[data-choice="${index}"]`);
  }

  /** @param {string} selector */
  focusChoice(selector) {
    /** @type {HTMLElement | null} */ (this.body.querySelector(selector))?.focus();
  }
}

/** @param {string} name */
const getCellClass = (name) => (name === "Threshold" ? "num" : "");
