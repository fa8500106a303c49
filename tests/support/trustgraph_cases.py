"""What a model says to a prompt, and what TrustGraph's client makes of the prompt service's answer.

`theirs` is what came of trustgraph-flow 2.11.1's own service where it is another thing than ours: seen with
the same client, broker and stand-ins. The rest came out the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.trustgraph_services import Completion

PERSON: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
STRICT: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
ADA, BOB, CID = {"name": "Ada", "age": 36}, {"name": "Bob"}, {"name": "Cid"}
TWO: Final = [ADA, BOB]
LINES: Final = '{"name": "Ada", "age": 36}\n{"name": "Bob"}\n'
CLOSE: Final = LINES.replace('": ', '":').replace(", ", ",")

#: The model says what it was asked, without the name of the case.
ECHO: Final = Completion(text=None)


@dataclass(frozen=True, eq=False)
class Case:
    """A prompt with the `name`, what the model says to it, and the fields of the client's result that count.

    An expected `error` is a part of its text. `chunks` is what a streaming caller heard, put together. Asked
    once more, because its answer was cut, the model says the `rest`.
    """

    name: str
    says: str | Completion
    expected: Mapping[str, Any]
    theirs: Mapping[str, Any] | None = None
    entry: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, Any] = field(default_factory=dict)
    streaming: bool = False
    template: str = "{{ text }}"
    rest: str = ""

    @property
    def value(self) -> str:
        """The prompt's entry in the config service, where it is none of ours: TrustGraph's own dialect."""
        return json.dumps({"prompt": f"{self.name}|{self.template}", **self.entry})


def text(value: str) -> dict[str, Any]:
    return {"response_type": "text", "text": value}


def one(value: object) -> dict[str, Any]:
    return {"response_type": "json", "object": value}


def many(values: object) -> dict[str, Any]:
    return {"response_type": "jsonl", "objects": values}


def error(message: str) -> dict[str, Any]:
    return {"error": message}


def _json(**entry: object) -> dict[str, Any]:
    return {"response-type": "json", **entry}


def _jsonl(**entry: object) -> dict[str, Any]:
    return {"response-type": "jsonl", **entry}


NO_PARSE: Final = error("JSON parse fail")
NO_RESPONSE: Final = error("LLM returned no response")

TEXTS: Final = [
    Case("text", "Hello, world.", text("Hello, world.")),
    Case("text-like-json", '{"a": 1}', text('{"a": 1}')),
    Case("text-blank", " \n", text(" \n")),
    Case(
        "text-unicode", "naïve 図 \N{GRINNING FACE}\x00\u2028", text("naïve 図 \N{GRINNING FACE}\x00\u2028")
    ),
    Case("text-long", "long " * 2_000, text("long " * 2_000)),
    Case("text-empty", "", one(""), error("the JSON object must be str")),
]

VALUES: Final = [
    Case("json", json.dumps(ADA), one(ADA), entry=_json()),
    Case("json-fenced", f"```json\n{json.dumps(ADA)}\n```", one(ADA), entry=_json()),
    Case("json-fenced-in-prose", f"Here:\n```\n{json.dumps(ADA)}\n```\nDone.", one(ADA), entry=_json()),
    Case("json-in-prose", f"Here you are: {json.dumps(ADA)} Done.", one(ADA), NO_PARSE, entry=_json()),
    Case("json-fence-open", f"```json\n{json.dumps(ADA)}", one(ADA), NO_PARSE, entry=_json()),
    Case("json-thought", f'<think>{{"a": 0}}</think>{json.dumps(ADA)}', one(ADA), NO_PARSE, entry=_json()),
    Case("json-with-fence", '{"code": "```x```"}', one({"code": "```x```"}), NO_PARSE, entry=_json()),
    Case("json-list", json.dumps(TWO), many(TWO), entry=_json()),
    Case("json-list-empty", "[]", many([]), entry=_json()),
    Case("json-string", '"plain"', one("plain"), text("plain"), entry=_json()),
    Case("json-number", "42", one(42), entry=_json()),
    Case("json-null", "null", one(None), entry=_json()),
    Case(
        "json-large-number",
        '{"n": 123456789012345678901234567890}',
        one({"n": 123456789012345678901234567890}),
        entry=_json(),
    ),
    Case("json-schema", json.dumps(ADA), one(ADA), entry=_json(schema=PERSON)),
    Case("json-strict", json.dumps(BOB), one(BOB), entry=_json(schema=STRICT)),
    Case(
        "json-invalid",
        '{"age": 1}',
        error("name"),
        error("Schema validation fail"),
        entry=_json(schema=PERSON),
    ),
    Case("json-broken", '{"name": Ada}', error("JSON"), NO_PARSE, entry=_json()),
    Case("json-cut", '{"name": "Ada", "age', error("ends within a value"), NO_PARSE, entry=_json()),
    Case("json-empty", "", error("empty"), NO_PARSE, entry=_json()),
]

LISTS: Final = [
    Case("jsonl", LINES, many(TWO), entry=_jsonl()),
    Case("jsonl-blank-lines", f"\n\n{LINES}\r\n\n", many(TWO), entry=_jsonl()),
    Case("jsonl-fenced", f"```jsonl\n{LINES}```", many(TWO), entry=_jsonl()),
    Case("jsonl-fenced-in-prose", f"Here:\n```json\n{LINES}```\nDone.", many(TWO), entry=_jsonl()),
    Case("jsonl-broken-line", LINES.replace("\n", "\n{broken\n", 1), many(TWO), entry=_jsonl()),
    Case(
        "jsonl-cut",
        f'{LINES}{{"name": "Ci',
        many([*TWO, CID]),
        many(TWO),
        entry=_jsonl(),
        rest=json.dumps(CID),
    ),
    Case("jsonl-cut-for-good", f'{LINES}{{"name": "Ci', many(TWO), entry=_jsonl()),
    Case("jsonl-schema", LINES + '{"age": 1}\n', many(TWO), entry=_jsonl(schema=PERSON)),
    Case(
        "jsonl-object-schema",
        LINES + '{"age": 1}\n',
        many(TWO),
        many([*TWO, {"age": 1}]),
        entry=_jsonl(**{"object-schema": PERSON}),
    ),
    Case("jsonl-array", json.dumps(TWO), many(TWO), many([TWO]), entry=_jsonl()),
    Case(
        "jsonl-array-of-lines",
        '[\n{"name": "Ada", "age": 36},\n{"name": "Bob"}\n]',
        many(TWO),
        many([BOB]),
        entry=_jsonl(),
    ),
    Case("jsonl-pretty", json.dumps(ADA, indent=2), many([ADA]), many([]), entry=_jsonl()),
    Case("jsonl-two-on-a-line", LINES.replace("\n", " "), many(TWO), many([]), entry=_jsonl()),
    Case("jsonl-bullets", "1. " + LINES.replace("\n", "\n2. ", 1), many(TWO), many([]), entry=_jsonl()),
    Case("jsonl-trailing-commas", LINES.replace("}\n", "},\n"), many(TWO), many([]), entry=_jsonl()),
    Case("jsonl-byte-order-mark", f"\ufeff{LINES}", many(TWO), many([BOB]), entry=_jsonl()),
    Case(
        "jsonl-thought",
        f'<think>\n{{"name": "No"}}\n</think>\n{LINES}',
        many(TWO),
        many([{"name": "No"}, *TWO]),
        entry=_jsonl(),
    ),
    Case("jsonl-scalars", f"1\nnull\n{LINES}", many(TWO), many([1, None, *TWO]), entry=_jsonl()),
    Case(
        "jsonl-infinity",
        f'{{"name": Infinity}}\n{LINES}',
        many(TWO),
        many([{"name": math.inf}, *TWO]),
        entry=_jsonl(),
    ),
    Case("jsonl-nothing", "Nothing found.", many([]), entry=_jsonl()),
    Case("jsonl-empty", "", many([]), entry=_jsonl()),
]

ERRORS: Final = [
    Case(
        "error",
        Completion(error=("llm-error", "the model is on fire")),
        error("the model is on fire"),
        NO_RESPONSE,
    ),
    Case("null", Completion(text=None, error=None), error("no response"), NO_RESPONSE),
    Case(
        "unknown-type",
        "Hello",
        error("xml"),
        error("Response type xml not known"),
        entry={"response-type": "xml"},
    ),
]

STREAMS: Final = [
    Case(
        "stream", "Hello, streaming world.", {**text(""), "chunks": "Hello, streaming world."}, streaming=True
    ),
    Case("stream-empty", "", {**text(""), "chunks": ""}, streaming=True),
    Case(
        "stream-json",
        json.dumps(ADA),
        {**one(ADA), "chunks": '{"name":"Ada","age":36}'},
        {**text(""), "chunks": json.dumps(ADA)},
        entry=_json(),
        streaming=True,
    ),
    Case(
        "stream-jsonl",
        LINES,
        {**text(""), "chunks": CLOSE},
        {**text(""), "chunks": LINES},
        entry=_jsonl(),
        streaming=True,
    ),
    Case(
        "stream-error",
        Completion(error=("llm-error", "the model is on fire")),
        error("the model is on fire"),
        streaming=True,
    ),
]

TERMS: Final = [
    Case(f"term-{name}", ECHO, text(shown), terms={"text": value})
    for name, value, shown in [
        ("text", "a <b> & \"c\" 'd'", "a <b> & \"c\" 'd'"),
        ("number", 3, "3"),
        ("fraction", 0.5, "0.5"),
        ("exponent", 1e100, "1e+100"),
        ("true", True, "True"),
        ("null", None, "None"),
        ("list", [1, "a", None], "[1, 'a', None]"),
        ("object", {"a": [True], "b": {"c": "d"}}, "{'a': [True], 'b': {'c': 'd'}}"),
    ]
] + [
    Case("term-missing", ECHO, text("()"), template="({{ text }})"),
    Case(
        "term-loop",
        ECHO,
        text("a=1;b=2;"),
        terms={"text": {"a": 1, "b": 2}},
        template="{% for k, v in text.items() %}{{ k }}={{ v }};{% endfor %}",
    ),
    Case(
        "term-item",
        ECHO,
        text("x-y"),
        terms={"text": ["x", {"k": "y"}]},
        template="{{ text.0 }}-{{ text.1.k }}",
    ),
]

CASES: Final = [*TEXTS, *VALUES, *LISTS, *ERRORS, *STREAMS, *TERMS]


def answer(request: Mapping[str, Any]) -> Completion | str:
    """What the model says: questions begin with the name of their case, also within a conversation."""
    asked = re.search(r"([\w-]+)\|(.*)", request["prompt"], re.DOTALL)
    assert asked is not None, request
    case = _BY_NAME[asked[1]]
    if asked.start() > 0:
        return case.rest
    return asked[2] if case.says is ECHO else case.says


def seen(came: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Of what came, the fields that are expected of it; an error as what was expected if it says that."""
    if "error" in came:
        message = f"{came['error']}: {came['message']}"
        wanted = expected.get("error")
        return {"error": wanted if wanted is not None and wanted in message else message}
    known = {**came["result"], "chunks": "".join(text for text, _ in came["chunks"])}
    return {name: known.get(name) for name in expected if name in known} or known


_BY_NAME: Final = {case.name: case for case in CASES}
