/** Decisions on their way: sent in order, and kept while the service can't take them. */

import { ApiError, Unreachable } from "../api.js";

/** @import { Decision } from "../types.js" */
/** @import { Api } from "../api.js" */

/** @typedef {{ decision: Decision, told: string, tried: boolean, kept: boolean }} Waiting `told`: its words, for messages */
/** @typedef {"sent" | "kept"} Outcome */

const KEPT = "labelwatch.unsent";
const SOON = 1000;
const LATEST = 5000;
const PASSING = new Set([408, 425, 429, 502, 503, 504]);

/** Whether the same call may be taken later: the service is away, starting or has too much to do. @param {unknown} error */
export const passes = (error) =>
  error instanceof Unreachable || (error instanceof ApiError && PASSING.has(error.status));

export class Outbox {
  /**
   * @param {Api} api
   * @param {{ changed: () => void, sent: (one: Waiting) => void, refused: (one: Waiting, error: Error) => void }} told of those
   *   that had to wait: `refused` for good
   */
  constructor(api, told) {
    this.api = api;
    this.told = told;
    /** @type {Waiting[]} */
    this.line = read();
    this.pause = SOON;
    this.timer = 0;
    this.busy = false;
    // A reload keeps them, closing the tab would not.
    window.addEventListener("beforeunload", (event) => {
      if (this.waiting.length) event.preventDefault();
    });
    if (this.line.length) this.timer = setTimeout(() => this.again(), 0);
  }

  /** Those that could not be sent yet, oldest first. */
  get waiting() {
    return this.line.filter((one) => one.kept);
  }

  /**
   * Sends it after all that wait. Kept where the service can't take it now; refused for good it throws.
   * @param {Decision} decision
   * @param {string} told
   * @returns {Promise<Outcome>}
   */
  async send(decision, told) {
    const one = { decision, told, tried: false, kept: false };
    if (this.line.length) return this.keep(one);
    this.line.push(one);
    this.busy = true;
    one.tried = true;
    try {
      await this.api.post("v1/decisions", decision);
      this.line.shift();
      return "sent";
    } catch (error) {
      if (passes(error)) return this.keep(one);
      this.line.shift();
      throw error;
    } finally {
      this.busy = false;
      if (this.line[0] === one) this.later();
      else this.again(); // others may have come behind it meanwhile
    }
  }

  /** @param {Waiting} one @returns {Outcome} */
  keep(one) {
    one.kept = true;
    if (!this.line.includes(one)) this.line.push(one);
    this.changed();
    return "kept";
  }

  /** Forgets one that was never sent: false where it may have arrived. @param {Decision} decision */
  drop(decision) {
    const place = this.line.findIndex((one) => one.decision === decision && !one.tried);
    if (place < 0) return false;
    this.line.splice(place, 1);
    this.changed();
    return true;
  }

  /** The service may be back. */
  async again() {
    if (this.busy || !this.line.length) return;
    clearTimeout(this.timer);
    this.busy = true;
    try {
      while (this.line.length) {
        const [one] = this.line;
        one.tried = true;
        try {
          await this.api.post("v1/decisions", one.decision);
          this.leave(one);
          this.told.sent(one);
        } catch (error) {
          if (passes(error)) break;
          this.leave(one);
          this.told.refused(one, /** @type {Error} */ (error));
        }
        this.pause = SOON;
      }
    } finally {
      this.busy = false;
      if (this.line.length) this.later();
    }
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.again(), this.pause);
    this.pause = Math.min(2 * this.pause, LATEST);
  }

  /** @param {Waiting} one */
  leave(one) {
    this.line = this.line.filter((other) => other !== one);
    this.changed();
  }

  changed() {
    if (this.waiting.length) sessionStorage.setItem(KEPT, JSON.stringify(this.waiting));
    else sessionStorage.removeItem(KEPT);
    this.told.changed();
  }
}

/** @returns {Waiting[]} */
function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  } catch {
    return [];
  }
}
