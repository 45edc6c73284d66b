/** A reviewer's actions: decisions, which can be undone, and the claim on the open item. */

import { Outbox } from "./outbox.js";

/** @import { Decision, Item, ItemState, NextItem, Verdict } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { OutboxEntry, Outcome } from "./outbox.js" */

const CLAIM_MINUTES = 2;
const CLAIM_RENEWAL_MS = 50_000;
const CLAIM_DELAY_MS = 600;
const MAX_UNCONFIRMED_MS = 15_000;

/** @type {Record<Verdict, string>} */
export const VERDICT_NAMES = { error: "Error", ok: "OK", unsure: "Unsure" };

/** @param {{ dataset: string, id: string }} item */
export const getItemKey = (item) => `${item.dataset}/${item.id}`;

/** @param {{ dataset: string, id: string }} item */
export const getItemPath = (item) => `v1/review/${encodeURIComponent(item.dataset)}/${encodeURIComponent(item.id)}`;

/** The reviewer's own decisions: sends them, shows them before the queue has read them, and withdraws them. */
export class Decisions {
  /**
   * @param {Api} api
   * @param {{ onChange: () => void, onRefused: (entry: OutboxEntry, error: Error) => void }} listeners
   *   called for decisions that were not accepted at once
   */
  constructor(api, { onChange, onRefused }) {
    this.outbox = new Outbox(api, {
      onChange,
      onSent: ({ decision }) => this.markUnconfirmed(decision),
      onRefused: (entry, error) => {
        this.undoable = this.undoable.filter((decision) => decision !== entry.decision);
        onRefused(entry, error);
      },
    });
    /** @type {Decision[]} */
    this.undoable = this.outbox.unsent.map((entry) => entry.decision).filter((decision) => !decision.withdrawn);
    /** The decisions that later ones of the reviewer have replaced. @type {Map<Decision, Decision>} */
    this.replaced = new Map();
    /** @type {Map<string, { decision: Decision, at: number }>} */
    this.unconfirmed = new Map();
  }

  /**
   * @param {Item} item
   * @param {string} reviewer
   * @param {Verdict} verdict
   * @param {{ labels?: string[], words?: number[], note?: string }} fields
   * @param {string} excerpt words of the sentence, for messages
   * @returns {Promise<{ decision: Decision, outcome: Outcome }>}
   */
  async decide(item, reviewer, verdict, fields, excerpt) {
    /** @type {Decision} */
    const decision = {
      dataset: item.dataset,
      id: item.id,
      revision: item.revision,
      reviewer,
      verdict,
      ...fields,
      ...(isAdjudication(item, reviewer) ? { adjudication: true } : {}),
    };
    const isReplaced = (/** @type {Decision} */ other) =>
      other.reviewer === reviewer && Boolean(other.adjudication) === Boolean(decision.adjudication);
    const replaced = this.findUnsent(item) ?? item.decisions.find(isReplaced);
    const outcome = await this.send(decision, excerpt);
    this.undoable.push(decision);
    if (replaced && !replaced.withdrawn && replaced.revision === item.revision) this.replaced.set(decision, replaced);
    return { decision, outcome };
  }

  /**
   * Undoes a decision: the one that it has replaced is in force again; without one, it is withdrawn.
   * @param {Decision} decision
   * @param {string} excerpt
   * @returns {Promise<Outcome>}
   */
  async withdraw(decision, excerpt) {
    const { dataset, id, revision, reviewer, verdict, adjudication } = decision;
    const made = this.undoable.findLast((other) => getItemKey(other) === getItemKey(decision));
    const replaced = made && this.replaced.get(made);
    const { labels, words, note } = replaced ?? {};
    const wasDropped = this.outbox.drop(made ?? decision);
    const outcome = wasDropped
      ? "sent"
      : await this.send(
          {
            ...{ dataset, id, revision, reviewer, verdict: replaced?.verdict ?? verdict },
            ...(replaced ? {} : { withdrawn: true }),
            ...(labels ? { labels } : {}),
            ...(words ? { words } : {}),
            ...(note ? { note } : {}),
            ...(adjudication ? { adjudication } : {}),
          },
          excerpt,
        );
    this.undoable = this.undoable.filter((other) => other !== made);
    return outcome;
  }

