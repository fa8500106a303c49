"""The verdict on one value: by its schema, its rules and its class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

from trustgraph_prompt.contract.adapt_values import Conformer, Decode
from trustgraph_prompt.contract.compile_schema import Schema, compile_schema
from trustgraph_prompt.contract.explain import MAX_ISSUES, explain, unexpected
from trustgraph_prompt.contract.invariants import InvariantRule, failures
from trustgraph_prompt.contract.limits import StepMeter, TooCostly
from trustgraph_prompt.contract.validator import Validator, surrogate_safe
from trustgraph_prompt.errors import Issue, Reason

Extra = Literal["forbid", "ignore"]

# Approximate steps for each character of a value.
_EXPLAINING = 100  # for each subschema that may find an error, beyond the few of usual schemas
_USUAL = 4  # subschemas
_TRYING = 60  # for each subschema, to conform a value
_VISITING = 50  # to conform a value
_RULE = 40  # for each rule
_BUILDING = 60  # to make an instance


@dataclass(frozen=True)
class Judge:
    """Conforms and validates values. Without `validator`, every JSON value meets the schema.

    `also` returns further issues of a value that meets the schema and the rules. `place` is the JSON Pointer
    of the schema in the contract.
    """

    rules: tuple[InvariantRule, ...] = ()
    validator: Validator | None = None
    conformer: Conformer | None = None
    stripper: Conformer | None = None
    opener: Conformer | None = None
    also: Callable[[Any], tuple[Issue, ...]] | None = None
    place: str = "/schema"

    @cached_property
    def is_plain(self) -> bool:
        """Whether the schema alone decides."""
        return not (self.rules or self.conformer or self.stripper or self.also)

    @cached_property
    def widest(self) -> int:
        """The maximum number of steps for each character, for the schema alone."""
        return 0 if self.validator is None else self.validator.widest

    @cached_property
    def demand(self) -> int:
        """About how many steps each character takes, with everything that is done."""
        explained = 0 if self.validator is None else self.validator.widest_explained
        conformers = (self.conformer is not None) + (self.stripper is not None)
        validating = self.widest + _EXPLAINING * max(explained - _USUAL, 0)
        conforming = conformers * (_VISITING + _TRYING * explained)
        return validating + conforming + _RULE * len(self.rules) + _BUILDING * (self.also is not None)

    @classmethod
    def of(
        cls,
        schema: Schema | None,
        extra: Extra | None,
        coerce: bool,
        rules: tuple[InvariantRule, ...],
        depth: int,
    ) -> Judge:
        """Compile a schema. Raises `ContractError`."""
        if schema is None:
            return cls(rules)
        validator = compile_schema(schema, depth)
        drop = extra == "ignore"
        return cls(
            rules,
            validator,
            Conformer(validator, drop=drop, coerce=coerce) if drop or coerce else None,
            Conformer(validator, drop=True) if extra == "forbid" else None,
            Conformer(validator),
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of all properties that the schema declares at any level."""
        return frozenset() if self.validator is None else self.validator.names

    def cost(self, value: Any, characters: int | None) -> int:
        """The steps to validate a value. Raises `TooCostly`, as `Validator.cost`."""
        return 0 if self.validator is None else self.validator.cost(value, characters)

    def conform(self, value: Any, meter: StepMeter) -> Any:
        """Conform a value; return it unchanged if that would take too much."""
        try:
            return value if self.conformer is None else self.conformer.of(value, meter)
        except TooCostly:
            return value

    def opened(self, value: Any, meter: StepMeter, decode: Decode) -> Any:
        """Decode the strings that hold a list or an object where the schema expects one."""
        try:
            return value if self.opener is None else self.opener.of(value, meter, decode)
        except TooCostly:
            return value

    def take(self, value: Any, meter: StepMeter) -> tuple[Any, bool]:
        """Conform a value, and say whether the result is accepted."""
        try:
            if self.is_plain:
                return value, self._meets_schema(value)
            if self.conformer is not None:
                value = self.conformer.of(value, meter)
            return value, (
                self._meets_schema(value)
                and (self.stripper is None or self.stripper.of(value, meter) is value)
                and next(failures(self.rules, value, meter), None) is None
                and not (self.also and self.also(value))
            )
        except ValueError:  # too costly
            return value, False

    def accepts_plainly(self, values: list[Any], at_once: int | None = None) -> bool:
        """Whether all values are accepted by a judge with nothing but a schema (`is_plain`)."""
        if self.validator is None:
            return True
        try:
            return surrogate_safe(partial(self.validator.are_valid, at_once=at_once), values)
        except ValueError:
            return False

    def issues(self, value: Any, meter: StepMeter) -> tuple[Issue, ...]:
        """The issues of a value, at most `MAX_ISSUES`; empty exactly if `take` accepts it."""
        try:
            found = dict.fromkeys(self._issues(value, meter))
        except TooCostly as error:
            return (Issue(Reason.SCHEMA_VALUE_ERROR, str(error)),)
        return tuple(found)[:MAX_ISSUES]

    def _meets_schema(self, value: Any) -> bool:
        return self.validator is None or surrogate_safe(self.validator.is_valid, value)

    def _issues(self, value: Any, meter: StepMeter) -> Iterator[Issue]:
        if self.conformer is not None:
            value = self.conformer.of(value, meter)
        try:
            fits = self._meets_schema(value)
        except ValueError:  # too costly, as the explanation will say
            fits = False
        if not fits and self.validator is not None:
            for issue in explain(self.validator, value, meter):
                yield replace(issue, keyword=issue.keyword.replace("/schema", self.place, 1))
        if self.stripper is not None and (stripped := self.stripper.of(value, meter)) is not value:
            fits = False
            yield from unexpected(value, stripped)
        if fits:  # rules apply to valid values only
            for index, message in failures(self.rules, value, meter):
                fits = False
                yield Issue(Reason.INVARIANT_VIOLATION, message, keyword=f"/invariants/{index}")
        if fits and self.also:
            yield from self.also(value)
