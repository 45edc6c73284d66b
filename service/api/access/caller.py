"""Who a request comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from service.api.http.problems import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import HTTPConnection

    from service.contracts.access.roles import Role

CALLER_KEY: Final = "caller"  # in the state of a request

# How a request names a dataset.
NAME_IN_BODY: Final = '"dataset": "{}"'
NAME_IN_QUERY: Final = "?dataset={}"

CallerKind = Literal["key", "user", "anybody"]


class DatasetMessage(Protocol):
    """A part of a request body that may name a dataset."""

    @property
    def dataset(self) -> str: ...

    @property
    def model_fields_set(self) -> set[str]: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """A person or program with a role. `datasets`: the only ones that it may see and change; None: all."""

    name: str
    role: Role
    datasets: frozenset[str] | None = None
    kind: CallerKind = "key"

    def may_use(self, dataset: str) -> bool:
        return self.datasets is None or dataset in self.datasets

    def check_dataset(self, dataset: str, *, field: str | None = None, naming: str | None = None) -> None:
        """Raises `ForbiddenError`, which names the dataset, if the caller may not use it.

        `naming`: how the request could name a dataset, if it has not named this one.
        """
        if self.may_use(dataset):
            return
        if naming is None:
            problem = f"{self.describe()} is not for dataset {dataset[:64]}: it is for {self.list_datasets()}"
        else:
            own = self.listed_datasets or ()
            added = f"`{naming.format(own[0])}`" if len(own) == 1 else f"`{naming.format('…')}` with one of them"
            problem = (
                f"without a `dataset` it is for dataset {dataset}, and {self.describe()} is only for {self.list_datasets()}: "
                f"add {added}"
            )
        raise ForbiddenError(problem, field=field)

    def check_dataset_of(self, message: DatasetMessage, *, field: str | None, naming: str = NAME_IN_BODY) -> None:
        """As `check_dataset`, for a message with a dataset that is `default` if it names none."""
        is_named = "dataset" in message.model_fields_set
        self.check_dataset(message.dataset, field=field, naming=None if is_named else naming)

    def select(self, datasets: Iterable[str]) -> list[str]:
        """Those that the caller may see, in their order."""
        return [name for name in datasets if self.may_use(name)]

    @property
    def listed_datasets(self) -> tuple[str, ...] | None:
        """The datasets that the caller is limited to, in a fixed order; None: all."""
        return None if self.datasets is None else tuple(sorted(self.datasets))

    def list_datasets(self) -> str:
        return "all datasets" if self.listed_datasets is None else ", ".join(self.listed_datasets)

    def describe(self) -> str:
        """As the subject of a sentence."""
        return f"the {self.kind} {self.name!r}"


# Without keys everybody who reaches the service may do everything.
ANYBODY: Final = Caller("", "admin", kind="anybody")


def get_caller(connection: HTTPConnection) -> Caller:
    """The caller of a request that is not public. `AccessControl` has identified it."""
    return cast("Caller", connection.state.caller)


def find_caller(connection: HTTPConnection) -> Caller | None:
    """The caller of any request; none for one that is public, such as a signed event."""
    return cast("Caller | None", getattr(connection.state, CALLER_KEY, None))
