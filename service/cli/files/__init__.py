"""Commands that work on files and models."""
