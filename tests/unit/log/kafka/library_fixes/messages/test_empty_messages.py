from __future__ import annotations

from types import SimpleNamespace

from service.log.kafka.clients import send
from service.log.kafka.library_fixes.messages.empty_messages import EMPTY_VALUE, EMPTY_VALUE_SERIALIZER
from service.log.protocol import Output


def test_a_message_without_key_and_value_is_sent_too() -> None:
    sent: list[dict[str, object]] = []
    producer = SimpleNamespace(send=lambda topic, **rest: sent.append({"topic": topic, **rest}))
    send(producer, Output("t", None, None, (("a", b"1"),), 3))
    send(producer, Output("t", b"k", None))
    assert sent == [
        {"topic": "t", "key": None, "value": EMPTY_VALUE, "headers": [("a", b"1")], "partition": 3},
        {"topic": "t", "key": b"k", "value": None, "headers": [], "partition": None},
    ]
    assert EMPTY_VALUE_SERIALIZER.serialize("t", (), EMPTY_VALUE) is None
    assert EMPTY_VALUE_SERIALIZER.serialize("t", (), b"value") == b"value"
