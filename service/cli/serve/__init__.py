"""Commands that run or set up the service."""
