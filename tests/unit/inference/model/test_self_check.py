from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.errors import ModelError
from service.inference.model.self_check import check_model_folder
from tests.support.tiny_models import TOKENIZER_KINDS, TokenizerKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.inference.conftest import MakeFolder


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_folder_that_works(folder_of: MakeFolder, kind: TokenizerKind) -> None:
    report = check_model_folder(folder_of(kind))
    assert report.is_batch_invariant
    assert report.batch_deviation == 0
    assert report.sentences_per_second > 0
    text = report.to_text()
    assert "9: O B-MISC" in text
    assert "iob2" in text
    assert "sentences/s" in text
    assert "The folder works." in text


def test_a_folder_that_depends_on_batch_mates_is_reported(folder_of: MakeFolder) -> None:
    report = check_model_folder(folder_of("wordpiece", rounding=20.0))
    assert not report.is_batch_invariant
    assert report.batching == "single"
    assert "NO (probabilities move by" in report.to_text()


def test_a_folder_that_does_not_work(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"neither model\.json nor config\.json"):
        check_model_folder(tmp_path)
