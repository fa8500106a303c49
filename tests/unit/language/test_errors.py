"""What is wrong with a text is said with its line and column, in words of an author."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

import re

import pytest

from tests.support.memory import bytes_beside_the_result
from tests.support.steps import is_linear
from trustgraph_prompt.errors import ConfigError, LanguageError
from trustgraph_prompt.language import parse
from trustgraph_prompt.language.parse import read


def wrong(text: str) -> list[str]:
    """Everything that is said about a text: "line:column: what (found …, expected …)"."""
    with pytest.raises(LanguageError) as caught:
        parse(text)
    told: list[ConfigError] = [caught.value, *caught.value.others]
    return [re.sub(r"^line (\d+), column (\d+)", r"\1:\2", str(error)) for error in told]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schemas A:\n  a: int", "1:1: unexpected text (found 'schemas', expected schema, prompt"),
        ("schema A\n  a: int", "1:9: incomplete statement (found 'the end of the line', expected extends, closed or ':'"),
        ("schema:\n  a: int", "1:7: unexpected text (found ':', expected the name of the schema)"),
        ("schema A extends:\n  a: int", "1:17: unexpected text (found ':', expected the name of a schema)"),
        ("schema A:\na: int", "2:1: unexpected text (found 'a', expected schema, prompt, system, an indented"),
        ("schema A:\n  a int", "2:5: unexpected text (found 'int', expected ':')"),
        ("schema A:\n  a:", "2:5: incomplete statement (found 'the end of the line', expected a type, such as"),
        ("schema A:\n  a: int int", "2:10: unexpected text (found 'int', expected a constraint such as"),
        ("schema A:\n  a: int,", "2:9: unexpected text (found ',', expected "),
        ("schema A:\n  a: int =", "2:11: incomplete statement (found 'the end of the line', expected a value)"),
        ("schema A:\n  a: int |", "2:11: incomplete statement (found 'the end of the line', expected a type"),
        ("schema A:\n  a: int @", "2:10: unexpected text (found '@', expected a constraint such as @min(1)"),
        ("schema A:\n  3d: int", "2:3: unexpected text (found '3d', expected a field, as in title: string"),
        ("schema A:\n  a: $b", "2:6: unexpected text (found '$', expected a type"),
        ("schema A:\n  a: 007", "2:6: unexpected text (found '007', expected a type"),
        ("schema A:\n  a: “b”", "2:6: unexpected text (found '“ (left double quotation mark)', expected"),
        ("schema A:\n  a:\u00a0int", "2:5: unexpected text (found '\\xa0 (no-break space)', expected a type"),
        ("schema A:\n  a: 'b", "2:6: the closing quote is missing on this line (found \"'b\", expected another ')"),
        ('schema A:\n  a: "b\n  c: int', "2:6: the closing quote is missing on this line (found '\"b', expected another \")"),
        ("schema A:\n  a: list[int\n  b: int", "2:10: a bracket is not closed (found '[', expected ']')"),
        ("schema A:\n  a: int @min(1\n  b: int", "2:14: a bracket is not closed (found '(', expected ')')"),
        ("schema A:\n  a: list[int", "2:10: a bracket is not closed (found '[', expected ']')"),
        ("schema A:\n  a: any = {b: [1, 2}", "2:21: unexpected text (found '}', expected ',' or ']')"),
        ("schema A:\n  a: int\n    b: int", "3:5: unexpected indentation"),
        ("  schema A:\n    a: int", "1:3: unexpected indentation"),
        ("schema A:\n    a: int\n  b: int", "3:3: the indentation matches no line above (found 'indented by 2'"),
        ("schema A:\n  a: int\n\tb: int", "3:1: the indentation mixes spaces and tabs (found 'indented with tabs', expected spaces"),
        ("schema A:\n \ta: int", "2:1: the indentation mixes spaces and tabs"),
        ("schema A:\n  a: '\\d'", "2:6: unknown escape \\d; a backslash is written \\\\"),
        ("schema A:\n  a: '\\ud800'", "2:6: unpaired surrogate"),
        ("schema A:\n  a: 1e999", "2:6: the number is too large"),
        ("schema A:\n  a: \x00", "2:6: this character is not allowed: U+0000"),
        ("prompt x", "1:8: the prompt x has no text (found 'nothing', expected text:"),
        ("prompt x\n  attempts: 2", "1:9: incomplete statement (found 'the end of the line', expected ':')"),
        ("prompt x:", "1:8: the prompt x has no text (found 'nothing', expected text:"),
        ("prompt x:\n  attempts: 2", "1:8: the prompt x has no text"),
        ('prompt x: ""', "1:8: the prompt x has no text"),
        ('prompt x:\n  attempts: 2\n  text: """\n  \n  """', "1:8: the prompt x has no text"),
        ("prompt x: '''abc\n", "1:11: the closing quotes are missing (found \"'''\", expected another ''' after it)"),
        ('prompt x: """abc\n', "1:11: the closing quotes are missing (found '\"\"\"', expected another \"\"\" after it)"),
        ("prompt x using gpt: 'a'", "1:16: unexpected text (found 'gpt', expected model)"),
        ("prompt x expecting int as xml: 'a'", "1:27: unexpected text (found 'xml', expected jsonl or json)"),
        ("prompt x: 'a'\n  escalate ~ 'b'", "2:12: unexpected text (found '~', expected if)"),
        ("prompt x: 'a'\n  escalate if = 'b'", "2:15: unexpected text (found '=', expected ~, ==, != or contains)"),
        ("prompt x: 'a'\n  attempts 2", "2:12: unexpected text (found '2', expected ':')"),
        ("prompt x: 'a'\n  text: 'b'", "2:9: the text is given twice"),
        ("prompt x:\n  text: 3", "2:9: the text of a prompt must be a string (found 3, expected quotes around it)"),
        ("prompt x using model 'a' using model 'b': 'c'", "1:38: the model is given twice"),
        ("prompt x: 'a'\n  a: 1\n  a: 2", "3:3: duplicate key a"),
        ("prompt x: 'a'\n  a: {b: 1, 'b': 2}", "2:13: duplicate key b"),
        ("prompt x: 'a'\n  example:\nprompt y: 'b'", "3:1: incomplete statement (found 'the end of the block', expected an indented line)"),
        ("prompt x:\n  Find the volcanoes.\n  And more.", "2:3: text must be in quotes (found 'Find the volcanoes.', expected quotes around it)"),
        ("prompt x:\n  text: Find the volcanoes", "2:9: text must be in quotes (found 'Find the volcanoes'"),
        ("prompt x:\n  text: Find, if you can", "2:9: text must be in quotes (found 'Find, if you can'"),
        ("prompt x: Find the volcanoes", "1:11: text must be in quotes (found 'Find the volcanoes'"),
        ("system: Be careful", "1:9: text must be in quotes (found 'Be careful'"),
        ("prompt x: 'a'\n  terms: {a b}", "2:13: unexpected text (found 'b', expected ':')"),
        ("system: 'a'\nsystem: 'b'", "2:9: duplicate system message"),
    ],
)  # fmt: skip
def test_syntax_error_has_its_line_and_column(text: str, said: str) -> None:
    assert wrong(text)[0].startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema A:", "1:8: the schema A has no fields (found 'nothing', expected a field, as in: title: string)"),
        ("schema A:\n  'Just a remark.'", "1:8: the schema A has no fields"),
        ("schema A:\n  a: int\nschema A:\n  b: int", "3:8: the schema A is already defined in line 1"),
        ("schema A:\n  a: int\n  b: int\n  a: string", "4:3: the field a of A is already defined in line 2"),
        ("schema int:\n  a: int", "1:8: a schema cannot have the name of a type (found 'int', expected another name"),
        ("schema A extends B:\n  a: int", "1:18: unknown schema B"),
        ("schema Volcano:\n a: int\nschema B extends Volcanoe:", "3:18: unknown schema Volcanoe, did you mean 'Volcano'?"),
        ("schema A extends int:\n  a: int", "1:18: int is not a schema (found 'int', expected the name of a schema)"),
        ("schema A extends B, B:\n  a: int\nschema B:\n  b: int", "1:21: A extends B twice"),
        ("schema A extends A:\n  a: int", "1:8: a schema extends itself: A extends A"),
        ("schema A extends B:\n  a: int\nschema B extends C:\n  b: int\nschema C extends B:\n  c: int",
         "3:8: a schema extends itself: B extends C extends B"),
        ("schema A:\n  a: A", "1:8: no finite value is possible (found 'A contains A', expected ?, [] or a default"),
        ("schema A:\n  n: int\n  b: B | C\nschema B:\n  c: C\nschema C:\n  a: A", "1:8: no finite value is possible (found 'A contains B contains C contains A'"),
        ("schema A:\n  a: A?\nschema B extends A:\n  a: B", "3:8: no finite value is possible (found 'B contains B'"),
        ("schema A:\n  f: int\nschema B:\n  f: string\nschema C extends A, B:",
         "5:21: A and B define the field f differently (found 'f: int and f: string', expected a field f of C that replaces both"),
        ("schema A:\n  a: strng", "2:6: unknown type, did you mean 'string'? (found 'strng', expected a type of the"),
        ("schema A:\n  a: str", "2:6: unknown type, did you mean 'string'?"),
        ("schema A:\n  a: integer", "2:6: unknown type, did you mean 'int'?"),
        ("schema A:\n  a: number[]", "2:6: unknown type, did you mean 'float'?"),
        ("schema A:\n  a: dict", "2:6: unknown type, did you mean 'map'?"),
        ("schema A:\n  a: (int | B)[]", "2:13: unknown type (found 'B'"),
        ("schema A:\n  a: list", "2:6: list needs the type of its items (found 'list', expected list[string], list[any] or similar)"),
        ("schema A:\n  a: set[int]", "2:6: only list and map take a type in brackets (found 'set[…]'"),
        ("schema A:\n  a: int??", "2:6: duplicate ? (found 'int??', expected int?)"),
        ("schema A:\n  a: null?", "2:6: the ? is redundant: the type allows null"),
        ("schema A:\n  a: (int | null)?", "2:7: the ? is redundant: the type allows null"),
        ("schema A:\n  a: int? | string", "2:6: ? is not allowed inside a union (found 'int?', expected ? after the union"),
        ("schema A:\n  a: int | int", "2:12: duplicate alternative int"),
        ("schema A:\n  a: 'x' | 'x'", "2:12: duplicate alternative \"x\""),
        ("schema A:\n  a: 1 | 1.0", "2:10: duplicate alternative 1.0"),
        ("schema A:\n  a?: int?", "2:3: the ? after the name is redundant: the type ends with ? (found 'a?', expected a)"),
        ("schema A:\n  a?: int = 1", "2:3: the ? after the name is redundant: the field has a default (found 'a?', expected a)"),
        ("schema A:\n  a?: int | null", "2:3: a field that may be missing or null has its ? after the type (found 'a?', expected a: int?)"),
        ("schema A:\n  a??: int", "2:5: unexpected text (found '?', expected ':')"),
        ("schema A:\n  a: (int 'x') 'y'", "2:16: duplicate description"),
        ("schema A:\n  a: (int @min(1))[] @min(1)", "2:22: @min does not apply to this type"),
        ("schema A:\n  a: (string @min(1))[]", "2:14: @min does not apply to this type (found 'string', expected a number)"),
        ("schema A:\n  a: (int @min(2) @max(1))[]", "2:11: no number satisfies both this and @max"),
        ("schema A:\n  a: (int 'x')? @min(1)", "2:17: @min does not apply to this type"),
        ("schema A:\n  a: (int? 'x') | string", "2:7: ? is not allowed inside a union"),
        ("schema A:\n  a: (int? 'x')?", "2:7: duplicate ?"),
        ("schema A:\n  a: (A 'x') | (A 'y')", "1:8: no finite value is possible"),
        ("schema A:\n  a: (int 'x')[] = [1, 'b']", "2:20: the default does not match the type"),
        ("schema A:\n  a: int @minimum(1)", "2:10: unknown constraint, did you mean 'min'? (found '@minimum', expected @min"),
        ("schema A:\n  a: int @min(1) @min(2)", "2:18: duplicate constraint @min"),
        ("schema A:\n  a: int @min('1')", "2:10: invalid arguments of @min (found '@min(\"1\")', expected @min(0))"),
        ("schema A:\n  a: int @min(true)", "2:10: invalid arguments of @min"),
        ("schema A:\n  a: int @multiple(0)", "2:10: invalid arguments of @multiple"),
        ("schema A:\n  a: string @length", "2:13: invalid arguments of @length (found '@length', expected @length(5), @length(1"),
        ("schema A:\n  a: string @length(2, 1)", "2:13: invalid arguments of @length (found '@length(2, 1)'"),
        ("schema A:\n  a: string @length(any)", "2:13: invalid arguments of @length (found '@length(any)'"),
        ("schema A:\n  a: string @length(0, any)", "2:13: invalid arguments of @length"),
        ("schema A:\n  a: string @length(1.5)", "2:13: invalid arguments of @length"),
        ("schema A:\n  a: string @min(1)", "2:13: @min does not apply to this type (found 'string', expected a number)"),
        ("schema A:\n  a: int[] @min(1)", "2:12: @min does not apply to this type"),
        ("schema A:\n  a: date @pattern('.')", "2:11: @pattern does not apply to this type"),
        ("schema A:\n  a: A? @length(1)", "2:9: @length does not apply to this type (found 'A?', expected a string or a list or a map)"),
        ("schema A:\n  a: any @unique", "2:10: @unique does not apply to this type (found 'any', expected a list)"),
        ("schema A:\n  a: int @min(2) @max(1)", "2:10: no number satisfies both this and @max (found 2, expected at most 1)"),
        ("schema A:\n  a: int @above(1) @max(1)", "2:10: no number satisfies both this and @max (found 1, expected less than 1)"),
        ("schema A:\n  a: int = 'x'", "2:12: the default does not match the type (found 'x', expected int)"),
        ("schema A:\n  a: bool = 1", "2:13: the default does not match the type"),
        ("schema A:\n  a: 'x' | 'y' = z", "2:18: the default does not match the type (found 'z', expected \"x\" | \"y\")"),
        ("schema A:\n  a: int[] = [1, 'b']", "2:14: the default does not match the type"),
        ("schema A:\n  a: int @max(1) = 2", "2:20: the default violates a constraint (found 2, expected @max(1))"),
        ("schema A:\n  a: string @length(1) = 'ab'", "2:26: the default violates a constraint"),
        ("prompt x\nprompt y: 'a'\nprompt x: ''", "1:8: the prompt x has no text, here or in line 3"),
        ("prompt x using model 'a': 'b'\nprompt x using model 'c'", "2:22: the prompt x names a different model in line 1 (found 'c', expected 'a' or nothing)"),
        ("prompt x expecting int: 'a'\nprompt x expecting any", "2:20: the prompt x expects a different type in line 1 (found 'any', expected 'int' or"),
        ("prompt x expecting any[]: 'a'\nprompt x expecting any[] as jsonl", "2:20: the prompt x expects a different type in line 1"),
        ("prompt x:\n  a: 1\nprompt x: 'a'\nprompt x:\n  a: true", "5:6: the prompt x has a different value for a in line 2 (found True, expected 1 or nothing)"),
        ("prompt x: 'a'\n  a: {'b/c': [1]}\nprompt x:\n  a: {'b/c': [2]}", "4:14: the prompt x has a different value for a/b/c in line 2"),
        ("prompt x expecting B: 'a'", "1:20: unknown type (found 'B'"),
        ("schema A:\n  a: int\nprompt x expecting A as jsonl: 'a'", "3:20: jsonl needs a list of objects (found 'A', expected a list"),
        ("prompt x expecting string[] as jsonl: 'a'", "1:20: jsonl needs a list of objects"),
    ],
)  # fmt: skip
def test_contradiction_or_unknown_name_has_its_line_and_column(text: str, said: str) -> None:
    assert wrong(text)[0].startswith(said)


