"""What a text of the schema language means."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from tests.support.guides import guide_page
from trustgraph_prompt.language import format, parse
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
    Position,
    Scalar,
    SchemaField,
    TypeExpr,
    Union,
)

BOUNDS = (Constraint("min", (1,)), Constraint("max", (9,)))
STRING, INT = Scalar("string"), Scalar("int")


def field(text: str) -> SchemaField:
    """The first field of a schema X, beside which there are A and B."""
    file = parse(f"schema X:\n    {text}\nschema A:\n    a: int\nschema B:\n    b: int\n")
    return file.schemas[0].fields[0]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("string", STRING),
        ("list[string]", ListOf(STRING)),
        ("string[]", ListOf(STRING)),
        ("list[string[]]", ListOf(ListOf(STRING))),
        ("string?", Optional(STRING)),
        ("list[string?]", ListOf(Optional(STRING))),
        ("string?[]", ListOf(Optional(STRING))),
        ("string[]?", Optional(ListOf(STRING))),
        ("map[int]", MapOf(INT)),
        ("string | int", Union((STRING, INT))),
        ("string | int[]", Union((STRING, ListOf(INT)))),
        ("(string | int)[]", ListOf(Union((STRING, INT)))),
        ("(string | int)?", Optional(Union((STRING, INT)))),
        ("string | (int | bool)", Union((STRING, INT, Scalar("bool")))),
        ("string | null", Union((STRING, Scalar("null")))),
        ("list[string | null]", ListOf(Optional(STRING))),
        ("'a' | \"b\"", Union((Literal("a"), Literal("b")))),
        ("1 | -2.5 | true", Union((Literal(1), Literal(-2.5), Literal(True)))),
        ("A | B", Union((Name("A"), Name("B")))),
        ("X[]", ListOf(Name("X"))),
        ("list[\n  string |\n  int\n]", ListOf(Union((STRING, INT)))),
        ("(string @length(3))[]", ListOf(Annotated(STRING, (Constraint("length", (3,)),)))),
        ("list[string 'One word.']", ListOf(Annotated(STRING, (), "One word."))),
        (
            "map[\n  int\n  @max(9)\n  @min(1)\n  'How many.'\n]",
            MapOf(Annotated(INT, BOUNDS, "How many.")),
        ),
        ("(string | null 'If any.')[]", ListOf(Annotated(Optional(STRING), (), "If any."))),
        ("(string 'a') | (int 'b')", Union((Annotated(STRING, (), "a"), Annotated(INT, (), "b")))),
        ("((string 'a'))?", Optional(Annotated(STRING, (), "a"))),
        ("((int @min(1)) @max(9) 'a')[]", ListOf(Annotated(INT, BOUNDS, "a"))),
    ],
)
def test_type_of_a_field_is_parsed(text: str, type: TypeExpr) -> None:
    assert repr(field(f"f: {text}").type) == repr(type)


@pytest.mark.parametrize(
    "name", ["string", "prompt", "object-entity", "größe", "true", "list", "_a", "escalate"]
)
def test_any_word_can_be_the_name_of_a_field(name: str) -> None:
    assert field(f"{name}: int").name == name


def test_other_names_of_fields_are_in_quotes() -> None:
    assert field("'two words': int").name == "two words"


def test_constraints_stand_before_or_after_the_default_in_any_order() -> None:
    read = field("f: int @max(9) = 5 @min(1)  'About.'")
    assert read == SchemaField(
        "f", INT, (Constraint("min", (1,)), Constraint("max", (9,))), Default(5), "About."
    )


def test_constraints_in_brackets_are_those_of_the_field() -> None:
    assert field("f: (int @min(1) 'a') @max(9)") == field("f: int @min(1) @max(9) 'a'")


@pytest.mark.parametrize("text", ["f?: int", "f ? : int", "'f'?: int"])
def test_field_may_be_missing_but_not_null(text: str) -> None:
    assert field(text) == SchemaField("f", INT, may_be_missing=True)
    assert not field(text).is_required


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("(3)", (3,)), ("(3, 3)", (3,)), ("(1, 3)", (1, 3)), ("(1, any)", (1, None)), ("(0, 3)", (0, 3))],
)
def test_length_constraint_has_a_least_and_a_most(text: str, arguments: tuple[int | None, ...]) -> None:
    assert field(f"f: string @length{text}").constraints == (Constraint("length", arguments),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("any = [1, {a: 'b', \"c d\": null,},]", [1, {"a": "b", "c d": None}]),
        ("any = bare-word", "bare-word"),
        ("bool = true", True),
        ("string? = null", None),
        ("float = 1e3", 1000.0),
        ("float = 1", 1),
        ("string = '\\u00e9\\n\\'\\ud83d\\ude00'", "é\n'😀"),
        ("A = {a: 1}", {"a": 1}),
        ("string | int[] = [1]", [1]),
    ],
)
def test_default_of_a_field_is_parsed(text: str, value: object) -> None:
    read = field(f"f: {text}").default
    assert read is not None
    assert repr(read.value) == repr(value)


def test_description_may_have_several_lines() -> None:
    assert field('f: int """\n    One.\n      Two.\n    """').description == "One.\n  Two.\n"


def test_schema_has_a_description_and_bases() -> None:
    file = parse("schema A:\n  'About A.'\n  a: int\nschema B extends A, C:\nschema C:\n  c: int")
    first, second, _ = file.schemas
    assert first.description == "About A."
    assert second.bases == (Name("A"), Name("C"))
    assert second.fields == ()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"one line"', "one line"),
        ('"""one line"""', "one line"),
        ('"""\none\n  two\n"""', "one\n  two\n"),
        ('"""\n    one\n      two\n    """', "one\n  two\n"),
        ('"""\n    one\n      two"""', "one\n  two"),
        ('"""\n\n    one\n\n    two\n    \n    """', "\none\n\ntwo\n\n"),
        ('"""\n\tone\n\t\ttwo\n"""', "one\n\ttwo\n"),
        ('"""a \\n b \\ """', "a \\n b \\ "),
        ('""""quoted" word"""', '"quoted" word'),
        ("'''\n    it's\n      \"\"\"two\"\"\" \\n\n    '''", 'it\'s\n  """two""" \\n\n'),
    ],
)
def test_quoted_and_multiline_texts_are_parsed(written: str, text: str) -> None:
    assert parse(f"prompt x: {written}").prompts[0].text == text
    assert parse(f"system: {written}").system == text


def test_system_message_may_be_empty() -> None:
    assert parse('system: """ """').system == ""


PROMPT = '''
prompt "my prompt" expecting (A | B)[] as jsonl using model "m":  # a comment
    description: "What it is for."
    model: {temperature: 0.5,
            stop: [end]}
    text: """
    Hello {{ name }}  # no comment
    """
    escalate if contains "NO"
    example "one":
        terms: {name: "You"}
        reads: []
    example:
        refuses: 1

schema A:
    a: int
schema B:
    b: int'''


def test_prompt_with_all_its_settings_is_parsed() -> None:
    (prompt,) = parse(PROMPT).prompts
    assert (prompt.name, prompt.model, prompt.layout) == ("my prompt", "m", "jsonl")
    assert prompt.expecting == ListOf(Union((Name("A"), Name("B"))))
    assert prompt.text == "Hello {{ name }}  # no comment\n"
    assert prompt.settings == {
        "description": "What it is for.",
        "model": {"temperature": 0.5, "stop": ["end"]},
    }
    assert prompt.escalation == EscalationCondition("contains", "NO")
    assert prompt.examples == (
        ExampleDef("one", {"terms": {"name": "You"}, "reads": []}),
        ExampleDef(None, {"refuses": 1}),
    )


APART = """
prompt review using model "main" expecting Finding[]

