/** The overview's key figures and charts. */

import { h } from "../dom.js";
import { Palette } from "../labels/colours.js";
import { Scheme } from "../labels/scheme.js";
import { formatCount, formatPercent, formatScore, formatTime, pluralize } from "../text.js";
import { renderBars, renderHistogram, renderMeter, renderShares } from "./charts.js";
import { computeWilsonInterval, listLastDays } from "./figures.js";
import { renderEmpty, renderSection } from "./layout.js";
import { renderSteps } from "./step_chart.js";

/** @import { Overview, Thresholds } from "../types.js" */

const DAY_FORMAT = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });

/** @param {string} day */
const formatDay = (day) => DAY_FORMAT.format(new Date(`${day}T00:00:00Z`));

/** @param {Overview} overview @param {Thresholds[]} thresholds */
export function renderFigures(overview, thresholds) {
  const { counts, recall } = overview;
  const sentences = thresholds.reduce((sum, entry) => sum + entry.sentences, 0);
  const flagged = overview.days.reduce((sum, day) => sum + day.flagged, 0);
  const recallTexts =
    recall && recall.recall !== null
      ? [formatPercent(recall.recall), `${formatPercent(recall.low ?? 0)} to ${formatPercent(recall.high ?? 1)}`]
      : [
          "–",
          recall && recall.controls
            ? `${formatCount(recall.controls_decided)} of ${formatCount(recall.controls)} controls decided`
            : "no control sample",
        ];
  /** @type {[string, string, string, string][]} */
  const figures = [
    ["open", formatCount(counts.open ?? 0), "to review", ""],
    [
      "decided",
      formatCount(counts.decided ?? 0),
      "decided",
      [
        counts.adjudication ? `${formatCount(counts.adjudication)} in adjudication` : "",
        counts.closed ? `${formatCount(counts.closed)} closed` : "",
      ]
        .filter(Boolean)
        .join(", "),
    ],
    [
      "rate",
      sentences ? formatPercent(Math.min(flagged / sentences, 1)) : "–",
      "flagged",
      sentences ? `of ${pluralize(sentences, "sentence")}` : "",
    ],
    [
      "precision",
      overview.precision === null ? "–" : formatPercent(overview.precision),
      "precision",
      overview.precision === null ? "nothing decided yet" : "of the flagged sentences are wrong",
    ],
    ["recall", recallTexts[0], "recall, estimated", recallTexts[1]],
  ];
  return h(
    "dl",
    { class: "figures" },
    figures.map(([css, value, name, details]) =>
      h("div", { class: css }, h("dt", {}, name, details ? h("small", {}, details) : null), h("dd", {}, value)),
    ),
  );
}

/** @param {Overview} overview @param {number} width */
export function renderFlagChart(overview, width) {
  const days = listLastDays(overview.days);
  const points = days.map(({ day, flagged }) => ({
    name: formatDay(day),
    value: flagged,
    description: `${formatDay(day)}: ${pluralize(flagged, "sentence")} flagged`,
  }));
  const total = days.reduce((sum, day) => sum + day.flagged, 0);
  const description = `Flagged sentences by day: ${formatCount(total)} in ${pluralize(days.length, "day")}.`;
  return renderSection(
    "flagged",
    "Flagged",
    "Flagged sentences by day (UTC).",
    overview.days.length
      ? renderBars({
          points,
          width,
          height: 210,
          description,
          integersOnly: true,
          css: "bar doubt",
          format: formatCount,
        })
      : renderEmpty("Nothing is flagged yet."),
  );
}

/** @param {Overview} overview @param {number} width */
export function renderPrecisionChart(overview, width) {
  const days = listLastDays(overview.days);
  const points = days.map(({ day, decided, errors, precision }) => {
    const [low, high] = decided ? computeWilsonInterval(errors / decided, decided) : [0, 1];
    return {
      name: formatDay(day),
      value: precision,
      low,
      high,
      description: `${formatDay(day)}: ${formatCount(errors)} of ${pluralize(decided, "decided sentence")} wrong${precision === null ? "" : `, ${formatPercent(precision)} (${formatPercent(low)} to ${formatPercent(high)})`}`,
    };
  });
  const decided = days.reduce((sum, day) => sum + day.decided, 0);
  return renderSection(
    "precision",
    "Reviewer precision",
    "Flagged sentences that reviewers found wrong, by the day of the decision, with 95\u202f% intervals.",
    decided
      ? renderShares({
          points,
          width,
          height: 210,
          description: `Reviewer precision by day, over ${pluralize(decided, "decision")}.`,
        })
      : renderEmpty("Nothing is decided yet."),
  );
}

