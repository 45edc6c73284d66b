/** How sure the service is that an item is wrong, in words. */

import { h } from "../dom.js";

/** @import { Item } from "../types.js" */

/**
 * From the worst on: the rank below which an item gets these words.
 * @type {readonly [number, string, string][]}
 */
const BANDS = [
  [0.1, "very likely wrong", "worst"],
  [0.35, "probably wrong", "bad"],
  [Infinity, "possibly wrong", "mild"],
];

/** @param {Item} item @returns {[string, string]} the words and the CSS class */
export function describeVerdict(item) {
  const [, words, css] = BANDS.find(([below]) => item.rank < below) ?? BANDS[BANDS.length - 1];
  return [words, css];
}

/** @param {Item} item */
export function renderVerdict(item) {
  const [words, css] = describeVerdict(item);
  return h("p", { class: `likelihood ${css}` }, words[0].toUpperCase() + words.slice(1));
}
