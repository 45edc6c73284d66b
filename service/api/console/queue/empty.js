/** What stands in the place of the sentence where there is none. */

import { h } from "../dom.js";
import { cut } from "../text.js";

/** @import { Filter } from "./filters.js" */

/**
 * @param {Filter} filter
 * @param {{ plain: boolean, strange: boolean }} about `plain`: nothing but the state is chosen; `strange`: there is no such dataset
 */
export function emptyStage({ dataset, state }, { plain, strange }) {
  /** @param {string} title @param {...HTMLElement} content */
  const page = (title, ...content) => h("div", { class: "empty-stage" }, h("h2", {}, title), ...content);
  if (strange) {
    return page(
      "No such dataset",
      h(
        "p",
        { class: "note" },
        "There is no dataset called ",
        h("b", {}, cut(dataset, 80)),
        ". A dataset appears with its first sentence.",
      ),
      h("p", {}, h("a", { href: "#/queue" }, "Show all datasets")),
    );
  }
  if (state === "open" && plain) {
    return page(
      "Nothing to review",
      h(
        "p",
        { class: "note" },
        "Every doubtful sentence is decided. New ones appear here by themselves, seconds after they were annotated.",
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
  return page(
    "Nothing matches",
    h("p", { class: "note" }, "No sentence of the queue fits these filters."),
    h("p", {}, h("a", { href: "#/queue" }, "Clear the filters")),
  );
}
