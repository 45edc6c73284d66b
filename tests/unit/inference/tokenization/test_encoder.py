from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput, ModelError
from service.inference.model.folder import ModelFolder
from service.inference.tokenization.encoder import NO_SUBWORD, NOT_UNICODE, NOT_VISIBLE, Encoder
from service.inference.tokenization.word_shape import classify_casing
from tests.support.tiny_models import MAX_LENGTH, TOKENIZER_KINDS, TokenizerKind, make_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from service.inference.tokenization.encoder import EncodedSentence
    from tests.unit.inference.conftest import MakeFolder

SENTENCE = ["Paris", ",", "said", "Timberwolves", "on", "Monday", "(", "MIN", ")", "é", "日", "."]
SPECIAL = ["[SEP]", "[CLS]", "[MASK]", "[PAD]", "<s>", "</s>", "<pad>", "<mask>", "a</s>b", "[SEP]x"]
INVISIBLE = ["", "\u200b", "\u00ad", "\ufffd", "\x01", " ", "\u200b\u00ad"]


@pytest.fixture(scope="module")
def encoder_of(folder_of: MakeFolder) -> Any:
    return lambda kind, **options: Encoder(ModelFolder.load(folder_of(kind, **options)))


def changed_tokenizer(folder: Path, to: Path, change: Any) -> Path:
    """A copy of a folder in which the tokenizer's JSON is another."""
    shutil.copytree(folder, to)
    content = json.loads((to / "tokenizer.json").read_text())
    change(content)
    (to / "tokenizer.json").write_text(json.dumps(content))
    return to


def subword_words(encoded: EncodedSentence) -> list[list[int]]:
    """The words of each subword."""
    words_by_subword: list[list[int]] = [[] for _ in range(encoded.n_subwords)]
    for subword, word in zip(encoded.overlaps.subword, encoded.overlaps.word, strict=True):
        words_by_subword[subword].append(int(word))
    return words_by_subword


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_ids_are_the_tokenizers_own(encoder_of: Any, kind: TokenizerKind) -> None:
    (encoded,) = encoder_of(kind).encode([SENTENCE])
    tokenizer = make_tokenizer(kind)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if kind == "bytelevel":
        tokenizer.pre_tokenizer.add_prefix_space = True
    expected = tokenizer.encode(SENTENCE, is_pretokenized=True)
    (window,) = encoded.windows
    assert window.ids.tolist() == expected.ids
    assert subword_words(encoded) == [[word] for word in expected.word_ids if word is not None]
    assert (window.keep_start, window.keep_end) == (1, len(expected.ids) - 1)
    assert window.token_types is None
    assert not encoded.unscored


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_words_come_one_by_one_with_the_space_before_them(encoder_of: Any, kind: TokenizerKind) -> None:
    """The first word and the second alike: one entry of each vocabulary."""
    (encoded,) = encoder_of(kind).encode([["the", "the"]])
    ids = encoded.windows[0].ids.tolist()
    assert len(ids) == 4
    assert ids[1] == ids[2]


def test_metaspace_that_never_prepends_is_changed_to_prepend(folder_of: MakeFolder, tmp_path: Path) -> None:
    folder = changed_tokenizer(
        folder_of("unigram"), tmp_path / "never", lambda c: c["pre_tokenizer"].update(prepend_scheme="never")
    )
    assert Encoder(ModelFolder.load(folder)).encode([["the"]])[0].n_subwords == 1


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_text_is_never_a_special_token(encoder_of: Any, kind: TokenizerKind) -> None:
    encoder = encoder_of(kind)
    special = np.flatnonzero(encoder._tokenizer.is_special)
    assert len(special) >= 3
    (encoded,) = encoder.encode([SPECIAL])
    for window in encoded.windows:
        assert not np.isin(window.ids[1:-1], special).any()
    assert not encoded.unscored


