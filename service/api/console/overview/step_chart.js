/** A chart of step lines over time: the history of the thresholds. */

import { svg } from "../dom.js";
import { truncate } from "../text.js";
import { computePlotArea, renderFrame, renderGrid, RIGHT } from "./charts.js";

/** @typedef {{ name: string, css: string, dashed?: boolean, points: { at: number, value: number | null }[] }} Line */

/**
 * Step lines over time. Each line ends with its name.
 * @param {{ lines: Line[], from: number, to: number, width: number, height: number, description: string,
 *   format: (at: number) => string, showNames: boolean }} chart
 */
export function renderSteps({ lines, from, to, width, height, description, format, showNames }) {
  const longest = Math.max(0, ...lines.map((line) => truncate(line.name, 18).length));
  const area = computePlotArea(width, height, showNames ? 12 + 7.5 * longest : RIGHT);
  const values = lines.flatMap((line) => line.points.flatMap((point) => (point.value === null ? [] : [point.value])));
  const floor = Math.max(0, Math.floor(10 * Math.min(1, ...values) - 0.2) / 10);
  const y = (/** @type {number} */ value) =>
    area.base - ((Math.min(value, 1) - floor) / (1 - floor)) * (area.base - area.top);
  const x = (/** @type {number} */ at) => area.left + ((at - from) / Math.max(to - from, 1)) * (area.right - area.left);
  const tickStep = floor >= 0.8 ? 0.05 : floor >= 0.5 ? 0.1 : 0.2;
  const ticks = Array.from(
    { length: Math.floor((1 - floor) / tickStep + 1e-9) + 1 },
    (_, index) => 1 - index * tickStep,
  );
  const ends = lines.flatMap((line) => {
    const value = line.points.at(-1)?.value;
    return value === null || value === undefined ? [] : [{ line, y: y(value) }];
  });
  const nTimes = format(from) === format(to) ? 1 : width < 480 || format((from + to) / 2) === format(to) ? 2 : 4;
  const candidates = Array.from({ length: nTimes }, (_, index) =>
    nTimes === 1 ? to : from + (index / (nTimes - 1)) * (to - from),
  );
  // Of times with the same name, such as within a minute, only the last is shown.
  const times = candidates.filter((at, index) => index === nTimes - 1 || format(at) !== format(candidates[index + 1]));
  return renderFrame(
    { width, height, description },
    renderGrid(
      area,
      ticks.map((tick) => [y(tick), tick.toFixed(2)]),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    times.map((at) =>
      svg(
        "text",
        {
          class: "tick",
          x: x(at),
          y: area.base + 17,
          "text-anchor": at === to ? "end" : at === from ? "start" : "middle",
        },
        format(at),
      ),
    ),
    lines.map((line) =>
      svg(
        "path",
        { class: `line ${line.css}${line.dashed ? " dashed" : ""}`, d: buildStepPath(line, to, x, y) },
        svg("title", {}, line.name),
      ),
    ),
    showNames
      ? spreadApart(ends, area.top, area.base).map(({ line, y: at }) =>
          svg("text", { class: `name ${line.css}`, x: area.right + 6, y: at + 4 }, truncate(line.name, 18)),
        )
      : null,
  );
}

/**
 * @param {Line} line
 * @param {number} to
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function buildStepPath(line, to, x, y) {
  let path = "";
  let isDrawing = false;
  for (const { at, value } of line.points) {
    if (value === null) {
      isDrawing = false;
      continue;
    }
    path += isDrawing ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isDrawing = true;
  }
  return isDrawing ? `${path}H${x(to).toFixed(1)}` : path;
}

/**
 * Moves names apart that would overlap.
 * @template {{ y: number }} T
 * @param {T[]} ends
 * @param {number} top
 * @param {number} base
 */
function spreadApart(ends, top, base) {
  const lineHeight = Math.min(13, (base - top) / Math.max(ends.length - 1, 1));
  const sorted = ends.map((end) => ({ ...end })).sort((a, b) => a.y - b.y);
  sorted.forEach((end, index) => {
    if (index) end.y = Math.max(end.y, sorted[index - 1].y + lineHeight);
  });
  for (let index = sorted.length - 1, limit = base; index >= 0; index -= 1, limit -= lineHeight)
    sorted[index].y = Math.min(sorted[index].y, limit);
  return sorted;
}
