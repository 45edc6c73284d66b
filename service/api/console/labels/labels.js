/** Labels to spans and spans to labels, in the dataset's scheme. As lenient as the service. */

/** @import { Flag, Item, Span, SpanChange, Suspect } from "../types.js" */

const OUTSIDE = "O";
const IOB_PREFIXES = { B: "B", I: "I", b: "B", i: "I" };
const BILUO_PREFIXES = {
  ...IOB_PREFIXES,
  L: "L",
  U: "U",
  E: "L",
  S: "U",
  W: "U",
  M: "I",
  l: "L",
  u: "U",
  e: "L",
  s: "U",
  w: "U",
  m: "I",
};
/** @type {Record<string, Record<string, string>>} */
const PREFIXES_BY_SCHEME = { iob1: IOB_PREFIXES, iob2: IOB_PREFIXES, biluo: BILUO_PREFIXES, io: { I: "I", i: "I" } };
/** @type {Record<string, string>} */
const WRITTEN_PREFIXES = { iob1: "BI", iob2: "BI", biluo: "BILU", io: "" };
/** A suggestion is prefilled if the service is at least this sure of it. */
export const MIN_PREFILL_CONFIDENCE = 0.5;
const N_COLOURS = 12;
const FIXED_COLOUR_TYPES = ["LOC", "PER", "ORG", "MISC"];

export class Scheme {
  /**
   * @param {string} name
   * @param {{ types: string[], labels: string[], targets: Map<string, string>, isExplicit: boolean } | null} labelSet
   *   the dataset's types and labels, the model's type for each type that has another name there, and whether the
   *   settings name the types; null if not known
   */
  constructor(name, labelSet = null) {
    this.name = name in PREFIXES_BY_SCHEME ? name : "iob2";
    this.labelSet = labelSet;
  }

  /**
   * The scheme and label set of a dataset: from its settings, else from the model.
   * @param {{ scheme?: string | null, label_map?: Record<string, string>, label_set?: string[] | null }} settings
   * @param {{ scheme: string, labels: string[] }} model
   * @param {string[]} unusedTypes types of the model that the dataset does not use
   */
  static fromSettings(settings, model, unusedTypes = []) {
    const [scheme, modelScheme] = [new Scheme(settings.scheme ?? model.scheme), new Scheme(model.scheme)];
    const modelTypes = modelScheme.listTypes(model.labels);
    const mapping = Object.entries(settings.label_map ?? {}).filter(([, to]) => to !== OUTSIDE);
    const toModelType = (/** @type {string} */ to) => (modelTypes.includes(to) ? to : new Scheme("biluo").getType(to));
    // A label that maps to a label with a prefix ("PER_B" to "B-PER") is not a type.
    /** @param {[string, string]} pair */
    const isWholeLabel = ([key, to]) => scheme.name !== "io" && !modelTypes.includes(to) && scheme.getType(key) === key;
    const typePairs = mapping
      .filter((pair) => !isWholeLabel(pair))
      .map(([key, to]) => [scheme.getType(key), toModelType(to)]);
    const mappedNames = new Set(Object.keys(settings.label_map ?? {}));
    const types =
      settings.label_set ??
      modelTypes.flatMap((type) => {
        if (unusedTypes.includes(type)) return [];
        const datasetTypes = typePairs.filter(([, to]) => to === type).map(([key]) => key);
        return datasetTypes.length || mappedNames.has(type) ? datasetTypes : [type];
      });
    const labels = mapping
      .filter(isWholeLabel)
      .filter(([key, to]) => !settings.label_set || [key, toModelType(to)].some((name) => types.includes(name)))
      .map(([key]) => key);
    return new Scheme(scheme.name, {
      types: [...new Set(types)],
      labels,
      targets: new Map(typePairs.map(([key, to]) => [key, to])),
      isExplicit: Boolean(settings.label_set),
    });
  }

