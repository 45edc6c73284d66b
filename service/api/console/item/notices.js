/** Notices above the sentence: unsaved decisions, claims, closed items, control samples, thresholds that warm up. */

import { h } from "../dom.js";
import { formatPercent, formatTime } from "../text.js";
import { hasDecided, isClaimedByOther, VERDICT_NAMES } from "../queue/review.js";

/** @import { Decision, Item } from "../types.js" */
/** @import { Scheme } from "../labels/scheme.js" */
/** @import { ReviewerStatus } from "./item.js" */

/**
 * @param {Item} item
 * @param {ReviewerStatus} status
 * @param {Scheme} scheme
 * @param {(decision: Decision) => void} onUndo
 */
export function renderNotices(item, { reviewer, unsent }, scheme, onUndo) {
  const notices = [];
  if (unsent) {
    const subject = unsent.withdrawn
      ? "Your undo"
      : h("span", {}, "Your decision, ", h("b", {}, VERDICT_NAMES[unsent.verdict]), ",");
    const undo = unsent.withdrawn
      ? null
      : h("button", { type: "button", class: "plain small", on: { click: () => onUndo(unsent) } }, "Undo");
    notices.push(
      h("p", { class: "notice unsaved" }, subject, " is not saved yet. It is sent when the service answers. ", undo),
    );
  }
  if (isClaimedByOther(item, reviewer)) {
    const until = item.claimed_until ? ` until ${formatTime(item.claimed_until)}` : "";
    notices.push(
      h("p", { class: "notice" }, h("b", {}, item.claimed_by), ` has it open${until}. You can decide as well.`),
    );
  }
  if (item.state === "adjudication") {
    const advice = hasDecided(item, reviewer)
      ? "You are one of them: another reviewer settles it. You can still change your decision."
      : "Your decision settles it.";
    notices.push(h("p", { class: "notice" }, h("b", {}, "Reviewers differ. "), advice));
  } else if (item.state === "open" && item.overlap > 1) {
    notices.push(
      h(
        "p",
        { class: "notice quiet" },
        `This sentence needs ${item.overlap} decisions and has ${item.decision_count}. You see those of others when it has all of them.`,
      ),
    );
  }
  if (item.state === "closed") {
    const reason =
      item.closed_by === "deleted"
        ? "The annotation was deleted."
        : "It was annotated again and is not doubtful any more.";
    notices.push(h("p", { class: "notice" }, `${reason} There is nothing left to decide.`));
  }
  if (item.reason === "control") {
    const share =
      item.inclusion_probability === null ? "" : `, drawn with ${formatPercent(item.inclusion_probability)}`;
    notices.push(h("p", { class: "notice quiet" }, `A control sentence${share}: nothing was flagged here.`));
  }
  if (item.blind)
    notices.push(
      h(
        "p",
        { class: "notice quiet" },
        "Probabilities are shown after the decision: some sentences of this dataset are a control sample.",
      ),
    );
  const warmingUp = item.warming_up.filter((name) =>
    item.doubtful.some((flag) => [flag.given, flag.suggested].some((label) => scheme.isJudgedAs(label, name, item))),
  );
  if (warmingUp.length)
    notices.push(
      h(
        "p",
        { class: "notice quiet" },
        `There are few words of ${warmingUp.join(", ")} so far: their thresholds are warming up.`,
      ),
    );
  return notices;
}
