/** The overview: figures, charts and tables of the queue and its decisions. */

import { ApiError } from "../api.js";
import { h } from "../dom.js";
import { renderMisfits } from "../misfits.js";
import { truncate } from "../text.js";
import { renderAnnotatorFigures } from "./annotators.js";
import { renderBatches } from "./batches.js";
import { hasModels, isModelExpected, renderModels } from "./models.js";
import {
  renderFigures,
  renderFlagChart,
  renderPrecisionChart,
  renderScoreChart,
  renderThresholdChart,
} from "./sections.js";
import { renderAgreement } from "../team/agreement.js";
import { renderAnnotatorTable, renderConfusionMap, renderRankerTable } from "./tables.js";

/** @import { Agreement, Batch, Dataset, DatasetAnnotators, DatasetModels, Overview, Thresholds } from "../types.js" */
/** @import { Api } from "../api.js" */

const MAX_DATASETS = 12;
const MIN_REFRESH_INTERVAL_MS = 3000;
const TRAINING_REFRESH_INTERVAL_MS = 5000;

export class OverviewView {
  /** @param {Api} api @param {{ showError: (error: unknown) => void }} context */
  constructor(api, context) {
    this.api = api;
    this.context = context;
    this.dataset = "";
    this.batchLimit = ""; // in percent; empty: that of the dataset's settings
    this.select = /** @type {HTMLSelectElement} */ (h("select", { id: "overview-dataset" }));
    this.select.addEventListener("change", () => {
      location.hash = `#/overview${this.select.value ? `?${new URLSearchParams({ dataset: this.select.value })}` : ""}`;
    });
    this.body = h("div", { class: "overview-body" });
    this.element = h(
      "div",
      { class: "overview" },
      h(
        "div",
        { class: "overview-head" },
        h("h1", {}, "Overview"),
        h("div", { class: "field" }, h("label", { for: "overview-dataset" }, "Dataset"), this.select),
      ),
      this.body,
    );
    this.isShown = false;
    this.requestNumber = 0;
    this.refreshedAt = 0;
    this.isRefreshPlanned = false;
    /** @type {(() => void) | null} */
    this.draw = null;
    new ResizeObserver(() => this.redrawOnResize()).observe(this.body);
    this.width = 0;
  }

  /** Redraws the charts, which have a fixed width, for a new width of the page. */
  redrawOnResize() {
    if (!this.isShown || !this.draw || Math.abs(this.body.clientWidth - this.width) < 8) return;
    this.draw();
  }

  /** @param {URLSearchParams} query */
  async show(query) {
    this.isShown = true;
    this.dataset = query.get("dataset") ?? "";
    await this.refresh();
  }

  hide() {
    this.isShown = false;
  }

  /** Refreshes after a change, at most once per interval. */
  onQueueChange() {
    this.planRefresh(MIN_REFRESH_INTERVAL_MS);
  }

  /** @param {number} interval since the last refresh */
  planRefresh(interval) {
    if (!this.isShown || this.isRefreshPlanned) return;
    this.isRefreshPlanned = true;
    setTimeout(
      () => {
        this.isRefreshPlanned = false;
        if (this.isShown) this.refresh();
      },
      Math.max(0, this.refreshedAt + interval - Date.now()),
    );
  }

