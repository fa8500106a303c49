"""Whether a statement has a word of the sentences that it is taken from, and whether it says anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice

from trustgraph_prompt.grounding.index import Index, is_content_word, occurrences
from trustgraph_prompt.grounding.inflection import base_forms
from trustgraph_prompt.grounding.languages import languages_of, scripts_of
from trustgraph_prompt.grounding.numbers import NUMBER
from trustgraph_prompt.grounding.passage import Passage, words_of_value
from trustgraph_prompt.grounding.sentences import Span, sentences_around
from trustgraph_prompt.grounding.words import UNSPACED, words

_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_LITTLE_HAN = frozenset("的是一了在和与與及或不为為以于於有这這那其之个個种種被由对對从從到也而所")
_HAN_OR_REST = re.compile(f"({_HAN.pattern})")
_LONGEST = 1_000  # characters of a value that may only repeat its relation
_MOST_SOUGHT = 500  # words of a statement
_MOST_PLACES = 4  # of the same quote
_LAST = 3  # letters in which words of one stem differ
_PIECE = 3  # letters in scripts without spaces that are not Han
_SHORTEST_HAN = 2  # characters of a value


def only_repeats(value: str, relation: str) -> bool:
    """Whether a value says nothing that its relation does not: "Delft" of "worked at Delft".

    Words count in all forms, numbers by value. A value without a content word repeats nothing.
    """
    if max(len(value), len(relation)) > _LONGEST:
        return False
    (said, runs), index = _words_and_runs(value), Index(relation, words(relation))
    is_telling = any(map(is_content_word, said)) or any(map(_is_word, runs))
    return is_telling and all(map(index.forms, said)) and all(map(index.has, runs))


def shares_no_word(passage: Passage, spans: Sequence[Span], statement: str, *, but_of: str = "") -> bool:
    """Whether the sentences with these spans have no word of a statement, though they might have one.

    Words count in all forms and with other endings (painted, painter), numbers by value; those of `but_of` do
    not count. False also where nothing can be said: the statement has no content words, or another script or
    language than the sentences.
    """
    (said, runs), (others, other_runs), index = *map(_words_and_runs, (statement, but_of)), passage.index
    known = frozenset(chain.from_iterable(map(base_forms, others)))
    sought = [word for word in said if known.isdisjoint(base_forms(word))][:_MOST_SOUGHT]
    known_pieces = frozenset(_pieces(other_runs))
    pieces = [piece for piece in _pieces(runs) if piece not in known_pieces][:_MOST_SOUGHT]
    if not pieces and not any(map(is_content_word, sought)):
        return False
    there = [word for place in _around_all(passage, spans) for word in index.words_within(*place)]
    distinct, squeezed = frozenset(there), "".join(there)
    is_there = (
        any(piece in squeezed for piece in pieces)
        or any(not distinct.isdisjoint(index.forms(word) | index.verbs(word)) for word in sought)
        or any(_begins_like_one(word, distinct) for word in sought)
    )
    return not is_there and _may_be_compared(statement, distinct, index)


def stands_near(passage: Passage, spans: Sequence[Span], value: str) -> bool:
    """Whether the sentences with these spans have a value in any way: as a date, as initials, in part."""
    found = passage.find(value)
    near = list(_around_all(passage, spans)) if found else ()
    return found is not None and any(
        begins < end and start < ends for begins, ends in near for start, end in found.spans
    )


def _around_all(passage: Passage, spans: Sequence[Span]) -> Iterator[Span]:
    """The sentences with these spans, at each place where the same words stand, as of a short quote."""
    for start, end in spans:
        others = islice(occurrences(passage.text, passage.text[start:end]), _MOST_PLACES)
        for at in dict.fromkeys(chain((start,), others)):
            yield sentences_around(passage.text, at, at + end - start)


def _words_and_runs(text: str) -> tuple[list[str], list[str]]:
    """The words of a text without stop words, and its runs of letters in scripts without spaces."""
    split = words(text)
    needed = dict.fromkeys(words_of_value(text, split)[1])
    runs = groupby(split.folded, key=lambda word: bool(UNSPACED.match(word)))
    return (
        [word for word in needed if not UNSPACED.match(word)],
        list(dict.fromkeys("".join(run) for is_unspaced, run in runs if is_unspaced)),
    )


def _is_word(run: str) -> bool:
    return len(run) >= (_SHORTEST_HAN if _HAN.match(run) else _PIECE)


def _pieces(runs: Iterable[str]) -> Iterator[str]:
    """What stands for words where nothing divides them: Han characters, and three other letters in a row."""
    for part in chain.from_iterable(map(_HAN_OR_REST.split, runs)):
        if _HAN.match(part):
            yield from () if part in _LITTLE_HAN else (part,)
        elif part:
            yield from (part[at : at + _PIECE] for at in range(max(1, len(part) - _PIECE + 1)))


def _begins_like_one(word: str, others: Iterable[str]) -> bool:
    """Whether a word differs from another only in its last letters: painter, painted. Numbers never do."""
    least = 2 if "\uac00" <= word[0] <= "\ud7a3" else 4 if "\u0590" <= word[0] < "\u0780" else 5
    stem = word[: max(least, len(word) - _LAST)]
    return word[0] != NUMBER and len(stem) >= least and any(other.startswith(stem) for other in others)


def _may_be_compared(statement: str, there: frozenset[str], index: Index) -> bool:
    """Whether a statement is in the script and the language of sentences, as far as its words say so.

    Without stop words, or with those that English has, too, it may be in English, in which models answer by
    themselves, unless one of its words stands elsewhere in the text, other than as a name.
    """
    said = words(statement).folded
    own, of_text = scripts_of(said), scripts_of(there)
    if not own:  # only numbers
        return True
    if own.isdisjoint(of_text) or ("KANA" in own) != ("KANA" in of_text):
        return False
    spoken, there_spoken = languages_of(Counter(said)), index.languages
    if own & of_text != {"LATIN"}:
        return not (spoken and there_spoken and spoken.isdisjoint(there_spoken))
    if spoken and (spoken.isdisjoint(there_spoken) or "en" not in spoken - there_spoken):
        return not spoken.isdisjoint(there_spoken)
    stand = (word for word in said if is_content_word(word) and word in index.at)
    return there_spoken == {"en"} or not all(map(index.is_capital, stand))
