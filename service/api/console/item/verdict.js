/** How likely an item is wrong, in words. The service decides, by the decisions about the dataset. */

import { h } from "../dom.js";

/** @import { Item } from "../types.js" */

/** The words and the CSS class. @type {Record<Item["likelihood"], [string, string]>} */
const WORDS = {
  very_likely_wrong: ["Very likely wrong", "worst"],
  probably_wrong: ["Probably wrong", "bad"],
  may_be_right: ["May be right", "mild"],
};

/** @param {Item} item */
export function renderVerdict({ likelihood }) {
  const [words, css] = WORDS[likelihood];
  return h("p", { class: `likelihood ${css}` }, words);
}
