"""The terms in which a question shows an ontology: TrustGraph's, with each term in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trustgraph_prompt.graph import datatypes
from trustgraph_prompt.graph.ontology import Element, Ontology
from trustgraph_prompt.graph.ontology_answer import Vocabulary
from trustgraph_prompt.graph.term_names import local_name

LONGEST_HINT: Final = 120
"""Characters of a comment that is shown beside a name."""

_MOST_NAMED: Final = 5  # classes of a domain or a range
_OPAQUE = re.compile(r"\w{0,12}?[_ ]?\d+")  # an id that says nothing: Q47461344, GO_0008150

Terms = Mapping[str, Mapping[str, Mapping[str, Any]]]


def question_terms(vocabulary: Vocabulary, part: Ontology | None = None) -> Terms:
    """The terms of the ontology, or of a part of it.

    Beside what `Ontology.terms` has, each has its `name`, and a `hint` if its comment is short. A property
    also has what it is `of` and leads `to`: "a film or a book", "a date".
    """
    return {
        section: {id: {**term, **_in_words(vocabulary, section, id)} for id, term in elements.items()}
        for section, elements in (part or vocabulary.ontology).terms.items()
    }


def _in_words(vocabulary: Vocabulary, section: str, id: str) -> dict[str, str]:
    names, elements = (
        (vocabulary.classes, vocabulary.ontology.classes)
        if section == "classes"
        else (vocabulary.names, vocabulary.properties)
    )
    element, comment = elements[id], " ".join(elements[id].comment.split())
    words = {"name": names.shown[id], "hint": comment if len(comment) <= LONGEST_HINT else ""}
    if section == "classes":
        return words
    is_relation = vocabulary.is_relation(element)
    to = _things(vocabulary, element.range) if is_relation else datatypes.named(element.range)
    return {**words, "of": _things(vocabulary, element.domain), "to": to}


def _things(vocabulary: Vocabulary, classes: Sequence[str]) -> str:
    """Classes in words: "a film or an album", "a thing" if nothing is known of them."""
    elements = [vocabulary.ontology.classes[id] for id in classes[: _MOST_NAMED + 1]]
    if not elements or len(elements) > _MOST_NAMED or any(map(_is_opaque, elements)):
        return "a thing"
    return " or ".join(dict.fromkeys(_with_article(vocabulary.classes.shown[each.id]) for each in elements))


def _is_opaque(element: Element) -> bool:
    return not any(map(str.strip, element.labels)) and bool(_OPAQUE.fullmatch(local_name(element.id)))


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
