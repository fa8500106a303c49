"""`ask`: sends one prompt to a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import options, output, prompt_options
from trustgraph_prompt.cli.model_options import PromptModelOptions
from trustgraph_prompt.cli.options import argument

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Listen
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.prompts import PromptDefinition
    from trustgraph_prompt.reader import Outcome

EXAMPLE = "ask extract-definitions --term text=@notes.txt --base-url http://localhost:11434/v1 --model qwen3"


def command(
    prompt: str = argument("ID", "The prompt to send."),
    *,
    term: prompt_options.TermOption = None,
    model: PromptModelOptions,
    templates: prompt_options.TemplatesOption = None,
    ontology: prompt_options.OntologyOption = None,
    ontology_language: prompt_options.OntologyLanguageOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Send one prompt to the model and print the answer.

    Text is printed as it arrives, objects one per line as soon as each is complete, a JSON value at the end.
    Rejected objects and truncation are reported on standard error. With --json, the whole outcome is printed
    at the end: the value, rejected objects with the reasons, calls and tokens. Exits with 1 if there is no
    usable answer.
    """
    import asyncio

    from trustgraph_prompt.cli.answer_printer import AnswerPrinter

    definition = prompt_options.prompt(prompt_options.prompts(templates), prompt)
    terms = prompt_options.terms(term)
    model = model.chosen()
    provider = model.provider()
    model.check_parameters([definition])
    index = prompt_options.ontology(ontology, ontology_language)
    of_ontology = prompt_options.ontology_terms(definition, terms, index)
    prompt_options.require_terms(definition, {**terms, **of_ontology})
    definition, every = prompt_options.within(definition, terms, index)
    with output.waiting(f"asking {model.model or model.script}") as end_of_waiting:
        printer = AnswerPrinter(definition, end_of_waiting)
        listen = None if as_json else printer.listen
        outcome = asyncio.run(_ask(definition, every, provider, listen))
    if as_json:
        output.print_json(output.outcome_as_json(outcome))
    else:
        printer.finish(outcome)
    if not outcome.ok:
        raise typer.Exit(1)


async def _ask(
    prompt: PromptDefinition, terms: dict[str, object] | None, provider: Provider, listen: Listen | None
) -> Outcome:
    from trustgraph_prompt.ask import ask
    from trustgraph_prompt.reader import read

    try:
        if terms is None:
            return replace(read("[]", prompt.contract), calls=())
        return await ask(prompt, prompt.question(terms), provider, listen=listen)
    finally:
        await provider.close()
