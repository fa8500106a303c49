"""Reads YAML and JSON files of authors and checks them against a JSON Schema, with readable errors."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import jsonschema_rs
import orjson
import yaml

from trustgraph_prompt.errors import ConfigError, excerpt, raise_first, suggestion
from trustgraph_prompt.json_text.pointer import pointer

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_ERRORS = 100
"""Errors of one document that are reported."""

MAX_FILE_BYTES = 4 * 1024 * 1024

MAX_LINES_BYTES = 256 * 1024 * 1024
"""Of a JSON Lines file, which is read whole."""

YAML = "tag:yaml.org,2002:"
JSON_TAGS = {YAML + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")}

TYPES = {
    "null": "null",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "a mapping",
}


_LIMITS = {
    "minimum": ("it is too small", "at least {:,}"),
    "exclusiveMinimum": ("it is too small", "more than {:,}"),
    "maximum": ("it is too large", "at most {:,}"),
    "maxLength": ("it is too long", "at most {:,} characters"),
    "maxItems": ("it has too many items", "at most {:,}"),
    "uniqueItems": ("it has duplicate items", "unique items"),
}
"""What is wrong with a value beyond a limit, and what was expected, by the keyword of the limit."""

_COUNTED = {"minLength": "character", "minItems": "item", "minProperties": "key"}


class _PlainLoader(yaml.SafeLoader):
    """Loads the part of YAML that is plain JSON: string keys without duplicates, no dates, no NaN, no tags.

    Aliases are rejected, as a short file with aliases can expand to gigabytes.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias = self.get_event()  # type: ignore[no-untyped-call]
            _refuse("aliases are not allowed", alias.start_mark)
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag not in JSON_TAGS:
            _refuse(f"{node.tag.removeprefix(YAML)} is not a JSON type", node.start_mark)
        value = super().construct_object(node, deep)
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(f"{value} is not a JSON number", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                _refuse("a key must be a string", key.start_mark)
            if key.value in seen:
                _refuse(f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
            key.tag = f"{YAML}str"  # the keys of `yes: 1` and `1: x` are "yes" and "1"
        return super().construct_mapping(node, deep)


def _refuse(problem: str, at: yaml.Mark) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=at)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_bytes(path: Path, limit: int, error: type[ConfigError] = ConfigError) -> bytes:
    """Read a file of at most `limit` bytes, or a pipe such as `<(…)`. Raises `error` with the file name."""
    try:
        # O_NONBLOCK: opening a named pipe would wait for somebody to write into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            os.set_blocking(file.fileno(), True)
            data = file.read(limit + 1)
            if not data and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise error("a pipe that nobody writes to", where=str(path))
    except OSError as cause:
        raise error(cause.strerror or str(cause), where=str(path)) from None
    if len(data) > limit:
        raise error(f"larger than {limit:,} bytes", where=str(path))
    return data


def read_text(path: Path, error: type[ConfigError] = ConfigError) -> str:
    """Read a UTF-8 file of at most `MAX_FILE_BYTES`. Raises `error` with the file name."""
    try:
        return read_bytes(path, MAX_FILE_BYTES, error).decode()
    except UnicodeDecodeError as cause:
        raise error(f"not UTF-8 at byte {cause.start}", where=str(path)) from None


_ONTOLOGY = "this is an ontology: name it in a flow file, as `ontology: {}`, and give that file"
_NOT_YAML: Final = {
    **dict.fromkeys((".ttl", ".rdf", ".owl", ".jsonld", ".nt", ".obo"), _ONTOLOGY),
    ".prompt": "this is a prompt file, not a flow: give it as --templates {}",
}
"""What is said of files that belong elsewhere, by suffix."""


def read_yaml(path: Path, error: type[ConfigError] = ConfigError) -> Any:
    """Read a YAML or JSON file. Raises `error` with file name and line."""
    text = read_text(path, error)
    if elsewhere := _NOT_YAML.get(path.suffix):
        raise error(elsewhere.format(path.name), where=str(path))
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise error(f"not YAML: {cause.problem or cause.context}", where=where) from None
    except (yaml.YAMLError, RecursionError) as cause:
        raise error(f"not YAML: {cause}", where=str(path)) from None


def read_json_lines(path: Path, schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the values of a JSON Lines file of at most `MAX_LINES_BYTES`, each with its file and line.

    Raises `ConfigError` if a value does not meet `schema`.
    """
    lines = read_bytes(path, MAX_LINES_BYTES).split(b"\n")
    values: list[tuple[str, Any]] = []
    errors: list[ConfigError] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and len(errors) < MAX_ERRORS:
            where = f"{path}:{number}"
            try:
                values.append((where, orjson.loads(line)))
                check(values[-1][1], schema, where)
            except orjson.JSONDecodeError as cause:
                errors.append(ConfigError(f"not JSON: {cause}", where=where))
            except ConfigError as cause:
                errors.append(cause)
    raise_first(errors)
    return values


def check(
    document: Any, schema: Mapping[str, Any], where: str, error: type[ConfigError] = ConfigError
) -> None:
    """Raise `error` if `document` does not meet `schema`; further errors are its `others`.

    The first error is the one that most likely caused the others.
    """
    with suppress(ValueError):  # a key that is not a string
        if _validator(orjson.dumps(schema)).is_valid(document):
            return
    import jsonschema  # takes longer to import than files take to read

    explaining = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.validators.validator_for(schema), {"uniqueItems": _unique_items}
    )
    problems = list(islice(explaining(schema).iter_errors(document), MAX_ERRORS))
    # A misspelt key is often the reason why another one is missing.
    problems.sort(key=lambda problem: problem.validator != "additionalProperties")
    if problems and problems[0].validator != "additionalProperties":
        problems.sort(key=jsonschema.exceptions.relevance, reverse=True)
    raise_first([_error(problem, schema, where, error) for problem in problems])


@lru_cache(maxsize=32)
def _validator(schema: bytes) -> jsonschema_rs.Validator:
    """Compile a schema only once: that takes hundreds of times as long as checking a document."""
    return jsonschema_rs.validator_for(orjson.loads(schema))


def _unique_items(
    validator: object, wanted: bool, items: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The keyword `uniqueItems` in native code: jsonschema compares every pair of items."""
    from jsonschema import ValidationError

    if not jsonschema_rs.is_valid({"uniqueItems": wanted}, items):
        yield ValidationError(f"{excerpt(str(items))} has non-unique elements")


def _error(
    problem: ValidationError, schema: Mapping[str, Any], where: str, error: type[ConfigError]
) -> ConfigError:
    from jsonschema.exceptions import best_match

    if problem.validator != "additionalProperties":
        problem = best_match([problem]) or problem
    message, key, found, expected = _explain(problem, schema)
    path = pointer((*problem.absolute_path, *([] if key is None else [key])))
    return error(message, where=where, path=path, found=found, expected=expected)


def _explain(
    problem: ValidationError, schema: Mapping[str, Any]
) -> tuple[str, str | None, object, str | None]:
    """What is wrong with a value, at which of its keys, what was found, and what was expected."""
    inner: Any = problem.schema
    found: Any = problem.instance
    wanted: Any = problem.validator_value
    match problem.validator:
        case "additionalProperties":
            known = inner.get("properties", {})
            unknown = next(key for key in found if key not in known)
            expected = "one of " + ", ".join(sorted(known))
            return f"unknown key{suggestion(str(unknown), known)}", unknown, unknown, expected
        case "not" if isinstance(found, dict) and (keys := wanted.get("required")):
            expected = inner.get("description", "no such key")
            return f"the key `{keys[0]}` is not allowed here", keys[0], found[keys[0]], expected
        case "required":
            missing = next(key for key in wanted if problem.message.startswith(f"{key!r} "))
            known = inner.get("properties") or ({} if problem.absolute_path else schema.get("properties", {}))
            described = known.get(missing, {}).get("description")
            expected = f"`{missing}`: {described}" if described else f"`{missing}` too"
            return f"the key `{missing}` is missing", None, ", ".join(map(str, found)) or "no keys", expected
        case "oneOf" | "anyOf" as keyword:
            forms = "; or ".join(_form(form, schema) for form in inner[keyword])
            return "it has none of the allowed forms", None, found, forms
        case "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            return "it is of the wrong type", None, found, " or ".join(TYPES[name] for name in types)
        case "enum":
            near, allowed = suggestion(str(found), map(str, wanted)), ", ".join(map(str, wanted))
            return f"it is not one of the allowed values{near}", None, found, f"one of {allowed}"
        case "pattern":
            return "it has an invalid format", None, found, inner.get("description")
        case "minLength" | "minItems" | "minProperties" if not found:
            unit = f"{_COUNTED[problem.validator]}{'s' * (wanted != 1)}"
            return "it is empty", None, found, f"at least {wanted} {unit}"
        case str() as keyword if keyword in _LIMITS:
            message, limit = _LIMITS[keyword]
            return message, None, found, limit.format(wanted)
    return excerpt(problem.message), None, found, None


def _form(form: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe one of several allowed forms."""
    if "$ref" in form:
        form = schema["$defs"][form["$ref"].rpartition("/")[2]]
    if keys := form.get("required", form.get("properties")):
        return f"the key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"
    return str(form.get("description") or TYPES[form["type"]])
