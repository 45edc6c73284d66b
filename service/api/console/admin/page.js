/** What the pages for datasets, models, dead letters and exports share. */

import { h } from "../dom.js";

/** @import { Api } from "../api.js" */
/** @import { Dataset } from "../types.js" */

/**
 * @typedef {{ showError: (error: unknown) => void, may: (action: string) => boolean }} PageContext
 * @typedef {{ kind: string, text: string, warning: boolean }} Effect
 */

/** @param {string} title @param {string} note @param {HTMLElement[]} tools @param {HTMLElement} body */
export const renderPage = (title, note, tools, body) =>
  h(
    "div",
    { class: "overview admin" },
    h("div", { class: "overview-head" }, h("h1", {}, title), h("div", { class: "admin-tools" }, tools)),
    h("p", { class: "note" }, note),
    body,
  );

/** @param {string} id @param {string} label @param {HTMLElement} control */
export const renderField = (id, label, control) =>
  h("div", { class: "field" }, h("label", { for: id }, label), control);

/**
 * @param {string} id
 * @param {readonly (readonly [string, string])[]} options value and text
 * @param {string} value
 * @returns {HTMLSelectElement}
 */
export function renderSelect(id, options, value) {
  const select = /** @type {HTMLSelectElement} */ (
    h(
      "select",
      { id },
      options.map(([each, text]) => h("option", { value: each }, text)),
    )
  );
  select.value = value;
  return select;
}

/** @param {Api} api @returns {Promise<string[]>} */
export async function fetchDatasetNames(api) {
  const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await api.get("v1/datasets"));
  return datasets.map(({ name }) => name);
}

/** @param {string} text @param {() => unknown} run @param {string} [style] */
export const renderButton = (text, run, style = "") =>
  h("button", { type: "button", class: style || null, on: { click: () => void run() } }, text);

/** What a change means. @param {Effect[]} effects */
export const renderEffects = (effects) =>
  effects.length
    ? h(
        "ul",
        { class: "effects" },
        effects.map(({ text, warning }) =>
          h("li", { class: warning ? "wrong" : null }, warning ? h("b", {}, "Warning: ") : null, `${text}.`),
        ),
      )
    : h("p", { class: "note" }, "The change has no other consequences that the service knows of.");
