"""Reads the answer of a model as a structured response, and reports the fallback that it took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import perf_counter

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.doors.structured_response.metrics import ResponseMetrics
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.schema import STRUCTURED_RESPONSE, WITH_ALL_KEYS
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader import Outcome, Stage, read


def read_text(text: object, contract: Contract) -> Outcome:
    """Read a text. Anything else counts as empty, such as None from a model without an answer."""
    if isinstance(text, str):
        return read(text, contract)
    issue = Issue(Reason.EMPTY, f"the answer is {type(text).__name__}, expected a string")
    return Outcome(None, Reason.EMPTY, contract, issues=(issue,))


FALLBACKS: Mapping[Stage, str] = {
    Stage.NATIVE: "direct_parse",
    Stage.DIRECT: "direct_parse",
    Stage.EXTRACTED: "extracted_json",
    Stage.REPAIRED: "repaired_json",
    Stage.SALVAGED: "repaired_json",
}
"""AION's name of each stage."""

# Also outside a response, the names of its fields help to recognise keys without quotes.
_ANY_OBJECT = Contract.from_schema(
    {"type": ["object", "array"], "properties": {name: {} for name in STRUCTURED_RESPONSE.names()}},
    repair=True,
)


class ResponseParser:
    """Reads structured responses; has no state."""

    @classmethod
    def parse_with_fallbacks(
        cls, response_text: str, enable_metrics: bool = True, *, metrics: ResponseMetrics | None = None
    ) -> tuple[StructuredResponse | None, str]:
        """Read a response, and name its fallback: `direct_parse`, `extracted_json` or `repaired_json`.

        Returns None and `parse_failed: …` with the reason if there is none; never raises. Counts the result
        in `metrics`, by default the shared instance, unless `enable_metrics` is false.
        """
        began = perf_counter()
        outcome = cls.read(response_text)
        if enable_metrics:
            (metrics or ResponseMetrics.get_instance()).record(outcome, (perf_counter() - began) * 1000)
        return cls.result(outcome)

    @classmethod
    def read(cls, response_text: str) -> Outcome:
        """Read a text, and return the whole outcome."""
        return read_text(response_text, STRUCTURED_RESPONSE)

    @classmethod
    def result(cls, outcome: Outcome) -> tuple[StructuredResponse | None, str]:
        """Convert an outcome to the result of `parse_with_fallbacks`."""
        if not outcome.ok:
            return None, f"parse_failed: {outcome.explain()}"
        truncated = outcome.stage is Stage.SALVAGED
        return StructuredResponse.of_accepted(outcome.value, truncated=truncated), FALLBACKS[outcome.stage]

    @classmethod
    def extract_json(cls, text: str) -> str | None:
        """The part of a text that is read as the response, verbatim, valid or not."""
        outcome = cls.read(text)
        if outcome.ok:
            assert outcome.span is not None
            return text[slice(*outcome.span)]
        return outcome.rejected[0].raw if outcome.rejected else None

    @classmethod
    def repair_json(cls, broken_json: str) -> str | None:
        """Repair a response or any other object or array; None if it cannot be repaired.

        Valid JSON is returned verbatim.
        """
        for contract in (WITH_ALL_KEYS, _ANY_OBJECT):
            outcome = read_text(broken_json, contract)
            if outcome.ok and outcome.stage > Stage.EXTRACTED:
                return json.dumps(outcome.value, ensure_ascii=False)
            if outcome.ok:
                assert outcome.span is not None
                return broken_json[slice(*outcome.span)]
        return None
