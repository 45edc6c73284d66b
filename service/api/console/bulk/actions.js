/** The reviewer's selection in the list, and the decisions about it or about all that matches the filters. */

import { h, showToast } from "../dom.js";
import { getItemKey } from "../queue/review.js";
import { pluralize } from "../text.js";
import { Bulk } from "./bulk.js";
import { BulkDialog } from "./dialog.js";

/** @import { Decision, Item } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { QueueView } from "../queue/queue.js" */
/** @import { Plan, Target } from "./bulk.js" */

export class BulkActions {
  /** @param {Api} api @param {QueueView} view */
  constructor(api, view) {
    this.view = view;
    this.bulk = new Bulk(api);
    /** @type {Map<string, { dataset: string, id: string, revision: number }>} selected items by key */
    this.selection = new Map();
    this.count = h("span", { class: "selected-count" });
    this.clearButton = h(
      "button",
      { type: "button", class: "plain small", on: { click: () => this.clear() } },
      "Clear selection",
    );
    this.openButton = h(
      "button",
      {
        type: "button",
        class: "plain small",
        "aria-keyshortcuts": "b",
        "aria-haspopup": "dialog",
        on: { click: () => this.open() },
      },
      "Decide about many",
      h("kbd", { "aria-hidden": "true" }, "b"),
    );
    this.element = h("div", { class: "bulk-bar" }, this.openButton, this.count, this.clearButton);
    this.show();
  }

  /** @param {Item} item */
  isSelected(item) {
    return this.selection.get(getItemKey(item))?.revision === item.revision;
  }

  /** @param {Item} item */
  toggle(item) {
    const { dataset, id, revision } = item;
    if (this.isSelected(item)) this.selection.delete(getItemKey(item));
    else this.selection.set(getItemKey(item), { dataset, id, revision });
    this.show();
  }

  clear() {
    this.selection.clear();
    this.show();
    this.view.redraw();
  }

  show() {
    const { size } = this.selection;
    this.element.hidden = !this.view.context.mayWrite() || !this.view.loaded?.items.length;
    this.count.textContent = size ? `${size} selected` : "";
    this.clearButton.hidden = !size;
  }

  /** Opens the dialog: about the selection if there is one, and about all that matches the filters. */
  async open() {
    const reviewer = await this.view.deciding.requireReviewer();
    if (!reviewer || !this.view.loaded.items.length) return;
    const { reviewer: _reviewer, viewer: _viewer, ...query } = this.view.loaded.query;
    const filter = Object.fromEntries(Object.entries(query).filter(([, value]) => value));
    /** @type {{ name: string, target: Target }[]} */
    const choices = [{ name: "All that match the filters", target: { filter } }];
    if (this.selection.size) {
      choices.unshift({
        name: pluralize(this.selection.size, "selected sentence"),
        target: { items: [...this.selection.values()] },
      });
    }
    const schemes = await this.view.schemes.getAll(this.view.loaded.items.map(({ dataset }) => dataset));
    const fallback = Object.values(schemes)[0];
    new BulkDialog(this.bulk, choices, {
      reviewer,
      findPalette: (dataset) => (schemes[dataset] ?? fallback).palette,
      onApply: (plan, dialog) => this.apply(plan, dialog),
      onError: (error) => this.view.context.showError(error),
    });
  }

  /** @param {Plan} plan @param {BulkDialog} dialog */
  async apply({ planned }, dialog) {
    const decisions = planned.map(({ decision }) => decision);
    const leftOut = await this.bulk.apply(decisions, (done, total) => dialog.showProgress(done, total));
    const { undoable } = this.bulk;
    this.showDecisions(undoable);
    const { loaded } = this.view;
    const isOpenDecided = undoable.some((decision) => getItemKey(decision) === loaded.selected);
    if (isOpenDecided) loaded.selected = null;
    this.selection.clear();
    this.show();
    showToast(
      `Decided: ${pluralize(undoable.length, "sentence")}.${leftOut.length ? ` ${leftOut.length} had changed meanwhile and were left out.` : ""}`,
      { action: { name: "Undo", run: () => this.undo() } },
    );
    if (isOpenDecided) await this.view.showNext();
    else await this.view.refresh();
  }

  /** Undoes the last decisions about many. Returns whether there are any. */
  undo() {
    if (!this.bulk.undoable.length) return false;
    this.withdraw().catch((error) => this.view.context.showError(error));
    return true;
  }

  async withdraw() {
    const { withdrawn, leftOut } = await this.bulk.undo(() => {});
    this.showDecisions(withdrawn);
    showToast(
      `Undone: ${pluralize(withdrawn.length, "decision")}.${leftOut.length ? ` ${leftOut.length} had changed meanwhile and stay.` : ""}`,
    );
    await this.view.refresh();
  }

  /** The list shows them before the queue has read them. @param {Decision[]} decisions */
  showDecisions(decisions) {
    for (const decision of decisions) this.view.decisions.markUnconfirmed(decision);
    this.view.loaded.applyDecisions();
  }
}
