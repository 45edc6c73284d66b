/** Keyboard shortcuts: single keys, ignored while a text field has the focus. */

/** @type {readonly (readonly [string, string])[]} */
export const KEY_HELP = [
  ["e", "Error: the labels are wrong; saves the chosen corrections"],
  ["o", "OK: the labels are correct"],
  ["u", "Unsure"],
  ["c", "Choose the corrected label: ↑ ↓ change it, Tab goes to the next word, Enter accepts it"],
  ["← →", "Move between the words when one has the focus; Enter corrects it"],
  ["z", "Undo the last decision"],
  ["n j", "Next sentence"],
  ["p k", "Previous sentence"],
  ["s", "The same words elsewhere: Tab goes to the next sentence, Enter opens it"],
  ["/", "Search the words"],
  ["f", "Filters"],
  ["?", "This help"],
];

const TEXT_INPUT_TAGS = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/**
 * Calls `handle` with each shortcut key.
 * @param {(key: string) => boolean} handle returns whether it used the key
 */
export function listenToKeys(handle) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.isComposing || (event.repeat && !"njpk".includes(event.key)))
      return;
    if ((event.ctrlKey || event.metaKey) && event.key !== "z") return;
    const target = /** @type {HTMLElement} */ (event.target);
    const isTyping =
      TEXT_INPUT_TAGS.has(target.tagName) && /** @type {HTMLInputElement} */ (target).type !== "checkbox";
    if (isTyping || target.isContentEditable || document.querySelector("dialog[open]")) return;
    if (handle(event.key.length === 1 ? event.key.toLowerCase() : event.key)) event.preventDefault();
  });
}
