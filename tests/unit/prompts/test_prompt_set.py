"""Snapshots of a workspace's prompts: a bad entry costs itself alone, and what stood before still stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import pools
from tests.support.error_frames import holds_frames
from trustgraph_prompt.errors import PromptError, RenderError, RequestError, TemplateError
from trustgraph_prompt.prompts import PromptSet


def entry(prompt: str, **more: Any) -> str:
    return json.dumps({"prompt": prompt, "dialect": "jinja", **more})


BAD = entry("{% set x = 1 %}")


def test_prompt_is_asked_by_its_id_under_the_system_message_of_the_workspace() -> None:
    prompts = PromptSet.build(
        {
            "system": json.dumps("You know {{ topic }}."),
            "template-index": json.dumps(["a"]),
            "template.a": json.dumps({"prompt": "Say {{ text }}"}),
            "template.b": entry("Shout {{ text }}", system="Own."),
            "unknown": "whatever",
        }
    )
    assert not prompts.refused
    definition, question = prompts.question("a", {"text": "hi", "topic": "it"})
    assert (definition.id, question.system, question.prompt) == ("a", "You know it.", "Say hi")
    assert prompts.question("b", {"text": "hi"})[1].system == "Own."


@pytest.mark.parametrize("system", [json.dumps("Hi {{ x }}"), entry("Hi {{ x }}")])
def test_system_message_is_a_string_or_an_entry(system: str) -> None:
    prompts = PromptSet.build({"system": system.encode(), "template.a": entry("a")})
    assert prompts.question("a", {"x": 1})[1].system == "Hi 1"


def test_unknown_prompt_is_a_request_error() -> None:
    with pytest.raises(RequestError, match="there is no prompt `nope`") as raised:
        PromptSet.build({}).question("nope", {})
    assert raised.value.type == "unknown-prompt"


def test_refused_prompt_says_so_when_it_is_asked_for() -> None:
    with pytest.raises(
        RequestError, match=r"its definition was refused: .*line 1: {% set %} is not available"
    ):
        PromptSet.build({"template.a": BAD}).question("a", {})


@pytest.mark.parametrize("system", ["careful", "careful with {{ text }}"])
def test_missing_term_is_a_request_error_that_names_it(system: str) -> None:
    entries = {"template.a": entry("{{ text }}{% if hint %}{{ hint }}{% endif %}", system=system)}
    with pytest.raises(RequestError, match="`a` needs the term text; given: more, txt") as raised:
        PromptSet.build(entries).question("a", {"txt": "hi", "more": 1})
    assert raised.value.type == "missing-term"


def test_error_says_whether_prompt_or_system_message_needs_a_missing_term() -> None:
    prompts = PromptSet.build({"system": entry("Hello {{ name }}."), "template.a": entry("{{ text }}")})
    system = "the system message of the workspace, which `a` uses, needs the term name"
    with pytest.raises(RequestError) as raised:
        prompts.question("a", {"text": "hi"})
    assert str(raised.value) == f"{system}; given: text"
    with pytest.raises(RequestError) as raised:
        prompts.question("a", {})
    assert str(raised.value) == f"the prompt `a` needs the term text; {system}; given: none"


@pytest.mark.parametrize(
    "template",
    [
        "{% if a %}{{ a }}{% endif %}",
        "{% if a.b %}{{ a.c }}{% else %}no {{ a.c }}{% endif %}",
        "{{ a if a is defined else 'none' }}",
        "{% for x in a %}{{ x }}{% else %}none{% endfor %}",
        "{{ a or 'none' }}",
        "{{ a|default('none') }}",
        "{% if a %}Use the notes.{% endif %}<notes>{{ a }}</notes>",
        "{{ a|length }}: {% for x in a %}{{ x }}{% else %}none{% endfor %}",
    ],
)
def test_term_that_the_template_tests_may_be_missing(template: str) -> None:
    PromptSet.build({"template.a": entry(template)}).question("a", {})


@pytest.mark.parametrize(
    "template",
    [
        "{{ a.b }}{% if a.c %}: {{ a.c }}{% endif %}",
        "{% for x in a.b %}{{ x }}{% endfor %}{% if a.c or b %}{{ a.c }}{% endif %}",
        "{{ b or a }}",
        "{% for x in b %}{{ x }}{% else %}{{ a }}{% endfor %}",
    ],
)
def test_term_of_which_only_members_are_tested_is_required(template: str) -> None:
    definition = PromptSet.build({"template.a": entry(template)}).get("a")
    assert definition.missing([]) == ["a"]


def test_terms_of_an_ontology_may_be_missing_if_another_one_is_there() -> None:
    names = ("classes", "datatype_properties", "object_properties")
    template = "".join(
        f"{{% for x, y in {name}.items() %}}{{{{ x }}}}{{% else %}}none{{% endfor %}}" for name in names
    )
    definition = PromptSet.build({"template.a": entry(template)}).get("a")
    assert definition.missing(["text"]) == [*names]
    assert definition.missing(["object_properties"]) == []


def test_prompt_that_tests_for_an_ontology_serves_requests_without_one() -> None:
    template = (
        "{% if classes %}{{ classes }}{{ object_properties or '' }}{{ datatype_properties or '' }}{% endif %}"
    )
    PromptSet.build({"template.a": entry(template)}).question("a", {})


def test_term_with_a_default_of_the_prompt_may_be_missing() -> None:
    prompts = PromptSet.build({"template.a": entry("{{ a }}", terms={"a": "its own"})})
    assert prompts.question("a", {})[1].prompt == "its own"


def test_missing_term_renders_as_nothing_in_trustgraphs_dialect() -> None:
    prompts = PromptSet.build({"template.a": json.dumps({"prompt": "Say {{ text }}"})})
    definition, question = prompts.question("a", {"txt": "hi"})
    assert question.prompt == "Say "
    assert definition.missing({"txt": "hi"}) == ["text"]


def test_terms_of_a_wrong_type_are_a_render_error() -> None:
    prompts = PromptSet.build({"template.a": entry("{% for x in n %}{% endfor %}")})
    with pytest.raises(RenderError, match=r"template\.a line 1: cannot loop over a number"):
        prompts.question("a", {"n": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"prompt": "x", "dialect": "jinja", "terms": {"a": ' + "[" * 300 + "]" * 300 + "}}", "/terms"),
        ("{", "the entry is not JSON"),
        ("[" * 100_000, "the entry is not JSON"),
        (b"\xff", "the entry is not JSON"),
        ("null", "found None, expected a mapping"),
        ('"x"', "found 'x', expected a mapping"),
        (entry("x" * 600_000), "the entry is too long"),
        (entry("x" * 200_000), "the template is too long"),
        (BAD, "{% set %}"),
    ],
)
def test_bad_entry_affects_no_other(text: str | bytes, said: str) -> None:
    prompts = PromptSet.build({"template.bad": text, "template.good": entry("x")})
    assert list(prompts.prompts) == ["good"]
    assert list(prompts.refused) == ["template.bad"]
    assert said in str(prompts.refused["template.bad"])
    assert str(prompts.refused["template.bad"]).startswith("template.bad")
    assert not holds_frames(prompts.refused["template.bad"])


def test_last_good_version_is_served_until_the_entry_is_good_again_or_gone() -> None:
    first = PromptSet.build({"template.a": entry("one")})
    second = PromptSet.build({"template.a": BAD}, first)
    third = PromptSet.build({"template.a": "{"}, second)
    assert third.question("a", {})[1].prompt == "one"
    assert isinstance(second.refused["template.a"], TemplateError)
    assert isinstance(third.refused["template.a"], PromptError)

    mended = PromptSet.build({"template.a": entry("two")}, third)
    assert (mended.question("a", {})[1].prompt, dict(mended.refused)) == ("two", {})

    for gone in ({}, {"template.a": ""}, {"template.a": b""}):
        deleted = PromptSet.build(gone, third)
        assert (dict(deleted.prompts), dict(deleted.refused)) == ({}, {})


def test_bad_system_message_leaves_the_previous_one() -> None:
    first = PromptSet.build({"system": json.dumps("One."), "template.a": entry("a")})
    second = PromptSet.build({"system": json.dumps("{% if %}"), "template.a": entry("a")}, first)
    assert second.question("a", {})[1].system == "One."
    assert "system" in second.refused
    fresh = PromptSet.build({"system": json.dumps(5), "template.a": entry("a")})
    assert fresh.question("a", {})[1].system == "Be helpful."


def test_prompt_set_does_not_change_when_the_next_is_built() -> None:
    first = PromptSet.build({"template.a": entry("one")})
    PromptSet.build({"template.a": entry("two"), "template.b": entry("b")}, first)
    assert first.question("a", {})[1].prompt == "one"
    assert list(first.prompts) == ["a"]


def test_unchanged_entries_are_not_built_again() -> None:
    entries = {"system": entry("S"), "template.a": entry("a"), "template.bad": BAD}
    first = PromptSet.build(entries)
    second = PromptSet.build({**entries, "template.b": entry("b")}, first)
    assert second.prompts["a"] is first.prompts["a"]
    assert second.refused["template.bad"] is first.refused["template.bad"]


def test_version_covers_the_system_message_of_the_workspace() -> None:
    one = PromptSet.build(
        {"system": entry("S1"), "template.a": entry("a"), "template.b": entry("b", system="own")}
    )
    two = PromptSet.build(
        {"system": entry("S2"), "template.a": entry("a"), "template.b": entry("b", system="own")}, one
    )
    assert one.prompts["a"].version != two.prompts["a"].version
    assert one.prompts["b"].version == two.prompts["b"].version


def test_alias_finds_its_prompt_and_never_hides_another() -> None:
    ontology = {"template.extract-with-ontologies": json.dumps({"prompt": "theirs"})}
    assert PromptSet.build(ontology).question("ontology-extract", {})[0].id == "extract-with-ontologies"
    both = PromptSet.build({**ontology, "template.ontology-extract": json.dumps({"prompt": "own"})})
    assert both.question("ontology-extract", {})[1].prompt == "own"
    assert both.question("extract-with-ontologies", {})[1].prompt == "theirs"
    assert not both.refused


def test_second_of_two_prompts_with_one_alias_is_refused() -> None:
    prompts = PromptSet.build(
        {"template.b": entry("b", aliases=["x"]), "template.a": entry("a", aliases=["x"])}
    )
    assert prompts.question("x", {})[0].id == "a"
    assert list(prompts.prompts) == ["a"]
    assert "the alias `x` is that of another prompt" in str(prompts.refused["template.b"])


def test_new_prompt_cannot_take_the_alias_of_a_served_one() -> None:
    first = PromptSet.build({"template.b": entry("b", aliases=["x"])})
    entries = {"template.b": entry("b", aliases=["x"]), "template.a": entry("a", aliases=["x"])}
    second = PromptSet.build(entries, first)
    third = PromptSet.build({**entries, "template.c": entry("c")}, second)
    for prompts in (second, third):
        assert prompts.question("x", {})[0].id == "b"
        assert list(prompts.refused) == ["template.a"]


def test_prompt_that_asks_for_a_taken_alias_keeps_its_last_version() -> None:
    first = PromptSet.build(
        {"template.a": entry("a", aliases=["x"]), "template.b": entry("old", aliases=["y"])}
    )
    second = PromptSet.build(
        {"template.a": entry("a", aliases=["x"]), "template.b": entry("new", aliases=["x"])}, first
    )
    assert second.question("b", {})[1].prompt == second.question("y", {})[1].prompt == "old"
    assert list(second.refused) == ["template.b"]


def test_served_prompts_come_first_where_there_are_too_many() -> None:
    first = PromptSet.build({"template.zz": entry("z")})
    many = {f"template.p{number:04}": entry("same") for number in range(1_000)}
    second = PromptSet.build({"template.zz": entry("z"), **many}, first)
    assert "zz" in second.prompts
    assert len(second.prompts) == 1_000
    assert list(second.refused) == ["template.p0999"]
    assert "more than 1,000 prompts" in str(second.refused["template.p0999"])


def test_workspace_that_is_nearly_full_has_a_note() -> None:
    many = {f"template.p{number:04}": entry("same") for number in range(901)}
    full = PromptSet.build(many)
    assert not full.refused
    assert "a workspace has at most 1,000" in full.notes["template.*"]
    assert PromptSet.build(dict(list(many.items())[1:]), full).notes == {}


def test_first_by_name_of_too_many_new_prompts_are_served() -> None:
    many = {f"template.p{number:04}": entry("same") for number in range(1_000, 0, -1)}
    assert list(PromptSet.build({**many, "template.a": entry("last")}).refused) == ["template.a"]


def test_system_message_with_a_term_that_prompts_lack_has_a_note() -> None:
    entries = {
        "system": entry("Be {{ tone }}, {{ name }}. {% if more %}{{ more }}{% endif %}"),
        "template.a": entry("Say {{ text }}"),
        "template.b": entry("Greet {{ name }} in {{ tone }}"),
        "template.c": entry("Greet", terms={"tone": "kind", "name": "you"}),
        "template.d": entry("Shout", system="Own."),
        "template.e": json.dumps({"prompt": "Whisper {{ text }}"}),
    }
    assert PromptSet.build(entries).notes == {
        "system": "needs the terms `name`, `tone`; 1 of 4 prompts does not mention them, "
        "and requests without them fail with missing-term (a)"
    }
    assert not PromptSet.build({**entries, "template.a": entry("{{ tone }} {{ name }}")}).notes
    assert not PromptSet.build({key: text for key, text in entries.items() if key != "system"}).notes


def test_note_about_a_thousand_prompts_is_short() -> None:
    prompts = {f"template.{number:03}{'x' * 100}": entry("Say") for number in range(999)}
    note = PromptSet.build({"system": entry("Be {{ tone }}."), **prompts}).notes["system"]
    assert "999 of 999 prompts do not mention it" in note
    assert len(note) < 500


def test_prompt_without_its_pool_is_refused_until_the_pool_comes() -> None:
    given = pools.entries()
    key = next(iter(given))
    without = PromptSet.build({"template.films": given["template.films"]})
    error = without.refused["template.films"]
    assert (error.where, error.path) == ("template.films", "/examples/pool")
    assert key in str(error.expected)
    assert "films" in PromptSet.build(given, without).prompts


def test_prompt_whose_pool_is_deleted_stays_in_its_last_good_version_and_is_refused() -> None:
    given = pools.entries()
    both = PromptSet.build(given)
    without = PromptSet.build({"template.films": given["template.films"]}, both)
    assert "its pool of examples is not there" in str(without.refused["template.films"])
    assert without.question("films", {"text": "some film"})[1].examples
    assert not PromptSet.build(given, without).refused


def test_pool_is_read_once_for_all_prompts_and_pushes() -> None:
    given = pools.entries()
    given["template.more"] = given["template.films"]
    first = PromptSet.build(given)
    second = PromptSet.build({**given, "template.films": pools.entries(show=1)["template.films"]}, first)
    found = {id(each.prompts[name].pool) for each in (first, second) for name in ("films", "more")}
    assert len(found) == 1


def test_pool_that_no_prompt_names_is_not_read() -> None:
    built = PromptSet.build({"pool.x": "{", "template.a": entry("a")})
    assert not built.refused


def test_versions_need_no_pool() -> None:
    given = pools.entries()
    alone = PromptSet.build({"template.films": given["template.films"]}, pools=False).prompts["films"]
    assert alone.version == PromptSet.build(given).prompts["films"].version
