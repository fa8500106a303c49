"""Fills in the quotes that the objects of a gold file lack, so that its texts can be shown as examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.grounding.quotes import sentences
from trustgraph_prompt.json_text.values import strings


def with_quotes(objects: Sequence[Any], text: str, contract: Contract) -> list[Any] | None:
    """The objects of a text, each with a quote: the shortest sentence that names its values.

    Those are the values that the contract takes from terms, or else all texts of the object. An object that
    has a quote keeps it. None if there is no such sentence for one of them.
    """
    if not contract.quote_keys:
        return list(objects)
    passages = [Passage(sentence) for sentence in sorted(sentences(text), key=len)]
    filled = [_with_quote(value, passages, contract) for value in objects]
    return None if None in filled else filled


def _with_quote(value: Any, passages: Sequence[Passage], contract: Contract) -> Any:
    keys = contract.quote_keys
    if not isinstance(value, dict) or not value.keys().isdisjoint(keys):
        return value
    sourced = contract.sources.values(value) if contract.sources else ()
    names = [name for _, _, name in sourced] or list(strings(value))
    if not names:
        return None
    quote = next((passage.text for passage in passages if _has_all(passage, names)), None)
    return None if quote is None else {keys[0]: quote, **value}


def _has_all(passage: Passage, names: Sequence[str]) -> bool:
    """Whether a sentence has each name, and not only a part of it."""
    found = map(passage.find, names)
    return all(match is not None and not match.kind.is_weak for match in found)
