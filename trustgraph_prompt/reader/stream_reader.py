"""Reads answers, whole or chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.json_text.thinking import Notation, notation
from trustgraph_prompt.outcome import CallReport, Outcome
from trustgraph_prompt.reader.changed_strings import LatexCommands
from trustgraph_prompt.reader.markers import markers_of
from trustgraph_prompt.reader.plain_jsonl import PlainJsonl
from trustgraph_prompt.reader.read_json import read_value
from trustgraph_prompt.reader.read_jsonl import JsonlReader
from trustgraph_prompt.reader.truncation import is_truncated

_BOM = "\ufeff"

# Steps per character of hostile text, each a few nanoseconds.
_READING = 250
_REPAIRING = 1_000


def read(
    text: str,
    contract: Contract | Format,
    *,
    finish_reason: str | None = None,
    terms: Mapping[str, object] | None = None,
    thinking: Notation | None = None,
) -> Outcome:
    """Read an answer by a contract, or by a mere format. Never raises for a bad answer: see `Outcome`.

    `finish_reason` is why the model stopped, as the server reported it ("length" means truncated), None if it
    did not. `terms` are those of the question, in which the contract may require values to be found; without
    them, none is searched for. `thinking` is what opens and what closes the model's thinking, where this is
    none of the usual notations. Raises `ConfigError` for marks that values or code fences could begin with.
    """
    reader = StreamReader(contract, terms, thinking)
    reader.feed(text)
    return reader.close(finish_reason)


def reading_effort(characters: int, contract: Contract | Format) -> int:
    """Estimate the steps, of a few nanoseconds each, that reading takes at most for any text of that length.

    Callers use it before they read, to decide whether to read in a thread.
    """
    if not isinstance(contract, Contract):
        return 0 if contract == "text" else characters * _READING
    if contract.format == "text":
        return 0
    return characters * (contract.demand + (_REPAIRING if contract.repair else _READING))


class StreamReader:
    """Reads an answer chunk by chunk; the outcome does not depend on how the text is divided into chunks.

    `PlainJsonl` reads the objects of a jsonl answer as long as that is nothing else, `JsonlReader` the rest.
    """

    def __init__(
        self,
        contract: Contract | Format,
        terms: Mapping[str, object] | None = None,
        thinking: Notation | None = None,
    ) -> None:
        if not isinstance(contract, Contract):
            contract = Contract.from_schema(None, format=contract)
        self._contract = contract.with_terms(terms) if contract.asks_terms else contract
        self._commands = LatexCommands(contract.terms if terms is None else terms)
        self._markers = markers_of(None if thinking is None else notation(*thinking))
        self._unread: list[str] = []
        self._read: list[str] = []
        self._lines = PlainJsonl(self._contract) if self._contract.format == "jsonl" else None
        self._objects: JsonlReader | None = None  # from the first text on that is not clean lines

    def feed(self, chunk: str) -> list[object]:
        """Read a chunk, and return the objects that it completes and the contract accepts.

        Only a jsonl answer has any before it is closed.
        """
        if "}" not in chunk or self._contract.format != "jsonl":  # no object ends here
            self._unread.append(chunk)
            return []
        end = chunk.rindex("}") + 1
        self._unread.append(chunk[:end])
        text = "".join(self._unread)
        self._unread = [chunk[end:]]
        objects = None if self._lines is None else self._lines.take(text)
        if objects is None:
            objects = self._scanned().feed(text)
        self._read.append(text)
        return objects

    def due(self, chunk: str) -> int:
        """Estimate the steps that `feed(chunk)` takes at most: 0 where the chunk is only stored.

        A value is judged as a whole once it is complete, so everything read of an open value counts as well;
        so do the clean lines of a first text, which are judged again when more text follows.
        """
        if "}" not in chunk or self._contract.format != "jsonl":
            return 0
        again = len(self._read[0]) if len(self._read) == 1 else 0
        if self._objects is not None:
            again = self._objects.open
        return reading_effort(again + sum(map(len, self._unread)) + len(chunk), self._contract)

    def close(self, finish_reason: str | None = None) -> Outcome:
        """The outcome of the whole answer, the same as `read` of all chunks together. Call it once."""
        rest = "".join(self._unread)
        text = "".join((*self._read, rest))
        return self._outcome(text, rest, CallReport("first", text, finish_reason)).without_terms()

    def _outcome(self, text: str, rest: str, call: CallReport) -> Outcome:
        contract, truncated = self._contract, is_truncated(call.finish_reason)
        if contract.format == "text":
            return Outcome(text, Reason.SUCCESS, contract, truncated=truncated, calls=(call,))
        lines = self._lines
        if lines is not None and (cut := lines.is_cut(rest)) is not None:
            truncated = is_truncated(call.finish_reason, within_value=cut)
            return Outcome(lines.objects, Reason.SUCCESS, contract, truncated=truncated, calls=(call,))
        if not text.removeprefix(_BOM).strip():
            issue = Issue(Reason.EMPTY, "the answer is empty")
            value: list[object] | None = [] if contract.format == "jsonl" else None
            return Outcome(value, Reason.EMPTY, contract, issues=(issue,), truncated=truncated, calls=(call,))
        if contract.format == "json":
            without_bom = " " + text[1:] if text.startswith(_BOM) else text  # positions stay the same
            outcome = read_value(without_bom, contract, call.finish_reason, self._markers, self._commands)
            return replace(outcome, contract=contract, calls=(call,))
        return self._scanned().close(rest, call)

    def _scanned(self) -> JsonlReader:
        """The reader that scans, and goes on where the clean lines end."""
        if self._objects is None:
            lines, self._lines = self._lines, None
            text = "".join(self._read)
            if text and not self._contract.searches:
                self._objects = JsonlReader(self._contract, self._markers, self._commands, lines, text)
            else:
                self._objects = JsonlReader(self._contract, self._markers, self._commands)
                if text:
                    self._objects.feed(text)  # again, with a budget for searching
        return self._objects