def test_name_of_the_file_stands_before_the_line() -> None:
    with pytest.raises(LanguageError) as caught:
        parse("schema A:\n  a: int int", where="prompts/a.prompt")
    assert caught.value.where == "prompts/a.prompt:2:10"


def test_all_problems_are_listed_in_the_order_of_the_text() -> None:
    text = "schema A:\n  a: strng\n  a: int @foo\n  b: list\nprompt x expecting B: 'a'\n"
    assert [one.split(" ")[0] for one in wrong(text)] == ["2:6:", "3:3:", "3:10:", "4:6:", "5:20:"]


def test_statement_that_cannot_be_read_does_not_hide_the_next() -> None:
    text = (
        "schema A:\n  a: int int\n  b\n"
        'prompt x: """\nschema B: is no schema here, only text\n"""\n  oops\n'
        "schema C extends\n  c: int\nschema D:\n  d: A\n"
    )
    assert [one.split(" ")[0] for one in wrong(text)] == ["2:10:", "7:7:", "8:17:"]


def test_syntax_error_does_not_hide_unknown_names_and_types() -> None:
    text = "schema A:\n  a int\nschema B extends A:\n  b: strng\nprompt x expecting Nope: 'a'\n"
    assert [one.split(" ")[0] for one in wrong(text)] == ["2:5:", "4:6:", "5:20:"]


