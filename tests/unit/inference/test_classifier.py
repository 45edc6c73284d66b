from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InferenceError, InvalidInput, ModelError
from service.inference.classifier import Classifier, WordProbs
from service.inference.graph_runner import MAX_BATCH_DEVIATION
from service.inference.model.folder import ModelFolder
from service.inference.tokenization.encoder import Encoder
from service.inference.tokenization.word_shape import classify_casing
from tests.support.tiny_models import (
    MAX_LENGTH,
    POISON_WORD,
    TOKENIZER_KINDS,
    TokenizerKind,
    get_runner,
    make_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.inference.classifier import InferenceResult
    from tests.unit.inference.conftest import MakeClassifier, MakeFolder

WORDS = [
    "Paris",
    "said",
    "the",
    "Timberwolves",
    "of",
    "U.S.",
    "(",
    "MIN",
    ")",
    ",",
    "4th",
    "",
    "\u200b",
    "é",
    "日",
    "x" * 80,
]
sentences_of = st.lists(st.lists(st.sampled_from(WORDS), max_size=30), max_size=12)


def probs_of(answers: Sequence[InferenceResult]) -> list[Any]:
    assert not any(isinstance(each, InferenceError) for each in answers)
    return [each.probs for each in answers if isinstance(each, WordProbs)]


def some_sentences(n: int, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    return [[rng.choice(WORDS) for _ in range(rng.randint(1, 25))] for _ in range(n)]


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_distribution_for_every_word(classifier_of: MakeClassifier, kind: TokenizerKind) -> None:
    words = ["Paris", "", "said", "Timberwolves"]
    (answer,) = classifier_of(kind).infer([words])
    assert isinstance(answer, WordProbs)
    assert answer.probs.shape == (4, 9)
    assert answer.probs.dtype == np.float64
    np.testing.assert_allclose(answer.probs.sum(axis=1), 1, atol=1e-14)
    assert answer.scored.tolist() == [True, False, True, True]
    assert list(answer.unscored) == [1]
    assert answer.n_windows == 1


@pytest.mark.parametrize(
    "options", [{"kind": k} for k in TOKENIZER_KINDS] + [{"kind": "wordpiece", "casing": True}], ids=str
)
@settings(deadline=None, max_examples=25)
@given(sentences=sentences_of, limits=st.tuples(st.integers(1, 600), st.integers(1, 20)), order=st.randoms())
def test_batch_mates_and_padding_change_no_bit(
    classifier_of: MakeClassifier,
    options: dict[str, Any],
    sentences: list[list[str]],
    limits: tuple[int, int],
    order: random.Random,
) -> None:
    classifier = classifier_of(**options)
    alone = [probs_of(classifier.infer([sentence]))[0] for sentence in sentences]
    places = list(range(len(sentences)))
    order.shuffle(places)
    get_runner(classifier)._batch_tokens, get_runner(classifier)._max_batch = limits
    together = probs_of(classifier.infer([sentences[i] for i in places]))
    for place, probs in zip(places, together, strict=True):
        assert np.array_equal(probs, alone[place])


@pytest.mark.parametrize(
    "options", [{"kind": k} for k in TOKENIZER_KINDS] + [{"kind": "wordpiece", "casing": True}], ids=str
)
def test_answers_are_those_of_the_graph_run_by_hand(folder_of: MakeFolder, options: dict[str, Any]) -> None:
    """Against tokenizers and onnxruntime themselves, one sentence at a time, without any of our own code between."""
    folder = folder_of(**options)
    sentences = some_sentences(12, seed=3)
    answers = Classifier(ModelFolder.load(folder)).infer(sentences)
    tokenizer = make_tokenizer(options["kind"])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if options["kind"] == "bytelevel":
        tokenizer.pre_tokenizer.add_prefix_space = True
    session = ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    compared = 0
    for sentence, answer in zip(sentences, answers, strict=True):
        assert isinstance(answer, WordProbs)
        encoding = tokenizer.encode([word if word != "\u200b" else "" for word in sentence], is_pretokenized=True)
        if len(encoding) > MAX_LENGTH:
            continue
        ids = np.array([encoding.ids])
        shapes = [0 if word is None else classify_casing(sentence[word]) for word in encoding.word_ids]
        types = np.array([shapes]) if "casing" in options else np.zeros_like(ids)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
        logits = session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})[0][0].astype(
            np.float64
        )
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        for word in range(len(sentence)):
            mine = [probs[i] for i, owner in enumerate(encoding.word_ids) if owner == word]
            assert answer.scored[word] == bool(mine)
            if mine:
                np.testing.assert_allclose(answer.probs[word], np.mean(mine, axis=0), atol=1e-6)
                compared += 1
    assert compared > 20


