/** The parts of the overview: figures, charts and tables. */

import { bars, histogram, meter, shares, steps } from "./charts.js";
import { h } from "../dom.js";
import { addressOf } from "../queue/filters.js";
import { flagRates, lastDays, wilson } from "./figures.js";
import { colourOf, Scheme } from "../labels/labels.js";
import { clock, count, decimal, percent, plural } from "../text.js";

/** @import { Annotator, Confusion, Overview, Thresholds } from "../types.js" */

const HEATS = 5;
const MOST_TYPES = 24;
const LITTLE = 0.005; // an offset that shows as 0
const DAY = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });

/** @param {string} day */
const named = (day) => DAY.format(new Date(`${day}T00:00:00Z`));

/**
 * @param {string} id
 * @param {string} title
 * @param {string} note
 * @param {...(Node | null)} content
 */
function section(id, title, note, ...content) {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title),
    note ? h("p", { class: "note" }, note) : null,
    ...content,
  );
}

/** @param {string} text */
const nothing = (text) => h("p", { class: "empty" }, text);

/** @param {Overview} overview @param {Thresholds[]} learned */
export function figures(overview, learned) {
  const { counts, recall } = overview;
  const sentences = learned.reduce((sum, one) => sum + one.sentences, 0);
  const flagged = overview.days.reduce((sum, day) => sum + day.flagged, 0);
  const recalled =
    recall && recall.recall !== null
      ? [percent(recall.recall), `${percent(recall.low ?? 0)} to ${percent(recall.high ?? 1)}`]
      : [
          "–",
          recall && recall.controls
            ? `${count(recall.controls_decided)} of ${count(recall.controls)} controls decided`
            : "no control sample",
        ];
  /** @type {[string, string, string, string][]} */
  const shown = [
    ["open", count(counts.open ?? 0), "to review", ""],
    ["decided", count(counts.decided ?? 0), "decided", counts.closed ? `${count(counts.closed)} closed` : ""],
    [
      "rate",
      sentences ? percent(Math.min(flagged / sentences, 1)) : "–",
      "flagged",
      sentences ? `of ${plural(sentences, "sentence")}` : "",
    ],
    [
      "precision",
      overview.precision === null ? "–" : percent(overview.precision),
      "precision",
      overview.precision === null ? "nothing decided yet" : "of the flagged were wrong",
    ],
    ["recall", recalled[0], "recall, estimated", recalled[1]],
  ];
  return h(
    "dl",
    { class: "figures" },
    shown.map(([css, value, name, more]) =>
      h("div", { class: css }, h("dt", {}, name, more ? h("small", {}, more) : null), h("dd", {}, value)),
    ),
  );
}

/** @param {Overview} overview @param {Thresholds[]} learned @param {number} width */
export function flagChart(overview, learned, width) {
  const days = lastDays(overview.days);
  const rates = flagRates(days, learned);
  const known = rates.some((rate) => rate.share !== null);
  const points = rates.map(({ day, flagged, sentences, share }) => ({
    name: named(day),
    value: known ? share : flagged,
    told: `${named(day)}: ${plural(flagged, "sentence")} flagged${share === null ? "" : ` of ${count(sentences ?? 0)}, ${percent(share)}`}`,
  }));
  const total = days.reduce((sum, day) => sum + day.flagged, 0);
  const told = `Flagged sentences by day: ${count(total)} in ${plural(days.length, "day")}.`;
  return section(
    "flag-rate",
    known ? "Flag rate" : "Flagged",
    known ? "Flagged sentences, of those that came in, by day (UTC)." : "Flagged sentences by day (UTC).",
    overview.days.length
      ? bars({
          points,
          width,
          height: 210,
          told,
          whole: !known,
          css: "bar doubt",
          format: known ? (value) => `${Number((100 * value).toFixed(1))}\u202f%` : count,
        })
      : nothing("Nothing was flagged so far."),
  );
}

/** @param {Overview} overview @param {number} width */
export function precisionChart(overview, width) {
  const days = lastDays(overview.days);
  const points = days.map(({ day, decided, errors, precision }) => {
    const [low, high] = decided ? wilson(errors / decided, decided) : [0, 1];
    return {
      name: named(day),
      value: precision,
      low,
      high,
      told: `${named(day)}: ${count(errors)} of ${plural(decided, "decided sentence")} wrong${precision === null ? "" : `, ${percent(precision)} (${percent(low)} to ${percent(high)})`}`,
    };
  });
  const decided = days.reduce((sum, day) => sum + day.decided, 0);
  return section(
    "precision",
    "Reviewer precision",
    "Flagged sentences that reviewers found wrong, by the day of the decision, with 95\u202f% intervals.",
    decided
      ? shares({ points, width, height: 210, told: `Reviewer precision by day, over ${plural(decided, "decision")}.` })
      : nothing("Nothing was decided so far."),
  );
}

