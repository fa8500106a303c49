"""The names by which a model calls the terms of an ontology, and the terms that it means by other names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.graph.ontology import Element, Elements
from trustgraph_prompt.grounding.words import words

LONGEST_NAME: Final = 80
"""Characters of a label that a model sees."""

_LOCAL_NAME = re.compile(r"(?<![^/#:])[^/#:]++(?=[/#:]?\Z)")
_WORD_BEGINS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")
_AGENT = re.compile(r"(?<=\w{3})(?:or|er)\Z")
_PASSIVE = re.compile(r"(?<=\w{3})ed\Z")
_LITTLE: Final = frozenset(("a", "an", "the", "has", "have", "is", "was", "are", "were", "of"))
_PREPOSITIONS: Final = frozenset(("of", "by", "in", "at", "on", "to", "from", "for", "with", "as"))

How = Literal["label", "spelling", "form"]
"""label: as it is shown. spelling: another label, or apart from case, spaces and camelCase. form: another
form of the words, such as *directed by* for *director*."""


class Meant(NamedTuple):
    """The id of the term that a name means, and how that was found."""

    id: str
    how: How


class TermNames:
    """The names of terms of one kind: `shown` to a model, by id.

    A name is the first label, or the words of the id. Where two are alike, `beside` says what is written
    beside them, or else their ids are. Without `forms`, a name means nothing in other forms of its words.
    """

    def __init__(
        self, elements: Elements, beside: Callable[[Element], str] = lambda _: "", *, forms: bool = True
    ) -> None:
        names, spelling = {id: _name(each) for id, each in elements.items()}, cache(_spelling)
        for say in (lambda id: beside(elements[id]), lambda id: id):
            names |= {id: f"{names[id]} ({more})" for id in _alike(names, spelling) if (more := say(id))}
        self.shown: Mapping[str, str] = names
        self._of_name = {name: id for id, name in names.items()}
        texts = [
            (text, id)
            for id, each in elements.items()
            for text in {*each.labels, id, local_name(id), names[id]}
        ]
        self._of_spelling = _grouped((spelling(text), id) for text, id in texts)
        self._of_form = _grouped((_form(text), id) for text, id in texts if forms)

    def find(self, written: str) -> Meant | None:
        """The term that a name means; None if it means none, or may mean several."""
        if id := self._of_name.get(written):
            return Meant(id, "label")
        if len(ids := self.spelt(written)) == 1:
            return Meant(next(iter(ids)), "spelling")
        if not ids and len(ids := self._of_form.get(_form(written), set())) == 1:
            return Meant(next(iter(ids)), "form")
        return None

    def is_shown(self, text: str) -> bool:
        """Whether a text is the name of a term, as a model sees it."""
        return text in self._of_name

    def spelt(self, written: str) -> set[str]:
        """The ids of the terms that have this name, apart from case, spaces and camelCase."""
        return self._of_spelling.get(_spelling(written), set())


def local_name(id: str) -> str:
    """The words of an id or IRI after its last slash, hash or colon: `has site` of `org#hasSite`."""
    found = _LOCAL_NAME.search(id)
    words_ = _WORD_BEGINS.sub(" ", found[0] if found else id).split()
    return " ".join(word if word[1:].isupper() else word.lower() for word in words_)


def _name(element: Element) -> str:
    labels = (" ".join(label.split()) for label in element.labels)
    return excerpt(next(filter(None, labels), "") or local_name(element.id), LONGEST_NAME)


def _alike(names: Mapping[str, str], spelling: Callable[[str], str]) -> list[str]:
    """The ids whose names differ only in spelling from another one."""
    having = _grouped((spelling(name) or name, id) for id, name in names.items())
    return [id for ids in having.values() if len(ids) > 1 for id in sorted(ids)]


def _grouped(pairs: Iterable[tuple[Hashable, str]]) -> dict[Hashable, set[str]]:
    """The ids for each key that is not empty."""
    found: dict[Hashable, set[str]] = defaultdict(set)
    for key, id in pairs:
        if key:
            found[key].add(id)
    return dict(found)


def _spelling(text: str) -> str:
    return "".join(words(_WORD_BEGINS.sub(" ", text)).folded)


def _form(text: str) -> tuple[frozenset[str], str] | None:
    """The stems of the words, and the preposition that they end with: *author of* is not *author*.

    Who does something is the same as by whom it is done: *director*, *directed by*.
    """
    folded = words(_WORD_BEGINS.sub(" ", text)).folded
    end = folded.pop() if len(folded) > 1 and folded[-1] in _PREPOSITIONS else ""
    content = [word for word in folded if word not in _LITTLE]
    if not content:
        return None
    stems, last = list(map(_singular, content)), content[-1]
    if end == "by" and _PASSIVE.search(last):
        stems[-1], end = _PASSIVE.sub("", last), "agent"
    elif not end and _AGENT.search(stems[-1]):
        stems[-1], end = _AGENT.sub("", stems[-1]), "agent"
    return frozenset(stems), end


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "sui" else word
