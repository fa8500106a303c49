"""What models give as an answer, which is not always a text."""

from __future__ import annotations

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader import Outcome, read


def read_text(text: object, contract: Contract) -> Outcome:
    """What a text says. Models that have nothing to say give None, and that is empty, too."""
    if isinstance(text, str):
        return read(text, contract)
    issue = Issue(Reason.EMPTY, f"the answer is no text but {type(text).__name__}")
    return Outcome(None, Reason.EMPTY, contract, issues=(issue,))
