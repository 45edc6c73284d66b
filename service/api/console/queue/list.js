/** The list of the queue: one entry per item, worst first. */

import { h } from "../dom.js";
import { formatScore, truncate } from "../text.js";
import { renderPart } from "./parts.js";
import { getItemKey, isClaimedByOther, VERDICT_NAMES } from "./review.js";
import { describeDoubts, findWorstFlag } from "./wording.js";

/** @import { Decision, Item } from "../types.js" */
/** @import { Palette } from "../labels/colours.js" */

const WORDS_BEFORE = 4;
const WORDS_AFTER = 9;

export class QueueList {
  /**
   * @param {{ open: (key: string) => void, more: () => void, toggle: (item: Item) => void }} handlers
   * @param {Node} tools shown above the entries
   */
  constructor({ open, more, toggle }, tools) {
    this.onOpen = open;
    this.onToggle = toggle;
    /** @type {Item[]} */
    this.items = [];
    this.more = h("button", { type: "button", class: "plain more", on: { click: more } }, "Show more");
    this.entries = h("ol", { on: { keydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event) } });
    this.title = h("h2", { class: "sr" }, "Queue");
    this.summary = h("summary", {}, "Queue");
    this.matching = h("p", { class: "matching" });
    this.element = /** @type {HTMLDetailsElement} */ (
      h("details", { class: "list" }, this.summary, this.title, this.matching, tools, this.entries, this.more)
    );
    const wideScreen = matchMedia("(min-width: 900px)");
    const openWhenWide = () => {
      this.element.open = wideScreen.matches;
    };
    wideScreen.addEventListener("change", openWhenWide);
    openWhenWide();
  }

  /**
   * @param {Item[]} items
   * @param {{ selected: string | null, more: boolean, reviewer: string, total: number | null,
   *   findUnsent: (item: Item) => Decision | null, findPalette: (item: Item) => Palette,
   *   isMarked: (item: Item) => boolean, canMark: boolean }} state `isMarked`: whether it is selected with others
   */
  show(items, { selected, more, reviewer, total, findUnsent, findPalette, isMarked, canMark }) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const hadFocus = this.entries.contains(focused);
    const focusedBox = focused instanceof HTMLInputElement ? focused.dataset.mark : null;
    this.items = items;
    this.entries.replaceChildren(
      ...items.map((item, index) =>
        h(
          "li",
          {},
          canMark ? this.renderCheckbox(item, index, isMarked(item)) : null,
          this.renderEntry(item, index, getItemKey(item) === selected, reviewer, findUnsent(item), findPalette(item)),
        ),
      ),
    );
    this.more.hidden = !more;
    const selectedIndex = items.findIndex((item) => getItemKey(item) === selected);
    this.summary.textContent = items.length
      ? `${selectedIndex < 0 ? "–" : selectedIndex + 1} of ${total ?? items.length}${total === null && more ? "+" : ""}`
      : "Queue";
    this.matching.textContent = items.length ? this.summary.textContent : "";
    const current = /** @type {HTMLElement | null} */ (this.entries.querySelector("[aria-current]"));
    const box = /** @type {HTMLElement | undefined} */ (
      [...this.entries.querySelectorAll("input")].find((input) => hadFocus && input.dataset.mark === focusedBox)
    );
    if (hadFocus && !(box ?? current)) this.focus();
    else if (hadFocus) (box ?? current)?.focus({ preventScroll: true });
    current?.scrollIntoView({ block: "nearest" });
  }

  /** Moves the focus to the open entry, else to the first. Returns whether there is one to see. */
  focus() {
    const entry = /** @type {HTMLElement | null} */ (
      this.entries.querySelector("[aria-current]") ?? this.entries.querySelector(".entry")
    );
    if (!entry || !this.element.open) return false;
    entry.focus();
    return true;
  }

  /**
   * @param {Item} item
   * @param {number} index
   * @param {boolean} current
   * @param {string} reviewer
   * @param {Decision | null} unsent
   * @param {Palette} palette
   */
  renderEntry(item, index, current, reviewer, unsent, palette) {
    const worst = findWorstFlag(item);
    const decision = item.decisions.find((other) => other.reviewer === reviewer) ?? item.decisions[0];
    const [doubt, ...others] = describeDoubts(item);
    return h(
      "button",
      {
        type: "button",
        class: "entry",
        "aria-current": current ? "true" : null,
        "data-key": getItemKey(item),
        on: { click: () => this.onOpen(getItemKey(item)) },
      },
      h(
        "span",
        { class: "entry-head" },
        h("span", { class: "number" }, index + 1),
        isClaimedByOther(item, reviewer)
          ? h("span", { class: "tag", title: `${item.claimed_by} has it open` }, truncate(item.claimed_by ?? "", 14))
          : null,
        unsent
          ? h(
              "span",
              { class: "verdict-tag waiting", title: "It is sent when the service answers" },
              `${unsent.withdrawn ? "Undo" : VERDICT_NAMES[unsent.verdict]}: not saved yet`,
            )
          : null,
        item.state === "decided" && decision
          ? h("span", { class: `verdict-tag ${decision.verdict}` }, VERDICT_NAMES[decision.verdict])
          : null,
        item.agreement === "differ" ? h("span", { class: "tag differ", title: "Reviewers differ" }, "differ") : null,
        item.state === "closed" ? h("span", { class: "tag" }, "closed") : null,
        item.state === "closed"
          ? null
          : h("span", { class: "entry-rank", title: "Rank: low is bad" }, formatScore(item.rank)),
      ),
      doubt && item.state !== "closed"
        ? h(
            "span",
            { class: "doubt" },
            doubt.map((part) => renderPart(part, palette)),
            others.length ? h("span", { class: "muted" }, ` and ${others.length} more`) : null,
          )
        : null,
      item.tokens.length
        ? h("span", { class: "excerpt" }, renderExcerpt(item, worst?.index ?? 0))
        : h(
            "span",
            { class: "excerpt muted" },
            h("bdi", {}, truncate(item.id, 80)),
            item.closed_by === "deleted" ? ", deleted" : "",
          ),
    );
  }

  /** @param {Item} item @param {number} index @param {boolean} isMarked */
  renderCheckbox(item, index, isMarked) {
    return h("input", {
      type: "checkbox",
      class: "mark-item",
      "data-mark": getItemKey(item),
      "aria-label": `Select sentence ${index + 1}`,
      title: "Select (x)",
      checked: isMarked,
      on: { change: () => this.onToggle(item) },
    });
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.key === "x" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      this.toggleFocused(event);
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const entries = /** @type {HTMLElement[]} */ ([...this.entries.querySelectorAll(".entry")]);
    const index = entries.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = entries[index + (event.key === "ArrowDown" ? 1 : -1)];
    if (index < 0 || !next) return;
    event.preventDefault();
    next.focus();
    this.onOpen(next.dataset.key ?? "");
  }

  /** Selects the entry with the focus, or takes it from the selection. @param {KeyboardEvent} event */
  toggleFocused(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("li");
    const box = /** @type {HTMLInputElement | null | undefined} */ (row?.querySelector(".mark-item"));
    if (!box) return;
    event.preventDefault();
    box.click();
  }
}

/** The words around the least likely flagged word. @param {Item} item @param {number} center */
function renderExcerpt(item, center) {
  const start = Math.max(0, center - WORDS_BEFORE);
  const end = Math.min(item.tokens.length, center + WORDS_AFTER);
  const doubtful = new Set(item.doubtful.map((flag) => flag.index));
  /** @type {(Node | string)[]} */
  const parts = start > 0 ? ["… "] : [];
  for (let index = start; index < end; index += 1) {
    const word = truncate(item.tokens[index], 40);
    parts.push(doubtful.has(index) ? h("mark", {}, word) : word, " ");
  }
  if (end < item.tokens.length) parts.push("…");
  return parts;
}
