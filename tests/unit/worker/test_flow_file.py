"""Flow files: what they say, and what is said about wrong ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.guides import guide_page
from trustgraph_prompt import package_data
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import ConfigError, FlowError
from trustgraph_prompt.worker import flow_file
from trustgraph_prompt.worker.flow import GraphOptions, Outputs, ProviderChoice, TopicChoice
from trustgraph_prompt.worker.required_topics import required_topics

MINIMAL = """
name: f
input:
  topic: flow:tg:in
outputs:
  response: flow:tg:out
"""


def written(tmp_path: Path, text: str, name: str = "f.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_bundled_flow_files_can_be_loaded() -> None:
    names = {flow.name: flow for flow in flow_file.load(package_data.flows())}

    assert {"requests", "chunks", "knowledge-graph"} <= names.keys()
    assert names["chunks"].prompt == "agent-kg-extract"


def test_keys_that_are_not_given_have_defaults(tmp_path: Path) -> None:
    [flow] = flow_file.load(written(tmp_path, MINIMAL), processor="prompt-2")

    assert flow.input.topic == "persistent://tg/flow/in"
    assert flow.input.persistent
    assert flow.input.subscription == "prompt-2--default--f--request"
    assert flow.outputs.answers == "persistent://tg/flow/f-answers"
    assert flow.outputs.topic_of({"type": "x"}, "type") is None
    assert (flow.concurrency, flow.deliveries, flow.crashes) == (8, 5, 3)
    assert flow.unusable == "dead-letter"
    assert flow.budget == Budget(work_seconds=600)
    assert flow.keep_answers is None


def test_flow_chooses_what_happens_to_unusable_answers(tmp_path: Path) -> None:
    [flow] = flow_file.load(written(tmp_path, MINIMAL + "unusable: answer\n"))

    assert flow.unusable == "answer"


@pytest.mark.parametrize(("said", "seconds"), [("12h", 43_200), ("90d", 7_776_000)])
def test_answer_records_are_kept_for_hours_or_days(tmp_path: Path, said: str, seconds: float) -> None:
    [flow] = flow_file.load(written(tmp_path, f"{MINIMAL}keep-answers: {said}\n"))

    assert flow.keep_answers == seconds


@pytest.mark.parametrize("said", ["0d", "90", "90 days", "1.5d", "-1d"])
def test_time_to_keep_answers_without_a_unit_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(FlowError, match="/keep-answers"):
        flow_file.load(written(tmp_path, f"{MINIMAL}keep-answers: {said}\n"))


@pytest.mark.parametrize(
    ("source", "answers"),
    [
        ("persistent://acme/prod/in", "persistent://acme/prod/f-answers"),
        ("non-persistent://acme/prod/in", "persistent://acme/prod/f-answers"),
        ("request:acme:in", "persistent://acme/request/f-answers"),
    ],
)
def test_default_answers_topic_is_in_the_tenant_of_the_flow(
    tmp_path: Path, source: str, answers: str
) -> None:
    text = f"name: f\ninput: {{topic: '{source}'}}\noutputs: {{response: 'persistent://acme/prod/out'}}\n"
    [flow] = flow_file.load(written(tmp_path, text))

    assert flow.outputs.answers == answers
    topics = required_topics([flow], "persistent://acme/config/prompt").namespaces
    assert {name.partition("/")[0] for name in topics} == {"acme"}


@pytest.mark.parametrize(("line", "quotes"), [("", "keep"), ("  quotes: drop\n", "drop")])
def test_flow_says_whether_quotes_are_published(tmp_path: Path, line: str, quotes: str) -> None:
    [flow] = flow_file.load(written(tmp_path, MINIMAL + line))
    assert flow.outputs.quotes == quotes
    assert "drop" not in " ".join(flow.outputs.topics)


def test_other_setting_of_quotes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"/outputs/quotes.*expected.*keep"):
        flow_file.load(written(tmp_path, MINIMAL + "  quotes: hide\n"))


CHUNKS = """
name: f
input: {topic: flow:tg:in, kind: chunk}
prompt: p
"""


def test_flow_of_chunks_may_have_topics_for_its_graph(tmp_path: Path) -> None:
    text = CHUNKS + "outputs: {triples: flow:tg:t, entity-contexts: flow:tg:c}\n"
    [flow] = flow_file.load(written(tmp_path, text + "graph: {base: 'urn:e:', triple-terms: false}\n"))

    assert flow.outputs.triples == "persistent://tg/flow/t"
    assert flow.outputs.entity_contexts == "persistent://tg/flow/c"
    assert flow.graph == GraphOptions("urn:e:", triple_terms=False)
    topics = {topic.name for topic in required_topics([flow], "persistent://tg/flow/prompts").topics}
    assert {flow.outputs.triples, flow.outputs.entity_contexts} <= topics


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "  triples: flow:tg:t\n", "/outputs/triples: does not apply to messages of the kind"),
        (MINIMAL + "graph: {base: 'urn:e:'}\n", "/graph: does not apply to messages of the kind"),
        (CHUNKS + "outputs: {triples: flow:tg:t, entity-contexts: flow:tg:t}\n", "two topics .* the same"),
        (CHUNKS + "outputs: {triples: flow:tg:t, objects: flow:tg:t}\n", "two topics .* the same"),
        (CHUNKS + "outputs: {triples: flow:tg:in}\n", "receive its own output"),
        (CHUNKS + "outputs: {triples: request:tg:t}\n", "expected a persistent topic"),
        (CHUNKS + "outputs: {}\ngraph: {base: 'no iri'}\n", "/graph/base"),
        (CHUNKS + "outputs: {}\nontology: o.ttl\ngraph: {base: 'urn:e:'}\n", "no effect beside `ontology`"),
        (
            CHUNKS
            + "outputs: {rows: flow:tg:r}\nontology: o.ttl\ntables: {t: {fields: [{name: n, type: s}]}}\n",
            "/ontology: has no effect beside `tables`",
        ),
        (
            CHUNKS
            + "outputs: {rows: flow:tg:r, triples: flow:tg:t}\ntables: {t: {fields: [{name: n, type: s}]}}\n",
            "/outputs/triples: has no effect beside `tables`",
        ),
        (
            MINIMAL + "ontology: o.ttl\ntables: {t: {fields: [{name: n, type: s}]}}\n",
            "ontology: has no effect",
        ),
        (CHUNKS + "outputs: {}\ngraph: {base: 'urn:<e>'}\n", "/graph/base"),
    ],
)
def test_invalid_graph_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FlowError, match=says):
        flow_file.load(written(tmp_path, text))


def test_objects_go_to_one_topic_or_to_one_for_each_type(tmp_path: Path) -> None:
    one = flow_file.load(written(tmp_path, MINIMAL + "  objects: flow:tg:all\n"))[0].outputs
    parted = flow_file.load(
        written(
            tmp_path,
            MINIMAL + "  objects: {default: 'flow:tg:rest', by-type: {definition: 'flow:tg:definitions'}}\n",
        )
    )[0].outputs

    assert one.topic_of({"type": "definition"}, "type") == "persistent://tg/flow/all"
    assert parted.topic_of({"type": "definition"}, "type") == "persistent://tg/flow/definitions"
    assert parted.topic_of({"type": "relationship"}, "type") == "persistent://tg/flow/rest"
    assert parted.topic_of({"type": ["definition"]}, "type") == "persistent://tg/flow/rest"
    assert parted.topic_of({"a": 1}, None) == "persistent://tg/flow/rest"


def test_types_that_differ_by_a_space_keep_their_topics() -> None:
    assert Outputs(objects={"": "a", "x": "b", "x ": "c", " ": "d"}).topics == {"a", "b", "c", "d"}


@pytest.mark.parametrize(("said", "characters"), [("", 1_000_000), ("budget: {characters: 5000}\n", 5_000)])
def test_budget_limits_the_characters_of_an_answer(tmp_path: Path, said: str, characters: int) -> None:
    [flow] = flow_file.load(written(tmp_path, MINIMAL + said))

    assert flow.budget.characters == characters


TABLES = """
tables:
  mountains:
    description: Mountains and their heights.
    fields:
      - {name: name, type: string, primary_key: true}
      - {name: kind, type: string, enum: [volcano, other]}
