/** Keys: one letter each, and only where nobody is typing. */

/** @type {readonly (readonly [string, string])[]} */
export const HELP = [
  ["e", "Error: the labels are wrong, corrected as chosen"],
  ["o", "OK: the labels are right"],
  ["u", "Unsure"],
  ["c", "Choose the corrected label: ↑ ↓ change it, Tab goes to the next word, Enter keeps it"],
  ["← →", "Go along the words, once one has the focus; Enter corrects it"],
  ["z", "Undo: take the last decision back"],
  ["n j", "Next sentence"],
  ["p k", "Previous sentence"],
  ["f", "Filters"],
  ["?", "This help"],
];

const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/**
 * Calls what belongs to a key; the answer is whether it did anything.
 * @param {(key: string) => boolean} press
 */
export function listenToKeys(press) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.isComposing || (event.repeat && !"njpk".includes(event.key)))
      return;
    if ((event.ctrlKey || event.metaKey) && event.key !== "z") return;
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = TYPING.has(target.tagName) && /** @type {HTMLInputElement} */ (target).type !== "checkbox";
    if (typing || target.isContentEditable || document.querySelector("dialog[open]")) return;
    if (press(event.key.length === 1 ? event.key.toLowerCase() : event.key)) event.preventDefault();
  });
}
