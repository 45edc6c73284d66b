"""`labelwatch datasets`: settings are checked against the model before they are written, and workers follow them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer

from service.contracts import DatasetSettings
from service.datasets.waiting import MIN_KNOWN_RATIO
from service.log.codec import DATASET_EVENT_TYPE
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()


def put(harness: CommandHarness, *arguments: object) -> str:
    ran = harness.run("datasets", "set", *arguments)
    assert ran.code == 0, ran.err
    return ran.out


def show_settings(harness: CommandHarness, name: str) -> dict[str, Any]:
    ran = harness.run("datasets", "show", name)
    assert ran.code == 0, ran.err
    settings: dict[str, Any] = json.loads(ran.out)
    return settings


def written(harness: CommandHarness) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in harness.read_records(TOPICS.datasets)]


# -- at the same moment ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("datasets", "set", "news", "control_share=0.5"),
        ("datasets", "delete", "news", "--yes"),
        ("thresholds", "reset", "news", "--yes"),
    ],
)
def test_who_was_slower_changes_nothing(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Somebody else writes between what the command reads and what it writes."""
    put(harness, "news", "method=product")
    theirs = DatasetSettings(name="news", version=2, method="good-fraction").model_dump_json().encode()
    real = SqliteLog.append_if_unchanged

    def append_if_unchanged(stream: SqliteLog, output: Output, seen: Any, **more: Any) -> None:
        harness.append(Output(TOPICS.datasets, b"news", theirs))
        real(stream, output, seen, **more)

    monkeypatch.setattr(SqliteLog, "append_if_unchanged", append_if_unchanged)
    ran = harness.run(*command)
    assert ran.code != 0
    assert "another writer changed the settings of news at the same time" in ran.err
    assert "datasets show news" in ran.err
    assert written(harness) == [(b"news", theirs)]


# -- set ---------------------------------------------------------------------------------------------------------------


def test_settings_are_changed_one_by_one_and_each_change_is_a_version(harness: CommandHarness) -> None:
    assert "news: settings version 1" in put(harness, "news", "control_share=0.01", "label_map.PERSON=PER")
    put(harness, "news", "label_map.B-PLACE=B-LOC", "scheme=iob2", "forget_after_days=30")
    put(harness, "news", "label_map.PERSON=", "forget_after_days=null", "method=product")
    wanted = DatasetSettings(
        name="news", version=3, control_share=0.01, label_map={"B-PLACE": "B-LOC"}, scheme="iob2", method="product"
    )
    assert DatasetSettings.model_validate(show_settings(harness, "news")) == wanted
    [newest] = harness.read_records(TOPICS.datasets)
    assert newest.key == b"news"
    assert dict(newest.headers)["ce_type"] == DATASET_EVENT_TYPE.encode()
    put(harness, "news", "method=product")
    [again] = harness.read_records(TOPICS.datasets)
    assert dict(again.headers)["ce_id"] != dict(newest.headers)["ce_id"]


@pytest.mark.parametrize(
    ("before", "assignments", "policy"),
    [
        ((), ["flag_policy.kind=budget", "flag_policy.share=0.02"], {"kind": "budget", "share": 0.02}),
        ((), ["flag_policy.share=0.02", "flag_policy.kind=budget"], {"kind": "budget", "share": 0.02}),
        ((), ['flag_policy={"kind": "below", "cut": 0.1}'], {"kind": "below", "cut": 0.1}),
        (["flag_policy.kind=budget", "flag_policy.share=0.5"], ["flag_policy=confident"], {"kind": "confident"}),
        (
            ["flag_policy.kind=budget", "flag_policy.share=0.5"],
            ["flag_policy.kind=below", "flag_policy.cut=0.2"],
            {"kind": "below", "cut": 0.2},
        ),
        (
            ["flag_policy.kind=budget", "flag_policy.share=0.5"],
            ["flag_policy.share=0.1", "flag_policy.kind=budget"],
            {"kind": "budget", "share": 0.1},
        ),
    ],
)
def test_a_flag_policy_takes_the_fields_of_its_kind(
    harness: CommandHarness, before: list[str], assignments: list[str], policy: dict[str, object]
) -> None:
    if before:
        put(harness, "news", *before)
    put(harness, "news", *assignments)
    assert show_settings(harness, "news")["flag_policy"] == policy
    assert json.loads(written(harness)[-1][1] or b"")["flag_policy"] == policy  # nothing of the old kind is left


