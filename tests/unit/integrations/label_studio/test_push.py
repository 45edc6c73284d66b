"""Predictions pushed to something that answers as Label Studio does."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from service.contracts import Claim, DatasetSettings, Decision
from service.integrations.label_studio.open_flags import TaskState
from service.log.protocol import Output, Record
from service.log.topics import Topics
from service.review.messages import build_claim_message, build_decision_message
from tests.support import platform_bodies as bodies
from tests.support.command_harness import CommandHarness, CommandResult
from tests.unit.formats.platforms.label_studio.test_predictions import assessment, suspect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = Topics()
JWT = "eyJh.eyJz.sig"


class FakeLabelStudio(ThreadingHTTPServer):
    """Projects and predictions in memory, the two kinds of tokens, and what it is told to refuse."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.predictions: dict[int, dict[str, Any]] = {}
        self.config: Any = bodies.CONFIG
        self.access = "access-1"
        self.refuse_tasks: set[int] = set()
        self.calls: list[tuple[str, str]] = []
        self.redirect: str | None = None
        self.page_size: int | None = None
        self.endless = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeLabelStudio

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        pass

    def _answer(self, status: int, body: object = None, **headers: str) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _handle(self) -> None:  # noqa: PLR0911 - one for each answer
        server, path = self.server, self.path
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        server.calls.append((self.command, path))
        if server.redirect is not None:
            return self._answer(302, Location=server.redirect)
        if path == "/api/token/refresh/":
            return self._answer(200, {"access": server.access}) if body == {"refresh": JWT} else self._answer(401)
        if self.headers["Authorization"] not in ("Token right", f"Bearer {server.access}"):
            return self._answer(401, {"detail": "Invalid token."})
        match self.command, path:
            case "GET", "/api/projects/3/":
                return self._answer(200, {"id": 3, "parsed_label_config": server.config})
            case "GET", _ if path.startswith("/api/predictions/?"):
                return self._list(parse_qs(path.partition("?")[2]))
            case "POST", "/api/predictions/":
                if body["task"] in server.refuse_tasks:
                    return self._answer(400, {"task": ["Invalid pk - object does not exist."]})
                number = max(server.predictions, default=0) + 1
                server.predictions[number] = {"id": number, "project": 3, **body}
                return self._answer(201, server.predictions[number])
            case "DELETE", _ if path.startswith("/api/predictions/"):
                found = server.predictions.pop(int(path.rstrip("/").rpartition("/")[2]), None)
                return self._answer(204 if found else 404)
        return self._answer(404, {"detail": "Not found."})

    def _list(self, query: dict[str, list[str]]) -> None:
        """All at once as version 1.23 does, or in pages as its other lists come."""
        server = self.server
        assert query["project"] == ["3"]
        listed, size = list(server.predictions.values()), server.page_size
        if size is None:
            return self._answer(200, listed)
        page = int(query.get("page", ["1"])[0])
        more = page * size < len(listed)
        # Behind a proxy Label Studio may not know by what name it was asked.
        following = f"http://inside.example.org/api/predictions/?page={page + 1}&project=3" if more else None
        if server.endless:
            following = f"{server.url}{self.path}"
        shown = listed[(page - 1) * size : page * size]
        return self._answer(200, {"count": len(listed), "next": following, "previous": None, "results": shown})

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - as http.server looks for them


@contextmanager
def serving(server: FakeLabelStudio) -> Iterator[FakeLabelStudio]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLabelStudio]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LABEL_STUDIO_TOKEN", "right")
    with serving(FakeLabelStudio()) as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def flagged(number: int | str = 41, *, task: int = 7, suggested: str = "LOC", revision: int = 1, **more: Any) -> Output:
    """A review message of an annotation whose ORG is doubted."""
    flag = {
        "index": 4,
        "token": "Tallinn",
        "given": "B-ORG",
        "suggested": f"B-{suggested}",
        "p_given": 0.1,
        "p_suggested": 0.8,
    }
    about = {"format": "label-studio", "project": "3", "task": str(task), "from_name": "label", "to_name": "text"}
    said = assessment(suspect((4, 5, "ORG"), (4, 5, suggested)), flags=[flag], dataset="trips", revision=revision)
    labels = ["B-PER" if label == "B-PERSON" else "I-PER" if label == "I-PERSON" else label for label in said.labels]
    said = said.model_copy(
        update={"id": f"label-studio:{number}", "labels": tuple(labels), "meta": {**(said.meta or {}), **about}, **more}
    )
    return Output(TOPICS.review, f"trips/{said.id}".encode(), said.model_dump_json().encode())


