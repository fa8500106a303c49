"""Datatypes of attributes: their names in a question, and the values that are of them."""

from __future__ import annotations

import pytest

from trustgraph_prompt.graph.datatypes import is_of, named


@pytest.mark.parametrize(
    ("datatypes", "name"),
    [
        (["xsd:date"], "a date"),
        (["http://www.w3.org/2001/XMLSchema#gYear"], "a year"),
        (["xsd:int", "xsd:long"], "a whole number"),
        (["xsd:gYear", "xsd:date"], "a year or a date"),
        (["xsd:string"], "a text"),
        (["urn:mine"], "a value"),
        (["xsd:date", "urn:mine"], "a value"),
        ([], "a value"),
    ],
)
def test_datatype_has_a_plain_name(datatypes: list[str], name: str) -> None:
    assert named(datatypes) == name


@pytest.mark.parametrize(
    ("datatype", "fitting", "others"),
    [
        ("date", ["2010-01-31", " 31 January 2010 ", "2010-01-31T10:00:00Z"], ["2010", "May 2010", "soon"]),
        ("gYear", ["1815", "-44"], ["1815 AD", "in 1815", "181500"]),
        ("gYearMonth", ["2010-05", "May 2010"], ["2010"]),
        (
            "integer",
            ["74", "-3", "1,200", "+7", "1 200 000", "Four"],
            ["74 minutes", "7.5", "", "four of"],
        ),
        ("nonNegativeInteger", ["0", "74"], ["-1", "\u22121"]),
        ("negativeInteger", ["-1"], ["1"]),
        ("decimal", ["7.5", "1,200.50", "3", "1E5", "seven"], ["some"]),
        ("boolean", ["true", "No", "1"], ["maybe"]),
        ("time", ["10:30", "10:30:01Z"], ["half past ten"]),
        ("string", ["anything", ""], []),
        ("urn:mine", ["anything"], []),
    ],
)
def test_value_is_of_its_datatype_as_a_text_writes_it(
    datatype: str, fitting: list[str], others: list[str]
) -> None:
    name = datatype if ":" in datatype else f"xsd:{datatype}"
    assert [value for value in fitting if not is_of(value, [name])] == []
    assert [value for value in others if is_of(value, [name])] == []


def test_value_of_a_million_characters_is_of_no_datatype_at_once() -> None:
    for name in ("integer", "decimal", "date", "gYear", "gYearMonth", "boolean", "time"):
        assert not is_of("1,234" * 200_000, [f"xsd:{name}"])


def test_value_without_a_datatype_is_of_any() -> None:
    assert is_of("anything", [])
    assert is_of("1815", ["xsd:date", "xsd:gYear"])
