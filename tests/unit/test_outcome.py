"""What an outcome says of itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.steps import steps
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderUnavailable, Reason, StructuredOutputInvalid
from trustgraph_prompt.reader import CallReport, Outcome, Stage, read

INTEGERS = Contract.from_schema({"type": "array", "items": {"type": "integer"}})
DEFINITIONS = Contract.from_schema(
    {
        "type": "object",
        "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
        "required": ["entity", "definition"],
    },
    format="jsonl",
)
MIXED = """{"entity": "DNA", "definition": "carries instructions"}
{"entity": "RNA", "definition": 5}
{"entity": "gene"}
{"entity": "cell", "defin"""


def test_unwrap_raises_all_details_of_a_bad_answer() -> None:
    outcome = read('["x"]', INTEGERS, finish_reason="stop")
    with pytest.raises(StructuredOutputInvalid) as caught:
        outcome.unwrap()
    error = caught.value
    assert error.error_message == '/0: expected integer, found string "x"'
    assert (error.output_content, error.finish_reason) == ('["x"]', "stop")
    assert error.response_schema == INTEGERS.schema
    assert error.issues == outcome.issues


def test_unwrap_raises_the_error_of_the_provider() -> None:
    cause = ProviderUnavailable("down")
    outcome = Outcome(None, Reason.PROVIDER_ERROR, INTEGERS, cause=cause)
    with pytest.raises(ProviderUnavailable) as caught:
        outcome.unwrap()
    assert caught.value is cause


def test_explanation_names_the_first_issues_and_counts_the_rest() -> None:
    explanation = read('["a", "b", "c", "d"]', INTEGERS).explain(limit=2)
    assert explanation == (
        '/0: expected integer, found string "a"; /1: expected integer, found string "b"; and 2 more'
    )


def test_explanation_without_issues_is_the_reason() -> None:
    assert Outcome(None, Reason.BUDGET_SPENT, INTEGERS).explain() == "budget spent"


def test_usage_is_the_sum_of_all_calls() -> None:
    calls = (CallReport("first", "", usage=Usage(1, 2, 3)), CallReport("invalid", "", usage=Usage(4, 5, 9)))
    assert Outcome([], Reason.SUCCESS, INTEGERS, calls=calls).usage == Usage(5, 7, 12)


def test_stages_are_ordered_by_what_they_took() -> None:
    assert Stage.NATIVE < Stage.DIRECT < Stage.EXTRACTED < Stage.REPAIRED < Stage.SALVAGED


class TestObjects:
    def test_objects_are_those_of_a_list(self) -> None:
        assert read(MIXED, DEFINITIONS).objects == [{"entity": "DNA", "definition": "carries instructions"}]
        assert read("[1, 2]", Contract.from_schema({"type": "integer"}, many=True)).objects == [1, 2]

    def test_objects_are_the_one_value_even_if_it_is_a_list_or_null(self) -> None:
        assert read("[1, 2]", INTEGERS).objects == [[1, 2]]
        assert read("null", "json").objects == [None]
        assert read("words", "text").objects == ["words"]

    def test_objects_are_empty_where_there_is_no_value(self) -> None:
        assert list(read("no idea", "json").objects) == []
        assert list(read("no idea", "jsonl").objects) == []
        assert list(read('["x"]', Contract.from_schema({"type": "integer"}, many=True)).objects) == []


class TestErrors:
    def test_errors_name_the_object_that_they_are_about(self) -> None:
        errors = read(MIXED, DEFINITIONS).errors()
        assert [(rejected and rejected.index, issue.path) for rejected, issue in errors] == [
            (1, "/definition"),
            (2, ""),
        ]

    def test_errors_about_the_whole_answer_name_no_object(self) -> None:
        [(rejected, issue)] = read("no idea", DEFINITIONS).errors()
        assert (rejected, issue.reason) == (None, Reason.EXTRACTION_FAILED)

    def test_errors_are_all_in_the_exception_of_unwrap(self) -> None:
        with pytest.raises(StructuredOutputInvalid) as caught:
            read('{"entity": "gene"}', DEFINITIONS).unwrap()
        assert [issue.reason for issue in caught.value.issues] == [Reason.SCHEMA_MISSING_FIELD]


class TestExplain:
    def test_explanation_counts_objects_from_one(self) -> None:
        assert read(MIXED, DEFINITIONS).explain() == (
            'object 2 /definition: expected string, found integer 5; object 3 "definition" is missing'
        )

    def test_explanation_of_a_single_value_counts_no_objects(self) -> None:
        assert read('Here: ["x"]', INTEGERS).explain() == '/0: expected integer, found string "x"'

    @pytest.mark.parametrize(
        ("text", "format", "place"),
        [
            ("[1, oops]", "json", "line 1 column 5"),
            ("Here:\n```\n[1,\n oops]\n```", "json", "line 4 column 2"),
            ('{"a": 1}\n' * 56 + '{"a": \'x\'}\n{"a": 1}', "jsonl", "line 57 column 7"),
            ('{"a": "b" "c": 1}\n{"a": 1}', "jsonl", "line 1 column 11"),
            ('\ufeff{"a": "tab\t"}', "json", "line 1 column 12"),
            ('{"a": NaN}', "json", "line 1 column 7"),
        ],
    )
    def test_explanation_of_broken_json_names_the_place_in_the_answer(
        self, text: str, format: Format, place: str
    ) -> None:
        told = read(text, format).explain()
        assert told.endswith(f" at {place}")
        assert told.count(" at ") == 1

    def test_explanation_names_no_place_in_a_text_of_several_calls(self) -> None:
        outcome = read("\n{'a': 1}", "jsonl")
        assert "line" not in replace(outcome, calls=(CallReport("continue", "[]"),)).explain()

    def test_explanation_takes_no_longer_for_a_larger_refused_object(self) -> None:
        def refused(size: int) -> Outcome:
            return read('{"a": [' + f'"{"x" * 500}",' * size + "oops]}", "jsonl")

        large, larger = refused(400), refused(1_600)
        assert larger.explain().startswith("object 1 no JSON")
        assert steps(larger.explain) < 2 * steps(large.explain)

    def test_explanation_names_duplicate_keys(self) -> None:
        outcome = read('Here:\n{"a": 1, "b": 2, "\\u0061": 3}', "jsonl")
        assert (outcome.ok, outcome.value) == (True, [{"a": 3, "b": 2}])
        assert outcome.explain() == 'line 2: "a" is there twice, the last one counts'

    def test_explanation_counts_duplicate_keys_as_issues(self) -> None:
        outcome = read('{"a": 1, "a": 2, "a": 3}\n{"a": 4, "a": 5}', "jsonl")
        assert outcome.explain(limit=1) == 'line 1: "a" is there twice, the last one counts; and 2 more'

    def test_explanation_is_one_short_line_whatever_the_model_wrote(self) -> None:
        key, text = "k" * 100_000, "line\n\x1b[31m" * 10_000
        schema = {"additionalProperties": {"type": "integer"}}
        explanation = read(json.dumps({key: text}), Contract.from_schema(schema)).explain()
        assert len(explanation) < 400
        assert explanation.isprintable()
        assert "kkk" in explanation

    def test_explanation_shows_the_beginning_of_a_huge_value(self) -> None:
        outcome = read(json.dumps(["x" * 1_000_000]), INTEGERS)
        assert outcome.explain().startswith('/0: expected integer, found string "xxxx')
        assert len(outcome.explain()) < 120


class TestRepr:
    def test_repr_shows_reason_counts_issues_and_value_in_a_few_lines(self) -> None:
        assert repr(read(MIXED, DEFINITIONS)) == (
            "<Outcome success, direct, 1 object, 2 refused, truncated\n"
            "  object 2 /definition: expected string, found integer 5\n"
            '  object 3 "definition" is missing\n'
            "  [{'definition': 'carries instructions', 'entity': 'DNA'}]>"
        )

    def test_repr_has_the_reason_where_there_is_no_value(self) -> None:
        assert repr(read("no idea", "json")) == (
            "<Outcome extraction_failed, direct\n  no JSON in the answer>"
        )

    def test_repr_counts_repaired_objects(self) -> None:
        contract = Contract.from_schema(None, format="jsonl", repair=True)
        assert repr(read("{\"a\": 1}\n{'a': 1}", contract)).startswith(
            "<Outcome success, repaired, 2 objects, 1 repaired\n"
        )

    def test_repr_counts_tokens(self) -> None:
        calls = (CallReport("first", "5", usage=Usage(1000, 234)),)
        assert repr(Outcome(5, Reason.SUCCESS, INTEGERS, calls=calls)) == (
            "<Outcome success, direct, 1,234 tokens\n  5>"
        )

    @pytest.mark.parametrize(
        "value", [["x" * 10**6] * 10**3, {"a": 10**5000}, list(range(10**6)), "line\n" * 10**6]
    )
    def test_repr_is_short_whatever_the_value(self, value: object) -> None:
        shown = repr(Outcome(value, Reason.SUCCESS, INTEGERS))
        assert len(shown) < 200
        assert shown.count("\n") == 1

    def test_repr_is_short_however_many_issues_there_are(self) -> None:
        outcome = read('{"entity": 1, "definition": 2}\n' * 100, DEFINITIONS)
        lines = repr(outcome).splitlines()
        assert lines[0] == "<Outcome schema_type_error, direct, 0 objects, 100 refused"
        assert lines[-1] == "  and 197 more issues>"
        assert len(lines) == 5