def test_short_sequences_are_padded_with_the_models_own_padding(
    folder_of: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = Classifier(ModelFolder.load(folder_of("bytelevel")))
    session, seen = get_runner(classifier).session._session, []

    class Recorder:
        def run(self, outputs: list[str], feeds: dict[str, Any]) -> Any:
            seen.append(feeds)
            return session.run(outputs, feeds)

    monkeypatch.setattr(get_runner(classifier).session, "_session", Recorder())
    classifier.infer([["the"], ["the", "of"]])
    (feeds,) = seen
    assert feeds["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert feeds["input_ids"][0, -1] == 1


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_context_matters_and_padding_does_not(classifier_of: MakeClassifier, kind: TokenizerKind) -> None:
    first, other = probs_of(classifier_of(kind).infer([["Paris", "said"], ["Paris", "of"]]))
    assert np.abs(first[0] - other[0]).max() > 1e-3
    assert classifier_of(kind).batch_deviation == 0
    assert classifier_of(kind).batching == "planned"


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_neighbours_of_an_unscored_word_keep_their_own_probabilities(
    classifier_of: MakeClassifier, kind: TokenizerKind
) -> None:
    odd = ["", "\u200b", "\u00ad", "\ufffd", "\x01", "\ud800"]
    plain = ["Paris", "said", "the", "Timberwolves", "of", "U.S."]
    mixed = [word for pair in zip(odd, plain, strict=True) for word in pair]
    expected, actual = probs_of(classifier_of(kind).infer([plain, mixed]))
    assert np.array_equal(actual[1::2], expected)
    np.testing.assert_array_equal(actual[::2], 1 / 9)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_special_token_in_the_text_does_not_poison_its_neighbours(
    classifier_of: MakeClassifier, kind: TokenizerKind
) -> None:
    sentences = [["Paris", odd, "said"] for odd in ("[SEP]", "</s>", "<pad>", "[PAD]", "<s>")]
    for answer in classifier_of(kind).infer(sentences):
        assert isinstance(answer, WordProbs)
        assert answer.scored.all()


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_sentence_of_five_thousand_words(classifier_of: MakeClassifier, kind: TokenizerKind) -> None:
    words = [WORDS[i % 11] for i in range(5000)]
    (answer,) = classifier_of(kind).infer([words])
    assert isinstance(answer, WordProbs)
    assert answer.scored.all()
    assert answer.n_windows > 100
    np.testing.assert_allclose(answer.probs.sum(axis=1), 1, atol=1e-14)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_word_longer_than_a_window(classifier_of: MakeClassifier, kind: TokenizerKind) -> None:
    encoder = classifier_of(kind).encoder
    assert isinstance(encoder, Encoder)
    tokenizer = encoder._tokenizer.tokenizer
    word = "xy-" * 90
    assert len(tokenizer.encode([word], is_pretokenized=True)) > 64
    (answer,) = classifier_of(kind).infer([["said", word, "Paris"]])
    assert isinstance(answer, WordProbs)
    assert answer.scored.all()
    assert answer.n_windows > 3


def test_a_sentence_of_too_many_subwords_is_an_error_and_delays_no_other(folder_of: MakeFolder) -> None:
    classifier = Classifier(ModelFolder.load(folder_of("wordpiece")), max_subwords=60)
    runs: list[int] = []
    classifier.observe_runs(lambda sequences, _, __: runs.append(sequences))
    short = ["the", "of"]
    first, long, last = classifier.infer([short, ["xqz" * 10] * 9, short])
    assert isinstance(long, InferenceError)
    assert long.stage == "too_long"
    assert "its 9 words are 270 subwords for this model, at most 60 are read: split it" in str(long)
    assert sum(runs) == 2
    alone = classifier.infer([short])
    assert [each.tolist() for each in probs_of([first, last])] == [probs_of(alone)[0].tolist()] * 2
    assert isinstance(next(iter(classifier.infer_stream([["xqz" * 10] * 9]))), InferenceError)


def test_windows_answer_for_their_own_part(classifier_of: MakeClassifier) -> None:
    """One subword a word, so that what is read from each window can be laid side by side."""
    classifier = classifier_of("wordpiece")
    words = [("the", "of", "paris", "said", "land")[i * i % 5] for i in range(150)]
    (encoded,) = classifier.encode([words])
    (answer,) = classifier.run([encoded])
    assert isinstance(answer, WordProbs)
    by_hand: list[Any] = []
    for window in encoded.windows:
        part = words[len(by_hand) - window.keep_start + 1 :][: len(window.ids) - 2]
        (alone,) = probs_of(classifier.infer([part]))
        by_hand += list(alone[window.keep_start - 1 : window.keep_end - 1])
    assert np.array_equal(answer.probs, np.array(by_hand))


def test_pooling_is_the_folders_unless_it_is_set(classifier_of: MakeClassifier) -> None:
    words = [["Timberwolves", "said"]]
    mean, first, characters = (
        probs_of(classifier_of("wordpiece").infer(words, pooling=how))[0] for how in ("mean", "first", "characters")
    )
    assert np.array_equal(probs_of(classifier_of("wordpiece").infer(words))[0], mean)
    by_manifest = classifier_of("wordpiece", manifest={"pooling": "first"})
    assert np.array_equal(probs_of(by_manifest.infer(words))[0], first)
    assert not np.allclose(mean[0], first[0])
    assert np.allclose(mean[1], first[1])
    assert np.allclose(mean[1], characters[1])


def test_a_subword_over_several_words_answers_for_each(classifier_of: MakeClassifier) -> None:
    classifier = classifier_of("unigram", manifest={"joining": "text", "capitalise_caps": True})
    (probs,) = probs_of(classifier.infer([["Minnesota", "Timberwolves", "(", "MIN", ")"]]))
    assert np.allclose(probs[2], probs[3])
    assert np.allclose(probs[3], probs[4])
    assert not np.allclose(probs[1], probs[2])


def test_casing_reaches_the_model(classifier_of: MakeClassifier) -> None:
    lower, upper = probs_of(classifier_of("wordpiece", casing=True).infer([["paris"], ["PARIS"]]))
    assert not np.allclose(lower, upper)
    lower, upper = probs_of(classifier_of("wordpiece").infer([["paris"], ["PARIS"]]))
    assert np.array_equal(lower, upper)


@pytest.mark.parametrize("look_ahead", [1, 7, 256])
def test_a_stream_answers_in_order(classifier_of: MakeClassifier, look_ahead: int) -> None:
    classifier = classifier_of("wordpiece")
    sentences = some_sentences(40)
    expected = probs_of(classifier.infer(sentences))
    actual = probs_of(list(classifier.infer_stream(iter(sentences), look_ahead=look_ahead)))
    assert all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True))
    assert list(classifier.infer_stream([])) == []


