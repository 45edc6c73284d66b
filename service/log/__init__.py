"""Where messages are kept: the log protocol, its topics and the message codec, on SQLite or on Kafka."""
