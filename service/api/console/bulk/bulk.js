/** Decisions about many items: reads the preview page by page, applies it in chunks, and undoes it. No DOM. */

import { isTransient } from "../queue/outbox.js";

/** @import { BulkAction, BulkPreview, Decision, LeftOut, PlannedDecision } from "../types.js" */
/** @import { Api } from "../api.js" */

export const MAX_ITEMS = 5000;
const CHUNK_SIZE = 200;
const MAX_TRIES = 4;
const RETRY_PAUSE_MS = 1000;

/**
 * What a bulk decision is about: items that the reviewer selected, or a filter with the names of the API.
 * @typedef {{ items: { dataset: string, id: string, revision: number }[] } | { filter: Record<string, string> }} Target
 * @typedef {{ total: number, planned: PlannedDecision[], leftOut: LeftOut[] }} Plan
 * @typedef {(done: number, total: number) => void} OnProgress
 */

export class Bulk {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** The decisions of the last apply, until they are undone. @type {Decision[]} */
    this.undoable = [];
  }

  /**
   * @param {Target} target
   * @param {BulkAction} action
   * @param {string} reviewer
   * @param {OnProgress} onProgress
   * @param {() => boolean} isStale whether the result is not needed any more
   * @returns {Promise<Plan>}
   */
  async plan(target, action, reviewer, onProgress, isStale) {
    /** @type {Plan} */
    const plan = { total: 0, planned: [], leftOut: [] };
    const seen = new Set(); // the queue may be sorted anew between two pages
    /** @type {string | undefined} */
    let after;
    do {
      /** @type {BulkPreview} */
      const page = await this.api.post("v1/decisions/preview", { ...target, action, reviewer, after });
      plan.total = page.total;
      for (const entry of page.planned) {
        const key = `${entry.decision.dataset}/${entry.decision.id}`;
        if (!seen.has(key)) plan.planned.push(entry);
        seen.add(key);
      }
      plan.leftOut.push(...page.left_out);
      after = page.next;
      onProgress(plan.planned.length + plan.leftOut.length, Math.min(plan.total, MAX_ITEMS));
    } while (after && plan.planned.length + plan.leftOut.length < MAX_ITEMS && !isStale());
    return plan;
  }

  /**
   * Writes the decisions. All have the same time, so that sending a chunk again changes nothing.
   * @param {Decision[]} decisions
   * @param {OnProgress} onProgress
   * @returns {Promise<LeftOut[]>} those that are not written, since their item has changed
   */
  async apply(decisions, onProgress) {
    const decidedAt = new Date().toISOString();
    const timed = decisions.map((decision) => ({ ...decision, decided_at: decidedAt }));
    this.undoable = [];
    const leftOut = await this.send(timed, onProgress, (chunk) => this.undoable.push(...chunk));
    return leftOut;
  }

  /**
   * Withdraws the decisions of the last apply.
   * @param {OnProgress} onProgress
   * @returns {Promise<{ withdrawn: Decision[], leftOut: LeftOut[] }>}
   */
  async undo(onProgress) {
    // With their time: what the reviewer has decided since then stays.
    const withdrawals = this.undoable.map((decision) => ({ ...decision, withdrawn: true }));
    /** @type {Decision[]} */
    const withdrawn = [];
    const leftOut = await this.send(withdrawals, onProgress, (chunk) => withdrawn.push(...chunk));
    this.undoable = [];
    return { withdrawn, leftOut };
  }

  /**
   * @param {Decision[]} decisions
   * @param {OnProgress} onProgress
   * @param {(accepted: Decision[]) => void} onAccepted
   */
  async send(decisions, onProgress, onAccepted) {
    /** @type {LeftOut[]} */
    const leftOut = [];
    for (let start = 0; start < decisions.length; start += CHUNK_SIZE) {
      const chunk = decisions.slice(start, start + CHUNK_SIZE);
      const answer = await this.post({ decisions: chunk, partial: true });
      const refused = new Set(answer.left_out.map(({ dataset, id }) => `${dataset}/${id}`));
      leftOut.push(...answer.left_out);
      onAccepted(chunk.filter(({ dataset, id }) => !refused.has(`${dataset}/${id}`)));
      onProgress(Math.min(start + CHUNK_SIZE, decisions.length), decisions.length);
    }
    return leftOut;
  }

  /**
   * @param {unknown} body
   * @returns {Promise<{ accepted: number, left_out: LeftOut[] }>}
   */
  async post(body) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.api.post("v1/decisions", body);
      } catch (error) {
        if (tries === MAX_TRIES || !isTransient(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, tries * RETRY_PAUSE_MS));
      }
    }
  }
}
