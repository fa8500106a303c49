"""A workflow of the schema language: what it asks, what it reads, what it gives back (seed 5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import Script, why
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.doors.schema_language import (
    DSL_TYPE_MAP,
    EscalationEvent,
    EscalationSpec,
    JSONParseError,
    SchemaValidationError,
    Workflow,
)
from trustgraph_prompt.errors import (
    ConfigError,
    LanguageError,
    PromptError,
    ProviderAuthentication,
    ProviderUnavailable,
    Reason,
    RenderError,
    RequestError,
    StructuredOutputInvalid,
)
from trustgraph_prompt.llm import RetryPolicy, ScriptedAnswer

TEXT = '''
schema Finding:
    line: int
    kind: "bug" | "smell" = "bug"
    note: string?

schema Review:
    approved: bool
    severity: string
    confidence: float?
    findings: Finding[]?

prompt say: """
Say {{ what }}.
"""

prompt doubt: """
Can you?
"""
    escalate if ~ "I CANNOT"

prompt review_code expecting Review: """
Review this: {{ code }}
"""

prompt find using model "gemma" expecting Finding[]: """
Find what is wrong.
"""

prompt patient expecting Review:
    attempts: 5
    text: "Review it."

prompt lines expecting Finding[] as jsonl: "Find, line by line."

prompt number expecting int: "How many?"
'''

REVIEW = {"approved": True, "severity": "low"}
WHOLE = {**REVIEW, "confidence": None, "findings": None}


def answers(*texts: str) -> Script:
    return Script(*map(ScriptedAnswer, texts))


def told(script: Script, call: int = 0) -> list[tuple[str, str]]:
    """Who said what in a call."""
    return [(message.role, message.text) for message in script.calls[call].messages]


async def asked(script: Script, name: str = "review_code", **terms: Any) -> Any:
    return await Workflow.load(TEXT, script).call_llm(name, {"code": "x"}, **terms)


class TestTheQuestion:
    async def test_question_ends_with_the_schema_as_the_seed_words_it(self) -> None:
        script = answers(json.dumps(REVIEW))
        await asked(script, code="a = 1")

        ((role, text),) = told(script)
        question, _, rest = text.partition("\n\n")
        before, schema, after = rest.split("```")
        assert (role, question) == ("user", "Review this: a = 1")
        assert before == "IMPORTANT: You MUST respond with valid JSON that matches this schema:\n"
        assert json.loads(schema.removeprefix("json\n"))["required"] == ["approved", "severity"]
        assert schema.startswith('json\n{\n  "')
        assert after == "\n\nDo NOT include any text outside the JSON object."

    async def test_question_for_a_list_shows_the_schema_of_an_element(self) -> None:
        script = answers("[]")
        await asked(script, "find")

        ((_, text),) = told(script)
        assert (
            "IMPORTANT: You MUST respond with a JSON array of objects, where each element matches this "
            "schema:\n```json\n{" in text
        )
        assert text.endswith("Do NOT include any text outside the JSON array.")
        schema = json.loads(text.split("```")[1].removeprefix("json\n"))
        assert schema["properties"].keys() == {"line", "kind", "note"}

    async def test_generated_titles_are_not_in_the_schema_of_the_question(self) -> None:
        script = answers(json.dumps(REVIEW))
        await asked(script)
        schema = json.loads(told(script)[0][1].split("```")[1].removeprefix("json\n"))
        assert "title" not in json.dumps(schema["properties"])

    async def test_question_for_a_text_has_no_schema(self) -> None:
        script = answers("Boo.")
        assert await asked(script, "say", what="boo") == "Boo."
        assert told(script) == [("user", "Say boo.")]

    async def test_missing_term_is_an_error_before_any_call(self) -> None:
        script = answers("Boo.")
        with pytest.raises(RequestError, match="needs the term what"):
            await asked(script, "say")
        assert script.calls == []

    async def test_model_named_by_the_prompt_is_asked(self) -> None:
        script = answers("[]")
        await asked(script, "find")
        assert script.calls[0].config.model == "gemma"

    async def test_each_model_may_have_a_provider_of_its_own(self) -> None:
        main, gemma = answers(json.dumps(REVIEW)), answers("[]")
        workflow = Workflow.load(TEXT, {"main": main, "gemma": gemma})
        assert await workflow.call_llm("find") == []
        assert await workflow.call_llm("review_code", code="x") == WHOLE
        assert (len(main.calls), len(gemma.calls), gemma.calls[0].config.model) == (1, 1, None)

    def test_model_without_a_provider_is_an_error_when_the_text_is_loaded(self) -> None:
        with pytest.raises(PromptError, match="prompt find: unknown model"):
            Workflow.load(TEXT, {"main": answers()})

    async def test_system_message_of_the_text_goes_first(self) -> None:
        script = answers("Boo.")
        await Workflow.load(f'system: "Be exact."\n{TEXT}', script).call_llm("say", what="boo")
        assert told(script)[0] == ("system", "Be exact.")


class TestTheValue:
    @pytest.mark.parametrize(
        "text",
        [
            json.dumps(REVIEW),
            f"```json\n{json.dumps(REVIEW)}\n```",
            f"  ```\n{json.dumps(REVIEW)}\n  ```",
            f"Here it is:\n````json\n{json.dumps(REVIEW)}\n````\nBye.",
            f"```json\n{json.dumps(REVIEW)}",
            f"Here it is: {json.dumps(REVIEW)}",
            json.dumps({**REVIEW, "more": 1}),
            '{"approved": "true", "severity": "low"}',
        ],
    )
    async def test_value_in_any_readable_form_takes_one_call(self, text: str) -> None:
        script = answers(text)
        assert await asked(script) == WHOLE
        assert len(script.calls) == 1

    async def test_defaults_are_filled_in_at_every_depth_in_the_order_of_the_schema(self) -> None:
        value = await asked(answers('{"findings": [{"line": "7"}], "severity": "low", "approved": false}'))
        assert list(value) == ["approved", "severity", "confidence", "findings"]
        assert value["findings"] == [{"line": 7, "kind": "bug", "note": None}]

    async def test_defaults_are_filled_in_within_defaults(self) -> None:
        text = (
            "schema B:\n    n: int = 1\n    m: string?\n"
            'schema A:\n    b: B = {}\n    more: map[B[]] = {x: [{n: 2}]}\nprompt p expecting A: "?"\n'
        )
        assert await Workflow.load(text, answers("{}")).call_llm("p") == {
            "b": {"n": 1, "m": None},
            "more": {"x": [{"n": 2, "m": None}]},
        }

    async def test_filled_in_default_is_not_shared_between_values(self) -> None:
        workflow = Workflow.load('schema A:\n    a: int[] = []\nprompt p expecting A: "?"\n', answers("{}"))
        first = await workflow.call_llm("p")
        first["a"].append(1)
        assert await workflow.call_llm("p") == {"a": []}

    async def test_list_comes_as_a_list_and_a_scalar_as_it_is(self) -> None:
        assert await asked(answers('[{"line": 1}, {"line": 2, "kind": "smell"}]'), "find") == [
            {"line": 1, "kind": "bug", "note": None},
            {"line": 2, "kind": "smell", "note": None},
        ]
        assert await asked(answers("7"), "number") == 7

    async def test_lines_come_as_a_list_of_the_accepted_ones(self) -> None:
        script = answers('{"line": 1}\n{"line": null}', '{"line": null}')
        assert await asked(script, "lines") == [{"line": 1, "kind": "bug", "note": None}]

    async def test_string_that_looks_like_json_stays_one(self) -> None:
        text = 'schema A:\n    a: string\nprompt p expecting A: "?"\n'
        workflow = Workflow.load(text, answers('{"a": "[1, 2]"}'))
        assert await workflow.call_llm("p") == {"a": "[1, 2]"}

    async def test_defaults_of_a_union_are_those_of_the_matching_schema(self) -> None:
        text = """
