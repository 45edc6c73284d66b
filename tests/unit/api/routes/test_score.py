"""POST /v1/score: judged as the pipeline judges, taught nothing, and clear about what is wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.api.http.json_text.split import LARGE_BYTES
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment, DatasetSettings, LabelledSentence
from service.errors import InferenceError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import to_memory_key, to_state_key
from service.log.protocol import Output
from service.scoring.sentence import METHODS
from service.statistics.memory.snapshot import write_recent
from tests.support.one_pass import OnePass
from tests.support.scoring_harness import AsgiExchange, ScoringHarness, scoring_harness
from tests.support.tiny_models import POISON_WORD, make_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.inference.classifier import InferenceResult
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence
    from service.stream.state.context import JudgingContext

ONE = {"tokens": ["the", "wolves", "of", "Paris"], "labels": ["O", "O", "O", "B-LOC"]}
TWO = {"tokens": ["Timber", "said"], "labels": ["B-PER", "O"], "id": "two", "meta": {"a": None}}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    folder = make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece", poison="fails")
    return Classifier(ModelFolder.load(folder))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, classifier: Classifier) -> Iterator[ScoringHarness]:
    """For tests that change nothing."""
    with scoring_harness(tmp_path_factory.mktemp("log"), classifier, max_sentences=20, max_line_bytes=2_000) as harness:
        yield harness


def problem(response: httpx.Response, status: int, field: str | None = None) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body.get("field") == field
    assert body["request_id"] == response.headers["x-request-id"]
    return str(body["detail"])


def test_one_sentence_is_assessed_as_by_the_judge(shared: ScoringHarness, classifier: Classifier) -> None:
    response = shared.post("/v1/score", ONE, x_request_id="abc")
    assert response.status_code == 200
    body = response.json()
    (assessment,) = [Assessment.model_validate(each) for each in body["assessments"]]
    judge = Judge(classifier.folder, DatasetSettings(), min_words=1, prior_words=200)
    (words,) = classifier.infer([ONE["tokens"]])
    assert not isinstance(words, InferenceError)
    thresholds = judge.build_threshold_set(judge.create_empty_stats())
    expected = judge.assess(judge.observe(LabelledSentence.model_validate(ONE), words), thresholds)
    assert assessment.model_copy(update={"scored_at": None, "request_id": None}) == expected
    assert (assessment.request_id, assessment.reason) == ("abc", expected.reason)
    assert assessment.scored_at is not None
    assert body["settings"] == {"default": DatasetSettings().model_dump(mode="json")}
    assert body["thresholds"] == {"default": expected.thresholds}
    timing = dict(part.split(";dur=") for part in response.headers["server-timing"].split(", "))
    assert list(timing) == ["queue", "tokenize", "inference", "judge"]
    assert all(float(each) >= 0 for each in timing.values())


def test_many_sentences_are_answered_in_their_order(shared: ScoringHarness) -> None:
    sentences = [{**TWO, "id": str(number)} for number in range(20)]
    body = shared.post("/v1/score", {"sentences": sentences}).json()
    assert [each["id"] for each in body["assessments"]] == [str(number) for number in range(20)]
    assert body["assessments"][0]["meta"] == {"a": None}


def test_a_sentence_that_contains_the_word_sentences_is_no_list(shared: ScoringHarness) -> None:
    body = {"tokens": ["sentences"], "labels": ["O"], "meta": {"sentences": 1}}
    assert shared.post("/v1/score", body).json()["assessments"][0]["tokens"] == ["sentences"]


def test_scoring_changes_no_statistics_and_an_update_is_only_scored(shared: ScoringHarness) -> None:
    before = shared.post("/v1/score", ONE).json()["thresholds"]
    for _ in range(5):
        body = shared.post("/v1/score", {**ONE, "update": True, "id": "7"}).json()
        assert body["assessments"][0]["reason"] in ("scored", "flagged")
    assert shared.post("/v1/score", ONE).json()["thresholds"] == before
    for topic in (shared.topics.sentences, shared.topics.state, shared.topics.review):
        assert shared.stream.read(topic, 0, 10) == []


def test_unknown_datasets_have_default_settings_and_are_not_stored(shared: ScoringHarness) -> None:
    body = shared.post("/v1/score", {"sentences": [{**ONE, "dataset": "new"}, ONE]}).json()
    assert set(body["settings"]) == set(body["thresholds"]) == {"new", "default"}
    assert body["settings"]["new"] == DatasetSettings(name="new").model_dump(mode="json")
    assert shared.backend.state_view.list_names() == ()


@pytest.mark.parametrize("method", METHODS)
def test_method_and_token_score_of_the_request(shared: ScoringHarness, method: str) -> None:
    chosen = {"method": method, "token_score": "normalized-margin"}
    in_body = shared.post("/v1/score", {"sentences": [ONE], **chosen}).json()
    in_query = shared.post(f"/v1/score?method={method}&token_score=normalized-margin", ONE).json()
    for body in (in_body, in_query):
        (assessment,) = body["assessments"]
        assert {name: assessment[name] for name in chosen} == chosen
        assert {name: body["settings"]["default"][name] for name in chosen} == chosen
    assert in_body["assessments"][0]["score"] == in_query["assessments"][0]["score"]


def test_settings_and_statistics_of_the_stream_are_used_as_soon_as_they_are_seen(
    tmp_path: Path, classifier: Classifier
) -> None:
    with scoring_harness(tmp_path, classifier) as harness:
        body = {**ONE, "dataset": "mine", "labels": ["O", "O", "O", "B-PLACE"]}
        assert "B-PLACE" in problem(harness.post("/v1/score", body), 422, "labels")
        settings = DatasetSettings(
            name="mine", version=3, label_map={"PLACE": "LOC"}, pooling="first", method="product"
        )
        harness.append(Output(harness.topics.datasets, b"mine", settings.model_dump_json().encode()))
        before = harness.post("/v1/score", body).json()
        assert before["settings"]["mine"] == settings.model_dump(mode="json")
        assert before["assessments"][0]["settings_version"] == 3
        judge = Judge(classifier.folder, settings, min_words=1, prior_words=200)
        (words,) = classifier.infer([ONE["tokens"]], pooling="first")
        assert not isinstance(words, InferenceError)
        observation = judge.observe(LabelledSentence.model_validate(body), words)
        assert (
            before["assessments"][0]["score"]
            == judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats())).score
        )
        stats = judge.learn(observation, judge.create_empty_stats(), priority=0.5)
        key = to_state_key(0, "mine", judge.stats_key)
        harness.append(Output(harness.topics.state, key, json.dumps(stats.snapshot()).encode()))
        after = harness.post("/v1/score", {"sentences": [body, ONE]}).json()
        assert after["thresholds"]["mine"] == judge.build_threshold_set(stats).by_class != before["thresholds"]["mine"]
        assert after["assessments"][0]["thresholds"] == after["thresholds"]["mine"]


def test_memories_of_all_partitions_are_read_and_none_is_changed(tmp_path: Path, classifier: Classifier) -> None:
    judge = Judge(classifier.folder, DatasetSettings(), min_words=1, prior_words=200)
    (words,) = classifier.infer([ONE["tokens"]])
    assert not isinstance(words, InferenceError)
    sentence = LabelledSentence.model_validate(ONE)
    passes = [OnePass(judge), OnePass(judge)]
    for one_pass, times in zip(passes, (2, 5), strict=True):
        one_pass.add_all([(sentence, words)] * times)
    memories = [one_pass.memory for one_pass in passes if one_pass.memory is not None]
    with scoring_harness(tmp_path, classifier) as harness:
        before = harness.post("/v1/score", ONE).json()["assessments"][0]
        assert "memory" not in before
        assert before["because"] == []
        for partition, (memory, one_pass) in enumerate(zip(memories, passes, strict=True)):
            keys = (
                to_memory_key(partition, "default", judge.stats_key, "recent"),
                to_state_key(partition, "default", judge.stats_key),
            )
            values = write_recent(memory), one_pass.stats.snapshot()
            for key, value in zip(keys, values, strict=True):
                harness.append(Output(harness.topics.state, key, json.dumps(value).encode()))
        answers = [harness.post("/v1/score", ONE).json()["assessments"][0] for _ in range(2)]
    total = passes[0].stats.merge(passes[1].stats)
    evidence = judge.memory.gather(judge.observe(sentence, words), memories)
    expected = judge.assess(judge.observe(sentence, words), judge.build_threshold_set(total), evidence=evidence)
    for answer in answers:
        assert answer["memory"] == "merged"
        assert answer["priority"] == expected.priority
        assert {each["words"] for each in answer["because"]} == {7}


def test_each_dataset_is_judged_by_its_model_and_a_missing_one_is_said(tmp_path: Path, classifier: Classifier) -> None:
    models = tmp_path / "models"
    with scoring_harness(tmp_path, classifier, models=models) as harness:
        settings = DatasetSettings(name="med", version=1, model="med-v1")
        harness.append(Output(harness.topics.datasets, b"med", settings.model_dump_json().encode()))
        body = {"sentences": [{**ONE, "dataset": "med"}, ONE, {**TWO, "dataset": "med"}]}
        refused = harness.post("/v1/score", body)
        assert "the dataset 'med' needs the model 'med-v1'" in problem(refused, 503)
        assert refused.json()["type"] == "urn:labelwatch:problem:model-missing"
        assert int(refused.headers["retry-after"]) > 0
        assert harness.post("/v1/score", ONE).status_code == 200, "other datasets go on"
        (listed,) = harness.run_with_client(lambda client: client.get("/v1/datasets")).json()["datasets"]
        assert (listed["name"], listed["version"], listed["sentences"]) == ("med", 1, 0)
        assert "'med-v1'" in listed["problem"]

        folder = ModelFolder.load(make_model(models / "med-v1", "wordpiece", seed=1))
        answer = harness.post("/v1/score", body).json()
        fingerprints = [assessment["model"]["fingerprint"] for assessment in answer["assessments"]]
        assert fingerprints == [folder.fingerprint, classifier.folder.fingerprint, folder.fingerprint]
        other = Classifier(folder)
        judge = Judge(folder, settings, min_words=1, prior_words=200)
        (words,) = other.infer([ONE["tokens"]])
        assert not isinstance(words, InferenceError)
        sentence = LabelledSentence.model_validate(body["sentences"][0])
        expected = judge.assess(judge.observe(sentence, words), judge.build_threshold_set(judge.create_empty_stats()))
        assert answer["assessments"][0]["score"] == expected.score
        assert answer["assessments"][1]["score"] == harness.post("/v1/score", ONE).json()["assessments"][0]["score"]


def test_a_label_outside_the_label_set_is_refused_by_name(tmp_path: Path, classifier: Classifier) -> None:
    with scoring_harness(tmp_path, classifier) as harness:
        settings = DatasetSettings(name="mine", version=1, label_set=("PER", "LOC"), unmapped="unscored")
        harness.append(Output(harness.topics.datasets, b"mine", settings.model_dump_json().encode()))
        body = {**ONE, "dataset": "mine", "labels": ["O", "O", "O", "B-LOK"]}
        error = problem(harness.post("/v1/score", body), 422, "labels")
        assert "label 'B-LOK' is not in the label set of mine. Did you mean 'B-LOC'?" in error
        assert "The label set: O, PER, LOC" in error
        (assessment,) = harness.post("/v1/score", {**body, "labels": ["O", "O", "O", "B-LOC"]}).json()["assessments"]
        assert set(assessment["thresholds"]) == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}


BAD: list[tuple[Any, int, str | None, str]] = [
    (b"{", 400, None, "JSON"),
    (b'{"sentences": [', 400, None, "JSON"),
    (b"\xff", 400, None, "it is not UTF-8 (byte 0xff at 0): encode it as UTF-8"),
    ([], 422, None, "object"),
    ({}, 422, "tokens", "at least one word"),
    ({**ONE, "labels": ["O"]}, 422, "labels", "each word one label"),
    ({**ONE, "labels": ["O", "O", "O", "B-LOK"]}, 422, "labels", "B-LOK"),
    ({**ONE, "colour": "red"}, 422, "colour", "no such field"),
    (
        {"text": "Riga", "spans": []},
        422,
        None,
        "a record of the format spans, but a sentence with `tokens` and `labels`",
    ),
    ({"text": "Riga", "spans": []}, 422, None, "send it with ?format=spans, or ?format=auto"),
    ({"sentences": [ONE, {"words": ["a"], "ner_tags": [0]}]}, 422, "sentences.1", "?format=huggingface"),
    ({"foo": 1}, 422, "foo", "no such field: the fields are tokens"),
    ({"id": "1", "deleted": True}, 422, "deleted", "nothing to score"),
    ({"tokens": ["x"] * 51, "labels": ["O"] * 51}, 422, "tokens", "the limit is 50"),
    ({"tokens": [POISON_WORD], "labels": ["O"]}, 422, None, "fails on this sentence"),
    ({"sentences": []}, 422, "sentences", "at least one"),
    ({"sentences": "many"}, 422, "sentences", "at least one"),
    ({"sentences": [ONE, 3]}, 422, "sentences.1", "not an object"),
    ({"sentences": [ONE, {**ONE, "labels": ["O", 1, "O", "O"]}]}, 422, "sentences.1.labels", "word 1"),
    (
        {"sentences": [ONE, {**ONE, "labels": ["X"] * 4}]},
        422,
        "sentences.1.labels",
        f"word 0 ({ONE['tokens'][0]!r}), `sentences.1.labels`: ",
    ),
    ({"sentences": [ONE, {"tokens": [POISON_WORD], "labels": ["O"]}]}, 422, "sentences.1", "`sentences.1`: "),
    ({"sentences": [ONE], "metod": "product"}, 422, "metod", "beside"),
    ({"sentences": [ONE], "method": 3}, 422, "method", "text"),
    ({"sentences": [ONE], "method": "best"}, 422, "method", "worst-token"),
    ({"sentences": [ONE], "token_score": "best"}, 422, "token_score", "self-confidence"),
    ({"sentences": [ONE] * 21}, 413, "sentences", "21 sentences, the limit is 20 per request"),
]


def test_the_limit_of_subwords_names_the_words(
    shared: ScoringHarness, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier, "_max_subwords", 60)
    long = {"tokens": ["xqz" * 10] * 9, "labels": ["O"] * 9}
    reason = "its 9 words are 270 subwords for this model, at most 60 are read: split it"
    assert problem(shared.post("/v1/score", long), 422, "tokens") == f"`tokens`: {reason}"
    several = shared.post("/v1/score", {"sentences": [ONE, long]})
    assert problem(several, 422, "sentences.1.tokens") == f"`sentences.1.tokens`: {reason}"
    _, line = shared.post_lines("/v1/score", ONE, long).text.splitlines()
    assert (json.loads(line)["field"], json.loads(line)["line"]) == ("tokens", 2)
    record = {"text": " ".join(long["tokens"]), "spans": []}
    assert problem(shared.post("/v1/score?format=spans", record), 422).startswith("record 1: its 9 words are 270")


@pytest.mark.parametrize(("body", "status", "field", "detail"), BAD, ids=[str(case[0])[:40] for case in BAD])
def test_an_invalid_body_gets_a_problem(
    shared: ScoringHarness, body: Any, status: int, field: str | None, detail: str
) -> None:
    assert detail in problem(shared.post("/v1/score", body), status, field)


@pytest.mark.parametrize(("body", "status", "field", "detail"), BAD, ids=[str(case[0])[:40] for case in BAD])
def test_a_large_body_gets_the_same_problem(
    shared: ScoringHarness, body: Any, status: int, field: str | None, detail: str
) -> None:
    """Large bodies are divided into sentences before they are parsed."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert detail in problem(shared.post("/v1/score", raw + b" " * LARGE_BYTES), status, field)


