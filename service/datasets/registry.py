"""The datasets that a process knows: the settings in force, and a judge for each whose model is there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings, is_dataset_name
from service.contracts.defaults import MAX_DATASETS
from service.contracts.probabilities import CLASSES_FIELD
from service.datasets.settings_records import LatestSettings, get_dataset_name, read_settings_record
from service.errors import InvalidInput, LabelwatchError, MissingModelError, UnknownDatasetError
from service.inference.model.pool import shorten_fingerprint
from service.judging.class_source import MAX_CLASS_LISTS, ExternalClasses, get_external_classes
from service.judging.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import LabelledSentence
    from service.inference.model.folder import ModelFolder
    from service.inference.model.pool import ModelPool
    from service.log.protocol import Record

logger = logging.getLogger(__name__)

MAX_LISTED_DATASETS = 20  # in an error text
MIN_NAME_SIMILARITY = 0.75


@dataclass(frozen=True, slots=True)
class SettingsState:
    """A dataset's settings in force in this process, and what the datasets topic contains."""

    in_force: DatasetSettings
    latest: LatestSettings
    problem: str | None  # why the newest record of the topic is not in force

    @property
    def next_version(self) -> int:
        """Higher than any version in the topic: a process with another model may use one that is not in force here."""
        return max(self.in_force.version, self.latest.version) + 1


