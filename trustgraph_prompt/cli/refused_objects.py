"""Shows the rejected objects of an answer record, each with the rule of its prompt that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import time
from typing import Any

from trustgraph_prompt import package_data
from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.broker_options import RuleOptions
from trustgraph_prompt.cli.broker_view import BrokerView
from trustgraph_prompt.cli.source_excerpt import issue_span, rule_lines, underlined, visible
from trustgraph_prompt.contract.rule_in_source import BrokenRule, broken_rule
from trustgraph_prompt.errors import ConfigError, Issue
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.prompts.prompt_set import PREFIX
from trustgraph_prompt.worker import Answer, Flow
from trustgraph_prompt.worker.config import versions
from trustgraph_prompt.worker.config.apply_plan import state
from trustgraph_prompt.worker.dead_letters.letters import ANSWERED, DeadLetter
from trustgraph_prompt.worker.messages.answer_record import find

RuleOf = Callable[[Issue], BrokenRule | None]
"""Gives the rule of a prompt that an issue is about, if it is about one."""


async def answer_of(view: BrokerView, flow: Flow, request: str) -> tuple[float, Answer] | None:
    """Find the record of the answer to a request, and when it was published. Raises `BrokerError`."""
    topic = flow.outputs.answers
    return await find(view.broker, topic, request) if topic and await view.has(topic) else None


def when_deleted(flow: Flow) -> str | None:
    """Say when a flow deletes its answer records; None if it keeps them for ever."""
    if flow.keep_answers is None:
        return None
    hours = flow.keep_answers / 3600
    time = f"{hours:g} h" if hours % 24 else f"{hours / 24:g} d"
    return f"flow {flow.name} deletes its answer records after {time} (`keep-answers`)"


async def rules_of(answer: Answer, view: BrokerView, workspace: str, given: RuleOptions) -> RuleOf | None:
    """Find the rules of the prompt that gave an answer: on the config topic, in its history or in files.

    None if its version is nowhere. Raises `BrokerError`, and `ConfigError` for invalid files.
    """
    here = files.read(given.templates or package_data.templates())
    own = here.entries if given.templates else None
    known = await versions.read(view.messages, workspace, own, topic=given.config_topic)
    key = PREFIX + answer.prompt
    try:
        entry = known.find(key, answer.version).entry
    except ConfigError:
        return None
    prompt = PromptSet.build({key: entry}, pools=False).prompts.get(answer.prompt)
    if prompt is None:
        return None
    source = here.places.get(key) if state(here.entries.get(key)) == state(entry) else None
    return lambda issue: broken_rule(issue.keyword, prompt.contract, source)


async def answered(
    letter: DeadLetter,
    flows: Iterable[Flow],
    view: BrokerView,
    at: RuleOptions,
) -> tuple[Answer, RuleOf | None] | None:
    """The record of the unusable answer that a letter died of, and the rules of the prompt that was asked."""
    flow = next((flow for flow in flows if flow.name == letter.flow), None)
    if flow is None or letter.request is None or letter.error not in ANSWERED:
        return None
    if (found := await answer_of(view, flow, letter.request)) is None:
        if has_no_record(letter, [flow]):
            output.note(f"its answer record is gone: {when_deleted(flow)}")
        return None
    _, answer = found
    return answer, await rules_of(answer, view, flow.workspace, at)


def has_no_record(letter: DeadLetter, flows: Iterable[Flow]) -> bool:
    """Whether the flow may have deleted the record of the unusable answer that a letter died of."""
    keep = next((flow.keep_answers for flow in flows if flow.name == letter.flow), None)
    is_old = keep is not None and letter.died is not None and letter.died < time() - keep
    return is_old and letter.error in ANSWERED


def lines(answer: Answer, rule_of: RuleOf | None) -> Iterator[str]:
    """Show each rejected object for people, with the position of each issue and the rule behind it.

    Raises `RequestError` for a record that is not valid.
    """
    for rejected in answer.rejected_objects():
        for issue in rejected.issues:
            yield visible(f"refused object {rejected.index + 1}: {output.without_advice(str(issue))}")
            shown, mark = underlined(rejected.raw, *issue_span(rejected, issue))
            yield f"  | {shown}"
            yield f"  | {mark}"
            if rule_of is not None and (rule := rule_of(issue)):
                yield from rule_lines(rule)
    if (more := answer.rejected_count - len(answer.rejected)) > 0:
        yield f"and {more:,} more, which the record does not keep"
    if answer.rejected and rule_of is None:
        yield f"the schema is not shown: neither the config topic nor the files have version {answer.version}"


def as_json(answer: Answer, rule_of: RuleOf | None) -> list[dict[str, Any]]:
    """Return the rejected objects for programs. Raises as `lines`."""
    return [
        {
            "index": rejected.index,
            "raw": rejected.raw,
            "issues": [
                {**output.issue_as_json(issue), "rule": rule and rule._asdict()}
                for issue in rejected.issues
                for rule in [rule_of and rule_of(issue)]
            ],
        }
        for rejected in answer.rejected_objects()
    ]
