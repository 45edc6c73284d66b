"""Text with character offsets: word splitting, alignment of spans, restoring the original."""
