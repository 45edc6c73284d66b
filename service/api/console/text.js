/** Numbers and times as people read them. */

const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat("en", {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});
const CLOCK = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false });
const DATE = new Intl.DateTimeFormat("en", { year: "numeric", month: "short", day: "numeric" });
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @param {number} number */
export const count = (number) => COUNT.format(number);

/**
 * @param {number} number
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** As many digits as tell it from 0 % and 100 %. @param {number} share */
export function percent(share) {
  if (share <= 0 || share >= 1) return `${Math.round(100 * share)}\u202f%`;
  if (share < 0.0001) return "<\u202f0.01\u202f%";
  if (share > 0.9999) return ">\u202f99.99\u202f%";
  return `${(100 * share).toFixed(share < 0.01 || share > 0.99 ? 2 : 1)}\u202f%`;
}

/** A score with the digits that tell it from 0 and 1. @param {number | null | undefined} value */
export function decimal(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.001) {
    const [digits, power] = value.toExponential(1).split("e-");
    const raised = [...power].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
    return `${digits}\u202f·\u202f10⁻${raised}`;
  }
  if (value > 0.999 && value < 1) return value.toFixed(6).replace(/0+$/, "");
  return value.toFixed(3);
}

/** @param {string | Date} moment */
export const moment = (moment) => MOMENT.format(new Date(moment));

/** @param {string | Date} moment */
export const clock = (moment) => CLOCK.format(new Date(moment));

/** `2 minutes ago`, `on May 31, 2024`. @param {string | Date} moment */
export function ago(moment) {
  const seconds = (Date.now() - new Date(moment).getTime()) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${plural(Math.floor(seconds / 60), "minute")} ago`;
  if (seconds < 86_400) return `${plural(Math.floor(seconds / 3600), "hour")} ago`;
  if (seconds < 30 * 86_400) return `${plural(Math.floor(seconds / 86_400), "day")} ago`;
  return `on ${DATE.format(new Date(moment))}`;
}

/** The words around the most doubtful one, short enough for a message. @param {{ tokens: string[], id: string, doubtful: { index: number }[] }} item */
export function wordsOf(item) {
  if (!item.tokens.length) return cut(item.id, 40);
  const first = Math.max(0, (item.doubtful[0]?.index ?? 0) - 2);
  const text = cut(item.tokens.slice(first, first + 6).join(" "), 48);
  const more = first + 6 < item.tokens.length && !text.endsWith("…") ? " …" : "";
  return `“${first ? "… " : ""}${text}${more}”`;
}

/** Long words would push the page apart. @param {string} text @param {number} [most] */
export const cut = (text, most = 200) => (text.length <= most ? text : `${text.slice(0, most)}…`);
