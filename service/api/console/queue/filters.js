/** Which part of the queue is shown; kept in the address, so that it can be shared and survives a reload. */

import { h } from "../dom.js";
import { KINDS } from "./item.js";
import { count } from "../text.js";

/** @import { Overview } from "../types.js" */

/** @typedef {Record<"dataset" | "state" | "given" | "suggested" | "kind" | "annotator" | "free", string>} Filter */

/** @type {Filter} */
export const NO_FILTER = { dataset: "", state: "open", given: "", suggested: "", kind: "", annotator: "", free: "" };
const STATES = ["open", "decided", "closed", "all"];

/** @param {URLSearchParams} query @returns {Filter} */
export function readFilter(query) {
  const found = { ...NO_FILTER };
  for (const name of /** @type {(keyof Filter)[]} */ (Object.keys(found))) found[name] = query.get(name) ?? found[name];
  if (!STATES.includes(found.state)) found.state = NO_FILTER.state;
  if (found.kind && !(found.kind in KINDS)) found.kind = "";
  return found;
}

/** @param {Partial<Filter>} filter */
export function addressOf(filter) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value && value !== NO_FILTER[/** @type {keyof Filter} */ (name)]) query.set(name, value);
  }
  return `#/queue${query.size ? `?${query}` : ""}`;
}

export class Filters {
  /** @param {(filter: Filter) => void} changed */
  constructor(changed) {
    this.filter = { ...NO_FILTER };
    /** @type {string[]} */
    this.datasets = [];
    /** @type {Record<string, HTMLSelectElement>} */
    this.selects = {};
    for (const name of ["dataset", "state", "given", "suggested", "kind"]) {
      this.selects[name] = /** @type {HTMLSelectElement} */ (h("select", { id: `filter-${name}`, name }));
    }
    fill(
      this.selects.state,
      STATES.map((state) => [state, state[0].toUpperCase() + state.slice(1)]),
    );
    fill(this.selects.kind, [
      ["", "Any"],
      ...Object.entries(KINDS).map(([kind, [name]]) => /** @type {[string, string]} */ ([kind, name])),
    ]);
    this.annotator = /** @type {HTMLInputElement} */ (
      h("input", {
        id: "filter-annotator",
        name: "annotator",
        list: "annotators",
        placeholder: "Anybody",
        autocomplete: "off",
        maxlength: 256,
      })
    );
    this.known = h("datalist", { id: "annotators" });
    this.free = /** @type {HTMLInputElement} */ (h("input", { id: "filter-free", name: "free", type: "checkbox" }));
    this.clear = h(
      "button",
      { type: "button", class: "plain small", on: { click: () => changed({ ...NO_FILTER }) } },
      "Clear",
    );
    this.summary = h("summary", {}, "Filters ", h("span", { class: "pill", hidden: true }));
    const form = h(
      "form",
      {
        class: "filters",
        role: "search",
        "aria-label": "Filters",
        on: { submit: (/** @type {Event} */ event) => event.preventDefault(), change: () => changed(this.read()) },
      },
      field("Dataset", this.selects.dataset),
      field("State", this.selects.state),
      field("Given", this.selects.given),
      field("Suggested", this.selects.suggested),
      field("Kind", this.selects.kind),
      field("Annotator", this.annotator, this.known),
      h("label", { class: "check", for: "filter-free" }, this.free, "Hide what others have open"),
      this.clear,
    );
    this.element = /** @type {HTMLDetailsElement} */ (h("details", { class: "filter-box" }, this.summary, form));
    this.element.open = matchMedia("(min-width: 900px)").matches;
    this.offer([], null);
    this.show(this.filter);
  }

  /** @returns {Filter} */
  read() {
    const { dataset, state, given, suggested, kind } = this.selects;
    return {
      dataset: dataset.value,
      state: state.value,
      given: given.value,
      suggested: suggested.value,
      kind: kind.value,
      annotator: this.annotator.value.trim(),
      free: this.free.checked ? "1" : "",
    };
  }

  /** @param {Filter} filter */
  show(filter) {
    this.filter = filter;
    this.choose();
    this.annotator.value = filter.annotator;
    this.free.checked = filter.free !== "";
    const active = Object.keys(NO_FILTER).filter(
      (name) => filter[/** @type {keyof Filter} */ (name)] !== NO_FILTER[/** @type {keyof Filter} */ (name)],
    ).length;
    const pill = /** @type {HTMLElement} */ (this.summary.querySelector(".pill"));
    pill.hidden = !active;
    pill.textContent = String(active);
    this.clear.hidden = !active;
  }

  /** What there is to choose from. @param {string[]} datasets @param {Overview | null} overview */
  offer(datasets, overview) {
    const confusions = overview?.confusions ?? [];
    /** @param {"given" | "suggested"} side @returns {[string, string][]} */
    const types = (side) => {
      /** @type {Map<string, number>} */
      const found = new Map();
      for (const one of confusions) found.set(one[side], (found.get(one[side]) ?? 0) + one.items);
      return [
        ["", "Any"],
        ...[...found]
          .sort(([a], [b]) => a.localeCompare(b))
          .map(([name, items]) => /** @type {[string, string]} */ ([name, `${name} (${count(items)})`])),
      ];
    };
    fill(this.selects.dataset, [
      ["", "All"],
      ...datasets.map((name) => /** @type {[string, string]} */ ([name, name])),
    ]);
    fill(this.selects.given, types("given"));
    fill(this.selects.suggested, types("suggested"));
    this.known.replaceChildren(
      ...(overview?.annotators ?? []).flatMap(({ annotator }) =>
        annotator === null ? [] : [h("option", { value: annotator })],
      ),
    );
    this.datasets = datasets;
    this.choose(); // and nothing else: somebody may be typing
  }

  choose() {
    for (const [name, select] of Object.entries(this.selects))
      choose(select, this.filter[/** @type {keyof Filter} */ (name)], name === "dataset" && this.datasets.length > 0);
  }

  focus() {
    this.element.open = true;
    this.selects.dataset.focus();
  }
}

/** @param {string} name @param {HTMLElement} control @param {...Node} more */
const field = (name, control, ...more) =>
  h("div", { class: "field" }, h("label", { for: control.id }, name), control, ...more);

/** @param {HTMLSelectElement} select @param {[string, string][]} options */
function fill(select, options) {
  const now = [...select.options].map((option) => [option.value, option.textContent]);
  if (JSON.stringify(now) === JSON.stringify(options)) return; // an open list must not be taken away
  select.replaceChildren(...options.map(([value, name]) => h("option", { value }, name)));
}

/**
 * A value that is not among the options, as from a shared address, is put there; where they are all that there is, only
 * as what is chosen now, and not for choosing.
 * @param {HTMLSelectElement} select
 * @param {string} value
 * @param {boolean} all
 */
function choose(select, value, all) {
  for (const option of [...select.options]) if (option.hidden && option.value !== value) option.remove();
  if (![...select.options].some((option) => option.value === value))
    select.append(h("option", { value, hidden: all }, all ? `${value} (not known)` : value));
  select.value = value;
}