schema A:
    kind: "a"
    n: int = 1
schema B:
    kind: "b"
    of: map[A]
    next: (A | B)?
prompt p expecting (A | B)[]: "?"
"""
        workflow = Workflow.load(
            text, answers('[{"kind": "b", "of": {"x": {"kind": "a"}}, "next": {"kind": "a"}}, {"kind": "a"}]')
        )
        a = {"kind": "a", "n": 1}
        assert await workflow.call_llm("p") == [{"kind": "b", "of": {"x": a}, "next": a}, a]

    async def test_types_added_by_an_author_work_in_contract_and_model(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DSL_TYPE_MAP, "count", int)
        text = 'schema A:\n    n: count\n    even: even\nprompt p expecting A[]: "?"\n'
        even = {"type": "integer", "multipleOf": 2}
        workflow = Workflow.load(text, answers('[{"n": 1, "even": 2}]'), types={"even": even})
        assert await workflow.call_llm("p") == [{"n": 1, "even": 2}]
        assert workflow.schemas["A"](n="3", even=4).model_dump() == {"n": 3, "even": 4}
        with pytest.raises(SchemaValidationError, match="/0/even"):
            await Workflow.load(text, answers('[{"n": 1, "even": 3}]'), types={"even": even}).call_llm("p")


class TestAskingAgain:
    async def test_correction_is_worded_and_ordered_as_in_the_seed(self) -> None:
        script = answers('{"approved": true}', json.dumps(REVIEW))
        assert await asked(script) == WHOLE

        question, answer, feedback = told(script, 1)
        assert question == told(script)[0]
        assert answer == ("assistant", '{"approved": true}')
        role, text = feedback
        assert role == "user"
        assert text.startswith("Error: Schema validation failed for 'Review': ")
        assert "severity" in text
        assert text.endswith("\n\nPlease fix the JSON and try again.")
        assert text.count("Schema validation failed") == 1

    async def test_correction_of_an_answer_without_json_says_so(self) -> None:
        script = answers("I will think about it.", json.dumps(REVIEW))
        await asked(script)
        assert told(script, 1)[2][1].startswith("Error: Failed to parse JSON from response: ")

    async def test_outcome_lists_every_call(self) -> None:
        outcome = await Workflow.load(TEXT, answers("no", json.dumps(REVIEW))).ask("review_code", code="x")
        assert (outcome.value, why(outcome)) == (REVIEW, ["first", "invalid"])

    async def test_third_answer_is_the_last(self) -> None:
        script = answers("no", "still no", '{"approved": 2, "severity": 1}')
        with pytest.raises(SchemaValidationError) as raised:
            await asked(script)
        assert len(script.calls) == 3
        assert raised.value.schema_name == "Review"
        assert raised.value.raw_response == '{"approved": 2, "severity": 1}'
        assert raised.value.errors[0].startswith("/approved: ")

    async def test_three_answers_without_json_are_a_schema_validation_error(self) -> None:
        with pytest.raises(SchemaValidationError) as raised:
            await asked(answers("no", "still no", "never"))
        cause = raised.value.__cause__
        assert isinstance(cause, JSONParseError)
        assert (cause.raw_response, raised.value.raw_response) == ("never", "never")
        assert raised.value.errors == [f"Failed to parse JSON from response: {cause.parse_error}"]
        assert raised.value.schema_name == "Review"
        assert raised.value.outcome is cause.outcome is not None
        assert raised.value.issues == cause.issues != ()

    async def test_correction_carries_only_the_last_failed_answer(self) -> None:
        script = answers("no", "still no", "never")
        with pytest.raises(SchemaValidationError):
            await asked(script)
        assert [len(call.messages) for call in script.calls] == [1, 3, 3]
        assert told(script, 2)[1] == ("assistant", "still no")

    async def test_prompt_may_set_its_attempts(self) -> None:
        script = answers("1", "2", "3", "4", json.dumps(REVIEW))
        assert await asked(script, "patient") == WHOLE

    async def test_several_valid_blocks_are_an_error(self) -> None:
        block = f"```json\n{json.dumps(REVIEW)}\n```"
        script = answers(f"{block}\nor\n{block.replace('low', 'high')}", "no", "no")
        with pytest.raises(SchemaValidationError) as raised:
            await asked(script)
        assert raised.value.raw_response == "no"
        assert "Error: Failed to parse JSON from response: " in told(script, 1)[2][1]

    @pytest.mark.parametrize("text", ['{"line": 1}', '{"items": 1}', "null"])
    async def test_list_is_asked_for_again_until_one_comes(self, text: str) -> None:
        script = answers(text, "[]")
        assert await asked(script, "find") == []
        assert "'Finding[]'" in told(script, 1)[2][1]

    async def test_invalid_element_fails_the_list_and_is_named(self) -> None:
        script = answers('[{"line": 1}, {"line": "x"}, {"line": 3, "kind": "nit"}]')
        with pytest.raises(SchemaValidationError) as raised:
            await asked(script, "find")
        assert raised.value.schema_name == "Finding[]"
        assert [error.split(":")[0] for error in raised.value.errors] == ["/1/line", "/2/kind"]
        assert str(raised.value).startswith("Schema validation failed for 'Finding[]': /1/line: ")
        assert raised.value.outcome is not None
        assert raised.value.category == "structured_output_invalid"


class TestFailures:
    @pytest.mark.parametrize("before", [(), ("no",)])
    async def test_provider_error_is_raised_as_it_is(self, before: tuple[str, ...]) -> None:
        failing = ScriptedAnswer(error=ProviderAuthentication("bad key"))
        script = Script(*map(ScriptedAnswer, before), failing)
        with pytest.raises(ProviderAuthentication, match="bad key"):
            await asked(script)

    async def test_unavailable_provider_is_not_a_schema_validation_error(self) -> None:
        script = Script(ScriptedAnswer("no"), ScriptedAnswer(error=ProviderUnavailable("away")))
        workflow = Workflow.load(TEXT, script, retry=RetryPolicy(max_attempts=1))
        with pytest.raises(ProviderUnavailable):
            await workflow.call_llm("review_code", code="x")

    async def test_spent_seconds_are_named_in_the_error(self) -> None:
        workflow = Workflow.load(TEXT, answers("no"), budget=Budget(seconds=0))
        with pytest.raises(StructuredOutputInvalid, match="seconds of the budget"):
            await workflow.call_llm("review_code", code="x")

    async def test_spent_money_is_named_in_the_error(self) -> None:
        workflow = Workflow.load(
            TEXT, answers("no"), budget=Budget(money=1e-9), price=Price(prompt=1, completion=1)
        )
        with pytest.raises(StructuredOutputInvalid, match="in money are spent"):
            await workflow.call_llm("review_code", code="x")

    async def test_refusal_of_the_model_is_a_schema_validation_error(self) -> None:
        script = Script(ScriptedAnswer("I will not.", finish_reason="content_filter"))
        with pytest.raises(SchemaValidationError) as raised:
            await asked(script)
        assert raised.value.raw_response == "I will not."
        assert raised.value.outcome is not None
        assert raised.value.outcome.reason is Reason.REFUSED

    async def test_unknown_prompt_is_an_error_with_a_hint(self) -> None:
        with pytest.raises(PromptError, match="unknown prompt, did you mean 'review_code'"):
            await asked(answers(), "review_coed")


class TestEscalation:
    async def test_escalation_handler_gives_the_result(self) -> None:
        events: list[EscalationEvent] = []

        def decide(event: EscalationEvent) -> str:
            events.append(event)
            return "a person will"

        workflow = Workflow.load(TEXT, answers("I cannot."), on_escalation=decide)
        assert await workflow.call_llm("doubt") == "a person will"
        (event,) = events
        assert (event.prompt_name, event.why, event.result) == ("doubt", "condition", "I cannot.")
        assert (event.condition, event.error) == (EscalationSpec("~", "I CANNOT"), None)

    async def test_escalation_handler_may_be_asynchronous(self) -> None:
        async def decide(event: EscalationEvent) -> Any:
            return {"escalated": event.why}

        workflow = Workflow.load(TEXT, answers("no"), on_escalation=decide)
        assert await workflow.call_llm("review_code", code="x") == {"escalated": "attempts"}

    async def test_spent_attempts_are_escalated_with_the_error_that_would_be_raised(self) -> None:
        events: list[EscalationEvent] = []
        workflow = Workflow.load(TEXT, answers('{"approved": 3}'), on_escalation=events.append)
        assert await workflow.call_llm("review_code", code="x") is None
        (event,) = events
        assert isinstance(event.error, SchemaValidationError)
        assert (event.result, event.condition) == ('{"approved": 3}', None)
        assert len(event.outcome.calls) == 3

    async def test_error_of_the_escalation_handler_is_raised(self) -> None:
        def decide(event: EscalationEvent) -> None:
            raise event.error or AssertionError

        workflow = Workflow.load(TEXT, answers("no"), on_escalation=decide)
        with pytest.raises(SchemaValidationError):
            await workflow.call_llm("review_code", code="x")

    async def test_escalated_text_without_a_handler_is_returned(self) -> None:
        assert await asked(answers("I cannot."), "doubt") == "I cannot."

    async def test_escalation_handler_is_not_called_for_other_answers(self) -> None:
        workflow = Workflow.load(TEXT, answers("I can."), on_escalation=lambda event: "no")
        assert await workflow.call_llm("doubt") == "I can."

    async def test_provider_error_is_not_escalated(self) -> None:
        script = Script(ScriptedAnswer(error=ProviderAuthentication("bad key")))
        workflow = Workflow.load(TEXT, script, on_escalation=lambda event: "no")
        with pytest.raises(ProviderAuthentication):
            await workflow.call_llm("review_code", code="x")


class TestLoading:
    def test_loaded_prompts_are_specs_by_name(self) -> None:
        prompts = Workflow.load(TEXT, answers()).prompts
        find = prompts["find"]
        assert (find.model, find.schema, find.escalation) == ("gemma", "Finding[]", None)
        assert find.body({}) == "Find what is wrong."
        assert prompts["doubt"].escalation == EscalationSpec("~", "I CANNOT")
        assert prompts["say"].schema is None

    async def test_prompt_declared_in_several_places_is_one(self) -> None:
        text = (
            "prompt p using model 'gemma' expecting int\n\nprompt p: '''\n  How many {{ x }}?\n'''\n"
            "    escalate if ~ 'NONE'\n"
        )
        spec = Workflow.load(text, answers()).prompts["p"]
        assert (spec.model, spec.schema, spec.escalation) == ("gemma", "int", EscalationSpec("~", "NONE"))
        assert spec.body({"x": "volcanoes"}) == "How many volcanoes?"

    async def test_field_that_may_be_missing_and_not_null_is_not_filled_in(self) -> None:
        text = 'schema A:\n    a?: int\n    b: (int? "One.")[]?\n    c: int?\nprompt p expecting A: "?"\n'
        assert await Workflow.load(text, answers('{"b": [null]}')).call_llm("p") == {"b": [None], "c": None}
        assert await Workflow.load(text, answers('{"a": 1}')).call_llm("p") == {"a": 1, "b": None, "c": None}

    async def test_prompt_is_found_by_its_aliases(self) -> None:
        text = 'prompt p:\n    aliases: [q]\n    text: "?"\n'
        assert await Workflow.load(text, answers("!")).call_llm("q") == "!"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('prompt p expecting Reviw: "?"', "Reviw"),
            (
                'prompt q: "?"\nprompt p:\n    aliases: [q]\n    text: "?"',
                "two prompts have the name or alias q",
            ),
            ('schema A:\n    a: strng\nprompt p expecting A: "?"', "strng"),
            (
                'schema A:\n    a: date = "1.5."\nprompt p: "?"',
                "a.prompt:2:15: the default is not",
            ),
            ('schema A:\n    a: string\nprompt p expecting A[]:\n    attemps: 2\n    text: "?"', "attemps"),
            ('schema A:\n    a: string\nprompt p expecting A:\n    attempts: 0\n    text: "?"', "attempts"),
            ('schema A:\n    a: string\nprompt p:\n    text: "{{ a.b() }}"', "prompt"),
            (
                'schema A:\n    a: string\nprompt p expecting A:\n    schema: {}\n    text: "?"',
                "is not a clause of a prompt file",
            ),
        ],
    )
    def test_error_in_the_text_names_what_is_wrong(self, text: str, said: str) -> None:
        with pytest.raises(ConfigError) as raised:
            Workflow.load(text, answers(), where="a.prompt")
        assert said in str(raised.value)

    def test_unknown_key_is_an_error_with_its_line(self) -> None:
        text = 'prompt p:\n    attemps: 2\n    text: "?"\n'
        with pytest.raises(ConfigError) as raised:
            Workflow.load(text, answers(), where="a.prompt")
        assert raised.value.where == "a.prompt:2:14"
        with pytest.raises(ConfigError) as raised:
            Workflow.load(text, answers())
        assert raised.value.where == "line 2, column 14"

    @pytest.mark.parametrize(
        "text",
        [
            'schema A:\n    a: string\nprompt p expecting A: "it\'s"\n    escalate if == "it\'s"\n',
            "schema A:\n    class: string\n    object-entity: string\n    _a: int\n",
            "schema A:\n    next: B?\nschema B:\n    a: A[]",
        ],
    )
    def test_quotes_keywords_and_forward_references_can_be_loaded(self, text: str) -> None:
        workflow = Workflow.load(text, answers())
        assert "A" in workflow.schemas
        assert workflow.schemas["A"].model_json_schema()

    async def test_keys_that_are_no_identifiers_are_read_and_returned(self) -> None:
        text = (
            'schema A:\n    object-entity: string\n    class: int\n    _a: int\nprompt p expecting A: "?"\n'
        )
        value = {"object-entity": "x", "class": 1, "_a": 2}
        assert await Workflow.load(text, answers(json.dumps(value))).call_llm("p") == value


class TestHostility:
    def test_text_that_never_ends_is_refused_at_once(self) -> None:
        with pytest.raises(LanguageError, match="the text is too large"):
            Workflow.load("# nothing\n" * 1_000_000, answers())

    @pytest.mark.parametrize(
        "text",
        [
            "schema A:\n    a: A = {}\n",
            "schema A:\n    b: B? = {}\nschema B:\n    a: map[A[]] = {x: [{}]}\n",
            "".join(f"schema S{n}:\n    a: S{n + 1} = {{}}\n    b: S{n + 1} = {{}}\n" for n in range(99))
            + "schema S99:\n    a: int = 1\n",
        ],
    )
    def test_defaults_that_contain_each_other_are_refused(self, text: str) -> None:
        with pytest.raises(LanguageError, match="never end"):
            Workflow.load(text, answers())

    def test_hundreds_of_prompts_can_be_loaded(self) -> None:
        text = "schema A:\n    a: int\n" + "".join(f'prompt p{n} expecting A[]: "?"\n' for n in range(300))
        assert len(Workflow.load(text, answers()).prompts) == 300

    async def test_terms_that_are_no_json_are_refused_before_any_call(self) -> None:
        script = answers(json.dumps(REVIEW))
        with pytest.raises(RenderError):
            await asked(script, code=object())
        assert script.calls == []

    async def test_braces_in_terms_and_schemas_are_kept_literally(self) -> None:
        text = 'schema A:\n    "{{ code }} {schema} %s"\n    a: string\nprompt p expecting A: "{{ code }}"\n'
        script = answers('{"a": "{{ code }} {0}"}')
        value = await Workflow.load(text, script).call_llm("p", code="{{ 1 }} {schema} {error}")
        assert value == {"a": "{{ code }} {0}"}
        assert told(script)[0][1].startswith("{{ 1 }} {schema} {error}\n\nIMPORTANT")
        assert '"description": "{{ code }} {schema} %s"' in told(script)[0][1]

    async def test_value_nested_as_deep_as_allowed_is_filled_in(self) -> None:
        text = 'schema A:\n    next: (A | int)?\n    n: int = 0\nprompt p expecting A: "?"\n'
        value = await Workflow.load(text, answers('{"next": ' * 190 + "1" + "}" * 190)).call_llm("p")
        for _ in range(190):
            assert value["n"] == 0
            value = value["next"]
        assert value == 1

    async def test_value_nested_too_deep_is_a_schema_validation_error(self) -> None:
        text = 'schema A:\n    next: A?\nprompt p expecting A: "?"\n'
        with pytest.raises(SchemaValidationError, match="nested too deep"):
            await Workflow.load(text, answers('{"next": ' * 5_000 + "null" + "}" * 5_000)).call_llm("p")

    async def test_long_list_is_read_and_filled_in(self) -> None:
        value = await asked(answers(json.dumps([{"line": n} for n in range(20_000)])), "find")
        assert value[-1] == {"line": 19_999, "kind": "bug", "note": None}

    async def test_error_that_quotes_the_model_is_short(self) -> None:
        script = answers(json.dumps({"approved": "x" * 100_000, "severity": ["y" * 100_000]}))
        with pytest.raises(SchemaValidationError) as raised:
            await asked(script)
        assert len(str(raised.value)) < 2_000
        assert len(told(script, 1)[2][1]) < 2_000


async def test_prompt_may_have_the_model_repair_its_answers() -> None:
    text = 'prompt p expecting int[]:\n    repair-by-model: true\n    text: "A long passage."\n'
    script = answers("It is three.", "[3]")
    assert await Workflow.load(text, script).call_llm("p") == [3]
    ((_, shown),) = told(script, 1)
    assert "It is three." in shown
    assert "A long passage." not in shown


async def test_example_is_shown_before_the_question() -> None:
    source = (
        'system: "Find rivers."\n'
        "schema River:\n    name: string\n"
        'prompt rivers expecting River[] as jsonl: "{{ text }}"\n'
        '    example "one":\n        show: true\n'
        '        terms: {text: "The Elbe."}\n        reads: [{name: "Elbe"}]\n'
    )
    script = Script(ScriptedAnswer('{"name": "Elbe"}\n{"name": "Rhine"}'))
    assert await Workflow.load(source, script).call_llm("rivers", text="The Rhine.") == [{"name": "Rhine"}]
    said = [message.text for message in script.calls[0].messages]
    assert said[:3] == ["Find rivers.", "The Elbe.", '{"name": "Elbe"}']
    assert said[3].startswith("The Rhine.\n\n")