def push(desk: CommandHarness, studio: FakeLabelStudio, *options: object) -> CommandResult:
    return desk.run("push", "label-studio", "--url", studio.url, "--project", 3, *options)


def test_predictions_are_pushed_once(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8))
    ran = push(desk, studio)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "2 predictions pushed to project 3; 0 were there already; 0 no longer right were removed\n"
    first, second = studio.predictions.values()
    assert (first["task"], second["task"], first["mislabeling"], first["score"]) == (7, 8, 0.75, 0.125)
    assert [region["value"]["labels"] for region in first["result"]] == [["PER"], ["LOC"], ["LOC"]]
    assert push(desk, studio).out.startswith("0 predictions pushed to project 3; 2 were there already; 0 no")
    assert len(studio.predictions) == 2


def test_what_no_longer_holds_is_removed_and_others_stay(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    studio.predictions[50] = {
        "id": 50,
        "task": 7,
        "model_version": "theirs",
        "result": [],
        "score": 1,
        "mislabeling": 0,
    }
    desk.append(flagged(), flagged(42, task=8), flagged(43, task=9), flagged(44, task=10))
    push(desk, studio)
    gone = flagged(42, deleted=True, flags=(), tokens=(), labels=(), meta={"format": "label-studio"}, revision=2)
    corrected = flagged(43, task=9, flags=(), suspects=(), reason="update", update=True, revision=2)
    desk.append(flagged(suggested="PER", revision=2), gone, corrected)
    ran = push(desk, studio)
    assert ran.out == "1 prediction pushed to project 3; 1 were there already; 3 no longer right were removed\n"
    assert sorted((one["task"], one["model_version"][:10]) for one in studio.predictions.values()) == [
        (7, "labelwatch"), (7, "theirs"), (10, "labelwatch"),
    ]  # fmt: skip


def test_predictions_that_come_in_pages_are_all_known(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(*(flagged(40 + number, task=number) for number in range(1, 6)))
    push(desk, studio)
    studio.page_size = 2
    assert "0 predictions pushed to project 3; 5 were there already" in push(desk, studio).out
    asked = [path for method, path in studio.calls if "?" in path][-3:]
    assert asked == [f"/api/predictions/?{query}" for query in ("project=3", "page=2&project=3", "page=3&project=3")]
    studio.endless = True
    ran = push(desk, studio)
    assert ran.code == 1
    assert "does not answer like Label Studio" in ran.err


# -- what reviewers say ------------------------------------------------------------------------------------------------


def decision(verdict: str, *, number: int = 41, revision: int = 1, reviewer: str = "kim", **more: Any) -> Output:
    about = {"dataset": "trips", "id": f"label-studio:{number}", "revision": revision, "reviewer": reviewer}
    return build_decision_message(TOPICS, Decision.model_validate({**about, "verdict": verdict, **more}))


def labels_of(prediction: dict[str, Any]) -> dict[str, str]:
    return {region["value"]["text"]: region["value"]["labels"][0] for region in prediction["result"]}


CORRECTED = ("B-PER", "I-PER", "O", "O", "B-PER", "O", "B-LOC", "O")


def test_what_reviewers_found_right_is_taken_away(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8))
    push(desk, studio)
    desk.append(decision("ok"), decision("unsure", number=42), decision("ok", number=42, revision=0))
    assert push(desk, studio).out == (
        "0 predictions pushed to project 3; 1 were there already; 1 no longer right were removed\n"
    )
    assert [one["task"] for one in studio.predictions.values()] == [8]
    desk.append(decision("ok", withdrawn=True))
    assert push(desk, studio).out.startswith("1 prediction pushed to project 3; 1 were")
    desk.append(decision("ok"), Output(TOPICS.decisions, b"trips/label-studio:41/kim", None))
    assert push(desk, studio).out.startswith("0 predictions pushed to project 3; 2 were")


def test_reviewers_labels_are_pushed_in_place_of_the_models(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8))
    push(desk, studio)
    before = labels_of(studio.predictions[1])
    assert before["Tallinn"] == "LOC"
    desk.append(decision("error", labels=CORRECTED), decision("error", number=42))
    assert push(desk, studio).out == (
        "2 predictions pushed to project 3; 0 were there already; 2 no longer right were removed\n"
    )
    first, second = studio.predictions.values()
    assert labels_of(first) == before | {"Tallinn": "PER"}
    assert [region.get("score") for region in first["result"]] == [None, 1.0, None]
    assert labels_of(second) == before  # nobody said what is right
    assert (first["mislabeling"], second["mislabeling"], first["score"]) == (1.0, 1.0, 0.125)
    assert push(desk, studio).out.startswith("0 predictions pushed to project 3; 2 were")


