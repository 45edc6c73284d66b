/** What earlier words of the dataset say about the worst word: "seen 7 times in the last 200 sentences, 6 as ORG". */

import { h } from "../dom.js";
import { formatCount, pluralize, truncate } from "../text.js";

/** @import { Because, Item } from "../types.js" */

/**
 * One sentence about the evidence. Of mentions the numbers are sums of probabilities: they are rounded.
 * @param {Because} because
 */
export function describeEvidence({ kind, words, sentences, by_type }) {
  const subject = kind === "pattern" ? "Words in the same surroundings: seen" : "Seen";
  const where =
    kind === "older_mentions" ? pluralize(sentences, "older sentence") : `the last ${pluralize(sentences, "sentence")}`;
  const parts = Object.entries(by_type).flatMap(([type, number]) => {
    const name = type === "O" ? "no entity" : truncate(type, 40);
    const rounded = Math.min(Math.round(number), words);
    return rounded ? [`${rounded === words ? "always" : formatCount(rounded)} as ${name}`] : [];
  });
  return [`${subject} ${pluralize(words, "time")} in ${where}`, ...parts].join(", ");
}

/** The evidence about the worst word, or null if there is none. @param {Item} item */
export function renderBecause(item) {
  if (!item.because.length) return null;
  const word = item.tokens[item.because[0].index] ?? "";
  return h(
    "section",
    { class: "because", "aria-label": "What earlier sentences say" },
    h("h3", {}, h("q", {}, h("bdi", {}, truncate(word, 60))), " in earlier sentences"),
    h(
      "ul",
      {},
      item.because.map((because) =>
        h(
          "li",
          {},
          describeEvidence(because),
          " ",
          h("span", { class: `tag ${because.speaks}` }, because.speaks === "for" ? "as labelled here" : "unlike here"),
        ),
      ),
    ),
  );
}