def test_a_special_entry_the_model_itself_finds_becomes_unknown(folder_of: MakeFolder, tmp_path: Path) -> None:
    folder = changed_tokenizer(
        folder_of("wordpiece"), tmp_path / "spaces", lambda c: c.update(pre_tokenizer={"type": "WhitespaceSplit"})
    )
    (encoded,) = Encoder(ModelFolder.load(folder)).encode([["the", "[sep]", "[SEP]", "the"]])
    ids = encoded.windows[0].ids.tolist()
    assert ids.count(ids[-1]) == 1
    assert not encoded.unscored


def test_a_tokenizer_that_fails_on_unknown_characters_is_refused(folder_of: MakeFolder, tmp_path: Path) -> None:
    folder = changed_tokenizer(folder_of("unigram"), tmp_path / "known", lambda c: c["model"].update(unk_id=None))
    with pytest.raises(ModelError, match="unknown token"):
        Encoder(ModelFolder.load(folder))


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_words_that_cannot_be_seen_are_unscored_and_leave_the_others_alone(
    encoder_of: Any, kind: TokenizerKind
) -> None:
    encoder = encoder_of(kind)
    mixed = [word for pair in zip(SENTENCE, [*INVISIBLE, *INVISIBLE], strict=False) for word in pair]
    plain, holed = encoder.encode([SENTENCE, mixed])
    assert holed.windows[0].ids.tolist() == plain.windows[0].ids.tolist()
    assert holed.n_words == len(mixed)
    assert dict(holed.unscored) == dict.fromkeys(range(1, len(mixed), 2), NOT_VISIBLE)
    assert [[2 * word for word in words] for words in subword_words(plain)] == subword_words(holed)


@pytest.mark.parametrize("joining", ["words", "text"])
@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_half_of_a_surrogate_pair_is_unscored(encoder_of: Any, kind: TokenizerKind, joining: str) -> None:
    (encoded,) = encoder_of(kind, manifest={"joining": joining}).encode([["the", "x\ud800", "of"]])
    assert dict(encoded.unscored) == {1: NOT_UNICODE}
    assert sorted(set(encoded.overlaps.word.tolist())) == [0, 2]


def test_a_word_that_the_tokenizer_drops_is_unscored(encoder_of: Any) -> None:
    (encoded,) = encoder_of("wordpiece").encode([["the", "\u0300", "of"]])
    assert dict(encoded.unscored) == {1: NO_SUBWORD}


@pytest.mark.parametrize("joining", ["words", "text"])
def test_nothing_to_score(encoder_of: Any, joining: str) -> None:
    encoder = encoder_of("wordpiece", manifest={"joining": joining})
    assert encoder.encode([]) == []
    empty, blank, some = encoder.encode([[], ["", "\u200b"], ["the"]])
    assert (empty.n_words, empty.windows) == (0, ())
    assert (blank.n_words, blank.windows, len(blank.unscored)) == (2, (), 2)
    assert len(some.windows) == 1


def test_a_subword_over_several_words_belongs_to_each(encoder_of: Any) -> None:
    manifest = {"joining": "text", "capitalise_caps": True}
    (encoded,) = encoder_of("unigram", manifest=manifest).encode([["Minnesota", "Timberwolves", "(", "MIN", ")"]])
    assert subword_words(encoded)[-1] == [2, 3, 4]
    assert encoded.overlaps.characters[-3:].tolist() == [1, 3, 1]
    assert subword_words(encoded)[-2] == [1]


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_text_and_words_agree_on_plain_words(encoder_of: Any, kind: TokenizerKind) -> None:
    words = ["the", "land", "of", "paris"]
    (by_word,) = encoder_of(kind).encode([words])
    (by_text,) = encoder_of(kind, manifest={"joining": "text"}).encode([["said", *words]])
    assert by_text.windows[0].ids.tolist()[-len(words) - 1 :] == by_word.windows[0].ids.tolist()[1:]
    assert subword_words(by_text)[-len(words) :] == [[1], [2], [3], [4]]


def test_capitals_are_lowered_only_where_the_manifest_says_so(encoder_of: Any) -> None:
    def ids(capitalise: bool, word: str) -> list[int]:
        encoder = encoder_of("bytelevel", manifest={"joining": "text", "capitalise_caps": capitalise})
        answer: list[int] = encoder.encode([["x", word]])[0].windows[0].ids.tolist()
        return answer

    assert ids(True, "JAPAN") == ids(False, "Japan")
    assert ids(False, "JAPAN") != ids(False, "Japan")


