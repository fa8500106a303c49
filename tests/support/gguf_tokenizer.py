"""The tokenizer of a model file of llama.cpp, as the `tokenizer.json` that its authors publish beside it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Replace

_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_NORMAL, _BYTE = 1, 6
"""Kinds of tokens; those of other kinds, such as the start of a turn, are matched as a whole."""


def save(model: Path, to: Path) -> None:
    """Write the tokenizer of a SentencePiece model such as Gemma.

    It merges two neighbours into the piece with the highest score, which a list of merges says as well.
    """
    with model.open("rb") as file:
        facts = _metadata(file)
    tokens, scores = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.scores"]
    kinds = facts["tokenizer.ggml.token_type"]
    number = {token: at for at, token in enumerate(tokens)}
    merges = sorted(
        (-scores[at], number[token[:cut]], number[token[cut:]])
        for at, token in enumerate(tokens)
        if kinds[at] == _NORMAL
        for cut in range(1, len(token))
        if token[:cut] in number and token[cut:] in number
    )
    pairs = [(tokens[left], tokens[right]) for _, left, right in merges]
    tokenizer = Tokenizer(BPE(number, pairs, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = Replace(" ", "▁")
    tokenizer.add_special_tokens(
        [AddedToken(token) for at, token in enumerate(tokens) if kinds[at] not in (_NORMAL, _BYTE)]
    )
    tokenizer.save(str(to))


def _metadata(file: BinaryIO) -> dict[str, Any]:
    magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
    assert magic == b"GGUF"
    return {_string(file): _value(file, _number(file, "I")) for _ in range(count)}


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        of, length = _number(file, "I"), _number(file, "Q")
        return [_value(file, of) for _ in range(length)]
    return _number(file, _NUMBERS[kind])


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode()


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", file.read(struct.calcsize(code)))[0]
