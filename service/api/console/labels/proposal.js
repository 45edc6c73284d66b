/** The labels that the service suggests for a sentence, as a correction to start from. */

import { doOverlap, listIndices, OUTSIDE } from "./spans.js";

/** @import { Flag, Item, Span, Suspect } from "../types.js" */
/** @import { Scheme } from "./scheme.js" */

/** A suggestion is prefilled if the service is at least this sure of it. */
export const MIN_PREFILL_CONFIDENCE = 0.5;

/**
 * The labels that the service suggests. Only words of suspects change, and of flagged words that no suspect covers, if
 * the service is at least MIN_PREFILL_CONFIDENCE sure. The result is valid beside every changed word.
 * @param {Item} item
 * @param {Scheme} scheme
 * @returns {string[]}
 */
export function proposeLabels(item, scheme) {
  const labels = [...item.labels];
  const flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
  const suspects = selectConfidentSuspects(item, scheme);
  const suggestedSpans = suspects.map((suspect) => suspect.suggested_span).filter((span) => span !== null);
  const replacedSpans = suspects.map((suspect) => suspect.given_span).filter((span) => span !== null);
  for (const index of replacedSpans.flatMap(listIndices)) labels[index] = OUTSIDE;
  for (const span of suggestedSpans) {
    for (const index of listIndices(span))
      labels[index] = matchSpelling(scheme.formatLabel(span, index, labels), flags.get(index), scheme);
  }
  const suspectWords = new Set(
    item.suspects.flatMap(({ given_span, suggested_span }) =>
      [given_span, suggested_span].filter((span) => span !== null).flatMap(listIndices),
    ),
  );
  for (const flag of item.doubtful) {
    if (!suspectWords.has(flag.index) && isConfident(flag.p_suggested) && scheme.allowsLabel(flag.suggested))
      labels[flag.index] = flag.suggested;
  }
  return scheme.repair(labels, item.labels);
}

/**
 * The suspects to prefill. Suspects that share an entity change together or not at all, and a suggested entity that
 * overlaps a given one which is not in doubt is left out.
 * @param {Item} item
 * @param {Scheme} scheme
 */
function selectConfidentSuspects(item, scheme) {
  const givenSpans = scheme.parseSpans(item.labels);
  const overlaps = (/** @type {Span | null} */ a, /** @type {Span | null} */ b) => a && b && doOverlap(a, b);
  let selected = item.suspects.filter(
    ({ confidence, suggested_span }) =>
      isConfident(confidence) && (!suggested_span || scheme.allowsType(suggested_span.type)),
  );
  for (;;) {
    const rest = item.suspects.filter((suspect) => !selected.includes(suspect));
    const isBlocked = (/** @type {Suspect} */ { given_span, suggested_span }) =>
      rest.some((other) => overlaps(other.given_span, given_span) || overlaps(other.suggested_span, suggested_span)) ||
      givenSpans.some(
        (span) => overlaps(span, suggested_span) && !selected.some((other) => overlaps(other.given_span, span)),
      );
    const unblocked = selected.filter((suspect) => !isBlocked(suspect));
    if (unblocked.length === selected.length) return selected;
    selected = unblocked;
  }
}

/** Whether a suggestion is prefilled. The confidence is null where it is hidden. @param {number | null} confidence */
const isConfident = (confidence) => confidence === null || confidence >= MIN_PREFILL_CONFIDENCE;

/**
 * The label as the service writes it for this word ("S-PER" for "U-PER"), if it suggests the same.
 * @param {string} label
 * @param {Flag | undefined} flag
 * @param {Scheme} scheme
 */
export function matchSpelling(label, flag, scheme) {
  if (!flag) return label;
  if (scheme.labelSet?.labels.includes(flag.suggested)) return flag.suggested;
  const [[prefix, type], [suggestedPrefix, suggestedType]] = [scheme.parse(label), scheme.parse(flag.suggested)];
  return prefix === suggestedPrefix && type === suggestedType ? flag.suggested : label;
}
