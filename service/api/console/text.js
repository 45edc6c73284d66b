/** Formats numbers, times and words for people. */

const COUNT_FORMAT = new Intl.NumberFormat("en");
const DATE_TIME_FORMAT = new Intl.DateTimeFormat("en", {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});
const FULL_TIME_FORMAT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hour12: false });
const TIME_FORMAT = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false });
const DATE_FORMAT = new Intl.DateTimeFormat("en", { year: "numeric", month: "short", day: "numeric" });
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @param {number} number */
export const formatCount = (number) => COUNT_FORMAT.format(number);

/**
 * @param {number} number
 * @param {string} singular
 * @param {string} [pluralForm]
 */
export const pluralize = (number, singular, pluralForm = `${singular}s`) =>
  `${formatCount(number)} ${number === 1 ? singular : pluralForm}`;

/** A percentage with enough digits to differ from 0 % and 100 %. @param {number} share */
export function formatPercent(share) {
  if (share <= 0 || share >= 1) return `${Math.round(100 * share)}\u202f%`;
  if (share < 0.0001) return "<\u202f0.01\u202f%";
  if (share > 0.9999) return ">\u202f99.99\u202f%";
  return `${(100 * share).toFixed(share < 0.01 || share > 0.99 ? 2 : 1)}\u202f%`;
}

/** A score with enough digits to differ from 0 and 1. @param {number | null | undefined} value */
export function formatScore(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.001) {
    const [digits, power] = value.toExponential(1).split("e-");
    const exponent = [...power].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
    return `${digits}\u202f·\u202f10⁻${exponent}`;
  }
  if (value > 0.999 && value < 1) return value.toFixed(6).replace(/0+$/, "");
  return value.toFixed(3);
}

/** @param {string | Date} moment */
export const formatDateTime = (moment) => DATE_TIME_FORMAT.format(new Date(moment));

/** With year and seconds. @param {string | Date} moment */
export const formatFullTime = (moment) => FULL_TIME_FORMAT.format(new Date(moment));

/** @param {string | Date} moment */
export const formatTime = (moment) => TIME_FORMAT.format(new Date(moment));

/** `2 minutes ago`, `on May 31, 2024`. @param {string | Date} moment */
export function formatAge(moment) {
  const seconds = (Date.now() - new Date(moment).getTime()) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${pluralize(Math.floor(seconds / 60), "minute")} ago`;
  if (seconds < 86_400) return `${pluralize(Math.floor(seconds / 3600), "hour")} ago`;
  if (seconds < 30 * 86_400) return `${pluralize(Math.floor(seconds / 86_400), "day")} ago`;
  return `on ${DATE_FORMAT.format(new Date(moment))}`;
}

/**
 * Quotes the words around the first doubtful word, short enough for a message.
 * @param {{ tokens: string[], id: string, doubtful: { index: number }[] }} item
 */
export function quoteDoubtfulWords(item) {
  if (!item.tokens.length) return truncate(item.id, 40);
  const first = Math.max(0, (item.doubtful[0]?.index ?? 0) - 2);
  const text = truncate(item.tokens.slice(first, first + 6).join(" "), 48);
  const ellipsis = first + 6 < item.tokens.length && !text.endsWith("…") ? " …" : "";
  return `“${first ? "… " : ""}${text}${ellipsis}”`;
}

/** Shortens a text: very long words would break the layout. @param {string} text @param {number} [maxLength] */
export const truncate = (text, maxLength = 200) => (text.length <= maxLength ? text : `${text.slice(0, maxLength)}…`);
