/** The filters of the queue. They are part of the address, so they survive a reload and can be shared. */

import { h } from "../dom.js";
import { formatCount } from "../text.js";
import { VERDICT_NAMES } from "./review.js";

/** @import { FacetCount, FacetCounts, Overview } from "../types.js" */

/**
 * @typedef {Record<"q" | "dataset" | "state" | "given" | "suggested" | "kind" | "annotator" | "batch" | "verdict"
 *   | "decided_by" | "model" | "free", string>} Filter
 */

/** @type {Filter} */
export const NO_FILTER = {
  q: "",
  dataset: "",
  state: "open",
  given: "",
  suggested: "",
  kind: "",
  annotator: "",
  batch: "",
  verdict: "",
  decided_by: "",
  model: "",
  free: "",
};
const STATES = ["open", "adjudication", "decided", "closed", "all"];
/** @type {Record<string, string>} */
const SUSPECT_KINDS = {
  missed: "Missed",
  spurious: "Spurious",
  type: "Wrong type",
  boundary: "Wrong boundary",
};
const TYPING_PAUSE_MS = 250;
const SEARCHABLE = /[\p{L}\p{M}\p{N}\p{S}]/u; // a search without any is refused
const SELECTS = ["dataset", "state", "given", "suggested", "kind", "verdict", "model"];

/** @param {URLSearchParams} query @returns {Filter} */
export function parseFilter(query) {
  const filter = { ...NO_FILTER };
  for (const name of /** @type {(keyof Filter)[]} */ (Object.keys(filter)))
    filter[name] = query.get(name) ?? filter[name];
  if (!STATES.includes(filter.state)) filter.state = NO_FILTER.state;
  if (filter.kind && !(filter.kind in SUSPECT_KINDS)) filter.kind = "";
  if (filter.verdict && !(filter.verdict in VERDICT_NAMES)) filter.verdict = "";
  return filter;
}

/** @param {Partial<Filter>} filter */
export function buildQueueHash(filter) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value && value !== NO_FILTER[/** @type {keyof Filter} */ (name)]) query.set(name, value);
  }
  return `#/queue${query.size ? `?${query}` : ""}`;
}

/** The address of an item. The list keeps its filters. @param {Filter} filter @param {{ dataset: string, id: string }} item */
export function buildItemHash(filter, { dataset, id }) {
  const hash = buildQueueHash(filter);
  return `${hash}${hash.includes("?") ? "&" : "?"}item=${encodeURIComponent(`${dataset}/${id}`)}`;
}

