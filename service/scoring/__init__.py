"""The scoring core: pure numpy, no clock, no I/O, no logging.

flat.py       many sentences as one array of words, validated once
token.py      a quality score for each word
sentence.py   the paper's scores for a sentence, by name
confident.py  thresholds, flags, the agreement weights behind `priority`
memory.py     what earlier words like it say about a word

Low is bad everywhere. Only `from_flat_arrays`, `flatten` and the merges validate their input; the rest relies on it.
"""
