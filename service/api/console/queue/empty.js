/** The page shown when there is no sentence to show. */

import { h } from "../dom.js";
import { truncate } from "../text.js";

/** @import { Filter } from "./filters.js" */

/**
 * @param {Filter} filter
 * @param {{ isUnfiltered: boolean, namesUnknownDataset: boolean }} about `isUnfiltered`: no filter but the state is set
 */
export function renderEmptyStage({ dataset, state }, { isUnfiltered, namesUnknownDataset }) {
  /** @param {string} title @param {...HTMLElement} content */
  const renderStage = (title, ...content) => h("div", { class: "empty-stage" }, h("h2", {}, title), ...content);
  if (namesUnknownDataset) {
    return renderStage(
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
  }
  if (state === "open" && isUnfiltered) {
    return renderStage(
      "Nothing to review",
      h(
        "p",
        { class: "note" },
        "Every doubtful sentence is decided. New ones appear here automatically, seconds after they are annotated.",
      ),
      h(
        "p",
        { class: "note" },
        "Send labelled sentences to ",
        h("code", {}, "POST /v1/sentences"),
        " or to the sentences topic; the ",
        h("a", { href: "docs" }, "API documentation"),
        " shows how.",
      ),
    );
  }
  return renderStage(
    "Nothing matches",
    h("p", { class: "note" }, "No sentence in the queue matches these filters."),
    h("p", {}, h("a", { href: "#/queue" }, "Clear the filters")),
  );
}
