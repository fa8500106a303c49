"""Compiles a prompt of a workflow, from a text in the schema language or from a spec (StreetRace)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.instructions import PLAIN, Wording
from trustgraph_prompt.doors.schema_language.defaults import Defaults
from trustgraph_prompt.doors.schema_language.pydantic_models import Models
from trustgraph_prompt.doors.schema_language.types import type_expr_to_python_type
from trustgraph_prompt.errors import (
    JSONParseError,
    PromptError,
    ProviderError,
    Reason,
    SchemaValidationError,
    StructuredOutputInvalid,
    suggestion,
)
from trustgraph_prompt.language import File
from trustgraph_prompt.language.nodes import PromptDef
from trustgraph_prompt.language.write import spell_type
from trustgraph_prompt.llm import RuntimeConfig
from trustgraph_prompt.prompts import Escalation, PromptDefinition, Question, Template
from trustgraph_prompt.prompts.answer_format import TERM
from trustgraph_prompt.prompts.prompt_file import Types, definition_of
from trustgraph_prompt.reader import Outcome

EscalationSpec = Escalation
"""A condition on the text of an answer: `op` and `value`."""


@dataclass
class PromptSpec:
    """A prompt: `body` makes its text from the terms, `schema` names the expected type, `X` or `X[]`."""

    body: Callable[[Any], str]
    model: str | None = None
    schema: str | None = None
    escalation: EscalationSpec | None = None


@dataclass(frozen=True)
class EscalationEvent:
    """An escalated answer, and why: a condition of the prompt, or attempts without a usable answer.

    `result` is the value, or without one the text of the model; then `error` is what would be raised.
    """

    prompt_name: str
    why: Literal["condition", "attempts"]
    result: Any
    outcome: Outcome
    condition: EscalationSpec | None = None
    error: Exception | None = None


OnEscalation = Callable[[EscalationEvent], Awaitable[Any] | Any]
"""Handles an escalated answer: its return value, awaited if need be, is the result."""


def unknown(kind: str, name: str, known: Iterable[str], *, where: str | None = None) -> PromptError:
    """The error for an unknown name of a prompt, schema or model."""
    names = sorted(known)
    return PromptError(
        f"unknown {kind}{suggestion(name, names)}",
        where=where,
        found=name,
        expected=", ".join(names) or "none",
    )


MAX_SCHEMA_RETRIES = 3
"""The default for the total number of attempts until an answer is valid."""

_JSONL_DEFAULTS: Mapping[str, Any] = {"extra": "ignore", "coerce": True, "attempts": MAX_SCHEMA_RETRIES}
_JSON_DEFAULTS: Mapping[str, Any] = {**_JSONL_DEFAULTS, "fences": "one"}
_NO_SYSTEM = Template.compile("", where="system")
_UNUSED = Template.compile("{{ body }}")


@dataclass(frozen=True)
class CompiledPrompt:
    """A prompt that can be asked; `finish` makes the result from an outcome with a value."""

    definition: PromptDefinition
    schema_name: str
    render: Callable[[Mapping[str, Any]], Question]
    finish: Callable[[Outcome], Any]
    output_schema: Callable[[], Any]

    def question(self, terms: Mapping[str, Any]) -> Question:
        """Render the question with instructions about its answer. Raises `RequestError` for missing terms."""
        question = self.render(terms)
        if TERM in self.definition.template.needs.named:
            return question
        instructions = self.definition.contract.instructions(WORDING)
        return replace(question, prompt=f"{question.prompt}\n\n{instructions}") if instructions else question


def from_text(
    file: File, declared: PromptDef, models: Models, defaults: Defaults, types: Types, where: str | None
) -> tuple[PromptSpec, CompiledPrompt]:
    """Compile a prompt of a file. Raises `ConfigError`."""
    by_default = _JSONL_DEFAULTS if declared.layout == "jsonl" else _JSON_DEFAULTS
    definition = definition_of(file, declared, types=types, defaults=by_default, where=where)
    system = Template.compile(file.system, where="system") if file.system else _NO_SYSTEM
    definition = replace(definition.with_system(system), answer_format="none")
    instructions = {TERM: definition.contract.instructions(WORDING)}

    def render(terms: Mapping[str, Any]) -> Question:
        given = {**terms, **instructions}
        definition.require(given)
        return definition.question(given)

    expecting = declared.expecting
    spec = PromptSpec(
        body=lambda terms: render(terms).prompt,
        model=definition.config.model,
        schema=None if expecting is None else spell_type(expecting),
        escalation=definition.escalation,
    )
    if expecting is None:
        return spec, CompiledPrompt(definition, "", render, _value, lambda: None)
    return spec, CompiledPrompt(
        definition,
        spell_type(expecting),
        render,
        lambda outcome: defaults.filled(outcome.value, expecting),
        lambda: type_expr_to_python_type(expecting, models.annotations),
    )


def from_spec(name: str, spec: PromptSpec, schemas: Mapping[str, Any]) -> CompiledPrompt:
    """Compile a spec. Raises `PromptError` for an unknown schema."""
    schema_name = spec.schema or ""
    model = schema_name.removesuffix("[]")
    if model and model not in schemas:
        raise unknown("schema", model, schemas, where=f"prompt {name}")
    expected = schemas.get(model)
    output = list[expected] if schema_name.endswith("[]") else expected  # type: ignore[valid-type]
    contract = (
        Contract.from_schema(None, format="text")
        if expected is None
        else Contract.of(output, extra="ignore", coerce=True, fences="one")
    )
    definition = PromptDefinition(
        name,
        _UNUSED,  # `body` makes the question
        contract,
        RuntimeConfig(model=spec.model),
        attempts=1 if expected is None else MAX_SCHEMA_RETRIES,
        system=_NO_SYSTEM,
        escalation=spec.escalation,
    )

    def finish(outcome: Outcome) -> Any:
        try:
            built = contract.build(outcome.value)
        except StructuredOutputInvalid as invalid:  # raised by the model's own validators
            issues = invalid.issues
            rejected = replace(outcome, value=None, reason=issues[0].reason, issues=issues, cause=invalid)
            raise error_of(schema_name, rejected) from invalid
        return (
            [instance.model_dump() for instance in built] if isinstance(built, list) else built.model_dump()
        )

    return CompiledPrompt(
        definition,
        schema_name,
        lambda terms: Question("", spec.body(terms), terms),
        _value if expected is None else finish,
        lambda: output,
    )


def _value(outcome: Outcome) -> Any:
    return outcome.value


WORDING = Wording(
    one="IMPORTANT: You MUST respond with valid JSON that matches this schema:\n"
    "```json\n{schema}\n```\n\n"
    "Do NOT include any text outside the JSON object.",
    many="IMPORTANT: You MUST respond with a JSON array of objects, where each element matches this schema:\n"
    "```json\n{schema}\n```\n\n"
    "Do NOT include any text outside the JSON array.",
    lines=PLAIN.lines,
)
"""The instructions that are appended to the question: `contract.instructions(WORDING)`."""

_NO_JSON = frozenset(
    {
        Reason.EMPTY,
        Reason.REFUSED,
        Reason.INVALID_JSON,
        Reason.EXTRACTION_FAILED,
        Reason.AMBIGUOUS,
        Reason.REPAIR_FAILED,
        Reason.TRUNCATED,
    }
)


def feedback(schema_name: str, outcome: Outcome) -> str:
    """The message to the model about an invalid answer."""
    return f"Error: {_problem(schema_name, outcome)}\n\nPlease fix the JSON and try again."


def error_of(schema_name: str, outcome: Outcome) -> Exception:
    """The error for an outcome without a value: the provider's, or one of StreetRace.

    As there, an answer without JSON raises `SchemaValidationError`, whose cause is the `JSONParseError`.
    """
    problem = _problem(schema_name, outcome)
    if not isinstance(problem, JSONParseError):
        return problem
    error = SchemaValidationError(schema_name, [str(problem)], outcome.text, cause=problem)
    error.__cause__ = problem
    return error


def _problem(schema_name: str, outcome: Outcome) -> Exception:
    """The problem of one answer or of its provider."""
    if isinstance(outcome.cause, ProviderError):
        return outcome.cause
    try:
        outcome.unwrap()
    except StructuredOutputInvalid as invalid:
        if outcome.contract.format == "text" or outcome.reason is Reason.BUDGET_SPENT:
            return invalid
        if outcome.reason in _NO_JSON:
            return JSONParseError(outcome.text, outcome.explain(), cause=invalid)
        errors = [str(issue) for issue in invalid.issues]
        return SchemaValidationError(schema_name, errors, outcome.text, cause=invalid)
    raise ValueError("the outcome has a value")
