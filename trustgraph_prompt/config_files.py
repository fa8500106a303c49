"""YAML and JSON files that an author wrote, held against a JSON Schema, with errors an author understands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import yaml

from trustgraph_prompt.errors import ConfigError, excerpt, raise_first, suggestion
from trustgraph_prompt.json_text.pointer import pointer

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_ERRORS = 100
"""How many things that are wrong in one document are looked at."""

MAX_FILE_BYTES = 4 * 1024 * 1024

YAML = "tag:yaml.org,2002:"
JSON_TAGS = {YAML + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")}

TYPES = {
    "null": "nothing",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "keys with values",
}


class _PlainLoader(yaml.SafeLoader):
    """YAML as plain JSON: keys are text, none stands twice; no dates, no NaN, none of YAML's own types.

    No aliases either, which can make a book out of a line.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem="aliases are not allowed", problem_mark=alias.start_mark
            )
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag not in JSON_TAGS:
            raise yaml.constructor.ConstructorError(
                problem=f"{node.tag.removeprefix(YAML)} is not among the types of JSON",
                problem_mark=node.start_mark,
            )
        value = super().construct_object(node, deep)
        if isinstance(value, float) and not math.isfinite(value):
            raise yaml.constructor.ConstructorError(
                problem=f"{value} is no number of JSON", problem_mark=node.start_mark
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            wrong = None if isinstance(key, yaml.ScalarNode) else "a key must be a name"
            if wrong is None and key.value in seen:
                wrong = f"the key {key.value!r} stands twice"
            if wrong is not None:
                raise yaml.constructor.ConstructorError(problem=wrong, problem_mark=key.start_mark)
            seen.add(key.value)
            key.tag = f"{YAML}str"  # `yes: 1` and `1: x` are named "yes" and "1"
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_text(path: Path, error: type[ConfigError] = ConfigError) -> str:
    """The text of a file. Raises `error` naming the file."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise error(f"larger than {MAX_FILE_BYTES:,} bytes", where=str(path))
        return path.read_bytes().decode()
    except OSError as cause:
        raise error(cause.strerror or str(cause), where=str(path)) from None
    except UnicodeDecodeError as cause:
        raise error(f"not UTF-8 at byte {cause.start}", where=str(path)) from None


def read_yaml(path: Path, error: type[ConfigError] = ConfigError) -> Any:
    """The document in a file (JSON is YAML). Raises `error` naming file and line."""
    text = read_text(path, error)
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise error(f"not YAML: {cause.problem or cause.context}", where=where) from None
    except (yaml.YAMLError, RecursionError) as cause:
        raise error(f"not YAML: {cause}", where=str(path)) from None


def check(
    document: Any, schema: Mapping[str, Any], where: str, error: type[ConfigError] = ConfigError
) -> None:
    """Raise `error` for what in `document` the `schema` does not allow; the rest are its `others`."""
    if _is_valid(document, schema):
        return
    raise_first(_errors(document, schema, where, error))


def _is_valid(document: Any, schema: Mapping[str, Any]) -> bool:
    """Whether there is nothing to explain: what explains takes longer to import than files to read."""
    try:
        return jsonschema_rs.is_valid(dict(schema), document)
    except ValueError:  # a key that is no text
        return False


def _errors(
    document: Any, schema: Mapping[str, Any], where: str, error: type[ConfigError]
) -> list[ConfigError]:
    """What the schema does not allow, what is most likely the reason of the rest first."""
    import jsonschema

    explains = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.validators.validator_for(schema), {"uniqueItems": _unique_items}
    )
    problems = list(islice(explains(schema).iter_errors(document), MAX_ERRORS))
    # A misspelt key is often the reason why another one is missing.
    problems.sort(key=lambda problem: problem.validator != "additionalProperties")
    if problems and problems[0].validator != "additionalProperties":
        problems.sort(key=jsonschema.exceptions.relevance, reverse=True)
    return [_error(problem, schema, where, error) for problem in problems]


def _unique_items(
    validator: object, wanted: bool, items: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The keyword, judged natively: the library that explains compares each item with each other one."""
    from jsonschema import ValidationError

    if not jsonschema_rs.is_valid({"uniqueItems": wanted}, items):
        yield ValidationError(f"{excerpt(str(items))} has non-unique elements")


def _error(
    problem: ValidationError, schema: Mapping[str, Any], where: str, error: type[ConfigError]
) -> ConfigError:
    from jsonschema.exceptions import best_match

    misspelt = problem.validator == "additionalProperties"
    if not misspelt:
        problem = best_match([problem]) or problem
    inner: Any = problem.schema
    found: Any = problem.instance
    wanted: Any = problem.validator_value
    path = pointer(problem.absolute_path)
    if misspelt:
        known = inner.get("properties", {})
        unknown = next(key for key in found if key not in known)
        return error(
            f"unknown key{suggestion(str(unknown), known)}",
            where=where,
            path=path + pointer([unknown]),
            found=unknown,
            expected="one of " + ", ".join(sorted(known)),
        )
    if problem.validator == "not" and (keys := wanted.get("required")):
        return error(
            f"the key `{keys[0]}` does not belong here",
            where=where,
            path=path + pointer([keys[0]]),
            found=found[keys[0]],
            expected=inner.get("description", "no such key"),
        )
    if problem.validator == "required":
        missing = next(key for key in wanted if problem.message.startswith(f"{key!r} "))
        known = inner.get("properties") or ({} if path else schema.get("properties", {}))
        described = known.get(missing, {}).get("description")
        return error(
            f"the key `{missing}` is missing",
            where=where,
            path=path,
            found=", ".join(map(str, found)) or "no keys",
            expected=f"`{missing}`: {described}" if described else f"`{missing}` too",
        )
    if problem.validator in ("oneOf", "anyOf"):
        message = "it has none of the forms that it may have"
        expected: str | None = "; or ".join(_form(form, schema) for form in inner[problem.validator])
    else:
        message, expected = _in_words(problem, inner)
    return error(message, where=where, path=path, found=found, expected=expected)


def _in_words(problem: ValidationError, inner: Mapping[str, Any]) -> tuple[str, str | None]:
    """What a keyword has against a value, and what it wants instead."""
    found: Any = problem.instance
    wanted: Any = problem.validator_value
    match problem.validator:
        case "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            return "it is of the wrong type", " or ".join(TYPES[name] for name in types)
        case "enum":
            near = suggestion(str(found), map(str, wanted))
            return f"it is none of the allowed values{near}", "one of " + ", ".join(map(str, wanted))
        case "pattern":
            return "it does not have the form that it must have", inner.get("description")
        case "minimum":
            return "it is too small", f"at least {wanted:,}"
        case "exclusiveMinimum":
            return "it is too small", f"more than {wanted:,}"
        case "maximum":
            return "it is too large", f"at most {wanted:,}"
        case "minLength" | "minItems" | "minProperties" if not found:
            return "it is empty", "something in it"
        case "maxLength":
            return "it is too long", f"at most {wanted:,} characters"
        case "uniqueItems":
            return "something stands in it twice", "each of its items once"
    return excerpt(problem.message), None


def _form(form: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """One form of several, in words."""
    if "$ref" in form:
        form = schema["$defs"][form["$ref"].rpartition("/")[2]]
    if keys := form.get("required", form.get("properties")):
        return f"the key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"
    return str(form.get("description") or TYPES[form["type"]])
