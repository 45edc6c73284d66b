"""`labelwatch push label-studio` against a server that answers like Label Studio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.log.protocol import Output
from tests.support import platform_bodies as bodies
from tests.support.command_harness import CommandHarness, CommandResult
from tests.unit.formats.platforms.label_studio.test_predictions import assessment
from tests.unit.integrations.label_studio.fake_label_studio import JWT, FakeLabelStudio, serve
from tests.unit.integrations.label_studio.review_messages import (
    TOPICS,
    make_decision,
    make_flagged,
    make_task_deletion,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLabelStudio]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LABEL_STUDIO_TOKEN", "right")
    with serve(FakeLabelStudio()) as server:
        yield server


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def push(harness: CommandHarness, studio: FakeLabelStudio, *options: object) -> CommandResult:
    return harness.run("push", "label-studio", "--url", studio.url, "--project", 3, *options)


def test_predictions_are_pushed_once(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8))
    result = push(harness, studio)
    assert (result.code, result.err) == (0, "")
    assert result.out == "2 predictions pushed to project 3; 0 were there already; 0 no longer right were removed\n"
    first, second = studio.predictions.values()
    assert (first["task"], second["task"], first["mislabeling"], first["score"]) == (7, 8, 0.75, 0.125)
    assert [region["value"]["labels"] for region in first["result"]] == [["PER"], ["LOC"], ["LOC"]]
    assert push(harness, studio).out.startswith("0 predictions pushed to project 3; 2 were there already; 0 no")
    assert len(studio.predictions) == 2


def test_predictions_that_no_longer_hold_are_removed_and_those_of_others_stay(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    studio.predictions[50] = {
        "id": 50,
        "task": 7,
        "model_version": "theirs",
        "result": [],
        "score": 1,
        "mislabeling": 0,
    }
    harness.append(make_flagged(), make_flagged(42, task=8), make_flagged(43, task=9), make_flagged(44, task=10))
    push(harness, studio)
    deleted = make_flagged(
        42, deleted=True, flags=(), tokens=(), labels=(), meta={"format": "label-studio"}, revision=2
    )
    corrected = make_flagged(43, task=9, flags=(), suspects=(), reason="update", update=True, revision=2)
    harness.append(make_flagged(suggested="PER", revision=2), deleted, corrected)
    result = push(harness, studio)
    assert result.out == "1 prediction pushed to project 3; 1 were there already; 3 no longer right were removed\n"
    assert sorted((prediction["task"], prediction["model_version"][:10]) for prediction in studio.predictions.values()) == [
        (7, "labelwatch"), (7, "theirs"), (10, "labelwatch"),
    ]  # fmt: skip


def test_predictions_are_read_from_all_pages(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(*(make_flagged(40 + number, task=number) for number in range(1, 6)))
    push(harness, studio)
    studio.page_size = 2
    assert "0 predictions pushed to project 3; 5 were there already" in push(harness, studio).out
    requested = [path for method, path in studio.calls if "?" in path][-3:]
    assert requested == [
        f"/api/predictions/?{query}" for query in ("project=3", "page=2&project=3", "page=3&project=3")
    ]
    studio.endless = True
    result = push(harness, studio)
    assert result.code == 1
    assert "does not answer like Label Studio" in result.err


# -- decisions of reviewers ------------------------------------------------------------------------------------------------


def labels_of(prediction: dict[str, Any]) -> dict[str, str]:
    return {region["value"]["text"]: region["value"]["labels"][0] for region in prediction["result"]}


CORRECTED = ("B-PER", "I-PER", "O", "O", "B-PER", "O", "B-LOC", "O")


def test_a_prediction_about_a_label_that_reviewers_find_right_is_removed(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8))
    push(harness, studio)
    harness.append(make_decision("ok"), make_decision("unsure", number=42), make_decision("ok", number=42, revision=0))
    assert push(harness, studio).out == (
        "0 predictions pushed to project 3; 1 were there already; 1 no longer right were removed\n"
    )
    assert [prediction["task"] for prediction in studio.predictions.values()] == [8]
    harness.append(make_decision("ok", withdrawn=True))
    assert push(harness, studio).out.startswith("1 prediction pushed to project 3; 1 were")
    harness.append(make_decision("ok"), Output(TOPICS.decisions, b"trips/label-studio:41/kim", None))
    assert push(harness, studio).out.startswith("0 predictions pushed to project 3; 2 were")


def test_corrected_labels_are_pushed_in_place_of_the_suggested_ones(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8))
    push(harness, studio)
    before = labels_of(studio.predictions[1])
    assert before["Tallinn"] == "LOC"
    harness.append(make_decision("error", labels=CORRECTED), make_decision("error", number=42))
    assert push(harness, studio).out == (
        "2 predictions pushed to project 3; 0 were there already; 2 no longer right were removed\n"
    )
    first, second = studio.predictions.values()
    assert labels_of(first) == before | {"Tallinn": "PER"}
    assert [region.get("score") for region in first["result"]] == [None, 1.0, None]
    assert labels_of(second) == before  # without corrected labels
    assert (first["mislabeling"], second["mislabeling"], first["score"]) == (1.0, 1.0, 0.125)
    assert push(harness, studio).out.startswith("0 predictions pushed to project 3; 2 were")


def test_where_reviewers_differ_the_suggestion_of_the_model_stays(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    harness.append(make_flagged(), make_decision("ok"), make_decision("error", reviewer="lee", labels=CORRECTED))
    push(harness, studio)
    assert (labels_of(studio.predictions[1])["Tallinn"], studio.predictions[1]["mislabeling"]) == ("LOC", 0.75)


def test_reviewers_whose_corrections_differ_still_confirm_the_error(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    other = ("B-LOC", *CORRECTED[1:])
    harness.append(
        make_flagged(), make_decision("error", labels=CORRECTED), make_decision("error", reviewer="lee", labels=other)
    )
    push(harness, studio)
    assert (labels_of(studio.predictions[1])["Tallinn"], studio.predictions[1]["mislabeling"]) == ("LOC", 1.0)


def test_corrected_labels_are_checked_and_renamed_too(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(), make_decision("error", labels=[*CORRECTED[:4], "B-CITY", *CORRECTED[5:]]))
    assert "project 3 has no label CITY" in push(harness, studio).err
    push(harness, studio, "--map", "CITY=LOC")
    assert labels_of(studio.predictions[1])["Tallinn"] == "LOC"


def test_a_correction_with_invalid_labels_affects_its_task_only(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8), make_decision("error", labels=["?"] * 8))
    result = push(harness, studio)
    assert result.out.startswith("1 prediction pushed"), result.err
    assert "1 were refused" in result.out
    assert "task 7 gets no prediction: " in result.err


def test_an_error_in_an_unflagged_sentence_is_pushed_with_its_corrected_labels(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    """A control sentence: nothing in it was flagged."""
    control: dict[str, Any] = {"flags": (), "suspects": (), "reason": "control"}
    harness.append(make_flagged(**control), make_flagged(42, task=8, **control))
    assert push(harness, studio).out.startswith("0 predictions pushed")
    harness.append(make_decision("error", labels=CORRECTED), make_decision("error", number=42))
    assert push(harness, studio).out.startswith("1 prediction pushed")
    assert labels_of(studio.predictions[1])["Tallinn"] == "PER"


def test_nothing_is_pushed_to_deleted_tasks(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8), make_flagged(43, task=9, revision=3))
    push(harness, studio)
    harness.append(*(make_task_deletion(task) for task in (7, 9, 70)))
    assert push(harness, studio).out == (
        "0 predictions pushed to project 3; 2 were there already; 1 no longer right were removed\n"
    )
    assert [prediction["task"] for prediction in studio.predictions.values()] == [8, 9]


def test_erased_sentences_are_not_pushed_again(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8))
    push(harness, studio)
    harness.append(Output(TOPICS.review, b"trips/label-studio:41", None))
    assert push(harness, studio).out.endswith("1 were there already; 1 no longer right were removed\n")
    assert [prediction["task"] for prediction in studio.predictions.values()] == [8]
    assert push(harness, studio).out.endswith("1 were there already; 0 no longer right were removed\n")


def test_labels_are_checked_before_anything_is_pushed(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(), make_flagged(42, task=8, suggested="MISC"))
    result = push(harness, studio)
    assert result.code == 1
    assert "nothing was pushed: project 3 has no label MISC, only LOC, ORG, PER: add it there" in result.err
    assert studio.predictions == {}
    result = push(harness, studio, "--map", "MISC=ORG")
    assert result.out.startswith("2 predictions pushed")
    assert studio.predictions[2]["result"][1]["value"]["labels"] == ["ORG"]


def test_suggestions_in_the_datasets_own_names_are_not_renamed_again(
    harness: CommandHarness, studio: FakeLabelStudio
) -> None:
    swapped = {"ORG": "LOC", "LOC": "ORG"}
    harness.append_settings(**DatasetSettings(name="trips", label_map=swapped).model_dump())
    harness.append(make_flagged(suggested="ORG"))
    assert push(harness, studio).out.startswith("1 prediction pushed")
    assert studio.predictions[1]["result"][1]["value"]["labels"] == ["ORG"]


def test_a_dry_run_changes_nothing(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged())
    result = push(harness, studio, "--dry-run")
    assert (
        result.out
        == "1 prediction would be pushed to project 3; 0 were there already; 0 no longer right would be removed\n"
    )
    assert {method for method, _ in studio.calls} == {"GET"}


def test_other_projects_datasets_and_platforms_are_left_out(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    elsewhere = make_flagged(meta={"format": "label-studio", "project": "4", "task": "7"})
    foreign = make_flagged(42, meta={"format": "doccano"})
    harness.append(elsewhere, foreign, Output(TOPICS.review, b"x", b"not json"), make_flagged(43, task=9))
    result = push(harness, studio)
    assert "1 prediction pushed" in result.out
    assert "1 message of other datasets or platforms left out" in result.out
    assert push(harness, studio, "--dataset", "others").out.startswith("0 predictions pushed")


def test_a_sentence_without_its_text_is_left_out(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged(meta={"format": "label-studio", "project": "3", "task": "7"}))
    assert "1 sentence without text left out" in push(harness, studio).out


def test_a_refused_prediction_affects_its_task_only(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    studio.refuse_tasks = {7}
    harness.append(make_flagged(), make_flagged(42, task=8))
    result = push(harness, studio)
    assert result.code == 0
    assert "1 prediction pushed" in result.out
    assert "1 were refused" in result.out
    assert "task 7 gets no prediction: Label Studio refused it with 400" in result.err


def test_personal_tokens_are_exchanged_and_renewed(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged())
    result = harness.run("push", "label-studio", "--url", studio.url, "--project", 3, "--token-env", "MINE", MINE=JWT)
    assert result.out.startswith("1 prediction pushed"), result.err
    assert studio.calls[0] == ("POST", "/api/token/refresh/")


def test_one_of_several_span_controls_is_chosen(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    studio.config = {"other": bodies.CONFIG["label"], **bodies.CONFIG}
    harness.append(
        make_flagged(meta={**(assessment().meta or {}), "format": "label-studio", "project": "3", "task": "7"})
    )
    result = push(harness, studio)
    assert result.code == 1
    assert "several controls for spans: choose --control other, label" in result.err
    assert push(harness, studio, "--control", "other").out.startswith("1 prediction pushed")
    assert studio.predictions[1]["result"][0]["from_name"] == "other"


@pytest.mark.parametrize(
    ("options", "variables", "text"),
    [
        ([], {"LABEL_STUDIO_TOKEN": ""}, "LABEL_STUDIO_TOKEN is not set"),
        ([], {"LABEL_STUDIO_TOKEN": "wrong"}, "does not accept the token"),
        ([], {"LABEL_STUDIO_TOKEN": "a.b.c"}, "does not accept the token"),
        ([], {"LABEL_STUDIO_TOKEN": "two\nlines"}, "the token is not one of Label Studio's"),
        (["--project", "9"], {}, "refused it with 404"),
        (["--control", "none"], {}, "project 3 has no control for spans called none"),
        (["--url", "ftp://x"], {}, "--url: 'ftp://x' is not an address"),
        (["--url", "http://127.0.0.1:1"], {}, "http://127.0.0.1:1 does not answer"),
        (["--map", "PER"], {}, "'PER' is not OLD=NEW"),
    ],
)
def test_errors_say_what_to_change(
    harness: CommandHarness, studio: FakeLabelStudio, options: list[str], variables: dict[str, str], text: str
) -> None:
    harness.append(make_flagged())
    result = harness.run("push", "label-studio", "--url", studio.url, "--project", "3", *options, **variables)
    assert result.code in (1, 2)
    assert text in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err


def test_the_token_does_not_follow_a_redirect(harness: CommandHarness, studio: FakeLabelStudio) -> None:
    harness.append(make_flagged())
    studio.redirect = "http://127.0.0.1:1/elsewhere"
    result = push(harness, studio)
    assert result.code == 1
    assert "redirects to http://127.0.0.1:1/elsewhere" in result.err


def test_flags_that_arrive_later_are_pushed_with_follow(
    harness: CommandHarness, studio: FakeLabelStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.append(make_flagged())
    pauses = iter(range(2))

    def pause(_: float) -> None:
        number = next(pauses, None)
        if number is None:
            raise KeyboardInterrupt
        if number == 0:
            harness.append(make_flagged(42, task=8), make_decision("ok"))

    monkeypatch.setattr("service.cli.stream.push.time.sleep", pause)
    result = push(harness, studio, "--follow")
    assert result.code == 0
    assert result.out.startswith("1 prediction pushed")
    assert "1 prediction pushed" in result.err
    assert [prediction["task"] for prediction in studio.predictions.values()] == [8]
