"""Validates an answer: its tool calls and its content (OpenArmature, sections 3, 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trustgraph_prompt.compute_thread import beside
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
from trustgraph_prompt.json_text.thinking import Notation
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.records import ToolCall
from trustgraph_prompt.reader import Outcome, Stage, read
from trustgraph_prompt.reader.stream_reader import reading_effort

#: The contract of the arguments of each tool, by its name.
Contracts = Mapping[str, Contract]


@dataclass(frozen=True, slots=True)
class Expected:
    """The contract of the content, which must be the complete value and nothing else.

    With `extract`, the value is looked for in the content, and may be repaired as the contract allows.
    `thinking` is as in `Completer`.
    """

    contract: Contract
    extract: bool
    thinking: Notation | None


async def check_tool_calls(answer: DeltaAccumulator, tools: Contracts) -> None:
    """Raise `ProviderInvalidResponse` for a call that no tool accepts, or that no tool message can answer.

    After the finish reason "error" tool calls are not checked.
    """
    if answer.finish_reason == "error":
        return
    ids: set[str] = set()
    for call in answer.tool_calls:
        effort = reading_effort(len(call.arguments_text or ""), tools[call.name]) if call.name in tools else 0
        if problem := await beside(_problem, call, ids, tools, steps=effort):
            if answer.finish_reason == "length":
                problem += " (the answer was truncated at its token limit)"
            raise ProviderInvalidResponse(problem)
        ids.add(call.id)


async def read_content(answer: DeltaAccumulator, expected: Expected) -> Outcome:
    """Read the content; the value is an instance where the contract is of a type."""
    effort = reading_effort(len(answer.text), expected.contract)
    return await beside(_read_content, answer, expected, steps=effort)


def _read_content(answer: DeltaAccumulator, expected: Expected) -> Outcome:
    outcome = answer.explained(
        read(answer.text, expected.contract, finish_reason=answer.finish_reason, thinking=expected.thinking)
    )
    native = outcome.stage is Stage.DIRECT and answer.schema_path in ("strict", "native")
    match answer.finish_reason:
        case "content_filter":
            return answer.explained(replace(outcome, value=None, reason=Reason.REFUSED))
        case "length" if not expected.extract:
            return _refused(outcome, Reason.TRUNCATED, "the answer was truncated at its token limit")
        case "error" if not outcome.ok:
            return replace(outcome, cause=ProviderUnavailable("the provider aborted the answer"))
    if outcome.stage is Stage.EXTRACTED and not expected.extract:
        return _refused(outcome, Reason.INVALID_JSON, "not JSON alone: there is other text around the value")
    if not outcome.ok:
        return outcome
    try:
        value = expected.contract.build(outcome.value)
    except StructuredOutputInvalid as error:
        cause = without_frames(error)
        return replace(outcome, value=None, reason=error.issues[0].reason, issues=error.issues, cause=cause)
    return replace(outcome, value=value, stage=Stage.NATIVE if native else outcome.stage)


def _problem(call: ToolCall, ids: set[str], tools: Contracts) -> str | None:
    name = repr(excerpt(call.name, 80))
    if call.name not in tools:
        return f"the model called an unknown tool {name}; the tools are: {', '.join(tools) or 'none'}"
    if not call.id:
        return f"a call of tool {name} has no id"
    if call.id in ids:
        return f"two tool calls have the same id {excerpt(call.id, 80)!r}"
    if call.arguments is None:
        return f"the arguments of {name} are not a JSON object"
    if issues := tools[call.name].issues(call.arguments):
        return f"the arguments of {name} are invalid: {excerpt('; '.join(map(str, issues)))}"
    return None


def _refused(outcome: Outcome, reason: Reason, message: str) -> Outcome:
    return replace(outcome, value=None, reason=reason, issues=(Issue(reason, message), *outcome.issues))