/** @param {Overview} overview @param {number} width */
export function scoreChart({ scores }, width) {
  const total = scores.reduce((sum, bin) => sum + bin.items, 0);
  return section(
    "scores",
    "Scores",
    "Sentences in review by their score. Low is bad. The axis stretches towards both ends, where the differences are; the heights are logarithmic.",
    total
      ? histogram({
          bins: scores,
          width,
          height: 230,
          told: `Histogram of the scores of ${plural(total, "sentence")} in review.`,
          tell: (bin) => `Score ${decimal(bin.low)} to ${decimal(bin.high)}: ${plural(bin.items, "sentence")}`,
        })
      : nothing("Nothing was flagged so far."),
  );
}

/** @param {Thresholds} learned @param {number} width @param {boolean} chosen of several datasets */
export function thresholdChart(learned, width, chosen) {
  const scheme = new Scheme("iob2");
  const wide = width >= 620;
  const now = Date.now();
  const moments = learned.history.map((one) => ({ at: new Date(one.at).getTime(), thresholds: one.thresholds }));
  const from = Math.min(moments[0]?.at ?? now, now - 60_000);
  const lines = learned.classes.map(({ name }) => {
    const [prefix, type] = scheme.parse(name);
    const css = type ? colourOf(type) : "tn";
    return {
      name,
      css,
      dashed: prefix === "I",
      points: moments.map((one) => ({ at: Math.max(one.at, from), value: one.thresholds[name] ?? null })),
    };
  });
  const short = now - from < 36 * 3_600_000;
  const format = (/** @type {number} */ at) =>
    short ? clock(new Date(at)) : named(new Date(at).toISOString().slice(0, 10));
  const rows = learned.classes.map((one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.name, one.warming_up ? h("span", { class: "tag" }, "warming up") : null),
      h("td", { class: "num" }, count(one.own_words)),
      h("td", { class: "num" }, one.threshold === null ? "none yet" : one.threshold.toFixed(3)),
      h(
        "td",
        { class: "meter-cell" },
        one.threshold === null ? null : meter(one.threshold, one.warming_up ? "soft" : ""),
      ),
    ),
  );
  return section(
    "thresholds",
    chosen ? `Class thresholds of ${learned.dataset}` : "Class thresholds",
    `How likely the model finds a label on words that have it: a word is doubted when another class is the likeliest and reaches its threshold. Learned from ${plural(learned.sentences, "sentence")}; as this instance has seen them move.`,
    moments.length
      ? steps({
          lines,
          from,
          to: now,
          width,
          height: 260,
          format,
          names: wide,
          told: `Thresholds of ${plural(lines.length, "class", "classes")} over time; their values now are in the table.`,
        })
      : nothing("Nothing was learned since the service started."),
    moments.length && !wide
      ? h(
          "ul",
          { class: "legend" },
          lines.map((line) => h("li", { class: `${line.css}${line.dashed ? " dashed" : ""}` }, line.name)),
        )
      : null,
    h(
      "details",
      { class: "classes" },
      h("summary", {}, "Classes now"),
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Class"),
            h("th", { scope: "col", class: "num" }, "Words"),
            h("th", { scope: "col", class: "num", colspan: 2 }, "Threshold"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}

/** What may be wider than the page; it says so where it is. @param {HTMLElement} content @param {string} titled */
function sideways(content, titled) {
  const hint = h("p", { class: "note", "aria-hidden": "true", hidden: true }, "More to the right →");
  const box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": titled }, content);
  const tell = () => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft > 4;
    hint.hidden = !left;
    box.classList.toggle("cut", left);
  };
  box.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(box);
  return h("div", {}, box, hint);
}

/** @param {Confusion[]} confusions @param {string} dataset */
export function confusionMap(confusions, dataset) {
  const most = Math.max(1, ...confusions.map((one) => one.items));
  /** @param {"given" | "suggested"} side */
  const types = (side) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const one of confusions) sums.set(one[side], (sums.get(one[side]) ?? 0) + one.items);
    return [...sums]
      .sort((a, b) => b[1] - a[1])
      .slice(0, MOST_TYPES)
      .map(([name]) => name)
      .sort((a, b) => Number(b === "O") - Number(a === "O") || a.localeCompare(b));
  };
  const [rows, columns] = [types("given"), types("suggested")];
  /** @param {string} given @param {string} suggested */
  const cell = (given, suggested) => {
    const found = confusions.find((one) => one.given === given && one.suggested === suggested);
    if (!found || !found.items) return h("td", { class: "none" }, h("span", { class: "sr" }, "0"));
    // The root spreads small numbers out.
    const heat = Math.ceil(HEATS * Math.sqrt(found.items / most));
    const decided = found.decided ? `; ${count(found.decided)} decided, ${count(found.right)} right` : "";
    const told = `${plural(found.items, "sentence")} given ${given}, suggested ${suggested}${decided}`;
    return h(
      "td",
      { class: `h${heat}` },
      h(
        "a",
        { href: addressOf({ dataset, given, suggested, state: "all" }), title: told, "aria-label": told },
        count(found.items),
      ),
    );
  };
  const table = h(
    "table",
    { class: "noise" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td", { class: "corner" }, "given ↓ should be →"),
        columns.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((given) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, given),
          columns.map((suggested) => cell(given, suggested)),
        ),
      ),
    ),
  );
  return section(
    "confusions",
    "Confusions",
    "Sentences in review by what a doubtful word was given and what it should be. A cell opens them.",
    confusions.length ? sideways(table, "confusions-title") : nothing("No label is doubted."),
  );
}

