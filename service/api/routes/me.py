"""Who the caller is, and what the caller may do."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from service.api.access.rules import ACTIONS, RULES
from service.api.dependencies import CallerDep
from service.contracts.access.roles import Role

router = APIRouter(tags=["service"])


class Me(BaseModel):
    """The caller."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "dana", "role": "reviewer", "datasets": ["med"], "may": ["read", "score", "decide"]},
            ]
        }
    )

    name: str | None = Field(description="Name of the key or user; null if the service has no keys")
    role: Role
    datasets: list[str] | None = Field(description="The only datasets that the caller may see and change; null: all")
    may: list[str] = Field(description=f"What the caller may do, of {', '.join(f'`{action}`' for action in ACTIONS)}")


@router.get("/v1/me", summary="The caller")
async def me(caller: CallerDep) -> Me:
    """Name, role and datasets of the key or user that sends the request, and what it may do."""
    return Me(
        name=caller.name or None,
        role=caller.role,
        datasets=None if caller.listed_datasets is None else list(caller.listed_datasets),
        may=[action for action, endpoint in ACTIONS.items() if caller.role in RULES[endpoint].roles],
    )
