"""Explains why a value is rejected: a few issues, each with path, expected and found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

from trustgraph_prompt.contract.alternatives import branches_of, chosen_by, discriminator_of
from trustgraph_prompt.contract.limits import StepMeter, TooCostly
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.contract.validator import Validator, readable, surrogate_safe
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text.pointer import follow, pointer
from trustgraph_prompt.json_text.values import type_of
from trustgraph_prompt.json_text.values_in_strings import PATTERNS_IN_WORDS

MAX_ISSUES = 20
MAX_ERRORS = 200  # of one value that are examined
MAX_SHOWN = 60

_REASONS = {
    "required": Reason.SCHEMA_MISSING_FIELD,
    "additionalProperties": Reason.SCHEMA_EXTRA_FIELD,
    "unevaluatedProperties": Reason.SCHEMA_EXTRA_FIELD,
    "type": Reason.SCHEMA_TYPE_ERROR,
}

_VALUES = ("enum", "const")


def explain(validator: Validator, value: object, meter: StepMeter) -> tuple[Issue, ...]:
    """Return the issues of an invalid value: at least one, at most `MAX_ISSUES`.

    For a `oneOf` or `anyOf`, only one branch is reported: the one that the discriminator picks, else the one
    with the fewest errors.
    """
    try:
        issues = surrogate_safe(lambda value: _explained(validator, value, meter), value)
    except TooCostly as error:
        issues = (Issue(Reason.SCHEMA_VALUE_ERROR, str(error)),)
    except ValueError:  # the depth to which the library reports errors is limited
        issues = (
            Issue(Reason.SCHEMA_VALUE_ERROR, "does not meet the schema, and is nested too deep to say where"),
        )
    return issues or (Issue(Reason.SCHEMA_VALUE_ERROR, "does not meet the schema"),)


def _explained(validator: Validator, value: object, meter: StepMeter) -> tuple[Issue, ...]:
    if (union := validator.union) is not None and isinstance(value, dict):
        branch = union.meant(value)  # the only one that the value is validated against
        if branch is None:
            place = validator.paths[id(union.branches[0])][:-1]
            return (_unknown_branch(union.name, union.choices, value, [], _keyword(place)),)
        if found := _few(_issues(validator.errors(value, meter, branch), validator.references)):
            return found
    return _few(_issues(validator.errors(value, meter), validator.references))


def _few(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    return tuple(dict.fromkeys(islice(issues, MAX_ISSUES)))


def issue_of(error: jsonschema_rs.ValidationError) -> Issue:
    """The issue of an error; for alternatives, that of the branch with the fewest errors."""
    return next(_issues([error], References({})))


def unexpected(value: object, stripped: object) -> Iterator[Issue]:
    """Yield an issue for each object in `value` that has keys which it lacks in `stripped`."""
    todo: list[tuple[tuple[str | int, ...], Any, Any]] = [((), value, stripped)]
    while todo:
        path, before, after = todo.pop()
        if before is after:
            continue
        if isinstance(before, dict):
            if extra := [name for name in before if name not in after]:
                message, place = readable(_unexpected(extra)), readable(pointer(path))
                yield Issue(Reason.SCHEMA_EXTRA_FIELD, message, place, "/extra")
            pairs = [((*path, name), before[name], after[name]) for name in after]
        else:
            pairs = [((*path, i), *pair) for i, pair in enumerate(zip(before, after, strict=True))]
        todo += reversed(pairs)


def _issues(errors: Iterable[jsonschema_rs.ValidationError], references: References) -> Iterator[Issue]:
    listed = list(islice(errors, MAX_ERRORS))
    with_values = {tuple(error.instance_path) for error in listed if error.kind.name in _VALUES}
    for error in listed:
        if error.kind.name == "type" and tuple(error.instance_path) in with_values:
            continue  # the issue with the allowed values implies it
        branches = getattr(error.kind, "context", None)
        if not branches or not all(branches):  # a branch without errors: more than one branch fits
            keyword = _keyword(_rule(error, references))
            yield Issue(_reason(error), _message(error), pointer(error.instance_path), keyword)
            continue
        alternatives = _alternatives(error, references)
        name = discriminator_of(alternatives)
        if name is not None and isinstance(error.instance, dict):
            yield from _discriminated(error, alternatives, name, references)
        elif all(
            [(one.kind.name, one.instance_path) for one in branch] == [("type", error.instance_path)]
            for branch in branches
        ):  # the only error of each branch is the type
            types = [name for branch in branches for name in branch[0].kind.as_dict()["types"]]
            message, place = _of_type(types, error.instance), pointer(error.instance_path)
            yield Issue(Reason.SCHEMA_TYPE_ERROR, message, place, _keyword(error.schema_path))
        else:
            yield from _issues(min(branches, key=lambda branch: _distance(branch, error)), references)


def _alternatives(error: jsonschema_rs.ValidationError, references: References) -> list[dict[str, Any]]:
    """The branches of the `oneOf` or `anyOf` of an error."""
    holder = follow(references.root, pointer(error.schema_path[:-1]))
    return branches_of(holder, references) if isinstance(holder, dict) else []


def _discriminated(
    error: jsonschema_rs.ValidationError,
    alternatives: Sequence[Mapping[str, Any]],
    name: str,
    references: References,
) -> Iterator[Issue]:
    value: Any = error.instance
    choices = [chosen_by(branch, name) for branch in alternatives]
    branches = getattr(error.kind, "context", ())
    pairs = zip(branches, choices, strict=False)
    meant = next((errors for errors, group in pairs if name in value and value[name] in group), None)
    if meant is None:
        yield _unknown_branch(name, choices, value, error.instance_path, _keyword(error.schema_path))
    else:
        yield from _issues(meant, references)


def _unknown_branch(
    name: str,
    choices: Iterable[Iterable[Any]],
    value: Mapping[str, Any],
    place: Sequence[str | int],
    keyword: str,
) -> Issue:
    """The issue of an object whose discriminator `name` picks no branch."""
    allowed = excerpt(" or ".join(show(choice) for group in choices for choice in group), 200)
    if name not in value:
        message = f"{show(name)} is missing, expected {allowed}"
        return Issue(Reason.SCHEMA_MISSING_FIELD, message, pointer(place), keyword)
    message = f"expected {allowed}, found {show(value[name])}"
    return Issue(Reason.SCHEMA_VALUE_ERROR, message, pointer((*place, name)), keyword)


def _rule(error: jsonschema_rs.ValidationError, references: References) -> list[str | int]:
    """The path of the keyword that an error is about; of `required`, that of the name which is missing."""
    path = list(error.schema_path)
    if error.kind.name == "required":
        names = follow(references.root, pointer(path))
        name = error.kind.as_dict()["property"]
        path += [names.index(name)] if isinstance(names, list) and name in names else []
    return path


def _keyword(path: Iterable[str | int]) -> str:
    return pointer(("schema", *path))


def _distance(
    errors: Iterable[jsonschema_rs.ValidationError], whole: jsonschema_rs.ValidationError
) -> tuple[bool, int]:
    """How far a branch is from accepting the value; farthest if the value itself has the wrong type."""
    path = whole.instance_path
    wrong_type = [
        error.instance_path == path and _reason(error) is Reason.SCHEMA_TYPE_ERROR for error in errors
    ]
    return any(wrong_type), len(wrong_type)


def _reason(error: jsonschema_rs.ValidationError) -> Reason:
    keyword = error.kind.name
    if keyword in _VALUES:
        details = error.kind.as_dict()
        types = set(map(type_of, details.get("options", [details.get("expected_value")])))
        if type_of(error.instance) not in (types | {"integer"} if "number" in types else types):
            return Reason.SCHEMA_TYPE_ERROR
    return _REASONS.get(keyword, Reason.SCHEMA_VALUE_ERROR)


def _message(error: jsonschema_rs.ValidationError) -> str:
    keyword, details, found = error.kind.name, error.kind.as_dict(), error.instance
    match keyword:
        case "required":
            return f"{show(details['property'])} is missing"
        case "additionalProperties" | "unevaluatedProperties":
            return _unexpected(details["unexpected"])
        case "type":
            return _of_type(details["types"], found)
        case "enum":
            options = " or ".join(show(option) for option in details["options"])
            return f"expected {excerpt(options, 200)}, found {show(found)}"
        case "const":
            return f"expected {show(details['expected_value'])}, found {show(found)}"
        case "falseSchema":
            return f"nothing is allowed here, found {show(found)}"
        case "format":
            return f"expected format {details['format']}, found {show(found)}"
        case "pattern" if words := PATTERNS_IN_WORDS.get(details["pattern"]):
            return f"expected {words}, found {show(found)}"
        case "oneOf":
            return f"fits more than one of the alternatives: {show(found)}"
    expected = next((v for v in details.values() if isinstance(v, str | int | float)), None)
    limit = keyword if expected is None else f"{keyword} {excerpt(str(expected), MAX_SHOWN)}"
    return f"expected {limit}, found {show(found)}"


def _of_type(types: Iterable[str], found: object) -> str:
    kind = "" if found is None or isinstance(found, dict | list) else f"{type_of(found)} "
    return f"expected {' or '.join(dict.fromkeys(types))}, found {kind}{show(found)}"


def _unexpected(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"unexpected {', '.join(map(show, names[:5]))}{more}"


def show(value: object) -> str:
    """A value for a message: JSON of at most `MAX_SHOWN` characters; of a container its type and size."""
    if isinstance(value, dict | list):
        return f"{type_of(value)} of {len(value)}"
    if isinstance(value, str):
        return f'"{excerpt(value, MAX_SHOWN)}"'
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge integer"
    return excerpt(str(value), MAX_SHOWN)
