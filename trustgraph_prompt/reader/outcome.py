"""What came of asking or reading."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Issue, Reason, StructuredOutputInvalid


class Stage(IntEnum):
    """What it took to read the value; a later one took more."""

    NATIVE = 0  # the provider held the answer to the schema, and the whole text is the value
    DIRECT = 1  # the whole text is the value
    EXTRACTED = 2  # text around the value, or another layout than the one asked for
    REPAIRED = 3  # the JSON itself was mended
    SALVAGED = 4  # a cut value was closed up


@dataclass(frozen=True, slots=True)
class Rejected:
    """One object that was refused: the `index`-th of the answer, its raw text, and what is wrong with it."""

    index: int
    raw: str
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call to a model: why it was made, what came back byte for byte, how it ended, what it cost."""

    why: str  # first · invalid (asked again) · continue (the rest of a cut answer) · transient (sent again)
    text: str
    finish_reason: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of asking or reading; always returned, never raised.

    `value` may be used whenever `reason` is `SUCCESS`: a str for text, a JSON value for json, the list of
    accepted objects for jsonl (which is a list, perhaps empty, whatever the reason). `truncated` is None
    where neither text nor wire tells. `issues` are about the answer as a whole, those of single objects
    stand with their `rejected`. `retracted` are objects a stream had given and the whole text took back.
    """

    value: Any
    reason: Reason
    contract: Contract
    stage: Stage = Stage.DIRECT
    rejected: tuple[Rejected, ...] = ()
    issues: tuple[Issue, ...] = ()
    truncated: bool | None = None
    retracted: tuple[Any, ...] = ()
    calls: tuple[CallReport, ...] = ()
    cause: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether `value` may be used."""
        return self.reason is Reason.SUCCESS

    @property
    def usage(self) -> Usage:
        """Tokens of all calls together."""
        return Usage.sum(call.usage for call in self.calls)

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
            output_content=last.text,
            finish_reason=last.finish_reason,
            usage=self.usage,
            issues=self.issues,
            outcome=self,
        ) from self.cause

    def explain(self, limit: int = 5) -> str:
        """What is wrong, short and exact, for a model or a log; at most `limit` issues."""
        issues = [str(issue) for issue in self.issues]
        issues += [f"object {r.index} {issue}" for r in self.rejected for issue in r.issues]
        more = f"; and {len(issues) - limit} more" if len(issues) > limit else ""
        return "; ".join(issues[:limit]) + more or self.reason.replace("_", " ")
