/** The dialog for decisions about many items: what they are about, what to decide, the preview, and the progress. */

import { openDialog } from "../dialogs.js";
import { h } from "../dom.js";
import { pluralize } from "../text.js";
import { renderPlan } from "./preview.js";

/** @import { BulkAction } from "../types.js" */
/** @import { Palette } from "../labels/colours.js" */
/** @import { Bulk, Plan, Target } from "./bulk.js" */

/** @type {readonly [BulkAction, string, string][]} */
const ACTIONS = [
  ["accept", "Accept", "All suggested labels are right. They become the correction."],
  ["ok", "OK", "The given labels are right."],
  ["unsure", "Unsure", "Come back to them later."],
];

export class BulkDialog {
  /**
   * @param {Bulk} bulk
   * @param {{ name: string, target: Target }[]} choices what the decision may be about; the first is chosen
   * @param {{ reviewer: string, action?: BulkAction, findPalette: (dataset: string) => Palette,
   *   onApply: (plan: Plan, dialog: BulkDialog) => Promise<void>, onError: (error: unknown) => void }} context
   */
  constructor(bulk, choices, { reviewer, action = "accept", findPalette, onApply, onError }) {
    this.bulk = bulk;
    this.choices = choices;
    this.reviewer = reviewer;
    this.findPalette = findPalette;
    this.onError = onError;
    this.target = choices[0].target;
    /** @type {BulkAction} */
    this.action = action;
    /** @type {Plan | null} */
    this.plan = null;
    this.planNumber = 0;
    // It scrolls, so it takes the focus.
    this.preview = h("div", {
      class: "bulk-preview",
      role: "region",
      "aria-label": "Preview",
      "aria-live": "polite",
      tabindex: 0,
    });
    this.progress = /** @type {HTMLProgressElement} */ (h("progress", { "aria-label": "Progress", hidden: true }));
    this.applyButton = /** @type {HTMLButtonElement} */ (
      h(
        "button",
        {
          type: "button",
          class: "primary",
          on: { click: () => this.apply(onApply) },
        },
        "Apply",
      )
    );
    this.form = /** @type {HTMLFieldSetElement} */ (
      h(
        "fieldset",
        { class: "bare" },
        choices.length > 1
          ? renderRadios(
              "Sentences",
              choices.map(({ name }, index) => [String(index), name, ""]),
              "0",
              (value) => {
                this.target = choices[Number(value)].target;
                this.load();
              },
            )
          : h("p", { class: "note" }, choices[0].name),
        renderRadios("Decision", ACTIONS, this.action, (value) => {
          this.action = /** @type {BulkAction} */ (value);
          this.load();
        }),
      )
    );
    this.dialog = openDialog(
      h(
        "div",
        { class: "bulk" },
        h("h2", { id: "bulk-title" }, "Decide about many sentences"),
        this.form,
        this.preview,
        this.progress,
        h(
          "div",
          { class: "row end" },
          h("button", { type: "button", class: "plain", on: { click: () => this.dialog.close() } }, "Cancel"),
          this.applyButton,
        ),
      ),
      "bulk-title",
      () => {
        this.planNumber += 1; // a preview that is still being read is not needed any more
      },
    );
    this.dialog.addEventListener("keydown", (event) => {
      const target = /** @type {Element} */ (event.target);
      if (event.key !== "Enter" || event.repeat || target.closest("button, summary, a")) return;
      event.preventDefault();
      this.applyButton.click(); // nothing while it is disabled
    });
    this.load();
  }

  /** Reads the preview of what is chosen. */
  async load() {
    const number = (this.planNumber += 1);
    const isStale = () => number !== this.planNumber;
    this.plan = null;
    this.applyButton.disabled = true;
    this.applyButton.textContent = "Apply";
    this.preview.replaceChildren(h("p", { class: "note" }, "Reading the sentences…"));
    try {
      const plan = await this.bulk.plan(
        this.target,
        this.action,
        this.reviewer,
        (done, total) => !isStale() && this.showProgress(done, total),
        isStale,
      );
      if (isStale()) return;
      this.plan = plan;
      this.preview.replaceChildren(...renderPlan(plan, this.action, this.findPalette));
      this.applyButton.disabled = !plan.planned.length;
      this.applyButton.textContent = plan.planned.length
        ? `Apply to ${pluralize(plan.planned.length, "sentence")}`
        : "Apply";
    } catch (error) {
      if (isStale()) return;
      this.preview.replaceChildren(h("p", { class: "wrong" }, error instanceof Error ? error.message : String(error)));
    } finally {
      if (!isStale()) this.progress.hidden = true;
    }
  }

  /** @param {(plan: Plan, dialog: BulkDialog) => Promise<void>} onApply */
  async apply(onApply) {
    if (!this.plan) return;
    this.applyButton.disabled = true;
    this.form.disabled = true;
    try {
      await onApply(this.plan, this);
      this.dialog.close();
    } catch (error) {
      this.form.disabled = false;
      this.applyButton.disabled = false; // the same decisions may be sent again
      this.applyButton.textContent = "Try again";
      this.onError(error);
    }
  }

  /** @param {number} done @param {number} total */
  showProgress(done, total) {
    this.progress.hidden = total <= done && done < 200;
    this.progress.max = total;
    this.progress.value = done;
  }
}

/**
 * @param {string} legend
 * @param {readonly (readonly [string, string, string])[]} options value, name and explanation
 * @param {string} chosen
 * @param {(value: string) => void} onChange
 */
function renderRadios(legend, options, chosen, onChange) {
  const name = `bulk-${legend.toLowerCase()}`;
  return h(
    "fieldset",
    { class: "radios" },
    h("legend", {}, legend),
    options.map(([value, title, explanation]) =>
      h(
        "label",
        { class: "radio" },
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === chosen,
          on: { change: () => onChange(value) },
        }),
        h("span", {}, h("b", {}, title), explanation ? h("span", { class: "muted" }, ` ${explanation}`) : null),
      ),
    ),
  );
}
