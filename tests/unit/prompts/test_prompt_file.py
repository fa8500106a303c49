"""Prompts in the schema language, as entries of the config topic; and where in a file something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.ask import try_example
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ConfigError, LanguageError
from trustgraph_prompt.prompts import PromptSet, files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.prompt"


def entries(file: Path, source: str) -> dict[str, Any]:
    file.write_text(source, encoding="utf-8")
    return {key: json.loads(text) for key, text in files.load(file).items()}


def errors(file: Path, source: str) -> list[str]:
    """What is wrong with a file, without its name."""
    file.write_text(source, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        files.load(file)
    return [str(error).removeprefix(f"{file}:") for error in (raised.value, *raised.value.others)]


FILE = '''
schema Finding:
    "Something wrong."
    title: string  "In a few words."
    line: int? @min(1)

system: "Be exact."

prompt review using model "gemma" expecting Finding[]: """
Review {{ code }}.
"""
    description: "Finds mistakes."
    attempts: 2
    repair-by-model: true
    model: {temperature: 0, max-tokens: 400}
    aliases: [look]
    escalate if ~ "I CANNOT"
    example "none":
        answer: "[]"
        reads: []

prompt say: "Say {{ word }}"
    terms: {word: hello}
'''

FINDING = {
    "title": "Finding",
    "description": "Something wrong.",
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "In a few words."},
        "line": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
    },
    "required": ["title"],
}


def test_prompt_file_becomes_the_entries_of_a_workspace(file: Path) -> None:
    assert entries(file, FILE) == {
        "system": {"dialect": "jinja", "prompt": "Be exact."},
        "template.review": {
            "dialect": "jinja",
            "description": "Finds mistakes.",
            "attempts": 2,
            "repair-by-model": True,
            "aliases": ["look"],
            "model": {"name": "gemma", "temperature": 0, "max-tokens": 400},
            "escalate": {"op": "~", "value": "I CANNOT"},
            "response-type": "json",
            "schema": FINDING,
            "many": True,
            "prompt": "Review {{ code }}.\n",
        },
        "template.say": {
            "dialect": "jinja",
            "terms": {"word": "hello"},
            "response-type": "text",
            "prompt": "Say {{ word }}",
        },
    }


def test_prompt_set_of_a_file_asks_what_the_file_says(file: Path) -> None:
    file.write_text(FILE)
    prompts = PromptSet.build(files.load(file))
    definition, question = prompts.question("look", {"code": "x = 1"})
    assert question.system == "Be exact."
    assert question.prompt == f"Review x = 1.\n\n{definition.contract.instructions()}"
    assert (definition.config.model, definition.config.max_tokens, definition.attempts) == ("gemma", 400, 2)
    assert definition.escalation is not None
    assert definition.escalation.holds("I cannot.")


@pytest.mark.parametrize(
    ("expecting", "entry"),
    [
        ("", {"response-type": "text"}),
        (" expecting any", {"response-type": "json"}),
        (" expecting int", {"response-type": "json", "schema": {"type": "integer"}}),
        (" expecting int[]", {"response-type": "json", "schema": {"type": "integer"}, "many": True}),
        (" expecting list[int]", {"response-type": "json", "schema": {"type": "integer"}, "many": True}),
        (" expecting any[]", {"response-type": "json", "many": True}),
        (" expecting any[] as jsonl", {"response-type": "jsonl"}),
    ],
)
def test_expected_type_decides_the_response_type_and_schema(
    file: Path, expecting: str, entry: dict[str, Any]
) -> None:
    found = entries(file, f'prompt p{expecting}: "x"\n')
    assert found == {"template.p": {"dialect": "jinja", "prompt": "x", **entry}}


MIXED = """
schema A:
    type: "a"
    one: string
schema B:
    type: "b"
    two: A?
