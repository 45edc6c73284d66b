/** A reviewer's unsaved correction of an item: its labels, the answers to its doubts, and what can be undone. No DOM. */

import { matchSpelling, proposeLabels } from "../labels/proposal.js";
import { doOverlap, doSuspectsOverlap, listIndices, SpanEditor } from "../labels/spans.js";
import { listDoubts } from "../queue/wording.js";

/** @import { Decision, Item, Verdict } from "../types.js" */
/** @import { Scheme } from "../labels/scheme.js" */
/** @import { WordRange } from "../labels/spans.js" */

/**
 * What became of a doubt. "changed": the reviewer edited its words by hand.
 * @typedef {"accepted" | "rejected" | "changed"} Answer
 * @typedef {{ labels: string[], otherLabel: Set<number>, answers: Map<number, Answer>, isEdited: boolean }} DraftState
 */

/** A draft stays while the reviewer looks at other items. */
export class Draft {
  /**
   * @param {Item} item
   * @param {Scheme} scheme
   * @param {Decision | null} [decision] in force: the draft starts from its correction, else from what the service suggests
   */
  constructor(item, scheme, decision = null) {
    this.item = item;
    this.scheme = scheme;
    this.editor = new SpanEditor(scheme, item.labels);
    this.doubts = listDoubts(item);
    this.note = "";
    const correction = decision?.verdict === "error" && decision.revision === item.revision ? decision : null;
    this.labels = correction?.labels ?? (correction?.words ? [...item.labels] : proposeLabels(item, scheme));
    /** Words whose label is wrong while the right one is not known. @type {Set<number>} */
    this.otherLabel = new Set(correction?.words ?? []);
    /** Whether the reviewer has edited words by hand. */
    this.isEdited = false;
    /** @type {Map<number, Answer>} */
    this.answers = new Map();
    /** @type {DraftState[]} */
    this.history = [];
    /** The words of the table. @type {Set<number>} */
    this.rows = new Set(item.doubtful.map((flag) => flag.index));
    this.addChangedRows();
    for (const index of this.otherLabel) this.rows.add(index);
  }

  /** A copy that later edits do not change. */
  copy() {
    /** @type {Draft} */
    const copy = Object.assign(Object.create(Draft.prototype), this);
    copy.otherLabel = new Set(this.otherLabel);
    copy.answers = new Map(this.answers);
    copy.history = [...this.history];
    copy.rows = new Set(this.rows);
    return copy;
  }

  /** Takes the edits of an earlier copy. @param {Draft} copy */
  restore(copy) {
    const { labels, otherLabel, answers, isEdited, history, rows } = copy;
    const isSame = copy.doubts === this.doubts; // else the numbers of the answers are those of other doubts
    Object.assign(this, { labels, otherLabel, isEdited, rows });
    this.answers = isSame ? answers : new Map();
    this.history = isSame ? history : [];
  }

  /** Whether only the verdict "error" saves what the reviewer has edited. */
  get needsError() {
    return this.isEdited && this.verdict === "error";
  }

  get revision() {
    return this.item.revision;
  }

  /** Takes the item as the service shows it now: a blind one has its probabilities after the decision. @param {Item} item */
  update(item) {
    if (item.blind !== this.item.blind) {
      this.doubts = listDoubts(item); // in another order, now that the worst word is known
      this.answers = new Map();
      this.history = [];
    }
    this.item = item;
  }

  /** The first doubt without an answer, or null. */
  get currentDoubt() {
    const index = this.doubts.findIndex((_, number) => !this.answers.has(number));
    return index < 0 ? null : index;
  }

  /** The words whose label differs from the given one. */
  listChangedWords() {
    return listIndices({ start: 0, end: this.labels.length }).filter(
      (index) => this.labels[index] !== this.item.labels[index],
    );
  }

  /** The verdict that says what the draft says. @returns {Verdict} */
  get verdict() {
    return this.listChangedWords().length || this.otherLabel.size ? "error" : "ok";
  }

  /**
   * Takes edited labels. Returns whether anything has changed.
   * @param {string[]} labels
   */
  edit(labels) {
    const changed = labels.flatMap((label, index) => (label === this.labels[index] ? [] : [index]));
    if (!changed.length) return false;
    this.remember();
    this.isEdited = true;
    this.labels = labels;
    for (const index of changed) this.otherLabel.delete(index);
    this.markChanged(changed);
    this.addChangedRows();
    return true;
  }

