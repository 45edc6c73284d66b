"""The metrics of several processes in one exposition: what they count is added up."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

from service.telemetry.metrics.metrics import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    Series = tuple[str, tuple[tuple[str, str], ...]]  # name and labels of a sample

SUMMED_TYPES: Final = frozenset({"counter", "histogram"})
SUMMED_GAUGES: Final = frozenset({f"{NAMESPACE}_http_queue_sentences"})


def dump_summed_samples(registry: CollectorRegistry) -> bytes:
    """The samples that are added up, without zeros, as JSON."""
    return json.dumps(
        [
            [family.name, sample.name, sample.labels, sample.value]
            for family in registry.collect()
            if _is_summed(family)
            for sample in family.samples
            if sample.value
        ]
    ).encode()


class SummedMetrics(Collector):
    """The metrics of a registry, with the samples of other processes added. All other samples are the registry's own."""

    def __init__(self, registry: CollectorRegistry, dumps: Iterable[bytes]) -> None:
        self._registry = registry
        self._added: dict[str, Counter[Series]] = {}
        for dump in dumps:
            for family, name, labels, value in json.loads(dump):
                self._added.setdefault(family, Counter())[name, tuple(sorted(labels.items()))] += value

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            if _is_summed(family):
                added = self._added.get(family.name, Counter())
                for index, sample in enumerate(family.samples):
                    series = sample.name, tuple(sorted(sample.labels.items()))
                    family.samples[index] = sample._replace(value=sample.value + added.pop(series, 0))
                for (name, labels), value in added.items():  # that this process has not counted
                    family.add_sample(name, dict(labels), value)
            yield family


def _is_summed(family: Metric) -> bool:
    if not family.name.startswith(NAMESPACE):  # of the interpreter and the process, such as its memory
        return False
    return family.type in SUMMED_TYPES or family.name in SUMMED_GAUGES
