"""TrustGraph's prompt manager, with the interface and the results of seed 1 (jsonl prompt output).

It reads with the one reader: an answer may be fenced, chatty or cut, and what is valid in it counts. Nothing
is mended, unless an entry of ours says so, and nothing is asked twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast, get_args

import orjson

from trustgraph_prompt.background import beside
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.contract.grounding import grounded
from trustgraph_prompt.errors import ConfigError, ContractError, Issue, PromptError, Reason, RenderError
from trustgraph_prompt.prompts import PromptDefinition, Template, answer_format
from trustgraph_prompt.prompts.definition import SYSTEM, TRUSTGRAPH_ALIASES, AnswerFormat, system_template
from trustgraph_prompt.prompts.template import Dialect
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read
from trustgraph_prompt.reader.reading import steps

__all__ = ["Llm", "Prompt", "PromptManager"]

logger = logging.getLogger(__name__)

Llm = Callable[..., Awaitable[str | None]]
"""`await llm(system=…, prompt=…)` is the answer of a model."""

_NO_JSON = (Reason.EMPTY, Reason.INVALID_JSON, Reason.EXTRACTION_FAILED, Reason.AMBIGUOUS, Reason.TRUNCATED)
_LAYOUT = " \t\r[],"


@dataclass
class Prompt:
    """A prompt of the configuration; `terms` may be changed at any time, the rest is read once.

    `object_schema` goes before `schema` where the answer is jsonl.
    """

    template: str
    response_type: str = "text"
    terms: dict[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | bool | None = None
    object_schema: Mapping[str, Any] | bool | None = None
    dialect: Dialect = "ibis"
    system: Template | None = None
    answer_format: AnswerFormat = "none"

    @cached_property
    def compiled(self) -> Template:
        """The template. Raises `TemplateError`."""
        return Template.compile(self.template, dialect=self.dialect)

    @cached_property
    def contract(self) -> Contract:
        """What an answer must be. Raises `RuntimeError` for an unknown response type or a bad schema."""
        if self.response_type not in get_args(Format):
            raise RuntimeError(f"Response type {self.response_type} not known")
        schema = {"json": self.schema, "jsonl": self.object_schema or self.schema}.get(self.response_type)
        try:
            return Contract.from_schema(schema or None, format=cast(Format, self.response_type))
        except ContractError as error:
            raise RuntimeError(f"Schema validation fail: {error}") from error


class PromptManager:
    """Renders prompts, has a model answer them, and reads the answers.

    A subclass that has its own `parse_json` or `parse_jsonl` reads in its own way.
    `prompts` by id, and `terms`, which go to every prompt, may be changed at any time. Terms of a prompt go
    over them, and those of a call over both.
    """

    def __init__(self) -> None:
        self.terms: dict[str, Any] = {}
        self.prompts: dict[str, Prompt] = {}
        self.system_template = SYSTEM

    def load_config(self, config: Mapping[str, str]) -> None:
        """Take over a configuration: `system` and `template.<id>`, each JSON text.

        Raises `RuntimeError` for an entry that is no prompt; then nothing has changed.
        """
        system = _system(config.get("system", ""))
        prompts = {
            key.removeprefix("template."): _prompt(key.removeprefix("template."), text)
            for key, text in config.items()
            if key.startswith("template.")
        }
        self.system_template, self.prompts = system, prompts

    def render(self, id: str, input: Mapping[str, Any]) -> str:
        """The prompt with its terms filled in. Raises `RuntimeError`."""
        try:
            prompt = self._prompt(id)
        except KeyError:
            raise RuntimeError("ID invalid") from None
        return self._question(id, prompt, input)

    async def invoke(self, id: str, input: Mapping[str, Any], llm: Llm) -> Any:
        """Ask a model: a str for text, a JSON value for json, a list of objects for jsonl.

        Raises `KeyError` for an unknown id, and `RuntimeError` for an answer that is no JSON, for one that
        is not as the schema says, and for an unknown response type. Of a jsonl answer, what is wrong is
        left out with a warning.
        """
        prompt = self._prompt(id)
        contract = grounded(prompt.contract, self._terms(prompt, input))
        system = self._rendered(id, prompt, prompt.system or self.system_template, input)
        answer = await llm(system=system, prompt=self._question(id, prompt, input))
        if answer is None:
            raise RuntimeError("LLM returned no response")
        if not isinstance(answer, str):
            raise RuntimeError(f"LLM returned no text but {type(answer).__name__}")
        match contract.format:
            case "text":
                return answer
            case "json":
                work: Callable[[], Any] = partial(self._value, id, answer, contract)
            case "jsonl":
                work = partial(self._objects, answer, contract)
        return await beside(work, steps(len(answer), contract))

    def parse_json(self, text: str) -> Any:
        """The JSON value in an answer. Raises `json.JSONDecodeError`, as TrustGraph's does."""
        outcome = read(text, "json")
        if not outcome.ok:
            raise json.JSONDecodeError(outcome.explain(), text, 0)
        return outcome.value

    def parse_jsonl(self, text: str) -> list[Any]:
        """The JSON objects in an answer; each line that holds none of them is logged, with its number."""
        outcome = read(text, "jsonl")
        _warn(text, outcome)
        return list(outcome.value)

    def _value(self, id: str, answer: str, contract: Contract) -> Any:
        if self._overrides("parse_json"):
            try:
                value = self.parse_json(answer)
            except Exception as error:
                raise _no_json(id, str(error)) from error
            taken, accepted = contract.take(value)
            if not accepted:
                raise _not_as_the_schema_says("; ".join(map(str, contract.issues(value))))
            return taken
        outcome = read(answer, contract)
        if outcome.ok:
            return outcome.value
        if outcome.reason in _NO_JSON:
            raise _no_json(id, outcome.explain())
        raise _not_as_the_schema_says(outcome.explain())

    def _objects(self, answer: str, contract: Contract) -> list[Any]:
        if not self._overrides("parse_jsonl"):
            outcome = read(answer, contract)
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
        """Whether a subclass reads in its own way: ours reads better when it knows the schema."""
        return getattr(getattr(self, method), "__func__", None) is not getattr(PromptManager, method)

    def _prompt(self, id: str) -> Prompt:
        names = (id, *TRUSTGRAPH_ALIASES.get(id, ()))
        return self.prompts[next((name for name in names if name in self.prompts), id)]

    def _question(self, id: str, prompt: Prompt, input: Mapping[str, Any]) -> str:
        text = self._rendered(id, prompt, prompt.compiled, input)
        if prompt.answer_format != "append" or answer_format.TERM in prompt.compiled.needs.named:
            return text
        return answer_format.append(text, prompt.contract.instructions())

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


