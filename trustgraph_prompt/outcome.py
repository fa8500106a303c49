"""What came of asking or reading."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from trustgraph_prompt.contract import Contract, Grounded
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Issue, Reason, StructuredOutputInvalid, excerpt
from trustgraph_prompt.json_text import locate
from trustgraph_prompt.json_text.grammar import before_half_escape

if TYPE_CHECKING:  # an outcome of which nobody says what it holds, holds anything
    from typing_extensions import TypeVar as TypeVarWithDefault

    from trustgraph_prompt.reader.repair import Edit

    T = TypeVarWithDefault("T", default=Any)
else:
    T = TypeVar("T")

MAX_ISSUE = 300  # characters of one issue in an explanation: a path holds the keys that a model wrote
MAX_SEARCHED = 100_000  # characters of an answer in which an explanation looks for duplicate keys

_GOES_ON = ("continue", "transient")  # a call that failed for the moment gave no text

_NOT_HELD = "the server did not hold the answer to the schema"

_BREAKS_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Stage(IntEnum):
    """What it took to read the value; a later one took more."""

    NATIVE = 0  # the provider held the answer to the schema, and the whole text is the value
    DIRECT = 1  # the whole text is the value
    EXTRACTED = 2  # text around the value, or another layout than the one asked for
    REPAIRED = 3  # the JSON itself was mended
    SALVAGED = 4  # a cut value was closed up


@dataclass(frozen=True, slots=True)
class Rejected:
    """One object that was refused: the `index`-th of the answer (from 0), its raw text, and what is wrong.

    Of a json answer it is the one value that was refused. `start` is where `raw` begins in the text of its
    call, in characters. Objects that were taken back are not counted.
    """

    index: int
    raw: str
    issues: tuple[Issue, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Repaired:
    """One object whose JSON was mended: the `index`-th of the answer (from 0), its raw text, and how.

    `start` is where `raw` begins in the text of its call, in characters; edits count from the beginning of
    that text, too. One that is `SALVAGED` was cut where `raw` ends.
    """

    index: int
    raw: str
    start: int
    edits: tuple[Edit, ...]
    stage: Stage


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What reading the text of one call came to, what that took, and for how long."""

    stage: Stage
    reason: Reason
    seconds: float


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call to a model: why it was made, what came back byte for byte, how it ended, what it cost.

    `schema_path` is how the answer was held to a schema, `cost` the money it took: None without a price.
    `read` is about the text together with what the call went on from; None where nothing was read of it.
    """

    #: first · invalid (again, with what was wrong) · repair (the answer alone, of a wrong form) · continue
    #: (the rest of a cut answer) · room (again, with more room for the answer) · transient (sent again)
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
    """What came of asking or reading; always returned, never raised.

    `value` may be used whenever `reason` is `SUCCESS`: a str for text, a JSON value for json, the list of
    accepted objects for jsonl (which is a list, perhaps empty, whatever the reason). `truncated` is None
    where neither text nor wire tells. `issues` are about the answer as a whole: of a json answer those of
    its value, which stands in `rejected` with its place; those of single objects stand there alone.
    `repaired` are the objects whose JSON was mended. `retracted` are objects a stream had given and the
    whole text took back. What is `cached` was asked before: it made no calls, and `model` says who answered.
    `span` is where the value of a json answer stands in the text that was read: its first character, its end.
    `grounding` says of each of the `objects` where it stands in the terms of the question; None where nothing
    is looked for there.
    `escalated` is why somebody else is to deal with the answer: a condition of the prompt holds for it, or
    its attempts were spent and none brought anything to use.
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

    @property
    def ok(self) -> bool:
        """Whether `value` may be used."""
        return self.reason is Reason.SUCCESS

    @property
    def objects(self) -> Sequence[Any]:
        """What may be used, one by one: the list where many were asked for, else the one value or nothing."""
        if self.contract.many and isinstance(self.value, list):
            return self.value
        return [self.value] if self.ok else ()

    @cached_property
    def instances(self) -> list[T]:
        """The `objects` as instances of the contract's type, plain values where it has none, in their order.

        Made when they are first asked for. Raises `StructuredOutputInvalid` as `Contract.build`.
        """
        build, objects = self.contract.build, self.objects
        built: list[T] = build(list(objects)) if self.contract.many else [build(one) for one in objects]
        return built

    def without_terms(self) -> Outcome[T]:
        """The same, knowing where its objects stand, and holding none of the texts in which they do."""
        if (contract := self.contract.without_terms) is self.contract:
            return self
        return replace(self, contract=contract, grounding=self.contract.grounding(self.objects))

    @property
    def usage(self) -> Usage:
        """Tokens of all calls together."""
        return Usage.sum(call.usage for call in self.calls)

    @property
    def cost(self) -> float | None:
        """Money of all calls together; None without a price."""
        costs = [call.cost for call in self.calls if call.cost is not None]
        return sum(costs) if costs else None

    @property
    def text(self) -> str:
        """The last answer byte for byte; of one value that was continued, all of its calls together.

        Without the half escape that a call went on before. A call that failed before any text gave no answer.
        """
        answer = begun = ""
        for call in self.calls:
            if call.why not in _GOES_ON or self.contract.format == "jsonl":
                begun = ""
            if call.text and self.contract.format == "json":
                begun = before_half_escape(begun)
            begun += call.text
            if call.text or call.error is None:
                answer = begun
        return answer

    def errors(self) -> list[tuple[Rejected | None, Issue]]:
        """What is wrong, each issue once, with what was refused for it: None where nothing was."""
        of_objects = [(rejected, issue) for rejected in self.rejected for issue in rejected.issues]
        whose = {issue: rejected for rejected, issue in of_objects}
        whole = [(whose.get(issue), issue) for issue in self.issues]
        told = set(self.issues)
        return [*whole, *((rejected, issue) for rejected, issue in of_objects if issue not in told)]

    def unwrap(self) -> Any:
        """The value.

        Raises `StructuredOutputInvalid` (which carries this outcome) when there is none; the provider's own
        error where that is the reason.
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

    def explain(self, limit: int = 5) -> str:
        """What is wrong, short and exact, in one line for a model or a log; at most `limit` issues.

        Objects are counted from 1. What is no JSON is told with the line and column of the answer where it
        breaks. Keys that an object of the last answer holds twice are named, too, and that the server did not
        hold an answer to the schema that is no good.
        """
        errors, twice = self.errors(), self._duplicates()
        told = [self._told(rejected, issue) for rejected, issue in errors[:limit]]
        told += twice[: limit - len(told)]
        more = len(errors) + len(twice) - len(told)
        told = told or [self.reason.replace("_", " ")]
        told += [f"and {more} more"] if more else []
        told += (
            [_NOT_HELD] if not self.ok and any(call.schema_path == "prompt" for call in self.calls) else []
        )
        return "; ".join(told)

    def _told(self, rejected: Rejected | None, issue: Issue) -> str:
        if rejected is None:
            return _one_line(str(issue))
        told = f"object {rejected.index + 1} {issue}" if self.contract.format == "jsonl" else str(issue)
        if issue.reason is Reason.INVALID_JSON and (position := self._breaks(rejected)):
            told += f" at line {position.line} column {position.column}"
        return _one_line(told)

    def _breaks(self, rejected: Rejected) -> locate.LineColumn | None:
        """Where in the text of its call what was refused stops being JSON."""
        raw, start = rejected.raw, rejected.start
        texts = (self.text, *(call.text for call in reversed(self.calls)))
        text = next((text for text in texts if text.startswith(raw, start)), None)
        head = raw[:MAX_SEARCHED]
        breaks = locate.breaks(head, self.contract.limits.depth) or 0
        if text is None or breaks == len(head) < len(raw):
            return None
        return locate.Lines(text).at(start + breaks)

    def _duplicates(self) -> list[str]:
        if not self.calls or self.contract.format == "text":
            return []
        text = self.text[:MAX_SEARCHED]
        lines = locate.Lines(text)
        return [
            _one_line(f'line {lines.at(twice.start).line}: "{twice.key}" is there twice, the last one counts')
            for twice in locate.duplicates(text)
        ]

    def __repr__(self) -> str:
        errors, tokens = self.errors(), self.usage.tokens
        facts = [str(self.reason), self.stage.name.lower()]
        facts += (
            [f"{len(self.objects):,} object{'s' * (len(self.objects) != 1)}"] if self.contract.many else []
        )
        if self.contract.format == "jsonl":
            facts += [f"{len(self.repaired):,} repaired"] if self.repaired else []
            facts += [f"{len(self.rejected):,} refused"] if self.rejected else []
            facts += [f"{len(self.retracted):,} taken back"] if self.retracted else []
        facts += ["from the cache"] if self.cached else []
        facts += ["cut"] if self.truncated else []
        facts += ["escalated"] if self.escalated else []
        facts += [f"{tokens:,} tokens"] if tokens else []
        lines = [", ".join(facts), *(self._told(*error) for error in errors[:3])]
        lines += [f"and {len(errors) - 3:,} more issues"] if len(errors) > 3 else []
        lines += [_SHORT.repr(self.value)] if self.objects else []
        return f"<Outcome {_NEXT_LINE.join(excerpt(line, 110) for line in lines)}>"


def _one_line(text: str) -> str:
    """A text that a model wrote parts of, for a message: short, and nothing in it ends the line."""
    return _BREAKS_A_LINE.sub(lambda found: json.dumps(found[0])[1:-1], excerpt(text, MAX_ISSUE))


class _Short(reprlib.Repr):
    """`repr` of a value of any size, in about a line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxdict = 3
        self.maxstring = 40

    def repr_int(self, x: int, level: int) -> str:
        return "<a huge integer>" if x.bit_length() > 1000 else super().repr_int(x, level)


_SHORT = _Short()
_NEXT_LINE = "\n  "
