"""Transactions that lose requests, wait forever or can't be closed."""
