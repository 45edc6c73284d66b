/** The open item: a sentence with its suspects, correction, decisions and the buttons to decide. */

import { h, renderArrow } from "../dom.js";
import { formatAge, formatDateTime, formatScore, truncate } from "../text.js";
import { renderBecause } from "./because.js";
import { collectCorrection, Correction, createDraft } from "./correction.js";
import { renderNotices } from "./notices.js";
import { VERDICT_NAMES } from "./review.js";
import { SentenceView } from "./sentence.js";
import { renderSuspects } from "./suspects.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Draft } from "./correction.js" */
/** @import { Scheme } from "../labels/labels.js" */

/** @type {readonly [Verdict, string][]} */
const VERDICT_KEYS = [
  ["error", "e"],
  ["ok", "o"],
  ["unsure", "u"],
];

/** @type {readonly [number, string, string, string][]} */
const STEP_BUTTONS = [
  [-1, "p", "←", "Previous sentence"],
  [1, "n", "→", "Next sentence"],
];

/**
 * `unsent`: the reviewer's decision about the item that is not sent yet.
 * @typedef {{ reviewer: string, mayWrite: boolean, unsent: Decision | null }} ReviewerStatus
 * @typedef {{ step: (offset: number) => void, decide: (verdict: Verdict) => void,
 *   undo: (decision: Decision) => void }} ItemHandlers
 */

