/** The controls of a dataset's settings, built from the schema of the API. */

import { h } from "../dom.js";
import { renderSelect } from "./page.js";

/**
 * @typedef {{ description?: string, default?: unknown, type?: string, enum?: unknown[], const?: unknown,
 *   anyOf?: Schema[], $ref?: string }} Schema
 * @typedef {{ name: string, read: () => unknown, element: HTMLElement, control: HTMLElement, error: HTMLElement }} Control
 */

const POLICIES = /** @type {const} */ ([
  ["", "that of the model"],
  ["confident", "confident: a word is flagged"],
  ["budget", "budget: the share with the lowest priority"],
  ["below", "below: the score is below the cut"],
]);
/** @type {Record<string, string>} */
const POLICY_FIELDS = { budget: "share", below: "cut" };
export const SKIPPED = ["name", "version", "model_fingerprint"];

/** @param {string} name @param {Schema} schema @param {unknown} value @returns {Control} */
export function renderSetting(name, schema, value) {
  const id = `setting-${name}`;
  const { control, read } = renderControl(id, name, schema, value);
  control.setAttribute("aria-describedby", `${id}-about ${id}-error`);
  const error = h("p", { class: "wrong", id: `${id}-error` });
  const shown = schema.default === undefined || schema.default === null ? "" : `. Default: ${format(schema.default)}.`;
  const element = h(
    "div",
    { class: "setting" },
    h("label", { for: id }, name),
    control.parentElement ?? control,
    h("p", { class: "note", id: `${id}-about` }, `${schema.description ?? ""}${shown}`),
    error,
  );
  return { name, read, element, control, error };
}

/** @param {unknown} value */
const format = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/**
 * @param {string} id @param {string} name @param {Schema} schema @param {unknown} value
 * @returns {{ control: HTMLElement, read: () => unknown }}
 */
function renderControl(id, name, schema, value) {
  if (name === "flag_policy") return renderPolicy(id, /** @type {Record<string, unknown> | null} */ (value));
  if (name === "label_set") {
    const area = renderArea(
      id,
      Array.isArray(value) ? value.join("\n") : "",
      "One type per line; empty: every type of the model",
    );
    return { control: area, read: () => splitLines(area.value) };
  }
  if (name === "label_map") {
    const entries = Object.entries(/** @type {Record<string, string>} */ (value ?? {}));
    const area = renderArea(id, entries.map(([from, to]) => `${from}=${to}`).join("\n"), "One per line: LABEL=TYPE");
    return { control: area, read: () => parseMap(area.value) };
  }
  const options = listOptions(schema);
  if (options) {
    const select = renderSelect(id, options, value === null || value === undefined ? "" : String(value));
    const isBoolean = options.some(([each]) => each === "true");
    return {
      control: select,
      read: () => (select.value === "" ? null : isBoolean ? select.value === "true" : select.value),
    };
  }
  const types = (schema.anyOf ?? [schema]).map((each) => each.type);
  const isNumber = types.includes("integer") || types.includes("number");
  const input = /** @type {HTMLInputElement} */ (
    h("input", { id, type: isNumber ? "number" : "text", step: isNumber ? "any" : null, autocomplete: "off" })
  );
  input.value = value === null || value === undefined ? "" : String(value);
  const read = () => (input.value.trim() === "" ? null : isNumber ? Number(input.value) : input.value.trim());
  return { control: input, read };
}

/** @param {Schema} schema @returns {[string, string][] | null} */
function listOptions(schema) {
  const parts = schema.anyOf ?? [schema];
  const hasNull = parts.some(({ type }) => type === "null");
  const values = parts.flatMap((part) =>
    part.enum ? part.enum : part.const !== undefined ? [part.const] : part.type === "boolean" ? [true, false] : [],
  );
  if (!values.length) return null;
  const names = values.map((each) => /** @type {[string, string]} */ ([String(each), String(each)]));
  return hasNull ? [["", "default"], ...names] : names;
}

/** @param {string} id @param {string} value @param {string} placeholder */
function renderArea(id, value, placeholder) {
  const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { id, rows: 4, spellcheck: "false", placeholder }));
  area.value = value;
  return area;
}

/** @param {string} id @param {Record<string, unknown> | null} policy */
function renderPolicy(id, policy) {
  const kind = renderSelect(id, POLICIES, String(policy?.kind ?? ""));
  const number = /** @type {HTMLInputElement} */ (
    h("input", { id: `${id}-number`, type: "number", step: "any", "aria-label": "Share or cut of the policy" })
  );
  const field = POLICY_FIELDS[kind.value];
  number.value = field && policy ? String(policy[field]) : "";
  const update = () => {
    number.hidden = !(kind.value in POLICY_FIELDS);
  };
  kind.addEventListener("change", update);
  update();
  h("div", { class: "row wrap" }, kind, number);
  const read = () => {
    if (!kind.value) return null;
    const name = POLICY_FIELDS[kind.value];
    return name ? { kind: kind.value, [name]: Number(number.value) } : { kind: kind.value };
  };
  return { control: kind, read };
}

/** @param {string} text */
function splitLines(text) {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  return lines.length ? lines : null;
}

/** @param {string} text */
function parseMap(text) {
  /** @type {Record<string, string>} */
  const map = {};
  for (const line of splitLines(text) ?? []) {
    const at = line.lastIndexOf("=");
    map[at < 0 ? line : line.slice(0, at).trim()] = at < 0 ? "" : line.slice(at + 1).trim();
  }
  return map;
}
