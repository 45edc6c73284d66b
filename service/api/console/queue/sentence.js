/** A sentence with given entities above its words, suggested ones below, and doubtful words marked. */

import { h } from "../dom.js";
import { diffSpans, getColourClass } from "../labels/labels.js";
import { formatPercent, pluralize, truncate } from "../text.js";

/** @import { Item, Span, SpanChange } from "../types.js" */
/** @import { Scheme } from "../labels/labels.js" */

const MAX_UNCUT_WORDS = 150;
const CONTEXT_WORDS = 25;

/** The words of a sentence. One word can have the focus; arrow keys move it. */
export class SentenceView {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   * @param {{ onWordChosen: (index: number) => void }} handlers `onWordChosen`: the reviewer wants to correct a word
   */
  constructor(item, scheme, { onWordChosen }) {
    this.item = item;
    this.scheme = scheme;
    this.onWordChosen = onWordChosen;
    this.showsAllWords = item.tokens.length <= MAX_UNCUT_WORDS;
    this.labels = item.labels;
    this.flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
    this.readout = h("p", { class: "readout" });
    this.wordList = h("div", {
      class: "words",
      role: "group",
      "aria-label": "Words of the sentence",
      on: {
        keydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
        click: (/** @type {Event} */ event) => this.withWordIndex(event, (index) => this.onWordChosen(index)),
        focusin: (/** @type {Event} */ event) => this.withWordIndex(event, (index) => this.showReadout(index)),
        mouseover: (/** @type {Event} */ event) => this.withWordIndex(event, (index) => this.showReadout(index)),
        mouseleave: () => this.showReadout(null),
      },
    });
    this.element = h(
      "div",
      { class: "sentence" },
      h("p", { class: "sr" }, item.tokens.join(" ")),
      this.wordList,
      this.readout,
    );
    this.show(item.labels);
    new ResizeObserver(() => this.repeatWrappedNames()).observe(this.wordList);
  }

  /** Repeats the name of an entity that continues on the next line. */
  repeatWrappedNames() {
    const words = /** @type {HTMLElement[]} */ ([...this.wordList.querySelectorAll("[data-index]")]);
    words.forEach((word, index) => {
      const isWrapped = index > 0 && word.offsetTop > words[index - 1].offsetTop;
      for (const piece of /** @type {NodeListOf<HTMLElement>} */ (word.querySelectorAll("i[data-type]:not(.first)"))) {
        piece.textContent = isWrapped ? (piece.dataset.type ?? "") : "";
        piece.classList.toggle("spill", isWrapped);
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
    const first = this.item.doubtful[0]?.index ?? 0;
    /** @type {Node[]} */
    const elements = [];
    let nextIndex = 0;
    for (const index of this.selectWords()) {
      if (index > nextIndex) elements.push(this.renderGap(index - nextIndex));
      const afterGap = index !== nextIndex || index === 0;
      elements.push(this.renderWord(index, above.get(index), below.get(index), afterGap, index === first));
      nextIndex = index + 1;
    }
    if (nextIndex < this.item.tokens.length) elements.push(this.renderGap(this.item.tokens.length - nextIndex));
    this.wordList.replaceChildren(...elements);
    this.repeatWrappedNames();
    if (focusedIndex !== null)
      /** @type {HTMLElement | null} */ (this.wordList.querySelector(`[data-index="${focusedIndex}"]`))?.focus();
    this.showReadout(null);
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
      { type: "button", class: "gap plain", on: { click: showAllWords } },
      `… ${pluralize(leftOut, "word")} …`,
    );
  }

  /**
   * @param {number} index
   * @param {Span | undefined} above
   * @param {SpanChange | undefined} below
   * @param {boolean} afterGap after words that are left out: the span's name is repeated
   * @param {boolean} isFocusable
   */
  renderWord(index, above, below, afterGap, isFocusable) {
    const description = this.describeWord(index);
    const isJoined = [above, below].some((span) => span && index + 1 < span.end);
    const isDoubtful = this.flags.has(index);
    return h(
      "span",
      {
        class: `w${isDoubtful ? " doubtful" : ""}${isJoined ? " joined" : ""}`,
        role: "button",
        tabindex: isFocusable ? 0 : -1,
        title: description,
        "aria-label": `${this.item.tokens[index]}: ${isDoubtful ? "doubtful, " : ""}${description}`,
        "data-index": index,
      },
      this.renderSpanPiece(above, index, "g", afterGap),
      h("bdi", {}, truncate(this.item.tokens[index])),
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
    if (!span) return h("i", { class: side });
    const hasName = afterGap || index === span.start;
    const width = this.item.tokens.slice(index, span.end).join(" ").length;
    const css = [side, "on", span.isNoEntity ? "tn" : getColourClass(span.type)];
    if (index === span.start) css.push("first");
    if (index === span.end - 1) css.push("last");
    if (hasName && width > span.type.length + 1) css.push("spill");
    return h(
      "i",
      { class: css.join(" "), "data-type": hasName ? null : truncate(span.type, 40) },
      hasName ? truncate(span.type, 40) : "",
    );
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

  /** @param {number | null} index */
  showReadout(index) {
    if (index === null) this.readout.textContent = "";
    else
      this.readout.replaceChildren(h("b", {}, truncate(this.item.tokens[index], 60)), ` ${this.describeWord(index)}`);
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

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const current = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-index]"));
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return;
    const words = /** @type {HTMLElement[]} */ ([...this.wordList.querySelectorAll("[data-index]")]);
    const currentIndex = words.indexOf(current);
    /** @type {Record<string, number>} */
    const targets = { ArrowLeft: currentIndex - 1, ArrowRight: currentIndex + 1, Home: 0, End: words.length - 1 };
    if (event.key === "Enter" || event.key === " ") this.onWordChosen(Number(current.dataset.index));
    else if (event.key in targets) {
      const next = words[Math.max(0, Math.min(targets[event.key], words.length - 1))];
      current.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else return;
    event.preventDefault();
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

/** @template {Span} T @param {T[]} spans @returns {Map<number, T>} */
function indexByWord(spans) {
  const spanByWord = new Map();
  for (const span of spans) for (let index = span.start; index < span.end; index += 1) spanByWord.set(index, span);
  return spanByWord;
}
