/** Dead letters: messages that could not be assessed. They are read, corrected and sent again. */

import { ApiError } from "../api.js";
import { clearToasts, h, renderInlineCode, showToast } from "../dom.js";
import { formatCount, formatDateTime, pluralize, truncate } from "../text.js";
import { AdminPage, fetchDatasetNames, listOptions, renderButton } from "./page.js";

/** @import { Api } from "../api.js" */
/** @import { PageContext } from "./page.js" */

/**
 * @typedef {{ text: string | null, base64: string | null }} Bytes
 * @typedef {{ id: string, at: string, stage: string, reason: string, advice: string, origin: string,
 *   dataset: string | null, sentence_id: string | null, size: number, preview: string | null,
 *   replayed: boolean }} Letter
 * @typedef {Letter & { key: Bytes | null, value: Bytes | null, problem: string | null, field: string | null }} LetterDetails
 * @typedef {{ stage: string, reason: string, letters: number }} Group
 * @typedef {{ items: Letter[], next: string | null, total: number, groups: Group[], older: number }} Page
 * @typedef {{ replayed: number, invalid: number, problems: string[], remaining: number }} BulkAnswer
 */

const STAGES = ["decode", "validate", "labels", "too_long", "inference"];
const MAX_REASON = 300;
/** @type {readonly (readonly [string, string])[]} */
const REPLAYED_OPTIONS = [
  ["", "Not sent again"],
  ["yes", "Sent again"],
  ["all", "All"],
];

