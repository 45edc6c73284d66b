/** The outbox: sends decisions in order, and stores them in the tab while the service does not accept them. */

import { ApiError, UnreachableError } from "../api.js";

/** @import { Decision } from "../types.js" */
/** @import { Api } from "../api.js" */

/**
 * @typedef {{ decision: Decision, excerpt: string, wasTried: boolean,
 *   isKept: boolean }} OutboxEntry `excerpt`: words of the sentence, for messages
 */
/** @typedef {"sent" | "kept"} Outcome */

const STORAGE_NAME = "labelwatch.unsent";
const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5000;
const TRANSIENT_STATUSES = new Set([408, 425, 429, 502, 503, 504]);

/**
 * Whether the same request may succeed later: the service is unreachable, starting or overloaded.
 * @param {unknown} error
 */
export const isTransient = (error) =>
  error instanceof UnreachableError || (error instanceof ApiError && TRANSIENT_STATUSES.has(error.status));

export class Outbox {
  /**
   * @param {Api} api
   * @param {{ onChange: () => void, onSent: (entry: OutboxEntry) => void, onRefused: (entry: OutboxEntry,
   *   error: Error) => void }} listeners
   *   called for entries that were not accepted at once
   */
  constructor(api, listeners) {
    this.api = api;
    this.listeners = listeners;
    /** @type {OutboxEntry[]} */
    this.entries = loadEntries();
    this.pauseMs = MIN_PAUSE_MS;
    this.timer = 0;
    this.isSending = false;
    // Entries survive a reload but not a closed tab: the browser asks before it closes the tab.
    window.addEventListener("beforeunload", (event) => {
      if (this.unsent.length) event.preventDefault();
    });
    if (this.entries.length) this.timer = setTimeout(() => this.retry(), 0);
  }

  /** The entries that are not sent yet, oldest first. */
  get unsent() {
    return this.entries.filter((entry) => entry.isKept);
  }

  /**
   * Sends a decision after all unsent ones. Keeps it if the service can't accept it now; throws if it refuses it.
   * @param {Decision} decision
   * @param {string} excerpt
   * @returns {Promise<Outcome>}
   */
  async send(decision, excerpt) {
    const entry = { decision, excerpt, wasTried: false, isKept: false };
    if (this.entries.length) return this.keep(entry);
    this.entries.push(entry);
    this.isSending = true;
    entry.wasTried = true;
    try {
      await this.api.post("v1/decisions", decision);
      this.entries.shift();
      return "sent";
    } catch (error) {
      if (isTransient(error)) return this.keep(entry);
      this.entries.shift();
      throw error;
    } finally {
      this.isSending = false;
      if (this.entries[0] === entry) this.scheduleRetry();
      else this.retry(); // other decisions may have been added meanwhile
    }
  }

  /** @param {OutboxEntry} entry @returns {Outcome} */
  keep(entry) {
    entry.isKept = true;
    if (!this.entries.includes(entry)) this.entries.push(entry);
    this.save();
    return "kept";
  }

  /** Removes a decision that was never sent. Returns false if the service may have it. @param {Decision} decision */
  drop(decision) {
    const index = this.entries.findIndex((entry) => entry.decision === decision && !entry.wasTried);
    if (index < 0) return false;
    this.entries.splice(index, 1);
    this.save();
    return true;
  }

  /** Sends all entries until one fails. */
  async retry() {
    if (this.isSending || !this.entries.length) return;
    clearTimeout(this.timer);
    this.isSending = true;
    try {
      while (this.entries.length) {
        const [entry] = this.entries;
        entry.wasTried = true;
        try {
          await this.api.post("v1/decisions", entry.decision);
          this.remove(entry);
          this.listeners.onSent(entry);
        } catch (error) {
          if (isTransient(error)) break;
          this.remove(entry);
          this.listeners.onRefused(entry, /** @type {Error} */ (error));
        }
        this.pauseMs = MIN_PAUSE_MS;
      }
    } finally {
      this.isSending = false;
      if (this.entries.length) this.scheduleRetry();
    }
  }

  scheduleRetry() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.retry(), this.pauseMs);
    this.pauseMs = Math.min(2 * this.pauseMs, MAX_PAUSE_MS);
  }

  /** @param {OutboxEntry} entry */
  remove(entry) {
    this.entries = this.entries.filter((other) => other !== entry);
    this.save();
  }

  save() {
    if (this.unsent.length) sessionStorage.setItem(STORAGE_NAME, JSON.stringify(this.unsent));
    else sessionStorage.removeItem(STORAGE_NAME);
    this.listeners.onChange();
  }
}

/** @returns {OutboxEntry[]} */
function loadEntries() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_NAME) ?? "[]");
  } catch {
    return [];
  }
}
