"""`labelwatch push label-studio`: the open flags of the review topic as predictions on Label Studio's tasks."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Annotated

import typer

from service.cli.shared.label_maps import parse_label_map
from service.cli.shared.options import DatasetFilterOption, DryRunOption, FollowOption
from service.cli.shared.terminal import print_stderr
from service.errors import SettingsError
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.integrations.label_studio.client import LabelStudioClient
from service.integrations.label_studio.open_flags import TaskState
from service.integrations.label_studio.push import PredictionPusher, PredictionSync
from service.log.read import POLL_INTERVAL_S
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings

DEFAULT_TOKEN_ENV = "LABEL_STUDIO_TOKEN"

UrlOption = Annotated[str, typer.Option(metavar="URL", help="Address of Label Studio.", show_default=False)]
ProjectOption = Annotated[int, typer.Option(metavar="ID", help="Number of the project.", show_default=False)]
TokenEnvOption = Annotated[str, typer.Option(metavar="NAME", help="Environment variable with the access token.")]
ControlOption = Annotated[
    str | None, typer.Option("--control", metavar="NAME", help="The project's control for spans, if it has several.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NEW", help="The project's name for a suggested type."),
]

push_app = typer.Typer(no_args_is_help=True)


@push_app.command(PLATFORM)
def push_to_label_studio(
    *,
    url: UrlOption,
    project: ProjectOption,
    token_env: TokenEnvOption = DEFAULT_TOKEN_ENV,
    dataset: DatasetFilterOption = None,
    control: ControlOption = None,
    mapping: MapOption = None,
    follow: FollowOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Push flagged sentences as predictions with `mislabeling`, score and the suggested spans."""
    token = os.environ.get(token_env, "").strip()
    if not token:
        raise SettingsError(f"{token_env} is not set: put an access token of Label Studio into it")
    label_map = parse_label_map(mapping or (), example="PER=PERSON")
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        pusher = PredictionPusher(
            LabelStudioClient(url, token),
            project,
            lambda problem: print_stderr(f"labelwatch: {problem}"),
            span_control=control,
            label_map=label_map,
            dry_run=dry_run,
        )
        overlaps = {name: each.overlap for name, each in read_dataset_settings(log, topics).items()}
        task_state = TaskState(project, dataset, overlaps)
        with closing(log.follow(topics.review)) as review, closing(log.follow(topics.decisions)) as decisions:
            sync = PredictionSync(pusher, task_state, review, decisions)
            sync.catch_up()
            typer.echo(pusher.drain_summary(task_state))
            try:
                while follow:
                    if sync.poll():
                        print_stderr(pusher.drain_summary(task_state))
                    time.sleep(POLL_INTERVAL_S)
            except KeyboardInterrupt:
                return
