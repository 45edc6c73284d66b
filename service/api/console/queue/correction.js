/** The corrected labels: one choice for each doubtful word, and for any other that the reviewer picks. */

import { arrow, h } from "../dom.js";
import { proposal } from "../labels/labels.js";
import { cut, percent } from "../text.js";

/** @import { Item } from "../types.js" */
/** @import { Scheme } from "../labels/labels.js" */

const UNKNOWN = "\u0000";

/**
 * What a reviewer has chosen so far; kept while they look at other items.
 * @typedef {{ revision: number, labels: string[], unknown: Set<number>, rows: Set<number>, note: string }} Draft
 */

/** @param {Item} item @param {Scheme} scheme @returns {Draft} */
export function draftOf(item, scheme) {
  const labels = proposal(item, scheme);
  const changed = item.labels.map((_, place) => place).filter((place) => labels[place] !== item.labels[place]);
  return {
    revision: item.revision,
    labels,
    unknown: new Set(),
    rows: new Set([...item.doubtful.map((flag) => flag.index), ...changed].sort((a, b) => a - b)),
    note: "",
  };
}

/**
 * The part of a decision that says what is wrong: the corrected labels, or only which words, or nothing.
 * @param {Item} item
 * @param {Draft} draft
 * @returns {{ labels?: string[], words?: number[] }}
 */
export function wrongOf(item, draft) {
  const changed = item.labels.map((_, place) => place).filter((place) => draft.labels[place] !== item.labels[place]);
  if (draft.unknown.size) return { words: [...new Set([...changed, ...draft.unknown])].sort((a, b) => a - b) };
  return changed.length ? { labels: draft.labels } : {};
}

/** The rows with a choice each. */
export class Correction {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   * @param {Draft} draft
   * @param {{ changed: () => void, left: () => void }} told `left`: the choice is made, by Enter or Escape
   */
  constructor(item, scheme, draft, { changed, left }) {
    this.item = item;
    this.draft = draft;
    this.changed = changed;
    this.left = left;
    this.options = scheme.options(item);
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
            name ? h("th", { scope: "col", class: numeric(name) }, name) : h("td"),
          ),
        ),
      ),
      this.body,
    );
    this.fill();
  }

  fill() {
    this.body.replaceChildren(...[...this.draft.rows].sort((a, b) => a - b).map((place) => this.row(place)));
  }

  /** @param {number} place */
  row(place) {
    const { item } = this;
    const flag = this.flags.get(place);
    const p = item.words[place]?.p_given;
    return h(
      "tr",
      { class: flag ? "" : "extra", "data-row": place },
      h("th", { scope: "row" }, h("bdi", { class: flag ? "doubtful" : "" }, cut(item.tokens[place], 60))),
      h(
        "td",
        { class: "given" },
        h("span", { class: "label" }, item.labels[place]),
        p === null || p === undefined ? "" : h("span", { class: "p" }, percent(p)),
      ),
      h("td", {}, arrow()),
      h("td", {}, this.choice(place)),
      h(
        "td",
        { class: "suggested" },
        flag
          ? [
              h("span", { class: "label" }, flag.suggested),
              flag.p_suggested === null ? null : h("span", { class: "p" }, percent(flag.p_suggested)),
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

  /** @param {number} place */
  choice(place) {
    const { item, draft } = this;
    const flag = this.flags.get(place);
    const given = item.labels[place];
    const choice = /** @type {HTMLSelectElement} */ (
      h(
        "select",
        {
          "aria-label": `Corrected label of ${cut(item.tokens[place], 60)}`,
          "data-choice": place,
          name: `label-${place}`,
        },
        this.options.map((label) =>
          h(
            "option",
            { value: label },
            label + (label === given ? " (as given)" : label === flag?.suggested ? " (suggested)" : ""),
          ),
        ),
        h("option", { value: UNKNOWN }, "wrong, another label"),
      )
    );
    choice.value = draft.unknown.has(place) ? UNKNOWN : draft.labels[place];
    choice.addEventListener("change", () => {
      if (choice.value === UNKNOWN) draft.unknown.add(place);
      else draft.unknown.delete(place);
      draft.labels[place] = choice.value === UNKNOWN ? given : choice.value;
      this.changed();
    });
    choice.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      this.left();
    });
    return choice;
  }

  /** Gives the focus to a word's choice, which is made where there is none; without a word to the first. @param {number} [place] */
  focus(place) {
    if (place !== undefined && !this.draft.rows.has(place)) {
      this.draft.rows.add(place);
      this.fill();
    }
    const wanted = place === undefined ? "[data-choice]" : `[data-choice="${place}"]`;
    /** @type {HTMLElement | null} */ (this.body.querySelector(wanted))?.focus();
  }
}

/** @param {string} name */
const numeric = (name) => (name === "Threshold" ? "num" : "");
