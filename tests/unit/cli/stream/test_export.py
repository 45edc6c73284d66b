from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import LabelledSentence
from service.labels import detect_scheme, get_entity_type
from service.log.protocol import Output
from tests.support.review_queue import make_assessment, make_decision_output, make_review_output

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness


def sent(identity: str | None, labels: tuple[str, ...] = ("O", "B-PER"), **fields: Any) -> Output:
    made = LabelledSentence.model_validate(
        {"id": identity, "tokens": tuple(f"w{n}" for n in range(len(labels))), "labels": labels, **fields}
    )
    return Output("labelwatch.sentences", None, made.model_dump_json(exclude_none=True).encode())


def exported(desk: CommandHarness, *arguments: str) -> dict[str, list[str]]:
    ran = desk.run("export", *arguments)
    assert ran.code == 0, ran.err
    return {line["id"]: line["labels"] for line in map(json.loads, ran.out.splitlines())}


def test_corrected_labels_take_the_place_of_the_given_ones(desk: CommandHarness) -> None:
    desk.append(sent("a"), sent("b"), sent("c"), sent("d"))
    desk.append(
        make_decision_output("a", "error", labels=["O", "B-LOC"]),
        make_decision_output("b", "ok"),
        make_decision_output("c", "error", words=[1]),
    )
    assert exported(desk, "--decisions") == {
        "a": ["O", "B-LOC"],
        "b": ["O", "B-PER"],
        "c": ["O", "B-PER"],
        "d": ["O", "B-PER"],
    }
    assert exported(desk)["a"] == ["O", "B-PER"]
    assert list(exported(desk, "--decisions", "--decided-only")) == ["a", "b", "c"]
    told = desk.run("export", "--decisions").err
    assert "4 sentences of default (1 corrected; 1 found right; 1 wrong, but nobody gave the right labels)" in told


def test_where_reviewers_differ_the_labels_stay_unless_one_is_named(desk: CommandHarness) -> None:
    desk.append(sent("a"), sent("b"), sent("c"), sent("d"))
    desk.append(
        *(make_decision_output("d", "error", labels=["O", "B-LOC"], reviewer=name) for name in ("ann", "bob")),
        make_decision_output("d", "ok", labels=["O", "B-PER"], reviewer="eve"),  # who only repeats the given ones
        make_decision_output("a", "error", labels=["O", "B-LOC"]),
        make_decision_output("a", "error", labels=["O", "B-ORG"], reviewer="bob"),
        make_decision_output("b", "error", labels=["O", "O"]),
        make_decision_output("b", "error", labels=["O", "O"], reviewer="bob"),
        make_decision_output("c", "error", labels=["O", "O"]),
        make_decision_output("c", "ok", reviewer="bob"),
    )
    found = exported(desk, "--decisions")
    assert found == {"a": ["O", "B-PER"], "b": ["O", "O"], "c": ["O", "B-PER"], "d": ["O", "B-LOC"]}
    assert exported(desk, "--decisions", "--reviewer", "bob")["a"] == ["O", "B-ORG"]


def test_only_decisions_about_the_newest_revision_that_stand_count(desk: CommandHarness) -> None:
    desk.append(sent("a", revision=1), sent("a", ("O", "B-ORG"), revision=2), sent("b"), sent("late", revision=5))
    desk.append(
        make_decision_output("a", "error", labels=["O", "B-LOC"], revision=1),
        make_decision_output("b", "error", labels=["O", "B-LOC"], withdrawn=True),
        sent("late", ("O", "O"), revision=4),
    )
    assert exported(desk, "--decisions") == {"a": ["O", "B-ORG"], "b": ["O", "B-PER"], "late": ["O", "B-PER"]}


def test_deleted_unreadable_and_foreign_sentences_are_left_out(desk: CommandHarness) -> None:
    gone = LabelledSentence(id="a", deleted=True, revision=1)
    desk.append(
        sent("a"),
        Output("labelwatch.sentences", None, gone.model_dump_json().encode()),
        Output("labelwatch.sentences", None, b"{"),
        sent("other", dataset="other"),
        sent(None),
    )
    assert list(exported(desk)) == ["labelwatch.sentences-0-4"]
    assert list(exported(desk, "--dataset", "other")) == ["other"]