def test_where_reviewers_differ_the_model_is_asked(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), decision("ok"), decision("error", reviewer="lee", labels=CORRECTED))
    push(desk, studio)
    assert (labels_of(studio.predictions[1])["Tallinn"], studio.predictions[1]["mislabeling"]) == ("LOC", 0.75)


def test_where_only_their_corrections_differ_it_is_an_error_all_the_same(
    desk: CommandHarness, studio: FakeLabelStudio
) -> None:
    other = ("B-LOC", *CORRECTED[1:])
    desk.append(flagged(), decision("error", labels=CORRECTED), decision("error", reviewer="lee", labels=other))
    push(desk, studio)
    assert (labels_of(studio.predictions[1])["Tallinn"], studio.predictions[1]["mislabeling"]) == ("LOC", 1.0)


def test_reviewers_labels_are_checked_and_renamed_too(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), decision("error", labels=[*CORRECTED[:4], "B-CITY", *CORRECTED[5:]]))
    assert "project 3 has no label CITY" in push(desk, studio).err
    push(desk, studio, "--map", "CITY=LOC")
    assert labels_of(studio.predictions[1])["Tallinn"] == "LOC"


def test_labels_that_are_none_cost_only_themselves(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8), decision("error", labels=["?"] * 8))
    ran = push(desk, studio)
    assert ran.out.startswith("1 prediction pushed"), ran.err
    assert "1 were refused" in ran.out
    assert "task 7 gets no prediction: " in ran.err


def test_an_error_that_only_a_reviewer_saw_is_pushed_with_its_labels(
    desk: CommandHarness, studio: FakeLabelStudio
) -> None:
    """A control sentence: nothing in it was flagged."""
    control: dict[str, Any] = {"flags": (), "suspects": (), "reason": "control"}
    desk.append(flagged(**control), flagged(42, task=8, **control))
    assert push(desk, studio).out.startswith("0 predictions pushed")
    desk.append(decision("error", labels=CORRECTED), decision("error", number=42))
    assert push(desk, studio).out.startswith("1 prediction pushed")
    assert labels_of(studio.predictions[1])["Tallinn"] == "PER"


def test_other_decisions_and_claims_are_left_alone() -> None:
    board = TaskState(3, "trips")
    board.apply_assessments([Record(TOPICS.review, 0, 0, None, flagged().value)])
    claim = build_claim_message(TOPICS, Claim(dataset="trips", id="label-studio:41", reviewer="kim"))
    other_dataset = decision("ok", dataset="others")
    elsewhere = (other_dataset.key, other_dataset.value)
    unread = (b"trips/label-studio:41/kim", b"not json")
    for key, value in ((claim.key, claim.value), elsewhere, unread, (b"odd", b"{}"), (None, None)):
        assert board.apply_decisions([Record(TOPICS.decisions, 0, 0, key, value)]) == []
    unknown = decision("ok", number=99)
    assert board.apply_decisions([Record(TOPICS.decisions, 0, 0, unknown.key, unknown.value)]) == []
    assert len(board.open_flags(7)) == 1


