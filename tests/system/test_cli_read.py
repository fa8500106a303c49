"""`read` as a process: what it prints of an answer, where, when, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command import PROGRAM, ROOT, environment, run
from tests.support.guides import guide_page

DEFINITION = {
    "type": "object",
    "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
    "required": ["entity", "definition"],
}
ANSWER = """Sure!
```json
{"entity": "DNA", "definition": "carries instructions"}
{"entity": "RNÄ 日本", "definition": 5}
{"entity": "gene", "definition": "a part of "DNA""}
{"entity": "cell", "definition": "x", "definition": "unit of life"}
{"entity": "lost", "defin"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.json").write_text(json.dumps(DEFINITION))
    (tmp_path / "answer.txt").write_text(ANSWER, "utf-8")
    return tmp_path


DEFINITIONS = ["--format", "jsonl", "--schema", "schema.json"]


def test_valid_objects_are_printed_and_a_line_for_each_refused_one(folder: Path) -> None:
    result = run("read", "answer.txt", *DEFINITIONS, folder=folder)
    assert result.returncode == 0
    assert result.stdout == (
        '{"entity": "DNA", "definition": "carries instructions"}\n'
        '{"entity": "cell", "definition": "unit of life"}\n'
    )
    assert [line for line in result.stderr.splitlines() if not line.startswith("hint")] == [
        "answer.txt: 2 objects, extracted from other text or another layout; 2 refused; truncated",
        "answer.txt:4:36: refused object 2: /definition: expected string, found integer 5",
        "answer.txt:5:46: refused object 3: no JSON: Expecting ',' delimiter",
        'answer.txt:6:39: duplicate key: "definition" is there twice, the last one counts',
        "answer.txt:7:26: truncated: the text ends inside the value that begins at line 7, column 1",
    ]


def test_explain_shows_lines_and_a_caret_under_each_place(folder: Path) -> None:
    result = run("read", "answer.txt", *DEFINITIONS, "--explain", folder=folder)
    assert result.stdout.count("\n") == 2
    assert (
        "answer.txt:4:36: refused object 2: /definition: expected string, found integer 5\n"
        '    4 | {"entity": "RNÄ 日本", "definition": 5}\n'
        f"      | {' ' * (35 + 2)}^\n"  # two characters before it are wide
    ) in result.stderr
    assert (
        f'    5 | {{"entity": "gene", "definition": "a part of "DNA""}}\n      | {" " * 45}^\n'
    ) in result.stderr
    assert '    7 | {"entity": "lost", "defin\n      |                          ^' in result.stderr


def test_explain_shows_where_a_cut_value_of_many_lines_begins(folder: Path) -> None:
    result = run(
        "read", "-", "--format", "json", "--explain", folder=folder, input='{\n "a": [1,\n  {"b": "text'
    )
    assert result.returncode == 1
    assert result.stderr.startswith("<stdin>: nothing to use: truncated\n")
    assert (
        "<stdin>:3:14: truncated: the text ends inside the value that begins at line 1, column 1, at /a/1/b\n"
        "    1 | {\n"
        "    … |\n"
        '    3 |   {"b": "text\n'
        "      |              ^\n"
    ) in result.stderr


def test_json_has_all_of_the_reading_in_one_value(folder: Path) -> None:
    result = run("read", "answer.txt", *DEFINITIONS, "--json", folder=folder)
    outcome = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert (outcome["file"], outcome["format"]) == ("answer.txt", "jsonl")
    assert (outcome["reason"], outcome["stage"], outcome["truncated"]) == ("success", "extracted", True)
    assert [value["entity"] for value in outcome["value"]] == ["DNA", "cell"]
    refused = outcome["rejected"][0]
    assert (refused["index"], refused["line"], refused["column"]) == (1, 4, 1)
    assert ANSWER[refused["start"] :].startswith(refused["raw"])
    [issue] = refused["issues"]
    assert (issue["path"], issue["line"], issue["column"]) == ("/definition", 4, 36)
    assert (outcome["cut"]["line"], outcome["cut"]["column"], outcome["cut"]["begins"]["column"]) == (
        7,
        26,
        1,
    )
    assert [(twice["key"], twice["line"]) for twice in outcome["duplicates"]] == [("definition", 6)]


def test_the_guide_shows_what_is_printed() -> None:
    guide = guide_page("looking-at-answers.md").read_text("utf-8")
    answer, session, _ = re.findall(
        r"^`{3,4}(?:text|console)\n(.*?)^`{3,4}$", guide, re.MULTILINE | re.DOTALL
    )
    assert answer == (ROOT / "demo" / "answer.txt").read_text("utf-8")
    command, _, printed = session.partition("\n")
    assert command.startswith("$ trustgraph-prompt read ")
    result = run(*command.split()[2:], folder=ROOT)
    assert result.stdout + result.stderr == printed


def test_the_guide_names_every_key_for_programs() -> None:
    guide = guide_page("looking-at-answers.md").read_text("utf-8")
    _, _, table = guide.partition("## Use it from programs")
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    outcome = json.loads(run("read", "-", "--format", "json", "--json", input="{}").stdout)
    assert {key for cell in cells for key in re.findall("`(.*?)`", cell)} == set(outcome)


def test_each_reason_is_printed_once_where_nothing_can_be_used(folder: Path) -> None:
    result = run("read", "-", *DEFINITIONS, folder=folder, input='{"entity": "lime"}')
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "<stdin>: nothing to use: schema_missing_field; 1 refused\n"
        '<stdin>:1:1: refused object 1: "definition" is missing\n'
    )


def test_place_of_an_error_in_a_fenced_value_is_found(folder: Path) -> None:
    answer = 'Not {"a": 1} but\n```json\n{"entity": "DNA",\n "definition": null}\n```\n'
    result = run("read", "-", "--format", "json", "--schema", "schema.json", folder=folder, input=answer)
    assert "<stdin>:4:16: schema_type_error: /definition: expected string, found null" in result.stderr


def test_error_of_the_one_value_is_printed_once() -> None:
    result = run("read", "-", "--format", "json", "--explain", input="\n[1,\n oops]")
    assert result.stderr.startswith(
        "<stdin>: nothing to use: invalid_json\n"
        "<stdin>:3:2: invalid_json: no JSON: Expecting value\n"
        "    3 |  oops]\n"
        "      |  ^\n"
        "hint: "
    )
    told = json.loads(run("read", "-", "--format", "json", "--json", input="\n[1,\n oops]").stdout)
    [issue] = told["issues"]
    assert told["rejected"] == [
        {"index": 0, "start": 1, "line": 2, "column": 1, "raw": "[1,\n oops]", "issues": [issue]}
    ]
    assert (issue["line"], issue["column"]) == (3, 2)


class TestRepair:
    ANSWER = """Sure!
{"entity": "DNA", "definition": "carries instructions"}
{'entity': 'RNA', "definition": 'x'}
{"entity": "cell" "definition": "unit of life"}
{"entity": "gene", "definition": 5}"""

    def test_repaired_objects_are_named_with_place_and_repair(self, folder: Path) -> None:
        result = run("read", "-", *DEFINITIONS, "--repair", folder=folder, input=self.ANSWER)
        assert [json.loads(line)["entity"] for line in result.stdout.splitlines()] == ["DNA", "RNA", "cell"]
        assert result.stderr.splitlines() == [
            "<stdin>: 3 objects, 2 of them repaired; 1 refused",
            "<stdin>:5:34: refused object 4: /definition: expected string, found integer 5",
            "<stdin>:3:2: repaired object 2: other quotes than JSON's (3 times)",
            "<stdin>:4:19: repaired object 3: a missing comma",
        ]

    def test_repaired_objects_are_not_counted_where_all_were(self, folder: Path) -> None:
        answer = "{'entity': 'DNA', 'definition': 'x'}"
        result = run("read", "-", *DEFINITIONS, "--repair", folder=folder, input=answer)
        assert result.stderr.startswith("<stdin>: 1 object, repaired\n")

    def test_explain_shows_each_repaired_place(self, folder: Path) -> None:
        result = run("read", "-", *DEFINITIONS, "--repair", "--explain", folder=folder, input=self.ANSWER)
        for column in (2, 12, 33):
            assert (
                f"<stdin>:3:{column}: repaired object 2: other quotes than JSON's\n"
                "    3 | {'entity': 'RNA', \"definition\": 'x'}\n"
                f"      | {' ' * (column - 1)}^\n"
            ) in result.stderr

    def test_json_has_the_places_of_repairs(self, folder: Path) -> None:
        result = run("read", "-", *DEFINITIONS, "--repair", "--json", folder=folder, input=self.ANSWER)
        told = json.loads(result.stdout)
        assert told["stage"] == "repaired"
        first, second = told["repaired"]
        assert (first["index"], first["line"], first["column"], first["stage"]) == (1, 3, 1, "repaired")
        assert self.ANSWER[first["start"] :].startswith(first["raw"])
        assert [edit["column"] for edit in first["edits"]] == [2, 12, 33]
        [edit] = second["edits"]
        assert (edit["line"], edit["column"], edit["what"]) == (4, 19, "a missing comma")

    def test_repaired_stream_prints_what_reading_the_whole_prints(self, folder: Path) -> None:
        line = ["read", "-", *DEFINITIONS, "--repair", "--explain"]
        whole = run(*line, folder=folder, input=self.ANSWER)
        stream = run(*line, "--stream", folder=folder, input=self.ANSWER)
        assert (stream.stdout, stream.stderr) == (whole.stdout, whole.stderr)

    @pytest.mark.parametrize(
        ("answer", "place", "way"),
        [
            ('{"a": [1, {"b": "x",\n "c": "tex', "2:11", "1, column 1, at /a/1/c"),
            ('Hm\n{\'a\': [1, {"b": "x",\n "c": "tex', "3:11", "2, column 1"),
        ],
    )
    def test_explain_shows_where_a_salvaged_value_was_cut(self, answer: str, place: str, way: str) -> None:
        result = run("read", "-", "--format", "json", "--repair", "--explain", input=answer)
        assert (result.returncode, json.loads(result.stdout)) == (0, {"a": [1, {"b": "x", "c": "tex"}]})
        assert "<stdin>: 1 value, salvaged: closed where the text ends; truncated\n" in result.stderr
        assert (
            f"<stdin>:{place}: truncated: the text ends inside the value that begins at line {way}\n"
        ) in result.stderr
        assert '"c": "tex\n      |           ^\n' in result.stderr


def test_explain_shows_the_values_that_could_have_been_meant() -> None:
    result = run("read", "-", "--format", "json", input='{"a": 1}\nor\n{"a": 2}')
    assert result.returncode == 1
    assert "<stdin>:1:1: perhaps" in result.stderr
    assert "<stdin>:3:1: perhaps" in result.stderr
    assert "hint: --format jsonl would read 2 objects" in result.stderr


def test_answer_without_json_is_named_with_its_place() -> None:
    result = run("read", "-", "--format", "json", input="\n no idea")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "<stdin>: nothing to use: extraction_failed",
        "<stdin>:2:2: extraction_failed: no JSON in the answer",
    ]


def test_explain_of_a_clean_answer_is_one_line() -> None:
    result = run("read", "-", "--format", "json", "--explain", input='{"a": [1, 2]}\n')
    assert (result.returncode, json.loads(result.stdout)) == (0, {"a": [1, 2]})
    assert result.stderr == "<stdin>: 1 value, read as it is\n"


def test_a_text_is_printed_as_it_is() -> None:
    result = run("read", "-", "--format", "text", input='{"a": 1, "a": 2')
    assert (result.returncode, result.stdout) == (0, '{"a": 1, "a": 2\n')
    assert result.stderr == "<stdin>: 15 characters\n"


def test_text_with_a_final_newline_gets_no_second_one() -> None:
    assert run("read", "-", "--format", "text", input="one\ntwo\n").stdout == "one\ntwo\n"


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_empty_list_is_reported_as_such(form: str) -> None:
    result = run("read", "-", "--format", form, input="[]")
    assert (result.returncode, result.stderr) == (0, "<stdin>: an empty list\n")


def test_big_integers_are_printed_unchanged() -> None:
    number = 2**80 + 1
    result = run("read", "-", "--format", "json", input=f'{{"n": {number}}}')
    assert json.loads(result.stdout) == {"n": number}


def test_answer_with_terminal_escapes_is_printed_without_them() -> None:
    result = run("read", "-", "--format", "json", "--explain", input='{"a": "\x1b[2J\x07"}')
    assert result.returncode == 1
    assert "\x1b" not in result.stderr
    assert "\x07" not in result.stderr


def test_byte_that_is_not_utf_8_costs_its_character_alone(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_bytes(b'{"a": "caf\xe9"}\n{"a": "ok"}\n{"a": "\xe6\x97')
    result = run("read", "answer.txt", "--format", "jsonl", folder=tmp_path)
    assert result.returncode == 0
    assert result.stdout == '{"a": "caf\ufffd"}\n{"a": "ok"}\n'
    assert "answer.txt is not UTF-8: 3 bytes read as \ufffd" in result.stderr


def test_many_refusals_are_counted_and_ten_are_shown(folder: Path) -> None:
    answer = '{"entity": "x"}\n' * 1000
    result = run("read", "-", *DEFINITIONS, folder=folder, input=answer)
    assert result.stderr.count("is missing") == 10
    assert "and 990 more" in result.stderr


class TestStream:
    def test_stream_prints_each_object_when_it_is_complete(self) -> None:
        command = [str(PROGRAM), "read", "-", "--format", "jsonl", "--stream"]
        with subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            for number in range(3):
                process.stdin.write(b'{"n": %d}\n{"n": ' % number)
                process.stdin.flush()
                assert process.stdout.readline() == b'{"n": %d}\n' % number
                process.stdin.write(b'0, "cut": "x"')
                process.stdin.flush()
                process.stdin.write(b"}\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["cut"] == "x"
            process.stdin.write(b'{"n": ')
            process.stdin.close()
            assert process.stdout.read() == b""
            assert b"6 objects, read as it is; truncated" in process.stderr.read()
        assert process.returncode == 0

    def test_stream_prints_what_reading_the_whole_prints(self, folder: Path) -> None:
        whole = run("read", "answer.txt", *DEFINITIONS, "--explain", folder=folder)
        stream = run("read", "answer.txt", *DEFINITIONS, "--explain", "--stream", folder=folder)
        assert (stream.stdout, stream.stderr, stream.returncode) == (whole.stdout, whole.stderr, 0)

    def test_stream_says_what_it_had_to_take_back(self) -> None:
        result = run("read", "-", "--format", "jsonl", "--stream", input='{"draft": 1}\n</think>{"final": 2}')
        assert result.stdout == '{"draft": 1}\n{"final": 2}\n'
        assert 'taken back: {"draft": 1}' in result.stderr

    def test_stream_prints_one_value_when_all_is_there(self) -> None:
        result = run("read", "-", "--format", "json", "--stream", input='{"a":\n1}')
        assert json.loads(result.stdout) == {"a": 1}

    def test_stream_and_json_together_are_refused(self) -> None:
        result = run("read", "-", "--format", "jsonl", "--stream", "--json", input="{}")
        assert (result.returncode, result.stdout) == (2, "")
        assert "--stream" in result.stderr


@pytest.mark.parametrize(("variables", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_messages_are_coloured_on_a_terminal_unless_no_color_is_set(
    variables: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(PROGRAM), "read", "-", "--format", "json"],
        env=environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        process.communicate(b"no idea")
    told = os.read(ours, 10_000)
    os.close(ours)
    assert b"extraction_failed" in told
    assert (b"\x1b[" in told) is coloured