/** @param {Overview} overview @param {number} width */
export function renderScoreChart({ priorities }, width) {
  const [items, sentences] = /** @type {const} */ (["items", "sentences"]).map((name) =>
    priorities.reduce((sum, bin) => sum + bin[name], 0),
  );
  return renderSection(
    "scores",
    "Priorities",
    [
      h("span", { class: "legend-all" }, "All sentences"),
      " by their priority, and ",
      h("span", { class: "legend-doubt" }, "those in review"),
      ". Low is bad. The axis stretches towards both ends, where the differences are; the heights are logarithmic.",
    ],
    items || sentences
      ? renderHistogram({
          bins: priorities,
          width,
          height: 230,
          description: `Histogram of the priorities of ${pluralize(sentences, "sentence")}, ${formatCount(items)} of them in review.`,
          describe: (bin) =>
            `Priority ${formatScore(bin.low)} to ${formatScore(bin.high)}: ${pluralize(bin.sentences, "sentence")}, ${formatCount(bin.items)} in review`,
        })
      : renderEmpty("No sentence has arrived yet."),
  );
}

/**
 * @param {Thresholds} thresholds
 * @param {number} width
 * @param {boolean} isOneOfSeveral whether there are other datasets
 */
export function renderThresholdChart(thresholds, width, isOneOfSeveral) {
  const scheme = new Scheme("iob2");
  const palette = new Palette(scheme.listTypes(thresholds.classes.map(({ name }) => name)));
  const isWide = width >= 620;
  const now = Date.now();
  const past = thresholds.history.map((entry) => ({ at: new Date(entry.at).getTime(), thresholds: entry.thresholds }));
  const current = Object.fromEntries(thresholds.classes.map(({ name, threshold }) => [name, threshold]));
  const moments = past.length ? [...past, { at: now, thresholds: current }] : [];
  const from = Math.min(moments[0]?.at ?? now, now - 60_000);
  const lines = thresholds.classes.map(({ name }) => {
    const [prefix, type] = scheme.parse(name);
    const css = type ? palette.getClasses(type) : "tn";
    return {
      name,
      css,
      dashed: prefix === "I",
      points: moments.map((entry) => ({ at: Math.max(entry.at, from), value: entry.thresholds[name] ?? null })),
    };
  });
  const isShort = now - from < 36 * 3_600_000;
  const format = (/** @type {number} */ at) =>
    isShort ? formatTime(new Date(at)) : formatDay(new Date(at).toISOString().slice(0, 10));
  const rows = thresholds.classes.map((entry) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, entry.name, entry.warming_up ? h("span", { class: "tag" }, "warming up") : null),
      h("td", { class: "num" }, formatCount(entry.own_words)),
      h("td", { class: "num" }, entry.threshold === null ? "none yet" : entry.threshold.toFixed(3)),
      h(
        "td",
        { class: "meter-cell" },
        entry.threshold === null ? null : renderMeter(entry.threshold, entry.warming_up ? "soft" : ""),
      ),
    ),
  );
  return renderSection(
    "thresholds",
    isOneOfSeveral ? `Class thresholds of ${thresholds.dataset}` : "Class thresholds",
    `How likely the model finds a label on words that have it: a word is doubted when the likeliest class is another one, and some other class reaches its threshold. Learned from ${pluralize(thresholds.sentences, "sentence")}. The chart has one point per day with a sentence in review, and the thresholds now.`,
    moments.length
      ? renderSteps({
          lines,
          from,
          to: now,
          width,
          height: 260,
          format,
          showNames: isWide,
          description: `Thresholds of ${pluralize(lines.length, "class", "classes")} over time. The table below has the current values.`,
        })
      : renderEmpty("No sentence is in review yet."),
    moments.length && !isWide
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
