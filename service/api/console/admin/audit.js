/** The audit trail, newest first, and the keys. */

import { h, renderInlineCode } from "../dom.js";
import { pluralize, truncate } from "../text.js";
import { AdminPage, fetchDatasetNames, listOptions, renderButton, renderTable, renderTime } from "./page.js";

/** @import { Api } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { PageContext } from "./page.js" */

/**
 * @typedef {{ at: string, actor: string | null, actor_kind: string, action: string, dataset: string | null,
 *   subject: string | null, details: Record<string, string | number | boolean | null>, via: string,
 *   request_id: string | null }} AuditRecord
 * @typedef {{ records: AuditRecord[], next: number | null }} AuditPage
 * @typedef {{ name: string, role: string, datasets: string[] | null, source: string, created_at: string | null,
 *   created_by: string | null, revoked_at: string | null, revoked_by: string | null }} KeyInfo
 */

const ACTIONS = [
  "decision",
  "withdrawal",
  "settings",
  "training",
  "replay",
  "webhook-added",
  "webhook-removed",
  "webhook-retried",
  "webhook-paused",
  "webhook-resumed",
  "dead-letters",
  "key-created",
  "key-rotated",
  "key-revoked",
];
const MAX_SUBJECT = 80;

export class AuditView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "audit",
      title: "Audit trail",
      note: "Who changed what: decisions, settings, trainings, replays, webhooks and keys. Records hold no text of sentences.",
    });
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const filter = { dataset: query.get("dataset") ?? "", action: query.get("action") ?? "" };
    const [names, page, { keys }] = await Promise.all([
      fetchDatasetNames(this.api),
      /** @type {Promise<AuditPage>} */ (this.api.get("v1/audit", filter)),
      /** @type {Promise<{ keys: KeyInfo[] }>} */ (this.api.get("v1/keys")),
    ]);
    if (!this.isCurrent(query)) return;
    this.tools.replaceChildren(
      this.renderFilter("dataset", "Dataset", names, filter.dataset),
      this.renderFilter("action", "Action", ACTIONS, filter.action),
    );
    this.body.replaceChildren(this.renderChanges(page, filter), renderKeys(keys));
  }

  /** @param {string} parameter @param {string} label @param {string[]} values @param {string} value */
  renderFilter(parameter, label, values, value) {
    // The trail also names datasets that are gone.
    const options = listOptions([...new Set(value ? [...values, value] : values)]);
    return this.renderChoice(parameter, label, [["", "All"], ...options], value);
  }

  /** @param {AuditPage} page @param {{ dataset: string, action: string }} filter */
  renderChanges(page, filter) {
    const rows = h("tbody", {}, page.records.map(renderRecord));
    const table = renderTable("Changes, newest first", ["When", "Who", "What", "Dataset", "Subject", "From"], rows);
    return h(
      "section",
      { "aria-labelledby": "changes-title" },
      h("h2", { id: "changes-title" }, "Changes"),
      page.records.length ? table : h("p", { class: "empty" }, "There are no such changes."),
      page.next === null ? null : this.renderMore(table, rows, filter, page.next),
    );
  }

  /** @param {HTMLElement} table @param {HTMLElement} rows @param {Record<string, string>} filter @param {number} next */
  renderMore(table, rows, filter, next) {
    let before = next;
    const button = renderButton("Show more", async () => {
      try {
        const page = /** @type {AuditPage} */ (await this.api.get("v1/audit", { ...filter, before }));
        rows.append(...page.records.map(renderRecord));
        if (page.next === null) {
          button.remove();
          table.focus();
        } else before = page.next;
      } catch (error) {
        this.context.showError(error);
      }
    });
    return button;
  }
}

/** @param {AuditRecord} record */
function renderRecord(record) {
  const details = Object.entries(record.details ?? {}).map(([name, value]) => `${name} ${value ?? "none"}`);
  return h(
    "tr",
    {},
    h("td", {}, renderTime(record.at)),
    h("td", {}, record.actor ?? "no key"),
    h(
      "td",
      {},
      h("span", { class: "tag" }, record.action),
      details.length ? ` ${truncate(details.join(", "), 2 * MAX_SUBJECT)}` : null,
    ),
    h("td", {}, record.dataset),
    h("td", { title: record.subject }, truncate(record.subject ?? "", MAX_SUBJECT)),
    h("td", { title: record.request_id ? `Request ${record.request_id}` : null }, describeOrigin(record)),
  );
}

/** @param {AuditRecord} record */
function describeOrigin({ via, actor_kind: kind }) {
  if (via === "command") return "command";
  return `REST, ${kind === "user" ? "single sign-on" : kind === "key" ? "key" : "no key"}`;
}

/** @param {KeyInfo[]} keys */
function renderKeys(keys) {
  const rows = keys.map((key) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, key.name),
      h("td", {}, key.role),
      h("td", {}, key.datasets?.join(", ") ?? "all"),
      h("td", {}, key.source === "settings" ? "LABELWATCH_API_KEYS" : renderChange(key.created_at, key.created_by)),
      h("td", {}, key.revoked_at ? renderChange(key.revoked_at, key.revoked_by) : "no"),
    ),
  );
  return h(
    "section",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, pluralize(keys.length, "key")),
    h(
      "p",
      { class: "note" },
      renderInlineCode("Nobody can see the keys themselves. `labelwatch key` creates, rotates and revokes them."),
    ),
    keys.length
      ? renderTable("Keys", ["Name", "Role", "Datasets", "Created", "Revoked"], h("tbody", {}, rows))
      : h("p", { class: "empty" }, "There are none: everybody who reaches the service may do everything."),
  );
}

/** @param {string | null} at @param {string | null} by @returns {Child[]} */
const renderChange = (at, by) => [at ? renderTime(at) : "unknown", by ? ` by ${by}` : null];
