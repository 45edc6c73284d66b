/** Charts as inline SVG without scaling, so that their text has the size of other text. */

import { svg } from "../dom.js";

/** @import { Child } from "../dom.js" */
/** @import { PriorityBin } from "../types.js" */

/** @typedef {{ name: string, value: number | null, description: string, low?: number, high?: number }} Point */

const LEFT = 44;
export const RIGHT = 12;
const TOP = 12;
const BOTTOM = 26;
const BINS_PER_NAME = 3; // edges that get a name on the axis, counted from the middle

/**
 * @param {{ width: number, height: number, description: string }} size
 * @param {...(Child | Child[])} children
 */
export function renderFrame({ width, height, description }, ...children) {
  return svg(
    "svg",
    { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description },
    ...children,
  );
}

/** @param {number} width @param {number} height @param {number} [right] */
export const computePlotArea = (width, height, right = RIGHT) => ({
  left: LEFT,
  right: width - right,
  top: TOP,
  base: height - BOTTOM,
});

/**
 * Horizontal lines with their numbers.
 * @param {{ left: number, right: number }} area
 * @param {[number, string][]} ticks y coordinate and name of each
 */
export function renderGrid(area, ticks) {
  return ticks.flatMap(([y, name]) => [
    svg("line", { class: "grid", x1: area.left, x2: area.right, y1: y, y2: y }),
    svg("text", { class: "tick", x: area.left - 8, y: y + 4, "text-anchor": "end" }, name),
  ]);
}

/**
 * Names along the horizontal axis, as many as fit, always with the last.
 * @param {{ left: number, right: number, base: number }} area
 * @param {{ x: number, name: string }[]} names
 */
function renderAxisNames(area, names) {
  const maxNames = Math.max(1, Math.floor((area.right - area.left) / 62));
  const interval = Math.max(1, Math.ceil(names.length / maxNames));
  return names
    .filter((_, index) => (names.length - 1 - index) % interval === 0)
    .map(({ x, name }) => {
      const anchor = x > area.right - 20 ? "end" : x < area.left + 16 ? "start" : "middle";
      return svg(
        "text",
        { class: "tick", x: anchor === "end" ? area.right : x, y: area.base + 17, "text-anchor": anchor },
        name,
      );
    });
}

/** Round steps from 0 to at least `largest`. @param {number} largest @param {number} [steps] */
export function computeTicks(largest, steps = 4) {
  if (largest <= 0) return [0, 1];
  const raw = largest / steps;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((size) => size >= raw) ?? raw;
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, index) => index * step);
}

/**
 * A bar chart with one bar per point.
 * @param {{ points: Point[], width: number, height: number, description: string, format: (value: number) => string,
 *   css?: string, integersOnly?: boolean }} chart
 */
