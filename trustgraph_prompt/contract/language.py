"""The schemas of a text in the schema language, as JSON Schemas that are known to be usable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trustgraph_prompt.contract.types import describe
from trustgraph_prompt.errors import ContractError, LanguageError
from trustgraph_prompt.language import File, locate, parse, to_json_schema


def schemas_of(source: str, types: Mapping[str, object]) -> tuple[File, dict[str, dict[str, Any]]]:
    """What a text says, and its schemas by name.

    Raises `LanguageError`, and `ContractError` for wrong `types`.
    """
    given = {name: json_schema_of(kind) for name, kind in types.items()}
    file = parse(source, types=given)
    return file, {schema.name: to_json_schema(file, schema.name, types=given) for schema in file.schemas}


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