def test_name_of_a_schema_that_cannot_be_read_is_not_called_unknown() -> None:
    assert len(wrong("schema A:\n  a: int int\nschema B:\n  b: A\n")) == 1


def test_missing_text_is_not_reported_where_a_declaration_cannot_be_read() -> None:
    assert len(wrong("prompt x expecting int\nprompt x: 'a'\n  oops\nprompt 'y z' oops\nprompt 'y z'\n")) == 2


@pytest.mark.parametrize("quotes", ['"""', "'''", "'", '"'])
def test_statement_within_a_quoted_text_is_not_read_after_an_error(
    quotes: str,
) -> None:
    inside = "schema B:" if len(quotes) == 1 else "\nschema B:\n  b\n"
    said = wrong(f"prompt x: {quotes}{inside}{quotes}\n  oops\nschema C:\n  c: strng\n")
    assert [one.split(": ", 1)[1][:12] for one in said] == ["incomplete s", "unknown type"]


def test_long_text_does_not_hide_the_problems_behind_it() -> None:
    long = "prompt x: '''\n" + "Much to say.\n" * 10_000 + "'''\n"
    assert len(wrong(long + "prompt y\n  oops\nschema A:\n  a int\nschema B:\n  b: strng\n")) == 3


def test_text_that_is_too_large_is_reported_once() -> None:
    said = wrong("schema A b\n" + "prompt p: 'a'\n" * 15_000)
    assert [one.split(" ", 1)[1][:20] for one in said] == ["unexpected text (fou", "the text is too larg"]


