"""Connections to brokers that fail or hang."""
