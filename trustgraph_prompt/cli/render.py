"""`render`: the question a prompt would put, without putting it."""

from __future__ import annotations

from typing import Annotated

import typer

from trustgraph_prompt.cli import options, output

EXAMPLE = "Example:  trustgraph-prompt render extract-definitions --term text=@notes.txt"


def command(
    prompt: Annotated[str, typer.Argument(metavar="ID", help="The prompt to render.")],
    term: options.TermOption = None,
    templates: options.TemplatesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the system text and the question that a prompt makes of its terms."""
    definition = options.prompt(options.prompts(templates), prompt)
    terms = options.terms(term)
    options.warn_of_terms(definition, terms)
    question = definition.question(terms)
    if as_json:
        output.print_json({"system": question.system, "prompt": question.prompt})
    else:
        typer.echo(f"[system]\n{question.system}\n\n[prompt]\n{question.prompt}")
