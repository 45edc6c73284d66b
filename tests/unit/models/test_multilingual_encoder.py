"""The recipe of the multilingual encoder on tiny weights: read a checkpoint, trim the vocabulary, build the graphs, train on them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper
from scipy.special import erf, softmax
from tokenizers import BertWordPieceTokenizer

from service.inference.classifier import Classifier, WordProbs
from service.inference.model.encoder_folder import EncoderFolder
from service.inference.model.folder import ModelFolder
from service.labels import Scheme
from service.training.sentences import collect_sentences
from service.training.trainer import train_model
from tests.support.model_scripts import import_scripts
from tests.support.training_data import make_training_text, to_conll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Tensors = dict[str, np.ndarray]

MODULES = ("checkpoint", "vocabulary", "bert_weights", "graphs", "build_encoder")
HIDDEN, HEADS, LAYERS, INNER, POSITIONS = 24, 2, 3, 48, 512
HIDDEN_LAYERS = (0, 1, 2)
EPSILON = 1e-12
SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, Any]]:
    with import_scripts(*MODULES) as modules:
        yield modules


# A checkpoint, written as TensorFlow writes it.


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def write_field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value


def write_block(entries: list[tuple[bytes, bytes]]) -> bytes:
    out, last = b"", b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b), min(len(key), len(last)))
        out += write_varint(shared) + write_varint(len(key) - shared) + write_varint(len(value)) + key[shared:] + value
        last = key
    return out + struct.pack("<II", 0, 1)


def write_checkpoint(prefix: Path, variables: Tensors, *, data_type: int = 1, compression: bytes = b"\0") -> None:
    entries, data = [(b"", write_field(1, 1))], b""
    for name in sorted(variables):
        value = variables[name].astype("<f4")
        shape = b"".join(write_field(2, write_field(1, size)) for size in value.shape)
        crc = write_varint(6 << 3 | 5) + b"\0\0\0\0"
        place = write_field(1, data_type) + write_field(2, shape)
        place += write_field(4, len(data)) + write_field(5, value.nbytes) + crc
        entries.append((name.encode(), place))
        data += value.tobytes()
    table, handles = b"", []
    for first in range(0, len(entries), 5):
        block = write_block(entries[first : first + 5])
        handles.append(
            (entries[min(first + 4, len(entries) - 1)][0], write_varint(len(table)) + write_varint(len(block)))
        )
        table += block + compression + b"\0\0\0\0"
    places = b""
    for block in (write_block([]), write_block(handles)):
        places += write_varint(len(table)) + write_varint(len(block))
        table += block + b"\0\0\0\0\0"
    table += places.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    prefix.with_name(f"{prefix.name}.index").write_bytes(table)
    prefix.with_name(f"{prefix.name}.data-00000-of-00001").write_bytes(data)


def make_variables(n_pieces: int) -> Tensors:
    rng = np.random.default_rng(1)
    shapes = {
        "embeddings/word_embeddings": (n_pieces, HIDDEN),
        "embeddings/position_embeddings": (POSITIONS, HIDDEN),
        "embeddings/token_type_embeddings": (2, HIDDEN),
        "embeddings/LayerNorm/gamma": (HIDDEN,),
        "embeddings/LayerNorm/beta": (HIDDEN,),
        "pooler/dense/kernel": (HIDDEN, HIDDEN),
    }
    for k in range(LAYERS):
        layer = f"encoder/layer_{k}/"
        for part in ("query", "key", "value"):
            shapes |= {
                f"{layer}attention/self/{part}/kernel": (HIDDEN, HIDDEN),
                f"{layer}attention/self/{part}/bias": (HIDDEN,),
            }
        for part, width, height in (
            ("attention/output/dense", HIDDEN, HIDDEN),
            ("intermediate/dense", HIDDEN, INNER),
            ("output/dense", INNER, HIDDEN),
        ):
            shapes |= {f"{layer}{part}/kernel": (width, height), f"{layer}{part}/bias": (height,)}
        for part in ("attention/output", "output"):
            shapes |= {f"{layer}{part}/LayerNorm/{each}": (HIDDEN,) for each in ("gamma", "beta")}
    return {
        f"module/bert/{name}": (rng.normal(0, 0.3, shape) + name.endswith("gamma")).astype(np.float32)
        for name, shape in shapes.items()
    }


def test_a_checkpoint_is_read_to_the_bit(scripts: dict[str, Any], tmp_path: Path) -> None:
    variables = make_variables(40)
    write_checkpoint(tmp_path / "variables", variables)
    checkpoint = scripts["checkpoint"].Checkpoint(tmp_path / "variables")
    assert sorted(checkpoint.list_names()) == sorted(variables)
    for name, value in variables.items():
        assert np.array_equal(checkpoint.read(name), value)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"data_type": 2}, "only 32-bit floats"), ({"compression": b"\1"}, "is compressed")],
)
def test_a_checkpoint_that_cannot_be_read_says_why(
    scripts: dict[str, Any], tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    write_checkpoint(tmp_path / "variables", {"w": np.ones(3)}, **options)
    with pytest.raises(ValueError, match=message):
        scripts["checkpoint"].Checkpoint(tmp_path / "variables").read("w")


def test_a_checkpoint_with_missing_data_says_so(scripts: dict[str, Any], tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "variables", {"w": np.ones(3)})
    (tmp_path / "variables.data-00000-of-00001").write_bytes(b"\0" * 8)
    with pytest.raises(ValueError, match="does not hold 3 numbers at 0; fetch it again"):
        scripts["checkpoint"].Checkpoint(tmp_path / "variables").read("w")
    (tmp_path / "variables.index").write_bytes(b"\0" * 60)
    with pytest.raises(ValueError, match="not the index of a TensorFlow checkpoint"):
        scripts["checkpoint"].Checkpoint(tmp_path / "variables")


VOCABULARY = [*SPECIAL, "<S>", "!", "1", "a", "ß", "д", "东", "##a", "##д", "die", "год", "##en", "Haus", "東京", "12"]


@pytest.mark.parametrize(
    ("scripts_kept", "max_pieces", "expected"),
    [
        (["latin"], 13, ["!", "1", "a", "ß", "##a", "die", "##en", "Haus"]),
        (["latin"], 12, ["!", "1", "a", "ß", "##a", "die", "##en"]),
        (["latin"], 99, ["!", "1", "a", "ß", "##a", "die", "##en", "Haus", "12"]),
        (["latin", "cyrillic"], 14, ["!", "1", "a", "ß", "д", "##a", "##д", "die", "год"]),
        (["all"], 99, [*VOCABULARY[7:]]),
    ],
)
def test_characters_and_the_most_frequent_pieces_of_the_scripts_are_kept(
    scripts: dict[str, Any], scripts_kept: list[str], max_pieces: int, expected: list[str]
) -> None:
    rows = scripts["vocabulary"].choose_pieces(VOCABULARY, scripts_kept, max_pieces)
    special = [piece for piece in SPECIAL if piece != "[unused1]"]
    assert [VOCABULARY[row] for row in rows] == [*special, *expected]


def test_fewer_pieces_than_characters_are_refused(scripts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="have 10 characters, more than 9 pieces"):
        scripts["vocabulary"].choose_pieces(VOCABULARY, ["latin"], 9)


def normalize(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    standard: np.ndarray = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return np.asarray(standard * gain + bias)


def compute_states(variables: Tensors, ids: list[int], n_layers: int) -> list[np.ndarray]:
    """BERT as its paper describes it, in numpy, with the checkpoint's own names."""
    v = {name.removeprefix("module/bert/"): value.astype(np.float64) for name, value in variables.items()}

    def apply_linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ v[f"{name}/kernel"] + v[f"{name}/bias"]

    def apply_norm(x: np.ndarray, name: str) -> np.ndarray:
        return normalize(x, v[f"{name}/LayerNorm/gamma"], v[f"{name}/LayerNorm/beta"])

    x = v["embeddings/word_embeddings"][ids] + v["embeddings/position_embeddings"][: len(ids)]
    x = apply_norm(x + v["embeddings/token_type_embeddings"][0], "embeddings")
    states = [x]
    for k in range(n_layers):
        layer = f"encoder/layer_{k}"
        query, key, value = (
            apply_linear(x, f"{layer}/attention/self/{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        weights = softmax(query @ key.transpose(0, 2, 1) / np.sqrt(HIDDEN / HEADS), axis=-1)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        x = apply_norm(x + apply_linear(mixed, f"{layer}/attention/output/dense"), f"{layer}/attention/output")
        inner = apply_linear(x, f"{layer}/intermediate/dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = apply_norm(x + apply_linear(inner, f"{layer}/output/dense"), f"{layer}/output")
        states.append(x)
    return states


def test_the_graph_computes_what_bert_computes(scripts: dict[str, Any], tmp_path: Path) -> None:
    """The first two layers of three."""
    variables = make_variables(40)
    write_checkpoint(tmp_path / "variables", variables)
    checkpoint = scripts["checkpoint"].Checkpoint(tmp_path / "variables")
    weights = scripts["bert_weights"].read_checkpoint_weights(checkpoint, layers=2)
    sizes, tensors = scripts["bert_weights"].arrange_for_graph(weights, heads=HEADS)
    assert sizes.layers == 2
    graph, _ = scripts["graphs"].build_graph(sizes, "float", hidden_layers=HIDDEN_LAYERS)
    model = scripts["graphs"].assemble_model(
        graph, {name: numpy_helper.from_array(tensors[name], name) for name in graph.tensors}
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(2).integers(0, 40, 17)
    feeds = {
        "input_ids": np.array([ids]),
        "token_type_ids": np.zeros((1, 17), np.int64),
        "attention_mask": np.ones((1, 17), np.int64),
    }
    (found,) = session.run(["hidden"], feeds)
    expected = np.concatenate(compute_states(variables, ids.tolist(), 2), axis=1)
    np.testing.assert_allclose(found[0], expected, atol=1e-4)


def test_a_model_can_be_trained_on_the_encoder(scripts: dict[str, Any], tmp_path: Path) -> None:
    text = make_training_text(150).sentences
    characters = sorted({character for sentence in text for word in sentence.tokens for character in word})
    pieces = [*SPECIAL, *characters, *(f"##{character}" for character in characters)]
    write_checkpoint(tmp_path / "variables", make_variables(len(pieces)))
    weights = scripts["bert_weights"].read_checkpoint_weights(
        scripts["checkpoint"].Checkpoint(tmp_path / "variables"), layers=2
    )
    (tmp_path / "calibration.tsv").write_text(to_conll(text[:40]))
    out = tmp_path / "encoder"
    scripts["build_encoder"].write_encoder(
        out,
        name="tiny",
        weights=scripts["bert_weights"].arrange_for_graph(weights, heads=HEADS),
        tokenizer=BertWordPieceTokenizer(
            {piece: number for number, piece in enumerate(pieces)}, lowercase=False, strip_accents=False
        ),
        calibration=[tmp_path / "calibration.tsv"],
        hidden_layers=HIDDEN_LAYERS,
    )
    encoder = EncoderFolder.load(out)
    assert encoder.state_width == HIDDEN * len(HIDDEN_LAYERS)
    train_model(collect_sentences(text, Scheme.IOB2), tmp_path / "model", name="tiny", encoder=encoder, threads=1)
    classifier = Classifier(ModelFolder.load(tmp_path / "model"))
    assert classifier.batch_deviation == 0
    (answer,) = classifier.infer([text[0].tokens])
    assert isinstance(answer, WordProbs)
    assert answer.probs.shape == (len(text[0].tokens), len(classifier.folder.labels))