export class FilterForm {
  /**
   * @param {{ onChange: (filter: Filter) => void, onTyping: (filter: Filter) => void, onLeave: () => void }} handlers
   *   `onTyping`: the reviewer pauses while typing a search; `onLeave`: they are done with the filters
   */
  constructor({ onChange, onTyping, onLeave }) {
    this.onChange = onChange;
    this.onTyping = onTyping;
    this.onLeave = onLeave;
    this.typingTimer = 0;
    this.filter = { ...NO_FILTER };
    /** @type {string[]} */
    this.datasets = [];
    /** @type {Record<string, HTMLSelectElement>} */
    this.selects = {};
    for (const name of SELECTS) {
      this.selects[name] = /** @type {HTMLSelectElement} */ (h("select", { id: `filter-${name}`, name }));
    }
    setOptions(
      this.selects.state,
      STATES.map((state) => [state, state[0].toUpperCase() + state.slice(1)]),
    );
    setOptions(this.selects.verdict, [["", "Any"], ...Object.entries(VERDICT_NAMES)]);
    this.search = createInput("q", { type: "search", placeholder: "Search", maxlength: 200 });
    this.search.addEventListener("input", () => this.planSearch());
    this.annotator = createInput("annotator", { list: "annotators", placeholder: "Anyone", maxlength: 256 });
    this.annotatorOptions = h("datalist", { id: "annotators" });
    this.batch = createInput("batch", { placeholder: "Any", maxlength: 128 });
    this.reviewer = createInput("decided_by", { list: "reviewers", placeholder: "Anyone", maxlength: 128 });
    this.reviewerOptions = h("datalist", { id: "reviewers" });
    this.freeCheckbox = /** @type {HTMLInputElement} */ (
      h("input", { id: "filter-free", name: "free", type: "checkbox" })
    );
    this.clearButton = h(
      "button",
      { type: "button", class: "plain small", on: { click: () => this.clear() } },
      "Clear",
    );
    this.modelField = renderField("Model", this.selects.model);
    this.summary = h("summary", {}, "Filters ", h("span", { class: "pill", hidden: true }));
    const form = h(
      "form",
      {
        class: "filters",
        role: "search",
        "aria-label": "Filters",
        on: {
          submit: (/** @type {Event} */ event) => event.preventDefault(),
          change: () => this.apply(),
          keydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
        },
      },
      renderField("Words", this.search),
      renderField("Dataset", this.selects.dataset),
      renderField("State", this.selects.state),
      renderField("Given", this.selects.given),
      renderField("Suggested", this.selects.suggested),
      renderField("Kind", this.selects.kind),
      renderField("Annotator", this.annotator, this.annotatorOptions),
      renderField("Batch", this.batch),
      renderField("Verdict", this.selects.verdict),
      renderField("Decided by", this.reviewer, this.reviewerOptions),
      this.modelField,
      h("label", { class: "check", for: "filter-free" }, this.freeCheckbox, "Hide sentences that others have open"),
      this.clearButton,
    );
    this.element = /** @type {HTMLDetailsElement} */ (h("details", { class: "filter-box" }, this.summary, form));
    this.element.open = matchMedia("(min-width: 900px)").matches;
    this.setChoices([], { overview: null, facets: null });
    this.show(this.filter);
  }

  /** Searches when the reviewer pauses. */
  planSearch() {
    clearTimeout(this.typingTimer);
    this.typingTimer = setTimeout(() => {
      const filter = this.read();
      this.typingTimer = 0;
      if (!filter.q || SEARCHABLE.test(filter.q)) this.onTyping(filter);
    }, TYPING_PAUSE_MS);
  }

  clear() {
    clearTimeout(this.typingTimer);
    this.typingTimer = 0;
    this.onChange({ ...NO_FILTER });
  }

  apply() {
    clearTimeout(this.typingTimer);
    this.typingTimer = 0;
    this.onChange(this.read());
  }

  /** Enter or Escape applies what was typed and gives the focus back. @param {KeyboardEvent} event */
  handleKey(event) {
    // In a field with proposals, Enter takes one of them.
    const isDone = event.key === "Escape" || (event.key === "Enter" && event.target === this.search);
    if (!isDone || event.isComposing) return;
    event.preventDefault(); // Escape would empty the search
    this.apply();
    this.onLeave();
  }

  /** @returns {Filter} */
  read() {
    const { dataset, state, given, suggested, kind, verdict, model } = this.selects;
    const decidedBy = this.reviewer.value.trim();
    // An open item has no decision: with these filters, the state would leave nothing to show.
    const isAboutDecisions = verdict.value !== "" || decidedBy !== "";
    return {
      q: this.search.value.trim(),
      dataset: dataset.value,
      state: isAboutDecisions && state.value === "open" ? "decided" : state.value,
      given: given.value,
      suggested: suggested.value,
      kind: kind.value,
      annotator: this.annotator.value.trim(),
      batch: this.batch.value.trim(),
      verdict: verdict.value,
      decided_by: decidedBy,
      model: model.value,
      free: this.freeCheckbox.checked ? "1" : "",
    };
  }

  /** @param {Filter} filter */
  show(filter) {
    this.filter = filter;
    this.selectValues();
    const isTyped = this.typingTimer !== 0 || this.search.value.trim() === filter.q;
    if (!isTyped) this.search.value = filter.q;
    this.annotator.value = filter.annotator;
    this.batch.value = filter.batch;
    this.reviewer.value = filter.decided_by;
    this.freeCheckbox.checked = filter.free !== "";
    const active = Object.keys(NO_FILTER).filter(
      (name) => filter[/** @type {keyof Filter} */ (name)] !== NO_FILTER[/** @type {keyof Filter} */ (name)],
    ).length;
    const pill = /** @type {HTMLElement} */ (this.summary.querySelector(".pill"));
    pill.hidden = !active;
    pill.textContent = String(active);
    this.clearButton.hidden = !active;
  }

