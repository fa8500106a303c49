"""Reads the answer of a model as a structured response, and says what it took to read it."""

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
    """What a text says. Models that have nothing to say give None, and that is empty, too."""
    if isinstance(text, str):
        return read(text, contract)
    issue = Issue(Reason.EMPTY, f"the answer is no text but {type(text).__name__}")
    return Outcome(None, Reason.EMPTY, contract, issues=(issue,))


FALLBACKS: Mapping[Stage, str] = {
    Stage.NATIVE: "direct_parse",
    Stage.DIRECT: "direct_parse",
    Stage.EXTRACTED: "extracted_json",
    Stage.REPAIRED: "repaired_json",
    Stage.SALVAGED: "repaired_json",
}
"""What seed 3 calls each stage."""

# Where it is no response, the names of its fields still tell what is a key where quotes are missing.
_ANY_OBJECT = Contract.from_schema(
    {"type": ["object", "array"], "properties": {name: {} for name in STRUCTURED_RESPONSE.names()}},
    repair=True,
)


class ResponseParser:
    """Reads structured responses; keeps nothing itself."""

    @classmethod
    def parse_with_fallbacks(
        cls, response_text: str, enable_metrics: bool = True, *, metrics: ResponseMetrics | None = None
    ) -> tuple[StructuredResponse | None, str]:
        """The response in a text, and what it took: `direct_parse`, `extracted_json` or `repaired_json`.

        None and `parse_failed: …` with the reason where there is none; never raises. It is counted in
        `metrics`, by default in the one instance that all share, unless `enable_metrics` is false.
        """
        began = perf_counter()
        outcome = cls.read(response_text)
        if enable_metrics:
            (metrics or ResponseMetrics.get_instance()).record(outcome, (perf_counter() - began) * 1000)
        return cls.told(outcome)

    @classmethod
    def read(cls, response_text: str) -> Outcome:
        """All that came of reading a text."""
        return read_text(response_text, STRUCTURED_RESPONSE)

    @classmethod
    def told(cls, outcome: Outcome) -> tuple[StructuredResponse | None, str]:
        """The same in the words of seed 3."""
        if not outcome.ok:
            return None, f"parse_failed: {outcome.explain()}"
        truncated = outcome.stage is Stage.SALVAGED
        return StructuredResponse.of_accepted(outcome.value, truncated=truncated), FALLBACKS[outcome.stage]

    @classmethod
    def extract_json(cls, text: str) -> str | None:
        """The part of a text that is taken for the response, as it is written, broken or not."""
        outcome = cls.read(text)
        if outcome.ok:
            assert outcome.span is not None
            return text[slice(*outcome.span)]
        return outcome.rejected[0].raw if outcome.rejected else None

    @classmethod
    def repair_json(cls, broken_json: str) -> str | None:
        """The JSON that was meant, a response or any other object or array; None where nobody can tell.

        What is sound stays as it is written.
        """
        for contract in (WITH_ALL_KEYS, _ANY_OBJECT):
            outcome = read_text(broken_json, contract)
            if outcome.ok:
                return _written(broken_json, outcome)
        return None


def _written(text: str, outcome: Outcome) -> str:
    """The value of an outcome as JSON: as it stands in the text, where that is sound."""
    if outcome.stage > Stage.EXTRACTED:
        return json.dumps(outcome.value, ensure_ascii=False)
    assert outcome.span is not None
    return text[slice(*outcome.span)]
