"""Sends messages with neither key nor value.

Bug: `KafkaProducer.send` raises ValueError for such a message, although Kafka accepts it and other clients send it.
Symptom: a message of that kind in the input could not be copied to the dead letters, and its partition would stop.
Remove it when: `test_a_message_without_key_and_value_is_sent_too` passes with `value=None`.
"""

from __future__ import annotations

from kafka.serializer.wrapper import SerializeWrapper

EMPTY_VALUE = object()  # `send` sees a value; `EMPTY_VALUE_SERIALIZER` turns it into none
EMPTY_VALUE_SERIALIZER = SerializeWrapper(lambda value: None if value is EMPTY_VALUE else value)
