/** A sentence of an annotator: doubtful and corrected words, and the reviewers' notes. */

import { h } from "../dom.js";

/** @import { OwnItem } from "../types.js" */

/** @param {OwnItem} item */
export function renderOwnItem(item) {
  const changes = listChanges(item);
  const indexes = new Set(changes.map(({ index }) => index));
  const isLink = /^https?:\/\//.test(item.source ?? "");
  return h(
    "li",
    { "data-id": item.id },
    h(
      "p",
      { dir: "auto" },
      item.tokens.flatMap((token, index) => [indexes.has(index) ? h("mark", {}, token) : token, " "]),
      isLink ? h("a", { href: item.source, target: "_blank", rel: "noopener noreferrer" }, "Open") : null,
    ),
    changes.length
      ? h(
          "p",
          { class: "note" },
          changes
            .map(
              ({ index, from, to, isCertain }) =>
                `${item.tokens[index]}: ${describeLabel(from)} → ${describeLabel(to)}${isCertain ? "" : "?"}`,
            )
            .join("; "),
        )
      : null,
    item.notes.map((note) => h("blockquote", { dir: "auto" }, note)),
  );
}

/** A label in words: `PER`, `PER (continued)`, `no entity`. @param {string} label */
function describeLabel(label) {
  if (label === "O") return "no entity";
  const [, prefix, type] = /^([BIESLU])-(.+)$/.exec(label) ?? [];
  if (!type) return label;
  return prefix === "I" || prefix === "E" || prefix === "L" ? `${type} (continued)` : type;
}

/**
 * The words to look at: those that reviewers corrected, or else those in doubt with the model's suggestion.
 * @param {OwnItem} item
 */
function listChanges({ labels, corrected_labels: corrected, doubtful, result }) {
  if (result === "right") return [];
  if (corrected)
    return labels
      .map((from, index) => ({ index, from, to: corrected[index], isCertain: true }))
      .filter(({ from, to }) => from !== to);
  return doubtful.map(({ index, given, suggested }) => ({ index, from: given, to: suggested, isCertain: false }));
}
