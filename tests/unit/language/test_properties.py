"""What holds for every tree of the schema language: its text, its JSON Schema, its contract say the same."""

from __future__ import annotations

from collections.abc import Callable

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.language import File, format, parse, to_json_schema
from trustgraph_prompt.language.constraints import ORDER
from trustgraph_prompt.language.nodes import (
    Annotated,
    Constraint,
    Default,
    EscalationCondition,
    ExampleDef,
    ListOf,
    Literal,
    MapOf,
    Name,
    Optional,
    PromptDef,
    Scalar,
    SchemaDef,
    SchemaField,
    TypeExpr,
    Union,
    alternatives,
    nullable,
)
from trustgraph_prompt.language.scalars import SCALARS

SCHEMAS = ("A", "B", "C")
NULL = Scalar("null")

texts = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t\r"), max_size=30)
keys = st.from_regex(r"[a-z]{1,5}(-[a-z]{1,3})?", fullmatch=True) | texts.filter(bool)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
literals = st.builds(Literal, st.booleans() | st.integers() | texts)
leaves = (
    st.sampled_from([Scalar(name) for name in SCALARS]) | st.sampled_from(list(map(Name, SCHEMAS))) | literals
)


def _extended(inner: st.SearchStrategy[TypeExpr]) -> st.SearchStrategy[TypeExpr]:
    return st.one_of(
        inner.map(nullable).map(ListOf),
        inner.map(nullable).map(MapOf),
        st.builds(_said, inner.map(nullable), st.data(), st.sampled_from([ListOf, MapOf])),
        st.lists(st.builds(_described, inner, texts), min_size=2, max_size=3, unique_by=repr).map(
            lambda members: Union(tuple(members))
        ),
        st.lists(inner, min_size=2, max_size=4).map(_union),
        inner.map(lambda expr: _optional(nullable(expr))),
    )


def _said(expr: TypeExpr, data: st.DataObject, within: Callable[[TypeExpr], TypeExpr]) -> TypeExpr:
    """A list or a map of what has constraints and a description, or one of both."""
    constraints = data.draw(_constraints_of(expr))
    described = data.draw(texts if not constraints else st.none() | texts)
    return within(Annotated(expr, constraints, described))


def _described(expr: TypeExpr, description: str) -> TypeExpr:
    return Annotated(expr.type if isinstance(expr, Optional) else expr, (), description)


def _constraints_of(expr: TypeExpr) -> st.SearchStrategy[tuple[Constraint, ...]]:
    match expr.type if isinstance(expr, Optional) else expr:
        case Scalar("int" | "float"):
            some = st.lists(_bounds, max_size=2, unique_by=_name)
        case Scalar("string"):
            some = st.lists(_of_strings, max_size=2, unique_by=_name)
        case ListOf():
            some = st.lists(_lengths | st.just(Constraint("unique")), max_size=2, unique_by=_name)
        case MapOf():
            some = st.lists(_lengths, max_size=1)
        case _:
            some = st.just([])
    return some.map(lambda found: tuple(sorted(found, key=lambda one: ORDER[one.name])))


def _union(members: list[TypeExpr]) -> TypeExpr:
    flat: dict[object, TypeExpr] = {}
    for member in members:
        bare = member.type if isinstance(member, Optional) else member
        for one in bare.members if isinstance(bare, Union) else (bare,):
            flat.setdefault(one.as_json if isinstance(one, Literal) else one, one)
    return Union(tuple(flat.values())) if len(flat) > 1 else next(iter(flat.values()))


def _optional(expr: TypeExpr) -> TypeExpr:
    return expr if isinstance(expr, Optional) or NULL in alternatives(expr) else Optional(expr)


types = st.recursive(leaves, _extended, max_leaves=6)


@st.composite
def fields(draw: st.DrawFn, schema: str) -> SchemaField:
    expr = draw(types)
    members = alternatives(expr)
    if all(isinstance(one, Name) and one.name <= schema for one in members):
        expr = Optional(expr)  # or no value would come to an end
    constraints = draw(_constraints_of(expr))
    default = None
    if expr in (Scalar("any"), Scalar("bool")) or isinstance(expr, Optional):
        of_any = values if expr == Scalar("any") else st.just(None if isinstance(expr, Optional) else True)
        default = draw(st.none() | st.builds(Default, of_any))
    may_be_missing = default is None and nullable(expr) == expr and not isinstance(expr, Optional)
    may_be_missing = may_be_missing and draw(st.booleans())
    return SchemaField(draw(keys), expr, constraints, default, draw(st.none() | texts), may_be_missing)


def _name(constraint: Constraint) -> str:
    return constraint.name


_lengths = st.sampled_from([(3,), (0, 3), (1, 3), (1, None)]).map(lambda ends: Constraint("length", ends))
_of_strings = _lengths | st.just(Constraint("pattern", ("^a+$",))) | st.just(Constraint("format", ("email",)))
_bounds = st.builds(
    Constraint, st.sampled_from(["min", "above"]), st.tuples(st.integers(-9, 0) | st.just(-0.5))
) | st.builds(Constraint, st.sampled_from(["max", "below"]), st.tuples(st.integers(1, 9) | st.just(0.5)))


def schemas(name: str) -> st.SearchStrategy[SchemaDef]:
    several = st.lists(fields(name), min_size=1, max_size=4, unique_by=lambda field: field.name).map(tuple)
    return st.builds(SchemaDef, st.just(name), several, st.just(()), st.none() | texts, st.booleans())


settings_of_prompts = st.dictionaries(keys.filter(lambda key: key != "text"), values, max_size=4)
prompts = st.builds(
    PromptDef,
    keys,
    texts.filter(str.strip),
    st.none() | texts,
    st.none() | types.map(nullable),
    st.just("json"),
    settings_of_prompts,
    st.none() | st.builds(EscalationCondition, st.sampled_from(["~", "==", "!=", "contains"]), texts),
    st.lists(
        st.builds(ExampleDef, st.none() | texts, st.dictionaries(keys, values, min_size=1, max_size=2)),
        max_size=2,
    ).map(tuple),
)
all_schemas = st.tuples(*map(schemas, SCHEMAS))
files = st.builds(
    File,
    all_schemas,
    st.lists(prompts, max_size=2, unique_by=lambda one: one.name).map(tuple),
    st.none() | texts,
)

thorough = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(files)
def test_any_formatted_file_is_parsed_unchanged(file: File) -> None:
    text = format(file)
    assert repr(parse(text)) == repr(file)
    assert format(text) == text


@thorough
@given(all_schemas, st.data())
def test_contract_gives_the_verdicts_of_its_json_schema(
    defined: tuple[SchemaDef, ...], data: st.DataObject
) -> None:
    file = File(defined)
    contract = Contract.language(format(file))["A"]
    schema = to_json_schema(file, "A")
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    by_schema = Contract.from_schema(schema)
    assert contract.fingerprint == by_schema.fingerprint
    names = [field.name for field in defined[0].fields]
    some = st.dictionaries(st.sampled_from(names), values, max_size=len(names)) | values
    for value in data.draw(st.lists(some, max_size=5)):
        assert contract.accepts(value) == by_schema.accepts(value)
        if contract.accepts(value):
            assert judge.is_valid(value)


def test_schemas_of_the_scalars_are_valid_json_schemas() -> None:
    for scalar in SCALARS.values():
        jsonschema.Draft202012Validator.check_schema(scalar)
