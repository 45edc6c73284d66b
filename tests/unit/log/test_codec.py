"""Messages as they are encoded in the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contracts import LabelledSentence, read_sentence
from service.errors import MessageTooLargeError, StateError
from service.log.codec import (
    MAX_SENTENCE_BYTES,
    SENTENCE_EVENT_TYPE,
    RequestOrigin,
    build_sentence_message,
    decode_headers,
    encode_headers,
    get_header,
    parse_annotator_key,
    parse_arrivals_key,
    parse_batches_key,
    parse_memory_key,
    parse_position,
    parse_position_key,
    parse_state_key,
)


def show_start(value: bytes) -> str:
    return repr(value[:20])


def make_sentence(**fields: object) -> LabelledSentence:
    return read_sentence({"tokens": ["Jane"], "labels": ["B-PER"], "id": "42", "dataset": "news", **fields})


def test_a_sentence_message_holds_the_sentence_its_key_and_the_event() -> None:
    sentence = make_sentence()
    message = build_sentence_message("in", sentence, origin=RequestOrigin("r-1", "anna"))
    assert (message.topic, message.key) == ("in", b"news/42")
    assert read_sentence(message.value or b"") == sentence
    assert get_header(message.headers, "ce_type") == SENTENCE_EVENT_TYPE
    assert get_header(message.headers, "x-request-id") == "r-1"
    assert get_header(message.headers, "x-sent-by") == "anna"
    again = build_sentence_message("in", sentence)
    assert get_header(again.headers, "ce_id") != get_header(message.headers, "ce_id")
    assert get_header(again.headers, "x-request-id") is None
    assert get_header(again.headers, "x-sent-by") is None


def test_the_sentences_of_a_document_have_one_key_whatever_their_ids() -> None:
    keys = {build_sentence_message("in", make_sentence(id=str(n), document="page/7")).key for n in range(3)}
    assert keys == {b"news/page/7"}
    assert build_sentence_message("in", make_sentence(dataset="other", document="page/7")).key == b"other/page/7"


@pytest.mark.parametrize(("location", "prefix"), [(None, "the message"), ("sentences.1", "`sentences.1`: the message")])
def test_a_sentence_that_is_larger_than_the_topic_accepts_is_refused(location: str | None, prefix: str) -> None:
    with pytest.raises(MessageTooLargeError) as refused:
        build_sentence_message("in", make_sentence(meta={"a": "x" * MAX_SENTENCE_BYTES}), location=location)
    assert str(refused.value).startswith(prefix)
    assert f"the limit is {MAX_SENTENCE_BYTES:,}: split the sentence" in str(refused.value)
    assert refused.value.field == location


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.binary())))
def test_headers_survive_as_json_whatever_their_bytes(headers: list[tuple[str, bytes]]) -> None:
    assert decode_headers(encode_headers(tuple(headers))) == tuple(headers)


@pytest.mark.parametrize(
    "key", [b"[" * 100_000, b'["x", Infinity]', b'["x", Infinity, "a", "b/c"]', b"{}", b"\xff"], ids=show_start
)
def test_a_key_of_the_state_topic_that_nobody_can_read_is_an_ordinary_error(key: bytes) -> None:
    for parse_optional in (parse_annotator_key, parse_arrivals_key, parse_batches_key, parse_memory_key):
        assert parse_optional(key) is None
    assert parse_memory_key(b'["memory", Infinity, "a", "b/c"]') is None
    for parse in (parse_state_key, parse_position_key):
        with pytest.raises(StateError, match="unreadable key"):
            parse(key)


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"next_offset": Infinity}', b"{}", b"[]"], ids=show_start)
def test_a_position_that_nobody_can_read_is_an_ordinary_error(value: bytes) -> None:
    with pytest.raises(StateError, match="unreadable"):
        parse_position(value)
