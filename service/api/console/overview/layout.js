/** A section of the overview: a heading, a note and its content. */

import { h } from "../dom.js";

/**
 * @param {string} id
 * @param {string} title
 * @param {string | (Node | string)[]} note
 * @param {...(Node | null)} content
 */
export function renderSection(id, title, note, ...content) {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title),
    note ? h("p", { class: "note" }, note) : null,
    ...content,
  );
}

/** Shown in place of the content while there is none. @param {string} text */
export const renderEmpty = (text) => h("p", { class: "empty" }, text);
