/** Entities of a sentence and their edits: labels in, labels out, always valid in the scheme. No DOM. */

/** @import { Span, SpanChange, Suspect } from "../types.js" */
/** @import { Scheme } from "./scheme.js" */

/**
 * Words from `start` up to, but without, `end`.
 * @typedef {{ start: number, end: number }} WordRange
 */

export const OUTSIDE = "O";

/** @param {WordRange} a @param {WordRange} b */
export const doOverlap = (a, b) => a.start < b.end && b.start < a.end;

/** @param {WordRange} range */
export const listIndices = ({ start, end }) => Array.from({ length: end - start }, (_, step) => start + step);

/** @param {Span} a @param {Span} b */
const isSameSpan = (a, b) => a.start === b.start && a.end === b.end && a.type === b.type;

/** @param {Span[]} a @param {Span[]} b both in the order of the words */
const haveSameSpans = (a, b) => a.length === b.length && a.every((span, index) => isSameSpan(span, b[index]));

/** The given and the suggested entity of a suspect, as far as it has them. @param {Suspect} suspect */
const listSuspectSpans = ({ given_span, suggested_span }) =>
  [given_span, suggested_span].filter((span) => span !== null);

/** Whether two suspects have words in common. @param {Suspect} a @param {Suspect} b */
export const doSuspectsOverlap = (a, b) =>
  listSuspectSpans(a).some((span) => listSuspectSpans(b).some((other) => doOverlap(span, other)));

/** The span of each word that has one. @template {WordRange} T @param {T[]} spans @returns {Map<number, T>} */
export function indexByWord(spans) {
  return new Map(spans.flatMap((span) => listIndices(span).map((index) => [index, span])));
}

/**
 * The parts of a span outside of a range.
 * @param {Span} span
 * @param {WordRange} range
 * @returns {Span[]}
 */
const cutSpan = (span, { start, end }) =>
  [
    { ...span, end: Math.min(span.end, start) },
    { ...span, start: Math.max(span.start, end) },
  ].filter((part) => part.start < part.end);

/** Edits the entities of one sentence. Each method takes the current labels and returns the edited ones. */
export class SpanEditor {
  /**
   * @param {Scheme} scheme
   * @param {string[]} given the annotator's labels: where nothing is edited they stay as they are
   */
  constructor(scheme, given) {
    this.scheme = scheme;
    this.given = given;
  }

  /** The entity that a word belongs to, or null. @param {string[]} labels @param {number} index */
  findSpan(labels, index) {
    return this.scheme.parseSpans(labels).find((span) => span.start <= index && index < span.end) ?? null;
  }

  /**
   * Makes a range one entity. It replaces every entity that it overlaps.
   * @param {string[]} labels
   * @param {WordRange} range
   * @param {string} type
   */
  mark(labels, { start, end }, type) {
    return this.write(labels, [...this.listSpansOutside(labels, { start, end }), { start, end, type }]);
  }

  /** Removes every entity that overlaps a range. @param {string[]} labels @param {WordRange} range */
  remove(labels, range) {
    return this.write(labels, this.listSpansOutside(labels, range));
  }

  /**
   * Gives an entity other bounds. Words that it takes in are taken from their entity.
   * @param {string[]} labels
   * @param {Span} span
   * @param {WordRange} bounds
   */
  resize(labels, span, { start, end }) {
    const others = this.scheme.parseSpans(labels).filter((other) => !isSameSpan(other, span));
    const cut = others.flatMap((other) => cutSpan(other, { start, end }));
    return this.write(labels, [...cut, { start, end, type: span.type }]);
  }

  /**
   * Splits an entity in two of the same type. The scheme io can't express that: its labels stay as they are.
   * @param {string[]} labels
   * @param {Span} span
   * @param {number} at the first word of the second one
   */
  split(labels, span, at) {
    if (at <= span.start || at >= span.end) return labels;
    const others = this.scheme.parseSpans(labels).filter((other) => !isSameSpan(other, span));
    return this.write(labels, [...others, { ...span, end: at }, { ...span, start: at }]);
  }