def test_a_large_body_gets_the_same_answer(shared: ScoringHarness) -> None:
    for body in (ONE, {"sentences": [ONE, TWO], "method": "product"}):
        raw = json.dumps(body).encode()
        spread = raw.replace(b"{", b"{ " + b"\n" * LARGE_BYTES, 1).replace(b"[", b" [ ").replace(b"}", b" } ")
        small, big = shared.post("/v1/score", raw).json(), shared.post("/v1/score", spread).json()
        for answer in (small, big):
            for each in answer.get("assessments", [answer]):
                assert each.pop("scored_at")
                assert each.pop("request_id")
                each.pop("id", None)
            answer.pop("request_id", None)
        assert small == big


@pytest.mark.parametrize(
    "body",
    [
        b'{"tokens": [' + b'"a",' * 1_200_000 + b'"a"], "labels": ["O"]}',
        b'{"tokens": ["a"], "labels": ["O"], ' + b",".join(b'"%d":1' % i for i in range(100_001)) + b"}",
        b'{"sentences": [{"meta": {"a": [' + b"[]," * 1_200_000 + b"1]}}]}",
        b'{"sentences": [' + b"{}," * 400_000 + b"{}]}",
        b"[" + b"1," * 2_000_000 + b'"sentences"]',
    ],
    ids=["values", "names", "values in a sentence", "sentences", "a list"],
)
def test_a_body_that_takes_long_to_parse_is_refused_before_it_is_parsed(shared: ScoringHarness, body: bytes) -> None:
    assert shared.post("/v1/score", body).status_code == 413


