"""Accepts sentences and platform records and appends them to the log."""
