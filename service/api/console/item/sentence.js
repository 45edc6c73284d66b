/** A sentence with given entities above its words, suggested ones below, and doubtful words marked. */

import { h } from "../dom.js";
import { diffSpans, indexByWord } from "../labels/spans.js";
import { describeDoubt, formatParts, isAboutWord } from "../queue/wording.js";
import { formatPercent, pluralize, truncate } from "../text.js";

/** @import { Item, Span, SpanChange } from "../types.js" */
/** @import { WordRange } from "../labels/spans.js" */
/** @import { Scheme } from "../labels/scheme.js" */
/** @import { Doubt } from "../queue/wording.js" */

const MAX_UNCUT_WORDS = 150;
const CONTEXT_WORDS = 25;
const MAX_DESCRIBED_WORDS = 4;

/** The words of a sentence. One word can have the focus; several can be selected. */
export class SentenceView {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   */
  constructor(item, scheme) {
    this.item = item;
    this.scheme = scheme;
    this.showsAllWords = item.tokens.length <= MAX_UNCUT_WORDS;
    this.labels = item.labels;
    this.flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
    this.readout = h("p", { class: "readout" });
    this.wordList = h("div", {
      class: "words",
      role: "listbox",
      "aria-multiselectable": "true",
      "aria-label": "Words of the sentence",
      on: {
        focusin: (/** @type {Event} */ event) =>
          this.withWordIndex(event, (index) => this.showReadout(index === this.head ? null : index)),
        mouseover: (/** @type {Event} */ event) => this.withWordIndex(event, (index) => this.showReadout(index)),
        mouseleave: () => this.showReadout(null),
      },
    });
    this.element = h(
      "div",
      { class: "sentence" },
      h("p", { class: "sr" }, item.tokens.join(" ")),
      h("p", { class: "legend" }, "Above the words: as given. Below: as corrected."),
      this.wordList,
      this.readout,
    );
    /** @type {WordRange | null} */
    this.selected = null;
    /** @type {number | null} */
    this.head = null;
    /** @type {Doubt | null} */
    this.doubt = null;
    new ResizeObserver(() => this.repeatWrappedNames()).observe(this.wordList);
  }

  /** Repeats the name of an entity that continues on the next line. */
  repeatWrappedNames() {
    const words = /** @type {HTMLElement[]} */ ([...this.wordList.querySelectorAll("[data-index]")]);
    words.forEach((word, index) => {
      const isWrapped = index > 0 && word.offsetTop > words[index - 1].offsetTop;
      for (const piece of /** @type {NodeListOf<HTMLElement>} */ (word.querySelectorAll("i[data-type]:not(.first)"))) {
        const name = piece.dataset.type ?? "";
        piece.textContent = isWrapped ? name : "";
        piece.classList.toggle("spill", isWrapped && Number(piece.dataset.room) > name.length + 1);
      }
    });
  }

  /** Shows the sentence with these corrected labels. @param {string[]} labels */
  show(labels) {
    this.labels = labels;
    const focusedIndex = this.wordList.contains(document.activeElement)
      ? this.getWordIndex(document.activeElement)
      : null;
    const above = indexByWord(this.scheme.parseSpans(this.item.labels));
    const below = indexByWord(diffSpans(this.item.labels, labels, this.scheme));
    const entities = indexByWord(this.scheme.parseSpans(labels));
    /** @type {Node[]} */
    const elements = [];
    let nextIndex = 0;
    for (const index of this.selectWords()) {
      if (index > nextIndex) elements.push(this.renderGap(index - nextIndex));
      const afterGap = index !== nextIndex || index === 0;
      elements.push(this.renderWord(index, above.get(index), below.get(index), afterGap, entities.get(index)));
      nextIndex = index + 1;
    }
    if (nextIndex < this.item.tokens.length) elements.push(this.renderGap(this.item.tokens.length - nextIndex));
    this.wordList.replaceChildren(...elements);
    this.repeatWrappedNames();
    this.showSelection(this.selected, this.head, this.doubt);
    if (focusedIndex !== null)
      /** @type {HTMLElement | null} */ (this.wordList.querySelector(`[data-index="${focusedIndex}"]`))?.focus();
  }

