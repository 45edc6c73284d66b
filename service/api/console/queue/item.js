/** One sentence of the queue, to be decided. */

import { Correction, draftOf, wrongOf } from "./correction.js";
import { arrow, h } from "../dom.js";
import { taken } from "./review.js";
import { Sentence } from "./sentence.js";
import { ago, clock, count, cut, decimal, moment, percent } from "../text.js";

/** @import { Decision, Item, Suspect, Verdict } from "../types.js" */
/** @import { Draft } from "./correction.js" */
/** @import { Scheme } from "../labels/labels.js" */

/** @type {Record<string, [string, string]>} */
export const KINDS = {
  missed: ["Missed", "an entity the labels leave out"],
  spurious: ["Spurious", "a label where there is no entity"],
  type: ["Wrong type", "the right words under another type"],
  boundary: ["Wrong boundary", "the right type over other words"],
};

/** @type {Record<Verdict, string>} */
export const VERDICTS = { error: "Error", ok: "OK", unsure: "Unsure" };

/** @type {readonly [Verdict, string, string][]} */
const BUTTONS = [
  ["error", "e", "Error"],
  ["ok", "o", "OK"],
  ["unsure", "u", "Unsure"],
];

/** @type {readonly [number, string, string, string][]} */
const STEPS = [
  [-1, "p", "←", "Previous sentence"],
  [1, "n", "→", "Next sentence"],
];

/**
 * What is so at the moment: who looks, whether they may decide, and what they decided that could not be sent yet.
 * @typedef {{ reviewer: string, may: boolean, waiting: Decision | null }} Now
 * @typedef {{ step: (by: number) => void, decide: (verdict: Verdict) => void, undo: (decision: Decision) => void }} Told
 */

