/** Editing entities of the open sentence: connects the words, the selection, the bar of types and the draft. */

import { h, showToast } from "../dom.js";
import { describeDoubt, formatParts } from "../queue/wording.js";
import { truncate } from "../text.js";
import { WordSelection } from "./selection.js";
import { SentenceView } from "./sentence.js";
import { MAX_NUMBERED_TYPES, RESIZINGS, TypeBar } from "./type_bar.js";
import { TypeMenu } from "./type_menu.js";

/** @import { Draft } from "./draft.js" */
/** @import { Resizing } from "./type_bar.js" */
/** @import { WordRange } from "../labels/spans.js" */

export class SpanEditing {
  /**
   * @param {Draft} draft
   * @param {{ onEdit: () => void }} handlers
   */
  constructor(draft, { onEdit }) {
    const { item, scheme } = draft;
    this.draft = draft;
    this.onEdit = onEdit;
    this.isEnabled = true;
    this.types = scheme.listEntityTypes(item);
    this.sentence = new SentenceView(item, scheme);
    this.selection = new WordSelection(this.sentence.wordList, {
      findSpan: (index) => draft.editor.findSpan(draft.labels, index),
      onChange: () => this.showSelection(),
      onOpen: () => this.openMenu(),
    });
    this.menu = new TypeMenu(this.types, scheme.palette, {
      onChoose: (type) => this.mark(type),
      onClose: () => this.selection.focus(),
    });
    this.bar = new TypeBar(this.types, scheme.palette, {
      mark: (type) => this.mark(type),
      openMenu: () => this.openMenu(),
      remove: () => this.remove(),
      split: () => this.split(),
      resize: (resizing) => this.resize(resizing),
    });
    this.status = h("p", { class: "sr", role: "status" });
    this.tools = h("div", { class: "span-tools" }, this.bar.element, this.menu.element);
    this.show();
    this.selectDoubt(draft.currentDoubt);
  }

  /** Shows the draft, after it has changed. */
  show() {
    this.sentence.show(this.draft.labels);
    this.showSelection();
  }

  showSelection() {
    const { range, span, head } = this.selection;
    this.sentence.showSelection(range, head, this.findDoubt(range));
    this.bar.showType(span?.type ?? null);
    if (range) this.status.textContent = this.describe(range);
  }

  /** `Real Madrid: ORG`. @param {WordRange} range */
  describe(range) {
    const words = truncate(this.draft.item.tokens.slice(range.start, range.end).join(" "), 120);
    return `${words}: ${this.selection.span?.type ?? "no entity"}`;
  }

  /** The entity in doubt that is selected. @param {WordRange | null} range */
  findDoubt(range) {
    if (!range) return null;
    return (
      this.draft.doubts.find(
        ({ suspect, range: { start, end } }) => suspect !== null && start === range.start && end === range.end,
      ) ?? null
    );
  }

  /** Selects the words of a doubt, and says what is wrong with them. @param {number | null} number */
  selectDoubt(number) {
    if (number === null) return;
    const doubt = this.draft.doubts[number];
    this.selection.select(doubt.range);
    this.status.textContent = formatParts(describeDoubt(this.draft.item, doubt));
  }

  /** The selected words, if they can be edited. */
  getEditableRange() {
    if (!this.isEnabled) return null;
    const { range } = this.selection;
    if (!range) showToast("Select words first: click or drag, or use ← → and Shift.");
    return range;
  }

  /** Takes edited labels and keeps these words selected. @param {string[]} labels @param {WordRange} range */
  apply(labels, range) {
    if (this.draft.edit(labels)) this.onEdit();
    this.selection.select(range);
  }

  /** Makes the selected words one entity, or gives the selected entity another type. @param {string} type */
  mark(type) {
    const range = this.getEditableRange();
    if (range) this.apply(this.draft.editor.mark(this.draft.labels, range, type), range);
  }

  remove() {
    const range = this.getEditableRange();
    if (range) this.apply(this.draft.editor.remove(this.draft.labels, range), range);
  }

  /** Splits the entity before the focused word; after its first word, if that one has the focus. */
  split() {
    const range = this.getEditableRange();
    const { head } = this.selection;
    if (!range || head === null) return;
    const { editor, labels, scheme } = this.draft;
    const span = editor.findSpan(labels, head);
    if (!span || span.end - span.start < 2) {
      showToast("Only an entity of several words can be split.");
      return;
    }
    const at = Math.max(head, span.start + 1);
    const split = editor.split(labels, span, at);
    if (split.every((label, index) => label === labels[index]))
      showToast(`The scheme \`${scheme.name}\` has no labels for two entities of one type side by side.`);
    this.apply(split, { start: at, end: span.end });
  }

  /** Moves a bound of the selected entity, or of the selection. @param {Resizing} resizing */
  resize(resizing) {
    const range = this.getEditableRange();
    if (!range) return;
    const step = resizing.endsWith("+") ? 1 : -1;
    const bounds = resizing.startsWith("end")
      ? { start: range.start, end: range.end + step }
      : { start: range.start + step, end: range.end };
    if (bounds.start < 0 || bounds.end > this.draft.labels.length || bounds.start >= bounds.end) return;
    const { span } = this.selection;
    if (span) this.apply(this.draft.editor.resize(this.draft.labels, span, bounds), bounds);
    else this.selection.select(bounds);
    this.sentence.reveal(bounds);
  }

  openMenu() {
    if (this.getEditableRange()) this.menu.open(this.selection.span?.type ?? null);
  }

  /** @param {string} key @returns {boolean} whether the key was used */
  handleKey(key) {
    const type = /^[1-9]$/.test(key) ? this.types.slice(0, MAX_NUMBERED_TYPES)[Number(key) - 1] : undefined;
    const resizing = RESIZINGS.find(([, resizeKey]) => resizeKey === key)?.[0];
    /** @type {Record<string, () => void>} */
    const keys = {
      t: () => this.openMenu(),
      Delete: () => this.remove(),
      Backspace: () => this.remove(),
      0: () => this.remove(),
      x: () => this.split(),
      ArrowLeft: () => this.selection.move(this.selection.head === null ? 1 : -1, false),
      ArrowRight: () => this.selection.move(1, false),
    };
    if (type !== undefined) this.mark(type);
    else if (resizing) this.resize(resizing);
    else keys[key]?.();
    return type !== undefined || resizing !== undefined || key in keys;
  }
}