export class DeadLettersView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "letters",
      title: "Dead letters",
      note: "Messages that could not be assessed, with the reason. Nothing is lost: correct them, or change the settings of the dataset, and send them again.",
    });
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const id = query.get("id");
    if (id) await this.showLetter(id);
    else await this.showList();
  }

  async showList() {
    const { query } = this;
    const [dataset, stage, replayed] = ["dataset", "stage", "replayed"].map((name) => query.get(name) ?? "");
    const [names, page] = await Promise.all([
      fetchDatasetNames(this.api),
      /** @type {Promise<Page>} */ (this.api.get("v1/dead-letters", { dataset, stage, replayed })),
    ]);
    if (!this.isCurrent(query)) return;
    this.tools.replaceChildren(
      this.renderChoice("dataset", "Dataset", [["", "All"], ...listOptions(names)], dataset),
      this.renderChoice("stage", "Stage", [["", "All"], ...listOptions(STAGES)], stage),
      this.renderChoice("replayed", "Show", REPLAYED_OPTIONS, replayed),
    );
    const list = h("ol", { class: "letters" }, page.items.map(renderLetterLink));
    this.body.replaceChildren(
      ...(page.groups.length ? [this.renderGroups(page.groups, dataset)] : []),
      h(
        "section",
        { "aria-labelledby": "letters-title" },
        h("h2", { id: "letters-title" }, pluralize(page.total, "dead letter")),
        page.older
          ? h(
              "p",
              { class: "note" },
              `${formatCount(page.older)} older ones are in the log only: labelwatch dead-letters list`,
            )
          : null,
        page.total ? list : h("p", { class: "empty" }, "There are none: every message was assessed."),
      ),
    );
    if (page.next) this.body.append(this.renderMore(list, { dataset, stage, replayed }, page.next));
  }

  /** @param {HTMLElement} list @param {Record<string, string>} filter @param {string} next */
  renderMore(list, filter, next) {
    let after = next;
    const button = renderButton("Show more", async () => {
      try {
        const page = /** @type {Page} */ (await this.api.get("v1/dead-letters", { ...filter, after }));
        list.append(...page.items.map(renderLetterLink));
        after = page.next ?? "";
        if (!after) button.remove();
      } catch (error) {
        this.context.showError(error);
      }
    });
    return button;
  }

  /** @param {Group[]} groups @param {string} dataset */
  renderGroups(groups, dataset) {
    const mayReplay = this.context.may("replay");
    return h(
      "section",
      { "aria-labelledby": "reasons-title" },
      h("h2", { id: "reasons-title" }, "Reasons"),
      h(
        "p",
        { class: "note" },
        "After a change of settings, send all letters of a reason again. Only those that would be assessed now are sent.",
      ),
      h(
        "ul",
        { class: "reasons" },
        groups.map((group) =>
          h(
            "li",
            {},
            h("span", { class: "tag" }, group.stage),
            h("span", { class: "reason" }, renderInlineCode(truncate(group.reason, MAX_REASON))),
            h("b", {}, formatCount(group.letters)),
            mayReplay
              ? h(
                  "button",
                  {
                    type: "button",
                    "aria-label": `Send all again: ${truncate(group.reason, 80)}`,
                    on: { click: () => this.replayGroup(group, dataset) },
                  },
                  "Send all again",
                )
              : null,
          ),
        ),
      ),
    );
  }

  /** Shows how many would be sent, and sends them when it is confirmed. @param {Group} group @param {string} dataset */
  async replayGroup({ stage, reason }, dataset) {
    const body = { stage, reason, ...(dataset ? { dataset } : {}) };
    const send = async () => {
      let sent = 0;
      for (;;) {
        const answer = /** @type {BulkAnswer} */ (await this.api.post("v1/dead-letters/replay", body));
        sent += answer.replayed;
        if (!answer.remaining || !answer.replayed) break;
      }
      await this.showList();
      showToast(`${pluralize(sent, "message is", "messages are")} sent again.`);
    };
    try {
      const preview = /** @type {BulkAnswer} */ (
        await this.api.post("v1/dead-letters/replay", { ...body, dry_run: true })
      );
      const more = preview.remaining ? ` ${formatCount(preview.remaining)} more are looked at then.` : "";
      if (!preview.replayed) {
        showToast(`None would be assessed now: ${truncate(preview.problems[0] ?? "there are none", MAX_REASON)}`, {
          wrong: true,
        });
        return;
      }
      const left = preview.invalid ? ` ${formatCount(preview.invalid)} would fail again and stay.` : "";
      showToast(`${pluralize(preview.replayed, "message")} would be assessed now.${left}${more}`, {
        lasting: true,
        action: { name: "Send", run: () => void send().catch(this.context.showError) },
      });
    } catch (error) {
      this.context.showError(error);
    }
  }

  // -- one letter ------------------------------------------------------------------------------------------------------

  /** @param {string} id */
  async showLetter(id) {
    const { query } = this;
    const letter = /** @type {LetterDetails} */ (await this.api.get(`v1/dead-letters/${encodeURIComponent(id)}`));
    if (!this.isCurrent(query)) return;
    clearToasts();
    this.tools.replaceChildren(renderButton("Back to the list", () => this.go({ id: "" })));
    const title = h("h2", { id: "letter-title", tabindex: -1 }, `Dead letter ${letter.id}`);
    const facts = /** @type {[string, string | null][]} */ ([
      ["Reason", letter.reason],
      ["What to do", letter.advice],
      ["Now", letter.problem ? `It would fail again: ${letter.problem}` : "It would be assessed now."],
      ["Dataset", letter.dataset],
      ["From", `${letter.origin}, ${formatDateTime(letter.at)}`],
      ["State", letter.replayed ? "Sent again" : "Not sent again"],
    ]);
    this.body.replaceChildren(
      h(
        "section",
        { "aria-labelledby": "letter-title" },
        title,
        h(
          "dl",
          { class: "facts" },
          facts
            .filter(([, text]) => text)
            .map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, renderInlineCode(text ?? "")))),
        ),
        ...this.renderMessage(letter),
      ),
    );
    title.focus();
  }

  /** The message, with the ways to send it again. @param {LetterDetails} letter */
  renderMessage(letter) {
    const { value } = letter;
    const original = value?.base64
      ? h("pre", { class: "message", tabindex: 0, "aria-label": "The message in base64: it is not text" }, value.base64)
      : null;
    const editor = /** @type {HTMLTextAreaElement} */ (
      h("textarea", { id: "letter-text", rows: 14, spellcheck: "false", "aria-describedby": "letter-error" })
    );
    editor.value = formatMessage(value);
    editor.readOnly = !this.context.may("replay");
    const problem = h("p", { class: "wrong", id: "letter-error", role: "alert" });
    /** @param {Record<string, unknown>} body @param {string} done */
    const send = async (body, done) => {
      problem.textContent = "";
      try {
        await this.api.post(`v1/dead-letters/${encodeURIComponent(letter.id)}/replay`, body);
        if (body.dry_run) showToast(done);
        else {
          await this.showLetter(letter.id);
          showToast(done);
        }
      } catch (error) {
        if (!(error instanceof ApiError) || ![409, 422].includes(error.status)) this.context.showError(error);
        else problem.textContent = error.message;
      }
    };
    /** @param {boolean} isDryRun */
    const sendCorrected = (isDryRun) => {
      /** @type {unknown} */
      let sentence;
      try {
        sentence = JSON.parse(editor.value);
      } catch (error) {
        problem.textContent = `It is not JSON: ${error instanceof Error ? error.message : error}`;
        editor.focus();
        return;
      }
      const text = isDryRun ? "It would be assessed." : "The corrected message is sent.";
      send({ sentence, again: letter.replayed && !isDryRun, dry_run: isDryRun }, text);
    };
    return [
      original ? h("h3", {}, "The original message is not text") : null,
      original,
      h("label", { for: "letter-text", class: "block" }, original || !value ? "Write the sentence as JSON" : "Message"),
      editor,
      problem,
      this.context.may("replay")
        ? h(
            "div",
            { class: "row wrap" },
            renderButton("Send as corrected", () => sendCorrected(false), "primary"),
            renderButton("Check", () => sendCorrected(true)),
            letter.problem
              ? null
              : renderButton("Send the original again", () => send({ again: letter.replayed }, "The message is sent.")),
          )
        : null,
    ].filter((part) => part !== null);
  }
}

/** @param {Letter} letter */
const renderLetterLink = (letter) =>
  h(
    "li",
    {},
    h(
      "a",
      { href: `#/letters?${new URLSearchParams({ id: letter.id })}` },
      h("span", { class: "tag" }, letter.stage),
      h("span", { class: "reason" }, renderInlineCode(truncate(letter.reason, MAX_REASON))),
    ),
    h(
      "p",
      { class: "note" },
      [formatDateTime(letter.at), letter.dataset ?? "dataset unknown", letter.replayed ? "sent again" : ""]
        .filter(Boolean)
        .join(" · "),
    ),
    letter.preview ? h("code", { class: "preview" }, truncate(letter.preview, 120)) : null,
  );

/** JSON is indented by field, so that it can be edited. @param {Bytes | null} value */
function formatMessage(value) {
  const text = value?.text;
  if (!text) return '{\n  "tokens": [],\n  "labels": []\n}';
  try {
    const fields = JSON.parse(text);
    if (fields === null || typeof fields !== "object" || Array.isArray(fields)) return text;
    const lines = Object.entries(fields).map(([name, each]) => `  ${JSON.stringify(name)}: ${JSON.stringify(each)}`);
    return `{\n${lines.join(",\n")}\n}`;
  } catch {
    return text;
  }
}