prompt p expecting (A | B)[] as jsonl: "x"
"""


def test_schemas_of_several_kinds_have_a_discriminator(file: Path) -> None:
    contract = Contract.from_schema(entries(file, MIXED)["template.p"]["schema"], format="jsonl")
    assert contract.discriminator == "type"
    assert contract.accepts({"type": "b", "two": {"type": "a", "one": "x"}, "more": "is welcome"})
    assert not contract.accepts({"type": "b", "two": {"type": "b"}})
    assert not contract.accepts({"type": "a", "one": 1})


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            'prompt a: "x"\n    respnse: 1\n    attempts: many\n    model: {temperature: hot}\n',
            [
                "2:14 /respnse: unknown key",
                "3:15 /attempts: it is of the wrong type (found 'many'",
                "4:26 /model/temperature: it is of the wrong type (found 'hot'",
            ],
        ),
        ('prompt a: "x"\n    attempt: 2\n', ["2:14 /attempt: unknown key, did you mean 'attempts'?"]),
        (
            'prompt a expecting any: "x"\n    response-type: jsonl\n',
            ["2:20 /response-type: this key is not a clause of a prompt file"],
        ),
        ('prompt a: "x"\n    prompt: "y"\n', ["2:13 /prompt: this key is not a clause of a prompt file"]),
        (
            'prompt a: "x"\n    escalate: {op: "~", value: "no"}\n',
            ["2:15 /escalate: this key is not a clause"],
        ),
        (
            'prompt a using model "m": "x"\n    model: {name: n}\n',
            ["2:19 /model/name: the model is named twice"],
        ),
        ('prompt a: "x"\n    repair: true\n', ["1:8: `repair` does not apply to an answer of type text"]),
        (
            'prompt a expecting any: "x"\n    repair-by-model: true\n',
            ["1:8: `repair-by-model` needs a second"],
        ),
        (
            'prompt a expecting any: "x"\n    passes: 2\n',
            ["1:20: `passes` does not apply to an answer of type"],
        ),
        ('prompt a expecting any[] as jsonl: "x"\n    passes: 9\n', ["2:13 /passes: it is too large"]),
        ('prompt a: """\n{{ y|shout }}\n"""\n', ["2:1: the filter `shout` is not available"]),
        ('\nprompt a:\n    text: "{% for %}"\n', ["3:12: found `%}`, expected an expression"]),
        ('prompt a:\n    text: """\n    a\n      {{ y|shout }}\n    """\n', ["4:7: the filter `shout`"]),
        ('prompt a:\n    text: """a\n    {{ y|shout }}\n    """\n', ["3:5: the filter `shout`"]),
        ('prompt a:\n    text: "b"\n    system: """\n    {{ y|shout }}"""\n', ["4:5: the filter `shout`"]),
        ("prompt a\nprompt a: '''\n  b\n    {{ y|shout }}\n'''\n", ["4:5: the filter `shout`"]),
        ("prompt a: '''b\n{{ y|shout }}\n'''\nschema X\n", ["2:1: the filter `shout`", "4:9: incomplete"]),
        ('prompt a: "{{"\nprompt a: "b"\nschema X\n', ["3:9: incomplete statement"]),
        (
            'prompt a using model "m"\nprompt a: "x"\n    model: {name: n}\n',
            ["3:19 /model/name: the model is named twice (found 'n', expected only `using model 'm'` in"],
        ),
        ('prompt a: "x"\nprompt a:\n    atempts: 2\n', ["3:14 /atempts: unknown key, did you mean"]),
        ('system: """\n\n{{ y|shout }}\n"""\n', ["3:1: the filter `shout`"]),
        ('prompt a: """b {{ y|shout }}\n"""\n', ["1:16: the filter `shout`"]),
        ('prompt a: """\n    b\n      {{ x }} {{ }}\n"""\n', ["3:15: `{{ }}` is empty"]),
        ('prompt a: """\n    b\n      {{ x }} {{ y|shout }}\n"""\n', ["3:7: the filter `shout`"]),
        ('prompt a: "\\n{{ y|shout }}"\n', ["1:11: line 2: the filter `shout`"]),
        ('system: "{{ y|shout }}"\n', ["1:10: the filter `shout`"]),
        ('schema X:\n    a: string @pattern("[")\nprompt a expecting X: "x"\n', ["2:15: "]),
        (
            'schema X:\n    a: date = "soon"\n    b: X? = {}\n    c: X[] = [{a: 1}]\n',
            ["2:15: the default is not of the type: expected format date", "4:14: the default is not"],
        ),
        (
            'prompt a expecting any: "x"\n    invariants: [{rule: "a +"}]\n',
            ["2:18 /invariants/0: invalid rule"],
        ),
        ('prompt "": "x"\n', ["1:8: the prompt has no name"]),
        (
            'prompt a: "x"\n    example:\n        answer: "y"\n',
            ["2:5: a: an example: the expected result is missing (found 'answer'"],
        ),
        (
            'prompt a: "x"\n    example:\n        answer: "y"\n        read: "y"\n',
            ["4:15 /read: unknown key, did you mean 'reads'?", "2:5: a: an example: the expected"],
        ),
        (
            'prompt a: "x"\n    example:\n        answer: "y"\n        reason: odd\n',
            ["4:17 /reason: it is not one of the allowed values"],
        ),
        ('prompt a: "{{"\nprompt b: "{%"\n', ["1:12: `{{` is not closed", "2:12: `{%` is not closed"]),
    ],
)
def test_error_in_a_prompt_has_its_line_and_column(file: Path, source: str, told: list[str]) -> None:
    found = errors(file, source)
    assert len(found) == len(told)
    for one, beginning in zip(found, told, strict=True):
        assert one.startswith(beginning)


def test_example_of_an_answer_refused_as_a_whole_names_the_reason(file: Path) -> None:
    file.write_text(
        'schema X:\n    a: string\nprompt p expecting X[] as jsonl: "x"\n'
        '    example "bad":\n        answer: \'{"a": 1}\'\n        reads: []\n        refuses: 1\n'
    )
    read = files.read(file)
    with pytest.raises(ConfigError, match="a valid answer, or `reason: schema_type_error`"):
        try_example(read.build().prompts["p"], read.examples[0])


def test_unknown_type_has_its_line_and_column(file: Path) -> None:
    file.write_text('prompt a expecting Nothing: "x"\n')
    with pytest.raises(LanguageError, match=r"some\.prompt:1:20: unknown type"):
        files.load(file)


def test_alias_of_two_prompts_is_an_error_at_the_second(file: Path) -> None:
    file.write_text('prompt a: "x"\n    aliases: [b]\nprompt c: "x"\n    aliases: [b]\n')
    with pytest.raises(ConfigError, match=r"some\.prompt:4:14 /aliases: the alias `b` is that of another"):
        files.read(file).build()


def test_file_of_schemas_alone_has_no_entries(file: Path) -> None:
    assert entries(file, "schema X:\n    a: int\n") == {}


def test_thousand_prompts_in_one_file_are_read_in_linear_time(file: Path) -> None:
    one = 'prompt p{n} expecting any[] as jsonl: "Say {{{{ word }}}}"\n    attempts: 2\n'

    def read(count: int) -> None:
        assert len(entries(file, "".join(one.format(n=n) for n in range(count)))) == count

    read(1000)
    assert is_linear(read, 25)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('prompt p: "x"\n    example:\n        answer: "' + "y" * 1024 * 1024, "the text is too large"),
        ("prompt p: " + "[" * 100_000, "some.prompt:1:11: "),
        ('prompt p: "x"\n    terms: ' + "[" * 100_000, "nested too deep"),
        ('prompt p: "x"\n    terms: {t: ' + "9" * 10_000 + "}\n", "the number is too large"),
        ("\x00", "this character is not allowed"),
        ("{% raw %}" * 50_000, "some.prompt:1:1: "),
    ],
    ids=["a megabyte", "brackets", "nested", "digits", "zero", "no such language"],
)
def test_hostile_files_are_refused(file: Path, source: str, told: str) -> None:
    file.write_text(source)
    with pytest.raises(ConfigError) as raised:
        files.load(file)
    assert told in str(raised.value)
    assert len(str(raised.value)) < 2_000


@pytest.mark.parametrize(
    "source",
    [
        lambda size: 'prompt p: "x"\n    example:\n        answer: "' + "y" * size,
        lambda size: 'prompt p: "x"\n    terms: ' + "[" * size,
        lambda size: 'prompt p: "x"\n    terms: {t: ' + "9" * size + "}\n",
        lambda size: "{% raw %}" * size,
    ],
    ids=["an open text", "nested", "digits", "no such language"],
)
def test_hostile_files_are_refused_in_linear_time(file: Path, source: Callable[[int], str]) -> None:
    def refused(size: int) -> None:
        file.write_text(source(size))
        with pytest.raises(ConfigError):
            files.load(file)

    assert is_linear(refused, 2_000)


def test_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"prompt a: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 10"):
        files.load(file)


def test_all_errors_of_a_file_are_listed(file: Path) -> None:
    source = (
        'prompt one:\n    text: """\n    Find {{ text\n\n    <passage>\n    """\n'
        "prompt two:\n    Find the volcanoes\n"
        'schema A:\n    a int\nprompt three expecting A[]: "{{ a b }}"\n'
        'prompt four expecting Nope: "x"\nsystem: "{% if x %}"\n'
    )
    assert [(error.split(": ")[0], error.split(": ", 1)[1][:27]) for error in errors(file, source)] == [
        ("3:10", "`{{` is not closed by `}}`"),
        ("8:5", "text must be in quotes (fou"),
        ("10:7", "unexpected text (found 'int"),
        ("11:30", "found `b`, expected `}}`"),
        ("12:23", "unknown type (found 'Nope',"),
        ("13:10", "`{% if %}` is not closed by"),
    ]
