"""A prompt in sections as an entry of the config topic: it asks the same, and judges the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from trustgraph_prompt import MarkdownSection, Prompt, PromptDefinition, PromptSet
from trustgraph_prompt.doors import PromptValidationError
from trustgraph_prompt.prompts import files
from trustgraph_prompt.prompts.template import MAX_SOURCE


@dataclass
class Summary:
    title: str
    words: int
    url: str | None = None


class Report(BaseModel):
    title: str = Field(min_length=1)


@dataclass
class Guidance:
    topic: str
    tone: str = "dry"
    lines: list[str] = field(default_factory=lambda: ["a"])
    note: str | None = None


@dataclass
class Other:
    topic: str


def section(template: str, **settings: Any) -> MarkdownSection[Guidance]:
    return MarkdownSection[Guidance](**{"title": "Task", "template": template, **settings})


def prompt(*sections: MarkdownSection[Any], **settings: Any) -> Prompt[Summary]:
    return Prompt[Summary](**{"ns": "tests", "key": "summary", "sections": sections, **settings})


def pushed(made: Prompt[Any]) -> PromptDefinition:
    """The definition that a worker has of it."""
    return PromptDefinition.from_entry("summary", json.loads(json.dumps(made.entry())))


def test_entry_has_all_that_a_worker_needs() -> None:
    made = prompt(section("Sum up ${topic}, in ${tone} words.", key="task"), name="Summaries")
    entry = made.entry()
    assert entry.pop("prompt").startswith(
        "## Task\n\nSum up {{ topic }}, in {{ tone }} words.\n\n## Response"
    )
    assert entry.pop("schema")["required"] == ["title", "words"]
    assert entry == {
        "description": "Summaries (tests)",
        "dialect": "jinja",
        "terms": {"tone": "dry"},
        "response-type": "json",
        "many": False,
        "extra": "forbid",
        "coerce": True,
        "fences": "strict",
        "answer-format": "none",
    }


def test_entry_of_a_list_prompt_asks_for_many_and_may_ignore_keys() -> None:
    entry = Prompt[list[Report]](ns="tests", key="reports", allow_extra_keys=True).entry()
    assert (entry["many"], entry["extra"]) == (True, "ignore")
    assert entry["schema"]["properties"] == {"title": {"type": "string", "minLength": 1}}


def test_entry_of_a_prompt_without_declared_output_asks_for_text() -> None:
    made = Prompt(ns="tests", key="plain", sections=[section("${topic}")])
    assert made.entry() == {
        "description": "plain (tests)",
        "dialect": "jinja",
        "prompt": "## Task\n\n{{ topic }}",
        "response-type": "text",
    }
    assert made.definition().contract.format == "text"


def test_entry_has_output_instructions_only_if_the_prompt_has() -> None:
    made = prompt(section("${topic}"), inject_output_instructions=False)
    assert made.entry()["prompt"] == "## Task\n\n{{ topic }}"


def test_prompt_without_text_has_no_entry() -> None:
    with pytest.raises(PromptValidationError, match="has no text"):
        prompt(inject_output_instructions=False).entry()


@pytest.mark.parametrize("declared", [Summary, list[Summary], Report, list[Report]])
@pytest.mark.parametrize("extra", [True, False])
def test_worker_judges_answers_as_the_prompt_does(declared: Any, extra: bool) -> None:
    made: Prompt[Any] = Prompt[declared](ns="tests", key="summary", allow_extra_keys=extra)
    assert made.structured_output is not None
    fingerprint = made.structured_output.contract.fingerprint
    assert pushed(made).contract.fingerprint == made.definition().contract.fingerprint == fingerprint


def test_definition_is_that_of_the_entry_and_builds_instances() -> None:
    definition = prompt(section("${topic}")).definition()
    assert definition.id == "summary"
    assert definition.version == pushed(prompt(section("${topic}"))).version
    assert definition.contract.build({"title": "T", "words": 3}) == Summary("T", 3)
    assert definition.missing([]) == ["topic"]


TOKENS = (
    *("${topic}", "${tone}", "$$", "{{ topic }}", "{% raw %}", "{% endraw %}", "{{", "}}", "{%", "{%-", "%}"),
    *("{#", "#}", "{", "}", "%", "#", "-", '"', "a", " ", "\n", "\r\n", "\\", "\u2028"),
)
TEXTS = st.lists(st.sampled_from(TOKENS)).map("".join)


@given(TEXTS, TEXTS, st.text())
def test_worker_asks_the_rendered_text_of_the_prompt(task: str, below: str, topic: str) -> None:
    title = below.replace("$", "") + "T"
    made = prompt(section(f"{task}|", title=title, key="a", children=[section(f"|{below}|")]))
    topic = f"<{topic}>"
    asked = pushed(made).question({"topic": topic}).prompt
    assert asked == made.render(Guidance(topic)).text


@pytest.mark.parametrize("topic", ["  if x:\n    y", "", "chalk\n\n", " "])
def test_worker_keeps_white_space_at_the_end_of_a_value(topic: str) -> None:
    made = prompt(section("${topic}"), inject_output_instructions=False)
    asked = pushed(made).question({"topic": topic}).prompt
    assert asked == f"## Task\n\n{topic}"
    assert asked.rstrip() == made.render(Guidance(topic)).text


def test_default_parameters_are_the_terms_of_the_entry() -> None:
    text = "${topic}|${tone}|${lines}|${note}"
    of_fields = prompt(section(text))
    assert pushed(of_fields).terms == {"tone": "dry", "lines": "['a']", "note": ""}
    asked = pushed(of_fields).question({"topic": "x"}).prompt
    assert asked == of_fields.render(Guidance("x")).text
    of_section = prompt(section(text, default_params=Guidance("chalk", "warm", [], "n")))
    assert pushed(of_section).missing([]) == []
    assert pushed(of_section).question({}).prompt == of_section.render().text


def always(_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("sections", "message", "path"),
    [
        ([section("a", enabled=always)], "an entry cannot express when", ("task",)),
        (
            [section("", key="a", children=[section("", key="b", enabled=always)])],
            "an entry cannot express when",
            ("a", "b"),
        ),
        (
            [section("${topic}"), MarkdownSection[Other](title="Other", template="${topic}")],
            "`topic` is a field of two types",
            ("other",),
        ),
        (
            [
                section("${tone}", key="a"),
                section("${tone}", key="b", default_params=Guidance("x", tone="warm")),
            ],
            "has two defaults",
            ("b",),
        ),
        (
            [section("${topic}", key="a", default_params=Guidance("x")), section("${topic}", key="b")],
            "has two defaults",
            ("b",),
        ),
    ],
)
def test_prompt_that_no_entry_can_express_is_refused_with_its_section(
    sections: list[MarkdownSection[Any]], message: str, path: tuple[str, ...]
) -> None:
    made = prompt(*sections)
    for give in (made.entry, made.definition):
        with pytest.raises(PromptValidationError, match=message) as refused:
            give()
        assert refused.value.section == path


def test_two_types_may_share_a_field_name_that_only_one_section_uses() -> None:
    made = prompt(section("${tone}"), MarkdownSection[Other](title="Other", template="${topic}"))
    assert pushed(made).question({"topic": "x"}).prompt == made.render(Guidance("g"), Other("x")).text


@pytest.mark.parametrize("name", ["none", "true", "loop", "_hidden", "self", "caller"])
def test_placeholder_with_a_name_reserved_by_the_template_is_refused(name: str) -> None:
    @dataclass
    class Named:
        none: str = ""
        true: str = ""
        loop: str = ""
        _hidden: str = ""
        self: str = ""
        caller: str = ""

    made = prompt(MarkdownSection[Named](title="T", template=f"${{{name}}}"))
    with pytest.raises(PromptValidationError, match=f"`{name}`"):
        made.entry()


def test_file_of_entries_is_an_export_that_can_be_pushed(tmp_path: Path) -> None:
    made = prompt(section("${topic}"))
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps({f"template.{made.key}": made.entry()}), encoding="utf-8")
    snapshot = PromptSet.build(files.load(file))
    assert not snapshot.refused
    assert snapshot.prompts["summary"].version == pushed(made).version


def test_text_too_long_for_a_template_is_refused() -> None:
    with pytest.raises(PromptValidationError, match="too long"):
        prompt(section("x" * MAX_SOURCE)).entry()
