/** Notices about models that do not fit their dataset, above the queue and the overview. */

import { h } from "./dom.js";

/** @import { Dataset } from "./types.js" */

/**
 * @param {Dataset[]} datasets
 * @param {string} shown the dataset that is shown; empty: all
 */
export function renderMisfits(datasets, shown) {
  return datasets
    .filter(({ name, misfit }) => misfit && (shown === "" || name === shown))
    .map(({ name, misfit }) => h("p", { class: "notice misfit" }, h("b", {}, name), `: ${misfit}.`));
}
