"""The log of messages: its protocols, topics and codec, on SQLite or on Kafka."""