  /** The decision about an item that is not sent yet, or null. @param {{ dataset: string, id: string }} item */
  findUnsent(item) {
    return this.outbox.unsent.findLast(({ decision }) => getItemKey(decision) === getItemKey(item))?.decision ?? null;
  }

  /** The last decision that can be undone. */
  get lastUndoable() {
    return this.undoable.at(-1) ?? null;
  }

  /** @param {Decision} decision @param {string} excerpt */
  async send(decision, excerpt) {
    const outcome = await this.outbox.send(decision, excerpt);
    if (outcome === "sent") this.markUnconfirmed(decision);
    return outcome;
  }

  /** The log has the decision, but the queue may not have read it yet. @param {Decision} decision */
  markUnconfirmed(decision) {
    this.unconfirmed.set(getItemKey(decision), { decision, at: Date.now() });
  }

  /**
   * The item as it will be when the queue has read the reviewer's decision.
   * @param {Item} item
   * @returns {Item}
   */
  applyUnconfirmed(item) {
    const entry = this.unconfirmed.get(getItemKey(item));
    if (!entry) return item;
    const { decision, at } = entry;
    const isSame = (/** @type {Decision} */ other) =>
      other.reviewer === decision.reviewer && Boolean(other.adjudication) === Boolean(decision.adjudication);
    const published = item.decisions.find(isSame);
    const isConfirmed = decision.withdrawn
      ? !published
      : published?.verdict === decision.verdict && haveSameLabels(published.labels, decision.labels);
    if (isConfirmed || item.revision !== decision.revision || Date.now() - at > MAX_UNCONFIRMED_MS) {
      this.unconfirmed.delete(getItemKey(item));
      return item;
    }
    const otherDecisions = item.decisions.filter((other) => !isSame(other));
    const decisions = decision.withdrawn
      ? otherDecisions
      : [...otherDecisions, { ...decision, decided_at: new Date(at).toISOString() }];
    return { ...item, decisions, state: predictState(item, decision, published !== undefined) };
  }
}

/**
 * The state of an item when the queue has read a decision about it. Decisions of others may be hidden: where they may
 * differ, the item counts as decided until the queue says otherwise.
 * @param {Item} item
 * @param {Decision} decision
 * @param {boolean} isKnown whether the queue has an earlier decision of the reviewer
 * @returns {ItemState}
 */
function predictState(item, decision, isKnown) {
  if (item.state === "closed") return "closed";
  if (decision.adjudication) return decision.withdrawn ? "adjudication" : "decided";
  const change = decision.withdrawn ? (isKnown ? -1 : 0) : isKnown ? 0 : 1;
  if (item.decision_count + change < item.overlap) return "open";
  return item.overlap > 1 && item.state === "adjudication" ? "adjudication" : "decided";
}

/** Whether a reviewer has decided about the item, other than by adjudication. @param {Item} item @param {string} reviewer */
export const hasDecided = (item, reviewer) =>
  item.decisions.some((decision) => decision.reviewer === reviewer && !decision.adjudication);

/**
 * Whether a decision of the reviewer settles what others have decided: the item has all the decisions it needs.
 * @param {Item} item
 * @param {string} reviewer
 */
export const isAdjudication = (item, reviewer) =>
  (item.state === "adjudication" || (item.state === "decided" && item.overlap > 1)) && !hasDecided(item, reviewer);

/** @param {string[] | null | undefined} a @param {string[] | null | undefined} b */
const haveSameLabels = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** Whether another reviewer has the item open. @param {Item} item @param {string} reviewer */
export const isClaimedByOther = (item, reviewer) =>
  item.claimed_by !== null &&
  item.claimed_by !== reviewer &&
  (item.claimed_until === null || new Date(item.claimed_until) > new Date());