def test_a_stream_reads_no_further_than_it_must(classifier_of: MakeClassifier) -> None:
    taken = 0

    def source() -> Iterator[list[str]]:
        nonlocal taken
        for sentence in some_sentences(1000):
            taken += 1
            yield sentence

    answers = classifier_of("wordpiece").infer_stream(source(), look_ahead=10)
    next(answers)
    assert taken <= 20
    answers.close()  # type: ignore[attr-defined] # a generator has it
    assert taken <= 20


def test_what_a_stream_cannot_read_is_raised(classifier_of: MakeClassifier) -> None:
    with pytest.raises(InvalidInput, match="a word must be a string"):
        list(classifier_of("wordpiece").infer_stream([["the", 5]]))  # type: ignore[list-item]


@pytest.mark.parametrize("poison", ["fails", "nan"])
@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_only_the_sentence_that_fails_fails(classifier_of: MakeClassifier, kind: TokenizerKind, poison: str) -> None:
    classifier = classifier_of(kind, poison=poison)
    sentences = some_sentences(40)
    expected = probs_of(classifier.infer(sentences))
    bad = {3, 17, 18, 39}
    mixed = [[*sentence, POISON_WORD] if i in bad else sentence for i, sentence in enumerate(sentences)]
    for i, answer in enumerate(classifier.infer(mixed)):
        if i in bad:
            assert isinstance(answer, InferenceError)
        else:
            assert isinstance(answer, WordProbs)
            assert np.array_equal(answer.probs, expected[i])


