/** Elements by DOM calls only: what comes from data is text, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, unknown>} Attributes
 */

/**
 * An element. `on` holds listeners, `class`, `hidden`, `aria-*` and the like are attributes; true is an empty one.
 * @param {string} name
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (filled(document.createElement(name), attributes, children));
}

/**
 * An SVG element.
 * @param {string} name
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (filled(document.createElementNS(SVG, name), attributes, children));
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(/** @type {Record<string, EventListener>} */ (value))) {
        element.addEventListener(event, listener);
      }
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  put(element, ...children);
  return element;
}

/**
 * Adds children; numbers and strings become text.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function put(element, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}

/** Control characters would be invisible: they are shown as their pictures. @param {string} text */
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, (found) => {
    const code = found.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

/**
 * The element of the page with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function at(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** The arrow from what was given to what it should be. */
export function arrow() {
  return h("span", { class: "arrow", role: "img", "aria-label": "should be" }, "→");
}

/** Text of the service, where `this` stands for code. @param {string} text */
export function prose(text) {
  return text.split("`").map((part, place, all) => (place % 2 && place < all.length - 1 ? h("code", {}, part) : part));
}

/**
 * A message at the edge of the page. It takes the place of the one before, and goes away by itself; a lasting one stays
 * until it is read.
 * @param {string} text
 * @param {{ wrong?: boolean, lasting?: boolean, action?: { name: string, run: () => void } }} [more]
 */
export function toast(text, { wrong = false, lasting = false, action } = {}) {
  const box = at("toasts");
  const note = h(
    "div",
    { class: `toast${wrong ? " wrong" : ""}${lasting ? " lasting" : ""}` },
    h("span", {}, prose(text)),
  );
  if (action) {
    const run = () => {
      note.remove();
      action.run();
    };
    note.append(h("button", { type: "button", class: "plain", on: { click: run } }, action.name));
  }
  if (!lasting) clearToasts();
  box.append(note);
  if (!lasting) setTimeout(() => note.remove(), wrong ? 10_000 : 6_000);
}

/** Takes messages away that belong to what is gone. */
export function clearToasts() {
  for (const note of at("toasts").querySelectorAll(".toast:not(.lasting)")) note.remove();
}
