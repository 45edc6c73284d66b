"""Default numbers that both the settings and the code below them use. The settings show them to operators."""

from __future__ import annotations

BATCH_TOKENS = 512
"""Padded tokens in one batch of the model."""

QUEUE_SENTENCES = 2_048
"""Sentences of requests that wait for the model."""

BATCH_RECORDS = 1024
"""Records in one commit of a worker."""

MAX_DATASETS = 1_000
"""Datasets that exist only because a sentence named them."""

MAX_ANNOTATORS = 200
"""Annotators of a dataset with sums of their own, by source partition."""

MAX_LOADED_MODELS = 4
"""Models of the registry in memory at a time, beside the default model."""

MIN_WORDS = 20
"""A class with fewer words of its own is warming up.

A mean of 20 probabilities is off by .11 at the very worst (.5/√20) and by about .05 as classes commonly spread. With
fewer words a single mislabelled one dominates: a class whose only word so far got .01 would be "confident" almost
everywhere.
"""

PRIOR_WORDS = 200
"""How many words the model's held-out mean of a class counts for."""

MIN_TRAINING_SENTENCES = 300
"""Sentences of a dataset at which the trainer trains its first model.

With 200 sentences F1 is between .52 and .75, with 500 between .64 and .73: enough to put errors first in a queue.
"""

MAX_LABEL_CHARS = 202
"""The longest entity type, with a prefix."""
