"""Validates structured responses, with the messages and codes of AION."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trustgraph_prompt.doors.structured_response.parser import read_text
from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.doors.structured_response.schema import (
    CURRENT_SCHEMA_VERSION,
    SCHEMAS,
    STRUCTURED_RESPONSE,
    WITHOUT_REPAIR,
    version_of,
)
from trustgraph_prompt.errors import ContractError, Issue, Reason
from trustgraph_prompt.reader import Stage
from trustgraph_prompt.reader.decode import decode

ReasonCode = Reason
"""Why a response was rejected, or `SUCCESS`: AION's codes are a subset of the reader's reasons."""

_INVALID_JSON = frozenset(
    {Reason.EMPTY, Reason.INVALID_JSON, Reason.EXTRACTION_FAILED, Reason.AMBIGUOUS, Reason.TRUNCATED}
)

_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


class ResponseValidator:
    """Validates structured responses of all versions."""

    REQUIRED_FIELDS_V1 = frozenset(SCHEMAS["1.0"]["required"])
    REQUIRED_FIELDS_V2 = frozenset(SCHEMAS["2.0"]["required"])

    @classmethod
    def get_required_fields(cls, version: str) -> set[str]:
        """The required fields of a version. Raises `ContractError` for an unsupported one."""
        return set(SCHEMAS[version_of(version)]["required"])

    @classmethod
    def validate(cls, data: object) -> tuple[bool, list[str], ReasonCode]:
        """Whether `data` is a valid response, all errors, and the code of the first one."""
        issues = STRUCTURED_RESPONSE.issues(data)
        if not issues:
            return True, [], ReasonCode.SUCCESS
        return False, list(_messages(issues, data)), issues[0].reason

    @classmethod
    def parse_and_validate(cls, json_str: str) -> tuple[StructuredResponse | None, list[str], ReasonCode]:
        """Read a text that is only JSON: the response or None, all errors, and the code of the first one."""
        outcome = read_text(json_str, WITHOUT_REPAIR)
        if outcome.reason in _INVALID_JSON or outcome.stage > Stage.DIRECT:
            problem = "there is text around the JSON" if outcome.ok else outcome.explain()
            return None, [f"Invalid JSON: {problem}"], ReasonCode.INVALID_JSON
        if outcome.ok:
            return StructuredResponse.of_accepted(outcome.value), [], ReasonCode.SUCCESS
        _, errors, reason = cls.validate(decode(outcome.rejected[0].raw))
        return None, errors, reason


def _messages(issues: tuple[Issue, ...], data: object) -> Iterator[str]:
    """The issues in AION's words; missing fields come first."""
    properties: dict[str, Any] = {}
    if isinstance(data, dict):
        try:
            schema = SCHEMAS[version_of(data.get("schema_version", CURRENT_SCHEMA_VERSION))]
        except ContractError:
            pass  # an issue reports it
        else:
            properties = schema["properties"]
            missing = [name for name in schema["required"] if name not in data]
            yield from (f"Missing required field: {name}" for name in missing)
    for issue in issues:
        field = issue.path.removeprefix("/")
        if issue.reason is Reason.SCHEMA_TYPE_ERROR and field in properties:
            types = properties[field]["type"]
            named = [_TYPES[name] for name in (types if isinstance(types, list) else [types])]
            yield f"'{field}' must be {' or '.join(named)}"
        elif issue.reason is not Reason.SCHEMA_MISSING_FIELD:
            yield str(issue)
