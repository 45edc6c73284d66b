/** The suspects of the open item: entities that the service doubts. */

import { h, renderArrow } from "../dom.js";
import { formatCount, formatPercent, truncate } from "../text.js";

/** @import { Item, Suspect } from "../types.js" */

/** @type {Record<string, [string, string]>} */
export const SUSPECT_KINDS = {
  missed: ["Missed", "an entity the labels leave out"],
  spurious: ["Spurious", "a label where there is no entity"],
  type: ["Wrong type", "an entity of another type in this place"],
  boundary: ["Wrong boundary", "the right type over other words"],
};

/** The list of suspects, or null if there are none. @param {Item} item */
export function renderSuspects(item) {
  if (!item.suspects.length) return null;
  const shownSuspects = item.suspects.slice(0, 8);
  return h(
    "ul",
    { class: "doubts", "aria-label": "Doubtful entities" },
    shownSuspects.map((suspect) => h("li", {}, renderSuspect(item, suspect))),
    item.suspects.length > shownSuspects.length &&
      h("li", { class: "muted" }, `${formatCount(item.suspects.length - shownSuspects.length)} more`),
  );
}

/** `Wrong type: China, PER → LOC, 98 %`. @param {Item} item @param {Suspect} suspect */
function renderSuspect(item, suspect) {
  const { given_span: given, suggested_span: suggested } = suspect;
  const [name, meaning] = SUSPECT_KINDS[suspect.kind] ?? [suspect.kind, ""];
  /** @param {{ start: number, end: number }} span */
  const renderQuote = (span) =>
    h(
      "q",
      {},
      h("bdi", {}, truncate(item.tokens.slice(span.start, Math.min(span.end, span.start + 12)).join(" "), 120)),
    );
  const before = h("span", { class: "given" }, given?.type ?? "no entity");
  const after = h("span", { class: "suggested" }, suggested?.type ?? "no entity");
  const hasMoved = given && suggested && (given.start !== suggested.start || given.end !== suggested.end);
  const sameType = hasMoved && given.type === suggested.type;
  return [
    h("span", { class: "kind", title: meaning }, name),
    hasMoved
      ? [renderQuote(given), sameType ? null : before, renderArrow(), renderQuote(suggested), sameType ? null : after]
      : [renderQuote(/** @type {any} */ (suggested ?? given)), before, renderArrow(), after],
    suspect.confidence === null ? [] : h("span", { class: "sure" }, `${formatPercent(suspect.confidence)} sure`),
  ].flat();
}
