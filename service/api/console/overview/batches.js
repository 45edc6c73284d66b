/** The overview's deliveries: the estimated error rate of each batch, and whether it is good enough. */

import { h } from "../dom.js";
import { buildQueueHash } from "../queue/filters.js";
import { formatCount, formatDateTime } from "../text.js";
import { renderSection } from "./layout.js";

/** @import { Batch } from "../types.js" */

const NUMBER_COLUMNS = ["Sentences", "Open"];
/** @type {Record<string, string>} */
const VERDICT_NAMES = { accept: "Accept", reject: "Reject", review: "Review more" };

/** @param {number} share */
const formatShare = (share) => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;

/**
 * @param {Batch[]} batches
 * @param {string} dataset
 * @param {{ limit: string, onLimitChange: (limit: string) => void }} choice the highest share of errors to accept, in percent
 */
export function renderBatches(batches, dataset, { limit, onLimitChange }) {
  const headings = ["Batch", "Sentences", "Open", "Wrong", "Verdict"].map((name) =>
    h("th", { scope: "col", class: NUMBER_COLUMNS.includes(name) ? "num" : "" }, name),
  );
  return renderSection(
    "batches",
    "Batches",
    "The share of wrong sentences in each delivery, estimated from the decisions about its flagged sentences and its control sample. The interval contains the true share with a probability of 95 %.",
    renderLimit(limit, onLimitChange),
    h(
      "table",
      { class: "batches" },
      h("thead", {}, h("tr", {}, headings)),
      h(
        "tbody",
        {},
        batches.map((batch) => renderBatch(batch, dataset)),
      ),
    ),
  );
}

/** @param {string} limit @param {(limit: string) => void} onChange */
function renderLimit(limit, onChange) {
  const input = /** @type {HTMLInputElement} */ (
    h("input", {
      id: "batch-limit",
      type: "number",
      min: "0.01",
      max: "99",
      step: "any",
      value: limit,
      placeholder: "none",
    })
  );
  input.addEventListener("change", () => {
    if (input.checkValidity()) onChange(input.value);
  });
  return h(
    "div",
    { class: "field" },
    h("label", { for: "batch-limit" }, "Accept up to this percentage of errors"),
    input,
  );
}

/** @param {Batch} batch @param {string} dataset */
function renderBatch(batch, dataset) {
  const link = h(
    "a",
    { href: buildQueueHash({ dataset, batch: batch.batch, state: batch.open ? "open" : "all" }) },
    h("bdi", {}, batch.batch),
  );
  if (batch.last_arrival_at) link.title = `Last sentence ${formatDateTime(batch.last_arrival_at)}`;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, link),
    h("td", { class: "num" }, formatCount(batch.sentences)),
    h("td", { class: "num" }, formatCount(batch.open)),
    h(
      "td",
      {},
      batch.error_rate === null ? "unknown" : formatShare(batch.error_rate),
      h("span", { class: "muted" }, ` (${formatShare(batch.low)} to ${formatShare(batch.high)})`),
    ),
    h(
      "td",
      {},
      batch.verdict ? h("b", { class: `batch-${batch.verdict}` }, VERDICT_NAMES[batch.verdict]) : "",
      batch.advice ? h("div", { class: "muted" }, batch.advice) : "",
    ),
  );
}