def test_a_file_sets_everything_and_shown_settings_are_one(harness: CommandHarness) -> None:
    put(harness, "news", "control_share=0.5", "method=product")
    edited = {**show_settings(harness, "news"), "token_score": "normalized-margin"}
    file = harness.folder / "settings.json"
    file.write_text(json.dumps(edited))
    put(harness, "news", "--file", file)
    assert show_settings(harness, "news") == {**edited, "version": 2}
    file.write_text('{"unmapped": "unscored"}')
    put(harness, "news", "--file", file)
    assert show_settings(harness, "news") == DatasetSettings(name="news", version=3, unmapped="unscored").model_dump(
        mode="json"
    )


def test_settings_of_a_newer_version_and_the_epoch_survive(harness: CommandHarness) -> None:
    fields = {"name": "news", "version": 4, "epoch": 2, "of_a_newer_version": [1]}
    harness.append(Output(TOPICS.datasets, b"news", json.dumps(fields).encode()))
    put(harness, "news", "control_share=0.1")
    assert json.loads(written(harness)[-1][1] or b"") == {**fields, "version": 5, "control_share": 0.1}
    file = harness.folder / "settings.json"
    file.write_text("{}")
    put(harness, "news", "--file", file)
    assert (show_settings(harness, "news")["epoch"], show_settings(harness, "news")["version"]) == (2, 6)


