/** Charts as inline SVG, in the size they are shown at: the text in them is as large as any other. */

import { svg } from "../dom.js";
import { cut } from "../text.js";

/** @import { Child } from "../dom.js" */
/** @import { Bin } from "../types.js" */

/** @typedef {{ name: string, value: number | null, told: string, low?: number, high?: number }} Point */
/** @typedef {{ name: string, css: string, dashed?: boolean, points: { at: number, value: number | null }[] }} Line */

const LEFT = 44;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 26;
const ROUND = /^(0|1|0\.0*1|0\.5|0\.9+)$/; // edges worth a name

/**
 * @param {{ width: number, height: number, told: string }} size
 * @param {...(Child | Child[])} children
 */
function frame({ width, height, told }, ...children) {
  return svg(
    "svg",
    { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told },
    ...children,
  );
}

/** @param {number} width @param {number} height @param {number} [right] */
const plot = (width, height, right = RIGHT) => ({ left: LEFT, right: width - right, top: TOP, base: height - BOTTOM });

/**
 * Lines across with their numbers.
 * @param {{ left: number, right: number }} area
 * @param {[number, string][]} ticks place and name of each
 */
function grid(area, ticks) {
  return ticks.flatMap(([y, name]) => [
    svg("line", { class: "grid", x1: area.left, x2: area.right, y1: y, y2: y }),
    svg("text", { class: "tick", x: area.left - 8, y: y + 4, "text-anchor": "end" }, name),
  ]);
}

/**
 * Names along the bottom, as many as there is room for; the last one always.
 * @param {{ left: number, right: number, base: number }} area
 * @param {{ x: number, name: string }[]} names
 */
function along(area, names) {
  const room = Math.max(1, Math.floor((area.right - area.left) / 62));
  const each = Math.max(1, Math.ceil(names.length / room));
  return names
    .filter((_, place) => (names.length - 1 - place) % each === 0)
    .map(({ x, name }) => {
      const anchor = x > area.right - 20 ? "end" : x < area.left + 16 ? "start" : "middle";
      return svg(
        "text",
        { class: "tick", x: anchor === "end" ? area.right : x, y: area.base + 17, "text-anchor": anchor },
        name,
      );
    });
}

/** Round steps from 0 up to at least `most`. @param {number} most @param {number} [steps] */
export function niceTicks(most, steps = 4) {
  if (most <= 0) return [0, 1];
  const raw = most / steps;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((size) => size >= raw) ?? raw;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, place) => place * step);
}

/**
 * One bar a point.
 * @param {{ points: Point[], width: number, height: number, told: string, format: (value: number) => string, css?: string, whole?: boolean }} chart
 */
