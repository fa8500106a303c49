"""What is wrong with a file that can be read: names, inheritance, and what each part says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from trustgraph_prompt.language.check_field import check_field, check_type
from trustgraph_prompt.language.inherit import Schemas
from trustgraph_prompt.language.names import Names, suggestion, twice
from trustgraph_prompt.language.nodes import (
    File,
    ListOf,
    MapOf,
    Name,
    Position,
    PromptDef,
    Scalar,
    SchemaDef,
    SchemaField,
    TypeExpr,
    alternatives,
)
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.spell import spell_field, spell_type

MAX_SCHEMAS = 100
"""How many schemas a file may have."""

MAX_FIELDS = 1_000
"""How many fields a schema may have, those of its bases among them."""

MAX_BASES = 50
"""How many schemas may extend each other in a line."""


def check(file: File, types: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Everything that is wrong in a file; `types` are those beside the language's own."""
    if len(file.schemas) > MAX_SCHEMAS:
        at = file.schemas[MAX_SCHEMAS].at
        yield Problem("too many schemas", at, len(file.schemas), f"at most {MAX_SCHEMAS} in a file")
        return
    names = Names(frozenset(schema.name for schema in file.schemas), types)
    yield from _check_names(file, names)
    problem = None
    for problem in _check_bases(file, names):
        yield problem
    for schema in file.schemas:
        yield from _check_fields(schema, names)
    if problem is None:
        yield from _check_inherited(file)
        yield from _check_ends(file)
    for prompt in file.prompts:
        yield from _check_expecting(prompt, names)


def _check_names(file: File, names: Names) -> Iterator[Problem]:
    for schema in file.schemas:
        if names.is_type(schema.name):
            yield Problem("this is the name of a type", schema.at, schema.name, "another name for the schema")
    for again, first in twice(file.schemas):
        yield Problem(f"the schema {again.name} is there already{_line(first.at)}", again.at)


def _check_bases(file: File, names: Names) -> Iterator[Problem]:
    left = {schema.name: schema for schema in file.schemas}
    for schema in file.schemas:
        for again, _ in twice(schema.bases):
            yield Problem(f"{schema.name} extends {again.name} twice", again.at)
        for base in schema.bases:
            if names.is_type(base.name):
                yield Problem(f"{base.name} is not a schema", base.at, base.name, "the name of a schema")
            elif base.name not in left:
                similar = suggestion(base.name, names.schemas)
                yield Problem(f"there is no schema {base.name}{similar}", base.at)
    for level in count():
        ready = [schema for schema in left.values() if all(base.name not in left for base in schema.bases)]
        if not ready:
            break
        if level > MAX_BASES:
            yield Problem("too many schemas extend each other", ready[0].at, level, f"at most {MAX_BASES}")
            return
        for schema in ready:
            del left[schema.name]
    if left:
        yield _circle(left)


def _circle(left: Mapping[str, SchemaDef]) -> Problem:
    """That one of the schemas extends itself; all of them do, or extend one that does."""
    path = [next(iter(left))]
    while path.count(path[-1]) == 1:
        path.append(next(base.name for base in left[path[-1]].bases if base.name in left))
    circle = path[path.index(path[-1]) :]
    return Problem("a schema extends itself: " + " extends ".join(circle), left[circle[0]].at)


def _check_fields(schema: SchemaDef, names: Names) -> Iterator[Problem]:
    for again, first in twice(schema.fields):
        yield Problem(f"{schema.name} has the field {again.name} already{_line(first.at)}", again.at)
    for field in schema.fields:
        yield from check_field(field, names)


def _check_inherited(file: File) -> Iterator[Problem]:
    """What is wrong only together with what the bases say."""
    schemas = Schemas(file)
    for schema in schemas.by_name.values():
        fields = schemas.fields(schema.name)
        if len(fields) > MAX_FIELDS:
            yield Problem("too many fields", schema.at, len(fields), f"at most {MAX_FIELDS:,} in a schema")
        if not fields and schema.bases:
            yield Problem(f"the schema {schema.name} has no fields", schema.at)
        own = {field.name for field in schema.fields}
        seen: dict[str, tuple[SchemaField, str]] = {}
        for base in schema.bases:
            for field in schemas.fields(base.name):
                other, of = seen.setdefault(field.name, (field, base.name))
                if other != field and field.name not in own:
                    yield Problem(
                        f"{of} and {base.name} have a field {field.name} each, and they differ",
                        base.at,
                        f"{spell_field(other)} and {spell_field(field)}",
                        f"the field {field.name} in {schema.name}, too",
                    )


def _check_ends(file: File) -> Iterator[Problem]:
    """That a value of each schema can come to an end: it need not hold another of itself."""
    schemas = Schemas(file)
    left = {name: [one.type for one in schemas.fields(name) if one.is_required] for name in schemas.by_name}
    while done := [name for name, types in left.items() if not _needed(types, left)]:
        for name in done:
            del left[name]
    if left:
        path = [next(iter(left))]
        while path.count(path[-1]) == 1:
            path.append(_needed(left[path[-1]], left) or "")
        circle = path[path.index(path[-1]) :]
        yield Problem(
            "no value of this can come to an end",
            schemas[circle[0]].at,
            " holds ".join(circle),
            "?, [] or a default at one of these fields",
        )


def _needed(types: list[TypeExpr], left: Mapping[str, object]) -> str | None:
    """One of the schemas left that values of the types cannot do without; types that can are taken out."""
    while types:
        members = alternatives(types[-1])
        names = [one.name for one in members if isinstance(one, Name) and one.name in left]
        if len(names) == len(members):
            return names[0]
        types.pop()
    return None


def _check_expecting(prompt: PromptDef, names: Names) -> Iterator[Problem]:
    expecting = prompt.expecting
    if expecting is None:
        return
    problem = None
    for problem in check_type(expecting, names):
        yield problem
    if problem is None and prompt.layout == "jsonl" and not _is_list_of_objects(expecting, names):
        yield Problem(
            "jsonl is one object a line",
            expecting.at,
            spell_type(expecting),
            "a list of a schema, as in: expecting Finding[] as jsonl",
        )


def _is_list_of_objects(expr: TypeExpr, names: Names) -> bool:
    if not isinstance(expr, ListOf):
        return False
    return all(isinstance(one, Name | MapOf) or one == Scalar("any") for one in alternatives(expr.item))


def _line(at: Position | None) -> str:
    return "" if at is None else f", in line {at.line}"
