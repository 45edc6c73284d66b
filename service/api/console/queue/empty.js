/** The page shown when there is no sentence to show. It says what to do next. */

import { hasKey } from "../api.js";
import { h, renderCommand } from "../dom.js";
import { pluralize, truncate } from "../text.js";
import { renderWaitingStage } from "../waiting.js";
import { buildQueueHash } from "./filters.js";

/** @import { Overview } from "../types.js" */
/** @import { WaitingDataset } from "../waiting.js" */
/** @import { Filter } from "./filters.js" */

const DATASET_PLACEHOLDER = "DATASET";

/**
 * @param {Filter} filter
 * @param {{ isWholeQueue: boolean, namesUnknownDataset: boolean, overview: Overview | null, datasets: string[],
 *   sentences: number | null, waiting: WaitingDataset[], claimed: number }} about
 *   `isWholeQueue`: no filter is set but the dataset; `sentences`: how many the service has judged, null: not known;
 *   `waiting`: datasets whose sentences wait for a model; `claimed`: sentences of the list, which others have open
 */
export function renderEmptyStage(
  { dataset, state },
  { isWholeQueue, namesUnknownDataset, overview, datasets, sentences, waiting, claimed },
) {
  if (claimed) {
    return renderStage(
      "Nothing is free",
      h(
        "p",
        { class: "note" },
        `Others have ${claimed === 1 ? "the last sentence" : `the last ${pluralize(claimed, "sentence")}`} of the list open. What they leave appears here automatically. You can also open one from the list.`,
      ),
    );
  }
  if (namesUnknownDataset) return renderUnknownDataset(dataset);
  if (state !== "open" || !isWholeQueue) {
    return renderStage(
      "Nothing matches",
      h("p", { class: "note" }, "No sentence in the queue matches these filters."),
      h("p", {}, h("a", { href: "#/queue" }, "Clear the filters")),
    );
  }
  const isOutdated = overview !== null && overview.counts.open > 0; // its counts are from before the last decision
  if (!overview || sentences === null || isOutdated) return renderStage("Nothing to review");
  if (overview.counts.decided || overview.counts.adjudication) return renderEndOfQueue(dataset, overview, datasets);
  if (sentences) {
    return renderStage(
      "Nothing to review",
      h(
        "p",
        { class: "note" },
        `${pluralize(sentences, "sentence")} judged, none of them in doubt. Doubtful ones appear here automatically, seconds after they are annotated.`,
      ),
    );
  }
  return waiting.length ? renderWaitingStage(waiting[0]) : renderFirstSteps();
}

/** @param {string} title @param {...(Node | null)} content */
const renderStage = (title, ...content) => h("div", { class: "empty-stage" }, h("h2", {}, title), ...content);

/** @param {string} dataset */
const renderUnknownDataset = (dataset) =>
  renderStage(
    "No such dataset",
    h(
      "p",
      { class: "note" },
      "There is no dataset called ",
      h("b", {}, truncate(dataset, 80)),
      ". A dataset appears with its first sentence.",
    ),
    h("p", {}, h("a", { href: "#/queue" }, "Show all datasets")),
  );

/** The service is new: how to send the first sentence. */
function renderFirstSteps() {
  const body =
    '{"tokens": ["Anna", "flew", "to", "Oslo"], "labels": ["B-PER", "O", "O", "B-ORG"], "dataset": "news", "id": "1"}';
  const key = hasKey() ? " -H 'X-API-Key: YOUR_KEY'" : "";
  const address = new URL("v1/sentences", document.baseURI).href;
  return renderStage(
    "Send the first sentence",
    h(
      "p",
      { class: "note" },
      "No sentence has arrived yet. Run this command: the sentence has a wrong label and appears here in a few seconds.",
    ),
    renderCommand(`curl -s ${address}${key} -H 'Content-Type: application/json' -d '${body}'`),
    h("p", { class: "note" }, "To send a file, run this on the machine of the service, in its folder:"),
    renderCommand("labelwatch send my.conll --dataset news"),
    h(
      "p",
      { class: "note" },
      "The ",
      h("a", { href: "docs" }, "API documentation"),
      " shows all formats. Annotation platforms send through webhooks, and any program through Kafka.",
    ),
  );
}

/** Nothing is open: what to do next. @param {string} dataset @param {Overview} overview @param {string[]} datasets */
function renderEndOfQueue(dataset, { counts, verdicts }, datasets) {
  const name = dataset || (datasets.length === 1 ? datasets[0] : DATASET_PLACEHOLDER);
  const disputes = counts.adjudication ?? 0;
  return renderStage(
    disputes ? `Reviewers differ about ${pluralize(disputes, "sentence")}` : "Every doubtful sentence is decided",
    h(
      "p",
      { class: "note" },
      `${pluralize(counts.decided, "sentence")} decided: ${pluralize(verdicts.error, "error")}, ${verdicts.ok} OK, ${verdicts.unsure} unsure. New ones appear here automatically, seconds after they are annotated.`,
    ),
    h("h3", {}, "What to do next"),
    disputes
      ? h(
          "p",
          {},
          h(
            "a",
            { href: buildQueueHash({ dataset, state: "adjudication" }) },
            `Settle ${pluralize(disputes, "sentence")}`,
          ),
        )
      : null,
    verdicts.unsure
      ? h(
          "p",
          {},
          h(
            "a",
            { href: buildQueueHash({ dataset, state: disputes ? "all" : "decided", verdict: "unsure" }) },
            `Look again at ${verdicts.unsure === 1 ? "the unsure sentence" : `the ${pluralize(verdicts.unsure, "unsure sentence")}`}`,
          ),
        )
      : null,
    h(
      "p",
      {},
      h(
        "a",
        { href: `#/export${dataset ? `?${new URLSearchParams({ dataset })}` : ""}` },
        "Export the dataset with the corrected labels",
      ),
      h("span", { class: "note" }, " as a file, or with the command:"),
    ),
    renderCommand(`labelwatch export --decisions --dataset ${name} --output ${name}-corrected/`),
    h(
      "p",
      { class: "note" },
      "The ",
      h("a", { href: `#/overview${dataset ? `?${new URLSearchParams({ dataset })}` : ""}` }, "overview"),
      " shows which labels and annotators were wrong most often. To send more sentences to review, change the dataset's flag policy:",
    ),
    renderCommand(`labelwatch datasets set ${name} flag_policy.kind=budget flag_policy.share=0.05`),
  );
}
