/**
 * The look of each entity type: a colour and a line style. The name decides, so a type looks the same everywhere; types
 * of one label set never share a look while there are enough. The audit's report chooses in the same way (palette.py).
 */

export const N_COLOURS = 8;
export const N_LINE_STYLES = 4;
const FIXED_COLOUR_TYPES = ["LOC", "PER", "ORG", "MISC"];

/** The colour that a name asks for. @param {string} type */
function hashColour(type) {
  const fixedIndex = FIXED_COLOUR_TYPES.indexOf(type.toUpperCase());
  if (fixedIndex >= 0) return fixedIndex;
  let hash = 0x811c9dc5; // FNV-1a
  for (let charIndex = 0; charIndex < type.length; charIndex += 1)
    hash = Math.imul(hash ^ type.charCodeAt(charIndex), 0x01000193);
  // The low bits of FNV-1a are weak, so the high bits are mixed in.
  return ((hash ^ (hash >>> 15)) >>> 0) % N_COLOURS;
}

/** @param {string} type */
const hasFixedColour = (type) => FIXED_COLOUR_TYPES.includes(type.toUpperCase());

/** The looks of one label set. */
export class Palette {
  /** @param {string[]} types */
  constructor(types) {
    /** @type {Map<string, number>} */
    this.looks = new Map();
    const inOrder = [...new Set(types)].sort();
    const taken = new Set();
    for (const type of [...inOrder.filter(hasFixedColour), ...inOrder.filter((type) => !hasFixedColour(type))]) {
      const look = this.findFreeLook(hashColour(type), taken);
      taken.add(look);
      this.looks.set(type, look);
    }
  }

  /** The first free look from this colour on: all colours with one line style, then with the next. @param {number} colour @param {Set<number>} taken */
  findFreeLook(colour, taken) {
    for (let line = 0; line < N_LINE_STYLES; line += 1) {
      for (let step = 0; step < N_COLOURS; step += 1) {
        const look = line * N_COLOURS + ((colour + step) % N_COLOURS);
        if (!taken.has(look)) return look;
      }
    }
    return colour;
  }

  /** The CSS classes of a type. @param {string} type */
  getClasses(type) {
    const look = this.looks.get(type) ?? hashColour(type);
    const line = Math.floor(look / N_COLOURS);
    return `t${look % N_COLOURS}${line ? ` l${line}` : ""}`;
  }
}
