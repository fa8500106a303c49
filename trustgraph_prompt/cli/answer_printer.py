"""An answer on standard output as it comes, and on standard error what there is to say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import output, truncation_advice
from trustgraph_prompt.errors import ProviderAuthentication, Reason
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.llm import api_key

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Piece
    from trustgraph_prompt.prompts import PromptDefinition
    from trustgraph_prompt.reader import Outcome


class AnswerPrinter:
    """Prints text and objects at once, and a json value at the end.

    `begin` is called before the first of them. An object that is printed already waits for the end, when it
    is known whether it stands twice, or was a draft before.
    """

    def __init__(self, prompt: PromptDefinition, begin: Callable[[], None]) -> None:
        self._prompt = prompt
        self._begin = begin
        self._printed: dict[bytes, Any] = {}
        self._text_ends = ""  # with what

    async def listen(self, piece: Piece) -> None:
        """Print what has come. Raises `BrokenPipeError` where nobody reads any more."""
        match self._prompt.contract.format:
            case "text":
                self._begin()
                typer.echo(piece.text, nl=False)  # which flushes
                self._text_ends = piece.text[-1:]
            case "jsonl":
                self._begin()
                for value in piece.objects:
                    if (key := canonical(value)) not in self._printed:
                        self._printed[key] = value
                        output.print_object(value)

    def finish(self, outcome: Outcome) -> None:
        """Print what is left, and tell what there is to tell."""
        if self._prompt.contract.format == "jsonl":
            self._settle(outcome.value)
        elif self._text_ends:
            typer.echo("", nl=self._text_ends != "\n")
        else:
            output.print_value(outcome)
        self._explain(outcome)

    def _settle(self, objects: Iterable[Any]) -> None:
        """Print the objects that are not printed yet; name those that are printed and do not stand."""
        drafts = self._printed.copy()
        for value in objects:
            if drafts.pop(canonical(value), None) is None:
                output.print_object(value)
        for value in drafts.values():
            output.note(f"taken back: {output.json_text(value)}")

    def _explain(self, outcome: Outcome) -> None:
        objects = outcome.rejected if outcome.contract.format == "jsonl" else ()
        for rejected in objects:
            for issue in rejected.issues:
                output.note(f"refused object {rejected.index + 1}: {issue}")
        if outcome.truncated:
            self._explain_the_cut(outcome)
        if outcome.escalated == "condition":
            output.note("escalated: the prompt leaves an answer like this to somebody else")
        if outcome.cause is not None:
            output.note(f"error: {outcome.cause}")
        if isinstance(outcome.cause, ProviderAuthentication):
            output.note(api_key.about())
        if not outcome.ok and outcome.reason is not Reason.PROVIDER_ERROR:
            why = f"error: {outcome.reason.value}"
            output.note(why if objects else f"{why}: {outcome.explain()}")

    def _explain_the_cut(self, outcome: Outcome) -> None:
        issues = map(output.issue_as_json, outcome.issues if outcome.ok else ())
        calls = map(asdict, outcome.calls)
        why, lacked_room = truncation_advice.explain([*issues], [*calls], self._prompt.config.answer_limit)
        output.note(f"cut off: {why}")
        if lacked_room:
            output.note(f"{truncation_advice.MORE_ROOM} shorter terms")
