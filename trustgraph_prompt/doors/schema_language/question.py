"""A prompt of a workflow as it is asked, made of a text of the schema language or of a spec (StreetRace)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.doors.schema_language.defaults import Defaults
from trustgraph_prompt.doors.schema_language.pydantic_models import Models
from trustgraph_prompt.doors.schema_language.types import type_expr_to_python_type
from trustgraph_prompt.doors.schema_language.wording import WORDING, error_of
from trustgraph_prompt.errors import PromptError, StructuredOutputInvalid, suggestion
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
    """A prompt: `body` makes its text of the terms, `schema` is the name of what it expects, `X` or `X[]`."""

    body: Callable[[Any], str]
    model: str | None = None
    schema: str | None = None
    escalation: EscalationSpec | None = None


@dataclass(frozen=True)
class EscalationEvent:
    """What is escalated, and why: a condition of the prompt, or attempts that brought nothing to use.

    `result` is the value, or what the model said where there is none; then `error` is what would be raised.
    """

    prompt_name: str
    why: Literal["condition", "attempts"]
    result: Any
    outcome: Outcome
    condition: EscalationSpec | None = None
    error: Exception | None = None


OnEscalation = Callable[[EscalationEvent], Awaitable[Any] | Any]
"""Who decides about what is escalated: what it returns, or its coroutine, is the result."""


def unknown(what: str, name: str, known: Iterable[str], *, where: str | None = None) -> PromptError:
    """The error for a name that nothing has."""
    names = sorted(known)
    return PromptError(
        f"there is no {what} of this name{suggestion(name, names)}",
        where=where,
        found=name,
        expected=", ".join(names) or "none",
    )


MAX_SCHEMA_RETRIES = 3
"""How often a question is put until its answer is as expected, in all, unless its prompt says otherwise."""

_OF_LINES: Mapping[str, Any] = {"extra": "ignore", "coerce": True, "attempts": MAX_SCHEMA_RETRIES}
_OF_JSON: Mapping[str, Any] = {**_OF_LINES, "fences": "one"}
_NO_SYSTEM = Template.compile("", where="system")
_SPOKEN = Template.compile("{{ body }}")


@dataclass(frozen=True)
class Asked:
    """What it expects is called `schema_name`; `finish` makes the result of an outcome that has a value."""

    definition: PromptDefinition
    schema_name: str
    spoken: Callable[[Mapping[str, Any]], Question]
    finish: Callable[[Outcome], Any]
    output_schema: Callable[[], Any]

    def question(self, terms: Mapping[str, Any]) -> Question:
        """The question, and at its end how to answer it. Raises `RequestError` for terms that are missing."""
        question = self.spoken(terms)
        if TERM in self.definition.template.needs.named:
            return question
        instructions = self.definition.contract.instructions(WORDING)
        return replace(question, prompt=f"{question.prompt}\n\n{instructions}") if instructions else question


def from_text(
    file: File, declared: PromptDef, models: Models, defaults: Defaults, types: Types, where: str | None
) -> tuple[PromptSpec, Asked]:
    """A prompt of a file. Raises `ConfigError`."""
    by_default = _OF_LINES if declared.layout == "jsonl" else _OF_JSON
    definition = definition_of(file, declared, types=types, defaults=by_default, where=where)
    system = Template.compile(file.system, where="system") if file.system else _NO_SYSTEM
    definition = replace(definition.under(system), answer_format="none")
    told = {TERM: definition.contract.instructions(WORDING)}

    def spoken(terms: Mapping[str, Any]) -> Question:
        definition.require({**terms, **told})
        return definition.question({**terms, **told})

    expecting = declared.expecting
    spec = PromptSpec(
        body=lambda terms: spoken(terms).prompt,
        model=definition.config.model,
        schema=None if expecting is None else spell_type(expecting),
        escalation=definition.escalation,
    )
    if expecting is None:
        return spec, Asked(definition, "", spoken, _as_it_is, lambda: None)
    return spec, Asked(
        definition,
        spell_type(expecting),
        spoken,
        lambda outcome: defaults.filled(outcome.value, expecting),
        lambda: type_expr_to_python_type(expecting, models.annotations),
    )


def from_spec(name: str, spec: PromptSpec, schemas: Mapping[str, Any]) -> Asked:
    """A prompt by its spec. Raises `PromptError` where there is no schema of its name."""
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
        _SPOKEN,
        contract,
        RuntimeConfig(model=spec.model),
        attempts=1 if expected is None else MAX_SCHEMA_RETRIES,
        system=_NO_SYSTEM,
        escalation=spec.escalation,
    )

    def finish(outcome: Outcome) -> Any:
        try:
            built = contract.build(outcome.value)
        except StructuredOutputInvalid as invalid:  # by the model's own validators
            issues = invalid.issues
            refused = replace(outcome, value=None, reason=issues[0].reason, issues=issues, cause=invalid)
            raise error_of(schema_name, refused) from invalid
        return [one.model_dump() for one in built] if isinstance(built, list) else built.model_dump()

    return Asked(
        definition,
        schema_name,
        lambda terms: Question("", spec.body(terms), terms),
        _as_it_is if expected is None else finish,
        lambda: output,
    )


def _as_it_is(outcome: Outcome) -> Any:
    return outcome.value
