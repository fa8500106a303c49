"""`Outcome`: the result of asking a model or of reading an answer."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from trustgraph_prompt.contract import Contract, Grounded
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Issue, Reason, StructuredOutputInvalid, excerpt
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.grammar import before_half_escape

if TYPE_CHECKING:  # plain `Outcome` is `Outcome[Any]`
    from typing_extensions import TypeVar as TypeVarWithDefault

    T = TypeVarWithDefault("T", default=Any)
else:
    T = TypeVar("T")

MAX_ISSUE = 300  # characters of one issue in an explanation; its path holds keys that a model wrote
MAX_SEARCHED = 100_000  # characters of an answer in which an explanation looks for duplicate keys

_CONTINUES = ("continue", "transient")  # a transient failure leaves the text of the call before as it is

_BREAKS_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Stage(IntEnum):
    """How much it took to read the value, in increasing order."""

    NATIVE = 0  # the provider enforced the schema, and the whole text is the value
    DIRECT = 1  # the whole text is the value
    EXTRACTED = 2  # there was text around the value, or its layout was not the requested one
    REPAIRED = 3  # invalid JSON was repaired
    SALVAGED = 4  # a truncated value was completed


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected object, or the rejected value of a json answer.

    `index` counts the objects of the answer from 0, without retracted ones. `raw` is the text of the object,
    `start` its position in the text of its call, in characters.
    """

    index: int
    raw: str
    issues: tuple[Issue, ...]
    start: int


class Edit(NamedTuple):
    """What was changed at a place of the text to read it as JSON."""

    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """An object whose JSON was repaired by `edits`.

    `index` counts the objects of the answer from 0. `raw` is the text of the object, `start` its position in
    the text of its call, in characters; the positions of `edits` are in that text, too. A `SALVAGED` object
    was truncated where `raw` ends.
    """

    index: int
    raw: str
    start: int
    edits: tuple[Edit, ...]
    stage: Stage


@dataclass(frozen=True, slots=True)
class Remark:
    """How an object was read in the terms of an ontology, where it was not as written, or is doubtful.

    `index` is its place in the `objects` of the outcome, `path` a JSON Pointer into it. `about`: its relation
    was written in other words, its ends are swapped, its class is unknown, or its value is not of the
    datatype.
    """

    index: int
    about: Literal["relation", "ends", "class", "value"]
    path: str
    message: str

    def as_json(self) -> dict[str, Any]:
        """Its fields, for records."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class ReadReport:
    """The result of reading the text of one call, and the time that it took."""

    stage: Stage
    reason: Reason
    seconds: float


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call to a model.

    `why` it was made: first, invalid (asked again, with the issues), repair (asked to correct the form of the
    answer), continue (asked for the rest of a truncated answer), room (asked again with a higher token
    limit), pass (asked for objects that are still missing) or transient (retried after a transient error).
    `text` is the answer byte for byte. `schema_path` says how the schema was enforced. `cost` is None without
    a price. `read` covers the text together with the text that the call continued; None if it was not read.
    """

    why: str
    text: str
    finish_reason: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    error: str | None = None
    schema_path: str | None = None
    cost: float | None = None
    read: ReadReport | None = None


