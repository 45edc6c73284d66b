/** The queue beside the open item: worst first, a line or two each. */

import { arrow, h } from "../dom.js";
import { VERDICTS } from "./item.js";
import { keyOf, taken } from "./review.js";
import { cut, decimal } from "../text.js";

/** @import { Decision, Item } from "../types.js" */

const BEFORE = 4;
const AFTER = 9;

export class List {
  /** @param {{ open: (key: string) => void, more: () => void }} told */
  constructor({ open, more }) {
    this.open = open;
    this.more = h("button", { type: "button", class: "plain more", on: { click: more } }, "Show more");
    this.entries = h("ol", { on: { keydown: (/** @type {KeyboardEvent} */ event) => this.key(event) } });
    this.title = h("h2", { class: "sr" }, "Queue");
    this.summary = h("summary", {}, "Queue");
    this.matching = h("p", { class: "matching" });
    this.element = /** @type {HTMLDetailsElement} */ (
      h("details", { class: "list" }, this.summary, this.title, this.matching, this.entries, this.more)
    );
    const wide = matchMedia("(min-width: 900px)");
    const fit = () => {
      this.element.open = wide.matches;
    };
    wide.addEventListener("change", fit);
    fit();
  }

  /**
   * @param {Item[]} items
   * @param {{ selected: string | null, more: boolean, reviewer: string, total: number | null,
   *   waits: (item: Item) => Decision | null }} now `waits`: what was decided about it and could not be sent yet
   */
  show(items, { selected, more, reviewer, total, waits }) {
    const held = this.entries.contains(document.activeElement);
    this.entries.replaceChildren(
      ...items.map((item, number) => this.entry(item, number, keyOf(item) === selected, reviewer, waits(item))),
    );
    this.more.hidden = !more;
    const shown = items.findIndex((item) => keyOf(item) === selected);
    this.summary.textContent = items.length
      ? `${shown < 0 ? "–" : shown + 1} of ${total ?? items.length}${total === null && more ? "+" : ""}`
      : "Queue";
    this.matching.textContent = items.length ? this.summary.textContent : "";
    const current = /** @type {HTMLElement | null} */ (this.entries.querySelector("[aria-current]"));
    if (held) current?.focus({ preventScroll: true });
    current?.scrollIntoView({ block: "nearest" });
  }

  /**
   * @param {Item} item
   * @param {number} number
   * @param {boolean} current
   * @param {string} reviewer
   * @param {Decision | null} waiting
   */
  entry(item, number, current, reviewer, waiting) {
    const worst = [...item.doubtful].sort((a, b) => (a.p_given ?? 0) - (b.p_given ?? 0))[0];
    const mine = item.decisions.find((one) => one.reviewer === reviewer) ?? item.decisions[0];
    const pairs = [...new Set(item.doubtful.map((flag) => JSON.stringify([flag.given, flag.suggested])))].map((pair) =>
      JSON.parse(pair),
    );
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "entry",
          "aria-current": current ? "true" : null,
          "data-key": keyOf(item),
          on: { click: () => this.open(keyOf(item)) },
        },
        h(
          "span",
          { class: "entry-head" },
          h("span", { class: "number" }, number + 1),
          pairs.length
            ? h(
                "span",
                { class: "pair" },
                h("span", { class: "given" }, pairs[0][0]),
                " ",
                arrow(),
                " ",
                h("span", { class: "suggested" }, pairs[0][1]),
              )
            : null,
          pairs.length > 1 ? h("span", { class: "muted" }, `+${pairs.length - 1}`) : null,
          taken(item, reviewer)
            ? h("span", { class: "tag", title: `${item.claimed_by} has it open` }, cut(item.claimed_by ?? "", 14))
            : null,
          waiting
            ? h(
                "span",
                { class: "verdict-tag waiting", title: "It is sent when the service answers" },
                `${waiting.withdrawn ? "Undo" : VERDICTS[waiting.verdict]}: not saved yet`,
              )
            : null,
          item.state === "decided" && mine
            ? h("span", { class: `verdict-tag ${mine.verdict}` }, VERDICTS[mine.verdict])
            : null,
          item.agreement === "differ" ? h("span", { class: "tag differ", title: "Reviewers differ" }, "differ") : null,
          item.state === "closed" ? h("span", { class: "tag" }, "closed") : null,
          item.state === "closed"
            ? null
            : h("span", { class: "entry-rank", title: "Rank: low is bad" }, decimal(item.rank)),
        ),
        item.tokens.length
          ? h("span", { class: "excerpt" }, excerpt(item, worst?.index ?? 0))
          : h(
              "span",
              { class: "excerpt muted" },
              h("bdi", {}, cut(item.id, 80)),
              item.closed_by === "deleted" ? ", deleted" : "",
            ),
      ),
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const entries = /** @type {HTMLElement[]} */ ([...this.entries.querySelectorAll(".entry")]);
    const now = entries.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = entries[now + (event.key === "ArrowDown" ? 1 : -1)];
    if (now < 0 || !next) return;
    event.preventDefault();
    next.focus();
    this.open(next.dataset.key ?? "");
  }
}

/** The words around the most doubtful one. @param {Item} item @param {number} place */
function excerpt(item, place) {
  const start = Math.max(0, place - BEFORE);
  const end = Math.min(item.tokens.length, place + AFTER);
  const doubtful = new Set(item.doubtful.map((flag) => flag.index));
  /** @type {(Node | string)[]} */
  const parts = start > 0 ? ["… "] : [];
  for (let at = start; at < end; at += 1) {
    const word = cut(item.tokens[at], 40);
    parts.push(doubtful.has(at) ? h("mark", {}, word) : word, " ");
  }
  if (end < item.tokens.length) parts.push("…");
  return parts;
}