export class ItemView {
  /**
   * @param {Item} item
   * @param {{ scheme: Scheme, status: ReviewerStatus, drafts: Map<string, Draft>, handlers: ItemHandlers }} context
   */
  constructor(item, { scheme, status, drafts, handlers }) {
    const key = `${item.dataset}/${item.id}`;
    const savedDraft = drafts.get(key);
    this.draft = savedDraft?.revision === item.revision ? savedDraft : createDraft(item, scheme);
    drafts.set(key, this.draft);
    this.item = item;
    this.scheme = scheme;
    this.status = status;
    this.handlers = handlers;
    this.sentence = new SentenceView(item, scheme, { onWordChosen: (index) => this.focusCorrection(index) });
    this.correction = new Correction(item, scheme, this.draft, {
      onChange: () => this.showDraft(),
      onDone: () => this.title.focus(),
    });
    this.title = h("h2", { tabindex: -1, class: "item-title" });
    this.head = h("header");
    this.notices = h("div", { class: "notices" });
    this.decisionList = h("div", { class: "decisions" });
    this.note = /** @type {HTMLInputElement} */ (
      h("input", { id: "note", maxlength: 2000, placeholder: "Reason, for later readers", autocomplete: "off" })
    );
    this.note.value = this.draft.note;
    this.note.addEventListener("input", () => {
      this.draft.note = this.note.value;
    });
    this.note.addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") this.title.focus();
    });
    this.buttons = VERDICT_KEYS.map(([verdict, key]) =>
      h(
        "button",
        {
          type: "button",
          class: `verdict ${verdict}`,
          "aria-keyshortcuts": key,
          "data-verdict": verdict,
          on: { click: () => handlers.decide(verdict) },
        },
        VERDICT_NAMES[verdict],
        h("kbd", {}, key),
      ),
    );
    const steps = STEP_BUTTONS.map(([offset, key, sign, name]) =>
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": name,
          "aria-keyshortcuts": key,
          title: name,
          on: { click: () => handlers.step(offset) },
        },
        sign,
        h("span", { "aria-hidden": "true" }, h("kbd", {}, key)),
      ),
    );
    this.actions = h(
      "div",
      { class: "actions", role: "group", "aria-label": "Your decision" },
      this.buttons,
      h("div", { class: "steps" }, steps),
    );
    this.answers = /** @type {HTMLFieldSetElement} */ (
      h(
        "fieldset",
        { class: "bare", "aria-label": "Your correction" },
        this.correction.element,
        h("div", { class: "note-row" }, h("label", { for: "note" }, "Note"), this.note),
      )
    );
    this.element = h(
      "article",
      { class: "item", "aria-labelledby": "item-title" },
      this.head,
      this.notices,
      this.sentence.element,
      renderSuspects(item),
      renderBecause(item),
      this.answers,
      this.decisionList,
      renderThresholds(item),
      this.actions,
    );
    this.title.id = "item-title";
    this.showDraft();
    this.update(item, status);
  }

  /** Whether `update` can show this item, so that the draft stays. @param {Item} item */
  canShow(item) {
    return this.isSameItem(item) && !this.isReannotated(item) && item.blind === this.item.blind;
  }

  /** Whether the item is a newer annotation than the one shown. @param {Item} item */
  isReannotated(item) {
    return this.isSameItem(item) && (item.revision !== this.item.revision || item.scored_at !== this.item.scored_at);
  }

  /** @param {Item} item */
  isSameItem(item) {
    return item.dataset === this.item.dataset && item.id === this.item.id;
  }

  /**
   * Shows changes of the item, such as other reviewers' decisions.
   * @param {Item} item
   * @param {ReviewerStatus} status
   */
  update(item, status) {
    this.item = item;
    this.status = status;
    const closed = item.state === "closed";
    this.answers.hidden = closed;
    this.answers.disabled = !status.mayWrite;
    this.sentence.element.hidden = !item.tokens.length;
    this.head.replaceChildren(...this.renderHeading());
    this.notices.replaceChildren(...renderNotices(item, status, this.scheme, this.handlers.undo));
    this.decisionList.replaceChildren(...this.renderDecisions());
    const ownDecision = status.unsent ?? item.decisions.find((decision) => decision.reviewer === status.reviewer);
    for (const button of this.buttons) {
      /** @type {HTMLButtonElement} */ (button).disabled = closed || !status.mayWrite;
      button.title = status.mayWrite ? "" : "Your key may only read";
      button.setAttribute(
        "aria-pressed",
        String(!ownDecision?.withdrawn && ownDecision?.verdict === button.dataset.verdict),
      );
    }
  }

  renderHeading() {
    const { item } = this;
    this.title.replaceChildren(
      h("span", { class: "muted" }, `${item.dataset} / `),
      h("bdi", {}, truncate(item.id, 80)),
    );
    const facts = [
      h("span", { class: `state ${item.state}` }, item.state),
      item.annotator !== null && h("span", {}, "by ", h("bdi", {}, truncate(item.annotator, 60))),
      item.document !== null && h("span", {}, "in ", h("bdi", {}, truncate(item.document, 60))),
      item.annotated_at !== null &&
        h("span", { title: formatDateTime(item.annotated_at) }, `annotated ${formatAge(item.annotated_at)}`),
      renderSource(item.source),
    ];
    // A closed item has no scores.
    const numbers =
      item.state === "closed"
        ? []
        : [
            [
              "Rank",
              item.rank,
              "The order of the queue: the priority, or the ranker's score once there are enough decisions",
            ],
            [
              "Priority",
              item.priority,
              "The worst word, weighted by how well the model agrees with its label elsewhere",
            ],
            ["Score", item.score, `${item.method}, ${item.token_score}`],
          ].map(([name, value, description]) =>
            h(
              "div",
              { title: `${description}. Low is bad.` },
              h("dt", {}, name),
              h("dd", {}, formatScore(/** @type {number | null} */ (value))),
            ),
          );
    return [
      h("div", { class: "about" }, this.title, h("p", { class: "facts" }, facts)),
      numbers.length ? h("dl", { class: "numbers" }, numbers) : "",
    ];
  }

  /** The decisions. They are collapsed until the reviewer has decided, so that the second opinion is independent. */
  renderDecisions() {
    const { item } = this;
    const { reviewer } = this.status;
    if (!item.decisions.length) return [];
    const hasDecided = item.decisions.some((decision) => decision.reviewer === reviewer);
    const agreement =
      item.agreement && h("span", { class: `tag ${item.agreement}` }, item.agreement === "agree" ? "agree" : "differ");
    const names = item.decisions.map((decision) => decision.reviewer).join(", ");
    const list = h(
      "ul",
      {},
      item.decisions.map((decision) => h("li", {}, this.renderDecision(decision))),
    );
    return [
      h(
        "details",
        { open: hasDecided },
        h(
          "summary",
          {},
          `Decided by ${truncate(names, 100)} `,
          hasDecided || item.decisions.length > 1 ? agreement : null,
        ),
        list,
      ),
    ];
  }

  /** @param {Decision} decision */
  renderDecision(decision) {
    const { item } = this;
    const isOwn = decision.reviewer === this.status.reviewer;
    const corrected = (decision.labels ?? []).flatMap((label, index) =>
      label === item.labels[index] ? [] : [[index, label]],
    );
    const changes = corrected.length
      ? corrected
          .slice(0, 6)
          .map(([index, label]) =>
            h(
              "span",
              { class: "fix" },
              h("bdi", {}, truncate(item.tokens[Number(index)], 40)),
              " ",
              renderArrow(),
              " ",
              h("span", { class: "suggested" }, label),
            ),
          )
      : (decision.words ?? []).map((index) => h("bdi", {}, truncate(item.tokens[index] ?? "", 40)));
    return [
      h("b", {}, isOwn ? "You" : truncate(decision.reviewer, 60)),
      h("span", { class: `verdict-tag ${decision.verdict}` }, VERDICT_NAMES[decision.verdict]),
      ...changes,
      decision.note ? h("q", {}, truncate(decision.note, 300)) : null,
      decision.decided_at
        ? h("span", { class: "muted", title: formatDateTime(decision.decided_at) }, formatAge(decision.decided_at))
        : null,
      isOwn && this.status.mayWrite && item.state !== "closed"
        ? h(
            "button",
            { type: "button", class: "plain small", on: { click: () => this.handlers.undo(decision) } },
            "Undo",
          )
        : null,
    ];
  }

  showDraft() {
    this.sentence.show(this.draft.labels);
  }

  /** @param {number} [index] */
  focusCorrection(index) {
    this.correction.focus(index);
  }

  /** The correction and the note of a decision. @param {Verdict} verdict */
  collectAnswer(verdict) {
    const note = this.draft.note.trim();
    return {
      ...(verdict === "error" ? collectCorrection(this.item, this.draft, this.scheme) : {}),
      ...(note ? { note } : {}),
    };
  }

  focus() {
    this.title.focus();
  }
}

