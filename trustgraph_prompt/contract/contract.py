"""`Contract`: what an answer must be (format, schema, rules), and the verdict on a value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from trustgraph_prompt.contract.adapt_values import Decode, decoded
from trustgraph_prompt.contract.alternatives import branches_of, declares, discriminator_of
from trustgraph_prompt.contract.canonical_schema import JsonSchema, digest, shown
from trustgraph_prompt.contract.compile_schema import Schema, plain_schema
from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.contract.grounded_keys import Sources
from trustgraph_prompt.contract.grounding import SEARCHING, Echoes, Grounded, NearestEchoes, Terms
from trustgraph_prompt.contract.instructions import PLAIN, Wording
from trustgraph_prompt.contract.invariants import Invariant, rules
from trustgraph_prompt.contract.judge import Extra, Judge
from trustgraph_prompt.contract.limits import MAX_CALL, Limits, StepMeter, TooCostly
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.contract.roles import Role, take_roles
from trustgraph_prompt.contract.schema_versions import (
    Version,
    Versions,
    names_version,
    naming_version,
    parse_versions,
)
from trustgraph_prompt.errors import ContractError, Issue, Reason, StructuredOutputInvalid, excerpt
from trustgraph_prompt.json_text.encoding import canonical

if TYPE_CHECKING:
    from trustgraph_prompt.contract.types import Build

Format = Literal["text", "json", "jsonl"]
"""The format of an answer: plain text, one JSON value, or one JSON object per line."""

Fences = Literal["any", "strict", "one"]
"""How the value of a json answer is found among code fences.

