"""Questions about chunks: what precedes a chunk is shown before it, and ids stay where answers do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import pools
from trustgraph_prompt import package_data
from trustgraph_prompt.extraction.questions import Splitting, jobs, showing_context
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, files

PROMPTS = PromptSet.build(files.load(package_data.templates()))
TERMS = {
    "schema": {"name": "rivers", "fields": [{"name": "name", "type": "string"}]},
    "classes": {},
    "object_properties": {},
    "datatype_properties": {},
    "text": "{{ She }} wrote. {% if %}",
}
IDS = [
    "extract-definitions",
    "extract-relationships",
    "extract-topics",
    "extract-rows",
    "agent-kg-extract",
    "extract-with-ontologies",
]


def shown(prompt: PromptDefinition) -> PromptDefinition:
    prompts = PromptSet({prompt.id: prompt}, {}, {}, {})
    return showing_context(prompts, [prompt]).get(prompt.id)


@pytest.mark.parametrize("id", IDS)
def test_bundled_prompts_show_the_context_before_their_question(id: str) -> None:
    prompt = PROMPTS.get(id)
    changed = shown(prompt)
    terms = {name: value for name, value in TERMS.items() if name in prompt.named}
    question = prompt.question(terms).prompt
    assert changed.question(terms).prompt == question
    context = changed.question({**terms, "context": "Ada came. {{ text }}"}).prompt
    assert context.startswith("<before>\nAda came. {{ text }}\n</before>\n")
    assert "take nothing from it" in context
    assert context.endswith(f"\n\n{question}")
    assert changed.missing(terms) == prompt.missing(terms)
    assert changed.version != prompt.version


@pytest.mark.parametrize("dialect", ["jinja", "ibis"])
def test_prompt_without_a_context_is_unchanged_whatever_it_begins_with(dialect: str) -> None:
    source = "{% if text %}\n{{ text }}\n{% endif %}\n"
    prompt = PromptDefinition.from_entry("p", {"dialect": dialect, "prompt": source})
    assert shown(prompt).question({"text": "a"}) == prompt.question({"text": "a"})
    assert shown(prompt).question({"text": "a", "context": "b"}).prompt.startswith("<before>\nb\n</before>")


def test_prompt_that_uses_the_context_places_it_itself() -> None:
    entry = {"dialect": "jinja", "prompt": "{{ text }} comes after {{ context or 'nothing' }}"}
    prompt = PromptDefinition.from_entry("p", entry)
    assert shown(prompt) is prompt


def test_context_in_the_prompt_names_no_key_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"passage": {}}, "required": ["passage"]}
    entry = {"dialect": "jinja", "prompt": "{{ text }}", "response-type": "json", "schema": schema}
    prompt = PromptDefinition.from_entry("p", entry)
    assert shown(prompt).question({"text": "a"}) == prompt.question({"text": "a"})
    assert "passage" in prompt.question({"text": "a"}).prompt


def test_answers_stay_where_a_pool_grows_and_the_examples_do_not(tmp_path: Path) -> None:
    files = {
        "stalker": "Stalker is a film by Andrei Tarkovsky.",
        "lake": "In March the lake was free of ice.",
    }
    paths = []
    for name, text in files.items():
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(text)

    def ids(*more: tuple[str, list[object]]) -> list[str]:
        prompt = pools.prompts(pools.pool([*pools.FILMS, *more])).prompts["films"]
        found, _ = jobs(paths, [prompt], model="m", terms={}, splitting=Splitting())
        return [job.id for job in found]

    before, after = ids(), ids(("In April the lake is free of ice.", []))
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_id_covers_the_fingerprint_of_an_ontology_and_is_as_before_without_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada wrote.")
    prompt = PromptDefinition.from_entry(
        "p", {"dialect": "jinja", "prompt": "{{ text }}", "response-type": "jsonl", "schema": {}}
    )

    def id_within(ontology: str | None) -> str:
        [job], _ = jobs(
            [tmp_path / "a.txt"], [prompt], model="m", terms={}, splitting=Splitting(), ontology=ontology
        )
        return job.id

    assert id_within(None) == "bd179e3d37421e8315eeee2e80cc38b8"
    assert len({id_within(None), id_within("a"), id_within("b")}) == 3