def test_casing_classes_are_the_token_types(encoder_of: Any) -> None:
    words = ["The", "U.S.", "said", "", "4th", "Timberwolves", "7"]
    (encoded,) = encoder_of("wordpiece", casing=True).encode([words])
    (window,) = encoded.windows
    assert window.token_types is not None
    expected = [classify_casing(words[word]) for (word,) in subword_words(encoded)]
    assert window.token_types.tolist() == [0, *expected, 0]
    assert {2, 3, 1, 7, 6} == set(expected)


def test_of_several_words_over_a_subword_the_first_gives_the_type(folder_of: MakeFolder, tmp_path: Path) -> None:
    folder = tmp_path / "text"
    shutil.copytree(folder_of("unigram", manifest={"joining": "text", "casing_classes": True}), folder)
    (encoded,) = Encoder(ModelFolder.load(folder)).encode([["7", "(", "MIN", ")"]])
    types = encoded.windows[0].token_types
    assert types is not None
    assert types[-2] == 0
    assert 6 in types


@settings(deadline=None, max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_every_subword_is_kept_once_however_long(encoder_of: Any, kind: TokenizerKind, data: st.DataObject) -> None:
    encoder = encoder_of(kind)
    word = st.sampled_from(["the", "", "timberwolves", "x" * 90, "Rhine", "日", "\u200b", "paris" * 30])
    sentences = data.draw(st.lists(st.lists(word, max_size=40), max_size=4))
    for words, encoded in zip(sentences, encoder.encode(sentences), strict=True):
        seen = [word if word != "\u200b" else "" for word in words]
        tokens = encoder._tokenizer.tokenizer.encode(seen, is_pretokenized=True, add_special_tokens=False)
        kept = [int(i) for w in encoded.windows for i in w.ids[w.keep_start : w.keep_end]]
        assert kept == tokens.ids
        assert all(len(w.ids) <= MAX_LENGTH for w in encoded.windows)
        assert subword_words(encoded) == [[i] for i in tokens.word_ids]
        assert {*encoded.unscored, *encoded.overlaps.word.tolist()} == set(range(len(words)))


def test_windows_are_cut_between_words(encoder_of: Any) -> None:
    (encoded,) = encoder_of("wordpiece").encode([["timberwolves", "said"] * 100])
    starts = {
        subword for subword, (left, right) in enumerate(pairwise([[-1], *subword_words(encoded)])) if left != right
    }
    position = 0
    for window in encoded.windows:
        assert position in starts
        position += window.keep_end - window.keep_start
    assert len(encoded.windows) > 5


@pytest.mark.parametrize("joining", ["words", "text"])
def test_five_thousand_words(encoder_of: Any, joining: str) -> None:
    words = [f"{SENTENCE[i % 12]}{i}" for i in range(5000)]
    (encoded,) = encoder_of("wordpiece", manifest={"joining": joining}).encode([words])
    assert not encoded.unscored
    assert sorted(set(encoded.overlaps.word.tolist())) == list(range(5000))


@pytest.mark.parametrize("sentence", [["the", 7], ["the", None], [b"the"]])
def test_a_word_that_is_no_string_is_named(encoder_of: Any, sentence: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="a word must be a string") as caught:
        encoder_of("wordpiece").encode([["fine"], sentence])
    assert (caught.value.sentence, caught.value.word) == (1, len(sentence) - 1)


def test_a_sentence_that_is_one_string_is_refused(encoder_of: Any) -> None:
    with pytest.raises(InvalidInput, match="give a list of words"):
        encoder_of("wordpiece").encode(["the land"])


def test_a_tokenizer_that_cannot_be_read(folder_of: MakeFolder, tmp_path: Path) -> None:
    folder = changed_tokenizer(folder_of("wordpiece"), tmp_path / "odd", lambda c: c.update(model={"type": "Magic"}))
    with pytest.raises(ModelError, match="is not a tokenizer"):
        Encoder(ModelFolder.load(folder))
