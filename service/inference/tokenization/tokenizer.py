"""Loads a folder's tokenizer for single words: without truncation and padding, and with special tokens as plain text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from tokenizers import Tokenizer

from service.errors import ModelError
from service.inference.model.files import read_json_object

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from service.inference.model.manifest import Joining

_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>")
_OUT_OF_VOCABULARY = "\ue000\U0010fffd"  # private use: in no vocabulary
_PROBE_TEXTS = ("a", "1", ".", "的")


class TokenizerSource(Protocol):
    """What a folder says of its tokenizer: a model's or an encoder's."""

    @property
    def path(self) -> Path: ...
    @property
    def tokenizer_file(self) -> Path: ...
    @property
    def max_length(self) -> int: ...
    @property
    def casing_classes(self) -> bool: ...
    @property
    def joining(self) -> Joining: ...
    @property
    def capitalise_caps(self) -> bool: ...
    @property
    def pad_id(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class SubwordTokenizer:
    """The tokenizer, and the ids that the encoder needs."""

    tokenizer: Tokenizer
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    unknown_id: int | None
    is_special: npt.NDArray[np.bool_]  # by id: only before and after a sentence, never for a word
    vocab_size: int  # lower ids are entries of the vocabulary itself


def load_tokenizer(folder: TokenizerSource) -> SubwordTokenizer:
    content = read_json_object(folder.tokenizer_file)
    if folder.joining == "words":
        _force_prefix_space(content)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(content))
    except Exception as error:
        raise ModelError(
            f"{folder.tokenizer_file} is not a tokenizer that can be read ({error}): export it again"
        ) from error
    padding = tokenizer.padding or {}
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # a literal "[SEP]" in a text is text
    _check_unknown_character(folder, tokenizer)
    prefix, suffix = _find_prefix_and_suffix(folder, tokenizer)
    unknown = _find_unknown_id(tokenizer, content)
    special = np.zeros(max(tokenizer.get_vocab_size(), 1 + max([*prefix, *suffix], default=0)), np.bool_)
    added = [token["id"] for token in content.get("added_tokens") or [] if token.get("special")]
    special[[*(token_id for token_id in added if token_id < len(special)), *prefix, *suffix]] = True
    if unknown is not None:
        special[unknown] = False
    pads = [folder.pad_id, padding.get("pad_id"), *map(tokenizer.token_to_id, _PAD_TOKENS), 0]
    return SubwordTokenizer(
        tokenizer=tokenizer,
        prefix=prefix,
        suffix=suffix,
        pad_id=next(pad for pad in pads if pad is not None),
        unknown_id=unknown,
        is_special=special,
        vocab_size=tokenizer.get_vocab_size(with_added_tokens=False),
    )


def _force_prefix_space(node: Any) -> None:  # noqa: ANN401 - any JSON value
    """Makes byte-level and Metaspace tokenizers put a space before each word.

    In running text every word but the first has one, and the model was trained on that form. Without it a single word
    is tokenized like the middle of a longer one.
    """
    if isinstance(node, list):
        for child in node:
            _force_prefix_space(child)
    elif isinstance(node, dict):
        if node.get("type") in ("ByteLevel", "RobertaProcessing") and "add_prefix_space" in node:
            node["add_prefix_space"] = True
        if node.get("type") == "Metaspace":
            node["prepend_scheme"] = "always"
            node.pop("add_prefix_space", None)
        for key in ("pre_tokenizer", "pretokenizers", "post_processor", "processors"):
            _force_prefix_space(node.get(key))


def _find_prefix_and_suffix(folder: TokenizerSource, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and after a sentence."""
    for text in _PROBE_TEXTS:
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        whole = tokenizer.encode(text).ids
        if bare:
            start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), None)
            if start is not None:
                return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    raise ModelError(
        f"{folder.tokenizer_file} gives no subword for any of {', '.join(_PROBE_TEXTS)}: export the tokenizer again"
    )


def _check_unknown_character(folder: TokenizerSource, tokenizer: Tokenizer) -> None:
    """Raises if the tokenizer fails on characters outside its vocabulary: one of them would fail a whole batch."""
    try:
        tokenizer.encode_batch([[_OUT_OF_VOCABULARY]], is_pretokenized=True, add_special_tokens=False)
    except Exception as error:
        raise ModelError(
            f"{folder.tokenizer_file} fails on a character that its vocabulary lacks ({error}): give it an unknown token"
        ) from error


def _find_unknown_id(tokenizer: Tokenizer, content: dict[str, Any]) -> int | None:
    model = content["model"]
    if isinstance(model.get("unk_id"), int):
        return int(model["unk_id"])
    unknown = model.get("unk_token")
    return tokenizer.token_to_id(unknown) if isinstance(unknown, str) else None
