"""The examples that a prompt shows: what becomes of them in a file, in an entry, in a question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trustgraph_prompt.ask import try_examples
from trustgraph_prompt.errors import ConfigError, PromptError, RequestError
from trustgraph_prompt.prompts import PromptDefinition, Turn, files
from trustgraph_prompt.prompts.shown_examples import MOST_CHARACTERS, MOST_SHOWN

RIVER = {
    "type": "object",
    "properties": {"name": {"type": "string", "x-from": "text"}, "length": {"type": "integer"}},
    "required": ["name"],
}
ELBE: dict[str, Any] = {"terms": {"text": "The Elbe."}, "reads": [{"name": "Elbe"}]}


def entry(*shown: Any, **more: Any) -> dict[str, Any]:
    whole = {"dialect": "jinja", "prompt": "{{ text }}", "system": "Find rivers. {{ answer_format }}"}
    return {**whole, "response-type": "jsonl", "schema": RIVER, "shown": list(shown), **more}


def prompt(*shown: Any, **more: Any) -> PromptDefinition:
    return PromptDefinition.from_entry("rivers", entry(*shown, **more))


def error(*shown: Any, **more: Any) -> PromptError:
    with pytest.raises(PromptError) as raised:
        prompt(*shown, **more)
    return raised.value


class TestQuestions:
    def test_question_has_the_examples_in_their_order(self) -> None:
        nothing = {"terms": {"text": "A hill."}, "reads": []}
        question = prompt(ELBE, nothing).question({"text": "The Rhine."})
        assert question.prompt == "The Rhine."
        assert question.examples == (Turn("The Elbe.", [{"name": "Elbe"}]), Turn("A hill.", []))

    def test_passage_of_an_example_is_rendered_as_the_question_is(self) -> None:
        shown = prompt(
            ELBE, prompt="<p>{{ text }}</p> {{ unit }}", terms={"unit": "km"}, system="Find rivers."
        )
        question = shown.question({"text": "The Rhine.", "unit": "miles"})
        assert question.prompt == "<p>The Rhine.</p> miles"
        assert question.examples[0].passage == "<p>The Elbe.</p> km"

    def test_instructions_about_the_answer_come_once_before_the_examples(self) -> None:
        shown = prompt(ELBE, system="Find rivers.")
        form = shown.contract.instructions()
        assert shown.question({"text": "The Rhine."}).system == f"Find rivers.\n\n{form}"
        plain = prompt(system="Find rivers.").question({"text": "The Rhine."})
        assert (plain.system, plain.prompt) == ("Find rivers.", f"The Rhine.\n\n{form}")

    def test_terms_of_the_system_message_are_those_of_the_request_alone(self) -> None:
        shown = prompt(ELBE, system="Find {{ kind }}. {{ answer_format }}")
        assert shown.question({"text": "x", "kind": "rivers"}).examples[0].passage == "The Elbe."
        with pytest.raises(RequestError, match="kind"):
            shown.require({"text": "x"})

    def test_derived_prompts_show_the_same_examples(self) -> None:
        shown = prompt(ELBE, {"terms": {"text": "A hill."}, "reads": []})
        examples = shown.question({"text": "x"}).examples
        checked = shown.with_contract(shown.contract.checked(lambda value: ()))
        prefaced = shown.prefaced("{% if context %}{{ context }}{% endif %}")
        assert checked.question({"text": "x"}).examples == examples
        assert prefaced.question({"text": "x", "context": "Before."}).examples == examples

    def test_question_of_a_prompt_without_examples_has_none(self) -> None:
        assert prompt().question({"text": "x"}).examples == ()

    @pytest.mark.parametrize(
        ("schema", "value", "keys"),
        [
            (RIVER, {"length": 1, "name": "Elbe"}, ["name", "length"]),
            (RIVER, {"other": 1, "name": "Elbe"}, ["name", "other"]),
            (
                {
                    "properties": {"at": RIVER, "b": {"type": "array", "items": {"$ref": "#/$defs/R"}}},
                    "$defs": {"R": RIVER},
                },
                {"b": [{"length": 1, "name": "Elbe"}], "at": {"length": 2, "name": "Elbe"}},
                ["at", "name", "length", "b", "name", "length"],
            ),
            (
                {"anyOf": [{"properties": {"z": {}}, "required": ["z"]}, {"properties": {"y": {}, "x": {}}}]},
                {"x": 1, "y": 2},
                ["y", "x"],
            ),
            (True, {"x": 1, "y": 2}, ["x", "y"]),
        ],
        ids=["object", "unknown key", "nested", "union", "any"],
    )
    def test_keys_of_an_answer_are_in_the_order_of_the_schema(
        self, schema: Any, value: Any, keys: list[str]
    ) -> None:
        shown = prompt({"terms": {"text": "The Elbe."}, "reads": [value]}, schema=schema)
        [answer] = shown.examples[0].answer
        assert answer == value
        written = json.dumps(answer)
        assert sorted(keys) == sorted(part for part in written.replace(":", "").split('"') if part in keys)
        places: list[int] = []
        for key in keys:
            places.append(written.index(f'"{key}":', places[-1] + 1 if places else 0))
        assert places == sorted(places)


class TestVersion:
    def test_version_covers_what_is_shown_and_how(self) -> None:
        other = {**ELBE, "terms": {"text": "The river Elbe."}}
        prompts = [prompt(), prompt(ELBE), prompt(other), prompt(ELBE, other), prompt(other, ELBE)]
        prompts.append(prompt(ELBE, examples={"as": "text"}))
        assert len({each.version for each in prompts}) == len(prompts)

    def test_version_of_a_prompt_that_shows_nothing_is_the_same_as_before(self) -> None:
        without = {key: value for key, value in entry().items() if key != "shown"}
        same = PromptDefinition.from_entry("rivers", without).version
        assert prompt().version == prompt(examples={"as": "text"}).version == same


class TestRejected:
    @pytest.mark.parametrize(
        ("shown", "path", "says"),
        [
            ({"reads": []}, "/shown/1", "`terms` is missing"),
            ({"terms": {"text": "a"}}, "/shown/1", "`reads` is missing"),
            ({"terms": {"txt": "a"}, "reads": []}, "/shown/1/terms", r"terms are missing \(found \['txt'\]"),
            (
                {"terms": {"text": "a", "answer_format": "b"}, "reads": []},
                "/shown/1/terms/answer_format",
                "res",
            ),
            (
                {"terms": {"text": "a"}, "reads": [{"name": "b"}]},
                "/shown/1/reads/0/name",
                '"b" is not in the',
            ),
            ({"terms": {"text": "a"}, "reads": [{"name": 3}]}, "/shown/1/reads/0/name", "expected string"),
            ({"terms": {"text": "a"}, "reads": [{}]}, "/shown/1/reads/0", '"name" is missing'),
            ({"terms": {"text": "a"}, "reads": {"name": "a"}}, "/shown/1/reads", "a list of objects"),
            ({"terms": {"text": "a"}, "reads": [], "answer": "[]"}, "/shown/1", "unknown key"),
            ({"terms": {"text": "a " * 10_001}, "reads": []}, "/shown/1/terms", "longer than 20,000"),
            ({"terms": {"text": " \n"}, "reads": []}, "/shown/1/terms", "the passage is empty"),
        ],
        ids=str,
    )
    def test_example_that_cannot_be_shown_is_named(self, shown: Any, path: str, says: str) -> None:
        refused = error(ELBE, shown)
        assert refused.path.startswith(path)
        with pytest.raises(PromptError, match=says):
            raise refused

    def test_answer_as_text_must_be_a_text(self) -> None:
        text = {"response-type": "text", "schema": None}
        assert prompt({**ELBE, "reads": "A river."}, **text).examples[0].answer == "A river."
        for wrong in (["A river."], "", " \n"):
            assert "it must be a text that is not empty" in str(error({**ELBE, "reads": wrong}, **text))

    def test_list_as_json_is_checked_item_by_item(self) -> None:
        many = {"response-type": "json", "many": True}
        assert prompt(ELBE, **many).examples[0].answer == [{"name": "Elbe"}]
        assert error({**ELBE, "reads": [{"name": "Elbe"}, {}]}, **many).path == "/shown/0/reads/1"

    def test_hundred_examples_are_too_many(self) -> None:
        assert f"expected at most {MOST_SHOWN}" in str(error(*[ELBE] * 100))

    def test_examples_that_are_too_long_together_are_refused(self) -> None:
        long = {"terms": {"text": "Elbe " * 3_900}, "reads": [{"name": "Elbe"}]}
        assert len(prompt(*[long] * 4).examples) == 4
        refused = error(*[long] * 5)
        assert refused.path == "/shown/4"
        assert f"at most {MOST_CHARACTERS:,} characters" in str(refused)

    def test_long_answers_count_as_passages_do(self) -> None:
        answer = [{"name": "Elbe"}] * 5_000
        assert error({"terms": {"text": "The Elbe."}, "reads": answer}).path == "/shown/0"

    def test_passage_that_takes_long_to_render_is_refused(self) -> None:
        nested = "{% for a in xs %}{% for b in xs %}{{ text }}{% endfor %}{% endfor %}"
        slow = {"terms": {"text": "", "xs": [0] * 1_000}, "reads": []}
        refused = error(ELBE | {"terms": {"text": "Elbe", "xs": [0]}}, slow, prompt=nested)
        assert refused.path == "/shown/1/terms"
        assert "rendering takes more than" in str(refused)

    def test_deeply_nested_answer_is_refused(self) -> None:
        deep: Any = []
        for _ in range(5_000):
            deep = [deep]
        refused = error({"terms": {"text": "a"}, "reads": [{"name": "a", "deep": deep}]})
        assert refused.path == "/shown/0/reads"
        assert "nested deeper" in str(refused)

    def test_unknown_way_of_showing_is_refused(self) -> None:
        assert error(ELBE, examples={"as": "table"}).path == "/examples/as"


HEAD = """
schema River:
    name: string @from(text)

