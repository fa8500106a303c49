"""Why a value is refused: few issues, each with a path, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

from trustgraph_prompt.contract.alternatives import Alternatives, branches_of, chosen_by, discriminator_of
from trustgraph_prompt.contract.limits import StepMeter, TooCostly
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.contract.validator import Validator, readable, surrogate_safe
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text.pointer import follow, pointer

MAX_ISSUES = 20
MAX_ERRORS = 200  # of one value that are looked at
MAX_SHOWN = 60

_REASONS = {
    "required": Reason.SCHEMA_MISSING_FIELD,
    "additionalProperties": Reason.SCHEMA_EXTRA_FIELD,
    "unevaluatedProperties": Reason.SCHEMA_EXTRA_FIELD,
    "type": Reason.SCHEMA_TYPE_ERROR,
}

_VALUES = ("enum", "const")


def explain(validator: Validator, value: object, meter: StepMeter) -> tuple[Issue, ...]:
    """The issues of a value that `validator` refuses, at most `MAX_ISSUES`, never none.

    Where a `oneOf` or `anyOf` refuses, only the branch that was meant is reported: the one that the
    discriminator names, else the one that comes nearest.
    """
    try:
        issues = surrogate_safe(lambda one: _explained(validator, one, meter), value)
    except TooCostly as error:
        issues = (Issue(Reason.SCHEMA_VALUE_ERROR, str(error)),)
    except ValueError:  # the library looks only so deep for reasons
        issues = (
            Issue(Reason.SCHEMA_VALUE_ERROR, "does not meet the schema, and is nested too deep to say where"),
        )
    return issues or (Issue(Reason.SCHEMA_VALUE_ERROR, "does not meet the schema"),)


def _explained(validator: Validator, value: object, meter: StepMeter) -> tuple[Issue, ...]:
    found: tuple[Issue, ...] = ()
    if validator.union is not None and isinstance(value, dict):
        found = _of_union(validator, validator.union, value, meter)
    return found or _few(_issues(validator.errors(value, meter), validator.references))


def _of_union(
    validator: Validator, union: Alternatives, value: dict[str, Any], meter: StepMeter
) -> tuple[Issue, ...]:
    """As `_discriminated`, but only the branch that was meant looks at the value."""
    branch = union.meant(value)
    if branch is None:
        return (_unnamed(union.name, union.choices, value, []),)
    return _few(_issues(validator.errors(value, meter, branch), validator.references))


def _few(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    return tuple(dict.fromkeys(islice(issues, MAX_ISSUES)))


def why(error: jsonschema_rs.ValidationError) -> Issue:
    """One error, as an issue; of alternatives, the one that comes nearest."""
    return next(_issues([error], None))


def unexpected(value: object, stripped: object) -> Iterator[Issue]:
    """An issue for each object within `value` that has more keys than the same in `stripped`."""
    todo: list[tuple[tuple[str | int, ...], Any, Any]] = [((), value, stripped)]
    while todo:
        path, one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, dict):
            if extra := [name for name in one if name not in other]:
                yield Issue(Reason.SCHEMA_EXTRA_FIELD, readable(_unexpected(extra)), readable(pointer(path)))
            pairs = [((*path, name), one[name], other[name]) for name in other]
        else:
            pairs = [((*path, i), *pair) for i, pair in enumerate(zip(one, other, strict=True))]
        todo += reversed(pairs)


def _issues(
    errors: Iterable[jsonschema_rs.ValidationError], references: References | None
) -> Iterator[Issue]:
    listed = list(islice(errors, MAX_ERRORS))
    told = {tuple(error.instance_path) for error in listed if error.kind.name in _VALUES}
    for error in listed:
        if error.kind.name == "type" and tuple(error.instance_path) in told:
            continue  # the values that there may be say it as well
        branches = getattr(error.kind, "context", None)
        if not branches or not all(branches):  # one that has no errors: it fits, as another one does
            yield _issue(error)
            continue
        alternatives = _alternatives(error, references)
        name = discriminator_of(alternatives)
        if name is not None and isinstance(error.instance, dict):
            yield from _discriminated(error, alternatives, name, references)
        elif all(_is_of_another_type(branch, error) for branch in branches):
            types = [name for branch in branches for name in branch[0].kind.as_dict()["types"]]
            yield Issue(
                Reason.SCHEMA_TYPE_ERROR, _of_type(types, error.instance), pointer(error.instance_path)
            )
        else:
            yield from _issues(min(branches, key=lambda branch: _distance(branch, error)), references)


def _alternatives(
    error: jsonschema_rs.ValidationError, references: References | None
) -> list[dict[str, Any]]:
    """The branches that the value was held against."""
    if references is None:
        return []
    holder = follow(references.root, pointer(error.schema_path[:-1]))
    return branches_of(holder, references) if isinstance(holder, dict) else []


def _discriminated(
    error: jsonschema_rs.ValidationError,
    alternatives: Sequence[Mapping[str, Any]],
    name: str,
    references: References | None,
) -> Iterator[Issue]:
    value: Any = error.instance
    choices = [chosen_by(branch, name) for branch in alternatives]
    branches = getattr(error.kind, "context", ())
    pairs = zip(branches, choices, strict=False)
    meant = next((errors for errors, group in pairs if name in value and value[name] in group), None)
    if meant is None:
        yield _unnamed(name, choices, value, error.instance_path)
    else:
        yield from _issues(meant, references)


def _unnamed(
    name: str, choices: Iterable[Iterable[Any]], value: Mapping[str, Any], place: Sequence[str | int]
) -> Issue:
    """That an object names no branch by its property `name`."""
    allowed = excerpt(" or ".join(show(choice) for group in choices for choice in group), 200)
    if name not in value:
        message = f"{show(name)} is missing, expected {allowed}"
        return Issue(Reason.SCHEMA_MISSING_FIELD, message, pointer(place))
    message = f"expected {allowed}, found {show(value[name])}"
    return Issue(Reason.SCHEMA_VALUE_ERROR, message, pointer((*place, name)))


def _distance(
    errors: Iterable[jsonschema_rs.ValidationError], whole: jsonschema_rs.ValidationError
) -> tuple[bool, int]:
    """How far a branch is from fitting: one that wants another type altogether is the farthest."""
    path = whole.instance_path
    wrong_type = [
        error.instance_path == path and _reason(error) is Reason.SCHEMA_TYPE_ERROR for error in errors
    ]
    return any(wrong_type), len(wrong_type)


def _is_of_another_type(
    errors: Sequence[jsonschema_rs.ValidationError], whole: jsonschema_rs.ValidationError
) -> bool:
    """Whether a branch has nothing against the value but its type."""
    found = [(error.kind.name, error.instance_path) for error in errors]
    return found == [("type", whole.instance_path)]


def _issue(error: jsonschema_rs.ValidationError) -> Issue:
    return Issue(_reason(error), _message(error), pointer(error.instance_path))


def _reason(error: jsonschema_rs.ValidationError) -> Reason:
    keyword = error.kind.name
    if keyword in _VALUES and _kind(error.instance) not in _kinds(error):
        return Reason.SCHEMA_TYPE_ERROR
    return _REASONS.get(keyword, Reason.SCHEMA_VALUE_ERROR)


def _kinds(error: jsonschema_rs.ValidationError) -> set[str]:
    """The types of the values that there may be."""
    details = error.kind.as_dict()
    kinds = set(map(_kind, details.get("options", [details.get("expected_value")])))
    return kinds | {"integer"} if "number" in kinds else kinds


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
        case "oneOf":
            return f"fits more than one of the alternatives: {show(found)}"
    expected = next((v for v in details.values() if isinstance(v, str | int | float)), None)
    limit = keyword if expected is None else f"{keyword} {excerpt(str(expected), MAX_SHOWN)}"
    return f"expected {limit}, found {show(found)}"


def _of_type(types: Iterable[str], found: object) -> str:
    kind = "" if found is None or isinstance(found, dict | list) else f"{_kind(found)} "
    return f"expected {' or '.join(dict.fromkeys(types))}, found {kind}{show(found)}"


def _unexpected(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"unexpected {', '.join(map(show, names[:5]))}{more}"


def show(value: object) -> str:
    """A value for people: JSON, at most `MAX_SHOWN` characters; containers by their kind and size."""
    if isinstance(value, dict | list):
        return f"{_kind(value)} of {len(value)}"
    if isinstance(value, str):
        return f'"{excerpt(value, MAX_SHOWN)}"'
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge integer"
    return excerpt(str(value), MAX_SHOWN)


def _kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")
