"""The verdict on an answer: on the tools that it calls, and on its content (seed 2, sections 3, 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from trustgraph_prompt.background import beside
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import (
    Issue,
    ProviderInvalidResponse,
    ProviderUnavailable,
    Reason,
    StructuredOutputInvalid,
    excerpt,
    without_frames,
)
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.records import ToolCall
from trustgraph_prompt.reader import Outcome, Stage, read
from trustgraph_prompt.reader.reading import steps

#: What the arguments of each tool must be.
Contracts = Mapping[str, Contract]


@dataclass(frozen=True, slots=True)
class Expected:
    """Of what contract the content is a value.

    It must be the value and nothing else, and whole, unless `extract` leaves both to the contract.
    """

    contract: Contract
    extract: bool


async def check_tool_calls(answer: DeltaAccumulator, tools: Contracts) -> None:
    """Raises `ProviderInvalidResponse` for a call that no tool takes, or that no tool's message can answer.

    Of a provider that broke off everything is taken as it is.
    """
    if answer.finish_reason == "error":
        return
    ids: set[str] = set()
    for call in answer.tool_calls:
        if problem := await beside(partial(_problem, call, ids, tools), _steps(call, tools)):
            cut = ", for the answer was cut at its limit" if answer.finish_reason == "length" else ""
            raise ProviderInvalidResponse(problem + cut)
        ids.add(call.id)


async def read_content(answer: DeltaAccumulator, expected: Expected) -> Outcome:
    """What the content says; an instance where the contract is of a type."""
    effort = steps(len(answer.text), expected.contract)
    return await beside(partial(_read_content, answer, expected), effort)


def _read_content(answer: DeltaAccumulator, expected: Expected) -> Outcome:
    outcome = read(answer.text, expected.contract, finish_reason=answer.finish_reason)
    native = outcome.stage is Stage.DIRECT and answer.schema_path in ("strict", "native")
    match answer.finish_reason:
        case "content_filter":
            return _refused(outcome, Reason.REFUSED, "the model, or a filter, would not answer")
        case "length" if not expected.extract:
            return _refused(outcome, Reason.TRUNCATED, "the answer was cut at the limit of its tokens")
        case "error" if not outcome.ok:
            return replace(outcome, cause=ProviderUnavailable("the provider broke off the answer"))
    if outcome.stage is Stage.EXTRACTED and not expected.extract:
        return _refused(outcome, Reason.INVALID_JSON, "no JSON: there is other text around the value")
    if not outcome.ok:
        return outcome
    try:
        value = expected.contract.build(outcome.value)
    except StructuredOutputInvalid as error:
        cause = without_frames(error)
        return replace(outcome, value=None, reason=error.issues[0].reason, issues=error.issues, cause=cause)
    return replace(outcome, value=value, stage=Stage.NATIVE if native else outcome.stage)


def _steps(call: ToolCall, tools: Contracts) -> int:
    """How many it takes, about, to check a call."""
    return steps(len(call.arguments_text or ""), tools[call.name]) if call.name in tools else 0


def _problem(call: ToolCall, ids: set[str], tools: Contracts) -> str | None:
    name = repr(excerpt(call.name, 80))
    if call.name not in tools:
        return f"the model calls {name}, and the tools are: {', '.join(tools) or 'none'}"
    if not call.id:
        return f"a call of {name} has no id"
    if call.id in ids:
        return f"two calls have the id {excerpt(call.id, 80)!r}"
    if call.arguments is None:
        return f"the arguments of {name} are no JSON object"
    if issues := tools[call.name].issues(call.arguments):
        said = "; ".join(map(str, issues))
        return f"the arguments of {name} are not what it takes: {excerpt(said)}"
    return None


def _refused(outcome: Outcome, reason: Reason, message: str) -> Outcome:
    return replace(outcome, value=None, reason=reason, issues=(Issue(reason, message), *outcome.issues))
