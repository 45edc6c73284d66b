/** The bar below the sentence: the types with their number keys, and what else can be done with the selected words. */

import { h } from "../dom.js";
import { truncate } from "../text.js";

/** @import { Palette } from "../labels/colours.js" */

export const MAX_NUMBERED_TYPES = 9;

/**
 * @typedef {"end-" | "end+" | "start-" | "start+"} Resizing
 * @type {readonly (readonly [Resizing, string, string, string])[]}
 */
export const RESIZINGS = [
  ["start-", "<", "⇤", "Start one word earlier"],
  ["start+", ">", "↦", "Start one word later"],
  ["end-", ",", "↤", "End one word earlier"],
  ["end+", ".", "⇥", "End one word later"],
];

export class TypeBar {
  /**
   * @param {string[]} types
   * @param {Palette} palette
   * @param {{ mark: (type: string) => void, openMenu: () => void, remove: () => void, split: () => void,
   *   resize: (resizing: Resizing) => void }} actions
   */
  constructor(types, palette, { mark, openMenu, remove, split, resize }) {
    this.typeButtons = types.slice(0, MAX_NUMBERED_TYPES).map((type, index) =>
      h(
        "button",
        {
          type: "button",
          class: "type",
          "aria-pressed": "false",
          "aria-keyshortcuts": index + 1,
          "data-type": type,
          on: { click: () => mark(type) },
        },
        h("kbd", {}, index + 1),
        h("span", { class: palette.getClasses(type) }, truncate(type, 24)),
      ),
    );
    this.element = h(
      "div",
      { class: "type-bar" },
      h(
        "div",
        { class: "type-group", role: "group", "aria-label": "Type of the selected words" },
        this.typeButtons,
        renderTool("t", types.length > MAX_NUMBERED_TYPES ? `All ${types.length} types` : "Menu", openMenu),
      ),
      h(
        "div",
        { class: "type-group", role: "group", "aria-label": "Change the selected entity" },
        renderTool("⌫", "No entity", remove, "Delete"),
        renderTool("x", "Split", split),
        RESIZINGS.map(([resizing, key, sign, name]) =>
          h(
            "button",
            {
              type: "button",
              class: "plain tool",
              title: `${name} (${key})`,
              "aria-keyshortcuts": key,
              "data-resize": resizing,
              on: { click: () => resize(resizing) },
            },
            h("span", { class: "sr" }, name),
            h("span", { "aria-hidden": "true" }, sign, " ", h("kbd", {}, key)),
          ),
        ),
      ),
    );
  }

  /** @param {string | null} type of the selected entity */
  showType(type) {
    for (const button of this.typeButtons) button.setAttribute("aria-pressed", String(button.dataset.type === type));
  }
}

/** @param {string} key @param {string} name @param {() => void} run @param {string} [shortcut] as ARIA names the key */
const renderTool = (key, name, run, shortcut = key) =>
  h(
    "button",
    { type: "button", class: "plain tool", "aria-keyshortcuts": shortcut, on: { click: run } },
    h("kbd", { "aria-hidden": "true" }, key),
    name,
  );
