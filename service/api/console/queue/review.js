/** What a reviewer does to the queue: decisions with their undo, and claims on what is open. */

import { Outbox } from "./outbox.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { Outcome, Waiting } from "./outbox.js" */

const CLAIM_MINUTES = 5;
const CLAIM_AGAIN = 2 * 60_000;
const LOOKING = 600;
const FOLLOWS_WITHIN = 15_000;

/** @param {{ dataset: string, id: string }} item */
export const keyOf = (item) => `${item.dataset}/${item.id}`;

/** @param {{ dataset: string, id: string }} item */
export const pathOf = (item) => `v1/review/${encodeURIComponent(item.dataset)}/${encodeURIComponent(item.id)}`;

/** Own decisions: sent, shown before the queue has followed, and taken back. */
export class Decisions {
  /**
   * @param {Api} api
   * @param {{ changed: () => void, refused: (one: Waiting, error: Error) => void }} told of decisions that had to wait
   */
  constructor(api, { changed, refused }) {
    this.outbox = new Outbox(api, {
      changed,
      sent: ({ decision }) => this.follow(decision),
      refused: (one, error) => {
        this.made = this.made.filter((made) => made !== one.decision);
        refused(one, error);
      },
    });
    /** @type {Decision[]} */
    this.made = this.outbox.waiting.map((one) => one.decision).filter((one) => !one.withdrawn);
    /** @type {Map<string, { decision: Decision, at: number }>} */
    this.ahead = new Map();
  }

  /**
   * @param {Item} item
   * @param {string} reviewer
   * @param {Verdict} verdict
   * @param {{ labels?: string[], words?: number[], note?: string }} more
   * @param {string} told its words
   * @returns {Promise<{ decision: Decision, outcome: Outcome }>}
   */
  async decide(item, reviewer, verdict, more, told) {
    /** @type {Decision} */
    const decision = { dataset: item.dataset, id: item.id, revision: item.revision, reviewer, verdict, ...more };
    const outcome = await this.send(decision, told);
    this.made.push(decision);
    return { decision, outcome };
  }

  /** Takes a decision back. @param {Decision} decision @param {string} told its words @returns {Promise<Outcome>} */
  async withdraw(decision, told) {
    const { dataset, id, revision, reviewer, verdict } = decision;
    const dropped = this.outbox.drop(decision);
    const outcome = dropped
      ? "sent"
      : await this.send({ dataset, id, revision, reviewer, verdict, withdrawn: true }, told);
    this.made = this.made.filter((one) => one.dataset !== dataset || one.id !== id);
    return outcome;
  }

  /** What was decided about it and could not be sent yet. @param {{ dataset: string, id: string }} item */
  waiting(item) {
    return this.outbox.waiting.findLast(({ decision }) => keyOf(decision) === keyOf(item))?.decision ?? null;
  }

  /** The last one that can be taken back. */
  get last() {
    return this.made.at(-1) ?? null;
  }

  /** @param {Decision} decision @param {string} told */
  async send(decision, told) {
    const outcome = await this.outbox.send(decision, told);
    if (outcome === "sent") this.follow(decision);
    return outcome;
  }

  /** It is in the log: the queue follows in a moment. @param {Decision} decision */
  follow(decision) {
    this.ahead.set(keyOf(decision), { decision, at: Date.now() });
  }

  /**
   * The item as it will be once the queue has read our decision.
   * @param {Item} item
   * @returns {Item}
   */
  over(item) {
    const found = this.ahead.get(keyOf(item));
    if (!found) return item;
    const { decision, at } = found;
    const theirs = item.decisions.find((one) => one.reviewer === decision.reviewer);
    const followed = decision.withdrawn
      ? !theirs
      : theirs?.verdict === decision.verdict && same(theirs.labels, decision.labels);
    if (followed || item.revision !== decision.revision || Date.now() - at > FOLLOWS_WITHIN) {
      this.ahead.delete(keyOf(item));
      return item;
    }
    const others = item.decisions.filter((one) => one.reviewer !== decision.reviewer);
    const decisions = decision.withdrawn
      ? others
      : [...others, { ...decision, decided_at: new Date(at).toISOString() }];
    const state = item.state === "closed" ? "closed" : decisions.length ? "decided" : "open";
    return { ...item, decisions, state };
  }
}

/** @param {string[] | null | undefined} a @param {string[] | null | undefined} b */
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** Whether another has it open. @param {Item} item @param {string} reviewer */
export const taken = (item, reviewer) =>
  item.claimed_by !== null &&
  item.claimed_by !== reviewer &&
  (item.claimed_until === null || new Date(item.claimed_until) > new Date());

/** The item one has open is claimed, again and again while it is; the others are let go. */
export class Claims {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {{ item: Item, reviewer: string, held: boolean, timer: number } | null} */
    this.now = null;
    this.queue = Promise.resolve();
    window.addEventListener("pagehide", () => this.leave());
  }

  /** Somebody looks at this item; a glance in passing claims nothing. @param {Item} item @param {string} reviewer */
  open(item, reviewer) {
    if (this.now && keyOf(this.now.item) === keyOf(item) && this.now.reviewer === reviewer) {
      this.now.item = item;
      return;
    }
    this.leave();
    if (!reviewer || item.state !== "open") return;
    const opened = { item, reviewer, held: false, timer: 0 };
    this.now = opened;
    const again = () => {
      this.claim(opened);
      opened.timer = setTimeout(again, CLAIM_AGAIN);
    };
    opened.timer = setTimeout(again, LOOKING);
  }

  /** @param {NonNullable<Claims["now"]>} opened */
  claim(opened) {
    if (document.visibilityState === "hidden" || taken(opened.item, opened.reviewer)) return;
    this.queue = this.queue.then(async () => {
      if (this.now !== opened) return;
      opened.held = true;
      try {
        await this.api.post(`${pathOf(opened.item)}/claim`, { reviewer: opened.reviewer, minutes: CLAIM_MINUTES });
      } catch {
        opened.held = false; // another was quicker, or the key may only read: the queue shows who has it
      }
      if (this.now !== opened && opened.held) this.letGo(opened); // left before the answer was here
    });
  }

  /** Lets go what is open. */
  leave() {
    const left = this.now;
    if (!left) return;
    this.now = null;
    clearTimeout(left.timer);
    // Not in the queue of calls: where the page is being left, nothing that waits would still be sent.
    if (left.held) this.letGo(left);
  }

  /** @param {NonNullable<Claims["now"]>} left */
  letGo(left) {
    this.api.remove(`${pathOf(left.item)}/claim`, { reviewer: left.reviewer }).catch(() => {});
  }
}
