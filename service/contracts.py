"""The wire messages: what comes in, what goes out. `schemas/` is generated from them.

Unknown fields are an error on REST and ignored on Kafka, where a producer may be newer than we are;
`read_sentence` takes the choice as an argument.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from service.errors import DecodeError, InvalidInput, TooLongError

MAX_WORDS = 5_000
DATASET_RULE = "a name has 1 to 64 lower-case letters, digits, dots, dashes or underscores"
NO_OBJECT = (
    'not a JSON object: send one such as {"tokens": […], "labels": […]}; over REST several go as {"sentences": […]}, '
    "or as NDJSON, one a line"
)
NOT_UNICODE = "it holds half of a surrogate pair: send valid Unicode text"

DatasetName = Annotated[StrictStr, Field(pattern=r"^[a-z0-9._-]{1,64}$", description="Lower-case name of the dataset")]
Reason = Literal["flagged", "update", "deleted", "control", "scored"]
SuspectKind = Literal["missed", "spurious", "type", "boundary"]


class Message(BaseModel):
    """Frozen, and silent about fields it does not know unless the reader says otherwise."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def _only_iso_text(value: object) -> object:
    """A bare number would be read as seconds since 1970, which is never what was meant."""
    if isinstance(value, str) and not value.strip().lstrip("+-").isdigit():
        return value
    if value is None or isinstance(value, datetime):
        return value
    raise ValueError("give the time as ISO 8601 text, such as 2024-05-31T12:00:00Z")


class LabelledSentence(Message):
    """Words with one given label each. Bare `{"tokens": […], "labels": […]}` is a valid message."""

    tokens: tuple[StrictStr, ...] = Field(default=(), description="The words")
    labels: tuple[StrictStr, ...] = Field(default=(), description="One label a word, in the dataset's own names")
    dataset: DatasetName = "default"
    id: StrictStr | None = Field(default=None, min_length=1, max_length=512, description="Unique in its dataset")
    revision: StrictInt = Field(
        default=0, ge=-(2**63), lt=2**63, description="Grows each time the sentence is annotated again"
    )
    update: StrictBool = Field(default=False, description="Replaces an earlier annotation")
    deleted: StrictBool = Field(default=False, description="The annotation is gone; needs no tokens")
    annotator: StrictStr | None = Field(default=None, max_length=256)
    source: StrictStr | None = Field(default=None, max_length=2048, description="Link to where it was annotated")
    annotated_at: datetime | None = None
    meta: dict[str, JsonValue] | None = None

    _iso = field_validator("annotated_at", mode="before")(_only_iso_text)

    @model_validator(mode="after")
    def _fits_together(self) -> LabelledSentence:
        if self.deleted and self.id is None:
            raise _wrong("id", "a deletion needs the id of the sentence that is gone")
        if not self.deleted and not self.tokens:
            raise _wrong("tokens", "it is empty: send at least one word, or `deleted: true`")
        if not self.deleted and len(self.tokens) != len(self.labels):
            raise _wrong("labels", f"{len(self.labels)} labels for {len(self.tokens)} words: give each word one label")
        for field, texts in (("tokens", self.tokens), ("labels", self.labels)):
            if "".join(texts).isascii():
                continue
            for word, text in enumerate(texts):
                if not _encodable(text):
                    raise _wrong(field, NOT_UNICODE, word=word)
        if self.meta is not None:
            _check_meta(self.meta)
        return self


