/** Which types a typed text asks for. No DOM. */

/**
 * The types that contain the text, without regard to case: those that begin with it first, then those with a part that
 * does ("of_art" after "_"), then the others.
 * @param {string[]} types
 * @param {string} text
 * @returns {string[]}
 */
export function filterTypes(types, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return types;
  /** @param {string} type */
  const getPlace = (type) => {
    const place = type.toLowerCase().indexOf(wanted);
    if (place <= 0) return place;
    return /[^\p{L}\p{N}]/u.test(type[place - 1]) ? 1 : 2;
  };
  return types.filter((type) => getPlace(type) >= 0).sort((a, b) => getPlace(a) - getPlace(b));
}
