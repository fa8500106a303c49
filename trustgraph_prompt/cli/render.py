"""`render`: renders a prompt, without sending it."""

from __future__ import annotations

import typer

from trustgraph_prompt.cli import options, output, prompt_options
from trustgraph_prompt.cli.options import argument

EXAMPLE = "render extract-definitions --term text=@notes.txt"


def command(
    prompt: str = argument("ID", "The prompt to render."),
    term: prompt_options.TermOption = None,
    templates: prompt_options.TemplatesOption = None,
    ontology: prompt_options.OntologyOption = None,
    ontology_language: prompt_options.OntologyLanguageOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Render a prompt with the given terms and print it.

    Prints the system message, the examples that are shown, and the prompt that `ask` would send.
    """
    from trustgraph_prompt.ask.messages import opening

    definition = prompt_options.prompt(prompt_options.prompts(templates), prompt)
    terms = prompt_options.terms(term)
    index = prompt_options.ontology(ontology, ontology_language)
    of_ontology = prompt_options.ontology_terms(definition, terms, index)
    prompt_options.warn_of_terms(definition, {**terms, **of_ontology})
    definition, every = prompt_options.within(definition, terms, index)
    if every is None:
        return
    question = definition.question(every)
    messages = opening(definition, question)
    texts = [message.text for message in messages if message.is_example]
    examples = list(zip(texts[::2], texts[1::2], strict=True))
    asked = messages[-1].text
    if as_json:
        shown = [{"prompt": passage, "answer": answer} for passage, answer in examples]
        output.print_json(
            {"system": question.system, **({"examples": shown} if shown else {}), "prompt": asked}
        )
    else:
        parts = [f"[example]\n{passage}\n\n[answer]\n{answer}\n\n" for passage, answer in examples]
        typer.echo(f"[system]\n{question.system}\n\n{''.join(parts)}[prompt]\n{asked}")