@pytest.mark.parametrize(
    "command", [("datasets", "set", "news", "control_share=0.1"), ("thresholds", "reset", "news", "-y")]
)
@pytest.mark.parametrize("version", [1, 2])
def test_settings_that_are_not_in_force_are_not_changed_but_replaced(
    harness: CommandHarness, command: tuple[str, ...], version: int
) -> None:
    put(harness, "news", "method=product")
    odd = json.dumps({"name": "news", "version": version, "method": "best", "epoch": 4}).encode()
    harness.append(Output(TOPICS.datasets, b"news", odd))
    ran = harness.run(*command)
    assert (ran.code, ran.out) == (1, "")
    assert "the newest settings of news are not in force: `method`: unknown method 'best'" in ran.err
    assert "`labelwatch datasets set news --file FILE`" in ran.err
    assert written(harness) == [(b"news", odd)]
    file = harness.folder / "settings.json"
    file.write_text('{"control_share": 0.1}')
    put(harness, "news", "--file", file)
    now = show_settings(harness, "news")
    assert (now["version"], now["epoch"], now["control_share"]) == (version + 1, 4, 0.1)


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (["methd=product"], "`methd`: there is no such setting: use one of version, scheme, label_map"),
        (["method=best"], "`method`: unknown method 'best': use one of predicted-difference"),
        (["token_score=best"], "`token_score`: unknown token score 'best'"),
        (["scheme=bio"], "`scheme`: 'bio': choose one of iob1, iob2, biluo, io"),
        (["control_share=2"], "`control_share`: 2: give at most 1\n"),
        (["control_share=NaN"], "`control_share`"),
        (["flag_policy.share=0.1"], "`flag_policy"),
        (["flag_policy=worst"], '`flag_policy`: give {"kind": "confident"}'),
        (["flag_policy.kind=budget"], "`flag_policy.share`: it is missing: give it"),
        (["flag_policy.kind=budget", "flag_policy.share=0"], "`flag_policy.share`: 0: give more than 0\n"),
        (["flag_policy.kind=below", "flag_policy.cut=1e999"], "`flag_policy`: it can't be written as JSON"),
        (["flag_policy=confident", "flag_policy.cut=1"], "`flag_policy.cut`: kind confident has no such field"),
        (['label_set=["B-PER"]'], "`label_set`: 'B-PER' has a prefix of scheme iob2: name the type, 'PER'"),
        (["label_map.PERSON=HUMAN"], '`label_map`: "PERSON" is mapped to "HUMAN", but the model has no such type'),
        (["label_map=PERSON"], "`label_map`: 'PERSON': give an object, as {"),
        (["method.name=product"], "`method.name`: it has no fields of its own: write method=…"),
        (["name=other"], "`name`: a dataset can't be renamed"),
        (["version=7"], "`version`: every change raises it"),
        (["epoch=7"], "`epoch`: use `labelwatch thresholds reset`"),
    ],
)
def test_an_invalid_setting_is_named_and_nothing_is_written(
    harness: CommandHarness, assignments: list[str], problem: str
) -> None:
    put(harness, "news", "control_share=0.5")
    before = written(harness)
    ran = harness.run("datasets", "set", "news", *assignments)
    assert (ran.code, ran.out) == (1, "")
    assert problem in ran.err
    assert written(harness) == before


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "settings.json is not JSON"),
        ('{"control_share": NaN}', "NaN is not a number in JSON"),
        ("[" * 100_000, "settings.json is not JSON"),
        ("[]", "contains no JSON object"),
        ('{"name": "other"}', "`name`: it is 'other', and the dataset is 'news': a dataset can't be renamed"),
        ('{"version": 1}', "the change is for version 1, the version in force is 2: read the settings again"),
        ('{"epoch": 1}', "`epoch`: it is 0: use `labelwatch thresholds reset`"),
        ('{"methd": 1}', "`methd`: there is no such setting"),
        ('{"label_map": {"\\ud800": "PER"}}', "`label_map`: it can't be written as JSON"),
    ],
)
def test_a_bad_file_is_refused(harness: CommandHarness, content: str, problem: str) -> None:
    put(harness, "news", "control_share=0.5")
    put(harness, "news", "control_share=0.6")
    before = written(harness)
    file = harness.folder / "settings.json"
    file.write_text(content)
    ran = harness.run("datasets", "set", "news", "--file", file)
    assert ran.code == 1
    assert problem in ran.err
    assert written(harness) == before


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["news"], 2, "give either settings"),
        (["news", "method=product", "--file", "x.json"], 2, "give either settings"),
        (["news", "method"], 2, "'method' is not KEY=VALUE"),
        (["news", "label_map.=PER"], 2, "'label_map.=PER' is not KEY=VALUE"),
        (
            ["News", "method=product"],
            1,
            "`name`: 'News' can't be the name of a dataset: a name has 1 to 64 lower-case letters",
        ),
        (["news", "--file", "nowhere.json"], 1, "--file: can't read nowhere.json"),
    ],
)
def test_wrong_usage_is_an_error(harness: CommandHarness, arguments: list[str], code: int, problem: str) -> None:
    ran = harness.run("datasets", "set", *arguments)
    assert ran.code == code
    assert problem in " ".join(ran.err.replace("│", " ").split())


# -- a worker follows them ---------------------------------------------------------------------------------------------


def test_a_new_dataset_is_named_as_such(harness: CommandHarness) -> None:
    assert "news is a new dataset\n" in put(harness, "news", "control_share=0.5")
    assert "new dataset" not in put(harness, "news", "control_share=0.6")
    assert "nwes is a new dataset. Did you mean news?" in put(harness, "nwes", "control_share=0.5")


