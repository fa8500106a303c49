"""`extract`, `eval`, `ask` and `render` in the terms of an ontology."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run
from trustgraph_prompt import extract_document, package_data
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.prompts import PromptSet, files

PROMPT = "extract-with-ontologies"
ORG = """
@prefix : <https://example.org/org#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Person a owl:Class .
:Organization a owl:Class ; rdfs:label "organisation" .
:Site a owl:Class .
:memberOf a owl:ObjectProperty ; rdfs:label "is a member of" ;
    rdfs:domain :Person ; rdfs:range :Organization .
"""
TEXT = "Ada is a member of Babbage Ltd of London."


def member(object: str, object_type: str, prefix: str = "") -> dict[str, str]:
    return {
        "type": "relationship",
        "subject": "Ada",
        "subject_type": f"{prefix}Person",
        "relation": f"{prefix}memberOf",
        "object": object,
        "object_type": f"{prefix}{object_type}",
    }


RIGHT = member("Babbage Ltd", "Organization")
FACT = {"subject": "Ada", "relation": "is a member of", "object": "Babbage Ltd"}
WRONG = {"subject": "Ada", "relation": "works in", "object": "London"}


def answers(folder: Path, *each: Iterable[dict[str, str]]) -> str:
    """A recording of these answers, in turn; returns the provider."""
    lines = [{"contains": TEXT, "answer": [json.dumps(value) for value in values]} for values in each]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "scripted:answers.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "org.ttl").write_text(ORG)
    (tmp_path / "doc.txt").write_text(TEXT)
    return tmp_path


def extract(folder: Path, *more: object, provider: str = "scripted:answers.jsonl") -> dict[str, Any]:
    given = ("doc.txt", "--ontology", "org.ttl", "-o", "o.jsonl", "--json", "--provider", provider)
    result = run("extract", *given, *more, folder=folder)
    assert result.returncode == 0, result.stderr
    summary: dict[str, Any] = json.loads(result.stdout) | {"stderr": result.stderr}
    return summary


def objects(folder: Path) -> list[Any]:
    return [json.loads(line)["object"] for line in (folder / "o.jsonl").read_text().splitlines()]


def test_extract_asks_the_prompt_of_ontologies_and_asks_again_for_what_does_not_fit(folder: Path) -> None:
    answers(folder, [WRONG], [FACT])
    summary = extract(folder, "--report", "report.html")
    assert objects(folder) == [RIGHT]
    assert (summary["objects"], summary["answers"], summary["refused"]) == ({PROMPT: 1}, 1, 0)


def test_object_that_never_fits_is_refused_with_the_reason_in_summary_and_report(folder: Path) -> None:
    answers(folder, [FACT, WRONG], [WRONG])
    [refusal] = extract(folder, "--report", "report.html")["refusals"]
    assert "unknown relation 'works in', expected 'is a member of'" in refusal
    assert "unknown relation" in (folder / "report.html").read_text()
    assert objects(folder) == [RIGHT]


def test_graph_has_the_iris_types_and_labels_of_the_ontology(folder: Path) -> None:
    answers(folder, [FACT])
    extract(folder, "--rdf", "g.nt", "--graph", "g.html")
    ada, babbage = (
        "<https://trustgraph.ai/org/person-ada>",
        "<https://trustgraph.ai/org/organization-babbage-ltd>",
    )
    type_, label = (
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
        "<http://www.w3.org/2000/01/rdf-schema#label>",
    )
    organization, relation = "<https://example.org/org#Organization>", "<https://example.org/org#memberOf>"
    assert {
        f"{ada} {relation} {babbage} .",
        f"{ada} {type_} <https://example.org/org#Person> .",
        f'{babbage} {label} "Babbage Ltd" .',
        f'{relation} {label} "is a member of" .',
        f"{organization} {type_} <http://www.w3.org/2002/07/owl#Class> .",
    } <= set((folder / "g.nt").read_text().splitlines())
    page = (folder / "g.html").read_text()
    assert '"is a member of"' in page
    assert '"organisation"' in page


def test_unchanged_ontology_resumes_and_a_changed_one_asks_again(folder: Path) -> None:
    answers(folder, [FACT])
    assert extract(folder)["from_earlier_runs"] == 0
    (folder / "org.ttl").write_text(f"# as before\n{ORG}")
    assert extract(folder)["from_earlier_runs"] == 1
    (folder / "org.ttl").write_text(ORG.replace("organisation", "company"))
    changed = extract(folder)
    assert changed["from_earlier_runs"] == 0
    assert "1 kept answer no longer fits: --ontology was org " in changed["stderr"]


def test_several_ontologies_are_merged(folder: Path) -> None:
    (folder / "food.json").write_text(
        '{"classes": {"Recipe": {}}, "datatypeProperties": {"serves": {"rdfs:domain": "Recipe"}}}'
    )
    right = member("Babbage Ltd", "Organization", "org:")
    answers(folder, [FACT])
    extract(folder, "--ontology", "food.json")
    assert objects(folder) == [right]
    shown = run(
        *("render", PROMPT, "-t", f"text={TEXT}", "--ontology", "org.ttl", "--ontology", "food.json"),
        folder=folder,
    ).stdout
    assert "- is a member of (of a person, to an organisation)\n" in shown
    assert "- serves (of a recipe, to a value)\n" in shown


def test_estimate_counts_the_tokens_of_the_ontology(folder: Path) -> None:
    answers(folder, [FACT])
    small = extract(folder, "--estimate")["low"]["tokens_in"]
    relations = "".join(f":relation{n} a owl:ObjectProperty .\n" for n in range(50))
    (folder / "org.ttl").write_text(ORG + relations)
    assert extract(folder, "--estimate")["low"]["tokens_in"] > small + 100


def test_estimate_of_answers_does_not_grow_with_the_ontology(folder: Path) -> None:
    answers(folder, [RIGHT])
    low, high = (extract(folder, "--estimate")[bound]["tokens_out"] for bound in ("low", "high"))
    assert 0 < low <= high


def test_text_without_a_word_of_a_large_ontology_is_not_asked_about(folder: Path) -> None:
    (folder / "org.ttl").write_text(ORG + "".join(f":Thing{n} a owl:Class .\n" for n in range(200)))
    (folder / "doc.txt").write_text("Rain falls.")
    answers(folder)
    assert extract(folder, "--estimate")["questions"] == 0
    (folder / "o.jsonl").write_text("")
    summary = extract(folder)
    assert (summary["answers"], summary["tokens"]["in"], summary["objects"]) == (1, 0, {PROMPT: 0})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["extract", "doc.txt", "--prompt", PROMPT], f"{PROMPT} needs an ontology: give --ontology FILE.ttl"),
        (
            ["extract", "doc.txt", "--prompt", "extract-topics", "--ontology", "org.ttl"],
            "--ontology: prompt `extract-topics` uses nothing of the ontology: it names none of the terms",
        ),
        (
            ["extract", "doc.txt", "--ontology", "org.ttl", "-t", "classes:={}"],
            "--term classes: is a term of --ontology, too: leave one of them out",
        ),
        (["extract", "doc.txt", "--ontology", "gone.ttl"], "gone.ttl: No such file or directory"),
        (["extract", "doc.txt", "--ontology", "doc.txt"], "doc.txt: unknown format of an ontology"),
        (["extract", "doc.txt", "--ontology", "empty.json"], "empty.json /classes: the ontology has"),
        (["ask", PROMPT, "-t", "text=Ada."], f"{PROMPT} needs an ontology: give --ontology FILE.ttl"),
        (["ask", "extract-topics", "-t", "text=Ada.", "--ontology", "org.ttl"], "--ontology: prompt `"),
        (
            ["extract", "doc.txt", "--ontology", "org.ttl", "--ontology", "old/org.ttl"],
            "two ontologies have the same name",
        ),
        (
            ["eval", PROMPT, "--gold", "gold.jsonl", "--ontology", "org.ttl"],
            "gold.jsonl:1 classes: is a term of --ontology, too",
        ),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused_before_a_model_is_called(
    folder: Path, arguments: list[str], says: str
) -> None:
    (folder / "empty.json").write_text("{}")
    (folder / "gold.jsonl").write_text('{"terms": {"text": "Ada.", "classes": {"A": {}}}, "objects": []}\n')
    (folder / "answers.jsonl").write_text("")
    result = run(*arguments, "--provider", "scripted:answers.jsonl", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr


def test_ask_keeps_to_the_ontology(folder: Path) -> None:
    provider = answers(folder, [WRONG], [FACT])
    asked = ("ask", PROMPT, "-t", "text=@doc.txt", "--ontology", "org.ttl", "--provider", provider)
    result = run(*asked, folder=folder)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [RIGHT]


def test_ask_says_that_the_text_has_no_word_of_a_large_ontology(folder: Path) -> None:
    (folder / "org.ttl").write_text(ORG + "".join(f":Thing{n} a owl:Class .\n" for n in range(200)))
    provider = answers(folder)
    asked = ("-t", "text=Rain falls.", "--ontology", "org.ttl")
    result = run("ask", PROMPT, *asked, "--provider", provider, "--json", folder=folder)
    assert (result.returncode, json.loads(result.stdout)["value"]) == (0, [])
    assert "the model is not asked: the text has no word of the ontology" in result.stderr
    assert run("render", PROMPT, *asked, folder=folder).stdout == ""


def test_eval_scores_answers_that_keep_to_the_ontology(folder: Path) -> None:
    (folder / "gold.jsonl").write_text(json.dumps({"terms": {"text": TEXT}, "objects": [RIGHT]}) + "\n")
    provider = answers(folder, [WRONG], [FACT])
    command = ("eval", PROMPT, "--gold", "gold.jsonl", "--ontology", "org.ttl", "--provider", provider)
    for _ in range(2):  # also from the state
        result = run(*command, "--json", folder=folder)
        assert result.returncode == 0, result.stderr
        [report] = json.loads(result.stdout)
        assert report["f1"]["value"] == 1


def test_extract_document_keeps_to_the_ontology(folder: Path) -> None:
    answers(folder, [WRONG], [FACT])
    prompt = PromptSet.build(files.load(package_data.templates())).get(PROMPT)
    provider = ScriptedProvider.load(folder / "answers.jsonl")
    [chunk] = extract_document(folder / "doc.txt", prompt, provider, ontology=folder / "org.ttl")
    assert chunk.instances == [RIGHT]
    with pytest.raises(ConfigError, match="uses nothing of the ontology"):
        extract_document(folder / "doc.txt", list[dict[str, str]], provider, ontology=folder / "org.ttl")
