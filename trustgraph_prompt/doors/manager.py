"""TrustGraph's prompt manager, with the interface and the results of its jsonl prompt output.

An answer may be fenced, surrounded by prose or truncated; its valid parts are kept. Broken JSON is not
repaired, unless an entry with a dialect asks for it, and nothing is asked twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast, get_args

import orjson

from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import ConfigError, ContractError, Issue, PromptError, Reason, RenderError
from trustgraph_prompt.graph.ontology import TERMS
from trustgraph_prompt.graph.ontology_answer import AnswerReading
from trustgraph_prompt.graph.ontology_question import question_terms
from trustgraph_prompt.prompts import PromptDefinition, Template, Turn, answer_format
from trustgraph_prompt.prompts.definition import SYSTEM, TRUSTGRAPH_ALIASES, AnswerFormat, system_template
from trustgraph_prompt.prompts.pool import Pools, pools_in
from trustgraph_prompt.prompts.shown_examples import in_text, written
from trustgraph_prompt.prompts.template import Dialect
from trustgraph_prompt.prompts.within_ontology import ontology_in
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read
from trustgraph_prompt.reader.stream_reader import reading_effort

__all__ = ["Llm", "Prompt", "PromptManager"]

logger = logging.getLogger(__name__)

Llm = Callable[..., Awaitable[str | None]]
"""`await llm(system=…, prompt=…)` returns the answer of a model."""

_NO_JSON = (Reason.EMPTY, Reason.INVALID_JSON, Reason.EXTRACTION_FAILED, Reason.AMBIGUOUS, Reason.TRUNCATED)
_LIST_LAYOUT = " \t\r[],"


@dataclass
class Prompt:
    """A prompt of the configuration; `terms` may be changed at any time, the rest is compiled once.

    `object_schema` takes precedence over `schema` for a jsonl answer.
    """

    template: str
    response_type: str = "text"
    terms: dict[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | bool | None = None
    object_schema: Mapping[str, Any] | bool | None = None
    dialect: Dialect = "ibis"
    system: Template | None = None
    answer_format: AnswerFormat = "none"
    examples: Callable[[Mapping[str, Any]], Sequence[Turn]] = lambda terms: ()

    @cached_property
    def compiled(self) -> Template:
        """The compiled template. Raises `TemplateError`."""
        return Template.compile(self.template, dialect=self.dialect)

    @cached_property
    def contract(self) -> Contract:
        """The contract of the answer. Raises `RuntimeError` for an unknown response type or a bad schema."""
        if self.response_type not in get_args(Format):
            raise RuntimeError(f"Response type {self.response_type} not known")
        schema = {"json": self.schema, "jsonl": self.object_schema or self.schema}.get(self.response_type)
        try:
            return Contract.from_schema(schema or None, format=cast(Format, self.response_type))
        except ContractError as error:
            raise RuntimeError(f"Schema validation fail: {error}") from error


class PromptManager:
    """Renders prompts, asks a model, and reads its answers.

    A subclass may override `parse_json` or `parse_jsonl`. `prompts` (by id) and `terms` may be changed at any
    time. Terms of a prompt take precedence over `terms`, and those of a call over both.
    """

    def __init__(self) -> None:
        self.terms: dict[str, Any] = {}
        self.prompts: dict[str, Prompt] = {}
        self.system_template = SYSTEM

    def load_config(self, config: Mapping[str, str]) -> None:
        """Load a configuration: `system`, `template.<id>` and `pool.<sha256>`, each JSON text.

        Raises `RuntimeError` for an invalid entry, and changes nothing then.
        """
        system = _system(config.get("system", ""))
        pools = Pools({key: text.encode() for key, text in pools_in(config).items()})
        prompts = {
            (id := key.removeprefix("template.")): _compiled_entry(id, text, pools)
            for key, text in config.items()
            if key.startswith("template.")
        }
        self.system_template, self.prompts = system, prompts

    def render(self, id: str, input: Mapping[str, Any]) -> str:
        """Fill in the terms of a prompt. Raises `RuntimeError`."""
        try:
            prompt = self._prompt(id)
        except KeyError:
            raise RuntimeError("ID invalid") from None
        return self._question(id, prompt, input)

    async def invoke(self, id: str, input: Mapping[str, Any], llm: Llm) -> Any:
        """Ask a model, and return a str for text, a JSON value for json, a list of objects for jsonl.

        Raises `KeyError` for an unknown id, and `RuntimeError` for an answer that is not JSON or does not
        match the schema, and for an unknown response type. Invalid parts of a jsonl answer are dropped with
        a warning.
        """
        prompt = self._prompt(id)
        terms, contract = self._terms(prompt, input), prompt.contract
        reading = None if TERMS.isdisjoint(terms) else await beside(_reading, id, contract, terms)
        if reading is not None:
            input = {**input, **question_terms(reading.vocabulary)}
            contract = contract.checked(reading.check)
        contract = contract.with_terms(terms)
        system = self._rendered(id, prompt, prompt.system or self.system_template, input)
        answer = await llm(system=system, prompt=self._question(id, prompt, input))
        if answer is None:
            raise RuntimeError("LLM returned no response")
        if not isinstance(answer, str):
            raise RuntimeError(f"LLM returned {type(answer).__name__}, expected str")
        match contract.format:
            case "text":
                return answer
            case "json":
                work: Callable[[], Any] = partial(self._value, id, answer, contract, terms)
            case "jsonl":
                work = partial(self._objects, answer, contract, terms)
        value = await beside(work, steps=reading_effort(len(answer), contract))
        if reading is None:
            return value
        return (await beside(reading.read, Outcome(value, Reason.SUCCESS, contract))).value

    def parse_json(self, text: str) -> Any:
        """Find the JSON value in an answer. Raises `json.JSONDecodeError`, as TrustGraph's does."""
        outcome = read(text, "json")
        if not outcome.ok:
            raise json.JSONDecodeError(outcome.explain(), text, 0)
        return outcome.value

    def parse_jsonl(self, text: str) -> list[Any]:
        """Find the JSON objects in an answer; logs the number of each line that is part of none."""
        outcome = read(text, "jsonl")
        _warn(text, outcome)
        return list(outcome.value)

    def _value(self, id: str, answer: str, contract: Contract, terms: Mapping[str, object]) -> Any:
        if self._overrides("parse_json"):
            try:
                value = self.parse_json(answer)
            except Exception as error:
                raise _no_json(id, str(error)) from error
            taken, accepted = contract.take(value)
            if not accepted:
                issues = "; ".join(map(str, contract.issues(value)))
                raise RuntimeError(f"Schema validation fail: {issues}")
            return taken
        outcome = read(answer, contract, terms=terms)
        if outcome.ok:
            return outcome.value
        if outcome.reason in _NO_JSON:
            raise _no_json(id, outcome.explain())
        raise RuntimeError(f"Schema validation fail: {outcome.explain()}")

    def _objects(self, answer: str, contract: Contract, terms: Mapping[str, object]) -> list[Any]:
        if not self._overrides("parse_jsonl"):
            outcome = read(answer, contract, terms=terms)
            _warn(answer, outcome)
            return list(outcome.value)
        objects: list[Any] = []
        for index, value in enumerate(self.parse_jsonl(answer)):
            taken, accepted = contract.take(value)
            if accepted:
                objects.append(taken)
            else:
                _warn_of_object(index, contract.issues(value))
        if not objects:
            _warn_of_nothing()
        return objects

    def _overrides(self, method: str) -> bool:
        """Whether a subclass overrides a parser; the reader itself does better, as it knows the schema."""
        return getattr(getattr(self, method), "__func__", None) is not getattr(PromptManager, method)

    def _prompt(self, id: str) -> Prompt:
        names = (id, *TRUSTGRAPH_ALIASES.get(id, ()))
        return self.prompts[next((name for name in names if name in self.prompts), id)]

    def _question(self, id: str, prompt: Prompt, input: Mapping[str, Any]) -> str:
        text = self._rendered(id, prompt, prompt.compiled, input)
        if prompt.answer_format == "append" and answer_format.TERM not in prompt.compiled.needs.named:
            text = answer_format.append(text, prompt.contract.instructions())
        return in_text(text, written(prompt.examples(input), prompt.contract))

    def _terms(self, prompt: Prompt, input: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.terms, **(prompt.terms or {}), **input}

    def _rendered(self, id: str, prompt: Prompt, template: Template, input: Mapping[str, Any]) -> str:
        terms = self._terms(prompt, input)
        if prompt.answer_format != "none" and answer_format.TERM in template.needs.named:
            if answer_format.TERM in input:
                raise RuntimeError(f"Error in template: {id}: {answer_format.RESERVED}")
            terms[answer_format.TERM] = prompt.contract.instructions()
        try:
            return template.render(terms)
        except RenderError as error:
            raise RuntimeError(f"Error in template: {id}: {error}") from error