def test_the_label_set_is_taken_from_a_file(harness: CommandHarness, tmp_path: Path) -> None:
    interface = tmp_path / "interface.xml"
    interface.write_text(
        '<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>'
        '<Text name="text" value="$text"/></View>'
    )
    shown = put(harness, "news", "control_share=0.5", "--labels-from", interface)
    assert "label set: PER, LOC, from the control label" in shown
    settings = show_settings(harness, "news")
    assert (settings["label_set"], settings["control_share"]) == (["PER", "LOC"], 0.5)
    sentences = tmp_path / "news.conll"
    sentences.write_text("Oslo B-LOC\nor O\nBergen B-LOC\n\nAda B-PER\n")
    assert "label set: LOC, PER, from 2 labelled sentences (words by type: LOC 2, PER 1)" in put(
        harness, "news", "--labels-from", sentences
    )
    assert show_settings(harness, "news")["label_set"] == ["LOC", "PER"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--labels-from", "missing.xml"], "missing.xml: can't be read"),
        (["--labels-name", "label"], "give --labels-from too"),
        (["--labels-from", "news.conll", "--file", "x.json"], "give either settings"),
        (["--labels-from", "news.conll", 'label_set=["PER"]'], "--labels-from sets it already"),
        (["--labels-from", "prefixed.json"], "'B-PER' has a prefix of scheme iob2: name the type, 'PER'"),
    ],
)
def test_a_label_set_that_cannot_be_taken_changes_nothing(
    harness: CommandHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.conll").write_text("Oslo B-LOC\n")
    question = {"name": "label", "settings": {"type": "span", "options": [{"value": "B-PER"}]}}
    (tmp_path / "prefixed.json").write_text(json.dumps(question))
    ran = harness.run("datasets", "set", "news", *arguments)
    assert ran.code != 0
    assert problem in " ".join(ran.err.replace("│", " ").split())
    assert written(harness) == []


def test_the_worker_learns_which_types_a_dataset_uses(harness: CommandHarness) -> None:
    """With two partitions and a batch for each record: the rule reads the sums over all of them."""
    harness.variables["LABELWATCH_WORKER_BATCH_RECORDS"] = "1"
    put(harness, "news", "control_share=1")
    labels = ["B-PER", "I-PER", "B-ORG", "B-LOC"] * 5 + ["O"]
    sentences = [{"id": str(n), "dataset": "news", "tokens": ["fox"] * 21, "labels": labels} for n in range(26)]
    last = {"id": "misc", "dataset": "news", "tokens": ["fox"], "labels": ["B-MISC"]}
    assert harness.run("send", harness.write_file([*sentences, last, {**sentences[0], "id": "after"}])).code == 0
    assert harness.run("worker", "--once").code == 0
    unused = {each.id: each.unused_types for each in harness.read_assessments()}
    assert [unused[str(n)] for n in (0, 24)] == [(), ()]  # 480 words of entities came before the last of them
    assert unused["25"] == ("MISC",)
    assert (unused["misc"], unused["after"]) == ((), ())


def test_the_worker_refuses_a_label_outside_the_label_set(harness: CommandHarness) -> None:
    put(harness, "news", 'label_set=["PER", "LOC"]', "control_share=1")
    labels = ["O", "B-MISC"], ["O", "B-LOC"]
    harness.run(
        "send",
        harness.write_file(
            [
                {"tokens": ["the", "fox"], "labels": given, "id": str(number), "dataset": "news"}
                for number, given in enumerate(labels)
            ]
        ),
    )
    harness.run("worker", "--once")
    [dead] = harness.read_records(TOPICS.dead_letters)
    headers = dict(dead.headers)
    assert headers["__connect.errors.stage"] == b"labels"
    message = headers["__connect.errors.exception.message"].decode()
    assert "label 'B-MISC' is not in the label set of news." in message
    assert "The label set: O, PER, LOC" in message
    [assessment] = harness.read_assessments()
    assert set(assessment.thresholds) == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
    put(harness, "news", "label_set=")
    assert "label_set" not in show_settings(harness, "news") or show_settings(harness, "news")["label_set"] is None


GHOST = {"tokens": ["the", "fox"], "labels": ["O", "B-PERSON"], "id": "1", "dataset": "news"}


def test_a_dead_letter_says_which_setting_maps_the_label(harness: CommandHarness) -> None:
    known = [{**GHOST, "labels": ["O", "B-PER"], "id": str(number)} for number in range(MIN_KNOWN_RATIO)]
    harness.run("send", harness.write_file([*known, GHOST]))
    harness.run("worker", "--once")
    [dead] = harness.read_records(TOPICS.dead_letters)
    advice = dict(dead.headers)["__connect.errors.exception.message"].decode()
    assert '`labelwatch datasets set news label_map.PERSON=PER`, or {"label_map": {"PERSON": "PER"}} in its' in advice
    put(harness, "news", "label_map.PERSON=PER", "control_share=1")
    harness.run("send", harness.write_file([GHOST]))
    harness.run("worker", "--once")
    assert len(harness.read_records(TOPICS.dead_letters)) == 1
    [assessment] = [assessment for assessment in harness.read_assessments() if assessment.settings_version == 1]
    assert assessment.labels == ("O", "B-PERSON")


def test_the_worker_judges_stored_sentences_with_the_new_settings(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file([GHOST]))
    assert "1 waiting" in harness.run("worker", "--once").err
    assert harness.read_records(TOPICS.dead_letters) == []
    assert harness.read_assessments() == []
    listed = harness.run("datasets", "list").out
    assert listed.splitlines()[1].split()[-1] == "1"
    assert "1 sentence of news waits for a model: labels without a class are 'B-PERSON' (1)" in listed
    [view] = json.loads(harness.run("datasets", "list", "--json").out)["datasets"]
    assert (view["waiting"]["sentences"], view["waiting"]["unknown_labels"]) == (1, {"B-PERSON": 1})
    assert "1 sentence of news waits for a model" in harness.run("check").out
    assert "1 sentence of news waits for a model" in put(harness, "news", "control_share=1")
    assert "the worker judges the 1 stored sentence of news now" in put(harness, "news", "label_map.PERSON=PER")
    assert "0 messages read, 1 to review" in harness.run("worker", "--once").err
    [assessment] = harness.read_assessments()
    assert (assessment.id, assessment.settings_version) == ("1", 2)
    assert [record.value for record in harness.read_records(TOPICS.waiting)] == [None]
    assert "wait" not in harness.run("datasets", "list").out.partition("\n")[2]
    assert "0 messages read, 0 to review" in harness.run("worker", "--once").err


def test_a_warning_says_that_statistics_start_anew(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(3, dataset="news")))
    harness.run("worker", "--once")
    assert "anew" not in put(harness, "news", "control_share=0.5")
    assert "the statistics of news start anew" in put(harness, "news", "scheme=io")
    assert "anew" not in put(harness, "news", "label_map.PERSON=PER")  # nothing is learned by types yet


