/**
 * The parts of the API's responses that the console reads. The API's own documentation is at /docs.
 *
 * @typedef {{ index: number, token: string, given: string, suggested: string, p_given: number | null,
 *   p_suggested: number | null, threshold: number | null }} Flag
 * @typedef {{ start: number, end: number, type: string }} Span
 * @typedef {Span & { isNoEntity?: boolean }} SpanChange
 * @typedef {{ kind: string, given_span: Span | null, suggested_span: Span | null, confidence: number | null }} Suspect
 * @typedef {{ p_given: number | null, score: number | null, unscored: string | null }} WordScore
 * @typedef {{ index: number, kind: "mentions" | "older_mentions" | "pattern", words: number, sentences: number,
 *   by_type: Record<string, number>, speaks: "for" | "against" }} Because
 * @typedef {"error" | "ok" | "unsure"} Verdict
 * @typedef {{ dataset: string, id: string, revision: number, reviewer: string, verdict: Verdict,
 *   labels?: string[] | null, words?: number[] | null, decided_at?: string | null, note?: string | null,
 *   withdrawn?: boolean }} Decision
 * @typedef {{ dataset: string, id: string, revision: number, state: "open" | "decided" | "closed",
 *   closed_by: string | null, blind: boolean, rank: number, priority: number | null, score: number | null,
 *   tokens: string[],
 *   labels: string[], document: string | null, annotator: string | null, source: string | null, annotated_at: string | null,
 *   scored_at: string | null, doubtful: Flag[], suspects: Suspect[], because: Because[], words: WordScore[],
 *   thresholds: Record<string, number | null>, warming_up: string[], model: { name: string, fingerprint: string },
 *   method: string, token_score: string, claimed_by: string | null, claimed_until: string | null,
 *   decisions: Decision[], agreement: "agree" | "differ" | null, reason: string | null,
 *   inclusion_probability: number | null }} Item
 * @typedef {{ id: string, revision: number, rank: number, start: number, end: number, before: string[],
 *   words: string[], after: string[], labels: string[], suggested: (string | null)[] }} SimilarItem
 * @typedef {{ dataset: string, id: string,
 *   same_words: { phrases: string[][], items: SimilarItem[], more: boolean },
 *   same_pair: { given: string | null, suggested: string | null, items: SimilarItem[], more: boolean } }} Similar
 * @typedef {{ day: string, flagged: number, controls: number, decided: number, errors: number,
 *   precision: number | null }} Day
 * @typedef {{ low: number, high: number, items: number }} Bin
 * @typedef {{ given: string, suggested: string, items: number, decided: number, right: number }} Confusion
 * @typedef {{ annotator: string | null, items: number, decided: number, errors: number }} Annotator
 * @typedef {{ recall: number | null, low: number | null, high: number | null, controls: number,
 *   controls_decided: number, controls_wrong: number }} Recall
 * @typedef {{ counts: Record<string, number>, days: Day[], scores: Bin[], confusions: Confusion[],
 *   annotators: Annotator[], reviewers: { reviewer: string, decisions: number }[],
 *   models: { model: string, items: number }[], verdicts: Record<string, number>, precision: number | null, recall: Recall | null,
 *   ranker: Record<string, number> | null,
 *   ranker_pairs: { given: string, suggested: string, offset: number }[] }} Overview
 * @typedef {{ at: string, thresholds: Record<string, number | null> }} Moment
 * @typedef {{ name: string, own_words: number, threshold: number | null, prior: number | null,
 *   warming_up: boolean }} ClassThreshold
 * @typedef {{ dataset: string, sentences: number, classes: ClassThreshold[], history: Moment[] }} Thresholds
 * @typedef {{ sentences: number, unknown_labels: Record<string, number>, fits: boolean, advice: string }} Waiting
 * @typedef {{ name: string, sentences: number, problem: string | null, misfit: string | null,
 *   waiting: Waiting | null }} Dataset
 * @typedef {{ dataset: string, model: string, result: "running" | "used" | "not_used" | "refused" | "failed" | "stopped",
 *   reason?: string | null, started_at: string, ended_at?: string | null, arrived: number,
 *   progress?: { step: string, done: number, total: number } | null, sentences?: number | null, f1?: number | null,
 *   types?: { name: string, f1: number }[] }} Training
 * @typedef {{ dataset: string, model: string | null, used_since: string | null, auto_train: boolean, waiting: number,
 *   arrived: number, due_at: number, trainings: Training[] }} DatasetModels
 */

export {};
