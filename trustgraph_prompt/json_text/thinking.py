"""The notations in which models write their thinking into an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from trustgraph_prompt.errors import ConfigError

Notation = tuple[str, str]
"""What opens and what closes the thinking, in any case of letters."""

_NAMES = "think thinking thought thoughts reasoning reflection scratchpad analysis seed:think mm:think"

#: An opening tag within a line may be a mere mention; any of the closing tags closes.
TAGS: Final[tuple[Notation, ...]] = tuple((f"<{name}>", f"</{name}>") for name in _NAMES.split())

#: Special tokens are no mere mention anywhere.
TOKENS: Final[tuple[Notation, ...]] = (
    ("<|channel|>analysis", "<|channel|>final"),  # gpt-oss; `<|message|>` follows, or `<|constrain|>json`
    ("<|channel|>commentary", "<|channel|>final"),
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker, Sky-T1
)


def notation(opens: str, closes: str) -> Notation:
    """A notation of one's own. Raises `ConfigError` for marks that values or code fences could begin with."""
    for mark in (opens, closes):
        if not _MARK.fullmatch(mark):
            raise ConfigError(
                "this cannot mark thinking",
                where="thinking",
                found=mark,
                expected='two to 100 characters, without white space and any of {}"`~',
            )
    return opens, closes


def any_of(marks: Iterable[str], *, begun: bool = False) -> str:
    """A pattern for one of the marks, with `begun` also for the beginning of one.

    Marks share their beginnings, so a search takes few steps; each alternative begins with a fixed character.
    """
    branches = []
    for first, group in groupby(sorted(set(marks)), itemgetter(0)):
        rests = [mark[1:] for mark in group]
        rest = any_of(filter(None, rests), begun=begun)
        is_optional = begun or "" in rests
        branches.append(re.escape(first) + (f"(?:{rest})" + "?" * is_optional if rest else ""))
    return "|".join(branches)


_MARK = re.compile(r'[^\s{}"`~]{2,100}')

END: Final = re.compile(any_of(closes for _, closes in (*TAGS, *TOKENS)), re.IGNORECASE)
