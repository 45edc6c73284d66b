"""All commands: where each is defined, and how `labelwatch --help` lists it.

A command's module is imported when the command runs, so that `labelwatch --help` does not wait for numpy.
"""

from __future__ import annotations

from service.cli.shared.lazy_commands import CommandEntry

SERVE_PANEL = "Run the service"
FILES_PANEL = "Audit files"
STREAM_PANEL = "Work with topics"
DATASETS_PANEL = "Manage datasets"

# In the order of `labelwatch --help`. For a function, a test compares the help with the function's docstring.
COMMANDS = (
    CommandEntry(
        "up",
        "service.cli.serve.up:up",
        "Run the REST API and a worker in one process, on the embedded log, or on Kafka if a broker is set.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "api",
        "service.cli.serve.api:api",
        "Serve the REST API until SIGTERM or Ctrl-C. Workers in other processes assess the sentences it receives.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "worker",
        "service.cli.serve.worker:worker_app",
        "Assess sentences as they arrive, until SIGTERM or Ctrl-C. The current batch is finished first.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "trainer",
        "service.cli.serve.trainer:trainer",
        "Train models for datasets with labels that no model fits, and again as they grow, until SIGTERM or Ctrl-C.",
        SERVE_PANEL,
    ),
    CommandEntry("topics", "service.cli.stream.topics:topics_app", "Create and describe the topics.", SERVE_PANEL),
    CommandEntry(
        "audit-log",
        "service.cli.stream.audit_log:audit_log",
        "List who changed what: decisions, settings, replays and keys, oldest first.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "webhooks",
        "service.cli.serve.webhooks:webhooks_app",
        "Send notifications to other systems: list, add, test and remove endpoints.",
        SERVE_PANEL,
    ),
    CommandEntry("key", "service.cli.serve.key:key_app", "Manage the keys of the REST API.", SERVE_PANEL),
    CommandEntry(
        "check",
        "service.cli.serve.check:check",
        "Check settings, model, log and topics, and print what to change. Exit code 1 if anything is wrong.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "backup",
        "service.cli.serve.backup:backup",
        "Copy the embedded log to a file, while the service runs. The copy is of one moment, and checked.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "restore",
        "service.cli.serve.backup:restore",
        "Put a backup in the place of the embedded log. Stop the service first.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "erase",
        "service.cli.serve.erase:erase",
        "Erase a sentence and the decisions about it from the embedded log, for good. Stop the service first.",
        SERVE_PANEL,
    ),
    CommandEntry(
        "score",
        "service.cli.files.score:score",
        "Audit files of labelled sentences: find doubtful labels, and list the sentences to look at first.",
        FILES_PANEL,
    ),
    CommandEntry(
        "evaluate",
        "service.cli.files.evaluate:evaluate",
        "Measure how well each score finds labels that are known to be wrong, with bootstrap intervals.",
        FILES_PANEL,
    ),
    CommandEntry(
        "train",
        "service.cli.files.train:train",
        "Train a model for your own labels, and find the label errors in the data it is trained on.",
        FILES_PANEL,
    ),
    CommandEntry("model", "service.cli.files.model:model_app", "List, add, remove and check models.", FILES_PANEL),
    CommandEntry(
        "send",
        "service.cli.stream.send:send",
        "Send the sentences of files to the input topic. They are safe in the log when the command ends.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "tail",
        "service.cli.stream.tail:tail",
        "Print the newest assessments or dead letters, with the doubtful words marked.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "export",
        "service.cli.stream.export:export",
        "Write a dataset's sentences, each in its newest revision, with reviewers' corrections where they agree.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "push",
        "service.cli.stream.push:push_app",
        "Send open flags back to the annotation platform.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "dead-letters",
        "service.cli.stream.dead_letters:dead_letters_app",
        "List messages that could not be assessed, and send them again.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "replay",
        "service.cli.stream.replay:replay",
        "Assess the input again into topics with another prefix, and compare the flags. Live topics are only read.",
        STREAM_PANEL,
    ),
    CommandEntry(
        "datasets",
        "service.cli.datasets.datasets:datasets_app",
        "Show and change the settings of each dataset.",
        DATASETS_PANEL,
    ),
    CommandEntry(
        "accept",
        "service.cli.datasets.accept:accept",
        "Say whether a delivery is good enough: the share of wrong sentences with its interval, and a verdict.",
        DATASETS_PANEL,
    ),
    CommandEntry(
        "thresholds",
        "service.cli.datasets.thresholds:thresholds_app",
        "Show and reset the thresholds that the stream has learned.",
        DATASETS_PANEL,
    ),
)
