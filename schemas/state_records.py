"""JSON Schemas of the records of the state topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.log.codec import POSITION_VERSION
from service.statistics.annotators.sums import ANNOTATOR_FORMAT, SentenceSums
from service.statistics.arrivals import ARRIVALS_FORMAT
from service.statistics.batches import BATCHES_FORMAT
from service.statistics.class_stats import CLASS_STATS_FORMAT
from service.statistics.histogram import HISTOGRAM_FORMAT
from service.statistics.memory.snapshot import HISTORY_FORMAT, RECENT_FORMAT
from service.statistics.running import RUNNING_STATS_FORMAT

if TYPE_CHECKING:
    from service.statistics.snapshots import SnapshotFormat

Schema = dict[str, Any]
PACKED = "compressed with zlib, in Base64"


def _build_counts_schema(description: str) -> Schema:
    return {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": description}


def _build_version_schema(snapshot_format: SnapshotFormat) -> Schema:
    """Each nested format has a version of its own."""
    min_reader = "The oldest version of this format whose readers can use the object; the same as version if absent"
    first = snapshot_format.min_reader
    return {
        "version": {"const": snapshot_format.version} if first is None else {"enum": [first, snapshot_format.version]},
        "min_reader": {
            "type": "integer",
            "minimum": 1,
            "maximum": snapshot_format.version,
            "description": min_reader,
        },
    }


def build_state_schema() -> Schema:
    fields = {
        "sums": "Probability of the class over words given it, in units of 2^-40",
        "counts": "Words given the class",
        "agree_sums": "As sums, of words where the model agrees",
        "agree_counts": "As counts, of words where the model agrees",
    }
    day = {name: _build_counts_schema(f"{text}; one number per class") for name, text in fields.items()}
    smoothed = {
        "type": "object",
        "additionalProperties": False,
        "description": "The same of the probabilities after mention smoothing, where a memory has changed them",
        "required": ["version", *fields],
        "properties": {**_build_version_schema(CLASS_STATS_FORMAT), **day},
    }
    bins = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
    return {
        "title": "State",
        "description": "Integer sums of one dataset, model and partition. Only the worker that owns the partition writes them",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", "n_classes", "keep_days", "buckets", "histogram"],
        "properties": {
            **_build_version_schema(RUNNING_STATS_FORMAT),
            "n_classes": {"type": "integer", "minimum": 1},
            "keep_days": {"type": ["integer", "null"], "minimum": 1, "description": "None: nothing is forgotten"},
            "buckets": {
                "description": "By day; a single one with an empty name if nothing is forgotten",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["version", *fields],
                    "properties": {**_build_version_schema(CLASS_STATS_FORMAT), **day, "smoothed": smoothed},
                },
            },
            "histogram": {
                "description": "The distribution of priorities: bins that are not empty, each with its count",
                "type": "object",
                "additionalProperties": False,
                "required": ["version", "bins"],
                "properties": {**_build_version_schema(HISTOGRAM_FORMAT), "bins": {"type": "array", "items": bins}},
            },
        },
    }


def build_arrivals_schema() -> Schema:
    state = build_state_schema()["properties"]
    empty = "Of empty statistics, for releases that know no other record"
    return {
        "title": "Arrivals",
        "description": "What has arrived in a dataset from one partition. Only the worker that owns the partition writes it",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", *ARRIVALS_FORMAT.fields],
        "properties": {
            **_build_version_schema(ARRIVALS_FORMAT),
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
                "description": "Sentences that contain the label. O is not counted; empty text stands for further labels",
            },
            "waiting": {
                "type": "integer",
                "minimum": 0,
                "description": "Records that are stored until the dataset has a model",
            },
            "next_offset": {
                "type": "integer",
                "minimum": 0,
                "description": "Stored records before this offset of the input are released",
            },
            "flags": {
                "type": "object",
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "description": "By stats key the sentences that were judged, and those of them with a flagged word",
            },
            **{name: {**state[name], "description": empty} for name in ARRIVALS_FORMAT.optional},
        },
    }


def build_annotator_schema() -> Schema:
    state = build_state_schema()["properties"]
    texts = {
        "sentences": "Sentences of the annotator that were judged",
        "sentences_with_spans": "Those of them with a span, given or found by the model",
        "matched_squares": "Sum over the sentences of the square of matched spans",
        "products": "Sum over the sentences of matched spans times given and found spans",
        "span_squares": "Sum over the sentences of the square of given and found spans",
    }
    return {
        "title": "Annotator",
        "description": "Spans that an annotator gave, compared with the model's, of one dataset, model and partition. Only "
        "the worker that owns the partition writes it",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", *ANNOTATOR_FORMAT.fields],
        "properties": {
            **_build_version_schema(ANNOTATOR_FORMAT),
            **{name: {"type": "integer", "minimum": 0, "description": texts[name]} for name in SentenceSums._fields},
            "types": {
                "type": "object",
                "additionalProperties": {**_build_counts_schema("Sums"), "minItems": 3, "maxItems": 3},
                "description": "By entity type of the model the spans that were given, found, and the same in both",
            },
            "confusions": {
                "type": "array",
                "items": {"type": "array", "minItems": 3, "maxItems": 3},
                "description": "Given type, found type and their number, of spans that differ. O stands for no span, two "
                "empty names for further pairs",
            },
            "weeks": {
                "type": "object",
                "additionalProperties": {**_build_counts_schema("Sums"), "minItems": 4, "maxItems": 4},
                "description": "By the Monday of the week the sentences, and the spans given, found and matched",
            },
            **{
                name: {**state[name], "description": "Of empty statistics, for releases that know no other record"}
                for name in ANNOTATOR_FORMAT.optional
            },
        },
    }


def build_batches_schema() -> Schema:
    count = {"type": "integer", "minimum": 0}
    batch = {
        "type": "object",
        "required": ["name", "flagged", "unflagged", "last_arrival_ms"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "flagged": {**count, "description": "Sentences that were sent to review because of a flag"},
            "unflagged": {
                "type": "object",
                "additionalProperties": count,
                "description": "Other sentences, by the control share in force; empty text stands for further shares",
            },
            "last_arrival_ms": {**count, "description": "Time of the last sentence, in milliseconds since 1970"},
            "drawn": {
                "type": "object",
                "additionalProperties": count,
                "description": "Those of `unflagged` that were drawn for the control sample; without any it is left out",
            },
        },
    }
    return _build_state_part(
        "Batches",
        "Sentences of each batch of a dataset from one partition. Only the worker that owns the partition writes it",
        BATCHES_FORMAT,
        {
            "batches": {"type": "array", "items": batch, "description": "The batch with the last sentence comes last"},
            "forgotten": {**count, "description": "Batches that had to go for newer ones"},
        },
    )


def build_memory_schema() -> Schema:
    texts = {
        "n_types": "Number of entity types, O included",
        "sentences": "Sentences that were learned from",
        "gate_words": "Words with a known pattern whose label the model disagrees with",
        "period": "Of a dataset that forgets: the first day of the days after which it forgets, as days since year 1",
    }
    tables = {
        "forms": "Recent words by form: their number, and the sum of each type's probability in units of 2^-20",
        "forms_before": "The same of the generation before",
        "templates": "Recent words by pattern: as forms, and the number of words given each type",
        "templates_before": "The same of the generation before",
    }
    properties = {name: {"type": "integer", "minimum": 0, "description": text} for name, text in texts.items()}
    return _build_state_part(
        "Memory",
        "What a partition has seen lately of words and patterns. Only the worker that owns the partition writes it",
        RECENT_FORMAT,
        {
            **properties,
            "gate_sum": {"type": "integer", "description": "Sum of the conventions of those words, in units of 2^-20"},
            **{name: _build_packed_table(text) for name, text in tables.items()},
            "history_generations": {
                "type": ["integer", "null"],
                "description": "Generations in the history that belongs to it; null: the dataset keeps none",
            },
        },
    )


def build_history_schema() -> Schema:
    return _build_state_part(
        "History",
        "All earlier words of a partition by form; written when a generation of recent words is added",
        HISTORY_FORMAT,
        {
            "n_types": {"type": "integer", "minimum": 1},
            "generations": {"type": "integer", "minimum": 0, "description": "Generations that were added"},
            "forms": _build_packed_table("Words by form, as in the memory"),
            "last_seen": {
                "type": "string",
                "description": f"The generation in which each form was last seen, {PACKED}",
            },
        },
    )


def _build_state_part(title: str, description: str, part: SnapshotFormat, properties: Schema) -> Schema:
    state = build_state_schema()["properties"]
    empty = "Of empty statistics, for releases that know no other record"
    return {
        "title": title,
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "required": ["version", *part.fields],
        "properties": {
            **_build_version_schema(part),
            **properties,
            **{name: {**state[name], "description": empty} for name in part.optional},
        },
    }


def _build_packed_table(description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "required": ["keys", "numbers"],
        "properties": {
            "keys": {"type": "string", "description": f"A JSON list, {PACKED}"},
            "numbers": {
                "type": "string",
                "description": "For each column one byte with the size of its numbers, then the columns, little-endian, "
                f"{PACKED}",
            },
        },
    }


def build_position_schema() -> Schema:
    return {
        "title": "Position",
        "description": "The offset of the partition's next record; written with every batch",
        "type": "object",
        "required": ["next_offset", "version"],
        "properties": {"next_offset": {"type": "integer", "minimum": 0}, "version": {"const": POSITION_VERSION}},
    }
