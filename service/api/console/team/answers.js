/** The answers about an item side by side: as given, of each reviewer, and of the model, as entities. */

import { h } from "../dom.js";
import { proposeLabels } from "../labels/proposal.js";
import { listIndices } from "../labels/spans.js";
import { VERDICT_NAMES } from "../queue/review.js";
import { truncate } from "../text.js";

/** @import { Decision, Item, Span } from "../types.js" */
/** @import { Scheme } from "../labels/scheme.js" */

const CONTEXT_WORDS = 8;
const MAX_UNCUT_WORDS = 40;

/**
 * Shown where an item has all the decisions it needs, if it needs several.
 * @param {Item} item
 * @param {Scheme} scheme
 * @returns {HTMLElement[]}
 */
export function renderAnswers(item, scheme) {
  const independent = item.decisions.filter((decision) => !decision.adjudication);
  if (item.state === "open" || item.state === "closed" || independent.length < 2) return [];
  /** @type {[string, Decision | null, string[] | null][]} */
  const answers = [
    ["As given", null, item.labels],
    ...item.decisions.map(
      (decision) =>
        /** @type {[string, Decision, string[] | null]} */ ([
          decision.adjudication ? `${decision.reviewer}, settled` : decision.reviewer,
          decision,
          findLabels(item, decision),
        ]),
    ),
    ["Model", null, proposeLabels(item, scheme)],
  ];
  const spans = answers.map(([, , labels]) => (labels ? scheme.parseSpans(labels) : null));
  const disputed = findDisputed(spans.filter((found) => found !== null));
  const words = selectWords(item, disputed);
  const rows = answers.map(([name, decision], row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("bdi", {}, truncate(name, 60)), " ", decision ? renderVerdict(decision) : null),
      h(
        "td",
        {},
        renderSentence(item, scheme, spans[row], words, disputed) ?? renderWrongWords(item, decision),
        decision?.note ? renderNote(decision.note) : null,
      ),
    ),
  );
  return [
    h(
      "section",
      { class: "side-by-side", "aria-label": "Answers side by side" },
      h("h3", {}, "Answers side by side"),
      h("table", {}, h("tbody", {}, rows)),
    ),
  ];
}

/** The labels that a reviewer finds right; null if the decision does not say. @param {Item} item @param {Decision} decision */
function findLabels(item, decision) {
  if (decision.verdict === "ok") return item.labels;
  return decision.verdict === "error" && decision.labels?.length === item.tokens.length ? decision.labels : null;
}

/** @param {Decision} decision */
const renderVerdict = ({ verdict }) => h("span", { class: `verdict-tag ${verdict}` }, VERDICT_NAMES[verdict]);

/** What a decision without labels says. @param {Item} item @param {Decision | null} decision */
function renderWrongWords(item, decision) {
  const words = (decision?.words ?? []).map((index) => truncate(item.tokens[index] ?? "", 40));
  return h(
    "p",
    { class: "muted" },
    words.length ? `Wrong, without a correction: ${words.join(", ")}` : "No labels given.",
  );
}

/** @param {string} note */
const renderNote = (note) => h("q", {}, truncate(note, 300));

/** The words that the answers do not label alike. @param {Span[][]} answers @returns {Set<number>} */
function findDisputed(answers) {
  /** @type {Map<number, Set<string>>} */
  const found = new Map();
  for (const [row, spans] of answers.entries())
    for (const span of spans)
      for (const index of listIndices(span)) {
        const names = found.get(index) ?? new Set();
        found.set(index, names.add(`${row} ${span.start} ${span.end} ${span.type}`));
      }
  const isDisputed = (/** @type {Set<string>} */ names) =>
    names.size < answers.length || new Set([...names].map((name) => name.slice(name.indexOf(" ")))).size > 1;
  return new Set([...found].filter(([, names]) => isDisputed(names)).map(([index]) => index));
}

/** All words of a short sentence, else those around disputed ones. @param {Item} item @param {Set<number>} disputed */
function selectWords(item, disputed) {
  const all = item.tokens.map((_, index) => index);
  if (all.length <= MAX_UNCUT_WORDS) return all;
  const centers = disputed.size ? [...disputed] : item.doubtful.map((flag) => flag.index);
  return all.filter((index) => centers.some((center) => Math.abs(center - index) <= CONTEXT_WORDS));
}

/**
 * @param {Item} item
 * @param {Scheme} scheme
 * @param {Span[] | null} spans
 * @param {number[]} words
 * @param {Set<number>} disputed
 */
function renderSentence(item, scheme, spans, words, disputed) {
  if (spans === null) return null;
  /** @type {(Node | string)[]} */
  const parts = [];
  let next = 0;
  for (const index of words) {
    if (index < next) continue;
    if (index > next) parts.push("… ");
    const span = spans.find((candidate) => candidate.start <= index && index < candidate.end);
    next = span ? span.end : index + 1;
    const text = item.tokens.slice(index, next).join(" ");
    const isDisputed = Array.from({ length: next - index }, (_, step) => index + step).some((word) =>
      disputed.has(word),
    );
    if (span)
      parts.push(
        h(
          "span",
          { class: `entity ${scheme.palette.getClasses(span.type)}${isDisputed ? " disputed" : ""}` },
          h("bdi", {}, truncate(text, 200)),
          h("small", {}, truncate(span.type, 40)),
        ),
        " ",
      );
    else parts.push(h("bdi", { class: isDisputed ? "disputed" : null }, truncate(text, 80)), " ");
  }
  if (next < item.tokens.length) parts.push("…");
  return h("p", {}, parts);
}
