"""What several routes declare in their signatures: the backend, and parameters with the same meaning everywhere."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from starlette.requests import HTTPConnection

from service.api.access.caller import Caller, get_caller
from service.api.backend import Backend, get_backend
from service.contracts import DatasetName
from service.contracts.validation import shorten
from service.errors import InvalidInput


async def provide_backend(connection: HTTPConnection) -> Backend:
    """Async, because FastAPI runs plain functions in its thread pool, whose threads may all be busy."""
    return get_backend(connection)


async def provide_caller(connection: HTTPConnection) -> Caller:
    return get_caller(connection)


def reject_unknown_parameters(request: Request) -> None:
    """A misspelt filter is an error: ignored, it would return everything. So is one that is sent twice: one would be ignored."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(f"there is no such parameter: there are {', '.join(known)}", field=shorten(name))
        if len(request.query_params.getlist(name)) > 1:
            raise InvalidInput("it is sent more than once: send it once", field=name)


BackendDep = Annotated[Backend, Depends(provide_backend)]
CallerDep = Annotated[Caller, Depends(provide_caller)]
DatasetPath = Annotated[DatasetName, Path(description="The dataset", examples=["default"])]
DatasetQuery = Annotated[DatasetName | None, Query(description="Only this dataset")]