/**
 * The source, as a link only if it is a web address: a `javascript:` address would run.
 * @param {string | null} source
 */
function renderSource(source) {
  if (!source) return null;
  if (!/^https?:\/\//i.test(source) || !URL.canParse(source))
    return h("span", { class: "source" }, truncate(source, 120));
  return h(
    "a",
    { href: source, target: "_blank", rel: "noopener noreferrer", class: "source", title: source },
    "Open source",
    h("span", { "aria-hidden": "true" }, " ↗"),
  );
}

/** @param {Item} item */
function renderThresholds(item) {
  const classes = Object.entries(item.thresholds);
  if (!classes.length) return null;
  return h(
    "details",
    { class: "thresholds" },
    h("summary", {}, "Thresholds used"),
    h(
      "dl",
      {},
      classes.map(([name, value]) =>
        h(
          "div",
          {},
          h("dt", {}, name),
          h(
            "dd",
            {},
            value === null ? "none yet" : value.toFixed(3),
            item.warming_up.includes(name) ? h("span", { class: "tag" }, "warming up") : null,
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "note" },
      `${item.method}, ${item.token_score}; model ${item.model.name} (${item.model.fingerprint.slice(0, 12)}). `,
      "A word is doubted when the likeliest class is another one, and some other class reaches its threshold.",
    ),
  );
}
