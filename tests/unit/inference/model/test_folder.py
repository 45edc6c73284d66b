from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service.errors import ModelError
from service.inference.model.files import find_external_data, read_json_object, resolve_inside
from service.inference.model.folder import ModelFolder
from service.labels.schemes import Scheme
from tests.support.tiny_models import LABELS, MAX_LENGTH, TOKENIZER_KINDS, TokenizerKind, make_model, write_manifest

if TYPE_CHECKING:
    from tests.unit.inference.conftest import MakeFolder


@pytest.fixture
def bare(folder_of: MakeFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("wordpiece"), tmp_path / "bare"))


@pytest.fixture
def ours(folder_of: MakeFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("wordpiece", casing=True), tmp_path / "ours"))


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_bare_export(folder_of: MakeFolder, kind: TokenizerKind) -> None:
    folder = ModelFolder.load(folder_of(kind))
    assert folder.labels == LABELS
    assert folder.scheme is Scheme.IOB2
    assert folder.max_length == MAX_LENGTH
    assert (folder.joining, folder.pooling, folder.casing_classes, folder.held_out) == ("words", "mean", False, None)
    assert folder.pad_id == (0 if kind == "wordpiece" else 1)


def test_one_of_ours(ours: Path) -> None:
    held_out = {"sums": [1.5] * 9, "counts": [2] * 9}
    write_manifest(
        ours,
        casing_classes=True,
        held_out=held_out,
        held_out_types={"sums": [1.0] * 5, "counts": [1] * 5},
        ort_level="basic",
        invariant="exact",
        figures={"f1": 1},
    )
    folder = ModelFolder.load(ours)
    assert (folder.name, folder.casing_classes, folder.ort_level, folder.exactly_invariant) == (
        "tiny",
        True,
        "basic",
        True,
    )
    assert folder.held_out is not None
    assert (folder.held_out.sums, folder.held_out.counts) == ((1.5,) * 9, (2,) * 9)
    assert folder.held_out_types is not None
    assert folder.held_out_types.counts == (1,) * 5


def test_the_graph_may_lie_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "wordpiece", graph_name="onnx/model.onnx")
    assert ModelFolder.load(folder).graph == folder / "onnx" / "model.onnx"


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [(["O", "PER"], Scheme.IO), (["O", "B-X", "I-X", "L-X", "U-X"], Scheme.BILUO), (["B-X", "I-X", "O"], Scheme.IOB2)],
)
def test_the_scheme_is_detected_from_the_names(bare: Path, labels: list[str], scheme: Scheme) -> None:
    edit(bare / "config.json", id2label=dict(enumerate(labels)))
    assert ModelFolder.load(bare).scheme is scheme


@pytest.mark.parametrize(
    ("config", "settings", "expected"),
    [
        ({"max_position_embeddings": 512}, None, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}, None, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": None}, None, 512),
        ({"max_position_embeddings": 512}, {"model_max_length": 128}, 128),
        ({"max_position_embeddings": None}, {"model_max_length": int(1e30)}, 512),
        ({"max_position_embeddings": None}, {"model_max_length": 384}, 384),
        ({"max_position_embeddings": None, "n_positions": 1024}, None, 512),
        ({"max_position_embeddings": 8192}, None, 512),
        ({"max_position_embeddings": None, "n_positions": 256}, None, 256),
    ],
)
def test_how_much_it_reads_at_once(
    bare: Path, config: dict[str, Any], settings: dict[str, Any] | None, expected: int
) -> None:
    edit(bare / "config.json", **config)
    if settings:
        (bare / "tokenizer_config.json").write_text(json.dumps(settings))
    assert ModelFolder.load(bare).max_length == expected


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"id2label": None}, "has no id2label"),
        ({"id2label": {"0": "O", "2": "B-PER"}}, "none for class 1"),
        ({"id2label": {"O": 0, "B-PER": 1}}, "a key that is not a number"),
        ({"id2label": {"0": "O", "00": "B-PER", "1": "I-PER"}}, "none for class"),
        ({"id2label": {"0": "O", "1": 5}}, "a class name is expected"),
        ({"id2label": {"0": "O", "1": "O"}}, "names a class twice"),
        ({"id2label": {"0": "O"}}, "labels"),
        ({"id2label": {"0": "B-PER", "1": "ORG"}}, "the scheme of the labels can't be detected"),
        ({"max_position_embeddings": 4}, "max_length"),
    ],
)
def test_a_config_that_does_not_fit(bare: Path, config: dict[str, Any], sentence: str) -> None:
    edit(bare / "config.json", **config)
    with pytest.raises(ModelError, match=sentence):
        ModelFolder.load(bare)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json"])
