"""Tables of TrustGraph's config type `schema`, their rows in answers, and the messages that carry rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Final

import orjson

from trustgraph_prompt.config_files import check
from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.errors import ConfigError, ContractError
from trustgraph_prompt.graph.batches import messages
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.chunk import Chunk, Metadata

CONFIDENCE: Final = 0.8
SOURCE_SPAN: Final = 100
"""The confidence of all rows, and how many characters of their chunk they quote, as in TrustGraph."""

_MOST_COMPILED: Final = 1_000  # contracts that are cached

_JSON_TYPES: Final = {
    **dict.fromkeys(("integer", "int", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
}

_OPTIONAL_TEXT, _FLAG = {"type": ["string", "null"]}, {"type": ["boolean", "null"]}
_FIELD: Final = {
    "type": "object",
    "required": ["name", "type"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "type": {"type": "string"},
        "size": {"type": ["integer", "null"]},
        "description": _OPTIONAL_TEXT,
        "enum": {"type": ["array", "null"], "items": {"type": "string"}},
        **dict.fromkeys(("primary_key", "required", "indexed"), _FLAG),
    },
}
_TABLE: Final = {
    "type": "object",
    "required": ["fields"],
    "properties": {
        "name": _OPTIONAL_TEXT,
        "description": _OPTIONAL_TEXT,
        "fields": {"type": "array", "minItems": 1, "items": _FIELD},
    },
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column. `primary`: it is part of what identifies a row. `enum` are its allowed values, if any."""

    name: str
    type: str
    size: int = 0
    primary: bool = False
    description: str = ""
    required: bool = False
    indexed: bool = False
    enum: tuple[str, ...] = ()

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Field:
        """Make a column of its definition, in which null says what a missing key says."""
        given = {
            **definition,
            "size": definition.get("size") or 0,  # 0.0 is an integer of JSON, too
            "primary": definition.get("primary_key"),
            "enum": tuple(definition.get("enum") or ()),
        }
        return cls(
            **{each.name: given[each.name] for each in fields(cls) if given.get(each.name) is not None}
        )

    @property
    def is_filled(self) -> bool:
        """Whether each row has a value for it."""
        return self.required or self.primary

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its values."""
        json_type, values = _JSON_TYPES.get(self.type.lower()), [*self.enum]
        schema: dict[str, Any] = {}
        if json_type is not None:
            schema["type"] = json_type if self.is_filled else [json_type, "null"]
            values = [*map(_scalar, values)]
        elif self.is_filled:
            schema |= {"type": ["string", "number"], **({"minLength": 1} if self.primary else {})}
        if values:
            schema["enum"] = values if self.is_filled else [*values, None]
        return schema | ({"description": self.description} if self.description else {})


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table, which TrustGraph knows by its `key`; `name` is for the model."""

    key: str
    name: str
    description: str
    fields: tuple[Field, ...]

    @classmethod
    def of(
        cls, key: str, definition: Any, where: str, error: type[ConfigError] = ConfigError
    ) -> TableDefinition:
        """Make a table from its decoded definition; unknown keys are ignored. `where` names it in errors.

        Raises `error` with a JSON Pointer into the definition.
        """
        check(definition, _TABLE, where, error)
        columns: dict[str, Field] = {}
        for index, column in enumerate(map(Field.of, definition["fields"])):
            if column.name in columns:
                path = f"/fields/{index}/name"
                raise error("two fields have the same name", where=where, path=path, found=column.name)
            columns[column.name] = column
        name, description = (definition.get(name) or "" for name in ("name", "description"))
        table = cls(key, name or key, description, tuple(columns.values()))
        try:
            table.contract()
        except ContractError as cause:
            raise error(f"the fields make no schema: {cause}", where=where, path="/fields") from None
        return table

    @property
    def term(self) -> dict[str, Any]:
        """The term `schema` of the template, as TrustGraph's extractor makes it."""
        columns = []
        for field in self.fields:
            column = asdict(field)
            enum = column.pop("enum")
            columns.append({**column, "enum_values": [*enum]} if enum else column)
        return {"name": self.name, "description": self.description, "fields": columns}

    def contract(self, *, repair: bool = False, limits: Limits | None = None) -> Contract:
        """The contract for an answer with rows of the table: one JSON object per row.

        Required fields and primary keys must be there and not null; they are texts or numbers, and a primary
        key is not empty. Numbers and booleans may stand in strings, and are converted. What else is neither a
        number nor a boolean (texts, dates, times) may be any value, as in TrustGraph's extractor. Keys that
        are no fields are dropped: TrustGraph's store of rows does not keep them either.
        """
        return _contract(self, repair, limits or Limits())

    def messages(self, objects: Iterable[Mapping[str, Any]], chunk: Chunk, limit: int) -> Iterator[bytes]:
        """Encode the `ExtractedObject` with the rows that a chunk gave; nothing without rows.

        Several, if it would have more than `limit` bytes, which only a single row may then exceed. Values are
        texts, as TrustGraph's extractor writes them.
        """
        source = chunk.metadata
        metadata = Metadata(f"{source.id}:{self.key}", source.root, source.collection)

        def encoded(objects: Sequence[Mapping[str, Any]]) -> bytes:
            return encode(
                {
                    "metadata": metadata,
                    "schema_name": self.key,
                    "values": [{name: _text(value) for name, value in row.items()} for row in objects],
                    "confidence": CONFIDENCE,
                    "source_span": chunk.chunk[:SOURCE_SPAN],
                }
            )

        return messages(objects, None, encoded, limit)


def read_table(key: str, text: str | bytes) -> TableDefinition:
    """Read the table with that key in the config type `schema`. Raises `ConfigError` with a JSON Pointer."""
    where = f"schema {key!r}"
    try:
        definition = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise ConfigError(f"not JSON: {cause}", where=where) from None
    return TableDefinition.of(key, definition, where)


@lru_cache(_MOST_COMPILED)
def _contract(table: TableDefinition, repair: bool, limits: Limits) -> Contract:
    required = [field.name for field in table.fields if field.is_filled]
    schema = {
        "type": "object",
        "properties": {field.name: field.schema for field in table.fields},
        "required": required,
        **({} if required else {"minProperties": 1}),
    }
    return Contract.from_schema(
        schema, format="jsonl", name=table.key, repair=repair, extra="ignore", coerce=True, limits=limits
    )


def _scalar(text: str) -> Any:
    """The number or boolean that an allowed value stands for."""
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return text


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return (value or "").encode(errors="replace").decode()
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
