"""Answers of one value that were cut: continued, given more room, asked for again, or kept as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import OBJECT, Asked, Script, cut, lines, numbers, why
from trustgraph_prompt import errors
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, RuntimeConfig, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.reader import Stage

LIST = {"schema": {"type": "object", "required": ["n"]}}
WHOLE = '{"n": 1, "of": [1, 2, 3], "text": "one, two"}'


def pieces(text: str, *cuts: int) -> list[ScriptedAnswer]:
    """A text cut where it is said, each piece but the last for its length."""
    ends = [*cuts, len(text)]
    said = [text[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    return [*map(cut, said[:-1]), ScriptedAnswer(said[-1])]


class TestEnded:
    """One value has no more to come: white space up to the limit is no cut."""

    @pytest.mark.parametrize("space", [" ", " " * 500, "\n\n", "\n```\n"])
    @pytest.mark.parametrize("repair", [True, False])
    async def test_whole_value_followed_by_white_space_is_not_cut(
        self, asked: Asked, space: str, repair: bool
    ) -> None:
        script = Script(cut(WHOLE + space), prefill=True)
        outcome = await asked(
            script,
            format="json",
            contract=LIST,
            attempts=3,
            repair=repair,
            config=RuntimeConfig(max_tokens=5),
        )

        assert (outcome.value, outcome.truncated, outcome.issues) == (json.loads(WHOLE), False, ())
        assert why(outcome) == ["first"]

    @pytest.mark.parametrize("text", ['{"n": "one"}', '{"n": 1,,}', '"none"', "[1, 2]"])
    async def test_invalid_value_followed_by_white_space_is_asked_for_again(
        self, asked: Asked, text: str
    ) -> None:
        script = Script(cut(text + " " * 500), ScriptedAnswer('{"n": 1}'))
        outcome = await asked(script, format="json", attempts=2, config=RuntimeConfig(max_tokens=5))

        assert (outcome.value, outcome.truncated) == ({"n": 1}, False)
        assert why(outcome) == ["first", "invalid"]

    async def test_prose_behind_a_value_that_is_cut_costs_no_other_call(self, asked: Asked) -> None:
        script = Script(cut(WHOLE + "\n\nOr is it"), prefill=True)
        outcome = await asked(script, format="json", contract=LIST, attempts=3)

        assert (outcome.value, outcome.truncated) == (json.loads(WHOLE), True)
        assert why(outcome) == ["first"]

    async def test_many_objects_followed_by_white_space_are_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([1]) + "\n"), ScriptedAnswer("[]")))

        assert why(outcome) == ["first", "continue"]


class TestGoingOn:
    @pytest.mark.parametrize("cuts", [[3], [12], [20, 30], [38], [1, 2, 3, 4, 5, 6]])
    async def test_cut_value_is_continued_from_where_it_was_cut(self, asked: Asked, cuts: list[int]) -> None:
        script = Script(*pieces(WHOLE, *cuts), prefill=True)
        outcome = await asked(script, format="json", contract=LIST)

        assert outcome.value == json.loads(WHOLE)
        assert asked.given == [outcome.value]
        assert (outcome.truncated, outcome.stage, outcome.issues) == (False, Stage.DIRECT, ())
        assert why(outcome) == ["first", *["continue"] * len(cuts)]
        assert script.calls[-1].messages[-1].role == "assistant"
        assert script.calls[-1].messages[-1].content == WHOLE[: cuts[-1]]
        assert outcome.text == WHOLE

    async def test_value_cut_by_a_broken_connection_is_continued_too(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        script = Script(ScriptedAnswer('{"n": ', error=gone), ScriptedAnswer("1}"), prefill=True)
        outcome = await asked(script, format="json")

        assert (outcome.value, outcome.truncated, outcome.cause) == ({"n": 1}, False, None)

    async def test_value_that_has_visibly_no_end_is_continued_without_a_finish_reason(
        self, asked: Asked
    ) -> None:
        script = Script(ScriptedAnswer('{"n": 1, "x": [2,'), ScriptedAnswer(" 3]}"), prefill=True)
        outcome = await asked(script, format="json")

        assert outcome.value == {"n": 1, "x": [2, 3]}
        assert why(outcome) == ["first", "continue"]

    async def test_transient_failure_while_continuing_a_value_is_waited_for(self, asked: Asked) -> None:
        busy = ScriptedAnswer(error=errors.ProviderRateLimit("slow down"))
        outcome = await asked(Script(cut('{"n": '), busy, ScriptedAnswer("1}"), prefill=True), format="json")

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "continue", "transient"]
        assert outcome.text == '{"n": 1}'

    async def test_whole_value_followed_by_cut_prose_is_not_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": 1}\nWhich means that'), prefill=True), format="json")

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first"]

    async def test_number_at_the_end_of_a_cut_answer_is_continued(self, asked: Asked) -> None:
        script = Script(cut("12"), ScriptedAnswer("34"), prefill=True)
        outcome = await asked(script, format="json", contract={"schema": {"type": "integer"}})

        assert outcome.value == 1234

    async def test_empty_continuation_of_a_value_ends_the_request(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": '), cut(""), prefill=True), format="json")

        assert (outcome.reason, outcome.truncated) == (Reason.TRUNCATED, True)
        assert why(outcome) == ["first", "continue"]
        assert "nothing new" in outcome.explain()

    async def test_value_is_continued_at_most_50_times(self, asked: Asked) -> None:
        parts = [cut('{"n": 1, "text": "'), *(cut(f"{n} words, ") for n in range(100))]
        outcome = await asked(Script(*parts, prefill=True), format="json", attempts=3)

        assert len(outcome.calls) == 51
        assert "50 continuations" in outcome.explain()

    async def test_continuation_of_a_value_ends_with_the_budget(self, asked: Asked) -> None:
        parts = [cut(f'{{"n": "{n}', usage=Usage(50, 50, 100)) for n in range(9)]
        outcome = await asked(Script(*parts, prefill=True), format="json", budget=Budget(tokens=205))

        assert len(outcome.calls) == 2
        assert [issue.reason for issue in outcome.issues] == [Reason.TRUNCATED, Reason.BUDGET_SPENT]

    async def test_answer_cut_within_its_first_object_is_continued_from_there(self, asked: Asked) -> None:
        script = Script(
            cut('{"n": 1, "text": "lo'), cut('ng"}\n{"n": 2}\n{"n'), ScriptedAnswer(lines([3])), prefill=True
        )
        outcome = await asked(script)

        assert outcome.value == [{"n": 1, "text": "long"}, {"n": 2}, {"n": 3}]
        assert asked.given == outcome.value
        assert why(outcome) == ["first", "continue", "continue"]
        assert "2 objects" in script.calls[2].messages[-1].text

    async def test_many_objects_are_not_sent_back_though_the_server_continues_answers(
        self, asked: Asked
    ) -> None:
        script = Script(cut(lines(range(50))), ScriptedAnswer(lines([50])), prefill=True)
        outcome = await asked(script)

        assert outcome.value == numbers(range(51))
        assert script.calls[1].messages[-1].role == "user"


class TestHalfEscapes:
    TEXT = r'{"n": 1, "a": "\u00e9 \\ \" \ud83d\ude00 \\u00e9 \\\n"}'

    @pytest.mark.parametrize("at", range(1, len(TEXT)))
    async def test_value_is_continued_from_before_a_cut_escape(self, asked: Asked, at: int) -> None:
        def grammar(call: Call) -> Any:
            begun = call.messages[-1].text if call.messages[-1].role == "assistant" else ""
            if not begun:
                return cut(self.TEXT[:at])
            # a beginning within an escape would make the model write a new one
            if '"a": "' in begun:
                json.loads(begun + ("}" if len(begun) == len(self.TEXT) - 1 else '"}'))
            return ScriptedAnswer(self.TEXT[len(begun) :])

        outcome = await asked(ScriptedProvider(grammar, prefill=True), format="json")

        assert outcome.value == json.loads(self.TEXT)
        assert outcome.text == self.TEXT

    async def test_continuations_that_all_end_in_the_same_cut_escape_end_the_request(
        self, asked: Asked
    ) -> None:
        script = Script(cut('{"n": 1, "a": "'), *[cut(r"\u00")] * 60, prefill=True)
        outcome = await asked(script, format="json")

        assert why(outcome) == ["first", "continue"]
        assert "nothing new" in outcome.explain()

    async def test_backslash_at_the_end_of_a_text_is_no_escape(self, asked: Asked) -> None:
        script = Script(cut("C:\\"), ScriptedAnswer("temp"), prefill=True)
        outcome = await asked(script, format="text")

        assert outcome.value == outcome.text == "C:\\temp"


class TestWordsBeforeTheFirstValue:
    async def test_words_before_the_first_value_are_continued_once(self, asked: Asked) -> None:
        script = Script(cut("Here are "), ScriptedAnswer("they:\n" + lines([1])), prefill=True)

        assert (await asked(script)).value == numbers([1])

    @pytest.mark.parametrize("format", ["json", "jsonl"])
    async def test_words_that_never_come_to_a_value_are_continued_once(
        self, asked: Asked, format: str
    ) -> None:
        script = Script(*(cut(f"Thought {n}. ") for n in range(60)), prefill=True)
        outcome = await asked(script, format=format)

        assert why(outcome) == ["first", "continue"]
        assert (outcome.ok, outcome.truncated) == (False, True)
        assert "nothing new" in outcome.explain()

    async def test_value_without_brackets_is_continued_too(self, asked: Asked) -> None:
        script = Script(cut('"Once'), cut(" upon"), ScriptedAnswer(' a time"'), prefill=True)
        outcome = await asked(script, format="json", contract={"schema": {"type": "string"}})

        assert outcome.value == "Once upon a time"


class TestTexts:
    async def test_cut_text_is_continued_where_the_server_can(self, asked: Asked) -> None:
        script = Script(cut("Once upon "), ScriptedAnswer("a time."), prefill=True)
        outcome = await asked(script, format="text")

        assert (outcome.value, outcome.truncated) == ("Once upon a time.", False)
        assert "".join(piece.text for piece in asked.pieces) == outcome.value

    async def test_text_as_long_as_the_prompt_allows_is_not_continued(self, asked: Asked) -> None:
        script = Script(cut("Once upon", usage=Usage(9, 20, 29)), prefill=True)
        outcome = await asked(script, format="text", config=RuntimeConfig(max_tokens=20))

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert why(outcome) == ["first"]


class TestRoom:
    CONFIG = RuntimeConfig(max_tokens=100)

    @staticmethod
    def full(text: str, tokens: int = 100, **more: Any) -> ScriptedAnswer:
        return cut(text, usage=Usage(10, tokens, 10 + tokens), **more)

    async def test_value_that_filled_its_room_is_asked_for_with_twice_the_room(self, asked: Asked) -> None:
        script = Script(
            self.full('{"n": 1, "x": "a'), self.full('{"n": 1, "x": "abc', 200), ScriptedAnswer('{"n": 1}')
        )
        outcome = await asked(script, format="json", config=self.CONFIG)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "room", "room"]
        assert [call.config.max_tokens for call in script.calls] == [100, 200, 400]
        assert script.calls[1].messages == script.calls[0].messages

    async def test_room_is_doubled_twice_at_most(self, asked: Asked) -> None:
        outcome = await asked(
            Script(*(self.full('{"n": 1, "x": "a', n) for n in (100, 200, 400))),
            format="json",
            config=self.CONFIG,
        )

        assert why(outcome) == ["first", "room", "room"]
        assert (outcome.reason, outcome.truncated) == (Reason.TRUNCATED, True)

    async def test_more_room_takes_no_attempt_and_stays_for_the_next(self, asked: Asked) -> None:
        script = Script(
            self.full('{"n": 1, "x": "a'), ScriptedAnswer('{"n": "one"}'), ScriptedAnswer('{"n": 1}')
        )
        outcome = await asked(script, format="json", config=self.CONFIG, attempts=2)

        assert outcome.ok
        assert why(outcome) == ["first", "room", "invalid"]
        assert script.calls[2].config.max_tokens == 200

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    async def test_limit_among_the_extras_is_raised_there(self, asked: Asked, name: str) -> None:
        script = Script(self.full('{"n": '), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", config=RuntimeConfig(extras={name: 50}))

        config = script.calls[1].config
        assert (config.max_tokens, config.extras[name]) == (None, 100)

    @pytest.mark.parametrize("format", ["json", "jsonl", "text"])
    async def test_cut_answer_of_thinking_alone_is_given_more_room(self, asked: Asked, format: str) -> None:
        good = {"json": '{"n": 1}', "jsonl": lines([1]), "text": "One."}[format]
        script = Script(self.full("", thinking="hmm " * 50), ScriptedAnswer(good))
        outcome = await asked(script, format=format, config=self.CONFIG)

        assert outcome.ok
        assert why(outcome) == ["first", "room"]

    @pytest.mark.parametrize(
        ("config", "budget"),
        [
            (RuntimeConfig(), Budget()),
            (RuntimeConfig(max_tokens=100), Budget(tokens=90)),
            (RuntimeConfig(max_tokens=100), Budget(tokens=150)),
        ],
    )
    async def test_value_cut_by_another_limit_than_its_own_is_not_asked_for_again(
        self, asked: Asked, config: RuntimeConfig, budget: Budget
    ) -> None:
        script = Script(self.full('{"n": '))
        outcome = await asked(script, format="json", config=config, budget=budget)

        assert why(outcome) == ["first"]
        assert outcome.truncated is True

    async def test_more_room_is_for_the_answer_from_its_beginning(self, asked: Asked) -> None:
        script = Script(
            self.full('{"n": '), self.full("", thinking="hm"), ScriptedAnswer('{"n": 1}'), prefill=True
        )
        outcome = await asked(script, format="json", config=self.CONFIG)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "continue", "room"]
        assert script.calls[2].messages == script.calls[0].messages
        assert outcome.text == '{"n": 1}'

    async def test_value_cut_by_the_server_before_its_room_was_full_gets_no_more(self, asked: Asked) -> None:
        script = Script(cut('{"n": ', usage=Usage(3900, 196, 4096)))
        outcome = await asked(script, format="json", config=RuntimeConfig(max_tokens=1000))

        assert why(outcome) == ["first"]

    async def test_cut_text_is_not_asked_for_again_with_more_room(self, asked: Asked) -> None:
        outcome = await asked(Script(self.full("Once upon")), format="text", config=self.CONFIG)

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert why(outcome) == ["first"]


class TestTheBestOfWhatCame:
    async def test_salvaged_value_is_kept_where_no_whole_one_comes(self, asked: Asked) -> None:
        script = Script(cut('{"n": 1, "text": "beg'), ScriptedAnswer("I give up."))
        outcome = await asked(script, format="json", repair=True, attempts=2)

        assert outcome.value == {"n": 1, "text": "beg"}
        assert (outcome.stage, outcome.truncated) == (Stage.SALVAGED, True)
        assert asked.given == [outcome.value]
        assert why(outcome) == ["first", "invalid"]

    async def test_whole_value_goes_before_a_salvaged_one(self, asked: Asked) -> None:
        script = Script(cut('{"n": 1, "text": "beg'), ScriptedAnswer('{"n": 1, "text": "beginning"}'))
        outcome = await asked(script, format="json", repair=True, attempts=2)

        assert outcome.value == {"n": 1, "text": "beginning"}
        assert (outcome.stage, outcome.truncated, outcome.repaired) == (Stage.DIRECT, False, ())
        assert asked.given == [outcome.value]

    async def test_longest_of_several_salvaged_values_is_kept(self, asked: Asked) -> None:
        texts = ('{"n": 1, "text": "be', '{"n": 1, "text": "begi', '{"n": 1, "text": "b')
        outcome = await asked(Script(*map(cut, texts)), format="json", repair=True, attempts=3)

        assert outcome.value == {"n": 1, "text": "begi"}

    async def test_salvaged_value_is_kept_where_the_provider_fails(self, asked: Asked) -> None:
        key = errors.ProviderAuthentication("the key has expired")
        script = Script(cut('{"n": 1, "text": "beg'), ScriptedAnswer(error=key))
        outcome = await asked(script, format="json", repair=True, attempts=2)

        assert outcome.value == {"n": 1, "text": "beg"}
        assert isinstance(outcome.cause, errors.ProviderAuthentication)

    async def test_salvaged_value_of_the_only_attempt_takes_one_call(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": 1, "text": "beg')), format="json", repair=True)

        assert (outcome.stage, why(outcome)) == (Stage.SALVAGED, ["first"])

    async def test_correction_says_that_the_value_was_cut(self, asked: Asked) -> None:
        script = Script(cut('{"n": 1, "text": "beg'), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", repair=True, attempts=2)

        assert "ends before it is complete" in script.calls[1].messages[-1].text


class TestNativeSchemas:
    async def test_response_schema_is_sent_to_the_server(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json")

        [call] = script.calls
        assert call.response_schema is not None
        assert call.response_schema["required"] == ["n"]
        assert call.schema_in_words is False

    async def test_response_schema_of_a_list_is_an_object_that_holds_it(self, asked: Asked) -> None:
        element = {"type": "object", "properties": {"of": {"$ref": "#/$defs/of"}}}
        schema = {**element, "$defs": {"of": {"type": "integer"}}}
        script = Script(ScriptedAnswer('{"items": [{"of": 1}]}'))
        outcome = await asked(script, format="json", contract={"schema": schema, "many": True})

        held = script.calls[0].response_schema
        assert held is not None
        assert held["properties"] == {"items": {"type": "array", "items": element}}
        assert held["$defs"] == schema["$defs"]
        assert Contract.from_schema(held).accepts({"items": [{"of": 1}]})
        assert outcome.value == [{"of": 1}]

    @pytest.mark.parametrize(
        ("format", "contract"),
        [
            ("jsonl", {}),
            ("json", {"schema": {"type": "object", "properties": {"n": {"$ref": "#"}}}, "many": True}),
            ("json", {"schema": {"type": "object", "$id": "urn:n", "$defs": {}}, "many": True}),
            ("json", {"schema": {"type": "object", "items": {"$recursiveRef": "#"}}, "many": True}),
            ("text", {}),
            ("json", {"schema": {"type": "array"}}),
            ("json", {"schema": None}),
            ("json", {"versions": {"1.0": {"type": "object"}, "2.0": {"type": "object"}}}),
        ],
    )
    async def test_response_schema_is_not_sent_where_it_would_differ_from_the_contract(
        self, asked: Asked, format: str, contract: dict[str, Any]
    ) -> None:
        script = Script(ScriptedAnswer('{"n": 1}'))
        await asked(script, format=format, contract=contract)

        assert script.calls[0].response_schema is None

    async def test_schema_is_sent_in_words_after_the_server_ignored_it(self, asked: Asked) -> None:
        calls: list[Call] = []

        def model(call: Call) -> list[Delta]:
            calls.append(call)
            return [Delta('{"n": "one"}', schema_path="prompt"), Delta(finish_reason="stop")]

        outcome = await asked(ScriptedProvider(model), format="json", attempts=2)

        assert [call.schema_in_words for call in calls] == [False, True]
        assert outcome.explain().endswith("; the server did not hold the answer to the schema")

    async def test_schema_stays_in_words_when_the_answer_needs_more_room(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer("What?"), cut('{"n": '), ScriptedAnswer('{"n": 1}'))
        outcome = await asked(script, format="json", attempts=2, config=RuntimeConfig(max_tokens=1))

        assert why(outcome) == ["first", "invalid", "room"]
        assert [call.schema_in_words for call in script.calls] == [False, True, True]

    async def test_response_schema_is_sent_with_a_continuation_too(self, asked: Asked) -> None:
        script = Script(cut('{"n": '), ScriptedAnswer("1}"), prefill=True)
        await asked(script, format="json")

        assert [call.response_schema for call in script.calls] == [OBJECT, OBJECT]

    @pytest.mark.parametrize(
        ("path", "text", "stage"),
        [
            ("strict", '{"n": 1}', Stage.NATIVE),
            ("native", '{"n": 1}\n', Stage.NATIVE),
            ("native", '```json\n{"n": 1}\n```', Stage.EXTRACTED),
            ("prompt", '{"n": 1}', Stage.DIRECT),
            (None, '{"n": 1}', Stage.DIRECT),
        ],
    )
    async def test_stage_is_native_only_where_the_server_held_all_text_to_the_schema(
        self, asked: Asked, path: Any, text: str, stage: Stage
    ) -> None:
        provider = ScriptedProvider(lambda call: [Delta(text, schema_path=path), Delta(finish_reason="stop")])
        outcome = await asked(provider, format="json")

        assert outcome.stage is stage
        assert outcome.calls[0].schema_path == path
