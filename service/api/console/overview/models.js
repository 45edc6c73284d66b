/** The overview's models of a dataset: from the first sentence that waits to the model in use. */

import { h } from "../dom.js";
import { buildQueueHash } from "../queue/filters.js";
import { formatCount, formatDateTime, pluralize } from "../text.js";
import { renderMeter } from "./charts.js";
import { renderSection } from "./layout.js";

/** @import { DatasetModels, Training } from "../types.js" */

const MAX_TRAININGS = 10;
const NUMBER_COLUMNS = ["Sentences", "F1"];

/** @type {Record<Training["result"], string>} */
const RESULT_NAMES = {
  running: "in training",
  used: "used",
  not_used: "not used",
  refused: "not trained",
  failed: "failed",
  stopped: "stopped",
};

/** @type {Record<string, string>} */
const STEP_NAMES = {
  read: "reading the sentences",
  encode: "encoding",
  fit: "fitting",
  compare: "comparing with the model in use",
};

/** Whether there is anything to say about the dataset's models. @param {DatasetModels} models */
export const hasModels = (models) => models.trainings.length > 0 || models.waiting > 0 || models.model !== null;

/** Whether the section changes although the queue does not. @param {DatasetModels} models */
export const isModelExpected = (models) =>
  models.trainings[0]?.result === "running" || (models.auto_train && models.waiting > 0);

/** @param {DatasetModels} models @param {boolean} isOneOfSeveral whether there are other datasets */
export function renderModels(models, isOneOfSeveral) {
  const id = `models-${models.dataset}`;
  return renderSection(
    id,
    isOneOfSeveral ? `Model of ${models.dataset}` : "Model",
    describeModel(models),
    renderNextTraining(models),
    models.model === null
      ? null
      : h("p", {}, h("a", { href: buildQueueHash({ dataset: models.dataset }) }, "Review what it doubts")),
    models.trainings.length ? renderTrainings(models.trainings) : null,
  );
}

/** @param {DatasetModels} models */
function describeModel({ model, used_since: usedSince, waiting }) {
  if (model !== null) return `${model} judges the sentences${usedSince ? ` since ${formatDateTime(usedSince)}` : ""}.`;
  return waiting
    ? `${pluralize(waiting, "sentence")} ${waiting === 1 ? "waits" : "wait"} for a model that knows the labels. Nothing is lost: all of them are judged then.`
    : "The default model judges the sentences.";
}

/** The way to the next model. @param {DatasetModels} models */
function renderNextTraining(models) {
  const newest = models.trainings[0];
  if (newest?.result === "running") {
    const { progress } = newest;
    const step = progress ? STEP_NAMES[progress.step] : "starting";
    const share = progress?.total ? progress.done / progress.total : 0;
    return renderProgress(`${newest.model} is being trained: ${step}`, share);
  }
  if (!models.auto_train) {
    return models.waiting
      ? h(
          "p",
          { class: "note" },
          "Train one with ",
          h("code", {}, `labelwatch train --dataset ${models.dataset}`),
          ", or let the service do it: ",
          h("code", {}, `labelwatch datasets set ${models.dataset} auto_train=true`),
        )
      : null;
  }
  const hasTrained = models.trainings.some(({ result }) => result === "used" || result === "not_used");
  const goal = models.model === null && !hasTrained ? "the first model" : "the next training";
  return renderProgress(
    `${formatCount(models.arrived)} of ${pluralize(models.due_at, "sentence")} until ${goal}`,
    models.arrived / models.due_at,
  );
}

/** @param {string} text @param {number} share */
const renderProgress = (text, share) => h("p", { class: "training-progress" }, h("span", {}, text), renderMeter(share));

/** @param {Training[]} trainings */
function renderTrainings(trainings) {
  const rows = trainings
    .slice(0, MAX_TRAININGS)
    .map((training) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, training.model),
        h("td", {}, h("span", { class: "tag" }, RESULT_NAMES[training.result] ?? training.result)),
        h("td", {}, formatDateTime(training.ended_at ?? training.started_at)),
        h("td", { class: "num" }, training.sentences ? formatCount(training.sentences) : ""),
        h("td", { class: "num" }, training.f1 === null || training.f1 === undefined ? "" : training.f1.toFixed(2)),
        h("td", {}, describeTypes(training), training.reason ? h("div", { class: "note" }, training.reason) : null),
      ),
    );
  const names = ["Model", "Result", "When", "Sentences", "F1", "F1 by type"];
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Trainings" },
    h(
      "table",
      { class: "trainings" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          names.map((name) => h("th", { scope: "col", class: NUMBER_COLUMNS.includes(name) ? "num" : null }, name)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

/** @param {Training} training */
const describeTypes = (training) =>
  (training.types ?? []).map((entry) => `${entry.name} ${entry.f1.toFixed(2)}`).join(", ");
