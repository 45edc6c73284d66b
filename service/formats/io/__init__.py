"""Byte sources and generic readers: gzip, encodings, JSON objects, rows."""
