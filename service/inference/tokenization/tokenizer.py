"""A folder's tokenizer, made fit for words: nothing cut or padded, no text read as a special token, words as words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from service.errors import ModelError
from service.inference.model.files import read_json_object

if TYPE_CHECKING:
    import numpy.typing as npt

    from service.inference.model.folder import ModelFolder

_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>")
_OUT_OF_VOCABULARY = "\ue000\U0010fffd"  # private use: in no vocabulary
_PROBE_TEXTS = ("a", "1", ".", "的")


@dataclass(frozen=True, slots=True)
class SubwordTokenizer:
    """The tokenizer and what must be known of it."""

    tokenizer: Tokenizer
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    unknown_id: int | None
    is_special: npt.NDArray[np.bool_]  # by id: may stand at the edges only, never for a word
    vocab_size: int  # ids below are entries of the vocabulary itself


def load_tokenizer(folder: ModelFolder) -> SubwordTokenizer:
    content = read_json_object(folder.tokenizer)
    if folder.joining == "words":
        _force_prefix_space(content)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(content))
    except Exception as error:
        raise ModelError(
            f"{folder.tokenizer} is not a tokenizer that can be read ({error}): export it again"
        ) from error
    padding = tokenizer.padding or {}
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # a literal "[SEP]" in a text is text
    _check_unknown_character(folder, tokenizer)
    prefix, suffix = _find_prefix_and_suffix(folder, tokenizer)
    unknown = _find_unknown_id(tokenizer, content)
    special = np.zeros(max(tokenizer.get_vocab_size(), 1 + max([*prefix, *suffix], default=0)), np.bool_)
    added = [each["id"] for each in content.get("added_tokens") or [] if each.get("special")]
    special[[*(i for i in added if i < len(special)), *prefix, *suffix]] = True
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
    """Tells byte-level and Metaspace tokenizers that each word has a space before it.

    In running text every word but the first has one, and the model has learned words in that form. Words that come
    one by one would else be cut into the pieces of a word's middle.
    """
    if isinstance(node, list):
        for each in node:
            _force_prefix_space(each)
    elif isinstance(node, dict):
        if node.get("type") in {"ByteLevel", "RobertaProcessing"} and "add_prefix_space" in node:
            node["add_prefix_space"] = True
        if node.get("type") == "Metaspace":
            node["prepend_scheme"] = "always"
            node.pop("add_prefix_space", None)
        for key in ("pre_tokenizer", "pretokenizers", "post_processor", "processors"):
            _force_prefix_space(node.get(key))


def _find_prefix_and_suffix(folder: ModelFolder, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and after a sentence."""
    for text in _PROBE_TEXTS:
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        whole = tokenizer.encode(text).ids
        if bare:
            start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), None)
            if start is not None:
                return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    raise ModelError(
        f"{folder.tokenizer} gives no subword for any of {', '.join(_PROBE_TEXTS)}: export the tokenizer again"
    )


def _check_unknown_character(folder: ModelFolder, tokenizer: Tokenizer) -> None:
    """A tokenizer that fails on what its vocabulary lacks would take a whole batch down with one rare character."""
    try:
        tokenizer.encode_batch([[_OUT_OF_VOCABULARY]], is_pretokenized=True, add_special_tokens=False)
    except Exception as error:
        raise ModelError(
            f"{folder.tokenizer} fails on a character that its vocabulary lacks ({error}): give it an unknown token"
        ) from error


def _find_unknown_id(tokenizer: Tokenizer, content: dict[str, Any]) -> int | None:
    model = content["model"]
    if isinstance(model.get("unk_id"), int):
        return int(model["unk_id"])
    unknown = model.get("unk_token")
    return tokenizer.token_to_id(unknown) if isinstance(unknown, str) else None
