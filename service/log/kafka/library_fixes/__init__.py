"""Everything that exists only because of a bug or a gap in kafka-python. Each fix says when it can go."""