  async refresh() {
    const requestNumber = (this.requestNumber += 1);
    this.refreshedAt = Date.now();
    try {
      const { datasets } = /** @type {{ datasets: Dataset[] }} */ (await this.api.get("v1/datasets"));
      const names = datasets.map((dataset) => dataset.name);
      // If there is only one dataset, "all" is this one: then recall is known too.
      const dataset = this.dataset || (names.length === 1 ? names[0] : "");
      if (dataset && !names.includes(dataset)) {
        if (requestNumber === this.requestNumber && this.isShown) this.showUnknownDataset(names, dataset);
        return;
      }
      const requestedNames = dataset ? [dataset] : names.slice(0, MAX_DATASETS);
      const get = (/** @type {string} */ name, /** @type {string} */ part) =>
        this.api.get(`v1/datasets/${encodeURIComponent(name)}/${part}`);
      /** @type {string[]} */
      const problems = [];
      // A dataset whose model is missing has no thresholds: the others are shown all the same, with the reason.
      const getThresholds = (/** @type {string} */ name) =>
        get(name, "thresholds").catch((error) => {
          if (!(error instanceof ApiError && error.status === 503)) throw error;
          problems.push(error.message);
          return null;
        });
      const maxErrorRate = this.batchLimit ? Number(this.batchLimit) / 100 : "";
      const [overview, answers, models, batches, agreement, annotators] = await Promise.all([
        this.api.get("v1/overview", { dataset: dataset }),
        Promise.all(requestedNames.map(getThresholds)),
        Promise.all(requestedNames.map((name) => get(name, "models"))),
        dataset
          ? this.api.get(`v1/datasets/${encodeURIComponent(dataset)}/batches`, { max_error_rate: maxErrorRate })
          : { batches: [] },
        dataset ? get(dataset, "agreement") : null,
        dataset ? get(dataset, "annotators") : null,
      ]);
      const thresholds = answers.filter((answer) => answer !== null);
      if (requestNumber !== this.requestNumber || !this.isShown) return;
      this.setDatasetOptions(names, dataset);
      this.draw = () => {
        this.width = this.body.clientWidth;
        if (!this.width) return; // not on the page yet: the ResizeObserver draws it later
        const scrollTop = scrollY;
        const showsClasses = this.body.querySelector("details.classes[open]") !== null;
        this.body.replaceChildren(
          ...this.renderSections(overview, thresholds, {
            dataset,
            models: models.filter(hasModels),
            batches: batches.batches,
            agreement,
            annotators,
            isComplete: thresholds.length === names.length || dataset !== "",
            notices: [
              ...problems.map((problem) => h("p", { class: "notice" }, `${problem}.`)),
              ...renderMisfits(datasets, dataset),
            ],
          }),
        );
        this.body.querySelector("details.classes")?.toggleAttribute("open", showsClasses);
        scrollTo(0, scrollTop);
      };
      this.draw();
      if (models.some(isModelExpected)) this.planRefresh(TRAINING_REFRESH_INTERVAL_MS);
    } catch (error) {
      this.context.showError(error);
    }
  }

  /** The limit in force for batches, in percent, and how to change it. @param {Batch[]} batches */
  batchChoice(batches) {
    const rate = batches[0]?.max_error_rate ?? null;
    return {
      limit: this.batchLimit || (rate === null ? "" : String(Number((100 * rate).toFixed(6)))),
      onLimitChange: (/** @type {string} */ limit) => {
        this.batchLimit = limit;
        this.refresh();
      },
    };
  }

  /** Says that the dataset does not exist. @param {string[]} names @param {string} dataset */
  showUnknownDataset(names, dataset) {
    this.draw = null;
    this.setDatasetOptions(names, "");
    this.body.replaceChildren(
      h(
        "p",
        { class: "empty" },
        "There is no dataset called ",
        h("b", {}, truncate(dataset, 80)),
        ". ",
        h("a", { href: "#/overview" }, "Show all datasets"),
      ),
    );
  }

  /** @param {string[]} names @param {string} dataset */
  setDatasetOptions(names, dataset) {
    const options = [
      ...(names.length === 1 ? [] : [h("option", { value: "" }, "All")]),
      ...names.map((name) => h("option", { value: name }, name)),
    ];
    this.select.replaceChildren(...options);
    this.select.value = dataset;
  }

  /**
   * @param {Overview} overview
   * @param {Thresholds[]} thresholds
   * @param {{ dataset: string, models: DatasetModels[], batches: Batch[], agreement: Agreement | null,
   *   annotators: DatasetAnnotators | null, isComplete: boolean, notices: HTMLElement[] }} about
   */
  renderSections(overview, thresholds, { dataset, models, batches, agreement, annotators, isComplete, notices }) {
    const columnWidth = this.width < 760 ? this.width : (this.width - 48) / 2;
    const busiest = [...thresholds].sort((a, b) => b.sentences - a.sentences)[0];
    return [
      ...notices,
      renderFigures(overview, isComplete ? thresholds : []),
      ...models.map((entry) => renderModels(entry, !dataset && thresholds.length > 1)),
      batches.length ? renderBatches(batches, dataset, this.batchChoice(batches)) : null,
      h(
        "div",
        { class: "columns" },
        renderFlagChart(overview, columnWidth),
        renderPrecisionChart(overview, columnWidth),
      ),
      renderScoreChart(overview, this.width),
      busiest ? renderThresholdChart(busiest, this.width, !dataset && thresholds.length > 1) : null,
      h(
        "div",
        { class: "columns" },
        renderConfusionMap(overview.confusions, dataset),
        annotators ? null : renderAnnotatorTable(overview.annotators, dataset),
      ),
      annotators ? renderAnnotatorFigures(annotators, dataset) : null,
      agreement ? renderAgreement(agreement, overview.counts.adjudication ?? 0) : null,
      dataset ? renderRankerTable(overview) : null,
    ].filter((part) => part !== null);
  }
}