def test_valid_lines_are_scored_and_invalid_ones_get_a_problem(shared: ScoringHarness) -> None:
    bad = {**ONE, "labels": ["B-LOK"] * 4}
    poison = {"tokens": [POISON_WORD], "labels": ["O"]}
    response = shared.post_lines("/v1/score", ONE, b"", b"{", bad, b"x" * 2_001, poison, TWO)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [(each.get("line"), each.get("status")) for each in lines] == [
        (None, None), (3, 400), (4, 422), (5, 422), (6, 422), (None, None),
    ]  # fmt: skip
    assert lines[2]["field"] == "labels"
    assert lines[0]["tokens"] == ONE["tokens"]
    assert lines[-1]["id"] == "two"


def test_an_unknown_option_is_an_error_of_the_request(shared: ScoringHarness) -> None:
    assert "unknown method" in problem(shared.post_lines("/v1/score?method=best", ONE), 422, "method")


def test_lines_are_answered_while_others_are_sent(shared: ScoringHarness) -> None:
    async def talk(_: httpx.AsyncClient) -> None:
        async with AsgiExchange(shared.app, "/v1/score") as talk:
            talk.send_lines(ONE)
            assert (await talk.receive())["status"] == 200
            answers = talk.iter_response_lines()
            assert (await anext(answers))["tokens"] == ONE["tokens"]
            talk.send_lines(*[TWO] * 200, last=True)
            assert len([each async for each in answers]) == 200

    shared.run_with_client(talk)