  /**
   * Whether the service judges a label of the dataset as this class of the model. Compares types if names or schemes
   * differ.
   * @param {string} label
   * @param {string} name of the class
   * @param {Item} item
   */
  isJudgedAs(label, name, item) {
    const target = this.labelSet?.targets.get(this.getType(label));
    if (target === undefined && label in item.thresholds) return label === name;
    return (target ?? this.getType(label)) === (name === OUTSIDE ? name : new Scheme("biluo").getType(name));
  }

  /**
   * Whether the settings allow a type. A sentence that was judged before they changed may suggest others.
   * @param {string} type
   */
  allowsType(type) {
    return !this.labelSet?.isExplicit || this.labelSet.types.includes(type);
  }

  /** @param {string} label */
  allowsLabel(label) {
    return label === OUTSIDE || this.allowsType(this.getType(label)) || Boolean(this.labelSet?.labels.includes(label));
  }

  /** The entity types of labels, without duplicates. @param {string[]} labels */
  listTypes(labels) {
    return [...new Set(labels.filter((label) => label !== OUTSIDE).map((label) => this.getType(label)))];
  }

  /**
   * Splits a label into prefix and type. A label without a prefix is an entity of one word.
   * @param {string} label
   * @returns {[string, string]}
   */
  parse(label) {
    if (label === OUTSIDE) return [OUTSIDE, ""];
    const prefix = label[1] === "-" && label.length > 2 ? PREFIXES_BY_SCHEME[this.name][label[0]] : undefined;
    if (prefix) return [prefix, label.slice(2)];
    return [this.name === "io" ? "I" : "U", label];
  }

  /** The entity type of a label; "O" stays "O". @param {string} label */
  getType(label) {
    return this.parse(label)[1] || OUTSIDE;
  }

  /** @param {string[]} labels @returns {Span[]} */
  parseSpans(labels) {
    /** @type {Span[]} */
    const spans = [];
    let [previousPrefix, previousType] = [OUTSIDE, ""];
    labels.forEach((label, index) => {
      const [prefix, type] = this.parse(label);
      if (prefix !== OUTSIDE) {
        const starts = "BU".includes(prefix) || "OLU".includes(previousPrefix) || previousType !== type;
        if (starts) spans.push({ start: index, end: index + 1, type });
        else spans[spans.length - 1].end = index + 1;
      }
      [previousPrefix, previousType] = [prefix, type];
    });
    return spans;
  }

  /**
   * The label of one word of a span.
   * @param {Span} span
   * @param {number} index
   * @param {string[]} labels the labels of the sentence
   */
  formatLabel(span, index, labels) {
    const isLast = index === span.end - 1;
    if (this.name === "io") return labels.some((label) => label.startsWith("I-")) ? `I-${span.type}` : span.type;
    if (this.name === "biluo" && isLast) return `${index === span.start ? "U" : "L"}-${span.type}`;
    const follows = index === span.start && index > 0 && this.getType(labels[index - 1]) === span.type;
    if (this.name === "iob1") return `${follows ? "B" : "I"}-${span.type}`;
    return `${index === span.start ? "B" : "I"}-${span.type}`;
  }

  /**
   * Whether the strict scheme allows one label after the other; undefined stands for the start and end of the sentence.
   * A label without a prefix of the scheme may stand beside any other.
   * @param {string | undefined} previous
   * @param {string | undefined} following
   */
  canFollow(previous, following) {
    if (this.name === "io" || [previous, following].some((label) => label && !this.isReadable(label))) return true;
    const [before, beforeType] = this.parse(previous ?? OUTSIDE);
    const [after, afterType] = this.parse(following ?? OUTSIDE);
    if (this.name === "biluo") {
      const [isOpen, continues] = ["BI".includes(before), "IL".includes(after)];
      return isOpen && continues ? beforeType === afterType : isOpen === continues;
    }
    const bound = this.name === "iob1" ? "B" : "I"; // the prefix that must follow its own type
    return after !== bound || (before !== OUTSIDE && beforeType === afterType);
  }

  /** @param {string} label */
  isReadable(label) {
    return label === OUTSIDE || this.parse(label)[1] !== label;
  }

