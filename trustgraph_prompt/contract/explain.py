"""Why a value is refused: few issues, each with a path, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

from trustgraph_prompt.contract.branches import branches_of, chosen_by, discriminator_of
from trustgraph_prompt.contract.pointer import pointer
from trustgraph_prompt.contract.validator import Validator
from trustgraph_prompt.errors import Issue, Reason

MAX_ISSUES = 20
MAX_SHOWN = 60

_REASONS = {
    "required": Reason.SCHEMA_MISSING_FIELD,
    "additionalProperties": Reason.SCHEMA_EXTRA_FIELD,
    "unevaluatedProperties": Reason.SCHEMA_EXTRA_FIELD,
    "type": Reason.SCHEMA_TYPE_ERROR,
}


def explain(validator: Validator, schema: object, value: object) -> tuple[Issue, ...]:
    """The issues of a value that `validator` refuses, at most `MAX_ISSUES`, never none.

    Where a `oneOf` or `anyOf` at the top refuses it, only the branch that was meant is reported: the one
    that the discriminator names, else the one that comes nearest.
    """
    try:
        found = islice(_issues(validator.errors(value), schema, value), MAX_ISSUES)
        issues = tuple(dict.fromkeys(found))
    except ValueError as error:
        issues = (Issue(Reason.SCHEMA_VALUE_ERROR, cut(str(error), 200)),)
    return issues or (Issue(Reason.SCHEMA_VALUE_ERROR, "does not meet the schema"),)


def why(error: jsonschema_rs.ValidationError) -> Issue:
    """One error, as an issue; of alternatives, the one that comes nearest."""
    return next(_issues([error], None, None))


def _issues(
    errors: Iterable[jsonschema_rs.ValidationError], schema: object, value: object
) -> Iterator[Issue]:
    for error in errors:
        branches = getattr(error.kind, "context", None)
        if not branches or not all(branches):  # one that has no errors: it fits, as another one does
            yield _issue(error)
        elif not error.instance_path and (name := discriminator_of(schema)) and isinstance(value, dict):
            yield from _discriminated(branches, schema, value, name)
        else:
            yield from _issues(min(branches, key=_distance), None, value)


def _discriminated(
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
    schema: object,
    value: Mapping[str, Any],
    name: str,
) -> Iterator[Issue]:
    choices = [chosen_by(branch, name) for branch in branches_of(schema)]
    allowed = " or ".join(show(choice) for group in choices for choice in group)
    if name not in value:
        yield Issue(Reason.SCHEMA_MISSING_FIELD, f"{show(name)} is missing, expected {cut(allowed, 200)}")
        return
    meant = [errors for errors, group in zip(branches, choices, strict=False) if value[name] in group]
    if not meant:
        message = f"expected {cut(allowed, 200)}, found {show(value[name])}"
        yield Issue(Reason.SCHEMA_VALUE_ERROR, message, pointer((name,)))
        return
    yield from _issues(meant[0], None, value)


def _distance(errors: Iterable[jsonschema_rs.ValidationError]) -> tuple[bool, int]:
    """How far a branch is from fitting: one that wants another type altogether is the farthest."""
    wrong_type = [error.kind.name == "type" and not error.instance_path for error in errors]
    return any(wrong_type), len(wrong_type)


def _issue(error: jsonschema_rs.ValidationError) -> Issue:
    keyword = error.kind.name
    return Issue(
        _REASONS.get(keyword, Reason.SCHEMA_VALUE_ERROR), _message(error), pointer(error.instance_path)
    )


def _message(error: jsonschema_rs.ValidationError) -> str:
    keyword, details, found = error.kind.name, error.kind.as_dict(), error.instance
    match keyword:
        case "required":
            return f"{show(details['property'])} is missing"
        case "additionalProperties" | "unevaluatedProperties":
            names = ", ".join(show(name) for name in details["unexpected"][:5])
            return f"unexpected {names}"
        case "type":
            kind = "" if found is None or isinstance(found, dict | list) else f"{_kind(found)} "
            return f"expected {' or '.join(details['types'])}, found {kind}{show(found)}"
        case "enum":
            options = " or ".join(show(option) for option in details["options"])
            return f"expected {cut(options, 200)}, found {show(found)}"
        case "const":
            return f"expected {show(details['expected_value'])}, found {show(found)}"
        case "falseSchema":
            return f"nothing is allowed here, found {show(found)}"
        case "format":
            return f"expected format {details['format']}, found {show(found)}"
        case "oneOf":
            return f"fits more than one of the alternatives: {show(found)}"
    expected = next((v for v in details.values() if isinstance(v, str | int | float)), None)
    limit = keyword if expected is None else f"{keyword} {cut(str(expected), MAX_SHOWN)}"
    return f"expected {limit}, found {show(found)}"


def show(value: object) -> str:
    """A value for people: JSON, at most `MAX_SHOWN` characters; containers by their kind and size."""
    if isinstance(value, dict | list):
        return f"{_kind(value)} of {len(value)}"
    if isinstance(value, str):
        return f'"{cut(value, MAX_SHOWN)}"'
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge integer"
    return cut(str(value), MAX_SHOWN)


def _kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of a text."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
