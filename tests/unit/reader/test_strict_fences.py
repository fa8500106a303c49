"""A json answer where fences are strict: blocks of json count before all else, and each as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Stage, StreamReader, read

VOLCANO = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
ETNA, FUJI, LAKE = '{"name": "Etna"}', '{"name": "Fuji"}', '{"depth": 5}'
ONE = Contract.from_schema(VOLCANO, fences="strict")
MANY = Contract.from_schema(VOLCANO, many=True, fences="strict")


def fence(content: str, says: str = "json") -> str:
    return f"```{says}\n{content}\n```\n"


@pytest.mark.parametrize(
    "text",
    [
        ETNA,
        fence(ETNA),
        f"Of {LAKE}:\n{fence(ETNA)}or {FUJI}",
        f"{FUJI}\n~~~ JSON \r\n{ETNA}\r\n~~~",
        f"{FUJI}\n````json\n{ETNA}````",
        fence(LAKE) + fence(ETNA),
        fence(ETNA) + fence("{]") + fence(LAKE),
        fence(ETNA) + fence(ETNA),
        fence('{"name": "Etna" }') + "This is the { of it.",
        fence(ETNA) + 'And {"name": "Fu',
        fence("x = {}", "python") + fence(ETNA),
        fence(FUJI, "json5") + fence(ETNA),
        "Write ``` before it.\n" + fence(ETNA),
        f"<think>\n{fence(FUJI)}</think>\n{fence(ETNA)}",
        f"{fence(FUJI)} no, wait</think>\n{fence(ETNA)}",
        f"{fence(FUJI)} no, wait</think>\n{ETNA}",
        f"{fence(ETNA)}</think>",
    ],
)
def test_json_block_is_the_answer(text: str) -> None:
    assert read(text, ONE).value == {"name": "Etna"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (fence("{]") + ETNA, Reason.INVALID_JSON),
        (fence("see below") + ETNA, Reason.INVALID_JSON),
        (fence("") + ETNA, Reason.INVALID_JSON),
        (fence(f"{ETNA} // the highest"), Reason.INVALID_JSON),
        (fence(f"{ETNA}\n{FUJI}"), Reason.INVALID_JSON),
        (fence("[" * 300 + "]" * 300) + ETNA, Reason.INVALID_JSON),
        (fence("9" * 5_000) + ETNA, Reason.INVALID_JSON),
        (fence(LAKE) + ETNA, Reason.SCHEMA_EXTRA_FIELD),
        (fence("42") + ETNA, Reason.SCHEMA_TYPE_ERROR),
        (fence(ETNA) + fence(FUJI), Reason.AMBIGUOUS),
    ],
)
def test_invalid_json_block_is_refused_whatever_else_there_is(text: str, reason: Reason) -> None:
    outcome = read(text, ONE)
    assert (outcome.reason, outcome.value) == (reason, None)


def test_broken_json_block_names_the_place() -> None:
    outcome = read(f"So:\n{fence('  {]')}{ETNA}", ONE)
    assert outcome.explain().endswith("at line 3 column 4")
    [rejected] = outcome.rejected
    assert rejected.raw == "{]"


@pytest.mark.parametrize(
    "text",
    [
        f"As [1] says, not {LAKE} but {ETNA}.",
        f"[oops]{ETNA}",
        f"{ETNA} or {FUJI}",
        f"{ETNA}\n{FUJI}",
        fence(ETNA, ""),
        fence("x = {'a': 1}", "python") + ETNA,
        fence('{"a": 1}', "python") + ETNA,
        f"{FUJI} " + fence(ETNA, ""),
        f"```json\n{ETNA}",
        f"```json\n{ETNA}\nThat is it, I think.",
        f"In ```json``` as you wish: {ETNA}",
        f"{FUJI}, no: ```json {ETNA}```",
        f"```json title=x\n{ETNA}\n```",
    ],
)
def test_first_valid_value_is_taken_without_a_json_block(text: str) -> None:
    assert read(text, ONE).value == {"name": "Etna"}


@pytest.mark.parametrize(
    ("text", "stage"),
    [(ETNA, Stage.DIRECT), (fence(ETNA), Stage.EXTRACTED), (f"So: {ETNA}", Stage.EXTRACTED)],
)
def test_stage_says_where_the_value_was_found(text: str, stage: Stage) -> None:
    assert read(text, ONE).stage is stage


def test_value_in_a_closed_block_is_not_truncated_whatever_the_finish_reason() -> None:
    assert read(fence(ETNA) + "And it is hi", ONE, finish_reason="length").truncated is False
    assert read(f"```json\n{ETNA[:-4]}", ONE, finish_reason="length").truncated is True


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_stream_gives_the_same_outcome(step: int) -> None:
    for text in (
        fence(LAKE) + fence(ETNA),
        fence("{]") + ETNA,
        f"{ETNA} or {FUJI}",
        fence(ETNA) + fence(FUJI),
    ):
        reader = StreamReader(ONE)
        for at in range(0, len(text), step):
            reader.feed(text[at : at + step])
        assert reader.close() == read(text, ONE)


class TestList:
    LIST = f"[{ETNA}, {FUJI}]"
    BOTH: Any = [{"name": "Etna"}, {"name": "Fuji"}]  # noqa: RUF012

    @pytest.mark.parametrize("text", ["{0}", '{{"items": {0}}}', "```json\n{0}\n```", "As [1] says: {0}."])
    def test_list_may_be_wrapped_as_items(self, text: str) -> None:
        assert read(text.format(self.LIST), MANY).value == self.BOTH

    @pytest.mark.parametrize(
        "text",
        [
            '{{"results": {0}}}',
            '{{"items": {0}, "total": 2}}',
            '{{"items": {{"items": {0}}}}}',
            '{{"items": 5}}',
            "[{0}]",
            ETNA.replace("{", "{{").replace("}", "}}"),
        ],
    )
    def test_list_in_any_other_wrapper_is_refused(self, text: str) -> None:
        assert not read(text.format(self.LIST), MANY).ok

    def test_list_may_be_wrapped_with_other_keys_where_these_are_ignored(self) -> None:
        text = f'{{"total": 2, "items": {self.LIST}}}'
        for fences in ("any", "strict"):
            ignoring = Contract.from_schema(VOLCANO, many=True, fences=fences, extra="ignore")
            assert read(text, ignoring).value == self.BOTH
            forbidding = Contract.from_schema(VOLCANO, many=True, fences=fences, extra="forbid")
            assert not read(text, forbidding).ok

    def test_issue_of_a_wrapped_list_has_its_path_in_the_wrapper(self) -> None:
        ignoring = Contract.from_schema(VOLCANO, many=True, fences="strict", extra="ignore")
        outcome = read(f'{{"items": [{ETNA}, 5], "total": 2}}', ignoring)
        assert [issue.path for issue in outcome.issues] == ["/items/1"]


@pytest.mark.parametrize(
    "unit", ["```json\n", "```json\n```\n", "```json\n{} ```\n", "``` ", '```json {"a": ']
)
def test_any_number_of_blocks_is_read_in_linear_time(unit: str) -> None:
    assert is_linear(lambda size: read(unit * size, ONE), 1_000)
