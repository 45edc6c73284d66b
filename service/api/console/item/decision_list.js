/** The decisions about an item. They are collapsed until the reviewer has decided: the second opinion is independent. */

import { h, renderArrow } from "../dom.js";
import { VERDICT_NAMES } from "../queue/review.js";
import { formatAge, formatDateTime, truncate } from "../text.js";

/** @import { Decision, Item } from "../types.js" */
/** @import { ReviewerStatus } from "./item.js" */

/**
 * @param {Item} item
 * @param {ReviewerStatus} status
 * @param {(decision: Decision) => void} onUndo
 * @returns {HTMLElement[]}
 */
export function renderDecisions(item, status, onUndo) {
  const { reviewer } = status;
  if (!item.decisions.length) return [];
  const hasDecided = item.decisions.some((decision) => decision.reviewer === reviewer);
  const agreement =
    item.agreement && h("span", { class: `tag ${item.agreement}` }, item.agreement === "agree" ? "agree" : "differ");
  const names = item.decisions.map((decision) => decision.reviewer).join(", ");
  const list = h(
    "ul",
    {},
    item.decisions.map((decision) => h("li", {}, renderDecision(item, decision, status, onUndo))),
  );
  return [
    h(
      "details",
      { open: hasDecided },
      h(
        "summary",
        {},
        `Decided by ${truncate(names, 100)} `,
        hasDecided || item.decisions.length > 1 ? agreement : null,
      ),
      list,
    ),
  ];
}

/**
 * @param {Item} item
 * @param {Decision} decision
 * @param {ReviewerStatus} status
 * @param {(decision: Decision) => void} onUndo
 */
function renderDecision(item, decision, { reviewer, mayWrite }, onUndo) {
  const isOwn = decision.reviewer === reviewer;
  const corrected = (decision.labels ?? []).flatMap((label, index) =>
    label === item.labels[index] ? [] : [[index, label]],
  );
  const changes = corrected.length
    ? corrected
        .slice(0, 6)
        .map(([index, label]) =>
          h(
            "span",
            { class: "fix" },
            h("bdi", {}, truncate(item.tokens[Number(index)], 40)),
            " ",
            renderArrow(),
            " ",
            h("span", { class: "suggested" }, label),
          ),
        )
    : (decision.words ?? []).map((index) => h("bdi", {}, truncate(item.tokens[index] ?? "", 40)));
  return [
    h("b", {}, isOwn ? "You" : truncate(decision.reviewer, 60)),
    decision.adjudication ? h("span", { class: "tag" }, "settled") : null,
    h("span", { class: `verdict-tag ${decision.verdict}` }, VERDICT_NAMES[decision.verdict]),
    ...changes,
    decision.note ? h("q", {}, truncate(decision.note, 300)) : null,
    decision.decided_at
      ? h("span", { class: "muted", title: formatDateTime(decision.decided_at) }, formatAge(decision.decided_at))
      : null,
    isOwn && mayWrite && item.state !== "closed"
      ? h("button", { type: "button", class: "plain small", on: { click: () => onUndo(decision) } }, "Undo")
      : null,
  ];
}
