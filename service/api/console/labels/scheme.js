/** Labels to spans and spans to labels, in the dataset's scheme. As lenient as the service. */

import { Palette } from "./colours.js";
import { listIndices, OUTSIDE } from "./spans.js";

/** @import { Item, Span } from "../types.js" */

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
    this.palette = new Palette(labelSet?.types ?? []);
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
    if (this.labelSet?.labels.includes(span.type)) return span.type; // a label without a type, such as "PER_B"
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
   * The types that an entity can get: the label set, and nothing else. Without an explicit label set also the types of
   * the sentence; while the label set is not known, the types of the model's classes.
   * @param {Item} item
   * @returns {string[]}
   */
  listEntityTypes(item) {
    const known = this.labelSet ? this.labelSet.types : this.listTypes(Object.keys(item.thresholds));
    const wholeLabels = this.labelSet?.labels ?? [];
    const seen = this.listSeenLabels(item).filter((label) => !wholeLabels.includes(label));
    return [...new Set([...known, ...this.listTypes(seen), ...wholeLabels])];
  }

  /** The labels of the sentence, unless an explicit label set says which there are. @param {Item} item */
  listSeenLabels(item) {
    return this.labelSet?.isExplicit ? [] : [...item.labels, ...item.doubtful.map((flag) => flag.suggested)];
  }

  /**
   * All labels that a word can get: those in use and those that the types allow.
   * @param {Item} item
   * @returns {string[]}
   */
  listOptions(item) {
    // Thresholds have the names of the model's classes. They are used if the dataset's label set is not known.
    const labels = [
      ...(this.labelSet ? this.labelSet.labels : Object.keys(item.thresholds)),
      ...this.listSeenLabels(item),
    ];
    const types = this.listEntityTypes(item).filter((type) => !this.labelSet?.labels.includes(type));
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