def gone_task(task: int, *, revision: int = 2, **meta: str) -> Output:
    about = {"format": "label-studio", "task": str(task), "project": "3", **meta}
    bare: dict[str, Any] = {
        "flags": (),
        "suspects": (),
        "tokens": (),
        "labels": (),
        "deleted": True,
        "reason": "deleted",
    }
    return flagged(f"task:{task}", revision=revision, meta=about, **bare)


def test_nothing_is_pushed_to_tasks_that_are_gone(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8), flagged(43, task=9, revision=3))
    push(desk, studio)
    desk.append(*(gone_task(task) for task in (7, 9, 70)))
    assert push(desk, studio).out == (
        "0 predictions pushed to project 3; 2 were there already; 1 no longer right were removed\n"
    )
    assert [one["task"] for one in studio.predictions.values()] == [8, 9]


def test_an_older_revision_that_comes_late_changes_nothing() -> None:
    board = TaskState(3, None)
    older = flagged(flags=(), suspects=(), reason="update", revision=0)
    records = [Record(TOPICS.review, 0, place, one.key, one.value) for place, one in enumerate((flagged(), older))]
    assert board.apply_assessments(records) == [7]
    assert [doubt.assessment.revision for doubt in board.open_flags(7)] == [1]


def test_an_older_revision_that_comes_after_the_deletion_changes_nothing() -> None:
    """The deletion does not name the task, and is known all the same."""
    board = TaskState(3, None)
    bare: dict[str, Any] = {"flags": (), "suspects": (), "tokens": (), "labels": (), "meta": {"format": "label-studio"}}
    deleted = flagged(revision=5, deleted=True, reason="deleted", **bare)
    records = [Record(TOPICS.review, 0, place, one.key, one.value) for place, one in enumerate((deleted, flagged()))]
    board.apply_assessments(records)
    assert board.deleted_ids == {"label-studio:41"}
    assert board.open_flags(7) == []


def test_what_is_erased_is_not_pushed_again(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8))
    push(desk, studio)
    desk.append(Output(TOPICS.review, b"trips/label-studio:41", None))
    assert push(desk, studio).out.endswith("1 were there already; 1 no longer right were removed\n")
    assert [one["task"] for one in studio.predictions.values()] == [8]
    assert push(desk, studio).out.endswith("1 were there already; 0 no longer right were removed\n")


def test_labels_are_checked_before_anything_is_pushed(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(), flagged(42, task=8, suggested="MISC"))
    ran = push(desk, studio)
    assert ran.code == 1
    assert "nothing was pushed: project 3 has no label MISC, only LOC, ORG, PER: add it there" in ran.err
    assert studio.predictions == {}
    ran = push(desk, studio, "--map", "MISC=ORG")
    assert ran.out.startswith("2 predictions pushed")
    assert studio.predictions[2]["result"][1]["value"]["labels"] == ["ORG"]


def test_suggestions_in_the_datasets_own_names_are_not_renamed_again(
    desk: CommandHarness, studio: FakeLabelStudio
) -> None:
    swapped = {"ORG": "LOC", "LOC": "ORG"}
    desk.append_settings(**DatasetSettings(name="trips", label_map=swapped).model_dump())
    desk.append(flagged(suggested="ORG"))
    assert push(desk, studio).out.startswith("1 prediction pushed")
    assert studio.predictions[1]["result"][1]["value"]["labels"] == ["ORG"]


def test_a_dry_run_changes_nothing(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged())
    ran = push(desk, studio, "--dry-run")
    assert (
        ran.out
        == "1 prediction would be pushed to project 3; 0 were there already; 0 no longer right would be removed\n"
    )
    assert {method for method, _ in studio.calls} == {"GET"}


