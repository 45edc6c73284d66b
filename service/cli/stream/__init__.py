"""Commands that read or write topics."""
