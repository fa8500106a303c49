"""What TrustGraph's definitions of its extractors' flows mean for us."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from trustgraph_prompt.errors import ConfigError, FlowError
from trustgraph_prompt.trustgraph.config_client import Values
from trustgraph_prompt.trustgraph.extractors import EXTRACTORS, Extractor, extractors
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.worker.flow import Flow, TopicChoice

TOPICS = {
    "input": "flow:tg:chunk-load:w:f",
    "triples": "flow:tg:triples-store:w:f",
    "entity-contexts": "flow:tg:entity-contexts-load:w:f",
    "output": "flow:tg:rows-store:w:f",
    "prompt-request": "request:tg:prompt:w:f",
    "prompt-response": "response:tg:prompt:w:f",
}
COMPLETIONS = {
    "text-completion-request": "request:tg:text-completion:w:f",
    "text-completion-response": "response:tg:text-completion:w:f",
}


def definition(topics: object = TOPICS, **parameters: object) -> str:
    return json.dumps({"topics": topics, "parameters": parameters})


TABLE = json.dumps({"fields": [{"name": "height", "type": "float"}]})
ONTOLOGY = json.dumps({"classes": {"Hill": {}}})
CONFIG: dict[str, Values] = {
    "processor:prompt": {"f": definition(COMPLETIONS)},
    "schema": {"hills": TABLE},
    "ontology": {"land": ONTOLOGY},
}


def extractor(id: str, into: str | None = None, *, asks_topics: bool = True) -> Extractor:
    [found] = extractors([id], Processor(concurrency=3, asks_topics=asks_topics), into)
    return found


def flow(id: str, into: str | None = None) -> Flow:
    return extractor(id, into).flow("w", "f", definition(), CONFIG)


def test_flow_has_their_subscription_and_topics_and_the_prompt_of_its_job() -> None:
    found = flow("kg-extract-definitions")

    assert found.name == "w/f/kg-extract-definitions"
    assert (found.input.topic, found.input.kind) == ("persistent://tg/flow/chunk-load:w:f", "chunk")
    assert found.input.subscription == "kg-extract-definitions--w--f--input"
    assert found.outputs.triples == "persistent://tg/flow/triples-store:w:f"
    assert found.outputs.entity_contexts == "persistent://tg/flow/entity-contexts-load:w:f"
    assert (found.outputs.answers, found.outputs.response, found.prompt) == (
        None,
        None,
        "extract-definitions",
    )
    assert isinstance(found.provider, TopicChoice)
    assert found.provider.request == "non-persistent://tg/request/text-completion:w:f"
    assert found.concurrency == 3


def test_flow_settles_chunks_as_our_own_flows_do() -> None:
    ours = Flow("f", flow("kg-extract-definitions").input, flow("kg-extract-definitions").outputs)
    found = flow("kg-extract-definitions")

    for setting in ("deliveries", "crashes", "unusable", "trustgraph"):
        assert getattr(found, setting) == getattr(ours, setting), setting
    assert found.budget.work_seconds is None  # a call may wait long for its turn among those of many flows


@pytest.mark.parametrize("id", EXTRACTORS)
def test_flow_names_itself_in_provenance_as_the_extractor_does(id: str) -> None:
    assert flow(id).graph.component == id


def test_flow_of_relationships_has_no_contexts() -> None:
    assert flow("kg-extract-relationships").outputs.entity_contexts is None


@pytest.mark.parametrize("id", ["kg-extract-definitions", "kg-extract-relationships", "kg-extract-agent"])
def test_prompt_without_a_graph_clause_gets_that_of_the_bundled_prompt(id: str) -> None:
    assert flow(id).graph.clause is not None


def test_rows_are_those_of_the_tables_of_the_workspace() -> None:
    found = flow("kg-extract-rows")
    assert found.outputs.topics == {"persistent://tg/flow/rows-store:w:f"}
    assert [*found.tables] == ["hills"]

    wrong: dict[str, Values] = {**CONFIG, "schema": {"rocks": "{}", "hills": TABLE}}
    with pytest.raises(ConfigError, match="schema 'rocks'"):
        extractor("kg-extract-rows").flow("w", "f", definition(), wrong)


def test_ontologies_of_a_workspace_are_merged_into_one_flow() -> None:
    ontology = extractor("kg-extract-ontology")

    def made(**values: str) -> Flow:
        return ontology.flow("w", "f", definition(), {**CONFIG, "ontology": values})

    assert made(land=ONTOLOGY) == made(land=ONTOLOGY) != made(land=ONTOLOGY, sea=ONTOLOGY)
    both = made(land=ONTOLOGY, sea=ONTOLOGY).ontology
    assert both is not None
    assert {*both.ontology.classes} == {"land:Hill", "sea:Hill"}
    with pytest.raises(ConfigError, match="ontology 'land'"):
        made(land="{")


def test_model_and_ontology_of_the_provenance_are_parameters() -> None:
    text = definition(**{"llm-model": "qwen3", "ontology": "http://example.com/o"})

    graph = extractor("kg-extract-relationships").flow("w", "f", text, CONFIG).graph

    assert (graph.model, graph.ontology) == ("qwen3", "http://example.com/o")
    assert (flow("kg-extract-relationships").graph.model, graph.exact) == (None, False)


def test_flow_beside_theirs_has_a_subscription_and_topics_of_its_own() -> None:
    beside, instead = flow("kg-extract-definitions", "trial"), flow("kg-extract-definitions")

    assert beside.input.topic == instead.input.topic
    assert beside.input.subscription == "kg-extract-definitions--w--f--input--trial"
    assert beside.outputs.topics == {
        "persistent://tg/flow/trial-triples-store:w:f",
        "persistent://tg/flow/trial-entity-contexts-load:w:f",
    }
    assert replace(beside, input=instead.input, outputs=instead.outputs) == instead


def test_flow_that_asks_in_the_process_needs_no_prompt_service() -> None:
    alone = extractor("kg-extract-definitions", asks_topics=False)

    assert "processor:prompt" not in alone.needs
    assert alone.flow("w", "f", definition()).provider is None


def test_flow_without_a_prompt_service_to_ask_is_an_error() -> None:
    with pytest.raises(FlowError, match="has no text-completion topics to ask") as caught:
        extractor("kg-extract-definitions").flow("w", "g", definition(), CONFIG)
    assert caught.value.where == "processor:prompt w/g"


@pytest.mark.parametrize(
    ("text", "where", "path"),
    [
        ("{", "processor:kg-extract-definitions w/f", ""),
        (definition({**TOPICS, "triples": None}), "processor:kg-extract-definitions w/f", "/topics/triples"),
        (
            definition({**TOPICS, "triples": TOPICS["input"]}),
            "processor:kg-extract-definitions w/f",
            "/topics/triples",
        ),
        (
            definition(**{"llm-model": 3}),
            "processor:kg-extract-definitions w/f",
            "/parameters/llm-model",
        ),
    ],
)
def test_error_in_a_definition_is_named_with_its_path(text: str, where: str, path: str) -> None:
    with pytest.raises(FlowError) as caught:
        extractor("kg-extract-definitions").flow("w", "f", text, CONFIG)
    assert (caught.value.where, caught.value.path) == (where, path)


def test_unknown_extractor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"did you mean 'kg-extract-definitions'.*one of .*kg-extract-agent"
    ):
        extractors(["kg-extract-definition"], Processor())