def _wrong(field: str, problem: str, *, word: int | None = None) -> PydanticCustomError:
    """An error that `read_sentence` can tell with its field and word."""
    return PydanticCustomError("labelwatch", "{problem}", {"problem": problem, "field": field, "word": word})


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_meta(meta: dict[str, JsonValue]) -> None:
    """What is handed through must be able to leave again as JSON."""
    try:
        json.dumps(meta, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _wrong("meta", NOT_UNICODE) from None
    except ValueError:
        raise _wrong("meta", "it holds NaN or an infinity, which JSON can't: leave it out or send null") from None


class WordScore(Message):
    """What is said of one word: its numbers, or why it has none."""

    p_given: float | None = None
    score: float | None = None
    unscored: str | None = None


class Flag(Message):
    """A word whose given label confident learning doubts."""

    index: int
    token: str
    given: str
    suggested: str = Field(description="As the dataset would write it: in its own names and scheme")
    p_given: float
    p_suggested: float
    threshold: float | None = Field(
        default=None, description="Threshold of the class that is suggested; none where it has no evidence yet"
    )


class EntitySpan(Message):
    start: int
    end: int = Field(description="Exclusive")
    type: str = Field(description="In the dataset's own names")


class SuspectSpan(Message):
    """The doubt said of an entity: given and suggested span side by side."""

    kind: SuspectKind
    given_span: EntitySpan | None = None
    suggested_span: EntitySpan | None = None
    confidence: float


class ModelName(Message):
    name: str
    fingerprint: str


class Position(Message):
    topic: str
    partition: int
    offset: int


class Assessment(LabelledSentence):
    """What the service says of one sentence. Low is bad in `score` and `priority`; nothing is rounded."""

    reason: Reason
    score: float | None = Field(default=None, description="The dataset's method; none where no word could be scored")
    method: str
    token_score: str
    priority: float | None = Field(default=None, description="Agreement-weighted worst token: what orders the queue")
    weights: dict[str, float] = Field(
        default_factory=dict,
        description="Given label to the weight of doubts about it; a word adds 1 - (1 - p_given) * weight to priority",
    )
    inclusion_probability: float | None = Field(
        default=None, gt=0, le=1, description="Of a control sentence: how likely it was to be drawn"
    )
    words: tuple[WordScore, ...] = ()
    flags: tuple[Flag, ...] = ()
    worst: Flag | None = Field(
        default=None, description="The word that set the priority, told as a flag would, flagged or not"
    )
    suspects: tuple[SuspectSpan, ...] = ()
    thresholds: dict[str, float | None] = Field(
        default_factory=dict,
        description="Class, as the model calls it, to the threshold it was judged with; none: too little evidence",
    )
    warming_up: tuple[str, ...] = Field(
        default=(), description="Classes, as the model calls them, with few words of the dataset so far"
    )
    model: ModelName
    settings_version: int = 0
    position: Position | None = None
    scored_at: datetime | None = None
    request_id: str | None = None


class Shown(Message):
    """What a reviewer decided about, kept with the decision: the item may be replaced, and the topic is compacted."""

    labels: tuple[str, ...] = Field(default=(), description="The given labels")
    scores: tuple[float | None, ...] = Field(default=(), description="Weighted score of each word; none: unscored")
    doubtful: tuple[Flag, ...] = ()
    reason: Reason = "flagged"
    inclusion_probability: float | None = Field(default=None, description="Of a control sentence", gt=0, le=1)
    method: str = "worst-token"
    annotator: str | None = None
    ranker_epoch: int = 0


class Decision(Message):
    """What a reviewer answers. The last one of a reviewer counts, as long as it is about the item's revision."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="The sentence")
    revision: StrictInt = Field(default=0, ge=-(2**63), lt=2**63, description="Of the item that was looked at")
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    verdict: Literal["error", "ok", "unsure"]
    labels: tuple[StrictStr, ...] | None = Field(default=None, description="The corrected labels, one a word")
    words: tuple[StrictInt, ...] | None = Field(default=None, description="Indexes of the words with a wrong label")
    decided_at: datetime | None = Field(default=None, description="The service's clock where left out")
    note: StrictStr | None = Field(default=None, max_length=2000)
    withdrawn: StrictBool = Field(default=False, description="Taken back: the item opens again")
    shown: Shown | None = Field(default=None, description="The service adds what the item held")

    _iso = field_validator("decided_at", mode="before")(_only_iso_text)


class Claim(Message):
    """An item somebody has open, so that others look at something else meanwhile."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="The sentence")
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    until: datetime | None = Field(default=None, description="None: let go")

    _iso = field_validator("until", mode="before")(_only_iso_text)


class ConfidentPolicy(Message):
    """Any word that confident learning doubts sends its sentence to review."""

    kind: Literal["confident"] = "confident"


class BelowPolicy(Message):
    """A score under the cut sends the sentence to review."""

    kind: Literal["below"]
    cut: float


class BudgetPolicy(Message):
    """The worst share of the stream by priority goes to review: what the reviewers can handle."""

    kind: Literal["budget"]
    share: float = Field(gt=0, le=1)


FlagPolicy = Annotated[ConfidentPolicy | BelowPolicy | BudgetPolicy, Field(discriminator="kind")]


class DatasetSettings(Message):
    """How a dataset is judged; every process reads them from the same topic, each assessment names the version."""

    name: DatasetName = "default"
    version: int = 0
    scheme: Literal["iob1", "iob2", "biluo", "io"] | None = Field(default=None, description="None: as the model's")
    label_map: dict[str, str] = Field(default_factory=dict, description="Dataset's label or type to the model's")
    unmapped: Literal["reject", "unscored"] = "reject"
    method: str = "worst-token"
    token_score: str = "self-confidence"
    pooling: Literal["mean", "characters", "first"] | None = Field(default=None, description="None: as the model says")
    flag_policy: FlagPolicy = ConfidentPolicy()
    control_share: float = Field(default=0.0, ge=0, le=1, description="Share of unflagged sentences sent to review")
    forget_after_days: int | None = Field(default=None, ge=1)
    epoch: int = Field(default=0, ge=0, description="Raised to start the statistics anew")
    ranker: Literal["auto", "off"] = Field(default="auto", description="Whether reviewers' decisions order the queue")
    ranker_epoch: int = Field(default=0, ge=0, description="Raised to let the ranker forget earlier decisions")


def read_sentence(
    raw: bytes | str | dict[str, Any],
    *,
    max_words: int = MAX_WORDS,
    unknown_fields: Literal["ignore", "forbid"] = "ignore",
) -> LabelledSentence:
    """Reads a sentence from JSON or from an object; the error names the field and says what to change."""
    try:
        if isinstance(raw, dict):
            sentence = LabelledSentence.model_validate(raw, extra=unknown_fields)
        else:
            sentence = LabelledSentence.model_validate_json(raw, extra=unknown_fields)
    except ValidationError as error:
        raise _clear(error) from None
    if len(sentence.tokens) > max_words:
        raise TooLongError(f"{len(sentence.tokens)} words, at most {max_words} are allowed: split it", field="tokens")
    return sentence


def _clear(error: ValidationError) -> InvalidInput:
    first = error.errors(include_url=False)[0]
    problem = first["msg"].removeprefix("Value error, ").replace("valid tuple", "valid array")
    if first["type"] == "json_invalid":
        return DecodeError(problem)
    if first["type"] in ("model_type", "model_attributes_type") and not first["loc"]:
        return InvalidInput(NO_OBJECT)
    if first["type"] == "extra_forbidden":
        problem = f"there is no such field: the fields are {', '.join(LabelledSentence.model_fields)}"
    elif first["type"] == "string_pattern_mismatch" and first["loc"] == ("dataset",):
        problem = DATASET_RULE
    context = first.get("ctx", {})
    field, word = context.get("field"), context.get("word")
    if first["type"] != "labelwatch":
        place = first["loc"]
        if len(place) == 2 and place[0] in ("tokens", "labels") and isinstance(place[1], int):
            field, word = str(place[0]), place[1]
        else:
            field = ".".join(str(part) for part in place) or None
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return InvalidInput(problem + more, field=field, word=word)
