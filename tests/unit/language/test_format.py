"""One layout for all texts of the schema language, in which no comment is lost."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import pytest

from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language import format, parse

TIDY = """# The licence.
#
# No one reads it.


# About A.
schema   A :   # the first
  "What it is."
  # its name

  name:string@length(1,80)'the name' # not the title


  "two words" : list[ string | null ]?
  kind: 'a'|"b"='a'@length(0,0) if


"""

TIDY = '''# The licence.
#
# No one reads it.

# About A.
schema A:  # the first
    "What it is."
    # its name

    name: string @length(1, 80)  "the name"  # not the title

    "two words": string?[]?
    # inner end

system: """
Be exact.
  Be kind.
"""

# Before x.
prompt x using model "m" expecting (A | int)[]: """
Read {{ this }}.  # no comment
"""  # after the text
    attempts: 2
    escalate if ~ "NO"

# Before y.
prompt y expecting A[] as jsonl:
    description: "It's “quoted”: \\"so\\"."
    model: {temperature: 0, max-tokens: 4000}
    text: """
    One.

    Two.
    """
    terms: {
        first: ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbb"],
        second: [
            "ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
            "ddddddddddddddddddddddddddddddddddddddddddddd",
        ],
    }
    # inside
    example "one":  # the best
        answer: """
        {}
        """
        reads: []
# The end.
'''


def test_tidy_text_stays_unchanged() -> None:
    assert format(TIDY) == TIDY
    assert format(format(parse(TIDY))) == format(parse(TIDY))


def test_untidy_text_becomes_tidy_with_the_same_meaning() -> None:
    untidy = (
        TIDY.replace("    ", "\t")
        .replace("string?[]?", "list[ string | null ]?")
        .replace(": string @length(1, 80)  ", ":string@length( 1,80 )")
        .replace("{temperature: 0, max-tokens: 4000}", "{\n'temperature':0 ,\n\n'max-tokens':4000,\n}")
        .replace("schema A:", "schema   A :")
        .replace("\n\n", "\n\n\n")
        .replace("One.\n\n\n", "One.\n\n")
        .replace("\n", "\r\n")
    )
    assert parse(untidy) == parse(TIDY)
    assert format(untidy) == TIDY


def test_comments_within_brackets_are_moved_behind_them() -> None:
    text = 'prompt x: "a"\n    aliases: [  # one\n        "b",  # two\n        # three\n    ]  # four\n'
    said = 'prompt x: "a"\n    aliases: ["b"]  # one\n    # two\n    # three\n    # four\n'
    assert format(text) == said
    assert format(said) == said


def test_declarations_of_a_prompt_stay_where_they_are() -> None:
    text = (
        'prompt x using model "m" expecting int  # first\n\nschema A:\n    a: int\n\n'
        "prompt x:\n    # inner\n    attempts: 2\n\nprompt x: '''\n\"\"\"a\"\"\"\n'''\n\nprompt y\n"
    )
    assert format(text) == text
    assert format(text.replace("prompt y", "prompt   y:")) == text
    whole = parse(text + "prompt y: 'b'")
    assert parse(format(whole)) == whole


def test_text_is_written_in_quotes_that_it_does_not_contain() -> None:
    assert format("prompt x: '''\na\n'''") == 'prompt x: """\na\n"""\n'
    assert format("prompt x: '''\n\"\"\"\n'''") == "prompt x: '''\n\"\"\"\n'''\n"
    assert format("prompt x: '''a\n#\"\"\"\n'''  # c") == "prompt x: '''\na\n#\"\"\"\n'''  # c\n"


def test_tree_that_was_not_parsed_is_written_in_a_fixed_order() -> None:
    file = parse("prompt x: 'a'\n  attempts: 2\nschema A:\n  a: int\nsystem: 'b'\n")
    bare = type(file)(tuple(type(one)(one.name, one.fields) for one in file.schemas), (), file.system)
    assert format(bare) == 'system: "b"\n\nschema A:\n    a: int\n'


@pytest.mark.parametrize(
    "text",
    ["a\n", "a", "a\nb", "\n", "\na\n", " a\n b\n", "a\n\n b\n\n\n", "a\n \nb", "a\rb\n", 'a\n"', 'a"""b\n', "a\\n\nb\n", "\ta\nb"],
)  # fmt: skip
def test_any_formatted_text_is_parsed_unchanged(text: str) -> None:
    file = parse("prompt x:\n    attempts: 2\n    text: 'a'\n")
    prompt = file.prompts[0]
    again = type(prompt)("x", text if text.strip() else "a", settings={"attempts": 2, "about": text})
    read = parse(format(type(file)((), (again,), text)))
    said = read.prompts[0].text, read.prompts[0].settings["about"], read.system
    assert said == (again.text, text, text)


def test_unreadable_text_is_not_formatted_and_unknown_names_are() -> None:
    with pytest.raises(LanguageError) as caught:
        format("schema A:\n  a: int int", where="a.prompt")
    assert caught.value.where == "a.prompt:2:10"
    assert format("schema A:\n  a: url") == "schema A:\n    a: url\n"


def test_argument_with_a_name_is_written_with_it() -> None:
    text = 'schema A:\n    "first name": string\n    says: string @supported( of : "first name" )\n    b: int @supported(of: says)\n'
    formatted = 'schema A:\n    "first name": string\n    says: string @supported(of: "first name")\n    b: int @supported(of: says)\n'
    assert format(text) == formatted
    assert format(formatted) == formatted
    assert parse(text) == parse(formatted)


def test_terms_that_are_words_are_written_without_quotes() -> None:
    untidy = "schema A:\n  q:string@quote( 'title' ,'my text' )@length(1,9)'Copied.'\n"
    tidy = 'schema A:\n    q: string @length(1, 9) @quote(title, "my text")  "Copied."\n'
    assert format(untidy) == format(tidy) == tidy
