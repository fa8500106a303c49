"""The keys that the objects of a contract have, for clauses of a prompt that name some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trustgraph_prompt.contract.alternatives import branches_of
from trustgraph_prompt.contract.coerce_scalars import Target
from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import PromptError, suggestion
from trustgraph_prompt.json_text.pointer import pointer


class ObjectKind(NamedTuple):
    """One kind of object that a contract accepts: the schemas of its keys, and which of them it must have."""

    properties: Mapping[str, Any]
    required: frozenset[str]
    references: References

    def is_figure(self, key: str) -> bool:
        """Whether the value of a key may be a number or a date, and the schema says so."""
        top = self.references.seen_through(self.properties[key]) or {}
        branches = branches_of(top, self.references) or [top]
        return any(
            {"integer", "number"} & (Target.of([branch]).types or set())
            or str(branch.get("format", "")).startswith("date")
            for branch in branches
        )

    def is_free_text(self, key: str) -> bool:
        """Whether the value of a key may be any string."""
        fixed = (self.references.seen_through(self.properties[key]) or {}).keys() & {"const", "enum"}
        return self.allows("string", key) and not fixed

    def allows(self, type: str, key: str, *, in_list: bool = False) -> bool:
        """Whether the value of a key, or with `in_list` an element of its list, may have the type."""
        return _allows_type(type, self.properties[key], self.references, in_list)


def kinds_of(contract: Contract) -> Iterator[ObjectKind]:
    """The kinds of object that the contract accepts: one for each version and each branch of a union."""
    for schema in (contract.schema, *(contract.versions or {}).values()):
        if isinstance(schema, dict):
            references = References(schema)
            common = references.followed(schema) or {}
            for branch in branches_of(schema, references) or [{}]:
                yield ObjectKind(
                    {**common.get("properties", {}), **branch.get("properties", {})},
                    frozenset((*common.get("required", ()), *branch.get("required", ()))),
                    references,
                )


def not_looked_up(contract: Contract, keys: Iterable[str] | None = None) -> list[str]:
    """Those of `keys` that are not looked up in the text, where others are; by default numbers and dates."""
    if contract.sources is None:
        return []
    sourced = [f"{path}/" for path, _ in contract.sources.said]
    if keys is None:
        kinds = kinds_of(contract)
        keys = dict.fromkeys(key for kind in kinds for key in kind.properties if kind.is_figure(key))
    return [key for key in keys if not any(f"{pointer(('properties', key))}/" in path for path in sourced)]


def late_quotes(contract: Contract) -> list[str]:
    """The quotes that come after what they are to support, for which the model then finds words that fit.

    The name of whom it is said may come before: models then name more. Without roles, any text counts.
    """
    said = {key for role in contract.roles for key in (role.predicate, role.value)}
    late: dict[str, None] = {}
    for kind in kinds_of(contract) if contract.quote_keys else ():
        texts = [key for key in kind.properties if kind.is_free_text(key)]
        others = (place for place, key in enumerate(texts) if key not in contract.quote_keys)
        first = next((place for place in others if not said or texts[place] in said), len(texts))
        late |= dict.fromkeys(key for key in texts[first:] if key in contract.quote_keys)
    return list(late)


def check_key(
    key: str, needed: str | None, kinds: Sequence[ObjectKind], path: Sequence[str], *, in_list: bool = False
) -> None:
    """Raise `PromptError`, with the path, if no kind of object has the key, or none with a type it needs."""
    declared = {key for kind in kinds for key in kind.properties}
    if key not in declared:
        raise PromptError(
            f"the schema does not declare this key{suggestion(key, declared)}",
            path=pointer(path),
            found=key,
            expected="one of " + ", ".join(sorted(declared)) if declared else "a schema with keys",
        )
    having = [kind for kind in kinds if key in kind.properties]
    if needed and not any(kind.allows(needed, key, in_list=in_list) for kind in having):
        raise PromptError(
            "the schema gives this key another type",
            path=pointer(path),
            found=key,
            expected=f"a key of type {needed}" + (", or a list of it" if in_list else ""),
        )


def _allows_type(needed: str, schema: Any, references: References, in_list: bool) -> bool:
    top = references.seen_through(schema) or {}
    for branch in branches_of(top, references) or [top]:
        types = Target.of([branch]).types
        if types is None or needed in types:
            return True
        if in_list and "array" in types and _allows_type(needed, branch.get("items"), references, False):
            return True
    return False
