/** The doubts of the open item in words, each to accept or to reject. */

import { h } from "../dom.js";
import { renderPart } from "../queue/parts.js";
import { describeDoubt, formatParts } from "../queue/wording.js";
import { formatPercent } from "../text.js";

/** @import { Draft } from "./draft.js" */
/** @import { Doubt } from "../queue/wording.js" */

/** @type {readonly ["accepted" | "rejected", string, string, string][]} */
const ANSWERS = [
  ["accepted", "Accept", "a", "A"],
  ["rejected", "Reject", "r", "R"],
];

/** The list of doubts. The first one without an answer is the current one: keys answer it. */
export class DoubtList {
  /**
   * @param {Draft} draft
   * @param {{ onAnswer: (number: number | "all", answer: "accepted" | "rejected") => void,
   *   onSelect: (number: number) => void }} handlers `onSelect`: the reviewer wants to see the words
   */
  constructor(draft, { onAnswer, onSelect }) {
    this.draft = draft;
    this.onAnswer = onAnswer;
    this.onSelect = onSelect;
    this.element = h("section", { class: "doubts", "aria-label": "Doubts", hidden: !draft.doubts.length });
    /** The current doubt again, for the bar that a narrow screen always shows. Wide ones don't show it. */
    this.current = /** @type {HTMLFieldSetElement} */ (
      h("fieldset", { class: "bare current-doubt", "aria-label": "Current doubt" })
    );
    this.show();
  }

  show() {
    const { draft } = this;
    const current = draft.currentDoubt;
    replaceKeepingFocus(
      this.element,
      h(
        "ol",
        {},
        draft.doubts.map((doubt, number) => this.renderDoubt(doubt, number, number === current)),
      ),
      draft.doubts.length > 1 ? this.renderAll() : "",
    );
    this.current.hidden = current === null;
    replaceKeepingFocus(this.current, ...(current === null ? [] : this.renderCurrent(current)));
  }

  /** @param {number} number */
  renderCurrent(number) {
    const parts = describeDoubt(this.draft.item, this.draft.doubts[number]);
    return [
      h(
        "button",
        { type: "button", class: "plain say", "data-control": "say", on: { click: () => this.onSelect(number) } },
        parts.map((part) => renderPart(part, this.draft.scheme.palette)),
      ),
      h(
        "span",
        { class: "answers" },
        ANSWERS.map(([name]) => this.renderAnswer(number, name, { text: formatParts(parts), control: name })),
      ),
    ];
  }

  /**
   * @param {number} number
   * @param {"accepted" | "rejected"} answer
   * @param {{ text: string, control: string, key?: string | null }} about `key`: shown if it is not null
   */
  renderAnswer(number, answer, { text, control, key = null }) {
    const [, title] = ANSWERS.find(([name]) => name === answer) ?? ["", ""];
    return h(
      "button",
      {
        type: "button",
        class: `answer ${answer}`,
        "aria-pressed": String(this.draft.answers.get(number) === answer),
        "aria-keyshortcuts": key,
        "data-control": control,
        disabled: answer === "accepted" && !this.draft.canAccept(number),
        on: { click: () => this.onAnswer(number, answer) },
      },
      title,
      h("span", { class: "sr" }, `: ${text}`),
      key === null ? null : h("kbd", { "aria-hidden": "true" }, key),
    );
  }

  /** @param {Doubt} doubt @param {number} number @param {boolean} isCurrent */
  renderDoubt(doubt, number, isCurrent) {
    const { item, scheme, answers } = this.draft;
    const parts = describeDoubt(item, doubt);
    const text = formatParts(parts);
    const confidence = doubt.suspect ? doubt.suspect.confidence : (doubt.flag?.p_suggested ?? null);
    const answer = answers.get(number);
    return h(
      "li",
      { class: `doubt-row${isCurrent ? " current" : ""}`, "aria-current": isCurrent ? "true" : null },
      h(
        "button",
        {
          type: "button",
          class: "plain say",
          "data-control": `say-${number}`,
          on: { click: () => this.onSelect(number) },
        },
        h(
          "span",
          {},
          parts.map((part) => renderPart(part, scheme.palette)),
        ),
        confidence === null ? null : h("span", { class: "sure" }, ` ${formatPercent(confidence)} sure`),
        answer === "changed" ? h("span", { class: "tag" }, "you changed it") : null,
        answer !== "accepted" && this.draft.listAcceptedOverlaps(number).length
          ? h("span", { class: "tag" }, "shares words with an accepted one, which stays")
          : null,
      ),
      h(
        "span",
        { class: "answers" },
        ANSWERS.map(([name, , key]) =>
          this.renderAnswer(number, name, { text, control: `${name}-${number}`, key: isCurrent ? key : null }),
        ),
      ),
    );
  }

  renderAll() {
    return h(
      "p",
      { class: "answers all" },
      ANSWERS.map(([name, title, , key]) =>
        h(
          "button",
          {
            type: "button",
            class: `answer ${name}`,
            "aria-keyshortcuts": `Shift+${key}`,
            "data-control": `${name}-all`,
            on: { click: () => this.onAnswer("all", name) },
          },
          `${title} all`,
          h("kbd", { "aria-hidden": "true" }, `⇧${key}`),
        ),
      ),
    );
  }
}

/** The control with the same name keeps the focus. @param {HTMLElement} element @param {...(Node | string)} content */
function replaceKeepingFocus(element, ...content) {
  const focused = /** @type {HTMLElement | null} */ (
    element.contains(document.activeElement) ? document.activeElement : null
  )?.dataset.control;
  element.replaceChildren(...content);
  if (focused) /** @type {HTMLElement | null} */ (element.querySelector(`[data-control="${focused}"]`))?.focus();
}
