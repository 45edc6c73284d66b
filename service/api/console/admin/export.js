/** The export of a dataset as a file. */

import { ApiError } from "../api.js";
import { h, renderCommand, showToast } from "../dom.js";
import { AdminPage, fetchDatasetNames, listOptions, renderField, renderNoDataset, renderSelect } from "./page.js";

/** @import { Api } from "../api.js" */
/** @import { PageContext } from "./page.js" */

/** @type {readonly (readonly [string, string, Record<string, string>])[]} */
const CHOICES = [
  ["corrected", "All sentences, with the corrections of reviewers", { decisions: "true" }],
  ["decided", "Only sentences with a decision, corrected", { decisions: "true", decided_only: "true" }],
  ["given", "All sentences as they were given", {}],
];

export class ExportView extends AdminPage {
  /** @param {Api} api @param {PageContext} context */
  constructor(api, context) {
    super(api, context, {
      name: "export",
      title: "Export",
      note: "The sentences of a dataset, each in its newest revision, as a file that annotation platforms and training scripts read.",
    });
    /** @type {string[]} */
    this.formats = [];
  }

  /** @override @param {URLSearchParams} query */
  async load(query) {
    const names = await fetchDatasetNames(this.api);
    if (!this.formats.length) {
      const { parameters } = (await this.api.get("openapi.json")).paths["/v1/export"].get;
      this.formats = parameters.find((/** @type {{ name: string }} */ each) => each.name === "format").schema.enum;
    }
    if (this.isCurrent(query)) this.draw(names, query.get("dataset") || (names[0] ?? ""));
  }

  /** @param {string[]} names @param {string} chosen */
  draw(names, chosen) {
    if (!names.length) {
      this.body.replaceChildren(renderNoDataset());
      return;
    }
    const dataset = renderSelect("export-dataset", listOptions(names), chosen);
    const format = renderSelect("export-format", listOptions(this.formats), "jsonl");
    const items = renderSelect(
      "export-items",
      CHOICES.map(([value, text]) => [value, text]),
      "corrected",
    );
    const reviewer = /** @type {HTMLInputElement} */ (
      h("input", { id: "export-reviewer", maxlength: 128, autocomplete: "off" })
    );
    const command = h("div", {});
    const problem = h("p", { class: "wrong", role: "alert" });
    const button = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", class: "primary" }, "Download"));
    const buildQuery = () => {
      const [, , options] = CHOICES.find(([value]) => value === items.value) ?? CHOICES[0];
      /** @type {Record<string, string>} */
      const who = options.decisions && reviewer.value.trim() ? { reviewer: reviewer.value.trim() } : {};
      return new URLSearchParams({ dataset: dataset.value, format: format.value, ...options, ...who });
    };
    const update = () => {
      reviewer.disabled = items.value === "given";
      command.replaceChildren(renderCommand(`curl -OJ '${location.origin}/v1/export?${buildQuery()}'`));
    };
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      problem.textContent = "";
      button.disabled = true;
      try {
        await this.download(buildQuery());
      } catch (error) {
        if (error instanceof ApiError && [404, 422, 503].includes(error.status)) problem.textContent = error.message;
        else this.context.showError(error);
      } finally {
        button.disabled = false;
      }
    };
    const form = h(
      "form",
      { class: "settings", on: { submit, input: update } },
      renderField(dataset.id, "Dataset", dataset),
      renderField(format.id, "Format", format),
      renderField(items.id, "Sentences", items),
      renderField(reviewer.id, "Only decisions of this reviewer", reviewer),
      problem,
      h("div", { class: "row" }, button),
      h(
        "p",
        { class: "note" },
        "Or with a command. In CSV, cells that a spreadsheet would run as a formula begin with an apostrophe.",
      ),
      command,
    );
    update();
    this.body.replaceChildren(form);
  }

  /** @param {URLSearchParams} query */
  async download(query) {
    const response = await this.api.fetch(`v1/export?${query}`);
    const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "export";
    const url = URL.createObjectURL(await response.blob());
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    showToast(`${name} is downloaded.`);
  }
}
