/** The same words elsewhere: other open items that resemble the open one, as links. */

import { h } from "../dom.js";
import { truncate } from "../text.js";
import { buildItemHash, buildQueueHash } from "./filters.js";
import { getItemKey } from "./review.js";

/** @import { Item, Similar, SimilarItem } from "../types.js" */
/** @import { Api } from "../api.js" */
/** @import { Filter } from "./filters.js" */
/** @import { Scheme } from "../labels/scheme.js" */

const LOAD_DELAY_MS = 150; // paging through the queue asks for nothing
const MAX_SHOWN = 6;

export class SimilarView {
  /**
   * @param {Api} api
   * @param {(error: unknown) => void} onError
   */
  constructor(api, onError) {
    this.api = api;
    this.onError = onError;
    this.element = h("aside", { class: "similar", "aria-label": "Similar sentences", hidden: true });
    /** @type {string | null} the item that is shown or loaded */
    this.key = null;
    this.isStale = false;
    this.timer = 0;
    this.shown = "";
  }

  /** The queue has changed: other items may be open now. */
  invalidate() {
    this.isStale = true;
  }

  clear() {
    this.key = null;
    this.shown = "";
    clearTimeout(this.timer);
    this.element.hidden = true;
    this.element.replaceChildren();
  }

  /** @param {Item} item @param {Filter} filter @param {Scheme} scheme */
  show(item, filter, scheme) {
    const key = `${getItemKey(item)} ${item.revision} ${item.scored_at}`;
    if (key === this.key && !this.isStale) return;
    if (key !== this.key) this.clear();
    this.key = key;
    this.isStale = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const { dataset, id } = item;
        const similar = await this.api.get("v1/review/similar", { dataset, id, limit: MAX_SHOWN });
        if (this.key === key) this.draw(similar, filter, scheme);
      } catch (error) {
        if (this.key === key) this.onError(error);
      }
    }, LOAD_DELAY_MS);
  }

  /** @param {Similar} similar @param {Filter} filter @param {Scheme} scheme */
  draw(similar, filter, scheme) {
    const text = JSON.stringify(similar);
    if (text === this.shown) return; // the reviewer may have the focus on a link
    this.shown = text;
    const { dataset, same_words: words, same_pair: pair } = similar;
    const phrase = words.phrases[0]?.join(" ").replaceAll('"', " ") ?? "";
    const sections = [
      this.renderSection("The same words elsewhere", words, filter, scheme, {
        dataset,
        href: words.phrases.length === 1 ? buildQueueHash({ dataset, q: `"${phrase}"` }) : null,
      }),
      this.renderSection(`Also ${pair.given} that should be ${pair.suggested}`, pair, filter, scheme, {
        dataset,
        href: buildQueueHash({ dataset, given: pair.given ?? "", suggested: pair.suggested ?? "" }),
      }),
    ].filter((section) => section !== null);
    this.element.hidden = !sections.length;
    this.element.replaceChildren(...sections);
  }

  /**
   * @param {string} title
   * @param {{ items: SimilarItem[], more: boolean }} group
   * @param {Filter} filter
   * @param {Scheme} scheme
   * @param {{ dataset: string, href: string | null }} link `href`: all of them in the queue
   */
  renderSection(title, { items, more }, filter, scheme, { dataset, href }) {
    if (!items.length) return null;
    return h(
      "section",
      {},
      h("h3", {}, title),
      h(
        "ul",
        {},
        items.map((item) => h("li", {}, renderLink(item, dataset, filter, scheme))),
      ),
      href && more ? h("a", { class: "all", href }, "Show all in the queue") : null,
    );
  }

  /** Moves the focus to the first link. Returns whether there is one. */
  focus() {
    const link = this.element.querySelector("a");
    link?.focus();
    return link !== null;
  }
}

/**
 * @param {SimilarItem} item
 * @param {string} dataset
 * @param {Filter} filter
 * @param {Scheme} scheme
 */
function renderLink(item, dataset, filter, scheme) {
  const given = listTypes(item.labels, scheme);
  const isDoubted = item.suggested.some((label) => label !== null);
  const suggested = listTypes(
    item.labels.map((label, index) => item.suggested[index] ?? label),
    scheme,
  );
  return h(
    "a",
    { href: buildItemHash(filter, { dataset, id: item.id }) },
    h(
      "span",
      { class: "excerpt" },
      item.start > item.before.length ? "… " : "",
      item.before.map((word) => `${truncate(word, 40)} `).join(""),
      h("mark", {}, truncate(item.words.join(" "), 120)),
      item.after.map((word) => ` ${truncate(word, 40)}`).join(""),
    ),
    h(
      "span",
      { class: "labels" },
      renderTypes(given, scheme),
      isDoubted && suggested.join() !== given.join() ? [" should be ", ...renderTypes(suggested, scheme)] : null,
      isDoubted ? null : h("span", { class: "muted" }, ", not in doubt"),
    ),
  );
}

/** The types of labels, without repetitions. @param {string[]} labels @param {Scheme} scheme */
const listTypes = (labels, scheme) => [...new Set(labels.map((label) => scheme.getType(label)))];

/** @param {string[]} types @param {Scheme} scheme */
const renderTypes = (types, scheme) =>
  types.flatMap((type, index) => [
    index ? ", " : "",
    type === "O" ? "no entity" : h("span", { class: scheme.palette.getClasses(type) }, truncate(type, 40)),
  ]);
