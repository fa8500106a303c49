"""The examples of the documents that the product implements: run as they are written, but for import lines.

Each of them stands in `seed_examples/`, has one test here, and is run by it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any, Literal, Optional, get_type_hints

import jsonschema
import prometheus_client
import pytest
from pydantic import BaseModel, create_model

from trustgraph_prompt import Contract, PromptManager, doors
from trustgraph_prompt.contract import Wording
from trustgraph_prompt.doors import schema_language, structured_response
from trustgraph_prompt.doors.manager import Prompt as ManagedPrompt
from trustgraph_prompt.language import parse
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider

FOLDER = Path(__file__).parent / "seed_examples"
EXAMPLE = re.compile(r"^## (\d+)\. [^\n]*\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

EXAMPLES = {
    (int(file.stem.removeprefix("seed-")), int(number)): code
    for file in sorted(FOLDER.glob("seed-*.md"))
    for number, code in EXAMPLE.findall(file.read_text("utf-8"))
}

NO_PYTHON = {
    (3, 4): "a method of which only comments are written",
    (3, 5): "a method of which only comments are written",
    (3, 7): "a method without a body",
    (3, 11): "a signature with `...` among the parameters",
}

SHOWN: set[tuple[int, int]] = set()


def shows(seed: int, *numbers: int) -> pytest.MarkDecorator:
    """What a test is about; it gets one after the other as `example`."""
    SHOWN.update((seed, number) for number in numbers)
    examples = [pytest.param(EXAMPLES[seed, number], id=f"seed {seed}, {number}") for number in numbers]
    return pytest.mark.parametrize("example", examples)


def run(example: str, **names: Any) -> dict[str, Any]:
    """What an example defines, where these names are known."""
    names["__name__"] = "example"
    exec(compile(example, "example", "exec", dont_inherit=True), names)
    return names


def test_every_example_that_is_python_has_its_test() -> None:
    assert EXAMPLES.keys() - NO_PYTHON.keys() == SHOWN


@pytest.mark.parametrize("place", NO_PYTHON, ids=str)
def test_examples_that_are_no_python_do_not_parse(place: tuple[int, int]) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(EXAMPLES[place])


OBJECTS = [{"entity": "DNA", "definition": "a molecule"}, {"entity": "RNA", "definition": "one, too"}]
LINES = f'{json.dumps(OBJECTS[0])}\n\n```\n{{"entity": nothing}}\n{json.dumps(OBJECTS[1])}'
CONFIG = {
    "system": json.dumps("Be exact."),
    "template-index": json.dumps(["lines", "value", "plain"]),
    "template.lines": json.dumps(
        {"prompt": "About {{topic}}.", "response-type": "jsonl", "schema": {"required": ["entity"]}}
    ),
    "template.value": json.dumps(
        {"prompt": "About {{topic}}.", "response-type": "json", "schema": {"required": ["entity"]}}
    ),
    "template.plain": json.dumps({"prompt": "About {{topic}}."}),
}


def manager() -> PromptManager:
    made = PromptManager()
    made.load_config(CONFIG)
    return made


def answering(text: str) -> Callable[..., Any]:
    async def llm(*, system: str, prompt: str) -> str:
        assert (system, prompt) == ("Be exact.", "About DNA.")
        return text

    return llm


@shows(1, 1, 2)
def test_prompt_has_the_parameters_and_attributes_of_theirs(example: str) -> None:
    theirs = run(example)["Prompt"]
    _, _, *others = inspect.signature(theirs).parameters
    given: dict[str, Any] = {name: {"required": ["a"]} for name in others}
    one, other = theirs("{{topic}}", "json", **given), ManagedPrompt("{{topic}}", "json", **given)
    for name, value in vars(one).items():
        assert getattr(other, name) == value


@shows(1, 3)
def test_a_configuration_becomes_our_prompts(example: str) -> None:
    ix = [key.removeprefix("template.") for key in CONFIG if key.startswith("template.")]
    made = run(example, ix=ix, config=CONFIG, json=json, Prompt=ManagedPrompt, prompts={})["prompts"]
    ours = manager()
    for id in ix:
        assert made[id].compiled.render({"topic": "DNA"}) == ours.render(id, {"topic": "DNA"}) == "About DNA."
        assert made[id].contract == ours.prompts[id].contract


@shows(1, 4)
def test_lines_are_read_as_by_theirs(example: str) -> None:
    theirs = run(example, json=json, logger=logging.getLogger("example"))["parse_jsonl"]
    assert theirs(None, LINES) == manager().parse_jsonl(LINES) == OBJECTS


@shows(1, 5)
@pytest.mark.parametrize(
    ("id", "answer", "found"),
    [
        ("plain", "a molecule", "a molecule"),
        ("value", '{"entity": "DNA"}', {"entity": "DNA"}),
        ("value", "no JSON", "JSON parse fail"),
        ("value", "{}", "Schema validation fail"),
        ("lines", LINES + '\n{"definition": "of what?"}', OBJECTS),
        ("lines", "nothing", []),
    ],
)
async def test_a_prompt_is_invoked_as_theirs_is(example: str, id: str, answer: str, found: Any) -> None:
    names = run(example, logger=logging.getLogger("example"), validate=jsonschema.validate)
    ours = manager()
    ours.prompts["lines"].object_schema = ours.prompts["lines"].schema
    for invoke in (partial(names["invoke"], ours), ours.invoke):
        if isinstance(found, str) and found != answer:
            with pytest.raises(RuntimeError, match=found):
                await invoke(id, {"topic": "DNA"}, answering(answer))
        else:
            assert await invoke(id, {"topic": "DNA"}, answering(answer)) == found


@pytest.fixture
def _fresh_statistics() -> Iterator[None]:
    structured_response.reset_stats()
    yield
    structured_response.reset_stats()


SHOWING = '{"answer": "Here are the ADRs", "items_shown": 5, "items_total": 18}'
PROSE = f"5 of 18 ADRs match.\n```json\n{SHOWING}\n```"


@shows(3, 1)
def test_rejected_approach_finds_words_and_no_counts(example: str) -> None:
    misled = run(example, re=re, response="It is 5 of 18 in the morning.")
    missed = run(example, re=re, response="five out of eighteen")
    assert (bool(misled["has_counts"]), bool(missed["has_counts"])) == (True, False)


@shows(3, 2)
@pytest.mark.usefixtures("_fresh_statistics")
def test_chosen_approach_reads_counts(example: str) -> None:
    read = run(example, ResponseParser=structured_response.ResponseParser, response=PROSE)
    assert read["fallback"] == "extracted_json"
    assert (read["structured"].items_shown, read["structured"].items_total) == (5, 18)


@shows(3, 3, 8)
def test_records_have_the_fields_of_theirs(example: str) -> None:
    names = {"dataclass": dataclass, "field": dataclasses.field, "Optional": Optional}
    made = run(example, **names, **vars(structured_response))
    (theirs,) = (one for one in made.values() if getattr(one, "__module__", "") == "example")
    ours = getattr(structured_response, theirs.__name__)
    fields = {one.name: one for one in dataclasses.fields(ours)}
    for wanted in dataclasses.fields(theirs):
        assert fields[wanted.name].default == wanted.default
        assert fields[wanted.name].default_factory == wanted.default_factory


@shows(3, 6)
@pytest.mark.usefixtures("_fresh_statistics")
def test_metrics_count_under_the_names_of_theirs(example: str) -> None:
    theirs = run(example, StageLatency=structured_response.StageLatency)["ResponseMetrics"]
    stats = structured_response.get_parse_stats()["parsing"]
    assert stats["counters"].keys() >= theirs._counters.keys()
    assert stats["latency"].keys() == theirs._latencies.keys()
    assert stats["reason_codes"].keys() >= theirs._reason_codes.keys()


@shows(3, 9, 16)
def test_each_version_requires_what_theirs_does(example: str) -> None:
    ours = structured_response.ResponseValidator
    theirs = run(example)
    assert theirs["SUPPORTED_SCHEMA_VERSIONS"] <= structured_response.SUPPORTED_SCHEMA_VERSIONS
    for version in theirs["SUPPORTED_SCHEMA_VERSIONS"]:
        wanted = theirs["get_required_fields"].__func__(ours, version)
        assert ours.get_required_fields(version) == wanted


@shows(3, 10)
@pytest.mark.usefixtures("_fresh_statistics")
def test_basic_usage_prints_counts_and_success_rate(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(example)
    assert capsys.readouterr().out.splitlines() == [
        "Answer: Here are the ADRs",
        "Showing 5 of 18",
        "Showing 5 of 18 total items",
        "Success rate: 100.00%",
    ]


@shows(3, 12)
@pytest.mark.usefixtures("_fresh_statistics")
def test_the_cache_gives_a_second_reader_what_the_first_one_kept(example: str) -> None:
    within = f"def read(raw_response):\n{indent(example, '    ')}\n    return structured, fallback"
    read = run(within, ResponseParser=structured_response.ResponseParser)["read"]
    first, second = read(PROSE), read(PROSE)
    assert first == second
    assert second[1] == "extracted_json"
    assert structured_response.get_parse_stats()["cache"]["hits"] == 1


@shows(3, 13)
@pytest.mark.usefixtures("_fresh_statistics")
def test_exporters_receive_the_counts(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, float] = {}
    client = SimpleNamespace(gauge=told.__setitem__)
    monkeypatch.setitem(sys.modules, "statsd", SimpleNamespace(StatsClient=lambda: client))
    made = run(example)
    for exporter in ("statsd_exporter", "prometheus_exporter"):
        made["metrics"].set_exporter(made[exporter])
        structured_response.ResponseParser.parse_with_fallbacks(SHOWING)
        structured_response.ResponseParser.parse_with_fallbacks(SHOWING)
    assert told["response_parse_direct_parse_ok"] == 2
    assert prometheus_client.REGISTRY.get_sample_value("response_parse_direct_parse_ok") == 4
    for collector in {REGISTERED[name] for name in REGISTERED if name.startswith("response_parse_")}:
        prometheus_client.REGISTRY.unregister(collector)


REGISTERED = prometheus_client.REGISTRY._names_to_collectors
UNIT_TESTS = ("direct_parse", "extract_from_markdown", "invariant_violation", "metrics_tracking")


@shows(3, 14)
@pytest.mark.usefixtures("_fresh_statistics")
@pytest.mark.parametrize("name", UNIT_TESTS)
def test_their_unit_tests_pass(example: str, name: str) -> None:
    suite = run(example)["TestResponseSchema"]()
    suite.setup_method()
    getattr(suite, f"test_{name}")()
    assert {f"test_{one}" for one in UNIT_TESTS} == {one for one in dir(suite) if one.startswith("test_")}


@shows(3, 15)
@pytest.mark.usefixtures("_fresh_statistics")
async def test_their_integration_test_finds_the_invariants(example: str) -> None:
    async def query(question: str) -> tuple[str, None]:
        return PROSE, None

    with_locals = example + "\n    return locals()"
    names = run(with_locals, TestSuite=object)
    found = await names["test_transparency"](SimpleNamespace(elysia=SimpleNamespace(query=query)))
    assert found["passed"]


@shows(4, 1)
def test_the_parameters_of_the_response_format_are_those_of_theirs(example: str) -> None:
    theirs = run(example, dataclass=dataclass, Literal=Literal)["ResponseFormatParams"]
    fields = [(one.name, one.type) for one in dataclasses.fields(theirs)]
    hints = get_type_hints(doors.ResponseFormatParams)
    assert list(hints.items()) == fields


@shows(4, 2)
def test_usage_sketch_renders_prompts_and_parses_their_answers(example: str) -> None:
    with pytest.raises(doors.OutputParseError, match="no JSON"):
        run(example)  # "... assistant message here ..."
    answered = example.replace('"... assistant message here ..."', repr(SUMMARY))
    made = run(answered.replace('"...model reply..."', repr(RESULTS)))
    assert made["rendered"].text.startswith("## Task\n\nWrite a brief summary of Ada Lovelace.")
    assert "\n\n## Response Format\n\nReturn ONLY a single fenced JSON code block." in made["rendered"].text
    assert (made["rendered"].output_type, made["rendered"].container) == (made["Summary"], "object")
    assert made["typed_summary"] == made["Summary"]("Ada", "A mathematician.", None)
    assert made["search_rendered"].container == "array"
    assert made["results"] == [made["SearchResult"]("Sets", "https://sets.example", 0.5)]


SUMMARY = '{"title": "Ada", "gist": "A mathematician.", "url": "null"}'
RESULTS = '{"items": [{"title": "Sets", "url": "https://sets.example", "score": "0.5"}]}'


REVIEW = """
schema CodeReviewResult:
    approved: bool
    severity: string
    issues: list[string]
    suggestions: list[string]
    confidence: float

