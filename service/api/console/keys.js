/** Keyboard shortcuts: single keys, ignored while a text field has the focus. */

/** @type {readonly (readonly [string, string])[]} */
export const KEY_HELP = [
  ["a r", "Accept or reject the current doubt; the last answer saves the sentence"],
  ["⇧A ⇧R", "Accept or reject all doubts of the sentence"],
  ["e", "Error: the labels are wrong; saves them as corrected"],
  ["o", "OK: the given labels are correct"],
  ["u", "Unsure"],
  ["← →", "Go from word to word; a word of an entity selects the entity"],
  ["⇧← ⇧→", "Select several words, as dragging does"],
  ["1 … 9", "Give the selected words a type, or the selected entity another one"],
  ["t Enter", "Choose the type from the menu of all types: type to filter"],
  ["⌫ 0", "Remove the selected entity"],
  [", .", "End the selected entity one word earlier or later"],
  ["< >", "Start the selected entity one word earlier or later"],
  ["x", "Split the entity before the word with the focus"],
  ["z", "Undo the last edit, else the last decision"],
  ["c", "Labels word by word: ↑ ↓ change a label, Tab goes to the next word, Enter or Esc goes back to the sentence"],
  ["n j", "Next sentence"],
  ["p k", "Previous sentence"],
  ["s", "The same words elsewhere: Tab goes to the next sentence, Enter opens it"],
  ["b", "Decide about many sentences: those selected, or all that match the filters"],
  ["x", "In the list: select the sentence, or take it from the selection"],
  ["/", "Search the words while you type; Enter or Esc goes back to the list"],
  ["f", "Filters; Esc goes back to the list"],
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
    const hasOwnKeys =
      TEXT_INPUT_TAGS.has(target.tagName) && /** @type {HTMLInputElement} */ (target).type !== "checkbox";
    // A choice takes letters, and has no undo of its own as a text field has.
    const isTyping = hasOwnKeys && !(target.tagName === "SELECT" && (event.ctrlKey || event.metaKey));
    if (isTyping || target.isContentEditable || document.querySelector("dialog[open]")) return;
    const isLetter = event.key.length === 1;
    const key = isLetter && !event.shiftKey ? event.key.toLowerCase() : event.key; // also with caps lock
    if (handle(key)) event.preventDefault();
  });
}
