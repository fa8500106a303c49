"""The instructions and feedback for the model, and the errors, in the words of StreetRace."""

from __future__ import annotations

from trustgraph_prompt.contract.instructions import PLAIN, Wording
from trustgraph_prompt.errors import (
    JSONParseError,
    ProviderError,
    Reason,
    SchemaValidationError,
    StructuredOutputInvalid,
)
from trustgraph_prompt.reader import Outcome

WORDING = Wording(
    one="IMPORTANT: You MUST respond with valid JSON that matches this schema:\n"
    "```json\n{schema}\n```\n\n"
    "Do NOT include any text outside the JSON object.",
    many="IMPORTANT: You MUST respond with a JSON array of objects, where each element matches this schema:\n"
    "```json\n{schema}\n```\n\n"
    "Do NOT include any text outside the JSON array.",
    lines=PLAIN.lines,
)
"""The instructions that are appended to the question: `contract.instructions(WORDING)`."""

_NO_JSON = frozenset(
    {
        Reason.EMPTY,
        Reason.REFUSED,
        Reason.INVALID_JSON,
        Reason.EXTRACTION_FAILED,
        Reason.AMBIGUOUS,
        Reason.REPAIR_FAILED,
        Reason.TRUNCATED,
    }
)


def feedback(schema_name: str, outcome: Outcome) -> str:
    """The message to the model about an invalid answer."""
    return f"Error: {_problem(schema_name, outcome)}\n\nPlease fix the JSON and try again."


def error_of(schema_name: str, outcome: Outcome) -> Exception:
    """The error for an outcome without a value: the provider's, or one of StreetRace.

    As there, an answer without JSON raises `SchemaValidationError`, whose cause is the `JSONParseError`.
    """
    problem = _problem(schema_name, outcome)
    if not isinstance(problem, JSONParseError):
        return problem
    error = SchemaValidationError(schema_name, [str(problem)], outcome.text, cause=problem)
    error.__cause__ = problem
    return error


def _problem(schema_name: str, outcome: Outcome) -> Exception:
    """The problem of one answer or of its provider."""
    if isinstance(outcome.cause, ProviderError):
        return outcome.cause
    try:
        outcome.unwrap()
    except StructuredOutputInvalid as invalid:
        if outcome.contract.format == "text" or outcome.reason is Reason.BUDGET_SPENT:
            return invalid
        if outcome.reason in _NO_JSON:
            return JSONParseError(outcome.text, outcome.explain(), cause=invalid)
        errors = [str(issue) for issue in invalid.issues]
        return SchemaValidationError(schema_name, errors, outcome.text, cause=invalid)
    raise ValueError("the outcome has a value")
