/** The numbers behind an item: rank, priority, score and the thresholds that were used. */

import { h } from "../dom.js";
import { formatScore } from "../text.js";

/** @import { Item } from "../types.js" */

/** The details of an item, or null for a closed one: it has no scores. @param {Item} item */
export function renderDetails(item) {
  if (item.state === "closed") return null;
  return h(
    "details",
    { class: "details" },
    h("summary", {}, "Scores and thresholds"),
    renderNumbers(item),
    renderThresholds(item),
    h(
      "p",
      { class: "note" },
      `${item.method}, ${item.token_score}; model ${item.model.name} (${item.model.fingerprint.slice(0, 12)}). `,
      "Low is bad. A word is doubted when the likeliest class is another one, and some other class reaches its threshold.",
    ),
  );
}

/** @param {Item} item */
function renderNumbers(item) {
  /** @type {[string, number | null, string][]} */
  const numbers = [
    ["Rank", item.rank, "The order of the queue: the priority, or the ranker's score once there are enough decisions"],
    ["Priority", item.priority, "The worst word, weighted by how well the model agrees with its label elsewhere"],
    ["Score", item.score, `${item.method}, ${item.token_score}`],
  ];
  return h(
    "dl",
    { class: "numbers" },
    numbers.map(([name, value, description]) =>
      h("div", { title: `${description}. Low is bad.` }, h("dt", {}, name), h("dd", {}, formatScore(value))),
    ),
  );
}

/** @param {Item} item */
function renderThresholds(item) {
  const classes = Object.entries(item.thresholds);
  if (!classes.length) return null;
  return h(
    "dl",
    { class: "thresholds", "aria-label": "Thresholds used" },
    classes.map(([name, value]) =>
      h(
        "div",
        {},
        h("dt", {}, name),
        h(
          "dd",
          {},
          value === null ? "none yet" : value.toFixed(3),
          item.warming_up.includes(name) ? h("span", { class: "tag" }, "warming up") : null,
        ),
      ),
    ),
  );
}
