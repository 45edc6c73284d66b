/** Modal dialogs: the prompts for the reviewer's name and the API key, and the list of keys. */

import { h, renderInlineCode } from "./dom.js";

const REVIEWER_STORAGE_NAME = "labelwatch.reviewer";
const MAX_NAME_LENGTH = 128;

/** The reviewer's name, or an empty text if none is set. */
export const getReviewer = () => localStorage.getItem(REVIEWER_STORAGE_NAME) ?? "";

/**
 * Asks for the reviewer's name. Returns an empty text if they only want to look around.
 * @returns {Promise<string>}
 */
export async function askReviewer() {
  const name = await openPrompt({
    title: "Who is reviewing?",
    text: "Your name is saved with each of your decisions and shows others which sentence you have open.",
    label: "Your name",
    value: getReviewer(),
    input: { autocomplete: "name", maxlength: MAX_NAME_LENGTH },
    submit: "Start reviewing",
    cancel: "Just look around",
  });
  if (name) localStorage.setItem(REVIEWER_STORAGE_NAME, name);
  return name ?? getReviewer();
}

/** Asks for a different key. Returns null if the current key stays in use. */
export const askOtherKey = () =>
  openPrompt({
    title: "API key",
    text: "Reviewing needs a key with the role reviewer. The key is stored in this tab only, until you close it.",
    label: "Key",
    input: { type: "password", autocomplete: "off", spellcheck: "false" },
    submit: "Use this key",
    cancel: "Cancel",
  });

/**
 * Asks until a key is entered: without one, nothing can be shown.
 * @param {string | null} error what is wrong with the key in use
 * @returns {Promise<string>}
 */
export async function askKey(error) {
  for (;;) {
    const key = await openPrompt({
      title: "API key",
      text: "This service needs a key. The key is stored in this tab only, until you close it.",
      label: "Key",
      error,
      input: { type: "password", autocomplete: "off", spellcheck: "false" },
      submit: "Continue",
    });
    if (key) return key;
  }
}

/**
 * @param {{ title: string, text: string, label: string, value?: string, error?: string | null,
 *   input: Record<string, unknown>, submit: string, cancel?: string }} prompt
 * @returns {Promise<string | null>}
 */
function openPrompt({ title, text, label, value = "", error = null, input, submit, cancel }) {
  const field = /** @type {HTMLInputElement} */ (
    h("input", { id: "prompt", required: true, "aria-describedby": error ? "prompt-error" : null, ...input })
  );
  field.value = value;
  /** @type {(answer: string | null) => void} */
  let close = () => {};
  /** @param {Event} event */
  const send = (event) => {
    event.preventDefault();
    if (field.value.trim()) close(field.value.trim());
  };
  const form = h(
    "form",
    { on: { submit: send } },
    h("h2", { id: "prompt-title" }, title),
    h("p", { class: "note" }, text),
    h("label", { for: "prompt" }, label),
    field,
    error && h("p", { class: "wrong", id: "prompt-error", role: "alert" }, renderInlineCode(error)),
    h(
      "div",
      { class: "row end" },
      cancel && h("button", { type: "button", class: "plain", on: { click: () => close(null) } }, cancel),
      h("button", { type: "submit", class: "primary" }, submit),
    ),
  );
  return new Promise((resolve) => {
    const dialog = openDialog(form, "prompt-title", () => resolve(null));
    close = (answer) => {
      resolve(answer);
      dialog.close();
    };
  });
}

/** @param {readonly (readonly [string, string])[]} keys */
export function showHelp(keys) {
  const rows = keys.map(([key, description]) =>
    h(
      "div",
      {},
      h(
        "dt",
        {},
        key.split(" ").map((name) => h("kbd", {}, name)),
      ),
      h("dd", {}, description),
    ),
  );
  const close = () => dialog.close();
  const dialog = openDialog(
    h(
      "div",
      {},
      h("h2", { id: "help-title", tabindex: -1, autofocus: true }, "Keys"),
      h("dl", { class: "keys" }, rows),
      h(
        "p",
        { class: "note" },
        "Given entities are above the words, corrected ones below. The service fills in what it is sure of. Low is bad in rank, priority and score. A dataset may have a control sample: sentences without a flag. Which ones these are, and all probabilities of such a dataset, are shown after the decision.",
      ),
      h("div", { class: "row end" }, h("button", { type: "button", class: "primary", on: { click: close } }, "Close")),
    ),
    "help-title",
    () => {},
  );
}

/**
 * @param {HTMLElement} content
 * @param {string} titleId
 * @param {() => void} onClose
 */
export function openDialog(content, titleId, onClose) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": titleId }, content));
  dialog.addEventListener("close", () => {
    dialog.remove();
    onClose();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
