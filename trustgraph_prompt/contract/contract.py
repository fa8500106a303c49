"""The contract of an answer: its format, its schema, and the verdict on a value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from trustgraph_prompt.contract.branches import declares, discriminator_of, names_of
from trustgraph_prompt.contract.explain import explain, show
from trustgraph_prompt.contract.limits import Limits
from trustgraph_prompt.contract.schema import compile_schema, plain_schema
from trustgraph_prompt.contract.validator import Validator
from trustgraph_prompt.errors import ContractError, Issue, Reason

Format = Literal["text", "json", "jsonl"]
JsonSchema = Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class Contract:
    """What an answer must be. Immutable; made by `from_schema`, compared by `fingerprint`.

    `schema` describes one object of a jsonl answer, the value of a json answer, or one element of it where
    `many` says that the value is a list; None lets everything pass. `discriminator` is the property whose
    `const` or `enum` picks the branch of a `oneOf` or `anyOf`, None where nothing does. `name` is for people
    and wires; it decides no verdict and is not in the fingerprint.
    """

    format: Format
    schema: JsonSchema | None = field(compare=False)
    many: bool = False
    name: str | None = field(default=None, compare=False)
    fingerprint: str = ""
    discriminator: str | None = field(default=None, compare=False)
    repair: bool = field(default=False, compare=False)
    limits: Limits = field(default=Limits(), compare=False)
    _validator: Validator | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_schema(
        cls,
        schema: JsonSchema | None,
        *,
        format: Format = "json",
        many: bool | None = None,
        name: str | None = None,
        repair: bool = False,
        limits: Limits = Limits(),
    ) -> Contract:
        """A contract from a JSON Schema: draft 4 to 2020-12, as its `$schema` says, 2020-12 by default.

        `many` is always true of jsonl, never of text, and false of json unless it is given.
        The schema is copied. Raises `ContractError`, with the path of what is wrong in the schema.
        """
        if format not in get_args(Format):
            raise ContractError("unknown response format", found=format, expected="text, json or jsonl")
        many = _many(format, many)
        if schema is not None and format == "text":
            raise ContractError("a text answer has no schema", found=schema, expected="no schema")
        plain = None if schema is None else plain_schema(schema)
        validator = None if plain is None else compile_schema(plain)
        return cls(
            format=format,
            schema=plain,
            many=many,
            name=name,
            fingerprint=_fingerprint(format, many, plain, repair, limits),
            discriminator=discriminator_of(plain),
            repair=repair,
            limits=limits,
            _validator=validator,
        )

    def conform(self, value: object) -> object:
        """What the contract makes of a value before it is judged."""
        return value

    def accepts(self, value: object) -> bool:
        """Whether `value` is one object of a jsonl answer, or the value of a json answer, as asked for."""
        if self._is_list:
            return isinstance(value, list) and all(map(self._meets_schema, value))
        return self._meets_schema(value)

    def accepts_all(self, values: Iterable[object]) -> bool:
        """Whether each of `values` is accepted; the fast way to ask about many."""
        if self._validator is None or self._is_list:
            return all(map(self.accepts, values))
        try:
            return all(map(self._validator.is_valid, values))
        except ValueError:
            return False

    def issues(self, value: object) -> tuple[Issue, ...]:
        """What is wrong with `value`: empty exactly where `accepts` says yes. Slow; for what was refused."""
        if self.accepts(value):
            return ()
        if not self._is_list:
            return self._explain(value)
        if not isinstance(value, list):
            return (Issue(Reason.WRONG_CONTAINER, f"expected an array of values, found {show(value)}"),)
        index = next(i for i, item in enumerate(value) if not self._meets_schema(item))
        return tuple(
            Issue(issue.reason, issue.message, f"/{index}{issue.path}")
            for issue in self._explain(value[index])
        )

    def declares(self, name: str) -> bool:
        """Whether the schema, or a branch of it, speaks of a property called `name`."""
        return declares(self.schema, name)

    def names(self) -> frozenset[str]:
        """The names of all properties that the schema declares anywhere."""
        return names_of(self.schema)

    @property
    def _is_list(self) -> bool:
        return self.many and self.format == "json"

    def _explain(self, value: object) -> tuple[Issue, ...]:
        return () if self._validator is None else explain(self._validator, self.schema, value)

    def _meets_schema(self, value: object) -> bool:
        if self._validator is None:
            return True
        try:
            return self._validator.is_valid(value)
        except ValueError:  # what the validator cannot look at: nested too deep for it
            return False


def _many(format: Format, many: bool | None) -> bool:
    always: dict[str, bool] = {"jsonl": True, "text": False}
    if format not in always:
        return bool(many)
    if many is not None and many is not always[format]:
        expected = "many objects" if always[format] else "one text"
        raise ContractError(f"a {format} answer is {expected}", path="/many", found=many, expected=expected)
    return always[format]


def _fingerprint(format: Format, many: bool, schema: JsonSchema | None, repair: bool, limits: Limits) -> str:
    decides = {"format": format, "many": many, "schema": schema, "repair": repair, "limits": asdict(limits)}
    canonical = json.dumps(decides, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