def test_reading_on_after_errors_takes_linear_time() -> None:
    def text(count: int) -> str:
        return "".join(f"schema A{n} b\n" for n in range(15)) + "schema B:\n  b: int\n" * count

    assert is_linear(lambda count: read(text(count)), 100)


def test_at_most_twenty_problems_are_listed() -> None:
    assert len(wrong("schema A:\n" + "".join(f"  f{n}: nothing\n" for n in range(100)))) == 20
    assert len(wrong("".join(f"schema A{n} a: int\n" for n in range(100)))) <= 21


def test_error_after_a_text_closed_too_early_names_where_that_began() -> None:
    said = wrong('prompt a: """\nnot closed\n\nprompt b: """\ntext\n"""\n')
    assert said[0].startswith(
        "5:1: unexpected text after a string that began in line 1: are all quotes closed?"
    )


def test_listed_errors_are_kept_without_the_frames_of_the_parser() -> None:
    def errors(count: int) -> list[str]:
        fields = "".join(f"  f{n}: int\n" for n in range(20))
        return wrong("".join(f"schema A{n} b\nschema B{n}:\n{fields}" for n in range(count)))

    assert len(errors(16)) == 16
    assert bytes_beside_the_result(lambda: errors(16)) < 6 * bytes_beside_the_result(lambda: errors(4))
