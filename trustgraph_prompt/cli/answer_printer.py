"""Prints an answer on standard output as it arrives, and remarks about it on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import failure_advice, output
from trustgraph_prompt.errors import ProviderError, Reason
from trustgraph_prompt.extraction.review import truncation
from trustgraph_prompt.json_text.encoding import canonical

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Piece
    from trustgraph_prompt.prompts import PromptDefinition
    from trustgraph_prompt.reader import Outcome


class AnswerPrinter:
    """Prints text and objects as they arrive, and a JSON value at the end.

    `begin` is called before the first of them. An object that equals a printed one is held back until the
    end: only then is it known whether it is a second one, or the first was part of a draft.
    """

    def __init__(self, prompt: PromptDefinition, begin: Callable[[], None]) -> None:
        self._prompt = prompt
        self._begin = begin
        self._printed: dict[bytes, Any] = {}
        self._last_character = ""

    async def listen(self, piece: Piece) -> None:
        """Print a piece of the answer. Raises `BrokenPipeError` if the reader of standard output is gone."""
        match self._prompt.contract.format:
            case "text":
                self._begin()
                typer.echo(piece.text, nl=False)  # flushes
                self._last_character = piece.text[-1:]
            case "jsonl":
                self._begin()
                for value in piece.objects:
                    if (key := canonical(value)) not in self._printed:
                        self._printed[key] = value
                        output.print_object(value)

    def finish(self, outcome: Outcome) -> None:
        """Print the rest of the answer, and the remarks."""
        if self._prompt.contract.format == "jsonl":
            self._print_rest(outcome.value)
        elif self._last_character:
            typer.echo("", nl=self._last_character != "\n")
        else:
            output.print_value(outcome)
        self._explain(outcome)

    def _print_rest(self, objects: Iterable[Any]) -> None:
        """Print the objects that are not printed yet; report those that turned out to be drafts."""
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
            issues = [output.issue_as_json(issue) for issue in (outcome.issues if outcome.ok else ())]
            calls = [asdict(call) for call in outcome.calls]
            why, lacked_room = truncation(issues, calls, self._prompt.config.answer_limit)
            output.note(f"truncated: {why}")
            if lacked_room:
                output.note(f"{failure_advice.LONGER_ANSWERS} shorter terms")
        if outcome.escalated == "condition":
            output.note("escalated: the answer matches `escalate`, for another model or a person")
        if outcome.cause is not None:
            output.note(f"error: {outcome.cause}")
        if isinstance(outcome.cause, ProviderError) and (
            setting := failure_advice.failed_call(f"{outcome.cause.category}: {outcome.cause}")
        ):
            output.note(setting)
        if not outcome.ok and outcome.reason is not Reason.PROVIDER_ERROR:
            why = f"error: {outcome.reason.value}"
            output.note(why if objects else f"{why}: {outcome.explain()}")
