"""Memory: what a stream has seen lately, per form of a word and per template around it.

keys.py      the form and the template of each word
table.py     counts by key, as one integer array
history.py   all forms of a partition, beyond the recent ones
memory.py    the tables of a partition, and reading them
snapshot.py  the tables as JSON, and back
evidence.py  what memory says about the words of a sentence; learning it afterwards
explain.py   the counts that spoke about one word

What follows from the counts is in service/scoring/memory.py. All sums are integers, so that a replay gives the same bits.
"""
