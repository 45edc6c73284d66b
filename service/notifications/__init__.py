"""Outgoing webhooks: notifications from the topics, signed as Standard Webhooks and delivered at least once."""
