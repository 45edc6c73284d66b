/** Questions that stand in the way until they are answered: the reviewer's name, the API key; and the help. */

import { h, prose } from "./dom.js";

const NAME = "labelwatch.reviewer";
const LONGEST_NAME = 128;

/** The reviewer's name, or an empty text where nobody has told one. */
export const reviewer = () => localStorage.getItem(NAME) ?? "";

/**
 * Asks for the name; empty where they only want to look.
 * @returns {Promise<string>}
 */
export async function askName() {
  const told = await ask({
    title: "Who is reviewing?",
    text: "Your name stands beside each of your decisions, and tells others which sentence you have open.",
    label: "Your name",
    value: reviewer(),
    input: { autocomplete: "name", maxlength: LONGEST_NAME },
    submit: "Start reviewing",
    cancel: "Just look around",
  });
  if (told) localStorage.setItem(NAME, told);
  return told ?? reviewer();
}

/** Another key than the one in use; none where they keep it. */
export const askOtherKey = () =>
  ask({
    title: "API key",
    text: "Reviewing needs a key with the scope write. It is kept in this tab only, until you close it.",
    label: "Key",
    input: { type: "password", autocomplete: "off", spellcheck: "false" },
    submit: "Use it",
    cancel: "Cancel",
  });

/**
 * Asks until there is an answer: nothing can be shown without a key.
 * @param {string | null} wrong
 * @returns {Promise<string>}
 */
export async function askKey(wrong) {
  for (;;) {
    const told = await ask({
      title: "API key",
      text: "This service needs a key. It is kept in this tab only, until you close it.",
      label: "Key",
      wrong,
      input: { type: "password", autocomplete: "off", spellcheck: "false" },
      submit: "Continue",
    });
    if (told) return told;
  }
}

/**
 * @param {{ title: string, text: string, label: string, value?: string, wrong?: string | null,
 *   input: Record<string, unknown>, submit: string, cancel?: string }} asked
 * @returns {Promise<string | null>}
 */
function ask({ title, text, label, value = "", wrong = null, input, submit, cancel }) {
  const field = /** @type {HTMLInputElement} */ (
    h("input", { id: "asked", required: true, "aria-describedby": wrong ? "asked-wrong" : null, ...input })
  );
  field.value = value;
  /** @type {(told: string | null) => void} */
  let answer = () => {};
  /** @param {Event} event */
  const send = (event) => {
    event.preventDefault();
    if (field.value.trim()) answer(field.value.trim());
  };
  const form = h(
    "form",
    { on: { submit: send } },
    h("h2", { id: "asked-title" }, title),
    h("p", { class: "note" }, text),
    h("label", { for: "asked" }, label),
    field,
    wrong && h("p", { class: "wrong", id: "asked-wrong", role: "alert" }, prose(wrong)),
    h(
      "div",
      { class: "row end" },
      cancel && h("button", { type: "button", class: "plain", on: { click: () => answer(null) } }, cancel),
      h("button", { type: "submit", class: "primary" }, submit),
    ),
  );
  return new Promise((done) => {
    const box = opened(form, "asked-title", () => done(null));
    answer = (told) => {
      done(told);
      box.close();
    };
  });
}

/** @param {readonly (readonly [string, string])[]} keys */
export function showHelp(keys) {
  const rows = keys.map(([key, what]) =>
    h(
      "div",
      {},
      h(
        "dt",
        {},
        key.split(" ").map((one) => h("kbd", {}, one)),
      ),
      h("dd", {}, what),
    ),
  );
  const close = () => box.close();
  const box = opened(
    h(
      "div",
      {},
      h("h2", { id: "help-title" }, "Keys"),
      h("dl", { class: "keys" }, rows),
      h(
        "p",
        { class: "note" },
        "Entities as they were labelled stand above the words, suggested ones below. Low is bad in rank, priority and score. A dataset may have a control sample, sentences that nobody doubts: which ones, and all probabilities there, are told after the decision.",
      ),
      h(
        "div",
        { class: "row end" },
        h("button", { type: "button", class: "primary", autofocus: true, on: { click: close } }, "Close"),
      ),
    ),
    "help-title",
    () => {},
  );
}

/**
 * @param {HTMLElement} content
 * @param {string} titled
 * @param {() => void} closed
 */
function opened(content, titled, closed) {
  const box = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": titled }, content));
  box.addEventListener("close", () => {
    box.remove();
    closed();
  });
  document.body.append(box);
  box.showModal();
  return box;
}
