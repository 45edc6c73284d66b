"""`labelwatch score`: audits files of labelled sentences and lists them, worst first.

Exit codes: 0 done, 1 the input or the model can't be used (one line on stderr says why), 2 wrong usage,
3 something is flagged and `--fail-on-flagged` is given.
"""

from __future__ import annotations

import typer

from service.audit.probs_archive import ProbsArchive, find_types_without_inside
from service.cli.files.audit_input import prepare_audit_input
from service.cli.files.audit_run import AuditOutputs, count_cores, run_audit
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import FileReadOptions, add_file_options
from service.cli.shared.label_maps import parse_label_map
from service.cli.shared.model_options import ModelOption
from service.cli.shared.options import ProgressOption
from service.cli.shared.rejects import RejectHandler
from service.cli.shared.terminal import print_stderr
from service.contracts import DatasetSettings
from service.inference.model.folder import ModelFolder
from service.judging.class_source import ExternalClasses
from service.runtime.datasets.settings import read_known_dataset
from service.runtime.load_model import load_dataset_model, load_model_folder
from service.runtime.sentence_files import FileSource
from service.settings import read_settings


@add_file_options
def score(
    *,
    input_files: FileReadOptions,
    on_error: opt.OnErrorOption = "stop",
    model: ModelOption = None,
    precision: opt.PrecisionOption = None,
    probs: opt.ProbsOption = None,
    dataset: opt.DatasetOption = None,
    scheme: opt.SchemeOption = None,
    mapping: opt.MapOption = None,
    unmapped: opt.UnmappedOption = None,
    all_types: opt.AllTypesOption = False,
    method: opt.MethodOption = None,
    token_score: opt.TokenScoreOption = None,
    stream: opt.StreamOption = False,
    output: opt.OutputOption = None,
    output_format: opt.OutputFormatOption = None,
    report: opt.ReportOption = None,
    flagged_only: opt.FlaggedOnlyOption = False,
    top: opt.TopOption = None,
    fail_on_flagged: opt.FailOnFlaggedOption = False,
    threads: opt.ThreadsOption = None,
    progress: ProgressOption = None,
) -> None:
    """Audit files of labelled sentences: find doubtful labels, and list the sentences to look at first.

    Reads CoNLL columns, JSON Lines, CSV, TSV and exports of annotation platforms, gzipped or not. Exit codes: 0 done, 1
    the input or the model can't be used, 2 wrong usage, 3 with --fail-on-flagged if anything is flagged.
    """
    files = input_files.files
    given_map = parse_label_map(mapping or (), example="PERSON=PER")
    rejects = RejectHandler(on_error, output)
    outputs = AuditOutputs(files, output, output_format, report=report, top=top, flagged_only=flagged_only)
    outputs.check_paths(rejects)
    if probs is not None and model is not None:
        raise typer.BadParameter("--probs replaces the model: leave --model out", param_hint="--probs")
    with rejects:
        archive = None if probs is None else ProbsArchive.load(probs)
        stored = DatasetSettings() if dataset is None else read_known_dataset(read_settings(), dataset)
        label_map = {**stored.label_map, **given_map}
        folder = None
        if model is not None:
            folder = load_model_folder(read_settings(), model, precision=precision)
        elif dataset is not None and archive is None:
            folder = load_dataset_model(read_settings(), stored, precision)
        scheme = scheme or stored.scheme
        if scheme is None and dataset is not None and folder is not None:
            scheme = folder.scheme.value  # as the service reads the labels
        file_source = FileSource(
            files, input_files.to_read_options(scheme=scheme), format=input_files.format, stdin_stem="stdin"
        )
        audit_input = prepare_audit_input(file_source, label_map, scheme=scheme, stop_on_error=rejects.stops_on_error)
        if archive is not None:
            audit_input = audit_input.attach_probs(archive)
            if incomplete := find_types_without_inside(archive.classes):
                print_stderr(
                    f"warning: --probs has B-{incomplete[0]} and no I-{incomplete[0]}"
                    f"{f' (and {len(incomplete) - 1} more types like it)' if len(incomplete) > 1 else ''}: every word that is "
                    "labelled inside of an entity is doubted; add the class, or use classes without B- and I-"
                )
        elif model is not None:
            audit_input = audit_input.drop_probabilities()
        source: ModelFolder | ExternalClasses
        if audit_input.classes is None:
            source = folder or load_model_folder(read_settings(), precision=precision)
        else:
            source = ExternalClasses.from_labels(audit_input.classes, dataset_scheme=audit_input.scheme.value)
        options = {
            "unmapped": unmapped,
            "method": method,
            "token_score": token_score,
            "learn_label_set": "off" if all_types else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        settings = stored.model_copy(update={**given, "label_map": label_map, "scheme": audit_input.scheme.value})
        summary = run_audit(
            audit_input,
            source,
            settings,
            stream=stream,
            outputs=outputs,
            rejects=rejects,
            threads=threads or count_cores(),
            providers=read_settings().model.providers,
            progress=progress,
        )
    if fail_on_flagged and summary.flagged_sentences:
        raise typer.Exit(opt.EXIT_CODE_FLAGGED)