/** @param {Annotator[]} annotators @param {string} dataset */
export function annotatorTable(annotators, dataset) {
  const most = Math.max(1, ...annotators.map((one) => one.items));
  const rows = annotators.map(({ annotator, items, decided, errors }) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        annotator === null
          ? h("span", { class: "muted" }, "not told")
          : h("a", { href: addressOf({ dataset, annotator, state: "all" }) }, h("bdi", {}, annotator)),
      ),
      h("td", { class: "num" }, count(items)),
      h("td", { class: "meter-cell" }, meter(items / most, "doubt")),
      h("td", { class: "num" }, count(decided)),
      h("td", { class: "num" }, count(errors)),
      h("td", { class: "num muted" }, decided ? percent(errors / decided) : "–"),
    ),
  );
  const heads = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Annotator"),
    h("th", { scope: "col", class: "num" }, "In review"),
    h("td", { class: "meter-cell" }),
    ...["Decided", "Wrong", "Share"].map((name) => h("th", { scope: "col", class: "num" }, name)),
  );
  return section(
    "annotators",
    "Annotators",
    "Sentences in review by who labelled them, and what reviewers found of the flagged ones: how many were decided, how many of these were wrong, and their share.",
    annotators.length
      ? h("table", { class: "annotators" }, h("thead", {}, heads), h("tbody", {}, rows))
      : nothing("Nobody's sentence was flagged."),
  );
}

/** @param {Record<string, number> | null} ranker */
export function rankerTable(ranker) {
  const offsets = Object.entries(ranker ?? {}).sort((a, b) => b[1] - a[1]);
  const most = Math.max(0.1, ...offsets.map(([, offset]) => Math.abs(offset)));
  const rows = offsets.map(([type, offset]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, type),
      h(
        "td",
        { class: "num" },
        Math.abs(offset) < LITTLE ? "0.00" : `${offset < 0 ? "−" : "+"}${Math.abs(offset).toFixed(2)}`,
      ),
      h("td", { class: "meter-cell" }, meter(Math.abs(offset) / most, offset > 0 ? "doubt" : "")),
      h("td", { class: "muted" }, Math.abs(offset) < LITTLE ? "as before" : offset > 0 ? "sooner" : "later"),
    ),
  );
  const heads = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Given type"),
    h("th", { scope: "col", class: "num", colspan: 2 }, "Offset"),
    h("th", { scope: "col" }, "Comes"),
  );
  return section(
    "ranker",
    "Ranker",
    "What the decisions have taught the queue's order: types whose labels are wrong more often than their scores say come sooner.",
    rows.length
      ? h("table", { class: "offsets" }, h("thead", {}, heads), h("tbody", {}, rows))
      : nothing("Off: it begins with 25 decisions, unless the dataset's settings say otherwise."),
  );
}
