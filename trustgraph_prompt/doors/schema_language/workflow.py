"""Asks a model the prompts of the schema language, with the settings of StreetRace."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from trustgraph_prompt.ask import ask
from trustgraph_prompt.contract.from_language import json_schema_of, parse_whole
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.doors.schema_language.defaults import Defaults
from trustgraph_prompt.doors.schema_language.pydantic_models import Models
from trustgraph_prompt.doors.schema_language.question import (
    CompiledPrompt,
    EscalationEvent,
    OnEscalation,
    PromptSpec,
    error_of,
    feedback,
    from_spec,
    from_text,
    unknown,
)
from trustgraph_prompt.doors.schema_language.types import DSL_TYPE_MAP
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.language.scalars import SCALARS
from trustgraph_prompt.llm import Provider, RetryPolicy
from trustgraph_prompt.reader import Outcome

if TYPE_CHECKING:
    from pydantic import BaseModel

MAIN = "main"
"""The model of prompts that name none, where there are several."""


class Workflow:
    """Prompts, schemas and the provider that answers, from a text (`load`) or from a subclass.

    A subclass defines `_prompts`, and in `_schemas` the Pydantic models that they expect. `provider` answers
    all prompts, with the model that a prompt names. If it is a mapping, the model selects the provider:
    `main` for prompts without one. `on_escalation` handles escalated answers: its return value, awaited if
    need be, is the result.

    Raises `PromptError` for unknown names of schemas and models.
    """

    _prompts: ClassVar[Mapping[str, PromptSpec]] = {}
    _schemas: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        provider: Provider | Mapping[str, Provider],
        *,
        on_escalation: OnEscalation | None = None,
        budget: Budget = Budget(),
        price: Price | None = None,
        retry: RetryPolicy = RetryPolicy(),
    ) -> None:
        self.prompts: dict[str, PromptSpec] = dict(self._prompts)
        self.schemas: Mapping[str, type[BaseModel]] = dict(self._schemas)
        self._compiled = {name: from_spec(name, spec, self.schemas) for name, spec in self.prompts.items()}
        self._provider = provider
        self._on_escalation = on_escalation
        self._budget = budget
        self._price = price
        self._retry = retry
        self._check_models()

    @classmethod
    def load(
        cls,
        source: str,
        provider: Provider | Mapping[str, Provider],
        *,
        where: str | None = None,
        types: Mapping[str, Any] | None = None,
        on_escalation: OnEscalation | None = None,
        budget: Budget = Budget(),
        price: Price | None = None,
        retry: RetryPolicy = RetryPolicy(),
    ) -> Self:
        """Make a workflow from a text; `where` names it in errors.

        `types` are Python types or JSON Schemas by name, in addition to those of `DSL_TYPE_MAP`. Raises
        `ConfigError`.
        """
        added = {name: kind for name, kind in DSL_TYPE_MAP.items() if name not in SCALARS} | dict(types or {})
        known = {name: json_schema_of(kind) for name, kind in added.items()}
        file = parse_whole(source, where=where, types=known)
        workflow = cls(provider, on_escalation=on_escalation, budget=budget, price=price, retry=retry)
        workflow.schemas = models = Models(file.schemas, added)
        defaults = Defaults(file, known, where)
        for declared in file.prompts:
            spec, compiled = from_text(file, declared, models, defaults, known, where)
            for name in (declared.name, *compiled.definition.aliases):
                if name in workflow._compiled:
                    raise PromptError(f"two prompts have the name or alias {name}", where=where)
                workflow.prompts[name], workflow._compiled[name] = spec, compiled
        workflow._check_models()
        return workflow

    async def call_llm(self, prompt_name: str, terms: Mapping[str, Any] = {}, /, **more: Any) -> Any:
        """Ask, and return the value, a dict or a list of dicts with defaults filled in, or a text.

        For an escalated answer, the result of `on_escalation`; without a handler, the value if there is one.

        Raises `SchemaValidationError` if no attempt succeeded (its cause is a `JSONParseError` if the last
        answer contained no JSON), `ProviderError`, `StructuredOutputInvalid` if the budget was spent,
        `RequestError` for missing terms, and `PromptError` for an unknown prompt.
        """
        prompt, outcome = self._get(prompt_name), await self.ask(prompt_name, terms, **more)
        if outcome.escalated and self._on_escalation is not None:
            result = self._on_escalation(_event(prompt, outcome))
            return await result if inspect.isawaitable(result) else result
        if not outcome.ok:
            raise error_of(prompt.schema_name, outcome)
        return prompt.finish(outcome)

    async def ask(self, prompt_name: str, terms: Mapping[str, Any] = {}, /, **more: Any) -> Outcome:
        """Ask, and return the whole outcome: the calls, their cost, and the value as it was read.

        Raises `RequestError` and `PromptError`, as `call_llm`.
        """
        prompt = self._get(prompt_name)
        definition = prompt.definition
        if isinstance(self._provider, Mapping):
            provider = self._provider[definition.config.model or MAIN]
            # the names are the mapping's own: each provider knows what its model is really called
            definition = replace(definition, config=replace(definition.config, model=None))
        else:
            provider = self._provider
        return await ask(
            definition,
            prompt.question({**terms, **more}),
            provider,
            budget=self._budget,
            price=self._price,
            retry=self._retry,
            feedback=partial(feedback, prompt.schema_name),
        )

    def output_schema(self, prompt_name: str) -> Any:
        """The return type of an agent with this prompt: a model, a list of it, another type; None for a text.

        Raises `PromptError` for an unknown prompt.
        """
        return self._get(prompt_name).output_schema()

    def _get(self, prompt_name: str) -> CompiledPrompt:
        if prompt_name not in self._compiled:
            raise unknown("prompt", prompt_name, self._compiled)
        return self._compiled[prompt_name]

    def _check_models(self) -> None:
        if not isinstance(self._provider, Mapping):
            return
        for name, prompt in self._compiled.items():
            model = prompt.definition.config.model or MAIN
            if model not in self._provider:
                raise unknown("model", model, self._provider, where=f"prompt {name}")


def _event(prompt: CompiledPrompt, outcome: Outcome) -> EscalationEvent:
    assert outcome.escalated is not None
    return EscalationEvent(
        prompt.definition.id,
        outcome.escalated,
        prompt.finish(outcome) if outcome.ok else outcome.text,
        outcome,
        prompt.definition.escalation if outcome.escalated == "condition" else None,
        None if outcome.ok else error_of(prompt.schema_name, outcome),
    )
