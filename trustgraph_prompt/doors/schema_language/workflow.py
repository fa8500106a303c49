"""Prompts of the schema language, put to a model (seed 5): `ask` does it, with the settings of the seed."""

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
    Asked,
    EscalationEvent,
    OnEscalation,
    PromptSpec,
    from_spec,
    from_text,
    unknown,
)
from trustgraph_prompt.doors.schema_language.types import DSL_TYPE_MAP
from trustgraph_prompt.doors.schema_language.wording import error_of, feedback
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.language.scalars import SCALARS
from trustgraph_prompt.llm import Provider, RetryPolicy
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

if TYPE_CHECKING:
    from pydantic import BaseModel

MAIN = "main"
"""Of several models the one that prompts ask which name none."""


class Workflow:
    """Prompts, schemas and a model that answers: made of a text by `load`, or by a subclass that has them.

    A subclass has `_prompts`, and in `_schemas` the Pydantic models that they expect. `provider` is asked all
    of them, those that name a model of that model; where it is a mapping, each asks the provider of the name,
    and `main` where it has none. `on_escalation` decides about what is escalated: what it returns, or its
    coroutine, is the result.

    Raises `PromptError` for names of schemas and models that nothing has.
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
        self._asked = {name: from_spec(name, spec, self.schemas) for name, spec in self.prompts.items()}
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
        """The workflow of a text; `where` names it in errors.

        `types` are names that it may use for types of Python or JSON Schemas, beside those of `DSL_TYPE_MAP`.
        Raises `ConfigError`, which says what is wrong, and where.
        """
        added = {name: kind for name, kind in DSL_TYPE_MAP.items() if name not in SCALARS} | dict(types or {})
        known = {name: json_schema_of(kind) for name, kind in added.items()}
        file = parse_whole(source, where=where, types=known)
        workflow = cls(provider, on_escalation=on_escalation, budget=budget, price=price, retry=retry)
        workflow.schemas = models = Models(file.schemas, added)
        defaults = Defaults(file, known, where)
        for declared in file.prompts:
            spec, asked = from_text(file, declared, models, defaults, known, where)
            for name in (declared.name, *asked.definition.aliases):
                if name in workflow._asked:
                    raise PromptError(f"two prompts are called {name}", where=where)
                workflow.prompts[name], workflow._asked[name] = spec, asked
        workflow._check_models()
        return workflow

    async def call_llm(self, prompt_name: str, terms: Mapping[str, Any] = {}, /, **more: Any) -> Any:
        """Ask: the value as a dict or a list of such, defaults filled in, or a text.

        What is escalated is the handler's; without one it is the value, if there is any.

        Raises `SchemaValidationError` where no attempt brought what was expected (its cause is a
        `JSONParseError` where the last answer held no JSON), the provider's own `ProviderError`,
        `StructuredOutputInvalid` where the budget ended, `RequestError` for terms that are missing, and
        `PromptError` for a prompt that is not there.
        """
        asked, outcome = self._get(prompt_name), await self.ask(prompt_name, terms, **more)
        if outcome.escalated and self._on_escalation is not None:
            decided = self._on_escalation(_event(asked, outcome))
            return await decided if inspect.isawaitable(decided) else decided
        if not outcome.ok:
            raise error_of(asked.schema_name, outcome)
        return asked.finish(outcome)

    async def ask(self, prompt_name: str, terms: Mapping[str, Any] = {}, /, **more: Any) -> Outcome:
        """Ask, and give all that came of it: each call, what it cost, and the value as it was read.

        Raises `RequestError` and `PromptError`, as `call_llm`.
        """
        asked = self._get(prompt_name)
        provider, definition = self._who_answers(asked)
        return await ask(
            definition,
            asked.question({**terms, **more}),
            provider,
            budget=self._budget,
            price=self._price,
            retry=self._retry,
            feedback=partial(feedback, asked.schema_name),
        )

    def output_schema(self, prompt_name: str) -> Any:
        """What an agent with this prompt answers: a model, a list of it or another type; None for a text.

        Raises `PromptError` for a prompt that is not there.
        """
        return self._get(prompt_name).output_schema()

    def _get(self, prompt_name: str) -> Asked:
        if prompt_name not in self._asked:
            raise unknown("prompt", prompt_name, self._asked)
        return self._asked[prompt_name]

    def _who_answers(self, asked: Asked) -> tuple[Provider, PromptDefinition]:
        """The provider, and the prompt as it is put to it."""
        definition = asked.definition
        if not isinstance(self._provider, Mapping):
            return self._provider, definition
        # each provider of a mapping knows what its model is really called
        unnamed = replace(definition, config=replace(definition.config, model=None))
        return self._provider[definition.config.model or MAIN], unnamed

    def _check_models(self) -> None:
        if not isinstance(self._provider, Mapping):
            return
        for name, asked in self._asked.items():
            model = asked.definition.config.model or MAIN
            if model not in self._provider:
                raise unknown("model", model, self._provider, where=f"prompt {name}")


def _event(asked: Asked, outcome: Outcome) -> EscalationEvent:
    assert outcome.escalated is not None
    return EscalationEvent(
        asked.definition.id,
        outcome.escalated,
        asked.finish(outcome) if outcome.ok else outcome.text,
        outcome,
        asked.definition.escalation if outcome.escalated == "condition" else None,
        None if outcome.ok else error_of(asked.schema_name, outcome),
    )
