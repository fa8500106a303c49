"""The contract of an answer: its format, its schema, and the verdict on a value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from trustgraph_prompt.contract.alternatives import branches_of, declares, discriminator_of
from trustgraph_prompt.contract.canonical_schema import digest, shown
from trustgraph_prompt.contract.conform import Decode, decoded
from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.contract.grounded_keys import Sources
from trustgraph_prompt.contract.instructions import PLAIN, Wording
from trustgraph_prompt.contract.invariants import Invariant, InvariantRule, rules
from trustgraph_prompt.contract.judge import Extra, Judge
from trustgraph_prompt.contract.limits import MAX_CALL, JudgingMeter, Limits, TooMuchError
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.contract.schema import Schema, plain_schema
from trustgraph_prompt.contract.versions import PROPERTY, Version, Versioned, Versions, parse_versions
from trustgraph_prompt.errors import ContractError, Issue, Reason, StructuredOutputInvalid, excerpt
from trustgraph_prompt.json_text.pointer import pointer

if TYPE_CHECKING:
    from trustgraph_prompt.contract.grounding import Grounded
    from trustgraph_prompt.contract.types import Build

Format = Literal["text", "json", "jsonl"]
"""How an answer is laid out: as it comes, one value, objects one after the other."""

JsonSchema = Mapping[str, Any] | bool

#: How strictly a json answer is looked for. any: what is valid in a fence, else in prose, and no second value
#: that differs. strict (seed 4): where blocks are marked json, the whole of one is the value; else the first
#: that is valid; and a list has no wrapper but `items`. one (seed 5): several fenced values that
#: differ are an error.
Fences = Literal["any", "strict", "one"]

_MAX_MESSAGE = 300  # characters of one issue; its path holds keys that a model wrote


@dataclass(frozen=True, slots=True)
class Contract:
    """What an answer must be. Immutable; compared by `fingerprint`.

    Contracts that say the same in other words have one fingerprint: it is about verdicts, so neither titles
    and descriptions are in it, nor how a schema is put together.

    `schema` describes one object of a jsonl answer, the value of a json answer, or one element of it where
    `many` says that the value is a list; None lets everything pass. `discriminator` is the property whose
    `const` or `enum` picks the branch of a `oneOf` or `anyOf`, None where nothing does. `sources` are the
    keys whose values stand in terms of the question, None without any; the `schema` does not show them.
    `name` is for people and wires; it decides no verdict and is not in the fingerprint.
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
    _judge: Judge | Versions = field(default=Judge(), repr=False, compare=False)
    _build: Build | None = field(default=None, repr=False, compare=False)
    _meter: JudgingMeter | None = field(default=None, repr=False, compare=False)

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
        """A contract from a JSON Schema: draft 4 to 2020-12, as its `$schema` says, 2020-12 by default.

        `many` is always true of jsonl, never of text, and false of json unless it is given. `repair` allows
        broken JSON to be mended. `extra` says what becomes of keys that the schema does not declare: "forbid"
        refuses them, "ignore" drops them, None leaves them to the schema. `coerce` converts scalars where
        nothing is lost. `invariants` are rules about the whole object, each a rule, a pair of rule and
        message, or a mapping of both. `versions` are schemas by version ("1.0"), of which the value picks one
        by its `schema_version`; `schema` is then that of values without one, by default the oldest version's.

        The schemas are copied. Raises `ContractError`, with the path of what is wrong in the schema.
        """
        _check("response format", "", format, get_args(Format))
        _check("handling of extra keys", "/extra", extra, (None, *get_args(Extra)))
        _check("choice of fenced blocks", "/fences", fences, get_args(Fences))
        many = _many(format, many)
        written, compiled = rules(invariants)
        if format == "text" and (schema is not None or versions is not None or written):
            found = next((one for one in (versions, written) if one), schema)
            raise ContractError("a text answer has no schema", found=found, expected="no schema")
        plain = None if schema is None else plain_schema(schema)
        by_version = {} if versions is None else parse_versions(versions)
        sources = _take_sources(plain, by_version)
        settings = _Settings(extra, bool(coerce), compiled, limits.depth)
        judge = settings.judge_versions(by_version, plain) if by_version else settings.judge(plain)
        unversioned = plain
        if plain is None and by_version:
            oldest_first = list(by_version.values())
            unversioned, plain = oldest_first[0], oldest_first[-1]
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
            versions={str(version): one for version, one in by_version.items()} or None,
            limits=limits,
            discriminator=_discriminator(plain),
            sources=sources,
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
        repair: bool = False,
        extra: Extra | None = None,
        coerce: bool = False,
        fences: Fences = "any",
        invariants: Iterable[object] = (),
        limits: Limits = Limits(),
    ) -> Contract:
        """A contract from a type: a dataclass, a Pydantic model, or a list of such, which asks for many.

        Fields may be of the types of JSON, `Any`, datetime, date, time, UUID, Decimal and bytes (strings),
        Enum, Literal, unions, lists, tuples, sets, dicts with string keys, dataclasses and models, and
        `Annotated` with bounds of such; those without a default are required. `field(metadata={"description":
        …})` and docstrings go into the schema. `name` is by default that of the class, the other options are
        as in `from_schema`; `build` makes instances.

        Raises `ContractError` with the class and field that cannot be described, and for a union of classes
        of which one is never built, as one before it takes the same.
        """
        from trustgraph_prompt.contract.types import describe

        described = describe(type)
        contract = cls.from_schema(
            described.schema,
            format=format,
            many=described.many or format == "jsonl",
            name=name or described.name,
            repair=repair,
            extra=extra,
            coerce=coerce,
            fences=fences,
            invariants=invariants,
            limits=limits,
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
        repair: bool = False,
        extra: Extra | None = None,
        coerce: bool = False,
        fences: Fences = "any",
        invariants: Iterable[object] = (),
        limits: Limits = Limits(),
    ) -> dict[str, Contract]:
        """The contracts of a text in the schema language (seed 5): one by the name of each `schema`.

        `types` are names that the text may use beside the language's own types, for
        JSON Schemas or Python types as in `of`; values stay JSON. Other options are as in `from_schema`.

        Raises `LanguageError`, which points at line and column.
        """
        from trustgraph_prompt.contract.from_language import placed, schemas_of

        file, schemas = schemas_of(source, types or {})
        contracts = {}
        for name, schema in schemas.items():
            with placed(file, name):
                contracts[name] = cls.from_schema(
                    schema,
                    format=format,
                    many=many,
                    name=name,
                    repair=repair,
                    extra=extra,
                    coerce=coerce,
                    fences=fences,
                    invariants=invariants,
                    limits=limits,
                )
        return contracts

    def build(self, value: Any) -> Any:
        """What an accepted value is as the contract's type; the value itself where there is none.

        The value is one object of a jsonl answer or the list of them, or the value of a json answer; of a
        list it is a list of instances. Raises `StructuredOutputInvalid` with its `issues` where the class
        itself refuses what its schema accepts.
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
        """The same contract, which accepts nothing that `build` refuses: the class itself has its say.

        The fingerprint is the same, for it knows nothing of the code of a class.
        """
        if (build := self._build) is None or not isinstance(self._judge, Judge):
            return self
        return replace(self, _judge=replace(self._judge, also=lambda value: _built(build, value)[1]))

    def metered(self) -> Contract:
        """The same contract for one answer: all that it judges is counted together, up to its limit of steps.

        Once they are spent it accepts nothing more, and `issues` says so.
        """
        return replace(self, _meter=self._new_meter())

    @property
    def demand(self) -> int:
        """How many steps it takes to judge a character of an answer, about."""
        return self._judge.demand

    @property
    def spent(self) -> Issue | None:
        """That the steps of a metered contract are spent; None where they are not."""
        meter = self._meter
        return Issue(Reason.EFFORT_SPENT, meter.message) if meter is not None and meter.is_spent else None

    def conform(self, value: Any) -> Any:
        """What the contract makes of a value before it is judged: extra keys dropped, scalars converted.

        The very same value where there is nothing to change. Changes no value, and never raises: what cannot
        be converted, or takes too much, is left as it is.
        """
        if self._judge.is_plain:
            return value
        meter = self._meter or self._new_meter()
        if not self._is_list:
            return self._judge.conform(value, meter)
        if not isinstance(value, list):
            return value
        made = [self._judge.conform(item, meter) for item in value]
        return value if all(map(is_, made, value)) else made

    def opened(self, value: Any, decode: Decode) -> Any:
        """The value with the lists and objects that strings in it say, as `decode` reads them, where the
        schema wants a list or an object and takes no string.

        The very same value where there is none, or where the contract allows neither coercion nor repair.
        """
        if not (self.coerce or self.repair):
            return value
        meter = self._meter or self._new_meter()
        if not self._is_list:
            return self._judge.opened(value, meter, decode)
        items = decoded(value, decode) if isinstance(value, str) else value
        if not isinstance(items, list):
            return value
        made = [self._judge.opened(item, meter, decode) for item in items]
        return value if items is value and all(map(is_, made, value)) else made

    def take(self, value: Any, characters: int | None = None) -> tuple[Any, bool]:
        """What the contract makes of a value, and whether it accepts it: `conform` and `accepts` in one.

        `characters` are those that it was written in, where that is known: counting its steps is quicker.
        """
        meter = self._meter or self._new_meter()
        if not self._is_list:
            return self._judge.take(value, meter) if self._is_paid(value, characters) else (value, False)
        if not isinstance(value, list):
            return value, False
        if self._judge.is_plain and self._meter is None:
            return value, self._judge.accepts_plainly(value)
        if not all(map(self._is_paid, value)):
            return value, False
        taken = [self._judge.take(item, meter) for item in value]
        made = [item for item, _ in taken]
        return value if all(map(is_, made, value)) else made, all(accepted for _, accepted in taken)

    def take_all(
        self, values: list[Any], characters: int | None = None, longest: int = 0
    ) -> list[Any] | None:
        """What the contract makes of each of `values`, None unless it accepts all; the fast way for many.

        `characters` are those that all of them were written in, `longest` those of the longest. None, too,
        where that is so much that they have to be counted one by one.
        """
        judge = self._judge
        if characters is None:
            if judge.is_plain and self._meter is None:
                return values if self.accepts_all(values) else None
            taken = [self.take(value) for value in values]
            return [value for value, _ in taken] if all(accepted for _, accepted in taken) else None
        each = judge.widest * longest
        trial = JudgingMeter(self.name, self.limits.steps if self._meter is None else self._meter.left)
        if each > MAX_CALL or judge.widest * characters > trial.left:
            return None
        trial.spend(judge.widest * characters)
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
        if self._meter is not None:
            self._meter.left = trial.left
        return made

    def accepts(self, value: object) -> bool:
        """Whether `value` is one object of a jsonl answer, or the value of a json answer, as asked for.

        It is judged as `conform` makes it.
        """
        return self.take(value)[1]

    def accepts_all(self, values: Iterable[object]) -> bool:
        """Whether each of `values` is accepted; the fast way to ask about many, the fastest for a list."""
        if self._judge.is_plain and not self._is_list and self._meter is None and isinstance(values, list):
            return self._judge.accepts_plainly(values)
        return all(map(self.accepts, values))

    def issues(self, value: object, characters: int | None = None) -> tuple[Issue, ...]:
        """What is wrong with `value`, a few issues at most: empty exactly where `accepts` says yes.

        Slow; for what was refused.
        """
        if self.take(value, characters)[1]:
            return ()
        meter = self._meter or self._new_meter()
        if self._is_list and not isinstance(value, list):
            return (Issue(Reason.WRONG_CONTAINER, f"expected an array of values, found {show(value)}"),)
        items = value if self._is_list and isinstance(value, list) else None
        try:
            for one in [value] if items is None else items:
                meter.spend(self._judge.effort(one, characters))
            found = (
                self._judge.issues(value, meter)
                if items is None
                else tuple(islice(self._issues_of_items(items, meter), MAX_ISSUES))
            )
        except TooMuchError as error:
            found = (Issue(Reason.SCHEMA_VALUE_ERROR, str(error)),)
        return (Issue(Reason.EFFORT_SPENT, meter.message),) if meter.is_spent else found

    def instructions(self, wording: Wording = PLAIN) -> str:
        """What tells a model how to write its answer; nothing where that is text.

        It shows the schema with the author's descriptions and in the author's order, without what makes no
        difference. Where that is the newest version's, the value is to name that version.
        """
        if self.format == "text":
            return ""
        said = {} if self.schema is None else shown(self.schema, extra=self.extra, coerce=self.coerce)
        if self.versions:
            newest, schema = list(self.versions.items())[-1]
            said = _naming_version(said, newest) if self.schema is schema else said
        return wording.of(format=self.format, many=self.many, schema=said, closed=self.extra == "forbid")

    def declares(self, name: str) -> bool:
        """Whether a schema, or a branch of it, speaks of a property called `name`."""
        schemas = (self.schema, *(self.versions or {}).values())
        return any(isinstance(one, dict) and declares(one, References(one), name) for one in schemas)

    @property
    def without_terms(self) -> Contract:
        """The contract that this one was made of for one question; itself, if for none."""
        return self

    def grounding(self, values: Iterable[Any]) -> Grounded | None:
        """Where these objects stand in the terms of the question; None where nothing is judged by that."""
        return None

    def names(self) -> frozenset[str]:
        """The names of all properties that the schemas declare anywhere."""
        return self._judge.names

    @property
    def _is_list(self) -> bool:
        return self.many and self.format == "json"

    def _new_meter(self) -> JudgingMeter:
        return JudgingMeter(self.name, self.limits.steps)

    def _is_paid(self, value: Any, characters: int | None = None) -> bool:
        """Whether there are steps left for the schema of one value; nobody counts them without a meter."""
        meter = self._meter
        if meter is None:
            return True
        if characters is not None:  # as of nearly all values
            steps = self._judge.widest * characters
            if steps <= MAX_CALL and steps <= meter.left:
                meter.left -= steps
                return True
        try:
            meter.spend(self._judge.effort(value, characters))
        except TooMuchError:
            return False
        return True

    def _issues_of_items(self, items: list[Any], meter: JudgingMeter) -> Iterator[Issue]:
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
                version: (of(one), of(one, _extra_of_newer(self.extra)), _names_version(one))
                for version, one in (self.versions or {}).items()
            },
            "limits": asdict(self.limits),
            **({} if self.sources is None else {"sources": self.sources.said}),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


class _Settings(NamedTuple):
    """How values are judged, whatever the schema."""

    extra: Extra | None
    coerce: bool
    rules: tuple[InvariantRule, ...]
    depth: int

    def judge(self, schema: Schema | None) -> Judge:
        return Judge.of(schema, self.extra, self.coerce, self.rules, self.depth)

    def judge_versions(self, schemas: Mapping[Version, Schema], unversioned: Schema | None) -> Versions:
        oldest = next(iter(schemas.values()))
        return Versions(
            {version: self.versioned(schema, version) for version, schema in schemas.items()},
            self.judge(oldest if unversioned is None else unversioned),
        )

    def versioned(self, schema: Schema, version: Version) -> Versioned:
        try:
            judge = self.judge(schema)
        except ContractError as error:
            raise error.at("", pointer(("versions", str(version)))) from None
        newer = judge if self.extra else self._replace(extra=_extra_of_newer(self.extra)).judge(schema)
        return Versioned(judge, newer, _names_version(schema))


def _built(build: Build, value: Any) -> tuple[Any, tuple[Issue, ...], BaseException | None]:
    """The instance of a value; or what is wrong with it, and the error that says so, if there is one."""
    from trustgraph_prompt.contract.types import Refused

    try:
        return build(value), (), None
    except Refused as refused:
        return None, refused.issues[:MAX_ISSUES], refused.__cause__
    except RecursionError:
        return None, (Issue(Reason.SCHEMA_VALUE_ERROR, "nested too deep for instances"),), None


def _extra_of_newer(extra: Extra | None) -> Extra:
    """What becomes of the extra keys of a newer minor version."""
    return extra or "ignore"


def _names_version(schema: JsonSchema) -> bool:
    """Whether a schema speaks of the property that names the version, other than in an example of a value."""
    return f'"{PROPERTY}"' in json.dumps(shown(schema, extra=None, coerce=False))


def _naming_version(schema: JsonSchema, version: str) -> JsonSchema:
    """The schema of values that say which version they are: one that does not is held to the oldest."""
    said = schema if isinstance(schema, Mapping) else {}
    properties = {PROPERTY: {"const": version}}
    properties |= {name: one for name, one in said.get("properties", {}).items() if name != PROPERTY}
    required = [PROPERTY, *(name for name in said.get("required", ()) if name != PROPERTY)]
    return {"type": "object", **said, "properties": properties, "required": required}


def _discriminator(schema: Schema | None) -> str | None:
    return discriminator_of(branches_of(schema, References(schema))) if isinstance(schema, dict) else None


def _take_sources(schema: Schema | None, versions: Mapping[Version, Schema]) -> Sources | None:
    oldest = next(iter(versions.values()), None)
    by_version = [(None, oldest if schema is None else schema), *versions.items()]
    return Sources.take({version: one for version, one in by_version if isinstance(one, dict)})


def _check(what: str, path: str, found: object, known: tuple[object, ...]) -> None:
    if found not in known:
        expected = ", ".join("nothing" if one is None else str(one) for one in known[:-1])
        raise ContractError(f"unknown {what}", path=path, found=found, expected=f"{expected} or {known[-1]}")


def _many(format: Format, many: bool | None) -> bool:
    always: dict[str, bool] = {"jsonl": True, "text": False}
    if format not in always:
        return bool(many)
    if many is not None and many is not always[format]:
        expected = "many objects" if always[format] else "one text"
        raise ContractError(f"a {format} answer is {expected}", path="/many", found=many, expected=expected)
    return always[format]
