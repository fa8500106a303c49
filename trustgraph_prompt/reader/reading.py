"""Reads answers, whole or as they come."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader.objects import Objects, clean_lines
from trustgraph_prompt.reader.outcome import CallReport, Outcome
from trustgraph_prompt.reader.single import read_value
from trustgraph_prompt.reader.truncation import cut_short

_BOM = "\ufeff"


def read(text: str, contract: Contract | Format, *, finish_reason: str | None = None) -> Outcome:
    """What `text` says, by `contract` or by a mere format. Never raises for a bad answer: see `Outcome`.

    `finish_reason` is why the model stopped, as the wire said it ("length" is a cut), None if it did not.
    """
    contract = _contract(contract)
    if contract.format == "jsonl" and (objects := clean_lines(text, contract)):
        return Outcome(
            objects,
            Reason.SUCCESS,
            contract,
            truncated=cut_short(finish_reason),
            calls=(CallReport("first", text, finish_reason),),
        )
    reader = StreamReader(contract)
    reader.feed(text)
    return reader.close(finish_reason)


class StreamReader:
    """Reads an answer chunk by chunk; any chunks of the same text come to the same outcome."""

    def __init__(self, contract: Contract | Format) -> None:
        self._contract = _contract(contract)
        self._unread: list[str] = []
        self._read: list[str] = []
        self._objects = Objects(self._contract) if self._contract.format == "jsonl" else None

    def feed(self, chunk: str) -> list[object]:
        """The objects that this chunk completed and the contract accepts.

        Only a jsonl answer has any; a json value or a text stands when all of it is there.
        """
        if "}" not in chunk or self._objects is None:  # no object ends here
            self._unread.append(chunk)
            return []
        end = chunk.rindex("}") + 1
        self._unread.append(chunk[:end])
        text = "".join(self._unread)
        self._read.append(text)
        self._unread = [chunk[end:]]
        return self._objects.feed(text)

    def close(self, finish_reason: str | None = None) -> Outcome:
        """What the whole answer says: the same as `read` of all chunks together. Call it once."""
        rest = "".join(self._unread)
        text = "".join((*self._read, rest))
        outcome = self._outcome(text, rest, finish_reason)
        return replace(outcome, calls=(CallReport("first", text, finish_reason),))

    def _outcome(self, text: str, rest: str, finish_reason: str | None) -> Outcome:
        contract, truncated = self._contract, cut_short(finish_reason)
        if contract.format == "text":
            return Outcome(text, Reason.SUCCESS, contract, truncated=truncated)
        if not text.removeprefix(_BOM).strip():
            issue = Issue(Reason.EMPTY, "the answer is empty")
            value: list[object] | None = None if self._objects is None else []
            return Outcome(value, Reason.EMPTY, contract, issues=(issue,), truncated=truncated)
        if self._objects is None:
            at_its_place = " " + text[1:] if text.startswith(_BOM) else text
            return read_value(at_its_place, contract, finish_reason)
        return self._objects.close(rest, finish_reason)


def _contract(contract: Contract | Format) -> Contract:
    return contract if isinstance(contract, Contract) else Contract.from_schema(None, format=contract)