class Held:
    """A classifier that waits to be let go on."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self.folder, self.batching = classifier.folder, classifier.batching
        self.started, self.go_on = threading.Event(), threading.Event()
        self.ran = 0

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        return self._classifier.encode(sentences)

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        self.started.set()
        assert self.go_on.wait(30)
        self.ran += len(encoded)
        return self._classifier.run(encoded, pooling=pooling)


@pytest.fixture
def through_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that waits to be let would stop the event loop, were it run there."""
    monkeypatch.setattr("service.api.batching.inline.MAX_INLINE_WORDS", 0)


@pytest.mark.usefixtures("through_the_queue")
@pytest.mark.parametrize("lines", [False, True])
def test_overload_answers_429_and_recovers(tmp_path: Path, classifier: Classifier, lines: bool) -> None:
    held: Any = Held(classifier)
    kind = "application/x-ndjson" if lines else "application/json"

    with scoring_harness(tmp_path, held, queue={"queue_sentences": 4}) as harness:

        async def ask(client: httpx.AsyncClient) -> None:
            def post() -> asyncio.Task[httpx.Response]:
                headers = {"content-type": kind}
                return asyncio.create_task(client.post("/v1/score", content=json.dumps(ONE), headers=headers))

            waiting = [post()]
            assert await asyncio.to_thread(held.started.wait, 30)
            waiting += [post() for _ in range(3)]
            while harness.batcher.waiting < 4:
                await asyncio.sleep(0)
            refused = await asyncio.gather(*(post() for _ in range(3)))
            for response in refused:
                assert "waiting" in problem(response, 429)
                assert int(response.headers["retry-after"]) >= 1
            held.go_on.set()
            assert [response.status_code for response in await asyncio.gather(*waiting)] == [200] * 4
            assert (await post()).status_code == 200

        harness.run_with_client(ask)
        assert harness.read_metric("labelwatch_overload_total", reason="queue_full") == 3


