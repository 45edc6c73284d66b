/** A text in parts, as wording.js makes it, as elements. */

import { h } from "../dom.js";
import { truncate } from "../text.js";

/** @import { Palette } from "../labels/colours.js" */
/** @import { Part } from "./wording.js" */

/** @param {Part} part @param {Palette} palette */
export function renderPart({ text, type, isQuote }, palette) {
  if (isQuote) return h("bdi", {}, text);
  return type === undefined ? text : h("b", { class: palette.getClasses(type) }, truncate(text, 40));
}