prompt other: "Hello."

schema Finding:
    title: string

prompt review:
    attempts: 2
    model: {temperature: 0}
    escalate if ~ "NO"
    example "one":
        reads: []

prompt review expecting list[Finding]: '''
    A draft.
    '''

prompt review using model "main": '''
    Review this: {{ code }}
    '''
    attempts: 2.0
    model: {temperature: 0, max-tokens: 400}
    escalate if contains "NEVER"
    example "two":
        refuses: 1

prompt review: ""
"""


def test_prompt_may_be_declared_in_several_places() -> None:
    review, other = parse(APART).prompts
    assert (review.name, other.name) == ("review", "other")
    assert review.text == "Review this: {{ code }}\n"
    assert review.model == "main"
    assert review.expecting == ListOf(Name("Finding"))
    assert review.settings == {"attempts": 2, "model": {"temperature": 0, "max-tokens": 400}}
    assert review.escalation == EscalationCondition("contains", "NEVER")
    assert [example.name for example in review.examples] == ["one", "two"]
    assert review.at == Position(2, 8)
    assert review.places["/text"] == Position(20, 35)
    assert review.places["/model/temperature"] == Position(11, 26)
    assert review.places["/model/max-tokens"] == Position(24, 41)


def test_declarations_of_a_prompt_may_stand_in_any_order() -> None:
    first, second, third = (
        "prompt x using model 'm'\n",
        "prompt x expecting int[]:\n  attempts: 2\n",
        "prompt x: 'a'\n  escalate if ~ 'no'\n",
    )
    whole = parse(first + second + third)
    assert all(parse("".join(order)) == whole for order in permutations((first, second, third)))
    assert (
        parse("prompt x using model 'm' expecting int[]: 'a'\n  attempts: 2\n  escalate if ~ 'no'") == whole
    )


def test_parsed_parts_have_their_positions() -> None:
    file = parse(PROMPT)
    (prompt,) = file.prompts
    assert prompt.at == Position(2, 8)
    assert prompt.places == {
        "/description": Position(3, 18),
        "/model": Position(4, 12),
        "/model/temperature": Position(4, 26),
        "/model/stop": Position(5, 19),
        "/model/stop/0": Position(5, 20),
        "/text": Position(6, 11),
    }
    assert prompt.examples[0].places["/terms/name"] == Position(11, 23)
    assert file.schemas[0].fields[0].at == Position(17, 5)


@pytest.mark.parametrize("operator", ["~", "==", "!=", "contains"])
def test_conditions_of_escalation_are_parsed(operator: str) -> None:
    (prompt,) = parse(f'prompt x: "a"\n  escalate if {operator} "it\'s"').prompts
    assert prompt.escalation is not None
    assert (prompt.escalation.op, prompt.escalation.value) == (operator, "it's")


def test_escalate_may_be_a_setting_too() -> None:
    assert parse('prompt x: "a"\n  escalate: true').prompts[0].settings == {"escalate": True}


@pytest.mark.parametrize("text", ["", "\n", "# nothing", "  \n\t# nothing\n  ", "\ufeff"])
def test_empty_text_has_no_schemas(text: str) -> None:
    assert parse(text) == parse("")
    assert parse(text).schemas == ()


@pytest.mark.parametrize(
    "text",
    [
        "schema A:\r\n    a: int\r\n    b: int\r\n",
        "\ufeffschema A:\n    a: int\n    b: int",
        "schema A:\n\ta: int\n\tb: int",
        "\n\nschema A: # x\n# y\n  # z\n\n  a: int # y\n        # deep\n# shallow\n  b: int\n   ",
        "schema   A  :\n a :int\n b:int",
    ],
)
def test_white_space_comments_and_line_ends_mean_nothing(text: str) -> None:
    assert parse(text) == parse("schema A:\n    a: int\n    b: int\n")


def test_types_handed_in_are_names() -> None:
    file = parse("schema A:\n  a: url @length(1, 9)", types={"url": {"type": "string", "format": "uri"}})
    assert file.schemas[0].fields[0].type == Name("url")


def test_prompts_may_expect_types_of_all_kinds() -> None:
    texts = ["string", "A?", "map[A]", "any", "any[] as jsonl", "map[any][] as jsonl", "1 | 2", "A as json"]
    for text in texts:
        file = parse(f"schema A:\n  a: int\nprompt x expecting {text}: 'a'")
        assert file.prompts[0].expecting is not None


def test_code_blocks_of_the_guide_can_be_parsed() -> None:
    guide = guide_page("schema-language.md").read_text("utf-8")
    whole, outline, apart = re.findall(r"^```prompt\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert format(whole).startswith("# What a review finds.\nschema Source:\n")
    assert len(parse(whole + apart).prompts) == 1
    assert parse(outline.replace("TYPE", "any[]")).prompts[0].name == "NAME"