def _reading(id: str, contract: Contract, terms: Mapping[str, object]) -> AnswerReading | None:
    """What reads the answer in the terms of the ontology that the terms have."""
    ontology = ontology_in(terms, contract, id)
    return None if ontology is None else AnswerReading(ontology.vocabulary, str(terms.get("text", "")))


def _system(text: str) -> Template:
    """The system message; as in TrustGraph, the default for one that is not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return SYSTEM
    try:
        return system_template(value)
    except ConfigError as error:
        raise RuntimeError(f"Error in template: {error}") from error


def _compiled_entry(id: str, text: str, pools: Pools) -> Prompt:
    try:
        entry = orjson.loads(text)
        if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
            raise PromptError("the entry is not a prompt", found=entry, expected="an object with `prompt`")
        if not entry["prompt"].strip():
            raise PromptError("the prompt has no text", path="/prompt", found=entry["prompt"])
        prompt = Prompt(
            template=entry["prompt"],
            response_type=entry.get("response-type", "text"),
            schema=entry.get("schema"),
            object_schema=entry.get("object-schema"),
        )
        if "dialect" in entry:  # this project's format, which has more keys
            definition = PromptDefinition.from_entry(id, entry)
            prompt.dialect = definition.template.dialect
            prompt.contract = definition.contract
            prompt.terms = dict(definition.terms)
            prompt.system = definition.system if definition.own_system else None
            prompt.answer_format = definition.answer_format
            if definition.examples_as == "text":  # the model receives one text
                if definition.pool_clause:
                    definition = definition.with_pool(pools.get(definition.pool_clause, f"template.{id}"))
                prompt.examples = definition.chooser.examples
        elif entry.get("answer-format") == "append":
            prompt.answer_format = "append"
        _ = prompt.compiled
    except (ConfigError, orjson.JSONDecodeError) as error:
        raise RuntimeError(f"Error in template: {id}: {error}") from error
    return prompt


def _warn(text: str, outcome: Outcome) -> None:
    """Log what was dropped from a jsonl answer."""
    if outcome.stage is not Stage.DIRECT or outcome.rejected or outcome.truncated:
        for line in _lines_without_object(text):
            logger.warning("JSONL parse error on line %d: part of no complete object", line)
    for rejected in outcome.rejected:
        if rejected.issues[0].reason is not Reason.INVALID_JSON:
            _warn_of_object(rejected.index, rejected.issues)
    if not outcome.value:
        _warn_of_nothing()


def _warn_of_object(index: int, issues: Iterable[Issue]) -> None:
    logger.warning("Object %d failed schema validation: %s", index, "; ".join(map(str, issues)))


def _warn_of_nothing() -> None:
    logger.warning("JSONL parse returned no valid objects")


def _no_json(id: str, problem: str) -> RuntimeError:
    logger.error("JSON parse failed for prompt %s: %s", id, problem)
    return RuntimeError("JSON parse fail")


def _lines_without_object(text: str) -> Iterator[int]:
    """The numbers, from 1, of lines that are part of no object, other than fences and brackets of a list."""
    reader = StreamReader("jsonl")
    waiting: dict[int, str] = {}
    for number, line in enumerate(text.strip().split("\n"), 1):
        if reader.feed(line + "\n"):
            if waiting:
                is_complete = "{" in line and read(line, "jsonl").value
                first = number if is_complete else _first_line(waiting, number)
                yield from (earlier for earlier in waiting if earlier < first)
                waiting.clear()
        elif (content := line.strip(_LIST_LAYOUT)) and not content.startswith(("```", "~~~")):
            waiting[number] = line
    yield from waiting


def _first_line(lines: Mapping[int, str], last: int) -> int:
    """The likely first line of an object that ends in line `last`: the least indented opening one."""
    starts = [(len(line) - len(line.lstrip()), -at) for at, line in lines.items() if line.lstrip()[0] in "{["]
    return -min(starts)[1] if starts else last
