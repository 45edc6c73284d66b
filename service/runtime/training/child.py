"""The training process: `python -m service.runtime.training.child`. The trainer starts it.

It reads the settings from the environment, as its parent did. It runs at the lowest priority, and it ends when its
standard input closes: that happens when the parent ends, however it ends.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.contracts import DatasetSettings, ModelComparison, TrainedType, TrainingProgress
from service.errors import InvalidInput, LabelwatchError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.inference.model.registry import ModelRegistry
from service.runtime.datasets.sentences import DatasetSource
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.lifecycle.process import set_up_logging
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.training.messages import FailedMessage, ProgressMessage, RefusedMessage, TrainedMessage
from service.settings import read_settings
from service.training.comparison import compute_difference, compute_model_f1
from service.training.encoder_choice import load_encoder
from service.training.model_writer import check_model_target
from service.training.sentences import collect_sentences
from service.training.trainer import train_model

if TYPE_CHECKING:
    from service.contracts import Message
    from service.settings import Settings
    from service.training.figures import TrainingFigures
    from service.training.sentences import TrainingSet
    from service.training.trainer import Step

logger = logging.getLogger(__name__)

LOWEST_PRIORITY: Final = 19
MAX_OOM_SCORE: Final = "1000"
PARENT_GONE: Final = 3
MAX_LISTED_TYPES: Final = 200


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a model from what a dataset has stored.")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", required=True, help="name of the new model in the registry")
    parser.add_argument("--compare-with", help="folder of the model in use")
    arguments = parser.parse_args()
    _lower_priority()
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    _send(_run(arguments.dataset, arguments.model, arguments.compare_with))


def _lower_priority() -> None:
    """Other processes come first for the CPU, and stay if memory runs out."""
    os.nice(LOWEST_PRIORITY)
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text(MAX_OOM_SCORE, encoding="ascii")


def _end_with_parent() -> None:
    """The parent never writes: a read returns when its end of the pipe is closed.

    Not an ordinary exit, which would wait for the fit. What it leaves in the registry is removed at the next start.
    """
    sys.stdin.buffer.read()
    os._exit(PARENT_GONE)


def _send(message: Message) -> None:
    sys.stdout.write(message.model_dump_json() + "\n")
    sys.stdout.flush()


def _run(dataset: str, model: str, in_use: str | None) -> TrainedMessage | RefusedMessage | FailedMessage:
    try:
        settings = read_settings()
        set_up_logging(settings)
        return _train(settings, dataset, model, in_use)
    except InvalidInput as error:
        return RefusedMessage(reason=str(error))
    except (LabelwatchError, OSError, MemoryError) as error:
        return FailedMessage(reason=f"{type(error).__name__}: {error}")
    except Exception as error:
        logger.exception("training %s failed", model)
        return FailedMessage(reason=f"{type(error).__name__}: {error}")


def _train(settings: Settings, dataset: str, model: str, in_use: str | None) -> TrainedMessage:
    out, trainer = ModelRegistry(settings.models.path).get_path(model), settings.trainer
    check_model_target(out)
    encoder = load_encoder(trainer.encoder)
    _send(ProgressMessage(progress=TrainingProgress(step="read")))
    with ExitStack() as stack:
        log, topics = stack.enter_context(open_existing_log(settings)), build_topics(settings)
        source = DatasetSource(log, topics, dataset)
        data = collect_sentences(source, source.scheme)
        dataset_settings = read_dataset_settings(log, topics).get(dataset) or DatasetSettings(name=dataset)
    trained = train_model(data, out, name=model, encoder=encoder, threads=trainer.threads, on_step=_report_step)
    figures = trained.figures
    comparison, is_worse = None, False
    if in_use is not None:
        _send(ProgressMessage(progress=TrainingProgress(step="compare")))
        # The scheme of the labels is known by now. The settings may leave it to the model.
        dataset_settings = dataset_settings.model_copy(update={"scheme": source.scheme.value})
        try:
            comparison, is_worse = _compare(
                data,
                ModelFolder.load(Path(in_use)),
                dataset_settings,
                new_f1_by_fold=figures.f1_by_fold,
                threads=trainer.threads,
            )
        except LabelwatchError as error:
            logger.warning("%s can't be compared with the model in use, and replaces it: %s", model, error)
    return TrainedMessage(
        fingerprint=ModelFolder.load(out).fingerprint,
        scheme=source.scheme.value,
        sentences=len(data.sentences),
        words=len(data.given),
        f1=figures.f1,
        f1_by_fold=figures.f1_by_fold,
        types=_list_types(figures),
        untrained_types=data.unscored_types[:MAX_LISTED_TYPES],
        comparison=comparison,
        is_worse=is_worse,
    )


def _list_types(figures: TrainingFigures) -> tuple[TrainedType, ...]:
    """The figures of the most frequent types: the record of a training is one message of bounded size."""
    by_frequency = sorted(figures.by_type, key=lambda each: -each.examples)
    return tuple(TrainedType.model_validate(asdict(each)) for each in by_frequency[:MAX_LISTED_TYPES])


def _report_step(step: Step, done: int, total: int) -> None:
    _send(ProgressMessage(progress=TrainingProgress(step=step, done=done, total=total)))


def _compare(
    data: TrainingSet,
    in_use: ModelFolder,
    settings: DatasetSettings,
    *,
    new_f1_by_fold: tuple[float, ...],
    threads: int,
) -> tuple[ModelComparison, bool]:
    f1, by_fold = compute_model_f1(data, Classifier(in_use, threads=threads), settings)
    difference = compute_difference(new_f1_by_fold, by_fold)
    comparison = ModelComparison(
        model=in_use.name, f1=f1, difference=difference.mean, standard_error=difference.standard_error
    )
    return comparison, difference.is_worse


if __name__ == "__main__":
    main()
