"""What the model is told at this door: how to answer, and what was wrong; and the errors (seed 5)."""

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
"""What stands behind the question, in the words of the seed: `contract.instructions(WORDING)`."""

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
    """What the model is told of an answer that is no good."""
    return f"Error: {_problem(schema_name, outcome)}\n\nPlease fix the JSON and try again."


def error_of(schema_name: str, outcome: Outcome) -> Exception:
    """Why there is no value in the end: the provider's failure, else an error of the seed's.

    An answer without JSON is none that meets the schema, as in the seed's flow; the `JSONParseError` is its
    cause.
    """
    problem = _problem(schema_name, outcome)
    if not isinstance(problem, JSONParseError):
        return problem
    error = SchemaValidationError(schema_name, [str(problem)], outcome.text, cause=problem)
    error.__cause__ = problem
    return error


def _problem(schema_name: str, outcome: Outcome) -> Exception:
    """What is wrong with one answer, or with who gave it."""
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
    raise ValueError("there is a value")