def test_other_projects_datasets_and_platforms_are_left_out(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    elsewhere = flagged(meta={"format": "label-studio", "project": "4", "task": "7"})
    foreign = flagged(42, meta={"format": "doccano"})
    desk.append(elsewhere, foreign, Output(TOPICS.review, b"x", b"not json"), flagged(43, task=9))
    ran = push(desk, studio)
    assert "1 prediction pushed" in ran.out
    assert "1 message of other datasets or platforms left out" in ran.out
    assert push(desk, studio, "--dataset", "others").out.startswith("0 predictions pushed")


def test_a_sentence_without_its_text_is_left_out(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged(meta={"format": "label-studio", "project": "3", "task": "7"}))
    assert "1 sentence without text left out" in push(desk, studio).out


def test_a_task_that_is_gone_costs_only_itself(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    studio.refuse_tasks = {7}
    desk.append(flagged(), flagged(42, task=8))
    ran = push(desk, studio)
    assert ran.code == 0
    assert "1 prediction pushed" in ran.out
    assert "1 were refused" in ran.out
    assert "task 7 gets no prediction: Label Studio refused it with 400" in ran.err


def test_personal_tokens_are_traded_and_renewed(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged())
    ran = desk.run("push", "label-studio", "--url", studio.url, "--project", 3, "--token-env", "MINE", MINE=JWT)
    assert ran.out.startswith("1 prediction pushed"), ran.err
    assert studio.calls[0] == ("POST", "/api/token/refresh/")


def test_one_of_several_controls_is_chosen(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    studio.config = {"other": bodies.CONFIG["label"], **bodies.CONFIG}
    desk.append(flagged(meta={**(assessment().meta or {}), "format": "label-studio", "project": "3", "task": "7"}))
    ran = push(desk, studio)
    assert ran.code == 1
    assert "several controls for spans: choose --control other, label" in ran.err
    assert push(desk, studio, "--control", "other").out.startswith("1 prediction pushed")
    assert studio.predictions[1]["result"][0]["from_name"] == "other"


@pytest.mark.parametrize(
    ("options", "variables", "told"),
    [
        ([], {"LABEL_STUDIO_TOKEN": ""}, "LABEL_STUDIO_TOKEN is not set"),
        ([], {"LABEL_STUDIO_TOKEN": "wrong"}, "does not accept the token"),
        ([], {"LABEL_STUDIO_TOKEN": "a.b.c"}, "does not accept the token"),
        ([], {"LABEL_STUDIO_TOKEN": "two\nlines"}, "the token is not one of Label Studio's"),
        (["--project", "9"], {}, "refused it with 404"),
        (["--control", "none"], {}, "project 3 has no control for spans called none"),
        (["--url", "ftp://x"], {}, "--url: 'ftp://x' is no address"),
        (["--url", "http://127.0.0.1:1"], {}, "http://127.0.0.1:1 does not answer"),
        (["--map", "PER"], {}, "'PER' is not OLD=NEW"),
    ],
)
def test_what_is_wrong_is_told(
    desk: CommandHarness, studio: FakeLabelStudio, options: list[str], variables: dict[str, str], told: str
) -> None:
    desk.append(flagged())
    ran = desk.run("push", "label-studio", "--url", studio.url, "--project", "3", *options, **variables)
    assert ran.code in (1, 2)
    assert told in " ".join(ran.err.replace("│", " ").split())
    assert "Traceback" not in ran.err


def test_the_token_does_not_follow_a_redirect(desk: CommandHarness, studio: FakeLabelStudio) -> None:
    desk.append(flagged())
    studio.redirect = "http://127.0.0.1:1/elsewhere"
    ran = push(desk, studio)
    assert ran.code == 1
    assert "redirects to http://127.0.0.1:1/elsewhere" in ran.err


def test_what_comes_later_is_pushed_too(
    desk: CommandHarness, studio: FakeLabelStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.append(flagged())
    pauses = iter(range(2))

    def pause(_: float) -> None:
        number = next(pauses, None)
        if number is None:
            raise KeyboardInterrupt
        if number == 0:
            desk.append(flagged(42, task=8), decision("ok"))

    monkeypatch.setattr("service.cli.stream.push.time.sleep", pause)
    ran = push(desk, studio, "--follow")
    assert ran.code == 0
    assert ran.out.startswith("1 prediction pushed")
    assert "1 prediction pushed" in ran.err
    assert [one["task"] for one in studio.predictions.values()] == [8]