@dataclass(frozen=True, repr=False)
class Outcome(Generic[T]):
    """The result of asking a model or of reading an answer; always returned, never raised.

    - `value`: usable if `reason` is `SUCCESS`. A str for text, a JSON value for json; for jsonl the list of
      accepted objects, which is a list whatever the reason.
    - `truncated`: whether the answer was cut off; None if neither the text nor the provider tells.
    - `issues`: those of the whole answer and of the value of a json answer (also in `rejected`).
      The issues of single objects are in `rejected` only.
    - `repaired`: the objects whose JSON was repaired.
    - `retracted`: objects that a stream returned and that turned out not to be part of the answer.
    - `cached`: the answer is from the cache, without calls; `model` is the model that gave it.
    - `span`: start and end of the value of a json answer in the text that was read, in characters.
    - `grounding`: for each of `objects`, where its values occur in the terms of the question; None if the
      contract has no `sources`.
    - `passes`: what each pass after the first brought, with its own calls, reason and issues. Its objects,
      rejected objects and calls are in this outcome too.
    - `examples`: the ids of the examples that were chosen from the pool of the prompt and shown, in order.
    - `remarks`: how objects were read in the terms of an ontology, where they were not as written.
    - `escalated`: why the answer needs attention: a condition of the prompt holds for it, or all attempts
      failed.
    """

    value: Any
    reason: Reason
    contract: Contract
    stage: Stage = Stage.DIRECT
    rejected: tuple[Rejected, ...] = ()
    issues: tuple[Issue, ...] = ()
    truncated: bool | None = None
    retracted: tuple[Any, ...] = ()
    repaired: tuple[Repaired, ...] = ()
    calls: tuple[CallReport, ...] = ()
    cause: Exception | None = None
    cached: bool = False
    model: str | None = None
    span: tuple[int, int] | None = None
    escalated: Literal["condition", "attempts"] | None = None
    grounding: Grounded | None = None
    passes: tuple[Outcome[T], ...] = ()
    examples: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether `value` may be used."""
        return self.reason is Reason.SUCCESS

    @property
    def objects(self) -> Sequence[Any]:
        """The usable objects: the list if the contract has `many`, else the one value or nothing."""
        if self.contract.many and isinstance(self.value, list):
            return self.value
        return [self.value] if self.ok else ()

    @cached_property
    def instances(self) -> list[T]:
        """The `objects` as instances of the contract's type, or as plain values if it has none.

        They are made on first access. Raises `StructuredOutputInvalid` as `Contract.build`.
        """
        build, objects = self.contract.build, self.objects
        built: list[T] = build(list(objects)) if self.contract.many else [build(one) for one in objects]
        return built

    def without_terms(self) -> Outcome[T]:
        """Return the same outcome with its `grounding`, but without the terms that were searched."""
        if (contract := self.contract.without_terms) is self.contract:
            return self
        return replace(self, contract=contract, grounding=self.contract.grounding(self.objects))

    @property
    def usage(self) -> Usage:
        """The usage of all calls together."""
        return Usage.sum(call.usage for call in self.calls)

    @property
    def cost(self) -> float | None:
        """The cost of all calls together; None without a price."""
        costs = [call.cost for call in self.calls if call.cost is not None]
        return sum(costs) if costs else None

    @property
    def text(self) -> str:
        """The last answer byte for byte; the texts of all its calls if a json or text answer was continued.

        A JSON escape that the end of a call cut in two is left out, as the next call wrote it again. A call
        that failed without any text is no answer.
        """
        answer = text = ""
        for call in self.calls:
            if call.why not in _CONTINUES or self.contract.format == "jsonl":
                text = ""
            if call.text and self.contract.format == "json":
                text = before_half_escape(text)
            text += call.text
            if call.text or call.error is None:
                answer = text
        return answer

    def errors(self) -> list[tuple[Rejected | None, Issue]]:
        """All issues, each once, with the object that was rejected for it, if any."""
        of_objects = [(rejected, issue) for rejected in self.rejected for issue in rejected.issues]
        rejected_for = {issue: rejected for rejected, issue in of_objects}
        issues = set(self.issues)
        of_answer = [(rejected_for.get(issue), issue) for issue in self.issues]
        return [*of_answer, *((rejected, issue) for rejected, issue in of_objects if issue not in issues)]

    def unwrap(self) -> Any:
        """Return the value.

        Raises `StructuredOutputInvalid` with this outcome if there is none, or the provider's error if that
        is the reason.
        """
        if self.ok:
            return self.value
        if self.reason is Reason.PROVIDER_ERROR and self.cause is not None:
            raise self.cause
        last = self.calls[-1] if self.calls else CallReport("first", "")
        raise StructuredOutputInvalid(
            self.explain(),
            response_schema=self.contract.schema,
            output_content=self.text,
            finish_reason=last.finish_reason,
            usage=self.usage,
            issues=tuple(issue for _, issue in self.errors()),
            outcome=self,
        ) from self.cause

    def explain(self, limit: int = 5, *, for_model: bool = False) -> str:
        """Describe the problems in one line: at most `limit` issues, `for_model` with the advice to it.

        Objects are counted from 1; for invalid JSON it gives the line and column in the answer. It also names
        duplicate keys in the last answer, and says if the server did not enforce the schema.
        """
        errors, duplicates = self.errors(), self._duplicates()
        parts = [self._describe(*each, for_model=for_model) for each in errors[:limit]]
        parts += duplicates[: limit - len(parts)]
        more = len(errors) + len(duplicates) - len(parts)
        parts = parts or [self.reason.replace("_", " ")]
        parts += [f"and {more} more"] if more else []
        if not self.ok and any(call.schema_path == "prompt" for call in self.calls):
            parts.append("the server did not hold the answer to the schema")
        return "; ".join(parts)

    def _describe(self, rejected: Rejected | None, issue: Issue, *, for_model: bool = False) -> str:
        text = issue.for_model if for_model else str(issue)
        if rejected is None:
            return _one_line(text)
        text = f"object {rejected.index + 1} {text}" if self.contract.format == "jsonl" else text
        if issue.reason is Reason.INVALID_JSON and (position := self._first_invalid(rejected)):
            text += f" at line {position.line} column {position.column}"
        return _one_line(text)

    def _first_invalid(self, rejected: Rejected) -> positions.LineColumn | None:
        """Where the rejected JSON becomes invalid, in the text of its call."""
        raw, start = rejected.raw, rejected.start
        texts = (self.text, *(call.text for call in reversed(self.calls)))
        text = next((text for text in texts if text.startswith(raw, start)), None)
        head = raw[:MAX_SEARCHED]
        breaks = positions.breaks(head, self.contract.limits.depth) or 0
        if text is None or breaks == len(head) < len(raw):
            return None
        return positions.Lines(text).at(start + breaks)

    def _duplicates(self) -> list[str]:
        if not self.calls or self.contract.format == "text":
            return []
        text = self.text[:MAX_SEARCHED]
        lines = positions.Lines(text)
        return [
            _one_line(f'line {lines.at(again.start).line}: "{again.key}" is there twice, the last one counts')
            for again in positions.duplicates(text)
        ]

    def __repr__(self) -> str:
        errors, tokens = self.errors(), self.usage.tokens
        facts = [str(self.reason), self.stage.name.lower()]
        if self.contract.many:
            facts.append(f"{len(self.objects):,} object{'s' * (len(self.objects) != 1)}")
        if self.contract.format == "jsonl":
            facts += [f"{len(self.repaired):,} repaired"] if self.repaired else []
            facts += [f"{len(self.rejected):,} refused"] if self.rejected else []
            facts += [f"{len(self.retracted):,} taken back"] if self.retracted else []
        facts += ["from the cache"] if self.cached else []
        facts += ["truncated"] if self.truncated else []
        facts += ["escalated"] if self.escalated else []
        facts += [f"{tokens:,} tokens"] if tokens else []
        lines = [", ".join(facts), *(self._describe(*error) for error in errors[:3])]
        lines += [f"and {len(errors) - 3:,} more issues"] if len(errors) > 3 else []
        lines += [_SHORT.repr(self.value)] if self.objects else []
        return f"<Outcome {_NEXT_LINE.join(excerpt(line, 110) for line in lines)}>"


def _one_line(text: str) -> str:
    """Shorten a text with parts by a model to `MAX_ISSUE` characters, and escape what would end the line."""
    return _BREAKS_A_LINE.sub(lambda found: json.dumps(found[0])[1:-1], excerpt(text, MAX_ISSUE))


class _Short(reprlib.Repr):
    """`repr` of a value of any size in about one line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxdict = 3
        self.maxstring = 40

    def repr_int(self, x: int, level: int) -> str:
        return "<a huge integer>" if x.bit_length() > 1000 else super().repr_int(x, level)


_SHORT = _Short()
_NEXT_LINE = "\n  "
