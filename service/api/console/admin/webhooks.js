/** Outgoing webhooks: endpoints with their state, a form for a new one, and notifications that failed. */

import { ApiError } from "../api.js";
import { clearToasts, h, renderCommand, renderInlineCode, showToast } from "../dom.js";
import { formatCount, pluralize, truncate } from "../text.js";
import {
  AdminPage,
  fetchDatasetNames,
  listOptions,
  renderButton,
  renderField,
  renderSelect,
  renderTable,
  renderTime,
} from "./page.js";

/** @import { Api } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { PageContext } from "./page.js" */

/**
 * @typedef {{ failing_since: string | null, last_error: string | null, disabled_at: string | null,
 *   last_delivered_at: string | null }} Status
 * @typedef {{ id: string, url: string, events: string[], datasets: string[], body: string, paused: boolean,
 *   created_at: string, status: Status, pending: number, failed: number }} Endpoint
 * @typedef {{ id: string, type: string, timestamp: string, data: Record<string, unknown>, attempts: number,
 *   last_error: string | null, failed_at: string }} FailedNotification
 */

const PATH = "v1/webhook-endpoints";
const EVENTS = /** @type {const} */ ([
  ["items.flagged", "New items in review, as a digest"],
  ["item.decided", "Decisions"],
  ["dataset.misfit", "A model that does not fit"],
  ["dataset.model_replaced", "A model that is replaced"],
  ["batch.verdict", "Verdicts on deliveries"],
]);
const COLUMNS = ["Address", "Events", "Datasets", "State", "Last delivery", "Waiting", "Failed", "Actions"];
const MAX_DATA = 160;

