"""Converts texts in the schema language to valid JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trustgraph_prompt.contract.judge import Judge
from trustgraph_prompt.contract.limits import Limits, StepMeter
from trustgraph_prompt.contract.types import describe
from trustgraph_prompt.errors import ContractError, Issue, LanguageError
from trustgraph_prompt.json_text.pointer import pointer, steps
from trustgraph_prompt.language import File, locate, parse, to_json_schema
from trustgraph_prompt.language.nodes import Name, Union
from trustgraph_prompt.language.problem import Problem, complain


def schemas_of(source: str, types: Mapping[str, object]) -> tuple[File, dict[str, dict[str, Any]]]:
    """Parse a text; return its tree, and its JSON Schemas by name.

    Raises `LanguageError`, and `ContractError` for invalid `types`.
    """
    schemas = {name: json_schema_of(kind) for name, kind in types.items()}
    file = parse_whole(source, types=schemas)
    return file, {schema.name: to_json_schema(file, schema.name, types=schemas) for schema in file.schemas}


def parse_whole(
    source: str, *, where: str | None = None, types: Mapping[str, Mapping[str, Any]] | None = None
) -> File:
    """Parse a text and check that its schemas compile and that its defaults are valid.

    Raises `LanguageError` as `parse`.
    """
    file = parse(source, where=where, types=types)
    if problems := list(_problems(file, types)):
        complain(problems, where)
    return file


def _problems(file: File, types: Mapping[str, Mapping[str, Any]] | None) -> Iterator[Problem]:
    """The problems of schemas and defaults that the parser does not find: patterns, formats, types."""
    if not file.schemas:
        return
    defaults = {
        schema.name: {field.name: field.default for field in schema.fields if field.default is not None}
        for schema in file.schemas
    }
    definitions = to_json_schema(file, Union(tuple(map(Name, defaults))), types=types)["$defs"]
    fields = {name: {"properties": definitions[name]["properties"]} for name in defaults}
    whole = {"properties": fields, "$defs": definitions}
    try:
        judge = Judge.of(whole, extra=None, coerce=False, rules=(), depth=Limits().depth)
    except ContractError as error:
        _, schema, *inner = steps(error.path) or ("", "")
        yield Problem(error.message, locate(file, schema, pointer(inner)), error.found, error.expected)
        return
    values = {
        name: {key: default.value for key, default in of_schema.items()}
        for name, of_schema in defaults.items()
    }
    for issue in judge.issues(values, StepMeter()):
        schema, field, *inner = steps(issue.path) or ("", "")  # "" if the values are too costly to validate
        default = defaults.get(schema, {}).get(field)
        within = Issue(issue.reason, issue.message, pointer(inner))
        yield Problem(f"the default is not of the type: {within}", None if default is None else default.at)


@contextmanager
def placed(file: File, name: str) -> Iterator[None]:
    """Raise a `ContractError` of the schema `name` as a `LanguageError` with line and column."""
    try:
        yield
    except ContractError as error:
        at = None if error.path.startswith("/invariants") else locate(file, name, error.path)
        if at is None:
            raise
        raise LanguageError(
            error.message,
            where=f"line {at.line}, column {at.column}",
            found=error.found,
            expected=error.expected,
        ) from None


def json_schema_of(type: object) -> Mapping[str, Any]:
    """The JSON Schema of an additional type: a JSON Schema, or a Python type as in `Contract.of`."""
    if isinstance(type, Mapping):
        return type
    described = describe(type)
    if not described.many:
        return described.schema
    item = dict(described.schema)
    definitions = {"$defs": item.pop("$defs")} if "$defs" in item else {}
    return {"type": "array", "items": item, **definitions}
