"""Scores the sentences of a request."""