prompt review_code expecting CodeReviewResult: "Review this."
"""
FENCED = "```json\n{}\n```"
SCHEMA_ONLY = Wording(one="{schema}", many="{schema}", lines="{schema}")
FOUND = {"approved": True, "severity": "low", "issues": [], "suggestions": ["none"], "confidence": 0.5}
ANSWERED = json.dumps(FOUND)


class Heard(ScriptedProvider):
    """Gives these answers, and keeps what was asked."""

    def __init__(self, *answers: str) -> None:
        super().__init__([ScriptedAnswer(answer) for answer in answers])
        self.calls: list[Call] = []

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls.append(call)
        return super().stream(call)


def language_names(**more: Any) -> dict[str, Any]:
    return {"Any": Any, "BaseModel": BaseModel, "create_model": create_model, **vars(schema_language), **more}


@shows(5, 1)
def test_types_and_models_are_made_by_functions_of_these_names(example: str) -> None:
    theirs = run(example, **language_names())
    for name in ("type_expr_to_python_type", "schema_to_pydantic"):
        wanted = inspect.signature(theirs[name]).parameters
        assert list(inspect.signature(getattr(schema_language, name)).parameters)[: len(wanted)] == list(
            wanted
        )


@shows(5, 2)
def test_schema_becomes_the_pydantic_model_of_the_example(example: str) -> None:
    theirs = run(example, **language_names())["CodeReviewResult"]
    fields = ("approved: bool", "severity: string", "issues: list[string]", "confidence: float?")
    (declared,) = parse("\n  ".join(("schema CodeReviewResult:", *fields))).schemas
    ours = schema_language.schema_to_pydantic(declared)
    assert ours.model_json_schema() == theirs.model_json_schema()


@shows(5, 3)
async def test_generated_workflow_asks_the_model(example: str) -> None:
    made = run(example, **language_names(DslAgentWorkflow=schema_language.Workflow))
    provider = Heard(ANSWERED)
    assert await made["SchemaWorkflow"](provider).call_llm("review_code") == FOUND
    assert str(provider.calls[0].messages[0].content).startswith("...\n\nIMPORTANT: You MUST respond")


@shows(5, 4)
def test_a_prompt_spec_has_the_fields_of_theirs(example: str) -> None:
    theirs = run(example, **language_names(dataclass=dataclass, Callable=Callable))["PromptSpec"]
    ours = dataclasses.fields(schema_language.PromptSpec)
    wanted = [(one.name, one.default) for one in dataclasses.fields(theirs)]
    assert [(one.name, one.default) for one in ours] == wanted


@shows(5, 5)
async def test_a_prompt_is_enriched_in_their_words(example: str) -> None:
    enrich = run(example, json=json)["_enrich_prompt_with_schema"]
    provider = Heard(ANSWERED)
    workflow = schema_language.Workflow.load(REVIEW, provider)
    await workflow.call_llm("review_code")
    schema = json.loads(Contract.language(REVIEW)["CodeReviewResult"].instructions(SCHEMA_ONLY))
    assert provider.calls[0].messages[0].content == enrich(None, "Review this.", schema)


@shows(5, 6)
@pytest.mark.parametrize(
    "layout", ["{}", "```json\n{}\n```", "```\n{}\n```\n", "```json\n{}\n```\nnot\n```json\n[0]\n```"]
)
async def test_an_answer_in_fences_is_parsed_as_theirs_is(example: str, layout: str) -> None:
    def refuse(_: object) -> Exception:
        return schema_language.JSONParseError("", "several blocks")

    blocks = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
    names = {"json": json, "_JSON_CODE_BLOCK_PATTERN": blocks, "JSONParseError": refuse}
    parse_response = run(example, **names)["_parse_json_response"]
    answer = layout.replace("{}", ANSWERED)
    workflow = schema_language.Workflow.load(REVIEW, Heard(*[answer] * 3))
    if "not" not in layout:
        assert await workflow.call_llm("review_code") == parse_response(None, answer)
        return
    with pytest.raises(schema_language.JSONParseError):
        parse_response(None, answer)
    with pytest.raises(schema_language.SchemaValidationError) as refused:
        await workflow.call_llm("review_code")
    assert isinstance(refused.value.__cause__, schema_language.JSONParseError)


@shows(5, 7)
async def test_invalid_answer_is_fed_back_in_their_words(example: str) -> None:
    provider = Heard("no JSON", "still none", "none")
    with pytest.raises(schema_language.SchemaValidationError) as refused:
        await schema_language.Workflow.load(REVIEW, provider).call_llm("review_code")
    names = run(example, messages=[], last_content="no JSON", last_error=refused.value.__cause__)
    assert len(provider.calls) == names["MAX_SCHEMA_RETRIES"] == schema_language.MAX_SCHEMA_RETRIES
    told = [{"role": one.role, "content": one.content} for one in provider.calls[1].messages]
    assert told[1:] == names["messages"]


@shows(5, 8)
def test_agent_gets_the_same_model_as_theirs(example: str) -> None:
    generated = run(EXAMPLES[5, 3], **language_names(DslAgentWorkflow=schema_language.Workflow))
    workflow_class = generated["SchemaWorkflow"]
    names = language_names(prompts=workflow_class._prompts)
    resolve = run(example, **names)["_resolve_output_schema"]
    theirs = resolve(SimpleNamespace(_workflow_class=workflow_class), {"instruction": "review_code"})
    assert workflow_class(Heard()).output_schema("review_code") is theirs is workflow_class.CodeReviewResult


@shows(5, 9, 10)
def test_errors_have_the_attributes_of_theirs(example: str) -> None:
    made = run(example, DslRuntimeError=Exception)
    (theirs,) = (one for one in made.values() if getattr(one, "__module__", "") == "example")
    values = [
        ["/a is missing"] if name == "errors" else name for name in inspect.signature(theirs).parameters
    ]
    one, other = theirs(*values), getattr(schema_language, theirs.__name__)(*values)
    for name, value in vars(one).items():
        assert getattr(other, name) == value


@shows(5, 11)
def test_types_have_the_names_of_the_example(example: str) -> None:
    theirs = run(example)["DSL_TYPE_MAP"]
    assert theirs.items() <= schema_language.DSL_TYPE_MAP.items()