# -- list, show, delete ------------------------------------------------------------------------------------------------


def test_datasets_are_listed_whether_set_up_or_only_seen(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(3, dataset="seen")))
    assert "no dataset has settings" in harness.run("datasets", "list").out
    harness.run("worker", "--once")
    put(harness, "news", "flag_policy.kind=budget", "flag_policy.share=0.02", "label_map.PERSON=PER")
    harness.append(Output(TOPICS.datasets, b"odd", b'{"name": "odd", "version": 3, "method": "best"}'))
    ran = harness.run("datasets", "list")
    head, *rows = ran.out.splitlines()
    assert head.split()[:3] == ["dataset", "version", "epoch"]
    assert [row.split()[:2] for row in rows[:3]] == [["news", "1"], ["odd", "0"], ["seen", "0"]]
    assert "budget 0.02" in rows[0]
    assert rows[3].startswith("odd: newer settings are not in force: `method`: unknown method 'best'")
    listed = json.loads(harness.run("datasets", "list", "--json").out)["datasets"]
    assert [(dataset["name"], bool(dataset["problem"])) for dataset in listed] == [
        ("news", False),
        ("odd", True),
        ("seen", False),
    ]
    assert listed[0]["label_map"] == {"PERSON": "PER"}


def test_deleted_settings_are_the_defaults_again(harness: CommandHarness) -> None:
    put(harness, "news", "control_share=0.5", "ranker_epoch=2")
    out = harness.run("datasets", "delete", "news", "--yes").out
    assert out == "news is judged with the default settings, as version 2\n"
    assert show_settings(harness, "news") == DatasetSettings(name="news", version=2, ranker_epoch=2).model_dump(
        mode="json"
    )
    ran = harness.run("datasets", "delete", "nobody", "--yes")
    assert ran.code == 1
    assert "'nobody' is not known: the datasets are news" in ran.err


