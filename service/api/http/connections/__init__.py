"""Connections of clients: their limits, and requests and answers without ASGI."""
