"""Batch and stream judge as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.errors import InvalidInput
from service.evaluation.data import UNMERGED, EvaluationData, read_evaluation_data
from service.evaluation.runs import BATCH, PRIORITY, STREAM, compute_memory_priority, judge_batch, judge_stream
from service.scoring.confident import flag_words, prune_by_noise_rate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray]


def weights(probs: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The weights behind `priority` by their formula, after these words."""
    k = probs.shape[1]
    own, agree = probs[np.arange(len(given)), given], probs.argmax(axis=1) == given
    t, a = np.empty(k), np.empty(k)
    for c in range(k):
        here = given == c
        t[c] = (own[here].sum() + 19) / (here.sum() + 20)
        a[c] = (own[here & agree].sum() + 19) / ((here & agree).sum() + 20)
    return np.asarray((1 - a.max() + a) ** np.clip((1 - a) / np.maximum(1 - t, 1e-3), 0, 1))


def test_batch_weighs_by_a_whole_pass(data: EvaluationData) -> None:
    variant = data.build_variant(UNMERGED)
    run = judge_batch(variant)
    flat = variant.flat
    w = weights(flat.probs, flat.given)
    own = flat.probs[np.arange(flat.n_words), flat.given]
    np.testing.assert_allclose(run.word_priority, 1 - (1 - own) * w[flat.given], atol=1e-9)
    np.testing.assert_array_equal(run.flags, prune_by_noise_rate(flat.probs, flat.given))
    assert run.mode == BATCH
    assert "prune-by-noise-rate" in run.flag_rule


def test_stream_judges_before_it_learns(data: EvaluationData) -> None:
    variant = data.build_variant(UNMERGED)
    run = judge_stream(variant)
    flat = variant.flat
    scores = run.compute_sentence_scores(PRIORITY)
    own = flat.probs[np.arange(flat.n_words), flat.given]
    for sentence in (0, 1, 7, flat.n_sentences - 1):
        start, end = int(flat.starts[sentence]), int(flat.ends[sentence])
        w = weights(flat.probs[:start], flat.given[:start])
        words = 1 - (1 - own[start:end]) * w[flat.given[start:end]]
        assert scores[sentence] == pytest.approx(words.min(), abs=1e-9)
        seen = flat.given[:start]
        # Without held-out words a class needs 20 of its own before it can be the reason for a flag.
        t = np.array([own[:start][seen == c].mean() if (seen == c).sum() >= 20 else 2.0 for c in range(5)])
        np.testing.assert_array_equal(run.flags[start:end], flag_words(flat.probs[start:end], flat.given[start:end], t))
    assert run.flags.any()
    assert run.mode == STREAM
    assert "without a prior" in run.flag_rule


def test_what_comes_later_changes_nothing_in_the_stream(arrays: Arrays, save: Callable[..., Path]) -> None:
    """The first sentences are judged the same whatever follows them, but not in a batch."""
    arrays["keep"] = np.ones(80, dtype=bool)
    whole = read_evaluation_data(save(arrays)).build_variant(UNMERGED)
    n = int(arrays["lengths"][:50].sum())
    part = dict(arrays, lengths=arrays["lengths"][:50], keep=arrays["keep"][:50])
    part |= {key: arrays[key][:n] for key in ("probs", "given", "corrected")}
    begun = read_evaluation_data(save(part, "part.npz")).build_variant(UNMERGED)
    np.testing.assert_array_equal(judge_stream(whole).flags[:n], judge_stream(begun).flags)
    np.testing.assert_array_equal(judge_stream(whole).word_priority[:n], judge_stream(begun).word_priority)
    assert (judge_batch(whole).word_priority[:n] != judge_batch(begun).word_priority).any()


def test_held_out_words_are_the_prior_of_flags(arrays: Arrays, save: Callable[..., Path]) -> None:
    """With them the very first sentence can be flagged; priority doesn't read them."""
    arrays["keep"] = np.ones(80, dtype=bool)
    arrays["given"] = arrays["given"].copy()
    arrays["probs"] = arrays["probs"].copy()
    arrays["given"][0], arrays["probs"][0] = 1, [0.99, 0.01, 0, 0, 0]
    bare = judge_stream(read_evaluation_data(save(arrays)).build_variant(UNMERGED))
    arrays |= {"dev_probs": arrays["probs"], "dev_given": arrays["given"]}
    primed = judge_stream(read_evaluation_data(save(arrays)).build_variant(UNMERGED))
    assert (bool(bare.flags[0]), bool(primed.flags[0])) == (False, True)
    np.testing.assert_array_equal(bare.word_priority, primed.word_priority)
    assert "held-out" in primed.flag_rule


def test_unknown_names_are_refused(data: EvaluationData) -> None:
    run = judge_batch(data.build_variant(UNMERGED))
    with pytest.raises(InvalidInput, match="worst-token"):
        run.compute_sentence_scores("best-token")
    with pytest.raises(InvalidInput, match="self-confidence"):
        run.compute_word_scores("trust")


def test_memory_needs_words(arrays: Arrays, data: EvaluationData, save: Callable[..., Path]) -> None:
    assert judge_stream(data.build_variant(UNMERGED)).memories == ("off",)
    with pytest.raises(InvalidInput, match="memory needs the words"):
        compute_memory_priority(data.build_variant(UNMERGED))
    arrays["words"] = np.array([f"W{i % 7}" for i in range(len(arrays["given"]))])
    variant = read_evaluation_data(save(arrays)).build_variant(UNMERGED)
    assert judge_stream(variant).memories == ("off", "auto")
    assert judge_stream(variant, memory="off").memories == ("off",)
    with pytest.raises(InvalidInput, match="no priority with memory 'documents'"):
        judge_stream(variant).compute_sentence_scores(PRIORITY, memory="documents")


def test_memory_is_of_the_sentences_before_in_the_same_partition(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["words"] = np.array([f"W{i % 7}" for i in range(len(arrays["given"]))])
    variant = read_evaluation_data(save(arrays)).build_variant(UNMERGED)
    flat = variant.flat
    plain = judge_stream(variant)
    alone = compute_memory_priority(variant, partitions=range(flat.n_sentences))
    # A partition with one sentence remembers nothing, so the order of its words is that without memory.
    for start, end in zip(flat.starts, flat.ends, strict=True):
        assert alone[start:end].argmin() == plain.word_priority[start:end].argmin()
    together = compute_memory_priority(variant)
    assert (together[: flat.ends[0]] == alone[: flat.ends[0]]).all()
    assert (together != alone).any()
    # Only sentences that came before count: with the last one first, it meets an empty memory.
    last = flat.n_sentences - 1
    turned = compute_memory_priority(variant, order=[last, *range(last)])
    end = slice(int(flat.starts[last]), int(flat.ends[last]))
    first_weights = compute_memory_priority(variant, order=[last], partitions=[0] * flat.n_sentences)
    assert (turned[end] == first_weights[end]).all()
    assert (turned[end] != together[end]).any()


def test_class_names_without_a_scheme_are_types(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["words"] = np.array([f"W{i % 7}" for i in range(len(arrays["given"]))])
    arrays["labels"] = np.array(["none", "B-PER", "E-PER", "LOC", "x"])
    priority = compute_memory_priority(read_evaluation_data(save(arrays)).build_variant(UNMERGED), "documents")
    assert ((priority > 0) & (priority < 1)).all()
