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
 *   withdrawn?: boolean, adjudication?: boolean }} Decision
 * @typedef {"open" | "adjudication" | "decided" | "closed"} ItemState
 * @typedef {{ dataset: string, id: string, revision: number, state: ItemState,
 *   closed_by: string | null, blind: boolean, rank: number,
 *   likelihood: "very_likely_wrong" | "probably_wrong" | "may_be_right", priority: number | null, score: number | null,
 *   tokens: string[],
 *   labels: string[], document: string | null, batch: string | null, annotator: string | null, source: string | null,
 *   annotated_at: string | null,
 *   scored_at: string | null, doubtful: Flag[], suspects: Suspect[], because: Because[], words: WordScore[],
 *   thresholds: Record<string, number | null>, warming_up: string[], model: { name: string, fingerprint: string },
 *   method: string, token_score: string, claimed_by: string | null, claimed_until: string | null,
 *   overlap: number, decision_count: number, decisions: Decision[], agreement: "agree" | "differ" | null, reason: string | null,
 *   inclusion_probability: number | null }} Item
 * @typedef {"accept" | "ok" | "unsure"} BulkAction
 * @typedef {{ decision: Decision, doubts: { start: number, end: number, words: string[], given: string,
 *   suggested: string }[] }} PlannedDecision
 * @typedef {{ dataset: string, id: string, reason: string, detail: string }} LeftOut
 * @typedef {{ action: BulkAction, total: number, planned: PlannedDecision[], left_out: LeftOut[],
 *   next?: string }} BulkPreview
 * @typedef {{ item: Item | null, claimed_until: string | null, confirmed: boolean }} NextItem
 * @typedef {{ items: number, words: number, kappa: number | null, kappa_low: number | null, kappa_high: number | null,
 *   f1: number | null, f1_low: number | null, f1_high: number | null }} AgreementFigures
 * @typedef {{ dataset: string, overlap: number, items: number, unanswered: number, overall: AgreementFigures,
 *   pairs: (AgreementFigures & { first: string, second: string })[], more_pairs: number, truncated: boolean }} Agreement
 * @typedef {{ id: string, revision: number, rank: number, start: number, end: number, before: string[],
 *   words: string[], after: string[], labels: string[], suggested: (string | null)[] }} SimilarItem
 * @typedef {{ dataset: string, id: string,
 *   same_words: { phrases: string[][], items: SimilarItem[], more: boolean },
 *   same_pair: { given: string | null, suggested: string | null, items: SimilarItem[], more: boolean } }} Similar
 * @typedef {{ day: string, flagged: number, controls: number, decided: number, errors: number,
 *   precision: number | null }} Day
 * @typedef {{ low: number, high: number, items: number, sentences: number }} PriorityBin
 * @typedef {{ since: string, decided: number, decided_by_reviewer: number | null, last_hour: number, open: number,
 *   unsure: number }} Progress
 * @typedef {{ given: string, suggested: string, items: number, decided: number, right: number }} Confusion
 * @typedef {{ annotator: string | null, items: number, decided: number, errors: number }} Annotator
 * @typedef {{ annotator: string, sentences: number, items: number, decided: number, confirmed_errors: number,
 *   errors_per_100: number | null, f1: number | null, low: number | null, high: number | null,
 *   confusions: { given: string, found: string, spans: number }[],
 *   weeks: { week: string, sentences: number, f1: number | null }[] }} AnnotatorFigures
 * @typedef {{ meaning: string, not_shown: string | null, annotators: AnnotatorFigures[] }} DatasetAnnotators
 * @typedef {{ id: string, result: "doubted" | "wrong" | "right" | "unclear", tokens: string[], labels: string[],
 *   doubtful: { index: number, given: string, suggested: string }[], corrected_labels: string[] | null,
 *   notes: string[], source: string | null }} OwnItem
 * @typedef {{ batch: string, sentences: number, open: number, last_arrival_at: string | null, error_rate: number | null,
 *   low: number, high: number, max_error_rate: number | null, verdict: "accept" | "reject" | "review" | null,
 *   advice: string | null }} Batch
 * @typedef {{ recall: number | null, low: number | null, high: number | null, controls: number,
 *   controls_decided: number, controls_wrong: number }} Recall
 * @typedef {{ counts: Record<string, number>, days: Day[], priorities: PriorityBin[], confusions: Confusion[],
 *   annotators: Annotator[], reviewers: { reviewer: string, decisions: number }[],
 *   models: { model: string, items: number }[], verdicts: Record<string, number>, precision: number | null, recall: Recall | null,
 *   ranker: Record<string, number> | null,
 *   ranker_pairs: { given: string, suggested: string, offset: number }[] }} Overview
 * @typedef {{ value: string, items: number }} FacetCount
 * @typedef {{ given: FacetCount[], suggested: FacetCount[], kind: FacetCount[], model: FacetCount[] }} FacetCounts
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
