"""Labels: the schemes they are written in, and what a dataset's labels are among a model's classes."""

from __future__ import annotations

from service.labels.detection import class_scheme, detect_scheme, merged_classes
from service.labels.mapping import UNSCORED, LabelIds, LabelMap, Unmapped
from service.labels.rendering import OwnLabels
from service.labels.schemes import (
    OUTSIDE,
    Scheme,
    Span,
    convert,
    entity_type,
    is_valid,
    labels_from_spans,
    spans,
    valid_end,
    valid_start,
    valid_transition,
)

__all__ = [
    "OUTSIDE",
    "UNSCORED",
    "LabelIds",
    "LabelMap",
    "OwnLabels",
    "Scheme",
    "Span",
    "Unmapped",
    "class_scheme",
    "convert",
    "detect_scheme",
    "entity_type",
    "is_valid",
    "labels_from_spans",
    "merged_classes",
    "spans",
    "valid_end",
    "valid_start",
    "valid_transition",
]
