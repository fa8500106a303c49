"""The schemas of a text in the schema language, as JSON Schemas that are known to be usable."""

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
    """What a text says, and its schemas by name.

    Raises `LanguageError`, and `ContractError` for wrong `types`.
    """
    given = {name: json_schema_of(kind) for name, kind in types.items()}
    file = parse_whole(source, types=given)
    return file, {schema.name: to_json_schema(file, schema.name, types=given) for schema in file.schemas}


def parse_whole(
    source: str, *, where: str | None = None, types: Mapping[str, Mapping[str, Any]] | None = None
) -> File:
    """The tree of a text as `parse` gives it, whose schemas can be used and whose defaults are what they say.

    Raises `LanguageError` as `parse`.
    """
    file = parse(source, where=where, types=types)
    if problems := list(_unusable(file, types)):
        complain(problems, where)
    return file


def _unusable(file: File, types: Mapping[str, Mapping[str, Any]] | None) -> Iterator[Problem]:
    """What is wrong with schemas and defaults beyond their form: patterns, formats, fields of schemas."""
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
    values = {name: {key: one.value for key, one in having.items()} for name, having in defaults.items()}
    for issue in judge.issues(values, StepMeter()):
        schema, field, *inner = steps(issue.path) or ("", "")  # nowhere, where it takes too much to say
        default = defaults.get(schema, {}).get(field)
        wrong = Issue(issue.reason, issue.message, pointer(inner))
        yield Problem(f"the default is not of the type: {wrong}", None if default is None else default.at)


@contextmanager
def placed(file: File, name: str) -> Iterator[None]:
    """What is wrong with the contract of a schema, said of the line that says it."""
    try:
        yield
    except ContractError as error:
        at = locate(file, name, error.path)
        if at is None or error.path.startswith("/invariants"):
            raise
        raise LanguageError(
            error.message,
            where=f"line {at.line}, column {at.column}",
            found=error.found,
            expected=error.expected,
        ) from None


def json_schema_of(kind: object) -> Mapping[str, Any]:
    """A type beside the language's own: a JSON Schema, or a Python type as in `Contract.of`."""
    if isinstance(kind, Mapping):
        return kind
    described = describe(kind)
    if not described.many:
        return described.schema
    item = dict(described.schema)
    definitions = {"$defs": item.pop("$defs")} if "$defs" in item else {}
    return {"type": "array", "items": item, **definitions}