@pytest.mark.usefixtures("through_the_queue")
@pytest.mark.parametrize("lines", [False, True])
def test_sentences_of_a_disconnected_client_are_skipped(
    tmp_path: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch, lines: bool
) -> None:
    monkeypatch.setattr("service.api.scoring.requests.MIN_WATCHED_SENTENCES", 0)
    held: Any = Held(classifier)
    with scoring_harness(tmp_path, held) as harness:

        async def ask(_: httpx.AsyncClient) -> None:
            kind = "application/x-ndjson" if lines else "application/json"
            async with (
                AsgiExchange(harness.app, "/v1/score", content_type="application/json") as stays,
                AsgiExchange(harness.app, "/v1/score", content_type=kind) as goes,
            ):
                stays.send_lines(ONE, last=True)
                assert await asyncio.to_thread(held.started.wait, 30)
                goes.send_lines(ONE, last=not lines)
                while harness.batcher.waiting < 2:
                    await asyncio.sleep(0)
                goes.disconnect()
                await goes.task
                assert harness.batcher.waiting == 1
                held.go_on.set()
                assert (await stays.receive())["status"] == 200

        harness.run_with_client(ask)
        assert held.ran == 1


@pytest.mark.usefixtures("through_the_queue")
@pytest.mark.parametrize("query", ["", "format=auto"])
def test_no_line_is_lost_while_the_first_ones_wait_for_the_model(
    tmp_path: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr("service.api.scoring.requests.MIN_WATCHED_SENTENCES", 0)
    held: Any = Held(classifier)
    with scoring_harness(tmp_path, held) as harness:

        async def ask(_: httpx.AsyncClient) -> None:
            async with AsgiExchange(harness.app, "/v1/score", query=query) as exchange:
                exchange.send_lines(ONE)
                assert await asyncio.to_thread(held.started.wait, 30)
                for number in range(4):
                    exchange.send_lines(TWO, last=number == 3)
                    for _turn in range(20):  # every task that waits for the body gets its turn
                        await asyncio.sleep(0)
                held.go_on.set()
                assert len([line async for line in exchange.iter_response_lines()]) == 5

        harness.run_with_client(ask)


@pytest.mark.usefixtures("through_the_queue")
def test_a_timed_out_request_leaves_the_queue(tmp_path: Path, classifier: Classifier) -> None:
    held: Any = Held(classifier)
    with scoring_harness(tmp_path, held, timeout_s=0.05) as harness:

        async def ask(client: httpx.AsyncClient) -> None:
            first = asyncio.create_task(client.post("/v1/score", json=ONE))
            assert await asyncio.to_thread(held.started.wait, 30)
            second = asyncio.create_task(client.post("/v1/score", json=ONE))
            problem(await second, 504)
            problem(await first, 504)
            assert harness.batcher.waiting <= 1
            held.go_on.set()
            while harness.batcher.waiting:
                await asyncio.sleep(0)

        harness.run_with_client(ask)
        assert held.ran == 1


def test_stages_are_observed(shared: ScoringHarness) -> None:
    labels = {"role": "api", "stage": "inference"}
    before = shared.read_metric("labelwatch_stage_seconds_count", **labels)
    shared.post("/v1/score", ONE)
    assert shared.read_metric("labelwatch_stage_seconds_count", **labels) == before + 1


def test_the_fast_path_is_counted_and_logged_like_any_route(shared: ScoringHarness) -> None:
    labels = {"route": "/v1/score", "method": "POST", "status": "2xx"}
    before = shared.read_metric("labelwatch_http_requests_total", **labels)
    assert shared.post("/v1/score", ONE).status_code == 200
    assert shared.read_metric("labelwatch_http_requests_total", **labels) == before + 1
    assert shared.post("/v1/score/", ONE).status_code == 404
    assert shared.run_with_client(lambda client: client.put("/v1/score", json=ONE)).status_code == 405


def test_the_router_gives_the_same_answer_as_the_fast_path(shared: ScoringHarness) -> None:
    async def long_way(client: httpx.AsyncClient) -> httpx.Response:
        transport = httpx.ASGITransport(shared.app, root_path="/under", raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://labelwatch") as other:
            return await other.post("/under/v1/score", json=ONE)

    response, expected = shared.run_with_client(long_way), shared.post("/v1/score", ONE)
    assert response.status_code == 200, response.text
    assert response.json()["assessments"][0]["score"] == expected.json()["assessments"][0]["score"]


def of_datasets(count: int) -> list[dict[str, Any]]:
    return [{**ONE, "dataset": f"made-up-{number}"} for number in range(count)]


def test_a_list_may_have_a_limited_number_of_datasets(shared: ScoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.scoring.requests.MAX_DATASETS_PER_REQUEST", 3)
    accepted = shared.post("/v1/score", {"sentences": [*of_datasets(3), *of_datasets(3)]})
    assert accepted.status_code == 200
    assert len(accepted.json()["settings"]) == 3
    refused = shared.post("/v1/score", {"sentences": [*of_datasets(3), ONE, ONE]})
    assert "dataset number 4 of the request, the limit is 3" in problem(refused, 422, "sentences.3.dataset")
    lines = shared.post_lines("/v1/score", *of_datasets(5))  # one at a time, whose answers do not tell settings
    assert [json.loads(line)["dataset"] for line in lines.text.splitlines()] == [
        f"made-up-{number}" for number in range(5)
    ]


def test_other_requests_run_between_datasets(shared: ScoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    passed = 0
    real = Scorer.get_context

    def counted(
        self: Scorer, dataset: str, choice: ScoreOptions, classes: tuple[str, ...] | None = None
    ) -> JudgingContext:
        turns.append(passed)
        return real(self, dataset, choice, classes)

    async def work(_: httpx.AsyncClient) -> None:
        nonlocal passed
        sentences = [LabelledSentence.model_validate(each) for each in of_datasets(10)]
        scoring = asyncio.create_task(Scorer(shared.backend).score(sentences, ScoreOptions(), request_id="x"))
        while not scoring.done():
            passed += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Scorer, "get_context", counted)
    shared.run_with_client(work)
    assert len(set(turns)) == 10
