/** The settings and the label set of a dataset: shown with their meaning, previewed and saved. */

import { ApiError } from "../api.js";
import { h, showToast } from "../dom.js";
import { AdminPage, fetchDatasetNames, listOptions, renderButton, renderEffects, renderNoDataset } from "./page.js";
import { renderSetting, SKIPPED } from "./settings_form.js";

/** @import { Api } from "../api.js" */
/** @import { Effect, PageContext } from "./page.js" */
/** @import { Control, Schema } from "./settings_form.js" */

/** @typedef {Record<string, unknown> & { version: number, effects?: Effect[] }} Settings */

export class SettingsView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "settings",
      title: "Settings",
      note: "How a dataset is judged. Every process follows a change within seconds, and each assessment names the version it was made with.",
    });
    this.dataset = "";
    /** @type {Record<string, Schema>} */
    this.schema = {};
    /** @type {Settings} */
    this.settings = { version: 0 };
    /** @type {Control[]} */
    this.controls = [];
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const names = await fetchDatasetNames(this.api);
    if (!Object.keys(this.schema).length) {
      const document = await this.api.get("openapi.json");
      this.schema = document.components.schemas.DatasetSettings.properties;
    }
    if (!this.isCurrent(query)) return;
    this.dataset = query.get("dataset") || (names.includes("default") ? "default" : (names[0] ?? ""));
    this.tools.replaceChildren(this.renderChoice("dataset", "Dataset", listOptions(names), this.dataset));
    if (this.dataset) await this.loadSettings({});
    else this.body.replaceChildren(renderNoDataset());
  }

  get path() {
    return `v1/datasets/${encodeURIComponent(this.dataset)}`;
  }

  /** Reads the settings again. @param {Record<string, unknown>} edited values that stay as the user has edited them */
  async loadSettings(edited) {
    const { query } = this;
    const settings = /** @type {Settings} */ (await this.api.get(this.path));
    if (!this.isCurrent(query)) return;
    this.settings = settings;
    this.controls = Object.entries(this.schema)
      .filter(([name]) => !SKIPPED.includes(name))
      .map(([name, schema]) => renderSetting(name, schema, name in edited ? edited[name] : this.settings[name]));
    const mayChange = this.context.may("change_settings");
    this.status = h("div", { class: "status", role: "status" });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.send(false);
    };
    this.body.replaceChildren(
      h(
        "form",
        { class: "settings", novalidate: true, on: { submit } },
        h("h2", {}, this.dataset, h("span", { class: "muted" }, ` version ${this.settings.version}`)),
        ...(mayChange ? [] : [h("p", { class: "notice" }, "Your key can read the settings and not change them.")]),
        ...this.controls.map(({ element }) => element),
        ...(mayChange ? [this.renderImport()] : []),
        this.status,
        mayChange
          ? h(
              "div",
              { class: "row wrap sticky" },
              h("button", { type: "submit", class: "primary" }, "Save"),
              renderButton("Preview", () => this.send(true)),
            )
          : null,
      ),
    );
    if (!mayChange) for (const { control } of this.controls) control.setAttribute("disabled", "");
  }

  /** The settings that differ from those in force, as a merge patch. */
  readChanges() {
    /** @type {Record<string, unknown>} */
    const changes = {};
    for (const { name, read } of this.controls) {
      const value = read();
      if (JSON.stringify(value) === JSON.stringify(this.settings[name])) continue;
      changes[name] = value;
      if (name === "label_map") {
        const removed = Object.keys(/** @type {object} */ (this.settings.label_map)).filter(
          (label) => !(label in /** @type {object} */ (value)),
        );
        changes[name] = {
          .../** @type {object} */ (value),
          ...Object.fromEntries(removed.map((label) => [label, null])),
        };
      }
    }
    return changes;
  }

  /** @param {boolean} isPreview */
  async send(isPreview) {
    for (const { error, control } of this.controls) {
      error.textContent = "";
      control.removeAttribute("aria-invalid");
    }
    const changes = this.readChanges();
    if (!Object.keys(changes).length) {
      this.setStatus(h("p", { class: "note" }, "Nothing is changed."));
      return;
    }
    try {
      const answer = /** @type {Settings} */ (
        await this.api.call(`${this.path}${isPreview ? "?dry_run=true" : ""}`, {
          method: "PATCH",
          body: JSON.stringify(changes),
          headers: { "Content-Type": "application/json", "If-Match": `"${this.settings.version}"` },
        })
      );
      if (!isPreview) await this.loadSettings({});
      this.setStatus(
        h(
          "h3",
          {},
          isPreview ? `Saving changes ${Object.keys(changes).join(", ")}` : `Version ${answer.version} is saved`,
        ),
        renderEffects(answer.effects ?? []),
      );
      if (!isPreview) showToast("The settings are saved.");
    } catch (error) {
      this.showProblem(error, changes);
    }
  }

  /** @param {unknown} error @param {Record<string, unknown>} changes */
  showProblem(error, changes) {
    if (!(error instanceof ApiError) || ![409, 412, 422].includes(error.status)) {
      this.context.showError(error);
      return;
    }
    if (error.status !== 422) {
      this.setStatus(
        h("p", { class: "wrong" }, `Somebody else has changed the settings meanwhile: ${error.message}.`),
        renderButton("Load their settings and keep my changes", () =>
          this.loadSettings(changes).catch(this.context.showError),
        ),
      );
      return;
    }
    const name = (error.field ?? "").split(".")[0];
    const control = this.controls.find((each) => each.name === name);
    if (!control) {
      this.setStatus(h("p", { class: "wrong" }, error.message));
      return;
    }
    control.error.textContent = error.message;
    control.control.setAttribute("aria-invalid", "true");
    control.control.focus();
    this.setStatus(h("p", { class: "wrong" }, `Not saved: correct ${name}.`));
  }

  /** @param {...HTMLElement} parts */
  setStatus(...parts) {
    this.status?.replaceChildren(...parts);
  }

  /** Fills the label set from a labelling interface. It is saved with the other settings. */
  renderImport() {
    const area = /** @type {HTMLTextAreaElement} */ (
      h("textarea", { id: "label-import", rows: 4, spellcheck: "false" })
    );
    const error = h("p", { class: "wrong", role: "alert" });
    const read = async () => {
      error.textContent = "";
      const isXml = area.value.trim().startsWith("<");
      try {
        const answer = await this.api.call(`${this.path}/label-set?dry_run=true`, {
          method: "PUT",
          body: area.value,
          headers: { "Content-Type": isXml ? "application/xml" : "application/json" },
        });
        const control = this.controls.find(({ name }) => name === "label_set")?.control;
        if (control instanceof HTMLTextAreaElement) {
          control.value = answer.label_set.join("\n");
          control.focus();
        }
        showToast("The label set is filled in. Save it, or preview what it means.");
      } catch (problem) {
        if (problem instanceof ApiError && problem.status < 500) error.textContent = problem.message;
        else this.context.showError(problem);
      }
    };
    return h(
      "details",
      {},
      h("summary", {}, "Take the label set from Label Studio or Argilla"),
      h("label", { for: "label-import", class: "block" }, "Labelling interface (XML), project or question (JSON)"),
      area,
      error,
      renderButton("Fill in the label set", read),
    );
  }
}