export function bars({ points, width, height, told, format, css = "bar", whole = false }) {
  const area = plot(width, height);
  const most = Math.max(0, ...points.map((point) => point.value ?? 0));
  const ticks = niceTicks(whole ? Math.max(most, 4) : most || 0.01).filter((tick) => !whole || Number.isInteger(tick));
  const top = ticks[ticks.length - 1];
  const y = (/** @type {number} */ value) => area.base - (value / top) * (area.base - area.top);
  const step = (area.right - area.left) / Math.max(points.length, 1);
  const wide = Math.min(Math.max(step - 2, 1), 48);
  const x = (/** @type {number} */ place) => area.left + (place + 0.5) * step;
  return frame(
    { width, height, told },
    grid(
      area,
      ticks.map((tick) => [y(tick), format(tick)]),
    ),
    points.map((point, place) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, point.told),
        svg("rect", {
          class: "hit",
          x: area.left + place * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        point.value
          ? svg("rect", {
              class: css,
              x: x(place) - wide / 2,
              y: y(point.value),
              width: wide,
              height: Math.max(area.base - y(point.value), 1),
              rx: 1.5,
            })
          : null,
      ),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    along(
      area,
      points.map((point, place) => ({ x: x(place), name: point.name })),
    ),
  );
}

/**
 * Shares between 0 and 1 with their intervals, joined where days follow each other.
 * @param {{ points: Point[], width: number, height: number, told: string }} chart
 */
export function shares({ points, width, height, told }) {
  const area = plot(width, height);
  const y = (/** @type {number} */ value) => area.base - value * (area.base - area.top);
  const step = (area.right - area.left) / Math.max(points.length, 1);
  const x = (/** @type {number} */ place) => area.left + (place + 0.5) * step;
  const known = points.flatMap((point, place) => (point.value === null ? [] : [{ place, point, value: point.value }]));
  const path = known
    .map(({ place, value }, number) => `${number ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
  return frame(
    { width, height, told },
    grid(
      area,
      [0, 0.25, 0.5, 0.75, 1].map((tick) => [y(tick), `${100 * tick}\u202f%`]),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    known.length > 1 ? svg("path", { class: "line fix", d: path }) : null,
    known.map(({ place, point, value }) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, point.told),
        svg("rect", {
          class: "hit",
          x: area.left + place * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        svg("line", {
          class: "whisker",
          x1: x(place),
          x2: x(place),
          y1: y(point.low ?? value),
          y2: y(point.high ?? value),
        }),
        svg("circle", { class: "dot", cx: x(place), cy: y(value), r: step < 12 ? 2.5 : 4 }),
      ),
    ),
    along(
      area,
      points.map((point, place) => ({ x: x(place), name: point.name })),
    ),
  );
}

/**
 * Counts over steps of a score, each as wide as any other; the counts' axis is logarithmic.
 * @param {{ bins: Bin[], width: number, height: number, told: string, tell: (bin: Bin) => string }} chart
 */
export function histogram({ bins, width, height, told, tell }) {
  const area = { ...plot(width, height), base: height - 40 };
  const most = Math.max(1, ...bins.map((bin) => bin.items));
  const decades = Math.max(Math.ceil(Math.log10(most + 1)), 1);
  const y = (/** @type {number} */ number) =>
    area.base - ((Math.log10(number) + 0.3) / (decades + 0.3)) * (area.base - area.top);
  const step = (area.right - area.left) / bins.length;
  const edges = [...bins.map((bin) => bin.low), bins[bins.length - 1].high];
  const inside = edges[0] === 0 && edges[bins.length] === 1;
  const named = edges.flatMap((edge, place) =>
    (inside ? ROUND.test(String(edge)) : place % 5 === 0) ? [{ edge, place }] : [],
  );
  return frame(
    { width, height, told },
    grid(
      area,
      Array.from({ length: decades + 1 }, (_, power) => [y(10 ** power), short(10 ** power)]),
    ),
    bins.map((bin, place) =>
      svg(
        "g",
        { class: "mark-at" },
        svg("title", {}, tell(bin)),
        svg("rect", {
          class: "hit",
          x: area.left + place * step,
          y: area.top,
          width: step,
          height: area.base - area.top,
        }),
        bin.items
          ? svg("rect", {
              class: "bar doubt",
              x: area.left + place * step + 0.75,
              y: y(bin.items),
              width: step - 1.5,
              height: area.base - y(bin.items),
              rx: 1.5,
            })
          : null,
      ),
    ),
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.base, y2: area.base }),
    roomy(named, step).map(({ edge, place }) => {
      const name = String(Number(edge.toPrecision(3))).replace(/^0\./, ".");
      return svg(
        "text",
        {
          class: "tick",
          x: area.left + place * step,
          y: area.base + 17,
          "text-anchor": place === 0 ? "start" : place === bins.length ? "end" : "middle",
        },
        name,
      );
    }),
    svg("text", { class: "tick", x: area.left, y: height - 4 }, "← doubtful"),
    svg("text", { class: "tick", x: area.right, y: height - 4, "text-anchor": "end" }, "clean →"),
  );
}

/**
 * Those that have room for their names: the ends first, then from the middle outwards.
 * @param {{ edge: number, place: number }[]} named
 * @param {number} step
 */
function roomy(named, step) {
  const [middle, last] = [(named.length - 1) / 2, named.length - 1];
  const order = named
    .map((_, number) => number)
    .sort(
      (a, b) =>
        Number(b === 0 || b === last) - Number(a === 0 || a === last) || Math.abs(a - middle) - Math.abs(b - middle),
    );
  /** @type {{ edge: number, place: number }[]} */
  const kept = [];
  for (const number of order) {
    if (kept.every((one) => Math.abs(one.place - named[number].place) * step >= 38)) kept.push(named[number]);
  }
  return kept;
}

/** @param {number} number */
const short = (number) => (number >= 1e6 ? `${number / 1e6}M` : number >= 1000 ? `${number / 1000}k` : String(number));

/**
 * Values that hold until they change, over time; each line ends with its name.
 * @param {{ lines: Line[], from: number, to: number, width: number, height: number, told: string, format: (at: number) => string, names: boolean }} chart
 */
export function steps({ lines, from, to, width, height, told, format, names }) {
  const longest = Math.max(0, ...lines.map((line) => cut(line.name, 18).length));
  const area = plot(width, height, names ? 12 + 7.5 * longest : RIGHT);
  const values = lines.flatMap((line) => line.points.flatMap((point) => (point.value === null ? [] : [point.value])));
  const floor = Math.max(0, Math.floor(10 * Math.min(1, ...values) - 0.2) / 10);
  const y = (/** @type {number} */ value) =>
    area.base - ((Math.min(value, 1) - floor) / (1 - floor)) * (area.base - area.top);
  const x = (/** @type {number} */ at) => area.left + ((at - from) / Math.max(to - from, 1)) * (area.right - area.left);
  const rise = floor >= 0.8 ? 0.05 : floor >= 0.5 ? 0.1 : 0.2;
  const ticks = Array.from({ length: Math.floor((1 - floor) / rise + 1e-9) + 1 }, (_, place) => 1 - place * rise);
  const ends = lines.flatMap((line) => {
    const value = line.points.at(-1)?.value;
    return value === null || value === undefined ? [] : [{ line, y: y(value) }];
  });
  const marks = format(from) === format(to) ? 1 : width < 480 || format((from + to) / 2) === format(to) ? 2 : 4;
  const places = Array.from({ length: marks }, (_, place) =>
    marks === 1 ? to : from + (place / (marks - 1)) * (to - from),
  );
  // Of those with one name, as within a minute, the last.
  const times = places.filter((at, place) => place === marks - 1 || format(at) !== format(places[place + 1]));
  return frame(
    { width, height, told },
    grid(
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
        { class: `line ${line.css}${line.dashed ? " dashed" : ""}`, d: stairs(line, to, x, y) },
        svg("title", {}, line.name),
      ),
    ),
    names
      ? apart(ends, area.top, area.base).map(({ line, y: at }) =>
          svg("text", { class: `name ${line.css}`, x: area.right + 6, y: at + 4 }, cut(line.name, 18)),
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
function stairs(line, to, x, y) {
  let path = "";
  let before = false;
  for (const { at, value } of line.points) {
    if (value === null) {
      before = false;
      continue;
    }
    path += before ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = true;
  }
  return before ? `${path}H${x(to).toFixed(1)}` : path;
}

/**
 * Names that would lie on each other are moved apart.
 * @template {{ y: number }} T
 * @param {T[]} ends
 * @param {number} top
 * @param {number} base
 */
function apart(ends, top, base) {
  const size = Math.min(13, (base - top) / Math.max(ends.length - 1, 1));
  const sorted = ends.map((end) => ({ ...end })).sort((a, b) => a.y - b.y);
  sorted.forEach((end, place) => {
    if (place) end.y = Math.max(end.y, sorted[place - 1].y + size);
  });
  for (let place = sorted.length - 1, limit = base; place >= 0; place -= 1, limit -= size)
    sorted[place].y = Math.min(sorted[place].y, limit);
  return sorted;
}

/** A bar in a table cell; the number beside it says the same. @param {number} share @param {string} [css] */
export function meter(share, css = "") {
  const full = 100 * Math.max(0, Math.min(share, 1));
  return svg(
    "svg",
    { class: "meter", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    svg("rect", { class: "track", width: 100, height: 10 }),
    svg("rect", { class: `fill ${css}`, width: full, height: 10 }),
  );
}
