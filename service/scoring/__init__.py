"""The scoring core: pure numpy, no clock, no I/O, no logging.

flat.py       many sentences as one array of words, checked once on the way in
token.py      a quality score for each word
sentence.py   the paper's scores for a sentence, by name
confident.py  thresholds, flags, the agreement weights behind `priority`

Low is bad everywhere. Only `flat()`, `flatten()` and the merges check what they get; the rest trusts it.
"""
