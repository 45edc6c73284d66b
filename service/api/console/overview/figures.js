/** Small sums behind the charts. */

/** @import { Day, Thresholds } from "../types.js" */

const Z = 1.959963984540054;
const FEWEST = 14;
const MOST = 60;
const DAY = 86_400_000;

/**
 * Every day up to today, those without anything too: at least two weeks, at most two months.
 * @param {Day[]} days
 * @param {number} [now]
 * @returns {Day[]}
 */
export function lastDays(days, now = Date.now()) {
  const known = new Map(days.map((day) => [day.day, day]));
  const first = days.length ? Date.parse(`${days[0].day}T00:00:00Z`) : now;
  const size = Math.max(FEWEST, Math.min(MOST, Math.floor((now - first) / DAY) + 1));
  return Array.from({ length: size }, (_, back) => {
    const day = new Date(now - (size - 1 - back) * DAY).toISOString().slice(0, 10);
    return known.get(day) ?? { day, flagged: 0, controls: 0, decided: 0, errors: 0, precision: null };
  });
}

/**
 * Flagged sentences as a share of those that came in, for days whose sentences are known.
 *
 * What the service had learned before it followed the statistics came on days that nobody knows. It counts for the day
 * it was found where nothing was flagged before; else that day is not known either.
 * @param {Day[]} days
 * @param {Thresholds[]} learned
 */
export function flagRates(days, learned) {
  const first = days.find((day) => day.flagged)?.day ?? "";
  /** @type {Map<string, number>} */
  const came = new Map();
  const blurred = new Set();
  for (const { day, sentences, by_then: found } of learned.flatMap((one) => one.days)) {
    came.set(day, (came.get(day) ?? 0) + sentences + found);
    if (found && first && first < day) blurred.add(day);
  }
  return days.map(({ day, flagged }) => {
    const sentences = blurred.has(day) ? null : (came.get(day) ?? null);
    return { day, flagged, sentences, share: sentences && sentences >= flagged ? flagged / sentences : null };
  });
}

/**
 * Wilson's interval at 95 % of a share among n.
 * @param {number} share
 * @param {number} n
 * @returns {[number, number]}
 */
export function wilson(share, n) {
  const middle = (share + (Z * Z) / (2 * n)) / (1 + (Z * Z) / n);
  const half = (Z * Math.sqrt((share * (1 - share)) / n + (Z * Z) / (4 * n * n))) / (1 + (Z * Z) / n);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
