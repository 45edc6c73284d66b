/** A sentence with given entities above its words, suggested ones below, and doubtful words marked. */

import { h } from "../dom.js";
import { changes, colourOf } from "../labels/labels.js";
import { cut, percent, plural } from "../text.js";

/** @import { Item, Span } from "../types.js" */
/** @import { Scheme } from "../labels/labels.js" */

const LONG = 150;
const AROUND = 25;

/** The words, one of which can have the focus; the arrow keys go from one to the next. */
export class Sentence {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   * @param {{ chosen: (place: number) => void }} told `chosen`: a word is to be corrected
   */
  constructor(item, scheme, { chosen }) {
    this.item = item;
    this.scheme = scheme;
    this.chosen = chosen;
    this.whole = item.tokens.length <= LONG;
    this.labels = item.labels;
    this.flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
    this.readout = h("p", { class: "readout" });
    this.line = h("div", {
      class: "words",
      role: "group",
      "aria-label": "Words of the sentence",
      on: {
        keydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
        click: (/** @type {Event} */ event) => this.at(event, (place) => this.chosen(place)),
        focusin: (/** @type {Event} */ event) => this.at(event, (place) => this.tell(place)),
        mouseover: (/** @type {Event} */ event) => this.at(event, (place) => this.tell(place)),
        mouseleave: () => this.tell(null),
      },
    });
    this.element = h(
      "div",
      { class: "sentence" },
      h("p", { class: "sr" }, item.tokens.join(" ")),
      this.line,
      this.readout,
    );
    this.show(item.labels);
    new ResizeObserver(() => this.nameAgain()).observe(this.line);
  }

  /** An entity that goes on in the next line says its name there too. */
  nameAgain() {
    const words = /** @type {HTMLElement[]} */ ([...this.line.querySelectorAll("[data-place]")]);
    words.forEach((word, number) => {
      const wrapped = number > 0 && word.offsetTop > words[number - 1].offsetTop;
      for (const edge of /** @type {NodeListOf<HTMLElement>} */ (word.querySelectorAll("i[data-type]:not(.first)"))) {
        edge.textContent = wrapped ? (edge.dataset.type ?? "") : "";
        edge.classList.toggle("spill", wrapped);
      }
    });
  }

  /** Shows what would be with these labels. @param {string[]} labels */
  show(labels) {
    this.labels = labels;
    const held = this.line.contains(document.activeElement) ? this.place(document.activeElement) : null;
    const above = over(this.scheme.spans(this.item.labels));
    const below = over(changes(this.item.labels, labels, this.scheme));
    const first = this.item.doubtful[0]?.index ?? 0;
    /** @type {Node[]} */
    const made = [];
    let after = 0;
    for (const place of this.shown()) {
      if (place > after) made.push(this.gap(place - after));
      const fresh = place !== after || place === 0;
      made.push(this.word(place, above.get(place), below.get(place), fresh, place === first));
      after = place + 1;
    }
    if (after < this.item.tokens.length) made.push(this.gap(this.item.tokens.length - after));
    this.line.replaceChildren(...made);
    this.nameAgain();
    if (held !== null) /** @type {HTMLElement | null} */ (this.line.querySelector(`[data-place="${held}"]`))?.focus();
    this.tell(null);
  }

  /** All words, or of a long sentence those around its doubts. */
  shown() {
    const size = this.item.tokens.length;
    if (this.whole) return Array.from({ length: size }, (_, place) => place);
    const wanted = new Set();
    for (const place of this.flags.size ? this.flags.keys() : [0]) {
      for (let near = Math.max(place - AROUND, 0); near <= Math.min(place + AROUND, size - 1); near += 1)
        wanted.add(near);
    }
    return [...wanted].sort((a, b) => a - b);
  }

  /** @param {number} left */
  gap(left) {
    const open = (/** @type {Event} */ event) => {
      event.stopPropagation();
      this.whole = true;
      this.show(this.labels);
    };
    return h("button", { type: "button", class: "gap plain", on: { click: open } }, `… ${plural(left, "word")} …`);
  }

