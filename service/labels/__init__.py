"""Labels: their schemes, and the mapping between labels of a dataset and classes of a model."""

from __future__ import annotations

from service.labels.detection import detect_class_scheme, detect_scheme, merge_by_type
from service.labels.label_set import LabelSet
from service.labels.mapping import UNSCORED, LabelIds, LabelMap, UnmappedPolicy
from service.labels.rendering import DatasetLabelWriter
from service.labels.schemes import (
    OUTSIDE,
    Scheme,
    Span,
    convert_scheme,
    get_entity_type,
    is_valid_end,
    is_valid_sequence,
    is_valid_start,
    is_valid_transition,
    labels_from_spans,
    parse_spans,
)
from service.labels.sequences import find_sequence_problem

__all__ = [
    "OUTSIDE",
    "UNSCORED",
    "DatasetLabelWriter",
    "LabelIds",
    "LabelMap",
    "LabelSet",
    "Scheme",
    "Span",
    "UnmappedPolicy",
    "convert_scheme",
    "detect_class_scheme",
    "detect_scheme",
    "find_sequence_problem",
    "get_entity_type",
    "is_valid_end",
    "is_valid_sequence",
    "is_valid_start",
    "is_valid_transition",
    "labels_from_spans",
    "merge_by_type",
    "parse_spans",
]