def test_a_sentence_the_input_has_let_go_of_comes_from_review(desk: CommandHarness) -> None:
    desk.append(make_review_output(make_assessment("old")), sent("a"), Output("labelwatch.review", b"x", b"{"))
    desk.append(make_decision_output("old", "error", labels=["O", "B-LOC", "O"]))
    assert exported(desk, "--decisions") == {"a": ["O", "B-PER"], "old": ["O", "B-LOC", "O"]}


def test_in_columns_it_can_be_sent_again(desk: CommandHarness) -> None:
    desk.append(sent("a"), sent("b"), make_decision_output("a", "error", labels=["O", "B-LOC"]))
    path = desk.folder / "out.conll"
    assert desk.run("export", "--decisions", "--format", "conll", "-o", path).code == 0
    assert path.read_text() == "# id = a\nw0\tO\nw1\tB-LOC\n\n# id = b\nw0\tO\nw1\tB-PER\n\n"
    assert desk.run("send", path, "--update").code == 0
    assert exported(desk, "--format", "jsonl")["a"] == ["O", "B-LOC"]


def test_options_that_need_decisions_say_so(desk: CommandHarness) -> None:
    desk.append(sent("a"))
    ran = desk.run("export", "--decided-only")
    assert (ran.code, ran.out) == (1, "")
    assert "--decisions" in ran.err


def test_without_a_log_it_says_so(desk: CommandHarness) -> None:
    assert "there is no log" in desk.run("export").err


def test_a_dataset_that_nobody_knows_is_told_and_no_file_is_made(desk: CommandHarness) -> None:
    desk.append(sent("a", dataset="news"), sent("b", dataset="wiki"), sent(None, dataset="wiki"))
    target = desk.folder / "out.jsonl"
    for arguments, name in ((("--dataset", "nope"), "nope"), ((), "default")):
        ran = desk.run("export", *arguments, "-o", target)
        assert ran.code == 1
        assert f"{name!r} is not known: the datasets are news, wiki" in ran.err
    assert not target.exists()


def test_a_dataset_without_sentences_is_empty_where_it_is_known(desk: CommandHarness) -> None:
    gone = b'{"dataset": "news", "id": "a", "deleted": true}'
    desk.append(sent("a", dataset="news"), Output("labelwatch.sentences", None, gone))
    ran = desk.run("export", "--dataset", "news")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("iob2", "B-PERSON O"), ("biluo", "U-PERSON O"), ("iob1", "O I-PERSON B-PERSON"), ("io", "PERSON O")],
)
def test_what_is_corrected_as_suggested_is_in_the_datasets_own_scheme_and_names(
    desk: CommandHarness, scheme: str, given: str
) -> None:
    names = {"PERSON": "PER", "PLACE": "LOC", "FIRM": "ORG", "REST": "MISC"}
    desk.append_settings(name="news", scheme=scheme, label_map=names, version=1)
    labels = tuple(given.split())
    words = [f"{a}{b}" for a in "abcdef" for b in "ghijk"]
    desk.append(*(sent(word, labels, dataset="news", tokens=(word, "of", "land")[: len(labels)]) for word in words))
    assert desk.run("worker", "--once").code == 0
    doubted = [said for said in desk.read_assessments() if said.flags]
    assert doubted
    for said in doubted:
        better = list(said.labels)
        for flag in said.flags:
            better[flag.index] = flag.suggested
        assert said.id is not None
        desk.append(make_decision_output(said.id, "error", dataset="news", labels=better))
    found = exported(desk, "--decisions", "--dataset", "news", "--decided-only")
    assert len(found) == len(doubted)
    assert detect_scheme(found.values()) == scheme
    assert {get_entity_type(label) for some in found.values() for label in some} - {"O"} <= set(names)
    assert all(tuple(corrected) != labels for corrected in found.values())
