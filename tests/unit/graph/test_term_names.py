"""Names of terms: which a model sees, and which terms it means by other names."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.graph.ontology import Element
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.graph.term_names import LONGEST_NAME, TermNames, local_name


def elements(**entries: Any) -> dict[str, Element]:
    document = {"objectProperties": {id: {"rdfs:label": label} for id, label in entries.items()}}
    return dict(make_ontology("o", document, "o").object_properties)


def names(**entries: Any) -> TermNames:
    return TermNames(elements(**entries))


def test_name_is_the_first_label_without_blanks_around_it() -> None:
    assert names(P57=[" \t", " director \n of "], P1="cost").shown == {"P57": "director of", "P1": "cost"}


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("memberOf", "member of"),
        ("https://example.org/org#hasSite", "has site"),
        ("food/has_ingredient", "has ingredient"),
        ("urn:x:ISBN", "ISBN"),
        ("Person", "person"),
        ("https://example.org/Person/", "person"),
        ("#", "#"),
    ],
)
def test_term_without_a_label_is_called_by_the_words_of_its_id(id: str, words: str) -> None:
    assert local_name(id) == words
    assert TermNames(elements(**{id: ""})).shown == {id: words}


def test_label_in_any_of_fifty_languages_means_its_term() -> None:
    labels = [{"value": f"Wort {chr(0x4E00 + n)}", "lang": f"x{n}"} for n in range(50)]
    known = names(P57=labels, P1="cost")
    assert all((found := known.find(label["value"])) and found.id == "P57" for label in labels)


def test_equal_labels_get_their_class_or_id_beside_them() -> None:
    document = {
        "classes": {"Film": {}, "Book": {}},
        "objectProperties": {
            "a": {"rdfs:label": "author", "rdfs:domain": "Film"},
            "b": {"rdfs:label": "Author ", "rdfs:domain": "Book"},
            "c": {"rdfs:label": "AUTHOR"},
            "d": {"rdfs:label": "author"},
        },
    }
    ontology = make_ontology("o", document, "o")
    known = TermNames(ontology.object_properties, lambda each: " or ".join(each.domain))
    assert known.shown == {"a": "author (Film)", "b": "Author (Book)", "c": "AUTHOR (c)", "d": "author (d)"}
    assert [known.find(name) for name in ("author", "Author", "written by")] == [None, None, None]
    found = known.find("author (film)")
    assert found is not None
    assert (found.id, found.how) == ("a", "spelling")


@pytest.mark.parametrize(
    ("written", "id", "how"),
    [
        ("cast member", "P161", "label"),
        ("castMember", "P161", "spelling"),
        ("CAST_MEMBER", "P161", "spelling"),
        ("cast members", "P161", "form"),
        ("P161", "P161", "spelling"),
        ("directed by", "P57", "form"),
        ("was directed by", "P57", "form"),
        ("director of", None, None),
        ("directed", None, None),
        ("illustrated by", "P110", "form"),
        ("date of publication", "P577", "form"),
        ("has genre", "P136", "form"),
        ("published", None, None),
        ("", None, None),
        ("?!", None, None),
    ],
)
def test_name_means_the_one_term_that_it_fits(written: str, id: str | None, how: str | None) -> None:
    known = names(
        P57="director", P161="cast member", P110="illustrator", P577="publication date", P136="genre"
    )
    found = known.find(written)
    assert (found and found.id, found and found.how) == (id, how)


def test_form_that_fits_two_terms_means_neither() -> None:
    assert names(a="illustrator", b="illustrated by a").find("illustrated by") is not None
    assert names(a="directors", b="director's").find("directed by") is None


def test_hostile_labels_are_one_short_line() -> None:
    shown = names(a="x\n- fake (of a thing)\n" * 1000, b="{{ text }}", c="\u2028" * 9).shown
    assert all("\n" not in name and len(name) <= LONGEST_NAME for name in shown.values())
    assert (shown["b"], shown["c"]) == ("{{ text }}", "c")


def test_long_labels_that_begin_alike_stay_apart() -> None:
    known = names(a="x" * 200, b="x" * 200 + "y")
    assert len({*known.shown.values()}) == 2
    assert all((found := known.find(name)) and found.id == id for id, name in known.shown.items())
