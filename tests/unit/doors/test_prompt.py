"""Prompts in sections: what they say, what they declare, and what is refused when they are made."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from trustgraph_prompt import Contract, MarkdownSection, Prompt, parse_structured_output
from trustgraph_prompt.doors import (
    PromptRenderError,
    PromptValidationError,
    RenderedPrompt,
    ResponseFormatParams,
    StructuredOutputConfig,
)
from trustgraph_prompt.errors import ConfigError, RenderError


@dataclass
class Summary:
    title: str
    gist: str
    url: str | None = None


class Report(BaseModel):
    title: str


@dataclass
class Guidance:
    topic: str


@dataclass
class Style:
    tone: str
    words: int | None = None


TASK = MarkdownSection[Guidance](
    title="Task",
    template="""
    Write a brief summary of ${topic}. Include a canonical URL if known.
    """,
)

FORMAT = """## Response Format

Return ONLY a single fenced JSON code block. Do not include any text
before or after the block.

The top-level JSON value MUST be an {container} that matches the fields
of the expected schema{clause}"""


def prompt(*sections: MarkdownSection[Any], **settings: Any) -> Prompt[Summary]:
    return Prompt[Summary](ns="tests", key="summary", sections=sections, **settings)


def undeclared(*sections: MarkdownSection[Any]) -> Prompt:
    return Prompt(ns="tests", key="plain", sections=sections)


class TestText:
    def test_text_is_the_sections_and_the_format_with_a_blank_line_between(self) -> None:
        text = prompt(TASK).render(Guidance("Ada Lovelace")).text
        assert text == (
            "## Task\n\nWrite a brief summary of Ada Lovelace. Include a canonical URL if known.\n\n"
            + FORMAT.format(container="object", clause=". Do not add extra keys.")
        )

    def test_text_of_a_list_prompt_asks_for_an_array(self) -> None:
        of_list = Prompt[list[Summary]](ns="tests", key="list", allow_extra_keys=True)
        assert of_list.render().text == FORMAT.format(container="array", clause=".")

    @pytest.mark.parametrize(
        ("at_construction", "at_rendering", "told"),
        [(True, None, True), (True, False, False), (False, None, False), (False, True, True)],
    )
    def test_output_instructions_follow_the_rendering_or_else_the_prompt(
        self, at_construction: bool, at_rendering: bool | None, told: bool
    ) -> None:
        made = prompt(inject_output_instructions=at_construction)
        rendered = made.render(inject_output_instructions=at_rendering)
        assert ("## Response Format" in rendered.text) is told
        assert made.inject_output_instructions is at_construction
        assert rendered.structured_output is made.structured_output

    def test_nested_sections_have_headings_one_level_lower_each(self) -> None:
        nested = MarkdownSection(
            title="A",
            template="a",
            children=[
                MarkdownSection(title="B", template="b", children=[MarkdownSection(title="C", template="")]),
                MarkdownSection(title="D", template="d"),
            ],
        )
        made = undeclared(nested, MarkdownSection(title="E", template="e"))
        assert made.render().text == "## A\n\na\n\n### B\n\nb\n\n#### C\n\n### D\n\nd\n\n## E\n\ne"
        assert made.paths == (("a",), ("a", "b"), ("a", "b", "c"), ("a", "d"), ("e",))

    def test_disabled_section_is_left_out_with_its_children(self) -> None:
        tones = MarkdownSection[Style](
            title="Tone",
            template="Be ${tone}.",
            enabled=lambda style: style.tone != "plain",
            children=[MarkdownSection(title="Below", template="below")],
        )
        made = undeclared(tones, MarkdownSection(title="Tone of all", key="tone-too", template="end"))
        assert made.render(Style("plain")).text == "## Tone of all\n\nend"
        assert made.render(Style("dry")).text == (
            "## Tone\n\nBe dry.\n\n### Below\n\nbelow\n\n## Tone of all\n\nend"
        )

    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("${tone}", "dry"),
            ("$tone, ${words}.", "dry, ."),
            ("$${tone} costs $$5", "${tone} costs $5"),
            ("$$$$${tone}", "$$dry"),
            ("{tone} {{ tone }} {% raw %} %s", "{tone} {{ tone }} {% raw %} %s"),
            ("\n      first\n        second\n\n    ", "first\n  second"),
            ("first\r\nsecond\rthird", "first\nsecond\nthird"),
            ("die Höhe: ${tone}\u2028", "die Höhe: dry"),
        ],
    )
    def test_placeholders_are_replaced_and_all_else_is_kept_literally(self, template: str, text: str) -> None:
        made = undeclared(MarkdownSection[Style](title="T", template=template))
        assert made.render(Style("dry")).text == f"## T\n\n{text}"

    def test_inserted_values_are_not_expanded_again(self) -> None:
        assert "of ${topic} $x {{ y }}." in undeclared(TASK).render(Guidance("${topic} $x {{ y }}")).text

    def test_indentation_of_an_inserted_value_is_kept(self) -> None:
        made = undeclared(MarkdownSection[Style](title="T", template="${tone}"))
        assert made.render(Style("  if dry:\n    pass")).text == "## T\n\n  if dry:\n    pass"

    def test_one_blank_line_stands_between_sections_whatever_values_end_with(self) -> None:
        section = MarkdownSection[Style](title="T", template="${tone}")
        made = undeclared(section, MarkdownSection(title="U", template="u"))
        assert made.render(Style("dry\n\n")).text == "## T\n\ndry\n\n## U\n\nu"
        assert made.render(Style("")).text == "## T\n\n## U\n\nu"

    def test_one_instance_of_parameters_serves_all_sections_of_its_type(self) -> None:
        again = MarkdownSection[Guidance](title="Again", template="${topic}!")
        assert undeclared(TASK, again).render(Guidance("Ada")).text.count("Ada") == 2

    def test_default_parameters_are_used_where_none_are_given(self) -> None:
        section = MarkdownSection[Style](
            title="T", template="${tone} ${words}", default_params=Style("dry", 3)
        )
        assert undeclared(section).render().text == "## T\n\ndry 3"
        assert undeclared(section).render(Style("warm", 5)).text == "## T\n\nwarm 5"

    def test_prompt_without_declared_output_is_its_sections_alone(self) -> None:
        rendered = undeclared(TASK).render(Guidance("Ada"))
        assert rendered.text.startswith("## Task")
        assert "Response Format" not in rendered.text
        assert (rendered.output_type, rendered.container, rendered.allow_extra_keys) == (None, None, None)
        assert rendered.structured_output is None


class TestDeclaration:
    def test_rendered_prompt_has_the_declared_output(self) -> None:
        rendered = prompt(allow_extra_keys=True).render()
        assert (rendered.output_type, rendered.container, rendered.allow_extra_keys) == (
            Summary,
            "object",
            True,
        )
        assert rendered.structured_output == StructuredOutputConfig(Summary, "object", True)

    def test_declared_output_of_a_list_is_that_of_its_elements(self) -> None:
        rendered = Prompt[list[Summary]](ns="tests", key="list").render()
        assert rendered.structured_output == StructuredOutputConfig(Summary, "array", False)

    @pytest.mark.parametrize(
        ("declared", "answer"),
        [(Summary, {"title": "T", "gist": "G"}), (list[Summary], {"items": [{"title": "T", "gist": "G"}]})],
    )
    def test_response_schema_is_an_object_and_its_answers_can_be_parsed(
        self, declared: Any, answer: dict[str, Any]
    ) -> None:
        rendered = Prompt[declared](ns="tests", key="summary").render()
        assert rendered.structured_output is not None
        schema = rendered.structured_output.response_schema
        assert schema is not None
        assert schema["type"] == "object"
        assert Contract.from_schema(schema).accepts(answer)
        built = parse_structured_output(json.dumps(answer), rendered)
        assert built in (Summary("T", "G"), [Summary("T", "G")])

    def test_declared_output_may_be_a_pydantic_model(self) -> None:
        rendered = Prompt[list[Report]](ns="tests", key="report").render()
        assert (rendered.output_type, rendered.container) == (Report, "array")

    def test_declared_output_cannot_be_changed(self) -> None:
        rendered = prompt().render()
        with pytest.raises(FrozenInstanceError):
            rendered.text = ""  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            rendered.structured_output.container = "array"  # type: ignore[misc,union-attr]

    @pytest.mark.parametrize(
        ("declared", "candidate"),
        [
            (int, int),
            (None, None),
            (list, list),
            (list[int], int),
            (list[list[Summary]], list[Summary]),
            (list[Summary | None], Summary | None),
            (Summary | None, Summary | None),
            (Summary | Report, Summary | Report),
            (dict[str, Summary], dict[str, Summary]),
            (tuple[Summary, ...], tuple[Summary, ...]),
            ("Summary", "Summary"),
            (Summary("a", "b"), Summary("a", "b")),
            ({}, {}),
            ((Summary, Report), (Summary, Report)),
            (Any, Any),
        ],
        ids=repr,
    )
    def test_declared_output_of_another_kind_is_refused_when_the_prompt_is_made(
        self, declared: Any, candidate: object
    ) -> None:
        specialised: Any = Prompt[declared]
        with pytest.raises(PromptValidationError, match="dataclass") as refused:
            specialised(ns="tests", key="wrong")
        assert refused.value.dataclass_type == candidate
        assert isinstance(refused.value, ConfigError)

    def test_field_without_a_json_schema_is_refused_by_name(self) -> None:
        @dataclass
        class Odd:
            number: complex

        with pytest.raises(PromptValidationError, match=r"Odd\.number") as refused:
            Prompt[Odd](ns="tests", key="odd")
        assert refused.value.dataclass_type is Odd

    def test_prompt_class_is_cached_without_keeping_its_type_alive(self) -> None:
        assert Prompt[Summary] is Prompt[Summary]

        @dataclass
        class Local:
            x: int

        Prompt[Local](ns="tests", key="local").render()
        gone = weakref.ref(Local)
        del Local
        gc.collect()  # the class that was made, and then what it was made of
        gc.collect()
        assert gone() is None

    def test_output_may_be_declared_in_a_subclass(self) -> None:
        class Summaries(Prompt[list[Summary]]):
            """Prompts for summaries."""

        assert Summaries(ns="tests", key="s").render().container == "array"

    def test_type_checker_infers_the_declared_output(self) -> None:
        one = prompt(TASK).render(Guidance("Ada"))
        assert_type(one, RenderedPrompt[Summary])
        assert_type(parse_structured_output('{"title": "t", "gist": "g"}', one), Summary)
        many = Prompt[list[Report]](ns="tests", key="reports").render()
        assert_type(many, RenderedPrompt[list[Report]])
        assert_type(parse_structured_output('[{"title": "t"}]', many), list[Report])
        assert_type(Prompt(ns="tests", key="plain").render(), RenderedPrompt[None])
        assert_type(MarkdownSection[Guidance](title="T", template=""), MarkdownSection[Guidance])


class TestFormatSection:
    def test_format_section_is_the_last_at_the_root(self) -> None:
        assert prompt(TASK).paths == (("task",), ("response-format",))
        assert prompt(TASK, inject_output_instructions=False).paths[-1] == ("response-format",)
        assert undeclared(TASK).paths == (("task",),)

    def test_format_section_has_parameters_of_its_own(self) -> None:
        section = prompt().sections[-1]
        assert section.default_params == ResponseFormatParams("an", "object", ". Do not add extra keys.")
        assert section.title == "Response Format"
        assert "${article} ${container} that matches the fields" in section.template

    def test_path_of_the_format_section_is_reserved(self) -> None:
        own = MarkdownSection(title="Response format", template="As you like.")
        with pytest.raises(PromptValidationError, match="two sections have the same path") as refused:
            prompt(own)
        assert refused.value.section == ("response-format",)
        assert undeclared(own).paths == (("response-format",),)


class TestSections:
    @pytest.mark.parametrize(
        ("title", "key", "expected"),
        [
            ("Task", None, "task"),
            ("  What to do,\n and_how? ", None, "what-to-do-and-how"),
            ("Задача", None, "задача"),
            ("Task", " The.Task_1-a ", "the.task_1-a"),
        ],
    )
    def test_key_of_a_section_is_given_or_made_from_its_title(
        self, title: str, key: str | None, expected: str
    ) -> None:
        section = MarkdownSection(title=title, key=key, template="")
        assert section.key == expected
        assert section.title == " ".join(title.split())

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"title": " "}, "needs a title"),
            ({"title": "!?"}, "needs a title"),
            ({"key": ""}, "needs a title"),
            ({"key": "a/b"}, "a key has letters"),
            ({"key": "-a"}, "a key has letters"),
            ({"title": None}, "the title is None, expected"),
            ({"template": 5}, "the template is 5, expected"),
            ({"key": 5}, "the key is 5, expected"),
            ({"template": "${nope}"}, r"`\$\{nope\}` is not a field"),
            ({"template": "costs $5"}, r"or `\$\$`"),
            ({"template": "${}"}, r"or `\$\$`"),
            ({"template": "${a.b}"}, r"or `\$\$`"),
            ({"template": "at the end $"}, r"or `\$\$`"),
            ({"default_params": Guidance("x")}, "of another type"),
            ({"default_params": Style}, "of another type"),
        ],
        ids=str,
    )
    def test_invalid_section_is_refused_when_it_is_made(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(PromptValidationError, match=message) as refused:
            MarkdownSection[Style](**{"title": "T", "template": "", **settings})
        assert refused.value.dataclass_type is Style

    def test_section_without_parameters_has_no_placeholders(self) -> None:
        with pytest.raises(PromptValidationError, match="not a field"):
            MarkdownSection(title="T", template="${topic}")

    @pytest.mark.parametrize("params", [int, "Guidance", Guidance("x"), list[Guidance], Report, None])
    def test_parameters_of_a_section_must_be_a_dataclass(self, params: Any) -> None:
        with pytest.raises(PromptValidationError, match="not a dataclass") as refused:
            MarkdownSection[params]
        assert refused.value.dataclass_type == params

    def test_sections_with_the_same_path_are_refused(self) -> None:
        twice = [MarkdownSection(title="B", template=""), MarkdownSection(title="b", template="")]
        with pytest.raises(PromptValidationError, match="two sections have the same path") as refused:
            prompt(MarkdownSection(title="A", template="", children=twice))
        assert refused.value.section == ("a", "b")
        assert str(refused.value).startswith("a/b:")

    def test_sections_are_nested_as_deep_as_markdown_headings(self) -> None:
        section = MarkdownSection(title="Deepest", template="x")
        for _ in range(4):
            section = MarkdownSection(title="Above", template="", children=[section])
        assert "\n###### Deepest\n" in undeclared(section).render().text
        for _ in range(2_000):
            section = MarkdownSection(title="Above", template="", children=[section])
        with pytest.raises(PromptValidationError, match="6 levels"):
            undeclared(section)

    @pytest.mark.parametrize("wrong", ["text", None, Guidance("x"), MarkdownSection])
    def test_argument_that_is_no_section_is_refused(self, wrong: Any) -> None:
        with pytest.raises(PromptValidationError, match="expected a section"):
            prompt(wrong)


@pytest.mark.parametrize(
    "names", [{"ns": ""}, {"ns": "  "}, {"key": ""}, {"key": "\t"}, {"ns": None}, {"key": 5}], ids=str
)
def test_prompt_needs_a_namespace_and_a_key(names: Any) -> None:
    with pytest.raises(PromptValidationError, match="`ns` and `key`"):
        Prompt[Summary](**{"ns": "tests", "key": "k", **names})


def test_name_of_a_prompt_is_given_or_its_key() -> None:
    assert prompt(name="Summaries").name == "Summaries"
    assert (prompt().ns, prompt().key, prompt().name) == ("tests", "summary", "summary")


class TestParameters:
    MADE = undeclared(TASK, MarkdownSection[Style](title="Style", template="${tone}"))

    @pytest.mark.parametrize(
        ("params", "message", "kind", "section"),
        [
            ([Guidance("x")], "no parameters of type Style", Style, ("style",)),
            ([Guidance("x"), Style("y"), Guidance("z")], "Guidance were given twice", Guidance, ()),
            ([Guidance("x"), Style("y"), Summary("a", "b")], "no section has .* Summary", Summary, ()),
            ([Guidance("x"), Style("y"), None], "no section has .* NoneType", type(None), ()),
            ([Guidance("x"), Style], "no section has .* type", type, ()),
            ([{"topic": "x"}, Style("y")], "no section has .* dict", dict, ()),
        ],
    )
    def test_parameters_that_do_not_match_the_sections_are_refused(
        self, params: list[Any], message: str, kind: type, section: tuple[str, ...]
    ) -> None:
        with pytest.raises(PromptRenderError, match=message) as refused:
            self.MADE.render(*params)
        assert refused.value.dataclass_type is kind
        assert refused.value.section == section
        assert isinstance(refused.value, RenderError)

    def test_parameters_of_a_disabled_section_are_required_too(self) -> None:
        section = MarkdownSection[Style](title="S", template="", enabled=lambda style: False)
        with pytest.raises(PromptRenderError, match="no parameters of type Style"):
            undeclared(section).render()

    def test_error_in_code_of_parameters_names_the_section(self) -> None:
        @dataclass
        class Shy:
            topic: Any = field(default_factory=object)

        class Silent:
            def __str__(self) -> str:
                raise RuntimeError("no words")

        shy = MarkdownSection[Shy](title="Shy", template="${topic}")
        made = undeclared(MarkdownSection(title="A", template="", children=[shy]))
        with pytest.raises(PromptRenderError, match="a/shy: RuntimeError: no words") as refused:
            made.render(Shy(Silent()))
        assert refused.value.section == ("a", "shy")
        asking = MarkdownSection[Shy](title="Asking", template="", enabled=lambda shy: shy.topic > 5)
        with pytest.raises(PromptRenderError, match="asking: TypeError"):
            undeclared(asking).render(Shy())