  /**
   * @param {WordRange | null} range the selected words
   * @param {number | null} head the word with the focus
   * @param {Doubt | null} doubt about the selected words
   */
  showSelection(range, head, doubt) {
    this.selected = range;
    this.head = head;
    this.doubt = doubt;
    const words = /** @type {HTMLElement[]} */ ([...this.wordList.querySelectorAll("[data-index]")]);
    const indices = words.map((word) => Number(word.dataset.index));
    const focusable = head !== null && indices.includes(head) ? head : indices[0];
    words.forEach((word, place) => {
      const isSelected = range !== null && range.start <= indices[place] && indices[place] < range.end;
      word.classList.toggle("selected", isSelected);
      word.setAttribute("aria-selected", String(isSelected));
      word.tabIndex = indices[place] === focusable ? 0 : -1;
    });
    this.showReadout(null);
  }

  /** Shows words that were left out of a long sentence. @param {WordRange} range */
  reveal({ start, end }) {
    if ([start, end - 1].every((index) => this.wordList.querySelector(`[data-index="${index}"]`))) return;
    this.showsAllWords = true;
    this.show(this.labels);
  }

  /** The indices of all words, or of those around the flags in a long sentence. */
  selectWords() {
    const size = this.item.tokens.length;
    if (this.showsAllWords) return Array.from({ length: size }, (_, index) => index);
    const indices = new Set();
    for (const index of this.flags.size ? this.flags.keys() : [0]) {
      for (
        let neighbour = Math.max(index - CONTEXT_WORDS, 0);
        neighbour <= Math.min(index + CONTEXT_WORDS, size - 1);
        neighbour += 1
      )
        indices.add(neighbour);
    }
    return [...indices].sort((a, b) => a - b);
  }

  /** @param {number} leftOut */
  renderGap(leftOut) {
    const showAllWords = (/** @type {Event} */ event) => {
      event.stopPropagation();
      this.showsAllWords = true;
      this.show(this.labels);
    };
    return h(
      "button",
      { type: "button", role: "option", "aria-selected": "false", class: "gap plain", on: { click: showAllWords } },
      `… ${pluralize(leftOut, "word")} …`,
    );
  }

  /**
   * @param {number} index
   * @param {Span | undefined} above
   * @param {SpanChange | undefined} below
   * @param {boolean} afterGap after words that are left out: the span's name is repeated
   * @param {Span | undefined} entity that the word belongs to, as corrected
   */
  renderWord(index, above, below, afterGap, entity) {
    const description = this.describeWord(index);
    const isJoined = [above, below].some((span) => span && index + 1 < span.end);
    const isDoubtful = this.flags.has(index);
    return h(
      "span",
      {
        class: `w${isDoubtful ? " doubtful" : ""}${isJoined ? " joined" : ""}`,
        role: "option",
        title: description,
        "data-index": index,
      },
      this.renderSpanPiece(above, index, "g", afterGap),
      h("bdi", {}, truncate(this.item.tokens[index])),
      h("span", { class: "sr" }, `${this.describeEntity(index, entity)}${isDoubtful ? "; doubtful" : ""}`),
      this.renderSpanPiece(below, index, "s", afterGap),
    );
  }

