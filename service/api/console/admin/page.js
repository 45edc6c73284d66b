/** What the pages for administrators share. */

import { h } from "../dom.js";
import { formatFullTime } from "../text.js";
import { View } from "../view.js";

/** @import { Api } from "../api.js" */
/** @import { Dataset } from "../types.js" */

/**
 * @typedef {{ showError: (error: unknown) => void, may: (action: string) => boolean }} PageContext
 * @typedef {{ kind: string, text: string, warning: boolean }} Effect
 */

/**
 * A page with a title, a note, choices beside the title, and a body.
 * @extends {View<PageContext>}
 */
export class AdminPage extends View {
  /**
   * @param {Api} api
   * @param {PageContext} context
   * @param {{ name: string, title: string, note: string }} about `name`: that of the address, as in `#/audit`
   */
  constructor(api, context, { name, title, note }) {
    super(context);
    this.api = api;
    this.name = name;
    this.tools = h("div", { class: "row wrap" });
    this.body = h("div", {});
    this.element = h(
      "div",
      { class: "overview admin" },
      h("div", { class: "overview-head" }, h("h1", {}, title), h("div", { class: "admin-tools" }, this.tools)),
      h("p", { class: "note" }, note),
      this.body,
    );
  }

  /** Shows the page for a changed query. @param {Record<string, string>} changes an empty value removes a parameter */
  go(changes) {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    location.hash = `#/${this.name}${query.size ? `?${query}` : ""}`;
  }

  /**
   * A choice that changes one parameter of the query.
   * @param {string} parameter
   * @param {string} label
   * @param {readonly (readonly [string, string])[]} options value and text
   * @param {string} value
   */
  renderChoice(parameter, label, options, value) {
    const select = renderSelect(`${this.name}-${parameter}`, options, value);
    select.addEventListener("change", () => this.go({ [parameter]: select.value }));
    return renderField(select.id, label, select);
  }
}

/** Options of a choice whose values are their own text. @param {readonly string[]} values */
export const listOptions = (values) => values.map((value) => /** @type {const} */ ([value, value]));

/** What a page says that needs a dataset. */
export const renderNoDataset = () => h("p", { class: "empty" }, "There is no dataset yet: send the first sentence.");

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

/** @param {string} at */
export const renderTime = (at) => h("time", { datetime: at }, formatFullTime(at));

/** @param {string} name @param {string[]} columns @param {HTMLElement} rows */
export const renderTable = (name, columns, rows) =>
  h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": name },
    h(
      "table",
      { class: "trainings" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => h("th", { scope: "col" }, column)),
        ),
      ),
      rows,
    ),
  );
