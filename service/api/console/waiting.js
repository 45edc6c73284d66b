/** Datasets whose sentences wait for a model, above the queue and in place of an empty one. */

import { h, renderCommand } from "./dom.js";
import { pluralize } from "./text.js";

/** @import { Dataset, Waiting } from "./types.js" */

/** @typedef {{ name: string, waiting: Waiting }} WaitingDataset */

const MAX_LABELS = 5;

/**
 * The datasets that no model fits.
 * @param {Dataset[]} datasets
 * @param {string} shown the dataset that is shown; empty: all
 * @returns {WaitingDataset[]}
 */
export function listWaiting(datasets, shown) {
  return datasets.flatMap(({ name, waiting }) =>
    waiting && !waiting.fits && (shown === "" || name === shown) ? [{ name, waiting }] : [],
  );
}

/** @param {Waiting} waiting */
const describeCount = ({ sentences }) =>
  `${pluralize(sentences, "sentence")} ${sentences === 1 ? "waits" : "wait"} for a model`;

/** @param {string} name */
const renderOverviewLink = (name) =>
  h("a", { href: `#/overview?${new URLSearchParams({ dataset: name })}` }, "Show the way to one");

/** A notice per dataset. @param {WaitingDataset[]} datasets */
export const renderWaitingNotices = (datasets) =>
  datasets.map(({ name, waiting }) =>
    h("p", { class: "notice waits" }, h("b", {}, name), `: ${describeCount(waiting)}. `, renderOverviewLink(name)),
  );

/** The page shown when nothing of a dataset was judged because no model fits. @param {WaitingDataset} dataset */
export function renderWaitingStage({ name, waiting }) {
  const labels = Object.keys(waiting.unknown_labels);
  const listed = labels.slice(0, MAX_LABELS).join(", ") + (labels.length > MAX_LABELS ? ", …" : "");
  return h(
    "div",
    { class: "empty-stage" },
    h("h2", {}, describeCount(waiting)),
    h(
      "p",
      { class: "note" },
      labels.length ? `The model has no class for ${listed} in ` : "No model judges ",
      h("b", {}, name),
      ". Nothing is lost: the sentences are stored, and judged as soon as there is a model for them.",
    ),
    h("p", {}, renderOverviewLink(name)),
    h("p", { class: "note" }, "Train a model on what is stored, once there are enough sentences:"),
    renderCommand(`labelwatch train --dataset ${name} --name ${name}`),
    h("p", { class: "note" }, "Or map a label to a type of the model that means the same:"),
    renderCommand(`labelwatch datasets set ${name} label_map.LABEL=TYPE`),
  );
}