prompt rivers expecting River[] as jsonl:
    system: "Find rivers in {{ country }}. {{ answer_format }}"
    text: "{{ text }}"
"""
SHOWN = """
    example "the Elbe":
        show: true
        terms: {text: "The Elbe."}
        reads: [{name: "Elbe"}]
"""


def read(folder: Path, source: str) -> files.PromptFiles:
    (folder / "a.prompt").write_text(source, encoding="utf-8")
    return files.read(folder)


def errors(folder: Path, source: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        read(folder, source)
    return [str(one).partition("a.prompt:")[2] for one in (raised.value, *raised.value.others)]


class TestFiles:
    def test_shown_examples_of_a_file_become_part_of_its_entry(self, tmp_path: Path) -> None:
        hidden = SHOWN.replace("show: true", "show: false\n        answer: '[]'").replace(
            '[{name: "Elbe"}]', "[]"
        )
        found = read(tmp_path, HEAD + hidden + SHOWN)
        assert json.loads(found.entries["template.rivers"])["shown"] == [ELBE]
        assert [example.show for example in found.examples] == [False, True]

    def test_file_without_shown_examples_has_no_such_key(self, tmp_path: Path) -> None:
        source = HEAD + '    example:\n        answer: "[]"\n        reads: []\n'
        assert "shown" not in json.loads(read(tmp_path, source).entries["template.rivers"])

    def test_shown_example_is_tested_with_and_without_an_answer(self, tmp_path: Path) -> None:
        found = read(tmp_path, HEAD + SHOWN)
        assert found.examples[0].answer == '{"name": "Elbe"}'
        assert try_examples(found.build(), found.examples) == []
        found = read(tmp_path, HEAD + SHOWN + '        answer: \'So: [{"name": "Oder"}]\'\n')
        [wrong] = try_examples(found.build(), found.examples)
        assert "the Elbe" in str(wrong)

    @pytest.mark.parametrize(
        ("was", "becomes", "says"),
        [
            ('terms: {text: "The Elbe."}', "", "the key `terms` is missing"),
            ("reads:", "refuses: 0\n        answer:", "the key `reads` is missing"),
            (
                '"Elbe"}',
                '"Oder"}',
                '12:24 /reads/0/name: rivers: the Elbe: the answer is rejected: "Oder" is not',
            ),
            ("text: ", "txt: ", "11:16 /terms: rivers: the Elbe: terms are missing"),
            ("show: true", "show: yes", "/show: it is of the wrong type"),
        ],
        ids=["terms", "reads", "rejected", "other terms", "show"],
    )
    def test_example_that_cannot_be_shown_is_named_with_its_place(
        self, tmp_path: Path, was: str, becomes: str, says: str
    ) -> None:
        found = errors(tmp_path, HEAD + SHOWN.replace(was, becomes))
        assert any(says in one for one in found), found
        assert len(found) == len(set(found))

    def test_key_of_entries_is_no_clause_of_a_file(self, tmp_path: Path) -> None:
        [found] = errors(tmp_path, HEAD + "    shown: []\n")
        assert "expected `show: true` in an `example`" in found

    def test_way_of_showing_is_a_clause(self, tmp_path: Path) -> None:
        found = read(tmp_path, HEAD + "    examples: {as: text}\n" + SHOWN)
        assert found.build().prompts["rivers"].examples_as == "text"
