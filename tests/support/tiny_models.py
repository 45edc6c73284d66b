"""Tiny random token classifiers, made on the spot: a folder as Hugging Face tools export it, or as ours.

    folder = make_model(tmp_path / "model", "wordpiece")           # or "bytelevel", "unigram"
    classifier = Classifier(ModelFolder.load(folder))

Each has word, position and type embeddings, one layer of masked self-attention and a head: context and masks matter.
The answers mean nothing, but they are the same on every run.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.inference.classifier import Classifier
    from service.inference.graph_runner import GraphRunner

TokenizerKind = Literal["wordpiece", "bytelevel", "unigram"]
TOKENIZER_KINDS: tuple[TokenizerKind, ...] = ("wordpiece", "bytelevel", "unigram")
LABELS = ("O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
POISON_WORD = "poisonous"
MAX_LENGTH = 64

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CHARACTERS = _LETTERS + "0123456789.,;:!?()[]{}<>/'\"-_%&+=*#@$"
_WORDS = (
    "the",
    "of",
    "in",
    "said",
    "ing",
    "er",
    "on",
    "mon",
    "day",
    "land",
    "min",
    "timber",
    "wolves",
    "paris",
    "(min)",
)


def make_tokenizer(kind: TokenizerKind, *, lowercase: bool = True) -> Tokenizer:
    """A tokenizer that pads and truncates at 16, as exported ones do. POISON is one entry, added past the vocabulary."""
    tokenizer = {"wordpiece": _make_wordpiece, "bytelevel": _make_bytelevel, "unigram": _make_unigram}[kind](lowercase)
    tokenizer.add_tokens([AddedToken(POISON_WORD, single_word=True)])
    tokenizer.enable_truncation(16)
    pad_id, pad = (0, "[PAD]") if kind == "wordpiece" else (1, "<pad>")
    tokenizer.enable_padding(length=16, pad_id=pad_id, pad_token=pad)
    return tokenizer


def _make_wordpiece(lowercase: bool) -> Tokenizer:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = _CHARACTERS + ("" if lowercase else _LETTERS.upper())
    entries = [*special, *letters, *(f"##{c}" for c in letters), *_WORDS, "##ing", "##er", "##wolves"]
    vocab = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=None)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    )
    tokenizer.add_special_tokens(special)
    return tokenizer


def _make_bytelevel(lowercase: bool) -> Tokenizer:
    """Cased whatever is asked for, as such vocabularies are."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocab = {entry: index for index, entry in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    merges = []
    for word in _WORDS:
        whole = "Ġ"
        for letter in word:
            if whole + letter not in vocab:
                vocab[whole + letter] = len(vocab)
                merges.append((whole, letter))
            whole += letter
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.add_special_tokens(special)
    return tokenizer


def _make_unigram(lowercase: bool) -> Tokenizer:
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = "▁" + _CHARACTERS + ("" if lowercase else _LETTERS.upper())
    entries = dict.fromkeys([*special, *letters, *(f"▁{word}" for word in _WORDS), "ing", "er", "wolves"])
    scores = [(entry, 0.0 if entry in special else -3.0 if len(entry) > 1 else -6.0) for entry in entries]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=3))
    # As SentencePiece does: what can't be seen is gone before the pieces are cut.
    gone = normalizers.Replace(Regex("[\u200b\u00ad\ufffd\\p{Cc}]"), "")
    tokenizer.normalizer = normalizers.Sequence([gone, *([normalizers.Lowercase()] if lowercase else [])])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(special)
    return tokenizer