export class ItemView {
  /**
   * @param {Item} item
   * @param {{ scheme: Scheme, now: Now, drafts: Map<string, Draft>, told: Told }} context
   */
  constructor(item, { scheme, now, drafts, told }) {
    const key = `${item.dataset}/${item.id}`;
    const kept = drafts.get(key);
    this.draft = kept?.revision === item.revision ? kept : draftOf(item, scheme);
    drafts.set(key, this.draft);
    this.item = item;
    this.scheme = scheme;
    this.now = now;
    this.told = told;
    this.sentence = new Sentence(item, scheme, { chosen: (place) => this.correct(place) });
    this.correction = new Correction(item, scheme, this.draft, {
      changed: () => this.preview(),
      left: () => this.title.focus(),
    });
    this.title = h("h2", { tabindex: -1, class: "item-title" });
    this.head = h("header");
    this.notices = h("div", { class: "notices" });
    this.decided = h("div", { class: "said" });
    this.note = /** @type {HTMLInputElement} */ (
      h("input", { id: "note", maxlength: 2000, placeholder: "Why, for whoever reads it later", autocomplete: "off" })
    );
    this.note.value = this.draft.note;
    this.note.addEventListener("input", () => {
      this.draft.note = this.note.value;
    });
    this.note.addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") this.title.focus();
    });
    this.buttons = BUTTONS.map(([verdict, key, name]) =>
      h(
        "button",
        {
          type: "button",
          class: `verdict ${verdict}`,
          "aria-keyshortcuts": key,
          "data-verdict": verdict,
          on: { click: () => told.decide(verdict) },
        },
        name,
        h("kbd", {}, key),
      ),
    );
    const steps = STEPS.map(([by, key, sign, name]) =>
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": name,
          "aria-keyshortcuts": key,
          title: name,
          on: { click: () => told.step(by) },
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
      suspects(item),
      this.answers,
      this.decided,
      thresholds(item),
      this.actions,
    );
    this.title.id = "item-title";
    this.preview();
    this.update(item, now);
  }

  /** Whether it can show this item without losing what was chosen. @param {Item} item */
  fits(item) {
    return this.isAbout(item) && !this.isOlder(item) && item.blind === this.item.blind;
  }

  /** Whether it is another annotation than the one that was looked at. @param {Item} item */
  isOlder(item) {
    return this.isAbout(item) && (item.revision !== this.item.revision || item.scored_at !== this.item.scored_at);
  }

  /** @param {Item} item */
  isAbout(item) {
    return item.dataset === this.item.dataset && item.id === this.item.id;
  }

  /** What others did meanwhile. @param {Item} item @param {Now} now */
  update(item, now) {
    this.item = item;
    this.now = now;
    const closed = item.state === "closed";
    this.answers.hidden = closed;
    this.answers.disabled = !now.may;
    this.sentence.element.hidden = !item.tokens.length;
    this.head.replaceChildren(...this.heading());
    this.notices.replaceChildren(...this.notes());
    this.decided.replaceChildren(...this.history());
    const mine = now.waiting ?? item.decisions.find((one) => one.reviewer === now.reviewer);
    for (const button of this.buttons) {
      /** @type {HTMLButtonElement} */ (button).disabled = closed || !now.may;
      button.title = now.may ? "" : "Your key may only read";
      button.setAttribute("aria-pressed", String(!mine?.withdrawn && mine?.verdict === button.dataset.verdict));
    }
  }

  heading() {
    const { item } = this;
    this.title.replaceChildren(h("span", { class: "muted" }, `${item.dataset} / `), h("bdi", {}, cut(item.id, 80)));
    const facts = [
      h("span", { class: `state ${item.state}` }, item.state),
      item.annotator !== null && h("span", {}, "by ", h("bdi", {}, cut(item.annotator, 60))),
      item.annotated_at !== null &&
        h("span", { title: moment(item.annotated_at) }, `annotated ${ago(item.annotated_at)}`),
      link(item.source),
    ];
    // Of a deleted sentence nothing is left to be told.
    const numbers =
      item.state === "closed"
        ? []
        : [
            ["Rank", item.rank, "What orders the queue: priority, or the ranker's answer once enough is decided"],
            ["Priority", item.priority, "Worst word, weighted by how far the model agrees with its label elsewhere"],
            ["Score", item.score, `${item.method}, ${item.token_score}`],
          ].map(([name, value, told]) =>
            h(
              "div",
              { title: `${told}. Low is bad.` },
              h("dt", {}, name),
              h("dd", {}, decimal(/** @type {number | null} */ (value))),
            ),
          );
    return [
      h("div", { class: "about" }, this.title, h("p", { class: "facts" }, facts)),
      numbers.length ? h("dl", { class: "numbers" }, numbers) : "",
    ];
  }

  notes() {
    const { item } = this;
    const { reviewer, waiting } = this.now;
    const notes = [];
    if (waiting) {
      const what = waiting.withdrawn
        ? "Taking your decision back"
        : h("span", {}, "Your decision, ", h("b", {}, VERDICTS[waiting.verdict]), ",");
      const undo = waiting.withdrawn
        ? null
        : h("button", { type: "button", class: "plain small", on: { click: () => this.told.undo(waiting) } }, "Undo");
      notes.push(
        h("p", { class: "notice unsaved" }, what, " is not saved yet. It is sent when the service answers. ", undo),
      );
    }
    if (taken(item, reviewer)) {
      const until = item.claimed_until ? ` until ${clock(item.claimed_until)}` : "";
      notes.push(h("p", { class: "notice" }, h("b", {}, item.claimed_by), ` has it open${until}. You can decide too.`));
    }
    if (item.state === "closed") {
      const why =
        item.closed_by === "deleted"
          ? "The annotation was deleted."
          : "It was annotated again, and nothing is doubtful any more.";
      notes.push(h("p", { class: "notice" }, `${why} There is nothing left to decide.`));
    }
    if (item.reason === "control") {
      const share = item.inclusion_probability === null ? "" : `, drawn with ${percent(item.inclusion_probability)}`;
      notes.push(h("p", { class: "notice quiet" }, `A control sentence${share}: nothing was flagged here.`));
    }
    if (item.blind)
      notes.push(
        h(
          "p",
          { class: "notice quiet" },
          "Probabilities are told after the decision: some sentences of this dataset are a control sample.",
        ),
      );
    const warming = item.warming_up.filter((name) =>
      item.doubtful.some((flag) => [flag.given, flag.suggested].some((label) => this.scheme.judged(label, name, item))),
    );
    if (warming.length)
      notes.push(
        h("p", { class: "notice quiet" }, `Few words of ${warming.join(", ")} so far: thresholds are warming up.`),
      );
    return notes;
  }

  /** Decisions about it. Others' are folded away until one has decided, so that the second look is one's own. */
  history() {
    const { item } = this;
    const { reviewer } = this.now;
    if (!item.decisions.length) return [];
    const mine = item.decisions.some((one) => one.reviewer === reviewer);
    const agreement =
      item.agreement && h("span", { class: `tag ${item.agreement}` }, item.agreement === "agree" ? "agree" : "differ");
    const names = item.decisions.map((one) => one.reviewer).join(", ");
    const list = h(
      "ul",
      {},
      item.decisions.map((one) => h("li", {}, this.decision(one))),
    );
    return [
      h(
        "details",
        { open: mine },
        h("summary", {}, `Decided by ${cut(names, 100)} `, mine || item.decisions.length > 1 ? agreement : null),
        list,
      ),
    ];
  }

  /** @param {Decision} decision */
  decision(decision) {
    const { item } = this;
    const own = decision.reviewer === this.now.reviewer;
    const corrected = (decision.labels ?? []).flatMap((label, place) =>
      label === item.labels[place] ? [] : [[place, label]],
    );
    const told = corrected.length
      ? corrected
          .slice(0, 6)
          .map(([place, label]) =>
            h(
              "span",
              { class: "fix" },
              h("bdi", {}, cut(item.tokens[Number(place)], 40)),
              " ",
              arrow(),
              " ",
              h("span", { class: "suggested" }, label),
            ),
          )
      : (decision.words ?? []).map((place) => h("bdi", {}, cut(item.tokens[place] ?? "", 40)));
    return [
      h("b", {}, own ? "You" : cut(decision.reviewer, 60)),
      h("span", { class: `verdict-tag ${decision.verdict}` }, VERDICTS[decision.verdict]),
      ...told,
      decision.note ? h("q", {}, cut(decision.note, 300)) : null,
      decision.decided_at
        ? h("span", { class: "muted", title: moment(decision.decided_at) }, ago(decision.decided_at))
        : null,
      own && this.now.may && item.state !== "closed"
        ? h("button", { type: "button", class: "plain small", on: { click: () => this.told.undo(decision) } }, "Undo")
        : null,
    ];
  }

  preview() {
    this.sentence.show(this.draft.labels);
  }

  /** @param {number} [place] */
  correct(place) {
    this.correction.focus(place);
  }

  /** What goes into the decision. @param {Verdict} verdict */
  answer(verdict) {
    const note = this.draft.note.trim();
    return { ...(verdict === "error" ? wrongOf(this.item, this.draft) : {}), ...(note ? { note } : {}) };
  }

  focus() {
    this.title.focus();
  }
}

