"""The audit trail over REST, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from service.access.audit_log import AuditFilter
from service.api.dependencies import BackendDep, DatasetQuery, reject_unknown_parameters
from service.contracts.access.audit import AuditAction, AuditRecord

router = APIRouter(tags=["keys"])

MAX_PAGE_SIZE = 200


class AuditPage(BaseModel):
    records: list[AuditRecord] = Field(description="Newest first")
    next: int | None = Field(description="Value of `before` for the next page; null on the last page")


@router.get("/v1/audit", summary="Who changed what", dependencies=[Depends(reject_unknown_parameters)])
async def audit(
    backend: BackendDep,
    *,
    actor: Annotated[str | None, Query(max_length=128, description="Only changes by this key, user or command")] = None,
    action: Annotated[AuditAction | None, Query(description="Only changes of this kind")] = None,
    dataset: DatasetQuery = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    before: Annotated[int | None, Query(ge=0, lt=2**63, description="`next` of the previous page")] = None,
) -> AuditPage:
    """The newest 10,000 changes: decisions, settings, trainings, replays and keys, with who made them and when.

    `labelwatch audit-log` reads all that the topic holds.
    """
    found = backend.audit_view.list_newest_first(AuditFilter(actor, action, dataset), before=before, limit=limit + 1)
    page = found[:limit]
    return AuditPage(records=[entry.record for entry in page], next=page[-1].offset if len(found) > limit else None)
