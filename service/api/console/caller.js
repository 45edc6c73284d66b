/** Who uses the console, and what they may do: the answer of GET /v1/me. */

import { askOtherKey, getReviewer } from "./dialogs.js";
import { h } from "./dom.js";

/** @import { Api } from "./api.js" */
/** @typedef {{ name: string | null, role: string, datasets: string[] | null, may: string[] }} Me */

export class Caller {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Me} */
    this.me = { name: null, role: "admin", datasets: null, may: ["read", "decide"] };
  }

  /** Asks the service. It asks for a key first, if the service needs one. */
  async load() {
    this.me = await this.api.get("v1/me");
  }

  /** Whether the service knows the caller's name: without keys it does not, and the console asks for one. */
  get isNamed() {
    return this.me.name !== null;
  }

  /** The name that decisions are saved with; empty if it is not known yet. */
  get reviewer() {
    return this.me.name ?? getReviewer();
  }

  /** @param {string} action */
  may(action) {
    return this.me.may.includes(action);
  }

  async changeKey() {
    const key = await askOtherKey();
    if (key) this.api.setKey(key);
  }

  /** What a banner says to a caller who may not review; nothing if they may. */
  renderLimits() {
    if (this.may("decide")) return [];
    const text = this.may("read")
      ? [h("b", {}, "Read only. "), "Your key can read everything but can't save decisions. "]
      : [h("b", {}, "No access to the queue. "), "Your key has the role ", h("code", {}, this.me.role), ". "];
    return [
      ...text,
      "To review, use a key with the role ",
      h("code", {}, "reviewer"),
      ". ",
      h("button", { type: "button", class: "plain small", on: { click: () => this.changeKey() } }, "Use another key"),
    ];
  }
}
