"""Messages that the library can't read or send."""