def make_graph(
    path: Path,
    *,
    vocabulary: int,
    n_classes: int,
    pad_id: int = 0,
    seed: int = 0,
    hidden: int = 16,
    n_types: int = 2,
    after_padding: bool = False,
    attention_mask: bool = True,
    int32: bool = False,
    rounding: float | None = None,
    nan_id: int | None = None,
    external: str | None = None,
    output: str = "logits",
) -> None:
    """Writes a graph.

    `n_types=0` leaves token_type_ids out, `after_padding` counts positions as RoBERTa does, `rounding` makes answers depend
    on batch mates: it rounds to that many steps of the batch's largest value, as dynamic int8 does. `external` puts the weights into a file of that name.
    """
    rng = np.random.default_rng(seed)
    weights: dict[str, npt.NDArray[Any]] = {
        "words": rng.normal(size=(vocabulary, hidden)),
        "positions": rng.normal(size=(MAX_LENGTH + 2, hidden)) * 0.3,
        "types": rng.normal(size=(max(n_types, 1), hidden)),
        **{name: rng.normal(size=(hidden, hidden)) / hidden**0.5 for name in ("query", "key", "value")},
        "head": rng.normal(size=(hidden, n_classes)),
        "scale": np.ones(hidden),
        "root": np.array(hidden**-0.5),
        "one": np.array(1.0),
        "far": np.array(-1e9),
        "steps": np.array(rounding or 1.0),
    }
    if nan_id is not None:
        weights["words"][nan_id] = np.nan
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    tensors += [
        numpy_helper.from_array(np.array(v, np.int64), n)
        for n, v in (("pad", pad_id), ("axis", 1), ("first", 0), ("unit", 1))
    ]
    names = ["input_ids", *(["attention_mask"] if attention_mask else []), *(["token_type_ids"] if n_types else [])]
    kind = TensorProto.INT32 if int32 else TensorProto.INT64
    nodes: list[onnx.NodeProto] = []

    def node(kind: str, inputs: str, out: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs.split(), [out], **attributes))
        return out

    node("Cast", "input_ids", "ids", to=TensorProto.INT64)
    if after_padding:
        node("Cast", node("Not", node("Equal", "ids pad", "is_pad"), "is_real"), "real", to=TensorProto.INT64)
        node("Add", f"{node('Mul', node('CumSum', 'real axis', 'counted') + ' real', 'ranks')} pad", "places")
    else:
        node("Shape", "ids", "length", start=1, end=2)
        node("Range", f"first {node('Squeeze', 'length', 'n')} unit", "places")
    node("Add", f"{node('Gather', 'words ids', 'embedded')} {node('Gather', 'positions places', 'placed')}", "x0")
    typed = node("Gather", "types token_type_ids", "typed") if n_types else ""
    node("Add", f"x0 {typed}", "x1") if typed else node("Identity", "x0", "x1")
    node("LayerNormalization", "x1 scale", "x")
    for name in ("query", "key", "value"):
        node("MatMul", f"x {name}", f"{name}_x")
    node(
        "Mul",
        node("MatMul", "query_x " + node("Transpose", "key_x", "key_t", perm=[0, 2, 1]), "dots") + " root",
        "scores",
    )
    if attention_mask:
        node("Sub", "one " + node("Cast", "attention_mask", "mask", to=TensorProto.FLOAT), "off")
        node("Mul", node("Unsqueeze", "off axis1", "off3") + " far", "hidden_part")
        tensors.append(numpy_helper.from_array(np.array([1], np.int64), "axis1"))
        node("Add", "scores hidden_part", "masked")
    else:
        node("Identity", "scores", "masked")
    node("MatMul", node("Softmax", "masked", "attention", axis=-1) + " value_x", "context")
    node("LayerNormalization", node("Add", "x context", "sum") + " scale", "y")
    if rounding:
        node("Div", node("ReduceMax", node("Abs", "y", "size"), "largest", keepdims=0) + " steps", "grain")
        node("Mul", node("Round", node("Div", "y grain", "ratio"), "whole") + " grain", "z")
    else:
        node("Identity", "y", "z")
    node("MatMul", "z head", output)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, ["batch", "sequence"]) for name in names],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "sequence", n_classes])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(model, path, save_as_external_data=external is not None, location=external, size_threshold=256)


def make_model(
    folder: Path,
    kind: TokenizerKind,
    *,
    labels: Sequence[str] = LABELS,
    seed: int = 0,
    casing: bool = False,
    hidden: int = 16,
    poison: Literal["no", "fails", "nan"] = "no",
    manifest: Mapping[str, Any] | None = None,
    graph_name: str = "model.onnx",
    **graph: Any,
) -> Path:
    """A model folder of one kind of tokenizer; returns the folder.

    With `casing` (WordPiece only) or a `manifest` it is one of ours with a model.json, whose fields the manifest may
    change; else a bare export with config.json. `poison` is what the word POISON does to the graph.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(kind, lowercase=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    total = tokenizer.get_vocab_size()
    bert = kind == "wordpiece"
    pad = 0 if bert else 1
    options = {"n_types": (8 if casing else 2) if bert else 0, "after_padding": not bert, **graph}
    make_graph(
        folder / graph_name,
        vocabulary=total - (poison == "fails"),
        n_classes=len(labels),
        pad_id=pad,
        seed=seed,
        hidden=hidden,
        nan_id=total - 1 if poison == "nan" else None,
        **options,
    )
    if casing or manifest is not None:
        write_manifest(folder, **{"labels": list(labels), "casing_classes": casing, **(manifest or {})})
        return folder
    config = {
        "model_type": "bert" if bert else "roberta",
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "max_position_embeddings": MAX_LENGTH + (0 if bert else 2),
        "pad_token_id": pad,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_manifest(folder: Path, **changes: Any) -> None:
    """A model.json for what the folder holds; `changes` overrules its fields."""
    files = {"fast": "model.onnx", "tokenizer": "tokenizer.json"}
    content = {
        "name": "tiny",
        "format": 1,
        "labels": list(LABELS),
        "scheme": "iob2",
        "max_length": MAX_LENGTH,
        "casing_classes": False,
        "joining": "words",
        "pooling": "mean",
        "files": files,
        "sha256": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files.values()},
    }
    (folder / "model.json").write_text(json.dumps({**content, **changes}))


def get_runner(classifier: Classifier) -> GraphRunner:
    """The runner of a classifier that has a graph."""
    assert classifier.runner is not None
    return classifier.runner
