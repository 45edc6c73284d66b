"""Micro-batching: requests share inference batches."""