export class WebhooksView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "webhooks",
      title: "Webhooks",
      note: "Notifications that the service sends to other systems, signed as Standard Webhooks.",
    });
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    let endpoints;
    try {
      endpoints = /** @type {Endpoint[]} */ ((await this.api.get(PATH)).endpoints);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      this.body.replaceChildren(h("p", { class: "empty" }, renderInlineCode(`Not available: ${error.message}.`)));
      return;
    }
    const chosen = endpoints.find(({ id }) => id === query.get("failed"));
    const [names, failed] = await Promise.all([
      fetchDatasetNames(this.api),
      chosen ? this.api.get(`${PATH}/${chosen.id}/failed`) : null,
    ]);
    if (!this.isCurrent(query)) return;
    this.body.replaceChildren(
      this.renderEndpoints(endpoints),
      ...(chosen ? [this.renderFailed(chosen, failed.notifications)] : []),
      this.renderForm(names),
    );
  }

  /** Does something and draws the page again. @param {() => Promise<string | null>} run returns what to say */
  async act(run) {
    clearToasts();
    try {
      const text = await run();
      await this.load(this.query);
      if (text) showToast(text);
    } catch (error) {
      this.context.showError(error);
    }
  }

  // -- endpoints -------------------------------------------------------------------------------------------------------

  /** @param {Endpoint[]} endpoints */
  renderEndpoints(endpoints) {
    const rows = h(
      "tbody",
      {},
      endpoints.map((endpoint) => this.renderEndpoint(endpoint)),
    );
    return h(
      "section",
      { "aria-labelledby": "endpoints-title" },
      h("h2", { id: "endpoints-title" }, pluralize(endpoints.length, "endpoint")),
      endpoints.length
        ? renderTable("Endpoints", COLUMNS, rows)
        : h("p", { class: "empty" }, "Nothing is sent anywhere yet."),
    );
  }

  /** @param {Endpoint} endpoint */
  renderEndpoint(endpoint) {
    const { id, url, events, datasets, body, status, pending, failed } = endpoint;
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: url }, truncate(url, 60), h("br", {}), h("code", {}, id)),
      h("td", {}, events.length === EVENTS.length ? "all" : events.join(", "), body === "slack" ? " (Slack)" : null),
      h("td", {}, datasets.join(", ") || "all"),
      h("td", {}, renderState(endpoint)),
      h("td", {}, status.last_delivered_at ? renderTime(status.last_delivered_at) : "none yet"),
      h("td", {}, formatCount(pending)),
      h("td", {}, failed ? h("a", { href: `#/webhooks?failed=${id}` }, formatCount(failed)) : "0"),
      h("td", {}, h("div", { class: "row" }, this.renderActions(endpoint))),
    );
  }

  /** @param {Endpoint} endpoint @returns {HTMLElement[]} */
  renderActions({ id, url, paused, status }) {
    const path = `${PATH}/${id}`;
    /** @param {string} text @param {() => unknown} run */
    const button = (text, run) => {
      const element = renderButton(text, run, "small");
      element.setAttribute("aria-label", `${text} ${url}`);
      return element;
    };
    const test = async () => {
      const { delivered, status: code, problem } = await this.api.post(`${path}/test`, {});
      if (!delivered) throw new Error(`The test was not delivered: ${problem}`);
      return `The test was delivered: the receiver answered ${code}.`;
    };
    const pause = async () => {
      await this.api.fetch(path, {
        method: "PATCH",
        body: JSON.stringify({ paused: !paused }),
        headers: { "Content-Type": "application/json" },
      });
      return paused ? "Resumed: what waited is sent now." : "Paused: notifications wait.";
    };
    const enable = async () => {
      await this.api.post(`${path}/retry`, {});
      return "Enabled: everything that waits or failed is sent again.";
    };
    const remove = async () => {
      await this.api.fetch(path, { method: "DELETE" });
      if (this.query.get("failed") === id) this.go({ failed: "" });
      return "Deleted.";
    };
    const askToRemove = () =>
      showToast(`Delete ${truncate(url, 60)}? What waits for it and what failed is dropped.`, {
        lasting: true,
        action: { name: "Delete", run: () => void this.act(remove) },
      });
    return [
      button("Test", () => this.act(test)),
      ...(status.disabled_at ? [button("Enable", () => this.act(enable))] : []),
      button(paused ? "Resume" : "Pause", () => this.act(pause)),
      button("Delete", askToRemove),
    ];
  }

  // -- failed notifications --------------------------------------------------------------------------------------------

  /** @param {Endpoint} endpoint @param {FailedNotification[]} failed */
  renderFailed({ id, url, failed: total }, failed) {
    const retry = async () => {
      const { notifications } = await this.api.post(`${PATH}/${id}/retry`, {});
      return `${pluralize(notifications, "notification is", "notifications are")} sent again.`;
    };
    const rows = failed.map((each) =>
      h(
        "tr",
        {},
        h("td", {}, renderTime(each.failed_at)),
        h("td", {}, each.type),
        h("td", {}, truncate(JSON.stringify(each.data), MAX_DATA)),
        h("td", {}, formatCount(each.attempts)),
        h("td", {}, each.last_error),
      ),
    );
    return h(
      "section",
      { "aria-labelledby": "failed-title" },
      h("h2", { id: "failed-title" }, `Failed: ${truncate(url, 60)}`),
      failed.length
        ? [
            h("p", { class: "note" }, `${pluralize(total, "notification")}; the last ${failed.length} are shown.`),
            renderTable(
              "Failed notifications",
              ["Failed", "Event", "Data", "Attempts", "Problem"],
              h("tbody", {}, rows),
            ),
            h(
              "div",
              { class: "row" },
              renderButton("Send all again", () => this.act(retry), "primary"),
            ),
          ]
        : h("p", { class: "empty" }, "No notification has failed."),
    );
  }

  // -- a new endpoint --------------------------------------------------------------------------------------------------

  /** @param {string[]} names of datasets */
  renderForm(names) {
    const url = /** @type {HTMLInputElement} */ (
      h("input", { id: "webhook-url", type: "url", required: true, maxlength: 2048, placeholder: "https://", size: 48 })
    );
    const boxes = EVENTS.map(
      ([name]) => /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", value: name, checked: true })),
    );
    const dataset = renderSelect("webhook-dataset", [["", "All"], ...listOptions(names)], "");
    const body = renderSelect(
      "webhook-body",
      [
        ["standard", "Standard Webhooks"],
        ["slack", "Slack"],
      ],
      "standard",
    );
    const problem = h("p", { class: "wrong", role: "alert" });
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      problem.textContent = "";
      const events = boxes.filter((box) => box.checked).map((box) => box.value);
      try {
        const added = await this.api.post(PATH, {
          url: url.value.trim(),
          events,
          body: body.value,
          ...(dataset.value ? { datasets: [dataset.value] } : {}),
        });
        await this.load(this.query);
        this.body.prepend(renderSecret(added.secret));
        this.body.querySelector("code")?.focus();
      } catch (error) {
        if (error instanceof ApiError && [409, 422].includes(error.status)) problem.textContent = error.message;
        else this.context.showError(error);
      }
    };
    return h(
      "section",
      { "aria-labelledby": "new-title" },
      h("h2", { id: "new-title" }, "New endpoint"),
      h(
        "form",
        { class: "settings", on: { submit } },
        renderField(url.id, "Address", url),
        h(
          "fieldset",
          {},
          h("legend", {}, "Events"),
          EVENTS.map(([, text], index) => h("label", { class: "row" }, boxes[index], text)),
        ),
        renderField(dataset.id, "Dataset", dataset),
        renderField(body.id, "Body", body),
        problem,
        h("div", { class: "row" }, h("button", { class: "primary" }, "Add")),
      ),
    );
  }
}

/** @param {string} secret */
const renderSecret = (secret) =>
  h(
    "section",
    { "aria-labelledby": "secret-title" },
    h("h2", { id: "secret-title" }, "The secret of the new endpoint"),
    h("p", { class: "note" }, "Give it to the receiver, which checks signatures with it. It is not shown again."),
    renderCommand(secret),
  );

/** @param {Endpoint} endpoint @returns {Child[]} */
function renderState({ paused, status }) {
  const { disabled_at: disabled, failing_since: failing, last_error: problem } = status;
  const state = disabled ? "disabled" : paused ? "paused" : failing ? "failing" : "ok";
  const since = disabled ?? failing;
  return [
    h("span", { class: since ? "tag wrong" : "tag" }, state),
    ...(since ? [" since ", renderTime(since), `: ${problem}`] : []),
  ];
}
