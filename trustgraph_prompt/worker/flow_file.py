"""Parses and checks flow files."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from math import isnan, nan
from pathlib import Path
from typing import Any

from trustgraph_prompt import package_data
from trustgraph_prompt.broker import topics
from trustgraph_prompt.config_files import check, read_text, read_yaml
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import FlowError, TopicInvalid
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.owl import parse_ontology
from trustgraph_prompt.graph.tables import Table
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.worker.flow import (
    WORK_SECONDS,
    Flow,
    GraphOptions,
    Input,
    Outputs,
    ProviderChoice,
    TopicChoice,
)

OF_CHUNKS = ("triples", "entity-contexts", "rows")
"""The outputs that only a chunk can have."""

OF_ANSWERS = ("terms", "unusable", "allow-parameters", "keep-answers")
"""Keys that do not apply to text completions."""

log = logging.getLogger(__name__)

_MOST_WARNINGS = 20  # about an ontology
_SECONDS = {"h": 3600.0, "d": 86_400.0}  # of the units of `keep-answers`

MAX_TEMPERATURE = 100
"""A sanity check; servers allow less."""


def load(path: Path, *, processor: str = "prompt") -> list[Flow]:
    """Load the flows of a file, or of all `*.yaml` files in a folder.

    `processor` is the id of this worker, used in the names of subscriptions. Raises `FlowError`.
    """
    paths = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not paths:
        raise FlowError("no flow files", where=str(path), found="no *.yaml file", expected="one per flow")
    flows: dict[str, Flow] = {}
    for file in paths:
        flow = parse(read_yaml(file, FlowError), str(file), processor=processor)
        if flow.name in flows:
            raise FlowError("two flows have the same name", where=str(file), path="/name", found=flow.name)
        for other in flows.values():
            if (other.input.topic, other.input.subscription) == (flow.input.topic, flow.input.subscription):
                raise FlowError(
                    f"flow {other.name} has the same subscription, each would receive half of the requests",
                    where=str(file),
                    path="/input/subscription",
                    found=flow.input.subscription,
                    expected="another subscription",
                )
        flows[flow.name] = flow
    return list(flows.values())


def parse(document: Any, where: str, *, processor: str = "prompt") -> Flow:
    """Parse a flow from a YAML document. Raises `FlowError`, and `ConfigError` for its ontology.

    The path of an ontology is relative to the file `where`.
    """
    check(document, schema(), where, FlowError)
    _check_together(document, where)
    name, workspace = document["name"], document.get("workspace", "default")
    source, outputs, parameters = document["input"], document["outputs"], document.get("parameters", {})
    kind = source.get("kind", "prompt-request")
    limits = {"work-seconds": WORK_SECONDS, **document.get("budget", {})}
    _check_kind(document, kind, where)
    objects = outputs.get("objects", {})
    by_type = {"": objects} if isinstance(objects, str) else dict(objects.get("by-type", {}))
    if isinstance(objects, dict) and "default" in objects:
        by_type[""] = objects["default"]
    try:
        input_topic = topics.resolve(source["topic"])
        answers = f"persistent://{topics.namespace_of(input_topic)}/{name}-answers"
        flow = Flow(
            name=name,
            workspace=workspace,
            input=Input(
                topic=input_topic,
                subscription=source.get("subscription", f"{processor}--{workspace}--{name}--request"),
                kind=kind,
                buffer=source.get("buffer", 1000),
            ),
            outputs=Outputs(
                answers=None
                if kind == "text-completion"
                else topics.resolve(outputs.get("answers", answers)),
                response=_optional_topic(outputs, "response"),
                objects={value: topics.resolve(topic) for value, topic in by_type.items()},
                triples=_optional_topic(outputs, "triples"),
                entity_contexts=_optional_topic(outputs, "entity-contexts"),
                rows=_optional_topic(outputs, "rows"),
            ),
            prompt=document.get("prompt"),
            terms=document.get("terms", {}),
            ontology=_ontology(document.get("ontology"), where),
            graph=GraphOptions(**_with_underscores(document.get("graph", {}))),
            tables=_tables(document, where),
            concurrency=document.get("concurrency", 8),
            deliveries=document.get("deliveries", 5),
            crashes=document.get("crashes", 3),
            unusable=document.get("unusable", "dead-letter"),
            budget=Budget(**_with_underscores(limits)),
            price=Price(**document["price"]) if "price" in document else None,
            provider=_provider(document.get("provider")),
            model=parameters.get("model"),
            temperature=temperature(parameters.get("temperature"), where),
            extras=document.get("extras", {}),
            allow_parameters=frozenset(document.get("allow-parameters", ())),
            keep_answers=_seconds(document.get("keep-answers")),
        )
    except TopicInvalid as error:
        raise FlowError(str(error), where=where) from None
    if flow.budget.money is not None and flow.price is None:
        raise FlowError(
            "cost cannot be computed without a price",
            where=where,
            path="/budget/money",
            found=flow.budget.money,
            expected="a `price` beside the budget",
        )
    _check_topics(flow, where)
    return flow


def _seconds(duration: str | None) -> float | None:
    """Parse a duration such as `90d`, which the schema has checked."""
    return int(duration[:-1]) * _SECONDS[duration[-1]] if duration else None


def _with_underscores(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in options.items()}


def _check_kind(document: Any, kind: str, where: str) -> None:
    outputs = document["outputs"]
    if kind != "chunk" and "response" not in outputs:
        raise FlowError(
            "the response topic is missing",
            where=where,
            path="/outputs",
            found=outputs,
            expected="`response` for requests of this kind",
        )
    if kind == "text-completion":
        foreign = [f"/outputs/{key}" for key in outputs if key != "response"]
        foreign += [f"/{key}" for key in OF_ANSWERS if key in document]
    else:
        foreign = ["/parameters"] if "parameters" in document else []
    if kind != "chunk":
        foreign += [f"/outputs/{key}" for key in OF_CHUNKS if key in outputs]
        foreign += [f"/{key}" for key in ("graph", "ontology", "tables") if key in document]
    if foreign:
        raise FlowError(f"does not apply to messages of the kind {kind}", where=where, path=foreign[0])


def _check_together(document: Any, where: str) -> None:
    """Refuse what another key makes useless."""
    graph, outputs = document.get("graph", {}), document["outputs"]
    useless = {
        "/ontology": "tables" in document and "ontology" in document,
        "/outputs/triples": "tables" in document and "triples" in outputs,
        "/outputs/entity-contexts": "tables" in document and "entity-contexts" in outputs,
        "/graph/base": "ontology" in document and "base" in graph,
    }
    for path, is_useless in useless.items():
        if is_useless:
            beside = "tables" if "tables" in document else "ontology"
            raise FlowError(f"has no effect beside `{beside}`", where=where, path=path)


def _optional_topic(outputs: Mapping[str, str], key: str) -> str | None:
    return topics.resolve(outputs[key]) if key in outputs else None


def _tables(document: Any, where: str) -> dict[str, Table]:
    tables, outputs = document.get("tables", {}), document["outputs"]
    if tables and "rows" not in outputs:
        raise FlowError(
            "the topic for the rows of the tables is missing",
            where=where,
            path="/outputs",
            found=", ".join(outputs) or "no keys",
            expected="`rows`, a topic",
        )
    if "rows" in outputs and not tables:
        raise FlowError(
            "there are no tables that rows could be of",
            where=where,
            path="/outputs/rows",
            found=outputs["rows"],
            expected="`tables` beside `outputs`: the fields of each table",
        )
    return {key: _table(key, definition, where) for key, definition in tables.items()}


def _table(key: str, definition: Any, where: str) -> Table:
    try:
        return Table.of(key, definition, where, FlowError)
    except FlowError as error:
        raise error.at(where, pointer(("tables", key))) from None


def _ontology(file: str | None, where: str) -> OntologyIndex | None:
    if file is None:
        return None
    path = Path(where).parent / file
    ontology = parse_ontology(path, read_text(path, FlowError))
    if not ontology.classes:
        raise FlowError("the ontology has no class", where=str(path), path="/classes")
    return index_of(ontology, file)


def index_of(ontology: Ontology, where: str) -> OntologyIndex:
    """The index of an ontology; logs its warnings."""
    for warning in ontology.warnings[:_MOST_WARNINGS]:
        log.warning("%s: %s", where, warning)
    return OntologyIndex(ontology)


def _provider(choice: Mapping[str, Any] | None) -> ProviderChoice | TopicChoice | None:
    if choice is None:
        return None
    thinking = (choice["thinking"][0], choice["thinking"][1]) if "thinking" in choice else None
    if "request" in choice:
        request, response = topics.resolve(choice["request"]), topics.resolve(choice["response"])
        seconds = choice.get("timeout", 600.0)
        return TopicChoice(request, response, choice.get("model"), seconds, thinking=thinking)
    return ProviderChoice(
        choice["base-url"],
        choice["model"],
        choice.get("key-env"),
        prefill=choice.get("prefill"),
        native_schema=choice.get("native-schema"),
        images=choice.get("images"),
        thinking=thinking,
    )


def temperature(value: object, where: str) -> float | None:
    """Parse a temperature, a number or (from TrustGraph) a string; None if empty. Raises `FlowError`."""
    if value is None or value == "":
        return None
    number = nan
    with suppress(ValueError):
        if not isinstance(value, bool) and "_" not in str(value):
            number = float(str(value))
    if 0 <= number <= MAX_TEMPERATURE:
        return number
    if isnan(number):
        wrong = "it is not a number"
    else:
        wrong = "it is below 0" if number < 0 else f"it is above {MAX_TEMPERATURE}"
    raise FlowError(
        f"the temperature is not valid: {wrong}",
        where=where,
        path="/parameters/temperature",
        found=value,
        expected=f"a number from 0 to {MAX_TEMPERATURE}",
    )


def _check_topics(flow: Flow, where: str) -> None:
    _check_graph(flow, where)
    if isinstance(flow.provider, TopicChoice):
        _check_provider(flow, flow.provider, where)
    for path, topic in _outputs(flow).items():
        if topic == flow.input.topic:
            raise FlowError(
                "the flow would receive its own output as requests",
                where=where,
                path=path,
                found=topic,
                expected="another topic than /input/topic",
            )
        if topic is not None and path != "/outputs/response" and not topics.is_persistent(topic):
            raise FlowError(
                "outputs must be durable before a request is acknowledged",
                where=where,
                path=path,
                found=topic,
                expected="a persistent topic",
            )


def _check_graph(flow: Flow, where: str) -> None:
    """Each topic of a graph has messages of one type only."""
    topics = _outputs(flow)
    graph = {path: topics.pop(path) for path in [f"/outputs/{key}" for key in OF_CHUNKS]}
    for path, topic in graph.items():
        if topic is not None:
            check_distinct(topic, path, topics, where, found=topic)
            topics[path] = topic


def _check_provider(flow: Flow, provider: TopicChoice, where: str) -> None:
    if flow.model is not None:
        raise FlowError(
            "the provider is a worker with a model of its own",
            where=where,
            path="/parameters/model",
            found=flow.model,
            expected="none, or its name in /provider/model",
        )
    taken = {"/input/topic": flow.input.topic, **_outputs(flow)}
    for path, topic in (("/provider/request", provider.request), ("/provider/response", provider.response)):
        check_distinct(topic, path, taken, where, found=topic)
        taken[path] = topic


def check_distinct(topic: str, path: str, taken: Mapping[str, str | None], where: str, *, found: str) -> None:
    """Check that a topic, found as `found` at `path`, is not among those taken. Raises `FlowError`."""
    for other, used in taken.items():
        if topic == used:
            raise FlowError(
                "two topics of the flow are the same",
                where=where,
                path=path,
                found=found,
                expected=f"another topic than {other}",
            )


def _outputs(flow: Flow) -> dict[str, str | None]:
    """The topics of the outputs, by their path in the file."""
    return {
        "/outputs/answers": flow.outputs.answers,
        "/outputs/response": flow.outputs.response,
        "/outputs/triples": flow.outputs.triples,
        "/outputs/entity-contexts": flow.outputs.entity_contexts,
        "/outputs/rows": flow.outputs.rows,
        **{f"/outputs/objects {kind}".rstrip(): topic for kind, topic in flow.outputs.objects.items()},
    }


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a flow file."""
    document: dict[str, Any] = json.loads((package_data.flows() / "flow.schema.json").read_text())
    return document
