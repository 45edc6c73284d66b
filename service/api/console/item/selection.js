/** The selected words of the open sentence: by pointer, touch and keyboard. */

/** @import { Span } from "../types.js" */
/** @import { WordRange } from "../labels/spans.js" */

/** One word has the focus, or an entity around it, or a range that the reviewer has drawn is selected. */
export class WordSelection {
  /**
   * @param {HTMLElement} wordList its words have a `data-index`
   * @param {{ findSpan: (index: number) => Span | null, onChange: () => void, onOpen: () => void }} handlers
   *   `findSpan`: the entity of a word; `onOpen`: the reviewer wants to choose a type
   */
  constructor(wordList, { findSpan, onChange, onOpen }) {
    this.wordList = wordList;
    this.findSpan = findSpan;
    this.onChange = onChange;
    this.onOpen = onOpen;
    /** @type {number | null} the word with the focus */
    this.head = null;
    this.anchor = 0;
    this.isRange = false;
    /** @type {{ pointer: number, from: number, isMoved: boolean } | null} */
    this.drag = null;
    wordList.addEventListener("keydown", (event) => this.handleKey(event));
    wordList.addEventListener("pointerdown", (event) => this.startDrag(event));
    wordList.addEventListener("pointermove", (event) => this.moveDrag(event));
    wordList.addEventListener("pointerup", (event) => this.endDrag(event));
    wordList.addEventListener("pointercancel", () => {
      this.drag = null; // the page scrolls
    });
  }

  /** The selected words, or null. Without a drawn range these are the entity of the focused word, or the word alone. @returns {WordRange | null} */
  get range() {
    if (this.head === null) return null;
    if (this.isRange) return { start: Math.min(this.anchor, this.head), end: Math.max(this.anchor, this.head) + 1 };
    const span = this.findSpan(this.head);
    return span ? { start: span.start, end: span.end } : { start: this.head, end: this.head + 1 };
  }

  /** The entity that is selected as a whole, or null. */
  get span() {
    const { range } = this;
    const span = range ? this.findSpan(range.start) : null;
    return range && span && span.start === range.start && span.end === range.end ? span : null;
  }

  /** @param {WordRange | null} range */
  select(range) {
    this.head = range ? range.start : null;
    this.isRange = false;
    const { range: whole } = this;
    if (range && whole && (whole.start !== range.start || whole.end !== range.end)) {
      this.anchor = range.start;
      this.head = range.end - 1;
      this.isRange = true;
    }
    this.onChange();
  }

  /** Selects the entity of a word, or the word. @param {number} index */
  selectWord(index) {
    this.head = index;
    this.isRange = false;
    this.onChange();
  }

  /** @param {number} anchor @param {number} head */
  selectRange(anchor, head) {
    this.anchor = anchor;
    this.head = head;
    this.isRange = true;
    this.onChange();
  }

  /** Moves the focus to the selected word. */
  focus() {
    const selector = this.head === null ? "[data-index]" : `[data-index="${this.head}"]`;
    /** @type {HTMLElement | null} */ (this.wordList.querySelector(selector))?.focus({ preventScroll: true });
  }

  /** @param {Element | null} element */
  getIndex(element) {
    const word = /** @type {HTMLElement | null} */ (element?.closest("[data-index]") ?? null);
    return word && this.wordList.contains(word) ? Number(word.dataset.index) : null;
  }

  /** @param {PointerEvent} event */
  startDrag(event) {
    const index = this.getIndex(/** @type {Element} */ (event.target));
    if (index === null || event.button !== 0) return;
    event.preventDefault(); // no selection of text
    if (event.shiftKey && this.head !== null) {
      this.selectRange(this.isRange ? this.anchor : this.head, index);
      this.focus();
      return;
    }
    this.drag = { pointer: event.pointerId, from: index, isMoved: false };
    // A touch may become a scroll: it selects when it ends, or when it reaches another word.
    if (event.pointerType === "touch") return;
    this.wordList.setPointerCapture(event.pointerId);
    this.selectWord(index);
    this.focus();
  }

  /** @param {PointerEvent} event */
  moveDrag(event) {
    if (this.drag?.pointer !== event.pointerId) return;
    const index = this.getIndex(document.elementFromPoint(event.clientX, event.clientY));
    if (index === null || (index === this.drag.from && !this.drag.isMoved)) return;
    this.drag.isMoved = true;
    if (index !== this.head || !this.isRange) this.selectRange(this.drag.from, index);
  }

  /** @param {PointerEvent} event */
  endDrag(event) {
    if (this.drag?.pointer !== event.pointerId) return;
    if (!this.drag.isMoved) this.selectWord(this.drag.from);
    this.drag = null;
    this.focus();
  }

  /** Moves the focus by words, or extends the selection. @param {number} step @param {boolean} isExtending */
  move(step, isExtending) {
    const shown = /** @type {HTMLElement[]} */ ([...this.wordList.querySelectorAll("[data-index]")]).map((word) =>
      Number(word.dataset.index),
    );
    if (!shown.length) return;
    const { range } = this;
    if (isExtending && range && !this.isRange) [this.anchor, this.head] = [range.start, range.end - 1];
    const place = this.head === null ? -1 : shown.indexOf(this.head);
    const next = shown[Math.max(0, Math.min(place + step, shown.length - 1))];
    if (isExtending) this.selectRange(range ? this.anchor : next, next);
    else this.selectWord(next);
    this.focus();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (this.getIndex(/** @type {Element} */ (event.target)) === null) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(steps[event.key], event.shiftKey);
    else if (event.key === "Enter" || event.key === " ") this.onOpen();
    else if (event.key === "Escape" && this.isRange && this.head !== null) this.selectWord(this.head);
    else return;
    event.preventDefault();
  }
}
