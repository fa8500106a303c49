"""The clause `match` of a prompt: which keys say that two of its objects are the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.object_keys import check_key, kinds_of

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "minProperties": 1,
    "description": "The keys that say whether an object is an expected one (`eval`), and how their values "
    "are compared; by default every required string, normalised.",
    "additionalProperties": {
        "anyOf": [
            {"enum": ["exact", "normalised"], "description": "exact or normalised"},
            {
                "type": "object",
                "required": ["fuzzy"],
                "additionalProperties": False,
                "description": "{fuzzy: THRESHOLD}",
                "properties": {"fuzzy": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
            },
        ]
    },
}
"""The format of the clause."""

How = Literal["exact", "normalised"] | float
"""How two values are compared: as they are, without regard to case, white space and forms of characters, or
by the least similarity of the normalised texts, more than 0 and at most 1."""


@dataclass(frozen=True, slots=True)
class MatchClause:
    """Two objects are the same if all these keys agree; without keys, if they agree as a whole, normalised.

    `required` are those keys that every object has. `is_default` says that the prompt has no clause.
    `ignored` are the quotes of objects, by which these are not compared unless the clause names them.
    """

    keys: Mapping[str, How]
    required: frozenset[str] = frozenset()
    is_default: bool = False
    ignored: frozenset[str] = frozenset()

    def __str__(self) -> str:
        hows = {key: f"fuzzy {how:g}" if isinstance(how, float) else how for key, how in self.keys.items()}
        return ", ".join(f"`{key}` ({how})" for key, how in hows.items()) or "whole objects (normalised)"

    @classmethod
    def of(cls, data: Mapping[str, Any] | None, contract: Contract) -> MatchClause:
        """Compile the clause from data that meets `SCHEMA`, or the default of a contract from None.

        Raises `PromptError`, with the path in `data`, for a key that the contract does not declare, and for a
        fuzzy one that is no string.
        """
        kinds = list(kinds_of(contract))
        keys: dict[str, How] = {}
        if data is None:
            strings = (
                key
                for kind in kinds
                for key in kind.properties
                if key in kind.required and kind.allows("string", key) and key not in contract.quote_keys
            )
            keys = dict.fromkeys(strings, "normalised")
        for key, how in (data or {}).items():
            is_fuzzy = isinstance(how, Mapping)
            check_key(key, "string" if is_fuzzy else None, kinds, (key,))
            keys[key] = float(how["fuzzy"]) if is_fuzzy else how
        required = frozenset(key for key in keys if all(key in kind.required for kind in kinds))
        ignored = frozenset(contract.quote_keys).difference(keys)
        return cls(keys, required, is_default=data is None, ignored=ignored)
