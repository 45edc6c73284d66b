"""Predictions for the tasks of a Label Studio project: what the model finds, or the doubts about an annotation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from service.api.http.threads import run_in_thread
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment
from service.errors import InferenceError, InvalidInput
from service.formats import ReadOptions
from service.formats.platforms.label_studio.predictions import (
    SuggestedEntity,
    build_regions,
    build_suggested_entities,
)
from service.formats.platforms.label_studio.tasks import LabelingInterface, Task, convert_task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.api.backend import Backend
    from service.contracts import AnnotatedSentence, ModelName
    from service.judging.types import Prediction

logger = logging.getLogger(__name__)

# Not the prefix of `labelwatch push`, which removes its own predictions when they no longer hold.
VERSION_PREFIX: Final = "labelwatch-backend "


def build_model_version(model: ModelName) -> str:
    """Label Studio asks again for the predictions of a task when the version changes."""
    return f"{VERSION_PREFIX}{model.name} {model.fingerprint[:12]}"


class TaskPredictor:
    """Answers one request for predictions."""

    def __init__(
        self, backend: Backend, scorer: Scorer, dataset: str, interface: LabelingInterface, *, request_id: str
    ) -> None:
        self._backend = backend
        self._scorer = scorer
        self._dataset = dataset
        self._interface = interface
        self._request_id = request_id

    async def predict(self, tasks: Sequence[object]) -> list[dict[str, Any] | None]:
        """One prediction per task; None for one that can't be read or judged. If none can be, it raises the first error."""
        context = self._scorer.get_context(self._dataset, ScoreOptions())
        options = ReadOptions(max_words=self._backend.max_words, scheme=context.judge.scheme)
        read = await run_in_thread(lambda: [self._read_task(task, index, options) for index, task in enumerate(tasks)])
        errors: dict[int, InvalidInput | InferenceError] = {}
        annotated: dict[int, Task] = {}
        unannotated: dict[int, Task] = {}
        for index, task in enumerate(read):
            if isinstance(task, InvalidInput):
                errors[index] = task
            else:
                (annotated if task.is_annotated else unannotated)[index] = task
        predictions: dict[int, dict[str, Any]] = {}
        for answers in (await self._judge(annotated), await self._label(unannotated)):
            for index, answer in answers.items():
                if isinstance(answer, dict):
                    predictions[index] = answer
                else:
                    errors[index] = answer
        if errors:
            first = errors[min(errors)]
            if not predictions:
                raise first
            logger.warning("%d of %d tasks get no prediction; the first: %s", len(errors), len(tasks), first)
        version = build_model_version(context.judge.model)
        return [
            predictions[index] | {"model_version": version} if index in predictions else None
            for index in range(len(tasks))
        ]

    def _read_task(self, task: object, index: int, options: ReadOptions) -> Task | InvalidInput:
        try:
            return convert_task(task, f"tasks.{index}", self._interface, self._dataset, options)
        except InvalidInput as error:
            return error

    async def _judge(self, tasks: Mapping[int, Task]) -> dict[int, dict[str, Any] | InvalidInput | InferenceError]:
        """The given spans, with the doubtful ones replaced by what the model suggests."""
        if not tasks:
            return {}
        sentences = [task.sentence for task in tasks.values()]
        scored = await self._scorer.score(sentences, ScoreOptions(), request_id=self._request_id)
        answers: dict[int, dict[str, Any] | InvalidInput | InferenceError] = {}
        for index, answer in zip(tasks, scored.answers, strict=True):
            if isinstance(answer, bytes):
                assessment = Assessment.model_validate_json(answer)
                answers[index] = self._render(assessment, build_suggested_entities(assessment), assessment.score)
            else:
                answers[index] = answer
        return answers

    async def _label(self, tasks: Mapping[int, Task]) -> dict[int, dict[str, Any] | InvalidInput | InferenceError]:
        """What the model finds."""
        if not tasks:
            return {}
        sentences = [task.sentence for task in tasks.values()]
        predictions = await self._scorer.predict(sentences)
        answers: dict[int, dict[str, Any] | InvalidInput | InferenceError] = {}
        for index, sentence, prediction in zip(tasks, sentences, predictions, strict=True):
            if isinstance(prediction, InvalidInput | InferenceError):
                answers[index] = prediction
            else:
                answers[index] = self._render(sentence, _to_suggested(prediction), prediction.confidence)
        return answers

    def _render(
        self, sentence: AnnotatedSentence, entities: Sequence[SuggestedEntity], score: float | None
    ) -> dict[str, Any]:
        control = self._interface.control
        # Label Studio accepts labels that the project does not have, and then shows nothing.
        known = [entity for entity in entities if entity.span.type in control.labels]
        regions = build_regions(sentence, known, from_name=control.name, to_name=control.to_name)
        return {"result": regions or [], "score": score}


def _to_suggested(prediction: Prediction) -> list[SuggestedEntity]:
    return [SuggestedEntity(entity.span, entity.confidence) for entity in prediction.entities]
