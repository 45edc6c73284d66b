"""Clients of annotation platforms."""