def _system(text: str) -> Template:
    """The system message; as in TrustGraph, the default one where there is none that can be read."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return SYSTEM
    try:
        return system_template(value)
    except ConfigError as error:
        raise RuntimeError(f"Error in template: {error}") from error


def _prompt(id: str, text: str) -> Prompt:
    try:
        entry = orjson.loads(text)
        if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
            raise PromptError("the entry is no prompt", found=entry, expected="an object with `prompt`")
        if not entry["prompt"].strip():
            raise PromptError("the prompt has no text", path="/prompt", found=entry["prompt"])
        prompt = Prompt(
            template=entry["prompt"],
            response_type=entry.get("response-type", "text"),
            schema=entry.get("schema"),
            object_schema=entry.get("object-schema"),
        )
        if "dialect" in entry:  # ours: it is held to our format, and may hold more
            definition = PromptDefinition.from_entry(id, entry)
            prompt.dialect = definition.template.dialect
            prompt.contract = definition.contract
            prompt.terms = dict(definition.terms)
            prompt.system = definition.system if definition.own_system else None
            prompt.answer_format = definition.answer_format
        elif entry.get("answer-format") == "append":
            prompt.answer_format = "append"
        _ = prompt.compiled
    except (ConfigError, orjson.JSONDecodeError) as error:
        raise RuntimeError(f"Error in template: {id}: {error}") from error
    return prompt


def _warn(text: str, outcome: Outcome) -> None:
    """Log what of a jsonl answer was left out."""
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


def _no_json(id: str, why: str) -> RuntimeError:
    logger.error("JSON parse failed for prompt %s: %s", id, why)
    return RuntimeError("JSON parse fail")


def _not_as_the_schema_says(why: str) -> RuntimeError:
    return RuntimeError(f"Schema validation fail: {why}")


def _lines_without_object(text: str) -> Iterator[int]:
    """The numbers, from 1, of the lines that are part of no object, fences and brackets of a list apart."""
    reader = StreamReader("jsonl")
    waiting: dict[int, str] = {}
    for number, line in enumerate(text.strip().split("\n"), 1):
        if reader.feed(line + "\n"):
            if waiting:
                is_whole = "{" in line and read(line, "jsonl").value
                begun = number if is_whole else _outermost(waiting, number)
                yield from (earlier for earlier in waiting if earlier < begun)
                waiting.clear()
        elif (content := line.strip(_LAYOUT)) and not content.startswith(("```", "~~~")):
            waiting[number] = line
    yield from waiting


def _outermost(lines: Mapping[int, str], last: int) -> int:
    """Where an object probably began that ends in line `last`: the least indented line that opens one."""
    opened = [(len(line) - len(line.lstrip()), -at) for at, line in lines.items() if line.lstrip()[0] in "{["]
    return -min(opened)[1] if opened else last