  /**
   * The same entities, with other prefixes where a changed label breaks the scheme. What was given may break it.
   * @param {string[]} labels
   * @param {string[]} given
   * @returns {string[]}
   */
  repair(labels, given) {
    const repaired = [...labels];
    const isChanged = (/** @type {number} */ index) => repaired[index] !== given[index];
    const spans = this.parseSpans(labels);
    let isStable = false;
    while (!isStable) {
      isStable = true;
      for (let index = 0; index <= labels.length; index += 1) {
        if (!isChanged(index - 1) && !isChanged(index)) continue;
        if (this.canFollow(repaired[index - 1], repaired[index])) continue;
        for (const span of spans.filter(({ start, end }) => start <= index && end >= index)) {
          for (const word of listIndices(span)) {
            const label = this.formatLabel(span, word, repaired);
            if (this.isReadable(repaired[word]) && repaired[word] !== label) {
              repaired[word] = label;
              isStable = false;
            }
          }
        }
      }
    }
    return repaired;
  }

  /**
   * All labels that a word can get: those in use and those that the types allow.
   * @param {Item} item
   * @returns {string[]}
   */
  listOptions(item) {
    // Other types than those of an explicit label set are not offered, even if the sentence has them.
    const seen = this.labelSet?.isExplicit ? [] : [...item.labels, ...item.doubtful.map((flag) => flag.suggested)];
    // Thresholds have the names of the model's classes. They are used if the dataset's label set is not known.
    const labels = [...(this.labelSet ? this.labelSet.labels : Object.keys(item.thresholds)), ...seen];
    const withoutWhole = labels.filter((label) => !this.labelSet?.labels.includes(label));
    const types = [...new Set([...(this.labelSet?.types ?? []), ...this.listTypes(withoutWhole)])];
    const written = types.flatMap((type) => [...WRITTEN_PREFIXES[this.name]].map((prefix) => `${prefix}-${type}`));
    // Names of types without a prefix are not labels of the dataset, unless it uses them.
    const usable = labels.filter(
      (label) =>
        this.name === "io" ||
        this.parse(label)[1] !== label ||
        item.labels.includes(label) ||
        this.labelSet?.labels.includes(label),
    );
    return [...new Set([OUTSIDE, ...(written.length ? written : types), ...usable])];
  }
}

/**
 * The labels that the service suggests. Only words of suspects change, and of flagged words that no suspect covers, if
 * the service is at least MIN_PREFILL_CONFIDENCE sure. The result is valid beside every changed word.
 * @param {Item} item
 * @param {Scheme} scheme
 * @returns {string[]}
 */
export function proposeLabels(item, scheme) {
  const labels = [...item.labels];
  const flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
  const suspects = selectConfidentSuspects(item, scheme);
  const suggestedSpans = suspects.map((suspect) => suspect.suggested_span).filter((span) => span !== null);
  const replacedSpans = suspects.map((suspect) => suspect.given_span).filter((span) => span !== null);
  for (const index of replacedSpans.flatMap(listIndices)) labels[index] = OUTSIDE;
  for (const span of suggestedSpans) {
    for (const index of listIndices(span))
      labels[index] = matchSpelling(scheme.formatLabel(span, index, labels), flags.get(index), scheme);
  }
  const suspectWords = new Set(
    item.suspects.flatMap(({ given_span, suggested_span }) =>
      [given_span, suggested_span].filter((span) => span !== null).flatMap(listIndices),
    ),
  );
  for (const flag of item.doubtful) {
    if (!suspectWords.has(flag.index) && isConfident(flag.p_suggested) && scheme.allowsLabel(flag.suggested))
      labels[flag.index] = flag.suggested;
  }
  return scheme.repair(labels, item.labels);
}

/**
 * The suspects to prefill. Suspects that share an entity change together or not at all, and a suggested entity that
 * overlaps a given one which is not in doubt is left out.
 * @param {Item} item
 * @param {Scheme} scheme
 */
