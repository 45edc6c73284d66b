/** Says in words what is wrong with an item. No DOM, so that tests and other views can use it. */

import { truncate } from "../text.js";

/** @import { Flag, Item, Span, Suspect } from "../types.js" */

const MAX_QUOTED_WORDS = 12;
const MAX_QUOTED_CHARS = 120;
const NO_ENTITY = "O";

/**
 * A text in parts: plain words, types, which have a colour, and quoted words of the sentence.
 * @typedef {{ text: string, type?: string, isQuote?: boolean }} Part
 */

/** @param {string[]} tokens @param {{ start: number, end: number }} span */
const quote = (tokens, { start, end }) => {
  const words = tokens.slice(start, Math.min(end, start + MAX_QUOTED_WORDS)).join(" ");
  return truncate(words, MAX_QUOTED_CHARS) + (end - start > MAX_QUOTED_WORDS ? " …" : "");
};

/**
 * `Missed ORG: Lakeside Bus Drivers' Union`, `LOC should be ORG: Real Madrid`.
 * @param {string[]} tokens
 * @param {Suspect} suspect
 * @returns {Part[]}
 */
function describeSuspect(tokens, { given_span: given, suggested_span: suggested }) {
  /** @param {Span} span @returns {Part} */
  const quoted = (span) => ({ text: quote(tokens, span), isQuote: true });
  /** @param {Span} span @returns {Part} */
  const named = (span) => ({ text: span.type, type: span.type });
  if (given && suggested) {
    const isMoved = given.start !== suggested.start || given.end !== suggested.end;
    const isRetyped = given.type !== suggested.type;
    const title = isRetyped
      ? [named(given), { text: " should be " }, named(suggested)]
      : [named(given), { text: " has the wrong boundary" }];
    return isMoved
      ? [...title, { text: ": " }, quoted(suggested), { text: ", not " }, quoted(given)]
      : [...title, { text: ": " }, quoted(suggested)];
  }
  if (suggested) return [{ text: "Missed " }, named(suggested), { text: ": " }, quoted(suggested)];
  if (given) return [{ text: "Not an entity, labelled " }, named(given), { text: ": " }, quoted(given)];
  return [];
}

/**
 * Says what is wrong with one word, for a flag without an entity in doubt.
 * @param {Flag} flag
 * @returns {Part[]}
 */
function describeFlag({ token, given, suggested }) {
  const quoted = { text: truncate(token, MAX_QUOTED_CHARS), isQuote: true };
  if (given === NO_ENTITY) return [{ text: `Missed ${suggested}: ` }, quoted];
  if (suggested === NO_ENTITY) return [{ text: `Not an entity, labelled ${given}: ` }, quoted];
  return [{ text: `${given} should be ${suggested}: ` }, quoted];
}

/** The least likely of the flagged words; the first while probabilities are hidden. @param {Item} item */
export const findWorstFlag = (item) => [...item.doubtful].sort((a, b) => (a.p_given ?? 0) - (b.p_given ?? 0)).at(0);

/**
 * An entity in doubt, or a flagged word outside of them, and the words it is about.
 * @typedef {{ range: { start: number, end: number }, suspect: Suspect | null, flag: Flag | null }} Doubt
 */

/**
 * What is doubtful in an item, worst first: one entry per entity in doubt, and per flagged word outside of them.
 * @param {Item} item
 * @returns {Doubt[]}
 */
export function listDoubts(item) {
  const worst = findWorstFlag(item);
  /** @param {Suspect} suspect @param {Flag} flag */
  const concerns = (suspect, flag) => isWordOf(suspect, flag.index);
  const suspects = [...item.suspects].sort(
    (a, b) => Number(worst !== undefined && concerns(b, worst)) - Number(worst !== undefined && concerns(a, worst)),
  );
  const flags = item.doubtful.filter((flag) => !item.suspects.some((suspect) => concerns(suspect, flag)));
  return [
    ...suspects.map((suspect) => ({ range: getSuspectRange(suspect), suspect, flag: null })),
    ...flags.map((flag) => ({ range: { start: flag.index, end: flag.index + 1 }, suspect: null, flag })),
  ];
}

/** Whether a word belongs to the given or the suggested entity. @param {Suspect} suspect @param {number} index */
const isWordOf = ({ given_span, suggested_span }, index) =>
  [given_span, suggested_span].some((span) => span !== null && span.start <= index && index < span.end);

/** @param {Doubt} doubt @param {number} index */
export const isAboutWord = ({ suspect, flag }, index) => (suspect ? isWordOf(suspect, index) : flag?.index === index);

/** The words that a suspect is about: the suggested entity, else the given one. @param {Suspect} suspect */
function getSuspectRange({ given_span, suggested_span }) {
  const { start, end } = suggested_span ?? given_span ?? { start: 0, end: 0 };
  return { start, end };
}

/** Says what is wrong. @param {Item} item @param {Doubt} doubt @returns {Part[]} */
export const describeDoubt = (item, { suspect, flag }) =>
  suspect ? describeSuspect(item.tokens, suspect) : flag ? describeFlag(flag) : [];

/** What is wrong with an item in words, worst first. @param {Item} item */
export const describeDoubts = (item) => listDoubts(item).map((doubt) => describeDoubt(item, doubt));

/** @param {Part[]} parts */
export const formatParts = (parts) => parts.map(({ text }) => text).join("");
