/** Models: those of the registry, which datasets use them, their trainings, and the change to another one. */

import { ApiError } from "../api.js";
import { h, showToast } from "../dom.js";
import { isModelExpected, renderModels } from "../overview/models.js";
import { formatDateTime } from "../text.js";
import {
  AdminPage,
  fetchDatasetNames,
  listOptions,
  renderButton,
  renderEffects,
  renderField,
  renderSelect,
} from "./page.js";

/** @import { Api } from "../api.js" */
/** @import { DatasetModels } from "../types.js" */
/** @import { PageContext } from "./page.js" */

/**
 * @typedef {{ name: string | null, title: string, fingerprint: string | null, labels: string[], trained: boolean,
 *   problem: string | null, datasets: string[] }} RegistryModel
 */

const REFRESH_INTERVAL_MS = 3000;
const MAX_REQUEST_REFRESHES = 20; // until the service shows what was requested
const MAX_TYPES = 12;

export class ModelsView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "models",
      title: "Models",
      note: "Which model judges each dataset, how good its trainings were, and the change to another one.",
    });
    this.dataset = "";
    this.timer = 0;
    this.refreshes = 0;
  }

  /** @override */
  hide() {
    super.hide();
    clearTimeout(this.timer);
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const [names, { models }] = await Promise.all([
      fetchDatasetNames(this.api),
      /** @type {Promise<{ models: RegistryModel[] }>} */ (this.api.get("v1/models")),
    ]);
    if (!this.isCurrent(query)) return;
    this.dataset = query.get("dataset") || (names[0] ?? "");
    this.tools.replaceChildren(this.renderChoice("dataset", "Dataset", listOptions(names), this.dataset));
    this.status = h("div", { class: "status", role: "status" });
    this.trainings = h("div", {});
    this.body.replaceChildren(
      this.trainings,
      ...(this.dataset && this.context.may("change_settings") ? [this.renderChange(models)] : []),
      this.status,
      renderRegistry(models),
    );
    if (this.dataset) await this.refresh();
  }

  get path() {
    return `v1/datasets/${encodeURIComponent(this.dataset)}`;
  }

  /** Shows the trainings, again and again while one is expected. */
  async refresh() {
    clearTimeout(this.timer);
    const { query } = this;
    const models = /** @type {DatasetModels & { requested_at: string | null }} */ (
      await this.api.get(`${this.path}/models`)
    );
    if (!this.isCurrent(query)) return;
    const isRunning = models.trainings[0]?.result === "running";
    const request = models.requested_at
      ? h(
          "p",
          { class: "note", id: "training-request" },
          `Requested ${formatDateTime(models.requested_at)}: a trainer that runs starts it.`,
        )
      : null;
    const hadFocus = this.trainings?.contains(document.activeElement);
    const train = h(
      "button",
      {
        type: "button",
        disabled: isRunning || models.requested_at !== null,
        on: { click: () => this.requestTraining() },
      },
      "Train now",
    );
    this.trainings?.replaceChildren(
      renderModels(models, true),
      ...(request ? [request] : []),
      ...(this.context.may("change_settings") ? [h("div", { class: "row" }, train)] : []),
    );
    if (hadFocus) train.focus();
    this.refreshes -= 1;
    if (isModelExpected(models) || models.requested_at || this.refreshes > 0) {
      this.timer = setTimeout(() => this.refresh().catch(this.context.showError), REFRESH_INTERVAL_MS);
    }
  }

  async requestTraining() {
    try {
      const { state } = await this.api.post(`${this.path}/trainings`, {});
      showToast(state === "running" ? "A training runs already." : "The training is requested.");
      this.refreshes = MAX_REQUEST_REFRESHES;
      await this.refresh();
    } catch (error) {
      this.context.showError(error);
    }
  }

  /** @param {RegistryModel[]} models */
  renderChange(models) {
    const usable = models.filter(({ problem }) => !problem);
    const current = models.find(({ datasets }) => datasets.includes(this.dataset));
    const select = renderSelect(
      "model-choice",
      usable.map(({ name, title }) => [name ?? "", name ?? `default (${title})`]),
      current?.name ?? "",
    );
    return h(
      "section",
      { "aria-labelledby": "change-title" },
      h("h2", { id: "change-title" }, `Change the model of ${this.dataset}`),
      h("p", { class: "note" }, "What the model before has learned stays in the log: a change back continues with it."),
      h(
        "div",
        { class: "row wrap" },
        renderField(select.id, "Model", select),
        renderButton("Preview", () => this.change(select.value, true)),
        renderButton("Use this model", () => this.change(select.value, false), "primary"),
      ),
    );
  }

  /** @param {string} model @param {boolean} isPreview */
  async change(model, isPreview) {
    try {
      const answer = await this.api.call(`${this.path}${isPreview ? "?dry_run=true" : ""}`, {
        method: "PATCH",
        body: JSON.stringify({ model: model || null }),
        headers: { "Content-Type": "application/json" },
      });
      if (!isPreview) await this.show(new URLSearchParams({ dataset: this.dataset }));
      this.status?.replaceChildren(
        h("h3", {}, isPreview ? "What the change means" : `Version ${answer.version} of the settings is saved`),
        renderEffects(answer.effects),
      );
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500 || error.status === 403) this.context.showError(error);
      else this.status?.replaceChildren(h("p", { class: "wrong" }, error.message));
    }
  }
}

/** @param {RegistryModel[]} models */
function renderRegistry(models) {
  const rows = models.map((model) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, model.name ?? "default", model.trained ? h("span", { class: "tag" }, "trained") : null),
      h("td", {}, model.problem ? h("span", { class: "wrong" }, model.problem) : listTypes(model.labels)),
      h("td", {}, model.datasets.join(", ") || "none"),
      h("td", {}, h("code", {}, model.fingerprint?.slice(0, 12) ?? "")),
    ),
  );
  return h(
    "section",
    { "aria-labelledby": "registry-title" },
    h("h2", { id: "registry-title" }, "Registry"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "Models of the registry" },
      h(
        "table",
        { class: "trainings" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Model", "Types", "Datasets", "Fingerprint"].map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}

/** @param {string[]} labels */
function listTypes(labels) {
  const types = [...new Set(labels.filter((label) => label !== "O").map((label) => label.replace(/^[A-Z]-/, "")))];
  return types.slice(0, MAX_TYPES).join(", ") + (types.length > MAX_TYPES ? ", …" : "");
}
