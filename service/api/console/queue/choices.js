/** What the queue view knows of the whole service: its datasets, and the counts of the overview. */

import { listWaiting } from "../waiting.js";

/** @import { Dataset, Overview } from "../types.js" */
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
    this.loadedAt = 0;
  }

  /** Whether they should be loaded again. @param {boolean} isEmpty whether the queue shows no sentence */
  isOld(isEmpty) {
    return Date.now() - this.loadedAt > (isEmpty ? MAX_EMPTY_AGE_MS : MAX_AGE_MS);
  }

  /** Whether a filter names a dataset that does not exist. @param {string} dataset */
  isUnknown(dataset) {
    return dataset !== "" && this.names !== null && !this.names.includes(dataset);
  }

  /** @param {string} dataset the dataset of the filter; empty: all */
  async load(dataset) {
    this.loadedAt = Date.now();
    const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
    this.datasets = datasets;
    this.names = datasets.map(({ name }) => name);
    this.waiting = listWaiting(datasets, dataset);
    this.sentences = datasets
      .filter(({ name }) => dataset === "" || name === dataset)
      .reduce((sum, { sentences }) => sum + sentences, 0);
    this.overview = await this.api.get("v1/overview", { dataset: this.isUnknown(dataset) ? "" : dataset });
  }
}
