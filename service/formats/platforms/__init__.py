"""Formats and webhooks of annotation platforms."""