function selectConfidentSuspects(item, scheme) {
  const givenSpans = scheme.parseSpans(item.labels);
  const overlaps = (/** @type {Span | null} */ a, /** @type {Span | null} */ b) => a && b && overlap(a, b);
  let selected = item.suspects.filter(
    ({ confidence, suggested_span }) =>
      isConfident(confidence) && (!suggested_span || scheme.allowsType(suggested_span.type)),
  );
  for (;;) {
    const rest = item.suspects.filter((suspect) => !selected.includes(suspect));
    const isBlocked = (/** @type {Suspect} */ { given_span, suggested_span }) =>
      rest.some((other) => overlaps(other.given_span, given_span) || overlaps(other.suggested_span, suggested_span)) ||
      givenSpans.some(
        (span) => overlaps(span, suggested_span) && !selected.some((other) => overlaps(other.given_span, span)),
      );
    const unblocked = selected.filter((suspect) => !isBlocked(suspect));
    if (unblocked.length === selected.length) return selected;
    selected = unblocked;
  }
}

/** Whether a suggestion is prefilled. The confidence is null where it is hidden. @param {number | null} confidence */
const isConfident = (confidence) => confidence === null || confidence >= MIN_PREFILL_CONFIDENCE;

/** @param {Span} a @param {Span} b */
const overlap = (a, b) => a.start < b.end && b.start < a.end;

/**
 * The label as the service writes it for this word ("S-PER" for "U-PER"), if it suggests the same.
 * @param {string} label
 * @param {Flag | undefined} flag
 * @param {Scheme} scheme
 */
function matchSpelling(label, flag, scheme) {
  if (!flag) return label;
  if (scheme.labelSet?.labels.includes(flag.suggested)) return flag.suggested;
  const [[prefix, type], [suggestedPrefix, suggestedType]] = [scheme.parse(label), scheme.parse(flag.suggested)];
  return prefix === suggestedPrefix && type === suggestedType ? flag.suggested : label;
}

/** @param {Span} span */
const listIndices = (span) => Array.from({ length: span.end - span.start }, (_, step) => span.start + step);

/**
 * The spans that a correction changes: new spans, spans with changed labels, and words that become "no entity".
 * @param {string[]} given
 * @param {string[]} corrected
 * @param {Scheme} scheme
 * @returns {SpanChange[]}
 */
export function diffSpans(given, corrected, scheme) {
  const givenSpans = scheme.parseSpans(given);
  const correctedSpans = scheme.parseSpans(corrected);
  const isSame = (/** @type {Span} */ a, /** @type {Span} */ b) =>
    a.start === b.start && a.end === b.end && a.type === b.type;
  /** @type {SpanChange[]} */
  const changed = correctedSpans.filter((span) => !givenSpans.some((other) => isSame(other, span)));
  // A changed prefix inside the same entity is shown too.
  for (const span of correctedSpans) {
    if (!changed.includes(span) && listIndices(span).some((index) => given[index] !== corrected[index]))
      changed.push(span);
  }
  corrected.forEach((label, index) => {
    if (label !== OUTSIDE || given[index] === OUTSIDE) return;
    const last = changed.find((span) => span.isNoEntity && span.end === index);
    if (last) last.end = index + 1;
    else changed.push({ start: index, end: index + 1, type: "no entity", isNoEntity: true });
  });
  return changed;
}

/**
 * The CSS class with the colour of a type. It depends on the name only, so it is the same in every browser. Several
 * types
 * may share a colour; the four of CoNLL-2003 have their own.
 * @param {string} type
 */
export function getColourClass(type) {
  const fixedIndex = FIXED_COLOUR_TYPES.indexOf(type.toUpperCase());
  if (fixedIndex >= 0) return `t${fixedIndex}`;
  let hash = 0x811c9dc5; // FNV-1a
  for (let charIndex = 0; charIndex < type.length; charIndex += 1)
    hash = Math.imul(hash ^ type.charCodeAt(charIndex), 0x01000193);
  // The low bits of FNV-1a are weak, so the high bits are mixed in.
  return `t${FIXED_COLOUR_TYPES.length + (((hash ^ (hash >>> 15)) >>> 0) % (N_COLOURS - FIXED_COLOUR_TYPES.length))}`;
}
