"""Parses and checks flow files."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from math import isnan, nan
from pathlib import Path
from typing import Any

from trustgraph_prompt import package_data
from trustgraph_prompt.broker import topics
from trustgraph_prompt.config_files import check, read_yaml
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import FlowError, TopicInvalid
from trustgraph_prompt.graph import ontology_files
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.tables import TableDefinition
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

_OUTPUTS_OF_CHUNKS = tuple(f"/outputs/{key}" for key in OF_CHUNKS)

COMPLETION = "text-completion"

OF_ANSWERS = ("terms", "unusable", "allow-parameters", "keep-answers")
"""Keys that do not apply to text completions."""

log = logging.getLogger(__name__)

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
    try:
        _check_together(document)
        _check_kind(document)
        flow = _flow(document, Path(where).parent, processor)
        _check_topics(flow)
    except TopicInvalid as error:
        raise FlowError(str(error), where=where) from None
    except FlowError as error:
        raise error.at(where) from None
    return flow


def invalid(path: str, wrong: str, found: object = None, expected: str | None = None) -> FlowError:
    """What is wrong at a JSON Pointer into a flow; who reads the file adds its name."""
    return FlowError(wrong, path=path, found=found, expected=expected)


_AS_THEY_ARE = ("workspace", "prompt", "terms", "concurrency", "deliveries", "crashes", "unusable", "extras")
"""Keys that are fields of a flow, with the same defaults."""


def _flow(document: Mapping[str, Any], folder: Path, processor: str) -> Flow:
    """Make the flow of a document that is as the schema says; `folder` is that of its file."""
    name, workspace = document["name"], document.get("workspace", "default")
    source, parameters = document["input"], document.get("parameters", {})
    input = Input(
        topics.resolve(source["topic"]),
        source.get("subscription", f"{processor}--{workspace}--{name}--request"),
        **{key: source[key] for key in ("kind", "buffer") if key in source},
    )
    answers = f"persistent://{topics.namespace_of(input.topic)}/{name}-answers"
    flow = Flow(
        name=name,
        input=input,
        outputs=_topics_of_outputs(document["outputs"], None if input.kind == COMPLETION else answers),
        ontology=_ontology(folder, document) if "ontology" in document else None,
        graph=GraphOptions(**_with_underscores(document.get("graph", {}))),
        tables=_tables(document),
        budget=Budget(**{"work_seconds": WORK_SECONDS} | _with_underscores(document.get("budget", {}))),
        price=Price(**document["price"]) if "price" in document else None,
        provider=_provider(document["provider"]) if "provider" in document else None,
        model=parameters.get("model"),
        temperature=temperature(parameters.get("temperature")),
        allow_parameters=frozenset(document.get("allow-parameters", ())),
        keep_answers=_seconds(document.get("keep-answers")),
        **{key: document[key] for key in _AS_THEY_ARE if key in document},
    )
    if flow.budget.money is not None and flow.price is None:
        wrong = "cost cannot be computed without a price"
        raise invalid("/budget/money", wrong, flow.budget.money, "a `price` beside the budget")
    return flow


def _topics_of_outputs(outputs: Mapping[str, Any], answers: str | None) -> Outputs:
    """The outputs with the full names of their topics; `answers` is the topic of records by default."""
    objects = outputs.get("objects", {})
    if isinstance(objects, str):
        objects = {"default": objects}
    by_type = dict(objects.get("by-type", {}))
    if "default" in objects:
        by_type[""] = objects["default"]
    single = {"answers": answers, **outputs}
    single.pop("objects", None)
    return Outputs(
        objects={value: topics.resolve(topic) for value, topic in by_type.items()},
        quotes=single.pop("quotes", "keep"),
        **_with_underscores({key: topic and topics.resolve(topic) for key, topic in single.items()}),
    )


def _seconds(duration: str | None) -> float | None:
    """Parse a duration such as `90d`, which the schema has checked."""
    return int(duration[:-1]) * _SECONDS[duration[-1]] if duration else None


def _with_underscores(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in options.items()}


def _check_kind(document: Any) -> None:
    """Refuse what does not apply to the kind of messages."""
    kind, outputs = document["input"].get("kind", "prompt-request"), document["outputs"]
    if kind != "chunk" and "response" not in outputs:
        expected = "`response` for requests of this kind"
        raise invalid("/outputs", "the response topic is missing", outputs, expected)
    if kind == COMPLETION:
        foreign = [f"/outputs/{key}" for key in outputs if key != "response"]
        foreign += [f"/{key}" for key in OF_ANSWERS if key in document]
    else:
        foreign = ["/parameters"] if "parameters" in document else []
    if kind != "chunk":
        foreign += [f"/outputs/{key}" for key in OF_CHUNKS if key in outputs]
        foreign += [
            f"/{key}" for key in ("graph", "ontology", "ontology-language", "tables") if key in document
        ]
    if foreign:
        raise invalid(foreign[0], f"does not apply to messages of the kind {kind}")


_USELESS = (
    ("/ontology", "tables"),
    ("/outputs/triples", "tables"),
    ("/outputs/entity-contexts", "tables"),
    ("/graph/base", "ontology"),
)
"""Keys that have no effect beside another."""


def _check_together(document: Any) -> None:
    """Refuse what another key makes useless, or needs."""
    if "ontology-language" in document and "ontology" not in document:
        raise invalid("/ontology-language", "has no effect without `ontology`")
    for path, beside in _USELESS:
        *inside, key = path.split("/")[1:]
        place = document.get(inside[0], {}) if inside else document
        if beside in document and key in place:
            raise invalid(path, f"has no effect beside `{beside}`")


def _tables(document: Any) -> dict[str, TableDefinition]:
    tables, outputs = document.get("tables", {}), document["outputs"]
    if tables and "rows" not in outputs:
        wrong, found = "the topic for the rows of the tables is missing", ", ".join(outputs) or "no keys"
        raise invalid("/outputs", wrong, found, "`rows`, a topic")
    if "rows" in outputs and not tables:
        wrong = "there are no tables that rows could be of"
        expected = "`tables` beside `outputs`: the fields of each table"
        raise invalid("/outputs/rows", wrong, outputs["rows"], expected)
    return {key: _table(key, definition) for key, definition in tables.items()}


def _table(key: str, definition: Any) -> TableDefinition:
    try:
        return TableDefinition.of(key, definition, "", FlowError)
    except FlowError as error:
        raise error.at("", pointer(("tables", key))) from None


def _ontology(folder: Path, document: Mapping[str, Any]) -> OntologyIndex:
    found = ontology_files.load([folder / document["ontology"]], document.get("ontology-language"))
    return ontology_files.index_of(found, partial(log.warning, "%s"))


def _provider(choice: Mapping[str, Any]) -> ProviderChoice | TopicChoice:
    options = _with_underscores(choice)
    if "thinking" in options:
        options["thinking"] = tuple(options["thinking"])
    if "request" not in options:
        return ProviderChoice(**options)
    return TopicChoice(**options | {key: topics.resolve(options[key]) for key in ("request", "response")})


def temperature(value: object) -> float | None:
    """Parse a temperature, a number or (from TrustGraph) a string; None if empty. Raises `FlowError`."""
    if value is None or value == "":
        return None
    number = nan
    with suppress(ValueError):
        if not isinstance(value, bool) and "_" not in str(value):
            number = float(str(value))
    if 0 <= number <= MAX_TEMPERATURE:
        return number
    wrong = "it is below 0" if number < 0 else f"it is above {MAX_TEMPERATURE}"
    wrong = f"the temperature is not valid: {'it is not a number' if isnan(number) else wrong}"
    raise invalid("/parameters/temperature", wrong, value, f"a number from 0 to {MAX_TEMPERATURE}")


def _check_topics(flow: Flow) -> None:
    outputs = flow.outputs.by_path
    # Each topic of a graph, and each that is asked, has messages of one type only.
    taken = {path: topic for path, topic in outputs.items() if path not in _OUTPUTS_OF_CHUNKS}
    for path in _OUTPUTS_OF_CHUNKS:
        check_distinct(outputs[path], path, taken)
    if isinstance(flow.provider, TopicChoice):
        _check_provider(flow, flow.provider)
    for path, topic in outputs.items():
        if topic == flow.input.topic:
            wrong = "the flow would receive its own output as requests"
            raise invalid(path, wrong, topic, "another topic than /input/topic")
        if topic is not None and path != "/outputs/response" and not topics.is_persistent(topic):
            wrong = "outputs must be durable before a request is acknowledged"
            raise invalid(path, wrong, topic, "a persistent topic")


def _check_provider(flow: Flow, provider: TopicChoice) -> None:
    if flow.model is not None:
        wrong = "the provider is a worker with a model of its own"
        raise invalid("/parameters/model", wrong, flow.model, "none, or its name in /provider/model")
    taken = {"/input/topic": flow.input.topic, **flow.outputs.by_path}
    check_distinct(provider.request, "/provider/request", taken)
    check_distinct(provider.response, "/provider/response", taken)


def check_distinct(
    topic: str | None, path: str, taken: dict[str, str | None], *, found: str | None = None
) -> None:
    """Add a topic to those that are taken, by path. Raises `FlowError` if it is taken; None never is.

    `found` is how the topic is written at `path`, if that is not its full name.
    """
    other = next((other for other, used in taken.items() if topic is not None and topic == used), None)
    if other is not None:
        wrong = "two topics of the flow are the same"
        raise invalid(path, wrong, found or topic, f"another topic than {other}")
    taken[path] = topic


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a flow file."""
    document: dict[str, Any] = json.loads((package_data.flows() / "flow.schema.json").read_text())
    return document
