"""Queries of the review queue."""
