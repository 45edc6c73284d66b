/** The day's progress above the queue: decisions of the reviewer and of all, what is left, and unsure sentences. */

import { h } from "../dom.js";
import { formatCount, pluralize } from "../text.js";
import { buildQueueHash } from "./filters.js";

/** @import { Progress } from "../types.js" */
/** @import { Api } from "../api.js" */

export class ProgressLine {
  /** @param {Api} api @param {() => string} getReviewer */
  constructor(api, getReviewer) {
    this.api = api;
    this.getReviewer = getReviewer;
    this.element = h("p", { class: "progress-line", role: "group", "aria-label": "Progress of today", hidden: true });
    this.shown = "";
    this.requestNumber = 0;
  }

  /** @param {string} dataset empty: all */
  async load(dataset) {
    const number = (this.requestNumber += 1);
    const midnight = new Date();
    midnight.setHours(0, 0, 0, 0);
    const reviewer = this.getReviewer();
    /** @type {Progress} */
    const progress = await this.api.get("v1/review/progress", { dataset, reviewer, since: midnight.toISOString() });
    if (number === this.requestNumber) this.show(progress, dataset);
  }

  /** @param {Progress} progress @param {string} dataset */
  show(progress, dataset) {
    const text = JSON.stringify([progress, dataset]);
    if (text === this.shown) return; // the reviewer may have the focus on the link
    this.shown = text;
    const { decided, decided_by_reviewer: own, last_hour: lastHour, open, unsure } = progress;
    this.element.hidden = !decided && !open && !unsure;
    this.element.replaceChildren(
      h(
        "span",
        {},
        h("b", {}, "Today"),
        own === null
          ? ` ${formatCount(decided)} decided`
          : ` ${formatCount(own)} by you, ${formatCount(decided)} by all`,
      ),
      h("span", {}, `${pluralize(lastHour, "decision")} in the last hour`),
      h("span", {}, `${formatCount(open)} open`),
      ...(unsure
        ? [
            h(
              "a",
              { href: buildQueueHash({ dataset, state: "decided", verdict: "unsure" }), class: "unsure-link" },
              `${formatCount(unsure)} unsure`,
            ),
          ]
        : []),
    );
  }
}