"""


def test_flow_may_have_tables_and_a_topic_for_their_rows(tmp_path: Path) -> None:
    [flow] = flow_file.load(written(tmp_path, CHUNKS + "outputs: {rows: 'flow:tg:rows'}\n" + TABLES))

    assert flow.outputs.rows == "persistent://tg/flow/rows"
    table = flow.tables["mountains"]
    assert (table.name, table.description) == ("mountains", "Mountains and their heights.")
    assert [(field.name, field.primary, field.enum) for field in table.fields] == [
        ("name", True, ()),
        ("kind", False, ("volcano", "other")),
    ]
    assert flow.outputs.rows in {topic.name for topic in required_topics([flow], "flow:tg:c").topics}


def test_flow_may_have_a_budget_and_a_provider_of_its_own(tmp_path: Path) -> None:
    text = MINIMAL + "budget: {attempts: 2, tokens: 9000, seconds: 1.5, money: 0.25}\n"
    text += "price: {prompt: 0.4, completion: 1.6, cached: 0.1}\n"
    text += "provider: {base-url: 'http://localhost:1/v1', model: small}\n"

    [flow] = flow_file.load(written(tmp_path, text))

    assert flow.budget == Budget(attempts=2, tokens=9000, seconds=1.5, money=0.25, work_seconds=600)
    assert flow.price == Price(prompt=0.4, completion=1.6, cached=0.1)
    assert flow.provider == ProviderChoice("http://localhost:1/v1", "small")


COMPLETIONS = MINIMAL.replace("input:", "input:\n  kind: text-completion")


def test_text_completions_are_served_on_trustgraphs_topics() -> None:
    [flow] = flow_file.load(package_data.flows() / "completion", processor="text-completion")

    assert flow.input.topic == "non-persistent://tg/request/text-completion:default:default"
    assert flow.input.subscription == "text-completion--default--default--request"
    assert flow.outputs.response == "non-persistent://tg/response/text-completion:default:default"
    assert flow.outputs.answers is None


@pytest.mark.parametrize(
    ("written_as", "temperature"), [("'0.5'", 0.5), ("0.5", 0.5), ("'0.0'", 0.0), ("null", None)]
)
def test_parameters_are_texts_as_in_trustgraph(
    tmp_path: Path, written_as: str, temperature: float | None
) -> None:
    text = COMPLETIONS + f"parameters: {{model: small, temperature: {written_as}}}\n"

    [flow] = flow_file.load(written(tmp_path, text))

    assert (flow.model, flow.temperature) == ("small", temperature)


def test_provider_may_say_what_its_model_supports(tmp_path: Path) -> None:
    takes = "prefill: vllm, native-schema: true, images: false, thinking: ['<muse>', '</muse>']"
    text = MINIMAL + f"provider: {{base-url: 'http://localhost:1/v1', model: small, {takes}}}\n"

    [flow] = flow_file.load(written(tmp_path, text))

    assert flow.provider == ProviderChoice(
        "http://localhost:1/v1",
        "small",
        prefill="vllm",
        native_schema=True,
        images=False,
        thinking=("<muse>", "</muse>"),
    )


def test_provider_may_be_asked_over_topics(tmp_path: Path) -> None:
    over = "{request: 'request:tg:tc:w:f', response: 'response:tg:tc:w:f'}"

    [flow] = flow_file.load(written(tmp_path, MINIMAL + f"provider: {over}\n"))

    assert flow.provider == TopicChoice(
        "non-persistent://tg/request/tc:w:f", "non-persistent://tg/response/tc:w:f"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "parameters: {model: small}\n", ["/parameters", "prompt-request"]),
        (COMPLETIONS + "  objects: flow:tg:o\n", ["/outputs/objects", "text-completion"]),
        (COMPLETIONS + "  answers: flow:tg:a\n", ["/outputs/answers", "text-completion"]),
        (COMPLETIONS + "terms: {a: 1}\n", ["/terms"]),
        (COMPLETIONS + "unusable: answer\n", ["/unusable", "text-completion"]),
        (
            MINIMAL + "provider: {base-url: 'http://h', model: m, thinking: ['<muse>']}\n",
            ["/provider/thinking"],
        ),
        (
            MINIMAL + "provider: {base-url: 'http://h', model: m, thinking: ['{', '}']}\n",
            ["/provider/thinking/"],
        ),
        (MINIMAL + "unusable: serve\n", ["/unusable", "'serve'", "one of dead-letter, answer"]),
        (COMPLETIONS.replace("response: flow:tg:out", "{}"), ["/outputs", "`response`"]),
        (
            COMPLETIONS + "parameters: {temperature: hot}\n",
            ["/parameters/temperature", "'hot'", "a number from 0"],
        ),
        (COMPLETIONS + "parameters: {modell: x}\n", ["/parameters/modell", "did you mean 'model'?"]),
        (MINIMAL + "provider: {request: 'request:tg:a'}\n", ["/provider", "base-url and model", "response"]),
        (
            MINIMAL
            + "provider: {request: 'request:tg:a', response: 'response:tg:a', base-url: 'http://x'}\n",
            ["/provider"],
        ),
        (
            COMPLETIONS + "provider: {request: 'flow:tg:in', response: 'flow:tg:r'}\n",
            ["/provider/request", "two topics of the flow are the same", "/input/topic"],
        ),
        *(
            (COMPLETIONS + f"provider: {{request: 'flow:tg:{a}', response: 'flow:tg:{b}'}}\n", says)
            for a, b, says in [
                ("q", "q", ["/provider/response", "/provider/request"]),
                ("q", "in", ["/provider/response", "/input/topic"]),
                ("q", "out", ["/provider/response", "/outputs/response"]),
                ("out", "a", ["/provider/request", "/outputs/response"]),
            ]
        ),
        (
            MINIMAL
            + "  objects: {by-type: {a: 'flow:tg:a', b: 'flow:tg:b'}}\n"
            + "provider: {request: 'flow:tg:q', response: 'flow:tg:a'}\n",
            ["/provider/response", "/outputs/objects a"],
        ),
        (
            COMPLETIONS
            + "parameters: {model: small}\nprovider: {request: 'flow:tg:q', response: 'flow:tg:r'}\n",
            ["/parameters/model", "'small'", "/provider/model"],
        ),
        *(
            (COMPLETIONS + f"parameters: {{temperature: {value}}}\n", ["/parameters/temperature", "from 0"])
            for value in ("nan", "inf", "-3", "'1_0'", "101", "9" * 400)
        ),
        (
            CHUNKS + "outputs: {answers: 'flow:tg:a'}\n" + TABLES,
            ["/outputs", "the topic for the rows of the tables is missing", "'answers'", "`rows`"],
        ),
        (CHUNKS + "outputs: {rows: 'flow:tg:rows'}\n", ["/outputs/rows", "no tables", "`tables` beside"]),
        (CHUNKS + "outputs: {rows: 'flow:tg:rows'}\ntables: {}\n", ["/tables: it is empty"]),
        (CHUNKS + "outputs: {rows: 'notify:tg:rows'}\n" + TABLES, ["/outputs/rows", "a persistent topic"]),
        (
            CHUNKS + "outputs: {rows: 'flow:tg:a', answers: 'flow:tg:a'}\n" + TABLES,
            ["/outputs/rows", "two topics of the flow are the same", "/outputs/answers"],
        ),
        (CHUNKS + "outputs: {rows: 'flow:tg:in'}\n" + TABLES, ["/outputs/rows", "its own output"]),
        (
            CHUNKS + "outputs: {rows: 'flow:tg:rows'}\n" + TABLES.replace("primary_key", "primary"),
            ["/tables/mountains/fields/0/primary", "did you mean 'primary_key'?"],
        ),
        (
            CHUNKS + "outputs: {rows: 'flow:tg:rows'}\n" + TABLES.replace("name: kind", "name: name"),
            ["/tables/mountains/fields/1/name: two fields have the same name (found 'name')"],
        ),
        (MINIMAL + TABLES, ["/tables", "prompt-request"]),
        (MINIMAL + "  rows: flow:tg:rows\n", ["/outputs/rows", "prompt-request"]),
        (COMPLETIONS + "  rows: flow:tg:rows\n", ["/outputs/rows", "text-completion"]),
        (MINIMAL + "concurency: 4\n", ["/concurency", "unknown key", "did you mean 'concurrency'?"]),
        (MINIMAL + "concurrency: 0\n", ["/concurrency", "0"]),
        (MINIMAL + "concurrency: many\n", ["/concurrency", "'many'", "an integer"]),
        (MINIMAL + "budget: {attempt: 2}\n", ["/budget/attempt", "did you mean 'attempts'?"]),
        (MINIMAL.replace("flow:tg:in", "in"), ["/input/topic", "'in'", "persistent://tenant/namespace/name"]),
        (MINIMAL.replace("flow:tg:in", "queue:tg:in"), ["queue:tg:in"]),
        (MINIMAL + "prompt: p\n", ["/prompt: the key `prompt` is not allowed here", "unless input.kind is"]),
        (
            MINIMAL.replace("input:", "input:\n  kind: chunks") + "prompt: p\n",
            ["/input/kind", "did you mean 'chunk'? (found 'chunks', expected one of prompt-request, chunk"],
        ),
        (
            MINIMAL + "budget: {tokens: 0}\n",
            ["/budget/tokens: it is too small (found 0, expected at least 1)"],
        ),
        (MINIMAL.replace("name: f\n", ""), ["the key `name` is missing", "found '"]),
        (MINIMAL.replace("response: flow:tg:out", "answers: flow:tg:a"), ["/outputs", "`response`"]),
        (MINIMAL + "prompt: p\n", ["prompt"]),
        (MINIMAL.replace("tg:out", "tg:in"), ["/outputs/response", "its own output"]),
        (MINIMAL + "  answers: response:tg:a\n", ["/outputs/answers", "a persistent topic"]),
        (
            MINIMAL + "  objects: {by-type: {x: 'notify:tg:a'}}\n",
            ["/outputs/objects x", "a persistent topic"],
        ),
        (MINIMAL + "budget: {seconds: .nan}\n", ["nan"]),
        (MINIMAL + "budget: {money: 1}\n", ["/budget/money", "a `price` beside the budget"]),
        (MINIMAL + "price: {prompt: 1}\n", ["/price", "the key `completion` is missing", "found '"]),
        (MINIMAL + "price: {prompt: -1, completion: 1}\n", ["/price/prompt", "-1"]),
        (MINIMAL + "terms: {day: 2026-11-21, x: !!set {a}}\n", ["set"]),
        (MINIMAL + "terms: {x: !!binary aGk=}\n", ["binary"]),
        (MINIMAL.replace("input:", "input:\n  kind: chunk"), ["the key `prompt` is missing", "found '"]),
        ("just text", ["'just text'"]),
        ("", ["found None, expected a mapping"]),
        ("nam: f\n", ["/nam", "did you mean 'name'?"]),
        ("a: [", [":1", "not YAML"]),
        ("a: !!python/object/apply:os.system [echo]", ["not YAML"]),
        ("[" * 1_000, ["not YAML"]),
    ],
)
def test_invalid_file_is_refused_with_key_found_and_expected(
    tmp_path: Path, text: str, says: list[str]
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(FlowError) as caught:
        flow_file.load(path)

    for part in [str(path), *says]:
        assert part in str(caught.value)
    assert "does not match" not in str(caught.value), "nobody wants to read a regular expression"


def test_flow_sets_parameters_and_names_those_that_prompts_may_set(tmp_path: Path) -> None:
    text = MINIMAL + "extras: {reasoning_effort: low}\nallow-parameters: [top_k, min_p]\n"

    [flow] = flow_file.load(written(tmp_path, text))

    assert flow.extras == {"reasoning_effort": "low"}
    assert flow.allow_parameters == {"top_k", "min_p"}


@pytest.mark.parametrize("name", ["n", "stream", "model", "messages", "tools", "max_tokens"])
def test_parameter_that_decides_the_call_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FlowError, match=f"/extras/{name}: the key `{name}` is not allowed here"):
        flow_file.load(written(tmp_path, MINIMAL + f"extras: {{{name}: 1}}\n"))


def test_two_flows_of_one_name_are_refused(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL, "a.yaml")
    written(tmp_path, MINIMAL, "b.yaml")

    with pytest.raises(FlowError, match=r"two flows have the same name \(found 'f'\)$"):
        flow_file.load(tmp_path)


def test_keys_are_text_whatever_yaml_makes_of_them(tmp_path: Path) -> None:
    text = MINIMAL + "  objects: {by-type: {yes: 'flow:tg:a', 1: 'flow:tg:b'}}\nterms: {day: 2026-11-21}\n"

    [flow] = flow_file.load(written(tmp_path, text))

    assert set(flow.outputs.objects) == {"yes", "1"}
    assert flow.terms == {"day": "2026-11-21"}


def test_two_flows_on_one_subscription_are_refused(tmp_path: Path) -> None:
    shared = MINIMAL.replace("topic: flow:tg:in", "topic: flow:tg:in\n  subscription: s")
    written(tmp_path, shared, "a.yaml")
    written(tmp_path, shared.replace("name: f", "name: g"), "b.yaml")

    with pytest.raises(FlowError, match=r"b\.yaml /input/subscription: flow f has the same subscription"):
        flow_file.load(tmp_path)


def test_folder_without_flows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="no flow files"):
        flow_file.load(tmp_path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="No such file"):
        flow_file.load(tmp_path / "none.yaml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"name: \xff")

    with pytest.raises(FlowError, match="not UTF-8"):
        flow_file.load(path)


def test_flows_in_the_guide_to_completions_can_be_loaded(tmp_path: Path) -> None:
    guide = guide_page("completion-worker.md").read_text("utf-8")
    flow, provider = re.findall(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)

    [served] = flow_file.load(written(tmp_path, flow, "served.yaml"))
    [asking] = flow_file.load(written(tmp_path, MINIMAL + provider, "asking.yaml"))

    assert (served.model, served.temperature) == ("qwen3:32b", 0.2)
    assert served.input.subscription == "text-completion-rag--books--rag--request"
    assert isinstance(asking.provider, TopicChoice)
    assert asking.provider.timeout == 120


def test_flow_in_the_reference_can_be_loaded(tmp_path: Path) -> None:
    [flow] = re.findall(
        r"^```yaml\n(.*?)^```$", guide_page("flows.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    [loaded] = flow_file.load(written(tmp_path, flow, "chunks.yaml"))

    assert (loaded.name, loaded.prompt) == ("chunks", "agent-kg-extract")


def test_ontology_without_a_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plants.json").write_text("{}")
    with pytest.raises(ConfigError, match="/classes: the ontology has no class"):
        flow_file.load(written(tmp_path, CHUNKS + "outputs: {}\nontology: plants.json\n"))


def test_flows_with_equal_ontologies_are_equal(tmp_path: Path) -> None:
    (tmp_path / "plants.json").write_text('{"classes": {"Herb": {}}}')
    path = written(tmp_path, CHUNKS + "outputs: {}\nontology: plants.json\n")
    before = flow_file.load(path)
    assert flow_file.load(path) == before
    (tmp_path / "plants.json").write_text('{"classes": {"Herb": {}, "Tree": {}}}')
    assert flow_file.load(path) != before


def test_ontology_is_read_from_beside_the_flow_file(tmp_path: Path) -> None:
    (tmp_path / "plants.json").write_text('{"classes": {"Herb": {}}}')
    [flow] = flow_file.load(written(tmp_path, CHUNKS + "outputs: {}\nontology: plants.json\n"))

    assert flow.ontology is not None
    assert (flow.ontology.ontology.id, *flow.ontology.ontology.classes) == ("plants", "Herb")


def test_labels_of_the_ontology_are_those_of_the_language(tmp_path: Path) -> None:
    labels = [{"value": "herb", "lang": "en"}, {"value": "Kraut", "lang": "de"}]
    (tmp_path / "plants.json").write_text(json.dumps({"classes": {"Herb": {"rdfs:label": labels}}}))
    source = CHUNKS + "outputs: {}\nontology: plants.json\nontology-language: "
    [flow] = flow_file.load(written(tmp_path, source + "de\n"))
    assert flow.ontology is not None
    assert flow.ontology.ontology.classes["Herb"].labels == ("Kraut", "herb")
    with pytest.raises(ConfigError, match=r"plants.json: the ontology has no label in this language"):
        flow_file.load(written(tmp_path, source + "fr\n"))
    with pytest.raises(FlowError, match="/ontology-language: has no effect without `ontology`"):
        flow_file.load(written(tmp_path, CHUNKS + "outputs: {}\nontology-language: de\n"))


def test_missing_ontology_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plants\.ttl: No such file"):
        flow_file.load(written(tmp_path, CHUNKS + "outputs: {}\nontology: plants.ttl\n"))


def test_ontology_is_refused_for_other_messages_than_chunks(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="/ontology: does not apply to messages of the kind prompt-request"):
        flow_file.load(written(tmp_path, MINIMAL + "ontology: plants.ttl\n"))