class DatasetRegistry:
    """Settings by dataset name; the newest version wins. One thread uses it.

    A dataset without settings gets the defaults when its first sentence arrives. `max_datasets` limits how many: a
    faulty producer could otherwise fill the state with names.

    Settings that name a model which this process lacks are in force. The dataset has no judge until the model is there:
    `get_judge` raises `MissingModelError`.
    """

    def __init__(
        self, models: ModelPool, *, max_datasets: int = MAX_DATASETS, min_words: int, prior_words: int
    ) -> None:
        self._models = models
        self._max_datasets = max_datasets
        self._min_words = min_words
        self._prior_words = prior_words
        self._settings: dict[str, DatasetSettings] = {}
        self._judges: dict[str, Judge] = {}
        self._external_judges: dict[str, dict[tuple[str, ...], Judge]] = {}  # by dataset and class list
        self._existing: set[str] = set()
        self._latest: dict[str, LatestSettings] = {}
        self.refused_settings: dict[str, str] = {}

    def register_existing(self, names: Iterable[str]) -> None:
        """Adds datasets that have statistics. They count towards the limit, and the limit never excludes them."""
        self._existing.update(names)

    def apply_records(self, records: Iterable[Record]) -> None:
        """Applies records of the datasets topic. A record that can't be used leaves the older settings in force."""
        for record in records:
            name = get_dataset_name(record)
            self._latest[name] = self._get_latest(name).apply(record)
            if record.value is None:
                self._settings.pop(name, None)
                self._judges.pop(name, None)
                self._external_judges.pop(name, None)
                self.refused_settings.pop(name, None)
                continue
            try:
                self.put(read_settings_record(record))
            except LabelwatchError as error:
                self.refused_settings[name] = str(error)
            except Exception as error:  # every process reads the record at each start: it must not end them all
                logger.exception("the settings of the dataset %s are set aside", name)
                self.refused_settings[name] = f"an error of labelwatch, {type(error).__name__}: {error}"

    def put(self, settings: DatasetSettings) -> None:
        current = self._settings.get(settings.name)
        if current is not None and settings.version < current.version:
            return
        try:
            judge = self.build_judge(settings)  # raises if the settings don't fit the model
        except MissingModelError:
            self._judges.pop(settings.name, None)
        else:
            self._judges[settings.name] = judge
        self._settings[settings.name] = settings
        self._external_judges.pop(settings.name, None)
        self.refused_settings.pop(settings.name, None)

    def get_judge(self, name: str) -> Judge:
        judge, settings = self._judges.get(name), self._settings.get(name)
        if settings is None or settings.model is None:
            return self._add_judge(name) if judge is None else judge
        folder = self._find_folder(settings)
        if judge is None or judge.folder is not folder:
            judge = self._judges[name] = self._build_late_judge(settings)
        return judge

    def _add_judge(self, name: str) -> Judge:
        settings = self._settings.get(name)
        known = {*self.names, *self._existing}
        if settings is None and name not in known and len(known) >= self._max_datasets:
            raise InvalidInput(
                f"{name!r} would be dataset number {self._max_datasets + 1}: use an existing dataset or raise "
                "max_datasets",
                field="dataset",
            )
        judge = self._judges[name] = self.build_judge(settings or DatasetSettings(name=name))
        return judge

    def _build_late_judge(self, settings: DatasetSettings) -> Judge:
        """The judge for a model that has appeared or changed since the settings came into force."""
        try:
            judge = self.build_judge(settings)
        except InvalidInput as error:
            self._judges.pop(settings.name, None)
            self.refused_settings[settings.name] = str(error)
            # Not the sentence is at fault, so it must not become a dead letter.
            raise MissingModelError(
                f"the settings of the dataset {settings.name!r} don't fit its model {settings.model!r}: {error}"
            ) from error
        self.refused_settings.pop(settings.name, None)
        return judge

    def find_missing_model(self, name: str) -> str | None:
        """Why the dataset can't be judged: its model is missing. None if it is there."""
        try:
            self._find_folder(self.get_settings_state(name).in_force)
        except MissingModelError as error:
            return str(error)
        return None

    def _find_folder(self, settings: DatasetSettings) -> ModelFolder:
        try:
            return self._models.get_folder(settings.model, settings.model_fingerprint)
        except MissingModelError as error:
            fingerprint = settings.model_fingerprint
            expected = "" if fingerprint is None else f" (fingerprint {shorten_fingerprint(fingerprint)})"
            raise MissingModelError(
                f"the dataset {settings.name!r} needs the model {settings.model or 'default'!r}{expected}: {error}"
            ) from error

    def get_sentence_judge(self, sentence: LabelledSentence) -> Judge:
        """The judge for the sentence's probabilities: the dataset's, or one for the class list that was sent with it."""
        classes = get_external_classes(sentence)
        if classes is None:
            return self.get_judge(sentence.dataset)
        settings = self._settings.get(sentence.dataset) or self.get_judge(sentence.dataset).settings
        judges = self._external_judges.setdefault(sentence.dataset, {})
        if classes not in judges:
            if len(judges) >= MAX_CLASS_LISTS:
                raise InvalidInput(
                    f"the dataset {sentence.dataset!r} has {MAX_CLASS_LISTS} other class lists: send the same classes in "
                    "the same order with every sentence",
                    field=CLASSES_FIELD,
                )
            judges[classes] = self.build_judge(settings, classes)
        return judges[classes]

    def get_settings_state(self, name: str) -> SettingsState:
        """What a change of the dataset's settings builds on."""
        in_force = self._settings.get(name) or DatasetSettings(name=name)
        return SettingsState(in_force, self._get_latest(name), self.refused_settings.get(name))

    def _get_latest(self, name: str) -> LatestSettings:
        return self._latest.get(name, LatestSettings())

    def build_judge(self, settings: DatasetSettings, classes: tuple[str, ...] | None = None) -> Judge:
        """A new judge with these settings, which the registry does not store; raises if they don't fit the model.

        Raises `MissingModelError` if the model is not there.

        With `classes` it judges probabilities that are sent for this class list.
        """
        source = (
            self._find_folder(settings)
            if classes is None
            else ExternalClasses.from_labels(classes, dataset_scheme=settings.scheme)
        )
        return Judge(source, settings, min_words=self._min_words, prior_words=self._prior_words, streamed=True)

    def __contains__(self, name: str) -> bool:
        return name in self._judges or name in self._settings

    @property
    def names(self) -> tuple[str, ...]:
        """The datasets with settings, and those that a sentence named."""
        return tuple(sorted({*self._judges, *self._settings}))

    def list_names(self, learned: Iterable[str] = ()) -> tuple[str, ...]:
        """Every dataset that has settings, in force or not, or is among the `learned` ones that have statistics."""
        # Any writer to the topic can choose any key.
        refused = (name for name in self.refused_settings if is_dataset_name(name))
        return tuple(sorted({*self.names, *refused, *learned}))


def check_dataset_exists(name: str, names: Sequence[str], *, field: str = "name") -> None:
    """`field`: what holds the name in the request."""
    if name not in names:
        listed = ", ".join(names[:MAX_LISTED_DATASETS]) + (", …" if len(names) > MAX_LISTED_DATASETS else "")
        known = f"the datasets are {listed}" if names else "there are no datasets yet"
        similar = find_similar_name(name, names)
        hint = "" if similar is None else f". Did you mean {similar!r}?"
        raise UnknownDatasetError(f"the dataset {name!r} is not known: {known}{hint}", field=field)


def find_similar_name(name: str, names: Sequence[str]) -> str | None:
    """The dataset that a misspelt name may mean."""
    return next(iter(get_close_matches(name, names, n=1, cutoff=MIN_NAME_SIMILARITY)), None)