  /**
   * Replaces the given entities of suspects by the suggested ones. Suspects may share an entity.
   * @param {string[]} labels
   * @param {Suspect[]} suspects
   */
  acceptSuspects(labels, suspects) {
    const replaced = suspects.flatMap(listSuspectSpans);
    const kept = this.scheme.parseSpans(labels).filter((span) => !replaced.some((other) => doOverlap(span, other)));
    /** @type {Span[]} */
    const suggested = [];
    for (const { suggested_span: span } of suspects)
      if (span && !suggested.some((other) => doOverlap(span, other))) suggested.push(span);
    return this.write(labels, [...kept, ...suggested]);
  }

  /**
   * Restores what was given where a suspect stands.
   * @param {string[]} labels
   * @param {Suspect} suspect
   */
  rejectSuspect(labels, suspect) {
    const ranges = listSuspectSpans(suspect);
    const restored = this.scheme
      .parseSpans(this.given)
      .filter((span) => ranges.some((range) => doOverlap(span, range)));
    const kept = this.scheme
      .parseSpans(labels)
      .filter((span) => ![...ranges, ...restored].some((range) => doOverlap(span, range)));
    return this.write(labels, [...kept, ...restored]);
  }

  /** Gives one word another label. @param {string[]} labels @param {number} index @param {string} label */
  relabel(labels, index, label) {
    return this.scheme.repair(labels.with(index, label), this.given);
  }

  /** @param {string[]} labels @param {WordRange} range */
  listSpansOutside(labels, range) {
    return this.scheme.parseSpans(labels).filter((span) => !doOverlap(span, range));
  }

  /**
   * The labels of these entities. An entity that was there before keeps its labels as they are written, as long as they
   * still mean the same beside their new neighbours.
   * @param {string[]} labels the labels before the edit
   * @param {Span[]} spans that do not overlap
   */
  write(labels, spans) {
    const ordered = [...spans].sort((a, b) => a.start - b.start);
    const sources = [labels, this.given].map((source) => ({ source, spans: this.scheme.parseSpans(source) }));
    const kept = this.scheme.repair(
      this.format(ordered, (span) => sources.find((one) => one.spans.some((old) => isSameSpan(old, span)))?.source),
      this.given,
    );
    return haveSameSpans(this.scheme.parseSpans(kept), ordered) ? kept : this.format(ordered, () => undefined);
  }

  /**
   * @param {Span[]} spans in the order of the words
   * @param {(span: Span) => string[] | undefined} findLabels labels to copy for a span
   */
  format(spans, findLabels) {
    const written = this.given.map(() => OUTSIDE);
    for (const span of spans) {
      const copied = findLabels(span);
      for (const index of listIndices(span)) {
        // In the scheme io the labels of the sentence show whether its labels have a prefix.
        const context = this.scheme.name === "io" ? this.given : written;
        written[index] = copied?.[index] ?? this.scheme.formatLabel(span, index, context);
      }
    }
    return written;
  }
}

/**
 * The spans that a correction changes: new spans, spans with changed labels, and words that become "no entity".
 * @param {string[]} given
 * @param {string[]} corrected
 * @param {Scheme} scheme
 * @returns {SpanChange[]}
 */
export function diffSpans(given, corrected, scheme) {
  const givenSpans = scheme.parseSpans(given);
  const correctedSpans = scheme.parseSpans(corrected);
  /** @type {SpanChange[]} */
  const changed = correctedSpans.filter((span) => !givenSpans.some((other) => isSameSpan(other, span)));
  // A changed prefix inside the same entity is shown too.
  for (const span of correctedSpans) {
    if (!changed.includes(span) && listIndices(span).some((index) => given[index] !== corrected[index]))
      changed.push(span);
  }
  corrected.forEach((label, index) => {
    if (label !== OUTSIDE || given[index] === OUTSIDE) return;
    const last = changed.find((span) => span.isNoEntity && span.end === index);
    if (last) last.end = index + 1;
    else changed.push({ start: index, end: index + 1, type: "no entity", isNoEntity: true });
  });
  return changed;
}