  /**
   * Sets the datasets, types and annotators to choose from.
   * @param {string[]} datasets
   * @param {{ overview: Overview | null, facets: FacetCounts | null }} counts `facets`: of the chosen state
   */
  setChoices(datasets, { overview, facets }) {
    setOptions(this.selects.dataset, [
      ["", "All"],
      ...datasets.map((name) => /** @type {[string, string]} */ ([name, name])),
    ]);
    setOptions(this.selects.given, listCounted(facets?.given));
    setOptions(this.selects.suggested, listCounted(facets?.suggested));
    setOptions(this.selects.model, listCounted(facets?.model));
    const items = new Map(facets?.kind.map((count) => [count.value, count.items]));
    setOptions(this.selects.kind, [
      ["", "Any"],
      ...Object.entries(SUSPECT_KINDS).map(
        ([kind, name]) =>
          /** @type {[string, string]} */ ([kind, facets ? `${name} (${formatCount(items.get(kind) ?? 0)})` : name]),
      ),
    ]);
    this.modelField.hidden = (overview?.models ?? []).length < 2 && this.filter.model === "";
    this.annotatorOptions.replaceChildren(
      ...(overview?.annotators ?? []).flatMap(({ annotator }) =>
        annotator === null ? [] : [h("option", { value: annotator })],
      ),
    );
    this.reviewerOptions.replaceChildren(
      ...(overview?.reviewers ?? []).map(({ reviewer }) => h("option", { value: reviewer })),
    );
    this.datasets = datasets;
    this.selectValues(); // nothing else: the reviewer may be typing
  }

  selectValues() {
    for (const [name, select] of Object.entries(this.selects))
      selectOption(
        select,
        this.filter[/** @type {keyof Filter} */ (name)],
        name === "dataset" && this.datasets.length > 0,
      );
  }

  focus() {
    this.element.open = true;
    this.selects.dataset.focus();
  }

  focusSearch() {
    this.element.open = true;
    this.search.focus();
    this.search.select();
  }
}

/** The values of a filter with the number of items. @param {FacetCount[]} [counts] @returns {[string, string][]} */
const listCounted = (counts = []) => [
  ["", "Any"],
  ...counts.map(({ value, items }) => /** @type {[string, string]} */ ([value, `${value} (${formatCount(items)})`])),
];

/** @param {string} name @param {Record<string, unknown>} attributes */
const createInput = (name, attributes) =>
  /** @type {HTMLInputElement} */ (h("input", { id: `filter-${name}`, name, autocomplete: "off", ...attributes }));

/** @param {string} name @param {HTMLElement} control @param {...Node} more */
const renderField = (name, control, ...more) =>
  h("div", { class: "field" }, h("label", { for: control.id }, name), control, ...more);

/** @param {HTMLSelectElement} select @param {[string, string][]} options */
function setOptions(select, options) {
  const current = [...select.options].map((option) => [option.value, option.textContent]);
  if (JSON.stringify(current) === JSON.stringify(options)) return; // replacing the options would close an open list
  select.replaceChildren(...options.map(([value, name]) => h("option", { value }, name)));
}

/**
 * Selects a value. A value that is not an option, such as one from a shared address, is added; if the options are
 * complete, it is hidden from the list.
 * @param {HTMLSelectElement} select
 * @param {string} value
 * @param {boolean} isComplete
 */
function selectOption(select, value, isComplete) {
  for (const option of [...select.options]) if (option.hidden && option.value !== value) option.remove();
  if (![...select.options].some((option) => option.value === value))
    select.append(h("option", { value, hidden: isComplete }, isComplete ? `${value} (unknown)` : value));
  select.value = value;
}
