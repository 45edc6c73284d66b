/** Labels as spans and back, in the dataset's scheme; read as leniently as the service reads them. */

/** @import { Flag, Item, Span } from "../types.js" */

const OUTSIDE = "O";
const BI = { B: "B", I: "I", b: "B", i: "I" };
const BILUO = { ...BI, L: "L", U: "U", E: "L", S: "U", W: "U", M: "I", l: "L", u: "U", e: "L", s: "U", w: "U", m: "I" };
/** @type {Record<string, Record<string, string>>} */
const SPELLINGS = { iob1: BI, iob2: BI, biluo: BILUO, io: { I: "I", i: "I" } };
/** @type {Record<string, string>} */
const PREFIXES = { iob1: "BI", iob2: "BI", biluo: "BILU", io: "" };
const COLOURS = 12;
const USUAL = ["LOC", "PER", "ORG", "MISC"];

export class Scheme {
  /**
   * @param {string} name
   * @param {{ types: string[], labels: string[], targets: Map<string, string> } | null} own what the dataset may use,
   *   and the model's name of each type that it calls otherwise; none where it is not known
   */
  constructor(name, own = null) {
    this.name = name in SPELLINGS ? name : "iob2";
    this.own = own;
  }

  /**
   * How a dataset spells its labels and what it calls its types: by its label map, else as the model does.
   * @param {{ scheme?: string | null, label_map?: Record<string, string> }} settings
   * @param {{ scheme: string, labels: string[] }} model
   */
  static of(settings, model) {
    const [scheme, classes] = [new Scheme(settings.scheme ?? model.scheme), new Scheme(model.scheme)];
    const read = classes.types(model.labels);
    const map = Object.entries(settings.label_map ?? {}).filter(([, to]) => to !== OUTSIDE);
    const target = (/** @type {string} */ to) => (read.includes(to) ? to : new Scheme("biluo").type(to));
    // A label without a prefix that stands for one with a prefix ("PER_B" for "B-PER") is no type.
    /** @param {[string, string]} pair */
    const whole = ([key, to]) => scheme.name !== "io" && !read.includes(to) && scheme.type(key) === key;
    const named = map.filter((pair) => !whole(pair)).map(([key, to]) => [scheme.type(key), target(to)]);
    const shadowed = new Set(Object.keys(settings.label_map ?? {}));
    const types = read.flatMap((type) => {
      const found = named.filter(([, to]) => to === type).map(([key]) => key);
      return found.length || shadowed.has(type) ? found : [type];
    });
    const labels = map.filter(whole).map(([key]) => key);
    return new Scheme(scheme.name, {
      types: [...new Set(types)],
      labels,
      targets: new Map(named.map(([key, to]) => [key, to])),
    });
  }

  /**
   * Whether a label of the dataset is judged as a class of the model; by type, where their names or schemes differ.
   * @param {string} label
   * @param {string} name of the class
   * @param {Item} item
   */
  judged(label, name, item) {
    const target = this.own?.targets.get(this.type(label));
    if (target === undefined && label in item.thresholds) return label === name;
    return (target ?? this.type(label)) === (name === OUTSIDE ? name : new Scheme("biluo").type(name));
  }

  /** The types of labels, each once. @param {string[]} labels */
  types(labels) {
    return [...new Set(labels.filter((label) => label !== OUTSIDE).map((label) => this.type(label)))];
  }

  /**
   * Prefix and type; a label without a prefix is one word's own type.
   * @param {string} label
   * @returns {[string, string]}
   */
  parse(label) {
    if (label === OUTSIDE) return [OUTSIDE, ""];
    const prefix = label[1] === "-" && label.length > 2 ? SPELLINGS[this.name][label[0]] : undefined;
    if (prefix) return [prefix, label.slice(2)];
    return [this.name === "io" ? "I" : "U", label];
  }

  /** The type without its prefix; "O" stays "O". @param {string} label */
  type(label) {
    return this.parse(label)[1] || OUTSIDE;
  }

  /** @param {string[]} labels @returns {Span[]} */
  spans(labels) {
    /** @type {Span[]} */
    const found = [];
    let [before, kind] = [OUTSIDE, ""];
    labels.forEach((label, place) => {
      const [prefix, type] = this.parse(label);
      if (prefix !== OUTSIDE) {
        const starts = "BU".includes(prefix) || "OLU".includes(before) || kind !== type;
        if (starts) found.push({ start: place, end: place + 1, type });
        else found[found.length - 1].end = place + 1;
      }
      [before, kind] = [prefix, type];
    });
    return found;
  }

  /**
   * The label of one word of a span.
   * @param {Span} span
   * @param {number} place
   * @param {string[]} labels what the words around have
   */
  spell(span, place, labels) {
    const last = place === span.end - 1;
    if (this.name === "io") return labels.some((label) => label.startsWith("I-")) ? `I-${span.type}` : span.type;
    if (this.name === "biluo" && last) return `${place === span.start ? "U" : "L"}-${span.type}`;
    const touches = place === span.start && place > 0 && this.type(labels[place - 1]) === span.type;
    if (this.name === "iob1") return `${touches ? "B" : "I"}-${span.type}`;
    return `${place === span.start ? "B" : "I"}-${span.type}`;
  }

