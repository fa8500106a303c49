"""What a flow says that it lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.graph.graph_clause import GraphClause
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import read_ontology
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker import Flow, GraphOptions, Input, Outputs

ONTOLOGY = "{{ text }}" + "".join(
    f"{{% for id, each in {name}.items() %}}{{{{ id }}}}{{% else %}}none{{% endfor %}}"
    for name in ("classes", "object_properties", "datatype_properties")
)
TEMPLATES = {
    "o": ONTOLOGY,
    "misspelt": ONTOLOGY.replace("classes", "clases"),
    "rows": "{{ text }}{{ schema.name }}",
}
PROMPTS = {
    "default": PromptSet.build(
        {"template.p": json.dumps({"prompt": "{{ text }}"})}
        | {
            f"template.{id}": json.dumps({"prompt": text, "dialect": "jinja"})
            for id, text in TEMPLATES.items()
        }
    )
}
TRIPLES = Outputs(triples="persistent://tg/flow/t")


def lacks(outputs: Outputs, prompt: str = "p", topic: str = "persistent://tg/flow/c", **more: object) -> str:
    flow = Flow("f", Input(topic, "s", "chunk"), outputs, prompt=prompt, **more)  # type: ignore[arg-type]
    return flow.what_it_lacks(PROMPTS) or ""


def index(text: str) -> OntologyIndex:
    return OntologyIndex(read_ontology("o", text))


def test_flow_whose_prompt_is_missing_says_so() -> None:
    assert lacks(TRIPLES, "q") == "there is no prompt `q`; its messages wait until it is pushed"
    assert lacks(TRIPLES, "q", "non-persistent://tg/flow/c") == "there is no prompt `q`"


def test_flow_that_lacks_terms_of_its_prompt_names_them() -> None:
    without = ", which the flow gives under none of `ontology`, `tables` and `terms`"
    terms = "classes, datatype_properties, object_properties"
    assert lacks(Outputs(), "o") == f"prompt `o` needs {terms}{without}"
    assert lacks(Outputs(), "o", ontology=index('{"classes": {"A": {}}}')) == ""
    assert lacks(Outputs(), "o", terms={"classes": {"A": {}}}) == ""
    near = f"{without}, did you mean 'classes'?"
    ontology = index('{"classes": {"A": {}}}')
    assert lacks(Outputs(), "misspelt", ontology=ontology) == f"prompt `misspelt` needs clases{near}"
    assert lacks(Outputs(), "rows") == f"prompt `rows` needs schema{without}"
    assert lacks(Outputs(), "rows", terms={"schema": {"name": "t"}}) == ""


def test_flow_whose_prompt_does_not_use_the_ontology_says_so() -> None:
    terms = "classes, datatype_properties, object_properties"
    said = f"prompt `p` uses nothing of the ontology: it names none of the terms {terms}"
    assert lacks(TRIPLES, "p", ontology=index('{"classes": {"A": {}}}')) == said


@pytest.mark.parametrize(
    ("outputs", "more", "says"),
    [
        (Outputs(), {}, ""),
        (TRIPLES, {}, "has no clause `graph`"),
        (TRIPLES, {"graph": GraphOptions(clause=GraphClause(()))}, ""),
        (TRIPLES, {"prompt": "o", "ontology": index('{"classes": {"A": {}}}')}, ""),
        (TRIPLES, {"ontology": index("{}")}, "the ontology is empty"),
        (Outputs(rows="persistent://tg/flow/r"), {}, "there are no tables"),
    ],
)
def test_flow_that_lacks_what_a_graph_or_rows_need_says_so(
    outputs: Outputs, more: dict[str, Any], says: str
) -> None:
    found = lacks(outputs, **more)

    assert says in found
    assert bool(says) == bool(found)