def test_a_file_that_is_missing_is_named(bare: Path, name: str) -> None:
    (bare / name).unlink()
    with pytest.raises(ModelError, match=name):
        ModelFolder.load(bare)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\udcff"])
def test_json_that_is_broken(bare: Path, content: str) -> None:
    (bare / "config.json").write_text(content, errors="surrogateescape")
    with pytest.raises(ModelError, match=r"config\.json"):
        ModelFolder.load(bare)


def test_an_empty_graph(bare: Path) -> None:
    (bare / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model\.onnx can't be read"):
        ModelFolder.load(bare)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a folder"):
        ModelFolder.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_not_the_one_described(ours: Path, name: str) -> None:
    with (ours / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelError, match=rf"{name} is not the file that model\.json describes"):
        ModelFolder.load(ours)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": ["O"]}, "labels"),
        ({"labels": None}, "labels"),
        ({"scheme": "bio"}, "scheme"),
        ({"format": 3}, "use a newer labelwatch"),
        ({"format": 2}, '`format` 2 goes with `kind` "cross-fitted"'),
        ({"kind": "cross-fitted"}, '`format` 2 goes with `kind` "cross-fitted"'),
        ({"format": None}, "format"),
        ({"max_length": 2}, "max_length"),
        ({"joining": "letters"}, "joining"),
        ({"pooling": "median"}, "pooling"),
        ({"capitalise_caps": True}, "capitalise_caps"),
        ({"held_out": {"sums": [1.0], "counts": [1]}}, "`held_out` needs 9 sums"),
        ({"held_out_types": {"sums": [1.0] * 9, "counts": [1] * 9}}, "`held_out_types` needs 5 sums"),
        ({"held_out": {"sums": [2.0] * 9, "counts": [1] * 9}}, "larger than its count"),
        ({"held_out": {"sums": [-0.1] * 9, "counts": [1] * 9}}, "negative"),
        ({"files": {"fast": "model.onnx"}}, "no tokenizer"),
        ({"files": {"fast": "../model.onnx", "tokenizer": "tokenizer.json"}}, "in its own folder"),
        ({"files": {"fast": "/etc/passwd", "tokenizer": "tokenizer.json"}}, "in its own folder"),
        ({"files": {"fast": "other.onnx", "tokenizer": "tokenizer.json"}}, r"other\.onnx is missing"),
    ],
)
def test_a_manifest_that_does_not_fit(ours: Path, changes: dict[str, Any], sentence: str) -> None:
    edit(ours / "model.json", **changes)
    with pytest.raises(ModelError, match=sentence):
        ModelFolder.load(ours)


def test_a_precision_that_the_folder_does_not_have(ours: Path, bare: Path) -> None:
    for folder in (ours, bare):
        with pytest.raises(ModelError, match=r"no graph of precision 'exact' \(precisions it has: fast\)"):
            ModelFolder.load(folder, precision="exact")


def test_precisions_are_different_graphs(ours: Path) -> None:
    make_model(ours / "other", "wordpiece", seed=1)
    (ours / "other" / "model.onnx").rename(ours / "model.exact.onnx")
    files = {"fast": "model.onnx", "exact": "model.exact.onnx", "tokenizer": "tokenizer.json"}
    edit(ours / "model.json", files=files)
    fast, exact = ModelFolder.load(ours), ModelFolder.load(ours, precision="exact")
    assert exact.graph == ours / "model.exact.onnx"
    assert fast.fingerprint != exact.fingerprint
    assert fast.compute_stats_key("mean", LABELS) != exact.compute_stats_key("mean", LABELS)


