"""Reading and checking an .npz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.errors import DecodeError, InvalidInput
from service.evaluation.data import (
    MERGED,
    REQUIRED_ARRAYS,
    UNMERGED,
    EvaluationData,
    check_same_sentences,
    read_evaluation_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray]
    Save = Callable[..., Path]


def test_reads_all_arrays(arrays: Arrays, data: EvaluationData) -> None:
    assert data.name == "small"
    assert data.labels == tuple(arrays["labels"])
    assert data.flat.n_sentences == 80
    assert data.variants == (UNMERGED, MERGED)
    np.testing.assert_array_equal(data.flat.lengths, arrays["lengths"])


@pytest.mark.parametrize("key", REQUIRED_ARRAYS)
def test_a_missing_array_is_named(arrays: Arrays, save: Save, key: str) -> None:
    del arrays[key]
    with pytest.raises(InvalidInput, match=f"no array '{key}'") as raised:
        read_evaluation_data(save(arrays))
    assert raised.value.field == key


def replace_array(key: str, value: object) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[key] = np.asarray(value)

    return change


def set_entry(key: str, index: int | tuple[int, int], value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[key] = arrays[key].copy()
        arrays[key][index] = value

    return change


def drop_last(key: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[key] = arrays[key][:-1]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry("probs", (3, 0), np.nan), "probs"),
        (set_entry("probs", 3, 0.5), "probs"),
        (replace_array("probs", [1.0, 0.0]), "one row of probabilities per word"),
        (drop_last("probs"), "rows of probabilities"),
        (set_entry("given", 0, 9), "given"),
        (replace_array("given", [0.5]), "one-dimensional array of integers"),
        (drop_last("corrected"), "corrected"),
        (set_entry("corrected", 4, 7), "entry 4 is class 7"),
        (set_entry("lengths", 0, 0), "lengths"),
        (drop_last("lengths"), "rows of probabilities"),
        (replace_array("keep", [True]), "80 sentences"),
        (replace_array("keep", np.ones(80)), "boolean for each of the 80 sentences"),
        (replace_array("keep", np.zeros(80, dtype=bool)), "no sentence is kept"),
        (drop_last("labels"), "4 names for 5 classes"),
        (replace_array("labels", ["O", "O", "A", "B", "C"]), "each class needs a unique name"),
        (replace_array("merge", [0, 1, 1, 3, 3]), "without a gap"),
        (replace_array("merge", [0, 1, 1, -1, 2]), "merge"),
        (replace_array("merge", [0, 1]), "merge"),
        (replace_array("words", ["one"]), "one string for each of the"),
        (replace_array("words", [1, 2]), "one string for each of the"),
        (replace_array("second_corrected", [0, 1]), "second_corrected"),
        (replace_array("dev_probs", [[1.0, 0, 0, 0, 0]]), "both dev_probs and dev_given"),
    ],
)
def test_errors_name_the_array(arrays: Arrays, save: Save, change: Callable[[Arrays], None], message: str) -> None:
    change(arrays)
    with pytest.raises(InvalidInput, match=message):
        read_evaluation_data(save(arrays))


def test_no_sentences_at_all(arrays: Arrays, save: Save) -> None:
    empty = {key: value if key in {"labels", "merge"} else value[:0] for key, value in arrays.items()}
    with pytest.raises(InvalidInput, match="contains no sentences"):
        read_evaluation_data(save(empty))


def test_pickled_arrays_are_refused(arrays: Arrays, save: Save) -> None:
    arrays["labels"] = np.array(["O", None, "A", "B", "C"], dtype=object)
    with pytest.raises(DecodeError, match="plain arrays"):
        read_evaluation_data(save(arrays))


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(DecodeError, match=r"not an \.npz"):
        read_evaluation_data(tmp_path / "single.npy")
    with pytest.raises(InvalidInput, match="no file"):
        read_evaluation_data(tmp_path / "none.npz")


def test_a_damaged_archive(arrays: Arrays, save: Save) -> None:
    path = save(arrays)
    content = bytearray(path.read_bytes())
    content[200:400] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(DecodeError, match="can't be read"):
        read_evaluation_data(path)


def test_sentences_that_are_not_kept_are_left_out(arrays: Arrays, data: EvaluationData) -> None:
    kept = data.build_variant(UNMERGED)
    assert kept.flat.n_sentences == 76
    np.testing.assert_array_equal(kept.flat.lengths, arrays["lengths"][arrays["keep"]])
    words = np.repeat(arrays["keep"], arrays["lengths"])
    np.testing.assert_array_equal(kept.wrong_words, (arrays["given"] != arrays["corrected"])[words])
    starts = np.cumsum(arrays["lengths"]) - arrays["lengths"]
    wrong = [
        (arrays["given"] != arrays["corrected"])[s : s + n].any()
        for s, n in zip(starts, arrays["lengths"], strict=True)
    ]
    np.testing.assert_array_equal(kept.wrong_sentences, np.array(wrong)[arrays["keep"]])
    np.testing.assert_array_equal(np.bincount(kept.sentence_of_word), kept.flat.lengths)


def test_merging_forgives_a_wrong_prefix(arrays: Arrays, save: Save) -> None:
    arrays["given"] = arrays["corrected"].copy()
    index = int(np.flatnonzero(arrays["corrected"] == 1)[0])
    arrays["given"][index] = 2
    arrays["keep"] = np.ones(80, dtype=bool)
    data = read_evaluation_data(save(arrays))
    assert data.build_variant(UNMERGED).wrong_words.sum() == 1
    merged = data.build_variant(MERGED)
    assert merged.wrong_words.sum() == 0
    assert merged.classes == ("O", "PER", "LOC")
    np.testing.assert_allclose(merged.flat.probs[:, 1], arrays["probs"][:, 1:3].sum(axis=1), rtol=1e-6)


def test_merging_that_merges_nothing_is_left_out(arrays: Arrays, save: Save) -> None:
    arrays["merge"] = np.arange(5)
    assert read_evaluation_data(save(arrays)).variants == (UNMERGED,)


def test_held_out_words_give_sums_of_each_variant(arrays: Arrays, save: Save) -> None:
    arrays["dev_probs"] = np.array([[0.1, 0.5, 0.3, 0.1, 0.0], [0.0, 0.2, 0.6, 0.1, 0.1]])
    arrays["dev_given"] = np.array([1, 2])
    held_out = read_evaluation_data(save(arrays)).held_out
    assert held_out[UNMERGED].sums == pytest.approx((0, 0.5, 0.6, 0, 0))
    assert held_out[UNMERGED].counts == (0, 1, 1, 0, 0)
    assert held_out[MERGED].sums == pytest.approx((0, 1.6, 0))
    assert held_out[MERGED].counts == (0, 2, 0)


def test_held_out_words_obey_the_same_rules(arrays: Arrays, save: Save) -> None:
    arrays["dev_given"] = np.array([1, 2])
    arrays["dev_probs"] = np.array([[0.1, 0.5, 0.3, 0.1, 0.0], [0.0, 0.2, 0.2, 0.1, 0.1]])
    with pytest.raises(InvalidInput, match="word 1, `dev_probs`"):
        read_evaluation_data(save(arrays))
    arrays["dev_probs"] = np.array([[0.5, 0.5], [1, 0]])
    with pytest.raises(InvalidInput, match="2 classes where probs has 5"):
        read_evaluation_data(save(arrays))


@pytest.mark.parametrize("key", ["given", "corrected"])
def test_other_labels_are_not_the_same_sentences(arrays: Arrays, data: EvaluationData, save: Save, key: str) -> None:
    check_same_sentences(data, data)
    arrays[key] = arrays[key].copy()
    arrays[key][5] = (arrays[key][5] + 1) % 5
    with pytest.raises(InvalidInput, match="not the same sentences") as raised:
        check_same_sentences(data, read_evaluation_data(save(arrays, "other.npz")))
    assert raised.value.field == key


def test_words_and_a_second_correction_are_those_of_the_kept_sentences(arrays: Arrays, save: Save) -> None:
    n = len(arrays["given"])
    arrays["words"] = np.array([f"w{i}" for i in range(n)])
    arrays["second_corrected"] = arrays["corrected"].copy()
    arrays["second_corrected"][0] = (arrays["corrected"][0] + 1) % 5
    variant = read_evaluation_data(save(arrays)).build_variant("unmerged")
    kept = np.repeat(arrays["keep"], arrays["lengths"])
    assert variant.words == tuple(f"w{i}" for i in np.flatnonzero(kept))
    agreed = variant.agreed_sentences
    assert agreed is not None
    assert agreed.tolist() == [False] + [True] * (variant.flat.n_sentences - 1)


def test_corrections_that_differ_in_the_prefix_agree_on_types(arrays: Arrays, save: Save) -> None:
    arrays["second_corrected"] = np.where(arrays["corrected"] == 2, 1, arrays["corrected"])
    data = read_evaluation_data(save(arrays))
    unmerged, merged = (data.build_variant(name).agreed_sentences for name in data.variants)
    assert unmerged is not None
    assert merged is not None
    assert merged.all()
    assert not unmerged.all()
