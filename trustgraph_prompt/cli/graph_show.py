"""`graph show`: prints what is known of one thing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import argument
from trustgraph_prompt.errors import TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.graph_store.view import Fact, GraphView, SourcePassage, Thing

EXAMPLE = "graph show --store graph 'Ada Lovelace'"

_LONGEST = 200  # characters of a sentence before a passage, and after it
_MOST_LISTED = 10
_LIKE = 75  # percent
_END_OF_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]|\n\s*\n")


def command(
    name: str = argument("NAME", "The name of a thing, or its IRI."),
    *,
    store: options.StoreOption,
) -> None:
    """Print what is known of one thing, with the sentences that name it. Exits with 1 if there is none."""
    from trustgraph_prompt.graph_store.excerpt import excerpt, without_sources
    from trustgraph_prompt.graph_store.read_view import read_view

    with options.graph_store(store) as opened:
        view = read_view(excerpt(opened, name))
        if not _things(view, name):  # a thing without a label is called by its IRI; or others have like names
            view = read_view(without_sources(opened))
            if len(found := _things(view, name)) == 1:
                view = read_view(excerpt(opened, found[0].iri))
    match _things(view, name):
        case [thing]:
            output.say("\n".join(_lines(view, thing)))
        case []:
            near = _near(name, {each for thing in view.things.values() for each in thing.names})
            hint = f", did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise TrustgraphPromptError(f"nothing in the store has the name {name!r}{hint}")
        case several:
            listed = "".join(f"\n  {thing.iri}  {_title(thing)}" for thing in several)
            raise TrustgraphPromptError(
                f"{len(several)} things have the name {name!r}; give the IRI of one:{listed}"
            )


def _things(view: GraphView, name: str) -> list[Thing]:
    """The things of this IRI, or else of this name, whatever its case."""
    wanted = name.casefold()
    return [thing for thing in view.things.values() if name in thing.iris] or [
        thing for thing in view.things.values() if wanted in map(str.casefold, thing.names)
    ]


def _near(name: str, names: set[str]) -> list[str]:
    """The names that contain a name, or else those that are most like it."""
    from rapidfuzz import fuzz, process

    if longer := sorted(each for each in names if name.casefold() in each.casefold()):
        return longer[:_MOST_LISTED]
    like = process.extract(
        name, sorted(names), scorer=fuzz.ratio, processor=str.casefold, limit=3, score_cutoff=_LIKE
    )
    return [near for near, _, _ in like]


def _title(thing: Thing) -> str:
    return f"{thing.name} ({', '.join(thing.types)})" if thing.types else thing.name


def _lines(view: GraphView, thing: Thing) -> list[str]:
    lines = [_title(thing), *(f"  {iri}" for iri in thing.iris)]
    if others := thing.names[1:]:
        lines.append(f"  also called {', '.join(others)}")
    for fact in view.facts:
        if thing.iri == fact.subject or (fact.is_relation and thing.iri == fact.object):
            object = view.things[fact.object].name if fact.is_relation else fact.object
            lines += ["", f"{view.things[fact.subject].name} · {fact.predicate} · {object}"]
            lines += _sources(view, fact)
    return lines


def _sources(view: GraphView, fact: Fact) -> list[str]:
    found = []
    document, end = "", 0
    for passage in fact.passages:
        if passage.document == document and passage.end <= end:
            continue  # in the sentence of the passage before
        document = passage.document
        sentence, end = _sentence(view.documents[document].text, passage)
        found.append(f"  {_place(view, passage)}: {sentence}")
    if fact.is_weak:
        found.append("  a name was found in the text only in part")
    if found and not fact.is_looked_up:
        found.append("  a name was not looked up in the text")
    if fact.is_ungrounded or not found:
        remark = "a name was not found in the text" if fact.is_ungrounded else "not looked up in the text"
        found += [f"  {_place(view, each)}: {remark}" for each in fact.chunks]
    return [*dict.fromkeys(found)]


def _place(view: GraphView, passage: SourcePassage) -> str:
    document = view.documents[passage.document]
    return ", ".join(
        [document.name, *([f"page {passage.page}"] if passage.page else []), *filter(None, [passage.heading])]
    )


def _sentence(text: str, passage: SourcePassage) -> tuple[str, int]:
    """The sentence around a passage, or whole words of it and `…` if it is long; and where it ends."""
    start, end = max(passage.start - _LONGEST, 0), min(passage.end + _LONGEST, len(text))
    if ends := [found.end() for found in _END_OF_SENTENCE.finditer(text, start, passage.start)]:
        start = ends[-1]
    following = _END_OF_SENTENCE.search(text, passage.end, end)
    if following:
        end = following.end()
    before, after = text[start : passage.start], text[passage.end : end]
    if start and not ends:
        before = f"… {before.partition(' ')[2]}"
    if end < len(text) and not following:
        after = f"{after.rpartition(' ')[0]} …"
    return " ".join(f"{before}{text[passage.start : passage.end]}{after}".split()), end