  /**
   * @param {number} place
   * @param {Span | undefined} above
   * @param {(Span & { nothing?: boolean }) | undefined} below
   * @param {boolean} fresh after words left out, so that a span's name has to stand again
   * @param {boolean} reachable
   */
  word(place, above, below, fresh, reachable) {
    const told = this.told(place);
    const joined = [above, below].some((span) => span && place + 1 < span.end);
    const doubtful = this.flags.has(place);
    return h(
      "span",
      {
        class: `w${doubtful ? " doubtful" : ""}${joined ? " joined" : ""}`,
        role: "button",
        tabindex: reachable ? 0 : -1,
        title: told,
        "aria-label": `${this.item.tokens[place]}: ${doubtful ? "doubtful, " : ""}${told}`,
        "data-place": place,
      },
      this.edge(above, place, "g", fresh),
      h("bdi", {}, cut(this.item.tokens[place])),
      this.edge(below, place, "s", fresh),
    );
  }

  /**
   * @param {(Span & { nothing?: boolean }) | undefined} span
   * @param {number} place
   * @param {string} side
   * @param {boolean} fresh
   */
  edge(span, place, side, fresh) {
    if (!span) return h("i", { class: side });
    const named = fresh || place === span.start;
    const words = this.item.tokens.slice(place, span.end).join(" ").length;
    const css = [side, "on", span.nothing ? "tn" : colourOf(span.type)];
    if (place === span.start) css.push("first");
    if (place === span.end - 1) css.push("last");
    if (named && words > span.type.length + 1) css.push("spill");
    return h(
      "i",
      { class: css.join(" "), "data-type": named ? null : cut(span.type, 40) },
      named ? cut(span.type, 40) : "",
    );
  }

  /** What is known of a word, as text. @param {number} place */
  told(place) {
    const { item } = this;
    const word = item.words[place];
    const held = item.blind && !word?.unscored;
    if (!held && (!word || word.p_given === null))
      return `given ${item.labels[place]}, not scored${word?.unscored ? `: ${word.unscored}` : ""}`;
    const parts = [likely("given", item.labels[place], word?.p_given ?? null)];
    const flag = this.flags.get(place);
    if (flag) parts.push(likely("suggested", flag.suggested, flag.p_suggested));
    if (flag && flag.threshold !== null) parts.push(`threshold ${flag.threshold.toFixed(3)}`);
    if (this.labels[place] !== item.labels[place] && this.labels[place] !== flag?.suggested)
      parts.push(`corrected to ${this.labels[place]}`);
    return parts.join(" · ");
  }

  /** @param {number | null} place */
  tell(place) {
    if (place === null) this.readout.textContent = "";
    else this.readout.replaceChildren(h("b", {}, cut(this.item.tokens[place], 60)), ` ${this.told(place)}`);
  }

  /** @param {Element | null} element */
  place(element) {
    const found = /** @type {HTMLElement | null} */ (element?.closest("[data-place]") ?? null);
    return found ? Number(found.dataset.place) : null;
  }

  /** @param {Event} event @param {(place: number) => void} then */
  at(event, then) {
    const place = this.place(/** @type {Element} */ (event.target));
    if (place !== null) then(place);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const here = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-place]"));
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    const words = /** @type {HTMLElement[]} */ ([...this.line.querySelectorAll("[data-place]")]);
    const now = words.indexOf(here);
    /** @type {Record<string, number>} */
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: words.length - 1 };
    if (event.key === "Enter" || event.key === " ") this.chosen(Number(here.dataset.place));
    else if (event.key in to) {
      const next = words[Math.max(0, Math.min(to[event.key], words.length - 1))];
      here.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else return;
    event.preventDefault();
  }
}

/** Where the probability is held back, the label alone. @param {string} side @param {string} label @param {number | null} p */
const likely = (side, label, p) => (p === null ? `${side} ${label}` : `${side} ${label}: ${percent(p)}`);

/** @template {Span} T @param {T[]} spans @returns {Map<number, T>} */
function over(spans) {
  const found = new Map();
  for (const span of spans) for (let place = span.start; place < span.end; place += 1) found.set(place, span);
  return found;
}