  /** The reviewer chooses the label of one word; null: it is wrong, and the right one is not known. @param {number} index @param {string | null} label */
  chooseLabel(index, label) {
    this.remember();
    this.isEdited = true;
    this.labels = this.labels.with(index, label ?? this.item.labels[index]);
    if (label === null) this.otherLabel.add(index);
    else this.otherLabel.delete(index);
    this.markChanged([index]);
    this.addChangedRows();
  }

  /** Whether the label set allows what a doubt suggests. It may be younger than the doubt. @param {number} number */
  canAccept(number) {
    const { suspect, flag } = this.doubts[number];
    if (flag) return this.scheme.allowsLabel(flag.suggested);
    return !suspect?.suggested_span || this.scheme.allowsType(suspect.suggested_span.type);
  }

  /** @param {number} number of the doubt @param {"accepted" | "rejected"} answer */
  answer(number, answer) {
    this.remember();
    this.apply(number, answer);
    this.addChangedRows();
  }

  /** Answers all doubts but those that can't be accepted. @param {"accepted" | "rejected"} answer */
  answerAll(answer) {
    this.remember();
    this.answers = new Map();
    // From the least to the worst: where two doubts overlap, the worst one counts.
    for (const number of [...this.doubts.keys()].reverse())
      if (answer === "rejected" || this.canAccept(number)) this.apply(number, answer);
    this.addChangedRows();
  }

  /** @param {number} number @param {"accepted" | "rejected"} answer */
  apply(number, answer) {
    const { suspect, flag, range } = this.doubts[number];
    const isAccepted = answer === "accepted";
    if (suspect) {
      const others = this.listAcceptedOverlaps(number).map((other) => this.doubts[other]);
      const accepted = [...(isAccepted ? [this.doubts[number]] : []), ...others];
      if (!isAccepted) this.labels = this.editor.rejectSuspect(this.labels, suspect);
      const suspects = accepted.flatMap((doubt) => doubt.suspect ?? []);
      if (suspects.length) this.labels = this.editor.acceptSuspects(this.labels, suspects);
      for (const doubt of accepted) this.labels = this.spell(this.labels, doubt.range);
    } else if (flag)
      this.labels = this.editor.relabel(
        this.labels,
        flag.index,
        isAccepted ? flag.suggested : this.item.labels[flag.index],
      );
    for (const index of listIndices(range)) this.otherLabel.delete(index);
    this.answers.set(number, answer);
  }

  /**
   * The accepted doubts that share words with this one. Their correction stays, whatever the answer to this one is.
   * @param {number} number
   */
  listAcceptedOverlaps(number) {
    const { suspect } = this.doubts[number];
    return [...this.doubts.keys()].filter((other) => {
      const candidate = this.doubts[other].suspect;
      if (other === number || this.answers.get(other) !== "accepted") return false;
      return suspect !== null && candidate !== null && doSuspectsOverlap(suspect, candidate);
    });
  }

  /** Writes suggested labels as the service does. @param {string[]} labels @param {WordRange} range */
  spell(labels, range) {
    const flags = new Map(this.item.doubtful.map((flag) => [flag.index, flag]));
    return labels.map((label, index) =>
      range.start <= index && index < range.end ? matchSpelling(label, flags.get(index), this.scheme) : label,
    );
  }

  /** Undoes the last edit or answer. Returns whether there was one. */
  undo() {
    const state = this.history.pop();
    if (!state) return false;
    Object.assign(this, state);
    return true;
  }

  /** The edits are part of a decision now: undoing them is undoing the decision. */
  forgetHistory() {
    this.history = [];
  }

  remember() {
    const { labels, otherLabel, answers, isEdited } = this;
    this.history.push({ labels: [...labels], otherLabel: new Set(otherLabel), answers: new Map(answers), isEdited });
  }

  /** Doubts about words that the reviewer edits by hand count as answered. @param {number[]} indices */
  markChanged(indices) {
    this.doubts.forEach(({ range, suspect }, number) => {
      const ranges = [range, suspect?.given_span ?? range];
      if (indices.some((index) => ranges.some((words) => doOverlap(words, { start: index, end: index + 1 }))))
        this.answers.set(number, "changed");
    });
  }

  addChangedRows() {
    for (const index of this.listChangedWords()) this.rows.add(index);
  }

  /**
   * The correction of a decision: the corrected labels, or only the wrong words, or nothing. The labels are valid beside
   * every changed word.
   * @returns {{ labels?: string[], words?: number[] }}
   */
  collect() {
    const changed = this.listChangedWords();
    if (this.otherLabel.size) return { words: [...new Set([...changed, ...this.otherLabel])].sort((a, b) => a - b) };
    return changed.length ? { labels: this.scheme.repair(this.labels, this.item.labels) } : {};
  }
}
