"""What the endpoints share that change the settings of a dataset: version, dry run and answer."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.backend import get_backend
from service.api.dependencies import DatasetPath
from service.api.settings_writer import write_settings
from service.contracts import DatasetSettings
from service.stream.state.change_effects import EffectKind


class SettingsEffect(BaseModel):
    """What a change means for the dataset."""

    model_config = ConfigDict(from_attributes=True)

    kind: EffectKind
    text: str
    warning: bool = Field(description="Sentences are not judged, or not as before, because of the change")


class ChangedSettings(DatasetSettings):
    """The settings as they are after the change, and what it means."""

    effects: list[SettingsEffect] = Field(
        default_factory=list, description="What the change means, as far as the service knows"
    )


CREATED_RESPONSE: dict[int | str, dict[str, Any]] = {
    201: {"model": ChangedSettings, "description": "The dataset is new: it had neither settings nor sentences"}
}


class SettingsChange:
    """The change that a request asks for: of which dataset and version, and whether to write it."""

    def __init__(
        self,
        name: DatasetPath,
        request: Request,
        response: Response,
        *,
        if_match: Annotated[str | None, Header(description="The version to change, as in the `ETag` of GET")] = None,
        dry_run: Annotated[
            bool, Query(description="Check the change and answer what it means, without writing it")
        ] = False,
    ) -> None:
        self._name, self._request, self._response = name, request, response
        self._versions = _parse_entity_tags(if_match) if if_match else None
        self._dry_run = dry_run

    async def apply(self, fields: Mapping[str, Any], *, partial: bool) -> ChangedSettings:
        """Writes the change, unless it is a dry run, and answers the settings after it with what they mean."""
        is_new = self._name not in get_backend(self._request).state_view.list_names()
        written = await write_settings(
            self._request,
            self._name,
            {field: value for field, value in fields.items() if field != "effects"},  # an answer may be sent back
            if_match=self._versions,
            partial=partial,
            dry_run=self._dry_run,
        )
        if not self._dry_run:
            self._response.headers["ETag"] = f'"{written.settings.version}"'
            if is_new:
                self._response.status_code = HTTPStatus.CREATED
        effects = [SettingsEffect.model_validate(effect) for effect in written.effects]
        return ChangedSettings.model_validate({**written.settings.model_dump(), "effects": effects})


SettingsChangeDep = Annotated[SettingsChange, Depends()]


def _parse_entity_tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]
