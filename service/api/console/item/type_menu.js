/** The menu of all types of the dataset, with a filter to type into. */

import { h } from "../dom.js";
import { truncate } from "../text.js";
import { filterTypes } from "../labels/types_filter.js";

/** @import { Palette } from "../labels/colours.js" */

export class TypeMenu {
  /**
   * @param {string[]} types
   * @param {Palette} palette
   * @param {{ onChoose: (type: string) => void, onClose: () => void }} handlers
   */
  constructor(types, palette, { onChoose, onClose }) {
    this.types = types;
    this.palette = palette;
    this.onChoose = onChoose;
    this.onClose = onClose;
    /** @type {string[]} */
    this.matches = [];
    this.active = 0;
    this.input = /** @type {HTMLInputElement} */ (
      h("input", {
        id: "type-filter",
        role: "combobox",
        "aria-label": "Type of the selected words",
        "aria-expanded": "true",
        "aria-controls": "type-options",
        "aria-autocomplete": "list",
        autocomplete: "off",
        spellcheck: "false",
        placeholder: "Type to filter",
        on: {
          input: () => this.filter(),
          keydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
          blur: () => this.close(),
        },
      })
    );
    this.options = h("ul", { id: "type-options", role: "listbox", "aria-label": "Types" });
    this.empty = h("p", { class: "note", role: "status" });
    // The filter keeps the focus while an option is clicked.
    this.options.addEventListener("pointerdown", (event) => event.preventDefault());
    this.element = h("div", { class: "type-menu", hidden: true }, this.input, this.options, this.empty);
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** @param {string | null} current the type of the selected entity */
  open(current) {
    this.element.hidden = false;
    this.input.value = "";
    this.filter();
    this.setActive(Math.max(0, this.matches.indexOf(current ?? "")));
    this.input.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    this.onClose();
  }

  filter() {
    this.matches = filterTypes(this.types, this.input.value);
    this.options.replaceChildren(
      ...this.matches.map((type, index) =>
        h(
          "li",
          { id: `type-option-${index}`, role: "option", "data-type": type, on: { click: () => this.choose(type) } },
          h("span", { class: this.palette.getClasses(type) }, truncate(type, 60)),
        ),
      ),
    );
    this.options.hidden = !this.matches.length;
    this.empty.textContent = this.matches.length ? "" : "The label set has no such type.";
    this.setActive(0);
  }

  /** @param {number} index */
  setActive(index) {
    this.active = index;
    for (const [number, option] of [...this.options.children].entries()) {
      option.setAttribute("aria-selected", String(number === index));
      if (number === index) option.scrollIntoView({ block: "nearest" });
    }
    if (this.matches.length) this.input.setAttribute("aria-activedescendant", `type-option-${index}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {string} type */
  choose(type) {
    this.close();
    this.onChoose(type);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const { length } = this.matches;
    if (event.isComposing) return;
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && length) this.choose(this.matches[this.active]);
    else if (event.key === "ArrowDown" && length) this.setActive((this.active + 1) % length);
    else if (event.key === "ArrowUp" && length) this.setActive((this.active + length - 1) % length);
    else return;
    event.preventDefault();
  }
}