  /**
   * @param {SpanChange | undefined} span
   * @param {number} index
   * @param {string} side
   * @param {boolean} afterGap
   */
  renderSpanPiece(span, index, side, afterGap) {
    if (!span) return h("i", { class: side, "aria-hidden": "true" });
    const hasName = afterGap || index === span.start;
    const width = this.item.tokens.slice(index, span.end).join(" ").length;
    const css = [side, "on", span.isNoEntity ? "tn" : this.scheme.palette.getClasses(span.type)];
    if (index === span.start) css.push("first");
    if (index === span.end - 1) css.push("last");
    if (hasName && width > span.type.length + 1) css.push("spill");
    return h(
      "i",
      {
        class: css.join(" "),
        "data-type": hasName ? null : truncate(span.type, 40),
        "data-room": width,
        "aria-hidden": "true",
      },
      hasName ? truncate(span.type, 40) : "",
    );
  }

  /** `ORG, Real Madrid, word 1 of 2`, for screen readers. @param {number} index @param {Span | undefined} entity */
  describeEntity(index, entity) {
    if (!entity) return "no entity";
    const size = entity.end - entity.start;
    if (size === 1) return entity.type;
    const words = truncate(this.item.tokens.slice(entity.start, entity.end).join(" "), 120);
    return `${entity.type}, ${words}, word ${index - entity.start + 1} of ${size}`;
  }

  /** Describes a word: its labels, probabilities and threshold. @param {number} index */
  describeWord(index) {
    const { item } = this;
    const word = item.words[index];
    const isHidden = item.blind && !word?.unscored;
    if (!isHidden && (!word || word.p_given === null))
      return `given ${item.labels[index]}, not scored${word?.unscored ? `: ${word.unscored}` : ""}`;
    const parts = [formatLabelProbability("given", item.labels[index], word?.p_given ?? null)];
    const flag = this.flags.get(index);
    if (flag) parts.push(formatLabelProbability("suggested", flag.suggested, flag.p_suggested));
    if (flag && flag.threshold !== null) parts.push(`threshold ${flag.threshold.toFixed(3)}`);
    if (this.labels[index] !== item.labels[index] && this.labels[index] !== flag?.suggested)
      parts.push(`corrected to ${this.labels[index]}`);
    return parts.join(" · ");
  }

  /** Describes a doubt and its doubtful words. @param {Doubt} doubt @returns {(Node | string)[]} */
  describeDoubtfulWords(doubt) {
    const flags = this.item.doubtful.filter(({ index }) => isAboutWord(doubt, index)).sort((a, b) => a.index - b.index);
    const more = flags.length - MAX_DESCRIBED_WORDS;
    const words = flags
      .slice(0, MAX_DESCRIBED_WORDS)
      .map(({ token, given, suggested }) => `${truncate(token, 60)}: given ${given}, suggested ${suggested}`);
    if (more > 0) words.push(`and ${pluralize(more, "more word")}`);
    return [h("b", {}, formatParts(describeDoubt(this.item, doubt))), words.length ? ` · ${words.join(" · ")}` : ""];
  }

  /** Describes a word; without one the doubt about the selected words, else the word with the focus. @param {number | null} index */
  showReadout(index) {
    const shown = index ?? this.head;
    if (index === null && this.doubt) this.readout.replaceChildren(...this.describeDoubtfulWords(this.doubt));
    else if (shown === null) this.readout.textContent = "";
    else
      this.readout.replaceChildren(h("b", {}, truncate(this.item.tokens[shown], 60)), ` ${this.describeWord(shown)}`);
  }

  /** @param {Element | null} element */
  getWordIndex(element) {
    const wordElement = /** @type {HTMLElement | null} */ (element?.closest("[data-index]") ?? null);
    return wordElement ? Number(wordElement.dataset.index) : null;
  }

  /** @param {Event} event @param {(index: number) => void} handle */
  withWordIndex(event, handle) {
    const index = this.getWordIndex(/** @type {Element} */ (event.target));
    if (index !== null) handle(index);
  }
}

/**
 * The label with its probability, or alone while probabilities are hidden.
 * @param {string} side
 * @param {string} label
 * @param {number | null} p
 */
const formatLabelProbability = (side, label, p) =>
  p === null ? `${side} ${label}` : `${side} ${label}: ${formatPercent(p)}`;
