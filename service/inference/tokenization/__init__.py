"""Words to subwords: tokenizers, windows and the cache of encoded words."""
