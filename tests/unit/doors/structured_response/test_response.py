"""Structured responses (seed 3): what they are in each version, and what they say about themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.doors.structured_response import (
    CURRENT_SCHEMA_VERSION,
    RESPONSE_SCHEMA,
    RESPONSE_SCHEMA_INSTRUCTIONS,
    STRUCTURED_RESPONSE,
    SUPPORTED_SCHEMA_VERSIONS,
    CountQualifier,
    ReasonCode,
    ResponseParser,
    ResponseValidator,
    StructuredResponse,
)
from trustgraph_prompt.errors import ContractError, Reason, StructuredOutputInvalid

SOURCES = [{"title": "ADR.21", "type": "ADR", "meta": {"pages": [1, 2]}}]


class TestTransparency:
    @pytest.mark.parametrize(
        ("shown", "total", "qualifier", "message"),
        [
            (5, None, None, ""),
            (5, 18, None, "Showing 5 of 18 total items"),
            (5, 18, "exact", "Showing 5 of 18 total items"),
            (5, 18, "at_least", "Showing 5 of at least 18 total items"),
            (5, 18, "approx", "Showing 5 of approximately 18 total items"),
            (18, 18, "exact", "Showing all 18 items"),
            (0, 0, None, "Showing all 0 items"),
            (18, 18, "at_least", "Showing 18 of at least 18 total items"),
        ],
    )
    def test_transparency_message_says_how_much_is_shown(
        self, shown: int, total: int | None, qualifier: str | None, message: str
    ) -> None:
        response = StructuredResponse("a", shown, total, qualifier)

        assert response.generate_transparency_message() == message

    def test_statement_of_the_model_goes_first_until_a_version_deprecates_it(self) -> None:
        response = StructuredResponse("a", 5, 18, transparency_statement="Only the five newest.")

        assert response.generate_transparency_message() == "Only the five newest."
        assert response.migrate("2.0").generate_transparency_message() == "Showing 5 of 18 total items"

    def test_qualifier_may_be_given_by_its_name(self) -> None:
        response = StructuredResponse("a", 1, 2, CountQualifier.APPROX)

        assert StructuredResponse.from_dict(response.to_dict()) == response
        assert json.loads(json.dumps(response.to_dict()))["count_qualifier"] == "approx"


class TestInvariants:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"items_shown": -1}, "'items_shown' must be >= 0"),
            ({"items_shown": 0, "items_total": -1}, "'items_total' must be >= 0"),
            ({"items_shown": 10, "items_total": 5}, "'items_total' must be >= 'items_shown'"),
            ({"count_qualifier": "roughly"}, "'count_qualifier' must be one of: exact, at_least, approx"),
            ({"answer": " \n"}, "'answer' must not be empty"),
            ({"schema_version": "1.1", "confidence": 1.5}, "'confidence' must be between 0 and 1"),
        ],
    )
    def test_broken_invariant_is_refused_in_the_words_of_the_seed(
        self, fields: dict[str, Any], message: str
    ) -> None:
        data = {"answer": "a", "items_shown": 1, **fields}

        valid, errors, reason = ResponseValidator.validate(data)

        assert (valid, reason) == (False, ReasonCode.INVARIANT_VIOLATION)
        assert message in errors
        with pytest.raises(StructuredOutputInvalid, match="must"):
            StructuredResponse.from_dict(data)

    def test_version_2_has_the_invariants_too(self) -> None:
        data = {"schema_version": "2.0", "response": "", "items_shown": 2, "items_total": 1, "citations": []}

        valid, errors, _ = ResponseValidator.validate(data)

        assert not valid
        assert errors == ["'items_total' must be >= 'items_shown'", "'response' must not be empty"]

    @given(
        st.fixed_dictionaries(
            {"answer": st.text(), "items_shown": st.integers()},
            optional={
                "items_total": st.none() | st.integers(),
                "count_qualifier": st.none() | st.sampled_from(["exact", "at_least", "approx", "some"]),
                "sources": st.none() | st.lists(st.dictionaries(st.text(), st.integers() | st.text())),
            },
        )
    )
    def test_accepted_response_keeps_all_invariants(self, data: dict[str, Any]) -> None:
        valid, errors, reason = ResponseValidator.validate(data)

        shown, total = data["items_shown"], data.get("items_total")
        holds = shown >= 0 and (total is None or total >= shown) and data.get("count_qualifier") != "some"
        assert valid == (holds and data["answer"].strip() != "")
        assert valid == (not errors) == (reason is ReasonCode.SUCCESS)


class TestValidator:
    def test_validator_lists_missing_fields_before_type_errors(self) -> None:
        data = {"answer": 5, "items_total": "18", "transparency_statement": [], "sources": ["ADR.21"]}

        valid, errors, reason = ResponseValidator.validate(data)

        assert (valid, reason) == (False, ReasonCode.SCHEMA_MISSING_FIELD)
        assert errors == [
            "Missing required field: items_shown",
            "'answer' must be a string",
            "'items_total' must be an integer or null",
            "'transparency_statement' must be a string or null",
            '/sources/0: expected object, found string "ADR.21"',
        ]

    @pytest.mark.parametrize(
        "data",
        [
            {"answer": "a", "items_shown": True},
            {"answer": "a", "items_shown": 1, "count_qualifier": ["exact"]},
            {"answer": "a", "items_shown": 1, "sources": {"title": "ADR.21"}},
            {"answer": "a", "items_shown": 1.5},
            {"answer": None, "items_shown": 1},
            [{"answer": "a", "items_shown": 1}],
            "answer",
            5,
            None,
        ],
    )
    def test_value_of_another_type_is_a_type_error(self, data: object) -> None:
        assert ResponseValidator.validate(data)[::2] == (False, ReasonCode.SCHEMA_TYPE_ERROR)

    @pytest.mark.parametrize("version", ["9.9", "0.9", "3.0", "1", "one", "", 2, 1.0, None, ["1.0"], {}])
    def test_unsupported_version_is_refused(self, version: object) -> None:
        data = {"answer": "a", "items_shown": 1, "schema_version": version}

        valid, errors, reason = ResponseValidator.validate(data)

        assert (valid, reason, len(errors)) == (False, ReasonCode.UNSUPPORTED_VERSION, 1)
        text = json.dumps(data)
        assert ResponseParser.parse_with_fallbacks(text, enable_metrics=False)[0] is None

    def test_required_fields_are_those_of_the_version(self) -> None:
        fields = {
            version: ResponseValidator.get_required_fields(version) for version in ("1.0", "1.1", "2.0")
        }

        assert fields["1.0"] == fields["1.1"] == {"answer", "items_shown"}
        assert fields["2.0"] == {"response", "items_shown", "citations"}
        with pytest.raises(ContractError, match="unsupported schema version"):
            ResponseValidator.get_required_fields("9.9")

    def test_parse_and_validate_takes_pure_json_only(self) -> None:
        parse = ResponseValidator.parse_and_validate

        response, errors, reason = parse(' {"answer": "a", "items_shown": 1}\n')
        assert (response, errors, reason) == (StructuredResponse("a", 1), [], ReasonCode.SUCCESS)
        for text in (
            'Here: {"answer": "a", "items_shown": 1}',
            '{"answer": "a", "items_shown": 1',
            "",
            "{,}",
        ):
            response, errors, reason = parse(text)
            assert (response, reason, len(errors)) == (None, ReasonCode.INVALID_JSON, 1), text
            assert errors[0].startswith("Invalid JSON: ")
        response, errors, reason = parse('{"answer": "a"}')
        assert (response, errors) == (None, ["Missing required field: items_shown"])
        assert reason is ReasonCode.SCHEMA_MISSING_FIELD

    def test_reason_codes_of_the_seed_are_reasons_of_the_reader(self) -> None:
        assert ReasonCode is Reason
        assert ReasonCode("repair_failed") is ReasonCode.REPAIR_FAILED


class TestVersions:
    def test_supported_versions_are_those_with_a_schema(self) -> None:
        assert CURRENT_SCHEMA_VERSION == "1.0"
        assert set(STRUCTURED_RESPONSE.versions or ()) == SUPPORTED_SCHEMA_VERSIONS == {"1.0", "1.1", "2.0"}
        assert RESPONSE_SCHEMA["required"] == ["answer", "items_shown"]

    def test_instructions_ask_for_the_current_version(self) -> None:
        assert STRUCTURED_RESPONSE.schema == RESPONSE_SCHEMA
        assert '"answer"' in STRUCTURED_RESPONSE.instructions()

    @pytest.mark.parametrize(
        "fields",
        [
            {"answer": "a", "items_shown": 1, "sources": SOURCES},
            {"answer": "a", "items_shown": 1, "confidence": 0.5, "metadata": {"a": [1]}, "sources": []},
            {"response": "a", "items_shown": 1, "citations": SOURCES, "confidence": 1, "sources": SOURCES},
        ],
    )
    def test_response_of_each_version_is_written_back_unchanged(self, fields: dict[str, Any]) -> None:
        version = "2.0" if "response" in fields else "1.1" if "metadata" in fields else "1.0"

        response = StructuredResponse.from_dict({"schema_version": version, **fields})

        assert response.schema_version == version
        assert response.answer == response.response == "a"
        written = response.to_dict()
        assert fields.items() <= written.items()
        assert StructuredResponse.from_dict(written) == response

    def test_fields_of_a_later_version_are_dropped_in_an_earlier_one(self) -> None:
        response = StructuredResponse.from_dict({"answer": "a", "items_shown": 1, "confidence": 0.5, "x": 1})

        assert response.confidence is None
        assert "confidence" not in response.to_dict()

    def test_newer_minor_version_is_read_as_the_newest_known(self) -> None:
        response = StructuredResponse.from_dict(
            {"schema_version": "1.7", "answer": "a", "items_shown": 1, "confidence": 0.5, "mood": "glad"}
        )

        assert (response.schema_version, response.confidence) == ("1.1", 0.5)

    def test_version_2_is_refused_without_citations(self) -> None:
        data = {"schema_version": "2.0", "response": "a", "items_shown": 1}

        assert ResponseValidator.validate(data)[1] == ["Missing required field: citations"]

    @pytest.mark.parametrize("start", ["1.0", "1.1", "2.0"])
    @pytest.mark.parametrize("end", ["1.0", "1.1", "2.0"])
    def test_migrated_response_is_valid_and_keeps_all_sources(self, start: str, end: str) -> None:
        fields = (
            {"response": "a", "citations": SOURCES} if start == "2.0" else {"answer": "a", "sources": SOURCES}
        )
        response = StructuredResponse.from_dict(
            {
                "schema_version": start,
                "items_shown": 1,
                "items_total": 3,
                "count_qualifier": "approx",
                **fields,
            }
        )

        moved = response.migrate(end)

        assert moved.schema_version == end
        assert ResponseValidator.validate(moved.to_dict()) == (True, [], ReasonCode.SUCCESS)
        assert moved.migrate(start) == response
        assert (moved.citations or moved.sources) == SOURCES
        moved.sources.append({"title": "new"})
        moved.citations.append({"title": "new"})
        assert (response.citations or response.sources) == SOURCES

    @pytest.mark.parametrize("citations", [[], [{"title": "y"}]])
    def test_migrating_to_the_own_version_changes_nothing(self, citations: list[dict[str, Any]]) -> None:
        response = StructuredResponse("a", sources=SOURCES, citations=citations, schema_version="2.0")

        assert response.migrate("2.0") == response

    def test_citations_go_to_the_sources_in_an_earlier_version(self) -> None:
        response = StructuredResponse(
            "a", sources=[{"title": "x"}], citations=[{"title": "x"}, {"title": "y"}], schema_version="2.0"
        )

        assert response.migrate("1.1").sources == [{"title": "x"}, {"title": "y"}]

    def test_fields_unknown_to_the_target_version_are_dropped(self) -> None:
        response = StructuredResponse("a", schema_version="1.1", confidence=0.5, metadata={"a": 1})

        moved = response.migrate("1.0")

        assert (moved.confidence, moved.metadata) == (None, None)
        assert response.confidence == 0.5

    def test_migrating_to_an_unsupported_version_is_refused(self) -> None:
        with pytest.raises(ContractError, match=r"unsupported schema version .*'3\.0'"):
            StructuredResponse("a").migrate("3.0")


def test_response_shares_no_data_with_its_source() -> None:
    data: dict[str, Any] = {"answer": "a", "items_shown": 1, "sources": [{"title": "x"}]}

    response = StructuredResponse.from_dict(data)
    response.sources[0]["title"] = "changed"
    response.to_dict()["sources"].append({})

    assert data["sources"] == [{"title": "x"}]
    assert len(response.sources) == 1


def test_data_nested_too_deep_to_be_copied_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(StructuredOutputInvalid, match="nested too deep"):
        StructuredResponse.from_dict({"answer": "a", "items_shown": 1, "sources": [{"deep": deep}]})


@pytest.mark.parametrize("data", [None, 5, "answer", ["answer"], True])
def test_data_that_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(StructuredOutputInvalid, match="expected object"):
        StructuredResponse.from_dict(data)


def test_sources_may_be_null() -> None:
    assert StructuredResponse.from_dict({"answer": "a", "items_shown": 1, "sources": None}).sources == []


def test_counts_may_be_written_as_floats_without_a_fraction() -> None:
    response = StructuredResponse.from_dict({"answer": "a", "items_shown": 5.0, "items_total": 1e2})

    assert response.generate_transparency_message() == "Showing 5 of 100 total items"


def test_instructions_show_an_example_that_the_parser_takes() -> None:
    example = ResponseParser.extract_json(RESPONSE_SCHEMA_INSTRUCTIONS)

    assert example is not None
    assert StructuredResponse.from_dict(json.loads(example)).items_total == 18
    for name in RESPONSE_SCHEMA["required"]:
        assert name in RESPONSE_SCHEMA_INSTRUCTIONS
