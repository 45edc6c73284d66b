"""labelwatch: finds label errors in token-classification data seconds after they are made."""

__version__ = "0.1.0"
