/** What the queue view knows of the whole service: its datasets, and the counts of the overview. */

import { listWaiting } from "../waiting.js";

/** @import { Dataset, FacetCounts, Overview } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { WaitingDataset } from "../waiting.js" */

// The choices of the filters come from the overview, which reads the whole queue.
const MAX_AGE_MS = 15_000;
const MAX_EMPTY_AGE_MS = 1000; // the page without a sentence shows counts of the overview

export class Choices {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Dataset[]} */
    this.datasets = [];
    /** @type {string[] | null} null: not loaded yet */
    this.names = null;
    /** @type {WaitingDataset[]} datasets whose sentences wait for a model */
    this.waiting = [];
    /** @type {number | null} how many sentences the service has judged */
    this.sentences = null;
    /** @type {Overview | null} */
    this.overview = null;
    /** @type {FacetCounts | null} of the filter's dataset and state */
    this.facets = null;
    this.loadedAt = 0;
    this.loadedFor = "";
  }

  /** Whether these are the choices of a filter. @param {{ dataset: string, state: string }} filter */
  isFor({ dataset, state }) {
    return this.loadedFor === `${state} ${dataset}`;
  }

  /** Whether they should be loaded again. @param {boolean} isEmpty whether the queue shows no sentence */
  isOld(isEmpty) {
    return Date.now() - this.loadedAt > (isEmpty ? MAX_EMPTY_AGE_MS : MAX_AGE_MS);
  }

  /** Whether a filter names a dataset that does not exist. @param {string} dataset */
  isUnknown(dataset) {
    return dataset !== "" && this.names !== null && !this.names.includes(dataset);
  }

  /**
   * Loads the choices of a filter. An answer that arrives after a load of another filter began is dropped.
   * @param {{ dataset: string, state: string }} filter an empty dataset is all
   */
  async load({ dataset, state }) {
    this.loadedAt = Date.now();
    this.loadedFor = `${state} ${dataset}`;
    const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
    if (!this.isFor({ dataset, state })) return;
    this.datasets = datasets;
    this.names = datasets.map(({ name }) => name);
    this.waiting = listWaiting(datasets, dataset);
    this.sentences = datasets
      .filter(({ name }) => dataset === "" || name === dataset)
      .reduce((sum, { sentences }) => sum + sentences, 0);
    const known = this.isUnknown(dataset) ? "" : dataset;
    const [overview, facets] = await Promise.all([
      this.api.get("v1/overview", { dataset: known }),
      this.api.get("v1/review/facets", { dataset: known, state }),
    ]);
    if (!this.isFor({ dataset, state })) return;
    [this.overview, this.facets] = [overview, facets];
  }
}
