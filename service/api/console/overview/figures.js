/** Calculations for the charts. */

/** @import { Day } from "../types.js" */

const Z_95 = 1.959963984540054;
const MIN_DAYS = 14;
const MAX_DAYS = 60;
const DAY_MS = 86_400_000;

/**
 * All days up to today, including days without events: at least 14, at most 60.
 * @param {Day[]} days
 * @param {number} [now]
 * @returns {Day[]}
 */
export function listLastDays(days, now = Date.now()) {
  const dayByDate = new Map(days.map((day) => [day.day, day]));
  const first = days.length ? Date.parse(`${days[0].day}T00:00:00Z`) : now;
  const nDays = Math.max(MIN_DAYS, Math.min(MAX_DAYS, Math.floor((now - first) / DAY_MS) + 1));
  return Array.from({ length: nDays }, (_, index) => {
    const day = new Date(now - (nDays - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return dayByDate.get(day) ?? { day, flagged: 0, controls: 0, decided: 0, errors: 0, precision: null };
  });
}

/**
 * The 95 % Wilson interval of a share of n.
 * @param {number} share
 * @param {number} n
 * @returns {[number, number]}
 */
export function computeWilsonInterval(share, n) {
  const middle = (share + (Z_95 * Z_95) / (2 * n)) / (1 + (Z_95 * Z_95) / n);
  const half = (Z_95 * Math.sqrt((share * (1 - share)) / n + (Z_95 * Z_95) / (4 * n * n))) / (1 + (Z_95 * Z_95) / n);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