def test_weights_beside_the_graph_belong_to_the_fingerprint(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "wordpiece", external="weights of mine.bin")
    before = ModelFolder.load(folder).fingerprint
    weights = folder / "weights of mine.bin"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert ModelFolder.load(folder).fingerprint != before
    weights.unlink()
    with pytest.raises(ModelError, match=r"weights of mine\.bin is missing"):
        ModelFolder.load(folder)


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "wordpiece", external="xx_data.bin")
    graph = folder / "model.onnx"
    graph.write_bytes(graph.read_bytes().replace(b"xx_data.bin", b"../data.bin"))
    with pytest.raises(ModelError, match="in its own folder"):
        ModelFolder.load(folder)


def test_the_fingerprint_is_of_graph_and_tokenizer_only(ours: Path, folder_of: MakeFolder, tmp_path: Path) -> None:
    before = ModelFolder.load(ours)
    edit(ours / "model.json", name="renamed")
    assert ModelFolder.load(ours).fingerprint == before.fingerprint
    moved = Path(shutil.copytree(ours, tmp_path / "moved"))
    assert ModelFolder.load(moved).fingerprint == before.fingerprint
    assert ModelFolder.load(folder_of("wordpiece", seed=5, casing=True)).fingerprint != before.fingerprint


def test_whatever_changes_probabilities_changes_the_statistics_key(ours: Path) -> None:
    folder = ModelFolder.load(ours)
    keys = {
        folder.compute_stats_key("mean", LABELS),
        folder.compute_stats_key("first", LABELS),
        folder.compute_stats_key("mean", LABELS[:5]),
    }
    edit(ours / "model.json", joining="text")
    keys.add(ModelFolder.load(ours).compute_stats_key("mean", LABELS))
    edit(ours / "model.json", joining="words", max_length=32)
    keys.add(ModelFolder.load(ours).compute_stats_key("mean", LABELS))
    edit(ours / "model.json", max_length=MAX_LENGTH)
    with (ours / "tokenizer.json").open("a") as file:
        file.write("\n")
    edit(ours / "model.json", sha256={})
    keys.add(ModelFolder.load(ours).compute_stats_key("mean", LABELS))
    assert len(keys) == 6
    assert all(len(key) == 16 for key in keys)
    assert folder.compute_stats_key("mean", LABELS) == folder.compute_stats_key("mean", list(LABELS))


def test_a_renamed_folder_keeps_its_statistics(tmp_path: Path) -> None:
    first = make_model(tmp_path / "first", "wordpiece")
    second = tmp_path / "second"
    shutil.copytree(first, second)
    one, other = ModelFolder.load(first), ModelFolder.load(second)
    assert one.name != other.name
    assert one.compute_stats_key("mean", LABELS) == other.compute_stats_key("mean", LABELS)


def test_external_data_is_found_whatever_the_order_of_its_entry(tmp_path: Path) -> None:
    """Protobuf allows the value before the key."""
    (tmp_path / "weights.bin").write_bytes(b"1")
    (tmp_path / "other.bin").write_bytes(b"2")
    key_first = b"\n\x08location\x12\x0bweights.bin"
    value_first = b"\x12\x09other.bin\n\x08location"
    entries = b"".join(b"\x6a" + bytes([len(entry)]) + entry for entry in (key_first, value_first))
    graph = tmp_path / "model.onnx"
    graph.write_bytes(b"\x00" * 8 + entries + b"\n\x08location\n\x01x")  # the last is a name of the graph
    assert [path.name for path in find_external_data(graph)] == ["other.bin", "weights.bin"]
    graph.write_bytes(b"\n\x08location\x12\x80\x01" + b"x" * 128)
    with pytest.raises(ModelError, match="more than 127 bytes"):
        find_external_data(graph)


def test_a_name_that_no_file_can_have_is_an_ordinary_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.json names a file that can't be read"):
        resolve_inside(tmp_path, "a" * 20_000, referenced_by="model.json")


def test_json_that_is_nested_too_deeply_is_an_ordinary_error(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"a":' * 200_000)
    with pytest.raises(ModelError, match="nested too deeply"):
        read_json_object(path)
