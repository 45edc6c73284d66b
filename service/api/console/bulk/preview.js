/** What a bulk decision would change, and what it leaves out, in words. */

import { h } from "../dom.js";
import { formatCount, pluralize, truncate } from "../text.js";
import { MAX_ITEMS } from "./bulk.js";

/** @import { BulkAction, LeftOut, PlannedDecision } from "../types.js" */
/** @import { Plan } from "./bulk.js" */
/** @import { Palette } from "../labels/colours.js" */

const NO_ENTITY = "O";
const MAX_SHOWN = 100;
/** @type {Record<string, string>} */
const REASONS = {
  missing: "no longer in the queue",
  changed: "annotated again meanwhile",
  closed: "annotated again or deleted",
  decided: "already decided",
  claimed: "open with another reviewer",
  control_sample: "the dataset has a control sample: select sentences one by one",
  other_doubts: "another doubt in the same sentence",
  no_suggestion: "nothing to accept",
  invalid: "the suggestion does not fit the label set",
};

/**
 * @param {Plan} plan
 * @param {BulkAction} action
 * @param {(dataset: string) => Palette} findPalette
 */
export function renderPlan({ total, planned, leftOut }, action, findPalette) {
  const read = planned.length + leftOut.length;
  return [
    h(
      "p",
      { class: "bulk-count" },
      h("b", {}, pluralize(planned.length, "sentence gets", "sentences get")),
      " a decision",
      leftOut.length ? `, ${formatCount(leftOut.length)} left out` : "",
      read < total ? `. These are the first ${formatCount(Math.min(read, MAX_ITEMS))} of ${formatCount(total)}.` : ".",
    ),
    planned.length ? renderGroups(planned, action, findPalette) : null,
    planned.length ? renderSentences(planned, action) : null,
    leftOut.length ? renderLeftOut(leftOut) : null,
  ].filter((part) => part !== null);
}

/** Counts by pair of types. @param {PlannedDecision[]} planned @param {BulkAction} action @param {(dataset: string) => Palette} findPalette */
function renderGroups(planned, action, findPalette) {
  /** @type {Map<string, { given: string, suggested: string, dataset: string, doubts: number }>} */
  const groups = new Map();
  for (const { decision, doubts } of planned) {
    for (const { given, suggested } of doubts) {
      const key = `${given} ${suggested}`;
      const group = groups.get(key) ?? { given, suggested, dataset: decision.dataset, doubts: 0 };
      group.doubts += 1;
      groups.set(key, group);
    }
  }
  return h(
    "ul",
    { class: "bulk-groups" },
    [...groups.values()]
      .sort((a, b) => b.doubts - a.doubts)
      .map(({ given, suggested, dataset, doubts }) => {
        const palette = findPalette(dataset);
        /** @param {string} type */
        const renderType = (type) =>
          type === NO_ENTITY ? "no entity" : h("b", { class: palette.getClasses(type) }, truncate(type, 40));
        return h(
          "li",
          {},
          action === "accept"
            ? given === suggested
              ? [renderType(given), " gets another boundary"]
              : [renderType(given), " becomes ", renderType(suggested)]
            : action === "ok"
              ? [renderType(given), " stays, not ", renderType(suggested)]
              : [renderType(given), " or ", renderType(suggested)],
          h("span", { class: "muted" }, ` ${formatCount(doubts)}×`),
        );
      }),
  );
}

/** @param {PlannedDecision[]} planned @param {BulkAction} action */
function renderSentences(planned, action) {
  /** @param {string} type */
  const name = (type) => (type === NO_ENTITY ? "no entity" : type);
  return h(
    "details",
    { class: "bulk-sentences" },
    h("summary", {}, "Show the sentences"),
    h(
      "ul",
      {},
      planned
        .slice(0, MAX_SHOWN)
        .map(({ decision, doubts }) =>
          h(
            "li",
            {},
            h("bdi", {}, truncate(decision.id, 40)),
            ": ",
            doubts
              .map(
                ({ words, given, suggested }) =>
                  `${truncate(words.join(" "), 60)} (${action === "accept" ? `${name(given)} → ${name(suggested)}` : name(given)})`,
              )
              .join(", "),
          ),
        ),
    ),
    planned.length > MAX_SHOWN
      ? h("p", { class: "note" }, `and ${formatCount(planned.length - MAX_SHOWN)} more`)
      : null,
  );
}

/** @param {LeftOut[]} leftOut */
function renderLeftOut(leftOut) {
  /** @type {Map<string, LeftOut[]>} */
  const byReason = new Map();
  for (const entry of leftOut) byReason.set(entry.reason, [...(byReason.get(entry.reason) ?? []), entry]);
  return h(
    "div",
    { class: "bulk-left-out" },
    h("h3", {}, "Left out"),
    h(
      "ul",
      {},
      [...byReason].map(([reason, entries]) =>
        h(
          "li",
          { "data-reason": reason },
          `${formatCount(entries.length)}: ${REASONS[reason] ?? reason}`,
          h(
            "span",
            { class: "muted" },
            ` (${entries
              .slice(0, 3)
              .map(({ id }) => truncate(id, 24))
              .join(", ")}${entries.length > 3 ? ", …" : ""})`,
          ),
        ),
      ),
    ),
  );
}