/** Only addresses of the web become links: a `javascript:` one would run. @param {string | null} source */
function link(source) {
  if (!source) return null;
  if (!/^https?:\/\//i.test(source) || !URL.canParse(source)) return h("span", { class: "source" }, cut(source, 120));
  return h(
    "a",
    { href: source, target: "_blank", rel: "noopener noreferrer", class: "source", title: source },
    "Open source",
    h("span", { "aria-hidden": "true" }, " ↗"),
  );
}

/** @param {Item} item */
function suspects(item) {
  if (!item.suspects.length) return null;
  const shown = item.suspects.slice(0, 8);
  return h(
    "ul",
    { class: "doubts", "aria-label": "Doubtful entities" },
    shown.map((suspect) => h("li", {}, said(item, suspect))),
    item.suspects.length > shown.length &&
      h("li", { class: "muted" }, `${count(item.suspects.length - shown.length)} more`),
  );
}

/** `Wrong type: China, PER → LOC, 98 %`. @param {Item} item @param {Suspect} suspect */
function said(item, suspect) {
  const { given_span: given, suggested_span: suggested } = suspect;
  const [name, told] = KINDS[suspect.kind] ?? [suspect.kind, ""];
  /** @param {{ start: number, end: number }} span */
  const text = (span) =>
    h("q", {}, h("bdi", {}, cut(item.tokens.slice(span.start, Math.min(span.end, span.start + 12)).join(" "), 120)));
  const before = h("span", { class: "given" }, given?.type ?? "no entity");
  const after = h("span", { class: "suggested" }, suggested?.type ?? "no entity");
  const moved = given && suggested && (given.start !== suggested.start || given.end !== suggested.end);
  const one = moved && given.type === suggested.type;
  return [
    h("span", { class: "kind", title: told }, name),
    moved
      ? [text(given), one ? null : before, arrow(), text(suggested), one ? null : after]
      : [text(/** @type {any} */ (suggested ?? given)), before, arrow(), after],
    suspect.confidence === null ? [] : h("span", { class: "sure" }, `${percent(suspect.confidence)} sure`),
  ].flat();
}

/** @param {Item} item */
function thresholds(item) {
  const classes = Object.entries(item.thresholds);
  if (!classes.length) return null;
  return h(
    "details",
    { class: "thresholds" },
    h("summary", {}, "Thresholds it was judged with"),
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
      "A word is doubted when another class is the likeliest and reaches its threshold.",
    ),
  );
}