export function renderBars({ points, width, height, description, format, css = "bar", integersOnly = false }) {
  const area = computePlotArea(width, height);
  const largest = Math.max(0, ...points.map((point) => point.value ?? 0));
  const ticks = computeTicks(integersOnly ? Math.max(largest, 4) : largest || 0.01).filter(
    (tick) => !integersOnly || Number.isInteger(tick),
  );
  const top = ticks[ticks.length - 1];
  const y = (/** @type {number} */ value) => area.base - (value / top) * (area.base - area.top);
  const step = (area.right - area.left) / Math.max(points.length, 1);
  const barWidth = Math.min(Math.max(step - 2, 1), 48);
  const x = (/** @type {number} */ index) => area.left + (index + 0.5) * step;
  return renderFrame(
    { width, height, description },
    renderGrid(
      area,
      ticks.map((tick) => [y(tick), format(tick)]),
    ),
    points.map((point, index) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, point.description),
        svg("rect", {
          class: "hit",
          x: area.left + index * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        point.value
          ? svg("rect", {
              class: css,
              x: x(index) - barWidth / 2,
              y: y(point.value),
              width: barWidth,
              height: Math.max(area.base - y(point.value), 1),
              rx: 1.5,
            })
          : null,
      ),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    renderAxisNames(
      area,
      points.map((point, index) => ({ x: x(index), name: point.name })),
    ),
  );
}

/**
 * Shares between 0 and 1 with their intervals, joined by a line.
 * @param {{ points: Point[], width: number, height: number, description: string }} chart
 */
export function renderShares({ points, width, height, description }) {
  const area = computePlotArea(width, height);
  const y = (/** @type {number} */ value) => area.base - value * (area.base - area.top);
  const step = (area.right - area.left) / Math.max(points.length, 1);
  const x = (/** @type {number} */ index) => area.left + (index + 0.5) * step;
  const knownPoints = points.flatMap((point, index) =>
    point.value === null ? [] : [{ index, point, value: point.value }],
  );
  const path = knownPoints
    .map(({ index, value }, number) => `${number ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
  return renderFrame(
    { width, height, description },
    renderGrid(
      area,
      [0, 0.25, 0.5, 0.75, 1].map((tick) => [y(tick), `${100 * tick}\u202f%`]),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    knownPoints.length > 1 ? svg("path", { class: "line fix", d: path }) : null,
    knownPoints.map(({ index, point, value }) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, point.description),
        svg("rect", {
          class: "hit",
          x: area.left + index * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        svg("line", {
          class: "whisker",
          x1: x(index),
          x2: x(index),
          y1: y(point.low ?? value),
          y2: y(point.high ?? value),
        }),
        svg("circle", { class: "dot", cx: x(index), cy: y(value), r: step < 12 ? 2.5 : 4 }),
      ),
    ),
    renderAxisNames(
      area,
      points.map((point, index) => ({ x: x(index), name: point.name })),
    ),
  );
}

/**
 * A histogram with bins of equal width and a logarithmic axis of counts: all sentences, and in front those in review.
 * @param {{ bins: PriorityBin[], width: number, height: number, description: string,
 *   describe: (bin: PriorityBin) => string }} chart
 */
export function renderHistogram({ bins, width, height, description, describe }) {
  const area = { ...computePlotArea(width, height), base: height - 40 };
  const largest = Math.max(1, ...bins.map((bin) => Math.max(bin.items, bin.sentences)));
  const decades = Math.max(Math.ceil(Math.log10(largest + 1)), 1);
  const y = (/** @type {number} */ number) =>
    area.base - ((Math.log10(number) + 0.3) / (decades + 0.3)) * (area.base - area.top);
  const step = (area.right - area.left) / bins.length;
  const edges = [...bins.map((bin) => bin.low), bins[bins.length - 1].high];
  const edgesWithNames = edges.flatMap((edge, index) =>
    (index - bins.length / 2) % BINS_PER_NAME === 0 ? [{ edge, index }] : [],
  );
  /** @param {number} number @param {number} index @param {string} css */
  const renderBar = (number, index, css) =>
    number
      ? svg("rect", {
          class: `bar ${css}`,
          x: area.left + index * step + 0.75,
          y: y(number),
          width: step - 1.5,
          height: area.base - y(number),
          rx: 1.5,
        })
      : null;
  return renderFrame(
    { width, height, description },
    renderGrid(
      area,
      Array.from({ length: decades + 1 }, (_, power) => [y(10 ** power), abbreviateCount(10 ** power)]),
    ),
    bins.map((bin, index) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, describe(bin)),
        svg("rect", {
          class: "hit",
          x: area.left + index * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        renderBar(bin.sentences, index, "all"),
        renderBar(bin.items, index, "doubt"),
      ),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    selectSpacedEdges(edgesWithNames, step).map(({ edge, index }) => {
      // As many digits towards 1 as towards 0.
      const rounded = edge > 0.5 ? 1 - Number((1 - edge).toPrecision(1)) : Number(edge.toPrecision(1));
      const name = String(Number(rounded.toPrecision(6))).replace(/^0\./, ".");
      return svg(
        "text",
        {
          class: "tick",
          x: area.left + index * step,
          y: area.base + 17,
          "text-anchor": index === 0 ? "start" : index === bins.length ? "end" : "middle",
        },
        name,
      );
    }),
    svg("text", { class: "tick", x: area.left, y: height - 4 }, "← doubtful"),
    svg("text", { class: "tick", x: area.right, y: height - 4, "text-anchor": "end" }, "clean →"),
  );
}

/**
 * Selects the edges whose names do not overlap: the ends first, then from the middle outwards.
 * @param {{ edge: number, index: number }[]} edgesWithNames
 * @param {number} step
 */
function selectSpacedEdges(edgesWithNames, step) {
  const [middle, last] = [(edgesWithNames.length - 1) / 2, edgesWithNames.length - 1];
  const order = edgesWithNames
    .map((_, number) => number)
    .sort(
      (a, b) =>
        Number(b === 0 || b === last) - Number(a === 0 || a === last) || Math.abs(a - middle) - Math.abs(b - middle),
    );
  /** @type {{ edge: number, index: number }[]} */
  const selected = [];
  for (const number of order) {
    if (selected.every((other) => Math.abs(other.index - edgesWithNames[number].index) * step >= 38))
      selected.push(edgesWithNames[number]);
  }
  return selected;
}

/** @param {number} number */
const abbreviateCount = (number) =>
  number >= 1e6 ? `${number / 1e6}M` : number >= 1000 ? `${number / 1000}k` : String(number);

/**
 * A bar in a table cell. The number beside it says the same, so screen readers skip it.
 * @param {number} share
 * @param {string} [css]
 */
export function renderMeter(share, css = "") {
  const width = 100 * Math.max(0, Math.min(share, 1));
  return svg(
    "svg",
    { class: "meter", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    svg("rect", { class: "track", width: 100, height: 10 }),
    svg("rect", { class: `fill ${css}`, width: width, height: 10 }),
  );
}
