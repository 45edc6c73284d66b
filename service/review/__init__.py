"""The queue that people work on, its ranker, and what their decisions say: all built from topics, at any time anew."""