def test_one_window_that_fails_fails_its_sentence(classifier_of: MakeClassifier) -> None:
    long = [*["said"] * 300, POISON_WORD, *["said"] * 300]
    failed, fine = classifier_of("wordpiece", poison="fails").infer([long, ["said"] * 300])
    assert isinstance(failed, InferenceError)
    assert "fails on this sentence alone" in str(failed)
    assert isinstance(fine, WordProbs)


def test_a_session_that_answers_nothing_blames_no_sentence(
    folder_of: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = Classifier(ModelFolder.load(folder_of("wordpiece")))

    def dead(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(get_runner(classifier).session, "run", dead)
    with pytest.raises(ModelError, match="answers no more: out of order"):
        classifier.infer([["Paris"], ["said"]])


def test_a_model_that_depends_on_batch_mates_is_run_one_by_one(folder_of: MakeFolder) -> None:
    folder = ModelFolder.load(folder_of("wordpiece", rounding=20.0))
    classifier = Classifier(folder)
    assert classifier.batch_deviation is not None
    assert classifier.batch_deviation > 0.01
    assert classifier.batching == "single"
    sentences = some_sentences(20)
    together = probs_of(classifier.infer(sentences))
    assert all(np.array_equal(p, probs_of(classifier.infer([s]))[0]) for s, p in zip(sentences, together, strict=True))
    careless = probs_of(Classifier(folder, self_test=False).infer(sentences))
    assert any(not np.array_equal(a, b) for a, b in zip(careless, together, strict=True))


@pytest.mark.parametrize(("invariant", "batching"), [("close", "planned"), ("exact", "single")])
def test_the_last_digits_matter_where_the_manifest_says_so(
    classifier_of: MakeClassifier, invariant: str, batching: str
) -> None:
    classifier = classifier_of("wordpiece", rounding=3e5, manifest={"invariant": invariant})
    assert classifier.batch_deviation is not None
    assert 0 < classifier.batch_deviation < MAX_BATCH_DEVIATION
    assert classifier.batching == batching


def test_a_model_that_sees_padding_is_run_one_by_one(classifier_of: MakeClassifier) -> None:
    assert classifier_of("wordpiece", attention_mask=False).batching == "single"


def test_without_the_self_test_nothing_is_claimed(folder_of: MakeFolder) -> None:
    classifier = Classifier(ModelFolder.load(folder_of("wordpiece")), self_test=False)
    assert classifier.batch_deviation is None
    assert classifier.batching == "planned"


@pytest.mark.parametrize("options", [{"int32": True}, {"output": "answer"}, {"external": "model.onnx_data"}], ids=str)
def test_exports_differ_and_answer_alike(
    folder_of: MakeFolder, classifier_of: MakeClassifier, options: dict[str, Any]
) -> None:
    sentences = some_sentences(10)
    expected = probs_of(classifier_of("wordpiece").infer(sentences))
    actual = probs_of(classifier_of("wordpiece", **options).infer(sentences))
    assert all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_threads_are_as_set(folder_of: MakeFolder) -> None:
    for threads in (1, 2):
        classifier = Classifier(ModelFolder.load(folder_of("wordpiece")), threads=threads)
        options = get_runner(classifier).session._session.get_session_options()
        assert (options.intra_op_num_threads, options.inter_op_num_threads) == (threads, 1)
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_casing_classes_need_token_types(tmp_path: Path, folder_of: MakeFolder) -> None:
    folder = folder_of("unigram", manifest={"casing_classes": True})
    with pytest.raises(ModelError, match="token_type_ids"):
        Classifier(ModelFolder.load(folder))