/** Claims the open item, renews the claim while it is open and releases it afterwards. */
export class Claims {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {{ item: Item, reviewer: string, isHeld: boolean, timer: number } | null} */
    this.current = null;
    this.requests = Promise.resolve();
    this.nextNumber = 0;
    window.addEventListener("pagehide", () => this.release());
  }

  /**
   * The reviewer opens an item. It is claimed after a short delay, so that paging through items claims nothing.
   * @param {Item} item
   * @param {string} reviewer
   */
  open(item, reviewer) {
    if (this.current && getItemKey(this.current.item) === getItemKey(item) && this.current.reviewer === reviewer) {
      this.current.item = item;
      return;
    }
    this.release();
    if (!reviewer || (item.state !== "open" && item.state !== "adjudication")) return;
    const claim = { item, reviewer, isHeld: false, timer: 0 };
    this.current = claim;
    this.renewLater(claim, CLAIM_DELAY_MS);
  }

  /**
   * Asks for the next item that is free for the reviewer. The service claims it.
   * @param {Record<string, unknown>} filter
   * @param {string} reviewer
   * @param {Item | null} left the item that the reviewer leaves
   * @returns {Promise<Item | null | undefined>} undefined: a later call has taken over
   */
  async openNext(filter, reviewer, left) {
    const number = (this.nextNumber += 1);
    const after = left && { dataset: left.dataset, id: left.id };
    const body = { ...filter, reviewer, minutes: CLAIM_MINUTES, ...(after ? { after } : {}) };
    const { item } = /** @type {NextItem} */ (await this.api.post("v1/review/next", body));
    if (number !== this.nextNumber) {
      if (item) this.sendRelease({ item, reviewer, isHeld: true, timer: 0 });
      return undefined;
    }
    if (left && this.current && getItemKey(this.current.item) === getItemKey(left)) this.forget(); // released with it
    if (item) {
      this.release();
      const claim = { item, reviewer, isHeld: true, timer: 0 };
      this.current = claim;
      this.renewLater(claim, CLAIM_RENEWAL_MS);
    }
    return item;
  }

  /** @param {NonNullable<Claims["current"]>} claim @param {number} delayMs */
  renewLater(claim, delayMs) {
    claim.timer = setTimeout(() => {
      this.claim(claim);
      this.renewLater(claim, CLAIM_RENEWAL_MS);
    }, delayMs);
  }

  /** @param {NonNullable<Claims["current"]>} claim */
  claim(claim) {
    if (document.visibilityState === "hidden" || isClaimedByOther(claim.item, claim.reviewer)) return;
    this.requests = this.requests.then(async () => {
      if (this.current !== claim) return;
      claim.isHeld = true;
      try {
        await this.api.post(`${getItemPath(claim.item)}/claim`, { reviewer: claim.reviewer, minutes: CLAIM_MINUTES });
      } catch {
        claim.isHeld = false; // another reviewer has it, or the key can only read
      }
      if (this.current !== claim && claim.isHeld) this.sendRelease(claim); // closed before the response
    });
  }

  /** The answer to the last request for an item is not needed any more. */
  cancelNext() {
    this.nextNumber += 1;
  }

  /** The claim has ended. */
  forget() {
    clearTimeout(this.current?.timer);
    this.current = null;
  }

  /** Releases the claim on the open item. */
  release() {
    const released = this.current;
    if (!released) return;
    this.current = null;
    clearTimeout(released.timer);
    // Sent at once, not after pending requests: when the page is closed, those are dropped.
    if (released.isHeld) this.sendRelease(released);
  }

  /** @param {NonNullable<Claims["current"]>} released */
  sendRelease(released) {
    this.api.remove(`${getItemPath(released.item)}/claim`, { reviewer: released.reviewer }).catch(() => {});
  }
}