def test_deleting_brings_no_statistics_of_an_older_epoch_back(harness: CommandHarness) -> None:
    put(harness, "news", "control_share=0.5")
    harness.run("thresholds", "reset", "news", "--yes")
    harness.run("datasets", "delete", "news", "--yes")
    assert show_settings(harness, "news")["epoch"] == 1
    harness.run("thresholds", "reset", "news", "--yes")
    assert show_settings(harness, "news")["epoch"] == 2


def test_the_rankers_epoch_only_grows(harness: CommandHarness, tmp_path: Path) -> None:
    put(harness, "news", "ranker_epoch=3")
    assert "can only grow" in harness.run("datasets", "set", "news", "ranker_epoch=2").err
    file = tmp_path / "settings.json"
    file.write_text('{"control_share": 0.1}')
    harness.run("datasets", "set", "news", "--file", str(file))
    assert show_settings(harness, "news")["ranker_epoch"] == 3


def test_deleting_asks_first(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    put(harness, "news", "control_share=0.5")
    monkeypatch.setattr("typer.confirm", _declined)
    assert harness.run("datasets", "delete", "news").code == 1
    assert len(written(harness)) == 1


def _declined(question: str, *, abort: bool) -> None:
    assert "news" in question
    assert abort
    raise typer.Abort


def test_sentences_of_a_label_set_without_a_model_are_stored(harness: CommandHarness) -> None:
    put(harness, "med", 'label_set=["DRUG"]')
    sentences = [{"id": str(n), "dataset": "med", "tokens": ["fox"], "labels": ["B-DRUG"]} for n in range(5)]
    typo = {"id": "typo", "dataset": "med", "tokens": ["fox"], "labels": ["B-DURG"]}
    assert harness.run("send", harness.write_file([typo, *sentences])).code == 0
    assert harness.run("worker", "--once").code == 0
    assert len(harness.read_records(TOPICS.waiting)) == 5
    [letter] = harness.read_records(TOPICS.dead_letters)
    assert b"B-DURG" in (letter.value or b"")


def test_settings_that_are_shown_and_set_again_keep_an_unset_policy(harness: CommandHarness) -> None:
    put(harness, "news", "control_share=0.1")
    shown = show_settings(harness, "news")
    assert shown["flag_policy"] is None
    file = harness.folder / "settings.json"
    file.write_text(json.dumps(shown))
    put(harness, "news", "--file", file)
    assert "flag_policy" not in json.loads(written(harness)[-1][1] or b"")
    assert show_settings(harness, "news")["flag_policy"] is None


def test_the_audit_trail_names_the_changed_settings(harness: CommandHarness) -> None:
    put(harness, "news", "method=product", "control_share=0.5")
    assert harness.run("thresholds", "reset", "news", "--yes").code == 0
    assert harness.run("datasets", "delete", "news", "--yes").code == 0
    lines = harness.run("audit-log", "--action", "settings", "--json").out.splitlines()
    assert [json.loads(line)["details"]["fields"] for line in lines] == ["control_share, method", "epoch", ""]
    unknown = harness.run("audit-log", "--action", "colours")
    assert (unknown.code, "withdrawal" in unknown.err) == (2, True)