  /**
   * Every label that a word may get: those in use, and what the types make.
   * @param {Item} item
   * @returns {string[]}
   */
  options(item) {
    const seen = [...item.labels, ...item.doubtful.map((flag) => flag.suggested)];
    // Thresholds are of the model's classes: they stand in where the dataset's own names could not be read.
    const known = [...(this.own ? this.own.labels : Object.keys(item.thresholds)), ...seen];
    const spelt = known.filter((label) => !this.own?.labels.includes(label));
    const types = [...new Set([...(this.own?.types ?? []), ...this.types(spelt)])];
    const made = types.flatMap((type) => [...PREFIXES[this.name]].map((prefix) => `${prefix}-${type}`));
    // Where the service judges types only, their bare names are no labels of the dataset.
    const usable = known.filter(
      (label) =>
        this.name === "io" ||
        this.parse(label)[1] !== label ||
        item.labels.includes(label) ||
        this.own?.labels.includes(label),
    );
    return [...new Set([OUTSIDE, ...(made.length ? made : types), ...usable])];
  }
}

/**
 * The labels as the service would have them: those of the suspects' spans, and of doubtful words that no span covers.
 * @param {Item} item
 * @param {Scheme} scheme
 * @returns {string[]}
 */
export function proposal(item, scheme) {
  const labels = [...item.labels];
  const flags = new Map(item.doubtful.map((flag) => [flag.index, flag]));
  const suggested = item.suspects.map((suspect) => suspect.suggested_span).filter((span) => span !== null);
  const covered = new Set(suggested.flatMap(places));
  /** @param {Flag} flag @param {number} place */
  const own = (flag, place) =>
    flag.suggested === OUTSIDE ||
    scheme.name === "io" ||
    scheme.own?.labels.includes(flag.suggested) ||
    scheme.parse(flag.suggested)[1] !== flag.suggested
      ? flag.suggested
      : scheme.spell({ start: place, end: place + 1, type: flag.suggested }, place, labels);
  for (const suspect of item.suspects) {
    const [given, better] = [suspect.given_span, suspect.suggested_span];
    for (const place of given ? places(given) : []) {
      if (covered.has(place) || flags.has(place)) continue;
      if (suspect.kind === "type" && better) labels[place] = renamed(labels[place], better.type, scheme);
      else if (suspect.kind === "spurious" || item.doubtful.length > 1) labels[place] = OUTSIDE;
    }
  }
  for (const [place, flag] of flags) labels[place] = own(flag, place);
  for (const span of suggested) {
    for (const place of places(span)) {
      const flag = flags.get(place);
      if (flag && scheme.own?.labels.includes(flag.suggested)) continue;
      if (flag && scheme.type(flag.suggested) === span.type && scheme.parse(flag.suggested)[1] !== flag.suggested)
        continue;
      if (scheme.type(labels[place]) !== span.type || flag) labels[place] = scheme.spell(span, place, labels);
    }
  }
  return labels;
}

/** The same place in an entity of another type. @param {string} label @param {string} type @param {Scheme} scheme */
function renamed(label, type, scheme) {
  return scheme.parse(label)[1] === label ? type : `${label.slice(0, 2)}${type}`;
}

/** @param {Span} span */
const places = (span) => Array.from({ length: span.end - span.start }, (_, step) => span.start + step);

/**
 * Spans of the labels that the given ones do not have, and of words that would be outside of any.
 * @param {string[]} given
 * @param {string[]} wanted
 * @param {Scheme} scheme
 * @returns {(Span & { nothing?: boolean })[]}
 */
export function changes(given, wanted, scheme) {
  const before = scheme.spans(given);
  const after = scheme.spans(wanted);
  const same = (/** @type {Span} */ a, /** @type {Span} */ b) =>
    a.start === b.start && a.end === b.end && a.type === b.type;
  /** @type {(Span & { nothing?: boolean })[]} */
  const found = after.filter((span) => !before.some((one) => same(one, span)));
  // A label that is spelt otherwise around the same entity is worth a line of its own too.
  for (const span of after) {
    if (!found.includes(span) && places(span).some((place) => given[place] !== wanted[place])) found.push(span);
  }
  wanted.forEach((label, place) => {
    if (label !== OUTSIDE || given[place] === OUTSIDE) return;
    const last = found.find((span) => span.nothing && span.end === place);
    if (last) last.end = place + 1;
    else found.push({ start: place, end: place + 1, type: "no entity", nothing: true });
  });
  return found;
}

/**
 * The colour of a type, the same for everybody and everywhere: by its name, whatever else was seen. Several names may
 * share one; the usual four have theirs alone.
 * @param {string} type
 */
export function colourOf(type) {
  const fixed = USUAL.indexOf(type.toUpperCase());
  if (fixed >= 0) return `t${fixed}`;
  let hash = 0x811c9dc5; // FNV-1a
  for (let at = 0; at < type.length; at += 1) hash = Math.imul(hash ^ type.charCodeAt(at), 0x01000193);
  // The low bits of such a hash are its worst ones.
  return `t${USUAL.length + (((hash ^ (hash >>> 15)) >>> 0) % (COLOURS - USUAL.length))}`;
}