any: a valid value in a fence, else one in the prose; a second, different value is an error. strict
(weakincentives): if blocks are marked as json, the value is the whole of one of them, else the first valid
value; a list may be wrapped only in `items`. one (StreetRace): several different values in fences are an
error.
"""

_MAX_MESSAGE = 300  # characters of one issue; its path holds keys that a model wrote


class ContractOptions(TypedDict, total=False):
    """The options that `Contract.of` and `Contract.language` pass on to `Contract.from_schema`."""

    repair: bool
    extra: Extra | None
    coerce: bool
    fences: Fences
    invariants: Iterable[object]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Contract:
    """What an answer must be. Immutable; compared by `fingerprint`.

    The fingerprint covers what decides verdicts: contracts that accept and convert the same values have the
    same fingerprint, however their schemas are written. Titles, descriptions and `name` are not part of it.

    `schema` describes one object of a jsonl answer, the value of a json answer, or one element of that value
    if it is a list (`many`); None accepts everything. `discriminator` is the property whose `const` or `enum`
    picks the branch of a `oneOf` or `anyOf`, if there is one. `sources` are the keys whose values must occur
    in terms of the question (`x-from`, `x-quote`); they are removed from `schema`. `roles` are the keys that
    make a statement (`x-supported`, or those of `with_roles`). `offered` are the values to which a server
    holds the keys of an object; another value is no error.
    """

    format: Format
    schema: JsonSchema | None = field(compare=False)
    many: bool = False
    name: str | None = field(default=None, compare=False)
    fingerprint: str = ""
    repair: bool = field(default=False, compare=False)
    extra: Extra | None = field(default=None, compare=False)
    coerce: bool = field(default=False, compare=False)
    fences: Fences = field(default="any", compare=False)
    invariants: tuple[Invariant, ...] = field(default=(), compare=False)
    versions: Mapping[str, JsonSchema] | None = field(default=None, compare=False)
    limits: Limits = field(default=Limits(), compare=False)
    discriminator: str | None = field(default=None, compare=False)
    sources: Sources | None = field(default=None, compare=False, repr=False)
    offered: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False, repr=False)
    roles: tuple[Role, ...] = field(default=(), compare=False, repr=False)
    _judge: Judge | Versions = field(default=Judge(), repr=False, compare=False)
    _build: Build | None = field(default=None, repr=False, compare=False)
    _meter: StepMeter | None = field(default=None, repr=False, compare=False)
    _terms: Terms | None = field(default=None, repr=False, compare=False)
    _plain: Contract | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_schema(
        cls,
        schema: JsonSchema | None,
        *,
        format: Format = "json",
        many: bool | None = None,
        name: str | None = None,
        repair: bool = False,
        extra: Extra | None = None,
        coerce: bool = False,
        fences: Fences = "any",
        invariants: Iterable[object] = (),
        versions: Mapping[str, JsonSchema] | None = None,
        limits: Limits = Limits(),
    ) -> Contract:
        """Make a contract from a JSON Schema: draft 4 to 2020-12, as its `$schema` says, by default 2020-12.

        - `many`: the value is a list. Always true for jsonl, never for text, by default false for json.
        - `repair`: broken JSON may be repaired.
        - `extra`: keys that the schema does not declare are rejected ("forbid"), dropped ("ignore"), or left
          to the schema (None).
        - `coerce`: scalars are converted to the declared type if nothing is lost.
        - `fences`: see `Fences`.
        - `invariants`: rules about the whole object, each a rule, a pair of rule and message, or a mapping
          with both.
        - `versions`: schemas by version ("1.0"); the `schema_version` of a value picks one of them. `schema`
          then applies to values without a version, by default the schema of the oldest version.

        The schemas are copied. Raises `ContractError` with the path of the error in the schema.
        """
        _check("response format", "", format, get_args(Format))
        _check("handling of extra keys", "/extra", extra, (None, *get_args(Extra)))
        _check("choice of fenced blocks", "/fences", fences, get_args(Fences))
        many = _many(format, many)
        written, compiled = rules(invariants)
        if format == "text":
            _check_nothing_for_text(schema, versions, written)
        plain, unversioned, by_version = _schemas(schema, versions)
        versioned = dict([(None, unversioned), *by_version.items()])
        sources, roles = Sources.take(versioned), take_roles(versioned)
        judge_of = partial(Judge.of, coerce=bool(coerce), rules=compiled, depth=limits.depth)
        if by_version:
            judge: Judge | Versions = Versions.of(by_version, unversioned, extra, judge_of)
        else:
            judge = judge_of(plain, extra)
        branches = branches_of(plain, References(plain)) if isinstance(plain, dict) else []
        contract = cls(
            format=format,
            schema=plain,
            many=many,
            name=name,
            repair=bool(repair),
            extra=extra,
            coerce=bool(coerce),
            fences=fences,
            invariants=written,
            versions={str(version): of_version for version, of_version in by_version.items()} or None,
            limits=limits,
            discriminator=discriminator_of(branches),
            sources=sources,
            roles=roles,
            _judge=judge,
        )
        return replace(contract, fingerprint=contract._hash(unversioned))

    @classmethod
    def of(
        cls,
        type: object,
        *,
        format: Format = "json",
        name: str | None = None,
        **options: Unpack[ContractOptions],
    ) -> Contract:
        """Make a contract from a type: a dataclass, a Pydantic model, or a list of these (`many`).

        Fields may have the types of JSON, `Any`, datetime, date, time, UUID, Decimal and bytes (strings in
        JSON), Enum, Literal, unions, lists, tuples, sets, dicts with string keys, dataclasses, models, and
        `Annotated` with bounds. Fields without a default are required. Docstrings and
        `field(metadata={"description": …})` become descriptions in the schema. `name` is by default that of
        the class. The other options (repair, extra, coerce, fences, invariants, limits) are those of
        `from_schema`. `build` makes instances of the type.

        Raises `ContractError` with the class and field that have no JSON Schema, and for a union of classes
        with equal schemas, of which only the first would be built.
        """
        from trustgraph_prompt.contract.types import describe

        described = describe(type)
        many = described.many or format == "jsonl"
        contract = cls.from_schema(
            described.schema, format=format, many=many, name=name or described.name, versions=None, **options
        )
        described.check_unions()
        return replace(contract, _build=described.build)

    @classmethod
    def language(
        cls,
        source: str,
        *,
        types: Mapping[str, object] | None = None,
        format: Format = "json",
        many: bool | None = None,
        **options: Unpack[ContractOptions],
    ) -> dict[str, Contract]:
        """Make the contracts of a text in the schema language (StreetRace), by the name of each `schema`.

        `types` are additional type names that the text may use, each for a JSON Schema or for a Python type
        as in `of`; their values stay plain JSON. The other options (repair, extra, coerce, fences,
        invariants, limits) are those of `from_schema`.

        Raises `LanguageError` with line and column.
        """
        from trustgraph_prompt.contract.from_language import placed, schemas_of

        file, schemas = schemas_of(source, types or {})
        contracts = {}
        for name, schema in schemas.items():
            with placed(file, name):
                contracts[name] = cls.from_schema(
                    schema, format=format, many=many, name=name, versions=None, **options
                )
        return contracts

    def build(self, value: Any) -> Any:
        """Make instances of the contract's type from an accepted value; without a type, return the value.

        `value` is one object of a jsonl answer or the list of them, or the value of a json answer. A list
        becomes a list of instances. Raises `StructuredOutputInvalid` with its `issues` if the class rejects
        what its schema accepts.
        """
        if self._build is None:
            return value
        from trustgraph_prompt.contract.types import elements

        is_list = self.many and isinstance(value, list)
        made, issues, cause = _built(elements(self._build, list) if is_list else self._build, value)
        if not issues:
            return made
        message = "; ".join(excerpt(str(issue), _MAX_MESSAGE) for issue in issues)
        raise StructuredOutputInvalid(message, response_schema=self.schema, issues=issues) from cause

    def buildable(self) -> Contract:
        """Return the same contract, which also rejects the values that `build` rejects.

        The fingerprint stays the same: it does not cover the code of a class.
        """
        if (build := self._build) is None:
            return self
        return self.checked(lambda value: _built(build, value)[1])

    def checked(self, check: Callable[[Any], tuple[Issue, ...]]) -> Contract:
        """Return the same contract, which also rejects the values in which `check` finds issues.

        It is applied to values that meet the schema and the rules. The fingerprint stays the same. A contract
        with `versions` is returned as it is.
        """
        if not isinstance(self._judge, Judge):
            return self
        return replace(self, _judge=replace(self._judge, also=check))

    def metered(self) -> Contract:
        """Return the same contract for one answer, with one budget of `limits.steps` for all its values.

        When the budget is spent, no further value is accepted, and `issues` says so.
        """
        return replace(self, _meter=self._new_meter())

    def with_roles(self, roles: Iterable[Role]) -> Contract:
        """Return the contract that also checks what an object says by these roles.

        It is this contract where nothing new is checked: without a quote and without roles of its own, so
        that prompts which say nothing about quotes keep their versions.
        """
        every = tuple(dict.fromkeys((*self.roles, *roles)))
        if every == self.roles or not (self.quote_keys or self.roles):
            return self
        decides = json.dumps([self.fingerprint, every])
        return replace(self, roles=every, fingerprint=hashlib.sha256(decides.encode()).hexdigest())

    def with_terms(
        self,
        terms: Mapping[str, object] | None,
        echoes: Echoes | None = None,
        nearest: NearestEchoes | None = None,
    ) -> Contract:
        """Return the contract for the answer to a question with these terms.

        It also rejects values that do not occur in their sources, and echoes of examples, but searches only
        for values that meet the schema. Quotes are replaced by the words of the text before. Words of the
        terms are not taken for LaTeX commands. It is the same contract without terms, for a text, and if it
        has these terms.
        """
        without = echoes is None and nearest is None
        if terms is None or self.format == "text" or (without and terms is self.terms):
            return self
        plain = self.without_terms
        return replace(plain, _terms=Terms(terms, self.sources, echoes, nearest, self.roles), _plain=plain)

    @property
    def without_terms(self) -> Contract:
        """The contract that `with_terms` made this one from; else this contract."""
        return self._plain or self

    @property
    def terms(self) -> Mapping[str, object] | None:
        """The terms of the question, as given to `with_terms`."""
        return None if self._terms is None else self._terms.given

    @property
    def asks_terms(self) -> bool:
        """Whether an answer is judged by the terms of its question, if they are given."""
        return self.sources is not None or bool(self.roles)

    @property
    def searches(self) -> bool:
        """Whether anything is searched in the terms of the question to judge a value."""
        return self._terms is not None and self._terms.searches

    @property
    def demand(self) -> int:
        """About how many steps it takes to validate one character of an answer."""
        return self._judge.demand + (SEARCHING if self.searches else 0)

    @property
    def spent(self) -> Issue | None:
        """The issue that says that the steps of a metered contract are spent; None if they are not."""
        meter = self._meter
        return Issue(Reason.EFFORT_SPENT, meter.message) if meter is not None and meter.is_spent else None

    def conform(self, value: Any) -> Any:
        """Return the value with extra keys dropped and scalars converted, as it is then validated.

        Returns the same object if there is nothing to change. Never changes `value`, never raises: what
        cannot be converted, or would cost too much, stays as it is.
        """
        if self._judge.is_plain:
            return value
        meter = self._meter or self._new_meter()
        if not self._is_list:
            return self._judge.conform(value, meter)
        if not isinstance(value, list):
            return value
        return _same_if_unchanged([self._judge.conform(item, meter) for item in value], value)

    def opened(self, value: Any, decode: Decode) -> Any:
        """Return the value with strings decoded that hold the JSON of a list or an object, where the schema
        expects one and accepts no string.

        Returns the same object if there is none, or if the contract allows neither coercion nor repair.
        """
        if not (self.coerce or self.repair):
            return value
        meter = self._meter or self._new_meter()
        if not self._is_list:
            return self._judge.opened(value, meter, decode)
        items = decoded(value, decode) if isinstance(value, str) else value
        if not isinstance(items, list):
            return value
        return _same_if_unchanged([self._judge.opened(item, meter, decode) for item in items], value)

    def take(self, value: Any, characters: int | None = None) -> tuple[Any, bool]:
        """Conform a value and validate it: `conform` and `accepts` in one call.

        `characters` is the length of its text if known, which saves counting the steps.
        """
        meter = self._meter or self._new_meter()
        value = self._quoted(value, self._meter)
        if not self._is_list:
            if not self._is_paid(value, characters):
                return value, False
            taken = self._judge.take(value, meter)
        elif not isinstance(value, list):
            return value, False
        elif self._judge.is_plain and self._meter is None:
            taken = value, self._judge.accepts_plainly(value)
        elif not all(map(self._is_paid, value)):
            return value, False
        else:
            items = [self._judge.take(item, meter) for item in value]
            made = _same_if_unchanged([item for item, _ in items], value)
            taken = made, all(accepted for _, accepted in items)
        if self._terms is None:
            return taken
        made, accepted = taken
        return made, accepted and self._is_true(made)

    def take_all(
        self, values: list[Any], characters: int | None = None, longest: int = 0
    ) -> list[Any] | None:
        """Conform many values at once; None unless all are accepted. Faster than `take` for each.

        `characters` is the length of the text of all values, `longest` that of the longest. Also returns None
        if these are so large that the steps have to be counted value by value.
        """
        judge = self._judge
        if characters is None:
            taken = [self.take(value) for value in values]
            return [value for value, _ in taken] if all(accepted for _, accepted in taken) else None
        each = judge.widest * longest
        trial = StepMeter(self.name, self.limits.steps if self._meter is None else self._meter.left)
        if each > MAX_CALL or judge.widest * characters > trial.left:
            return None
        trial.spend(judge.widest * characters)
        if self._terms is not None and self.quote_keys:
            values = [self._quoted(value, trial) for value in values]
            if trial.is_spent:
                return None
        if judge.is_plain:
            if not judge.accepts_plainly(values, MAX_CALL // max(each, 1)):
                return None
            made = values
        else:
            made = []
            for value in values:
                one, accepted = judge.take(value, trial)
                if not accepted:
                    return None
                made.append(one)
        left = 0
        if self._meter is not None:
            left, self._meter.left = self._meter.left, trial.left
        if self._terms is None or all(map(self._is_true, made)):
            return made
        if self._meter is not None:  # the caller then takes each alone, and pays for it
            self._meter.left = left
        return None

    def accepts(self, value: object) -> bool:
        """Whether `value`, after `conform`, is a valid object of a jsonl answer or value of a json answer."""
        return self.take(value)[1]

    def issues(self, value: object, characters: int | None = None) -> tuple[Issue, ...]:
        """Explain why `value` is rejected, in a few issues at most; empty exactly if it is accepted. Slow."""
        if self.take(value, characters)[1]:
            return ()
        meter = self._meter or self._new_meter()
        if self._is_list and not isinstance(value, list):
            return (Issue(Reason.WRONG_CONTAINER, f"expected an array of values, found {show(value)}"),)
        value = self._quoted(value, meter)
        try:
            items = value if self._is_list and isinstance(value, list) else None
            for item in [value] if items is None else items:
                meter.spend(self._judge.cost(item, characters))
            if items is None:
                found = self._judge.issues(value, meter)
            else:
                found = tuple(islice(self._issues_of_items(items, meter), MAX_ISSUES))
        except TooCostly as error:
            found = (Issue(Reason.SCHEMA_VALUE_ERROR, str(error)),)
        if meter.is_spent:
            return (Issue(Reason.EFFORT_SPENT, meter.message),)
        return found or self.ungrounded(self.conform(value))

    def instructions(self, wording: Wording = PLAIN) -> str:
        """The instructions for a model on how to write its answer; "" if the format is text.

        They show the schema with the author's descriptions and in the author's order, without keywords that
        have no effect. If it is the schema of the newest version, they ask for that `schema_version`.
        """
        if self.format == "text":
            return ""
        schema = {} if self.schema is None else shown(self.schema, extra=self.extra, coerce=self.coerce)
        if self.versions:
            newest, of_newest = list(self.versions.items())[-1]
            schema = naming_version(schema, newest) if self.schema is of_newest else schema
        return wording.of(format=self.format, many=self.many, schema=schema, closed=self.extra == "forbid")

    def declares(self, name: str) -> bool:
        """Whether a schema, or a branch of its union, has a property called `name`."""
        schemas = (self.schema, *(self.versions or {}).values())
        return any(
            isinstance(schema, dict) and declares(schema, References(schema), name) for schema in schemas
        )

    def ungrounded(self, value: Any) -> tuple[Issue, ...]:
        """Explain which values do not occur in the terms of the question; the schema is not asked."""
        try:
            return tuple(islice(self._flaws(value), MAX_ISSUES))
        except TooCostly as error:
            return (Issue(Reason.EFFORT_SPENT, str(error)),)

    def grounding(self, values: Iterable[Any]) -> Grounded | None:
        """Where the values of these objects occur in the terms of the question; None without `sources`."""
        return None if self._terms is None else self._terms.grounding(values)

    @property
    def quote_keys(self) -> tuple[str, ...]:
        """The keys of an object that are quotes (`x-quote`): its evidence, and no part of what it says."""
        return () if self.sources is None else tuple(self.sources.quotes)

    def without_quotes(self, value: Any) -> Any:
        """An object, or the objects of a list, without their quotes; the same value if it has none."""
        return value if self.sources is None else self.sources.without_quotes(value)

    @property
    def identity(self) -> Callable[[Any], bytes]:
        """A function that gives the canonical bytes of an object without its quotes.

        They are the same for objects that say the same.
        """
        return (lambda value: canonical(self.without_quotes(value))) if self.quote_keys else canonical

    def names(self) -> frozenset[str]:
        """The names of all properties that the schemas declare at any level."""
        return self._judge.names

    @property
    def _is_list(self) -> bool:
        return self.many and self.format == "json"

    def _new_meter(self) -> StepMeter:
        return StepMeter(self.name, self.limits.steps)

    def _is_paid(self, value: Any, characters: int | None = None) -> bool:
        """Spend the steps of validating one value, if metered; false if too few are left."""
        meter = self._meter
        if meter is None:
            return True
        if characters is not None:  # the usual case
            steps = self._judge.widest * characters
            if steps <= MAX_CALL and steps <= meter.left:
                meter.left -= steps
                return True
        try:
            meter.spend(self._judge.cost(value, characters))
        except TooCostly:
            return False
        return True

    def _quoted(self, value: Any, meter: StepMeter | None) -> Any:
        """The value, or its elements, with the quotes in the words of the text, if the steps suffice."""
        if self._terms is None or not self.quote_keys:
            return value
        try:
            if self._is_list and isinstance(value, list):
                return _same_if_unchanged([self._terms.quoted(item, meter) for item in value], value)
            return self._terms.quoted(value, meter)
        except TooCostly:  # and the judge, which counts them with the same meter, accepts nothing
            return value

    def _is_true(self, value: Any) -> bool:
        """Whether the terms have nothing against a value that meets the schema."""
        try:
            return next(self._flaws(value), None) is None
        except TooCostly:
            return False

    def _flaws(self, value: Any) -> Iterator[Issue]:
        return iter(()) if self._terms is None else self._terms.flaws(value, self._meter, each=self._is_list)

    def _issues_of_items(self, items: list[Any], meter: StepMeter) -> Iterator[Issue]:
        for index, item in enumerate(items):
            if not self._judge.take(item, meter)[1]:
                for issue in self._judge.issues(item, meter):
                    yield replace(issue, path=f"/{index}{issue.path}")

    def _hash(self, unversioned: JsonSchema | None) -> str:
        """The fingerprint; `unversioned` is the schema of values without a version."""

        def of(schema: JsonSchema | None, extra: Extra | None = self.extra) -> str:
            return digest(schema, extra=extra, coerce=self.coerce)

        decides = {
            "format": self.format,
            "many": self.many,
            "schema": of(unversioned),
            "repair": self.repair,
            "extra": self.extra,
            "coerce": self.coerce,
            "fences": self.fences,
            "invariants": self.invariants,
            "versions": {
                version: (of(schema), of(schema, self.extra or "ignore"), names_version(schema))
                for version, schema in (self.versions or {}).items()
            },
            "limits": asdict(self.limits),
            **({} if self.sources is None else {"sources": self.sources.said}),
            **({"roles": self.roles} if self.roles else {}),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _built(build: Build, value: Any) -> tuple[Any, tuple[Issue, ...], BaseException | None]:
    """The instance of a value; or its issues, and the exception that they come from, if any."""
    from trustgraph_prompt.contract.types import Refused

    try:
        return build(value), (), None
    except Refused as refused:
        return None, refused.issues[:MAX_ISSUES], refused.__cause__
    except RecursionError:
        return None, (Issue(Reason.SCHEMA_VALUE_ERROR, "nested too deep for instances"),), None


def _same_if_unchanged(made: list[Any], value: Any) -> Any:
    """`value` itself if it is a list of the very same elements."""
    unchanged = isinstance(value, list) and all(map(is_, made, value))
    return value if unchanged else made


def _check(what: str, path: str, found: object, known: tuple[object, ...]) -> None:
    if found not in known:
        expected = ", ".join(map(str, known[:-1]))
        raise ContractError(f"unknown {what}", path=path, found=found, expected=f"{expected} or {known[-1]}")


def _check_nothing_for_text(schema: object, versions: object, invariants: object) -> None:
    if schema is not None or versions is not None or invariants:
        raise ContractError(
            "an answer of format text has no schema, versions or invariants",
            found=next((part for part in (versions, invariants) if part), schema),
            expected="none of them, or format json or jsonl",
        )


def _schemas(
    schema: JsonSchema | None, versions: Mapping[str, JsonSchema] | None
) -> tuple[Schema | None, Schema | None, dict[Version, Schema]]:
    """Copies of the schema to show, of that of values without a version, and of those by version."""
    plain = None if schema is None else plain_schema(schema)
    by_version = {} if versions is None else parse_versions(versions)
    if plain is not None or not by_version:
        return plain, plain, by_version
    oldest_first = list(by_version.values())
    return oldest_first[-1], oldest_first[0], by_version


def _many(format: Format, many: bool | None) -> bool:
    always: dict[str, bool] = {"jsonl": True, "text": False}
    if format not in always:
        return bool(many)
    if many is not None and many is not always[format]:
        raise ContractError(
            f"an answer of format {format} is {'always' if always[format] else 'never'} a list",
            path="/many",
            found=many,
            expected=str(always[format]),
        )
    return always[format]
