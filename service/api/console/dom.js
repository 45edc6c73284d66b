/** Builds elements with DOM calls only: data is written as text, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, unknown>} Attributes
 */

/**
 * Builds an HTML element. `on` holds event listeners, all other keys are attributes. `true` sets an empty attribute;
 * null, undefined and false set none.
 * @param {string} name
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fillElement(document.createElement(name), attributes, children));
}

/**
 * Builds an SVG element.
 * @param {string} name
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fillElement(document.createElementNS(SVG, name), attributes, children));
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 */
function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(/** @type {Record<string, EventListener>} */ (value))) {
        element.addEventListener(event, listener);
      }
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  appendChildren(element, ...children);
  return element;
}

/**
 * Appends children. Numbers and strings become text nodes.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function appendChildren(element, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(showControlChars(String(child))));
  }
}

/** Replaces control characters, which are invisible, by their pictures. @param {string} text */
export function showControlChars(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

/**
 * Gets the element of the page with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function getById(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** The arrow from a given label to the suggested one. */
export function renderArrow() {
  return h("span", { class: "arrow", role: "img", "aria-label": "should be" }, "→");
}

/** Shows parts of a text in backticks as code. @param {string} text */
export function renderInlineCode(text) {
  return text
    .split("`")
    .map((part, index, parts) => (index % 2 && index < parts.length - 1 ? h("code", {}, part) : part));
}

/** A command with a button that copies it. @param {string} command */
export function renderCommand(command) {
  const code = h("code", { tabindex: 0 }, command);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      showToast("Copied.");
    } catch {
      // Browsers offer the clipboard only to pages from https and localhost.
      getSelection()?.selectAllChildren(code);
      showToast("Selected: copy it with Ctrl+C.");
    }
  };
  return h(
    "div",
    { class: "command" },
    code,
    h(
      "button",
      { type: "button", class: "plain small", "aria-label": "Copy the command", on: { click: copy } },
      "Copy",
    ),
  );
}

/**
 * Shows a message at the edge of the page. It replaces the previous message and disappears after some seconds. A
 * lasting message stays until its button is pressed.
 * @param {string} text
 * @param {{ wrong?: boolean, lasting?: boolean, action?: { name: string, run: () => void } }} [options]
 */
export function showToast(text, { wrong = false, lasting = false, action } = {}) {
  const container = getById("toasts");
  const toastElement = h(
    "div",
    { class: `toast${wrong ? " wrong" : ""}${lasting ? " lasting" : ""}` },
    h("span", {}, renderInlineCode(text)),
  );
  if (action) {
    const run = () => {
      toastElement.remove();
      action.run();
    };
    toastElement.append(h("button", { type: "button", class: "plain", on: { click: run } }, action.name));
  }
  if (!lasting) clearToasts();
  container.append(toastElement);
  if (!lasting) setTimeout(() => toastElement.remove(), wrong ? 10_000 : 6_000);
}

/** Removes all messages but the lasting ones. */
export function clearToasts() {
  for (const toastElement of getById("toasts").querySelectorAll(".toast:not(.lasting)")) toastElement.remove();
}
