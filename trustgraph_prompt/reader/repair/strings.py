"""Reads quoted strings whose quotes are missing, or unescaped within the string.

Each quote that could close the string is examined once, with what follows it. If it is not the end, it is a
part of the text, unless it shows that a member began: then the string lacks its closing quote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import NamedTuple

from trustgraph_prompt.json_text import grammar as strict
from trustgraph_prompt.reader.repair.ambiguities import Ambiguities, RepairBudget
from trustgraph_prompt.reader.repair.grammar import (
    CLOSING_QUOTES,
    COMMA,
    COMMENT,
    QUOTED_KEY,
    QUOTES,
    SPACE,
    VALUELESS_KEY,
    Names,
    Within,
    begins_element,
    begins_member,
    closes,
    is_stop,
    may_begin_member,
    next_mark,
)

# Strings of strict JSON, and what follows them where there is no doubt.
_PLAIN = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_BLANK, _SIMPLE = strict.SPACE, r'"[^"\\\n]*+"'
_PLAINLY_FOLLOWS = {
    Within.KEY: re.compile(rf"{_BLANK}:"),
    Within.MEMBER: re.compile(
        rf"{_BLANK}(?:,{_BLANK}{_SIMPLE}{_BLANK}:|\}}{_BLANK}(?:[]}}]|,{_BLANK}\{{|\Z))"
    ),
    Within.ELEMENT: re.compile(
        rf"{_BLANK}(?:,{_BLANK}{_SIMPLE}{_BLANK}[],]|\]{_BLANK}(?:[]}}]|,{_BLANK}\[|\Z))"
    ),
}

_BODIES = {
    closing: re.compile(rf"[^{closing}\\]*+(?:\\(?s:.)[^{closing}\\]*+)*+")
    for closing in set(CLOSING_QUOTES.values())
}
_COLON = re.compile(rf"{SPACE}[:：]")
_WORD_KEY = re.compile(rf"[{QUOTES}]([\w$@.-]++(?:[ \t]++[\w$@.-]++)*+)[{QUOTES}](?={SPACE}[:：])")
_WORDS_OF_KEY = re.compile(rf"[\w$@.-]++(?:[ \t]++[\w$@.-]++)*+[{QUOTES}]?")
_WORD = re.compile(r"[^\W\d][\w$@.-]*+")
_KEY_WITHOUT_QUOTE = re.compile(rf'[^\W\d][\w$@.-]*+"{SPACE}[:：]')  # without its first quote
_REMARK = re.compile(r"[ \t]*+(?:\(|\r?\n)")
_SCALAR_FOLLOWS = re.compile(r"-?(?:\d[\d.eE+-]*+|(?:true|false|null|None|True|False)\b)(?=[\s,\]}]|\Z)")
_MEMBER_WITHIN = re.compile(rf"[{COMMA}\n][ \t]*+(?=[\w$@.-]++[{QUOTES}]?[ \t]*+[:：](?!//))")
_FENCE_LINE = re.compile(r"\n[ \t]*+`{3}")
_INFO_LINE = re.compile(r"[ \t]*+[\w+.-]*+[ \t]*+\r?\n")

_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}))"
    r"|((?s:.)))"
)
_WITHOUT_HALF_ESCAPE = re.compile(r"(?s:[^\\]++|\\(?!u[0-9a-fA-F]{0,3}\Z).)*+")
_NAMED_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERAL_BACKSLASH = re.compile(
    r"[^\W_]|[()\[\]{}.+?|^]"
)  # after a backslash of a path, a formula or a regular expression
_SOUND = re.compile(r"[^\\\x00-\x1f]*+(?:\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})[^\\\x00-\x1f]*+)*+\Z")

_DECODABLE = re.compile(r'[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+\Z')
_DECODER = json.JSONDecoder(strict=False)
_ESCAPES_A_STEP = 4

# More strings without an end than this end at their first quote, so that time stays linear.
_MOST_WITHOUT_END = 16


class RepairedString(NamedTuple):
    """A string, where the text after it begins, and what is wrong; `truncated`: the text ends within it."""

    value: str
    end: int
    flaw: str = ""
    truncated: bool = False


class Strings:
    """Reads the strings of one text."""

    def __init__(self, text: str, names: Names, ambiguities: Ambiguities, budget: RepairBudget) -> None:
        self._text = text
        self._names = names
        self._ambiguities = ambiguities
        self._budget = budget
        self._without_end = 0

    def read(self, start: int, place: Within, brackets: Sequence[str]) -> RepairedString:
        """The string whose opening quote is at `start`; `brackets` are the closing ones missing around it."""
        text = self._text
        plain = _PLAIN.match(text, start)
        if plain and _PLAINLY_FOLLOWS[place].match(text, plain.end()):
            return self._quoted(start + 1, plain.end() - 1, plain.end())
        if place is Within.KEY and (words := _WORD_KEY.match(text, start)):
            return RepairedString(words[1], words.end(), "other quotes than JSON's")
        return self._block(start) or self._string(start, place, brackets)

    def _block(self, start: int) -> RepairedString | None:
        r"""The string between tripled or escaped quotes, or fences, that begins at `start`."""
        text, marks = self._text, self._text[start] * 3
        if text.startswith('\\"', start):
            end = text.find('\\"', start + 2)
            return None if end < 0 else self._quoted(start + 2, end, end + 2, "quotes that are escaped")
        if marks not in ('"""', "'''", "```") or not text.startswith(marks, start):
            return None
        end = text.find(marks, start + 3)
        if end < 0:
            return None
        while text.startswith(marks, end + 1):
            end += 1  # of more than three, the last three close the block
        if marks != "```":
            return self._quoted(start + 3, end, end + 3, "a block of text for a string")
        info = _INFO_LINE.match(text, start + 3, end)
        code = dedent(text[info.end() if info else start + 3 : end])
        return RepairedString(code.rstrip() if info else code, end + 3, "a block of code for a string")

    def _string(self, start: int, place: Within, brackets: Sequence[str]) -> RepairedString:
        text = self._text
        begin = gap = start + 1
        closing = CLOSING_QUOTES[text[start]]
        remark: int | None = None  # a quote that may be the end, if a remark follows it
        stray: int | None = None  # the only quote in it, if words follow that may be a remark
        member: int | None = None  # a quote that may begin a key, judged by what follows
        inner = 0  # unescaped quotes in it; after an odd number, a quotation is open
        depth = fences = 0  # brackets and fences that its text opens: quotes within them are a part of it
        likely: RepairedString | None = None  # the string, if these are never closed
        while (quote := self._next_quote(closing, gap)) < len(text):
            depth += _depth_of(text[gap:quote])
            fences += text.count("```", gap, quote)
            hasty = self._without_end >= _MOST_WITHOUT_END
            enclosed = (inner > 0 and depth > 0) or fences % 2 == 1
            if hasty or self._ends(quote + 1, place, brackets, inner % 2 == 1):
                if hasty or not inner or not enclosed:
                    return self._between(start, quote, inner, gap)
                likely = likely or self._between(start, quote, inner, gap)
            self._budget.spend(quote)
            earlier = self._ended_before(gap, quote, place, brackets, inner)
            if earlier is not None and not enclosed:
                if inner % 2 == 1 and remark is not None:
                    return self._quoted(begin, remark, earlier, "a remark behind a string")
                return self._without_quote(begin, earlier)
            if inner % 2 == 0 and _REMARK.match(text, quote + 1):
                remark = quote
            stray = quote if not inner and text[quote + 1 : quote + 2] == " " else None
            if member is None and place is Within.MEMBER and QUOTED_KEY.match(text, quote):
                member = quote
            inner += 1
            gap = quote + 1
        self._without_end += 1
        if stray is not None and place is Within.MEMBER and self._before_last_brackets(stray, brackets):
            return self._quoted(begin, stray, stray + 1, "a remark behind a string")
        return likely or self._without_end_quote(begin, remark, member, place, brackets)

    def _between(self, start: int, quote: int, inner: int, gap: int) -> RepairedString:
        """The string between two quotes; `gap` is after the last of the `inner` quotes in it.

        A single one beside the first or last quote merely doubles it, unless it stands for inches.
        """
        text = self._text
        begin, end = start + 1, quote
        if inner == 1 and gap == begin + 1:
            begin = gap
        elif inner == 1 and gap == end and not text[end - 2].isdigit():
            end -= 1
        flaw = "unescaped quotes in a string" if inner else ""
        if text[start] + text[quote] != '""':
            flaw = "other quotes than JSON's"
        return self._quoted(begin, end, quote + 1, flaw)

    def _next_quote(self, closing: str, position: int) -> int:
        match = _BODIES[closing].match(self._text, position)
        assert match is not None
        end = match.end()
        return len(self._text) if self._text.startswith("\\", end) else end

    def _ends(self, after: int, place: Within, brackets: Sequence[str], quotation: bool) -> bool:
        """Whether the quote before `after` ends its string, judged by what follows.

        While a quotation is open in the string, only what is plainly a part of the JSON ends both.
        """
        text = self._text
        position, mark = next_mark(text, after)
        if mark == "":
            return True
        if mark in ":：=":
            return place is Within.KEY or (place is Within.ELEMENT and not quotation and mark != "=")
        if mark in COMMA:
            return self._goes_on(position, place, quotation)
        if mark == ")":
            return brackets[-1] == ")"
        if mark in "}]":
            sure = place is Within.KEY or closes(text, position, brackets, self._names)
            return self._ambiguities.choose("quote", after, sure, not sure) if quotation or not sure else True
        if mark == "+":
            return next_mark(text, position + 1)[1] in ("", *QUOTES)
        if COMMENT.match(text, position) and (position > after or mark == "/"):
            return True
        if is_stop(text, position):
            return True
        if place is Within.MEMBER:
            return self._member_follows(after, position, quotation)
        return not quotation and self._value_follows(after, position, mark, place)

    def _member_follows(self, after: int, position: int, quotation: bool) -> bool:
        """Whether a member begins without a comma, or another object on the next line."""
        text = self._text
        if text[position] == "{":
            return (
                "\n" in text[after:position]
                and QUOTED_KEY.match(text, next_mark(text, position + 1)[0]) is not None
            )
        if QUOTED_KEY.match(text, position):
            return True
        if position == after or (quotation and not self._names):
            return False
        if "\n" in text[after:position] and not quotation:
            return may_begin_member(text, position, self._names)
        return begins_member(text, position, self._names)

    def _value_follows(self, after: int, position: int, mark: str, place: Within) -> bool:
        """Whether a value begins, with a comma missing after an element or a colon after a key."""
        text = self._text
        if mark in "{[":
            return next_mark(text, position + 1)[1] in ("", *QUOTES, *"{}[]-0123456789")
        if mark in QUOTES:
            if place is Within.KEY:
                doubled = position == after and _COLON.match(text, position + 1)
                return not doubled and not QUOTED_KEY.match(text, position)
            return next_mark(text, position + 1)[1] not in ("", *COMMA, *"]}")
        return position > after and _SCALAR_FOLLOWS.match(text, position) is not None

    def _goes_on(self, comma: int, place: Within, quotation: bool) -> bool:
        """Whether a comma after a quote belongs to the JSON, because a member or an element follows."""
        text = self._text
        position, mark = next_mark(text, comma + 1)
        while mark and mark in COMMA:
            position, mark = next_mark(text, position + 1)
        if mark in "}])" or is_stop(text, position):
            return True
        if place is Within.KEY:
            return not quotation
        if place is Within.ELEMENT:
            ends, sure = not quotation, begins_element(text, position)
        else:
            ends = not quotation and VALUELESS_KEY.match(text, position) is not None
            sure = mark == "{" or QUOTED_KEY.match(text, position) is not None
            sure = sure or (not quotation and _KEY_WITHOUT_QUOTE.match(text, position) is not None)
            if not quotation or (self._names and not sure):
                sure = sure or may_begin_member(text, position, self._names)
        return sure or self._ambiguities.choose("quote", comma, ends, not ends)

    def _ended_before(
        self, gap: int, quote: int, place: Within, brackets: Sequence[str], inner: int
    ) -> int | None:
        """Where the string ended, if the quote at `quote`, the first after `gap`, begins another string."""
        text = self._text
        before = text[gap:quote]
        if place is Within.KEY:
            return _end_of_key(text, gap, quote)
        if QUOTED_KEY.match(text, quote):
            content = before.rstrip(" \t\r\n{")
            border = before[len(content) :]
            if "\n" not in border and content[-1:] not in (*COMMA, *"}]"):
                return None
            if "{" in border or len(brackets) > 1:
                content = content.rstrip(" \t\r\n}],;")
            return gap + len(content.rstrip(f" \t\r\n{COMMA}"))
        pair = text.find(text[quote], quote + 1)
        if pair < 0:
            return None
        if place is Within.MEMBER:
            end = self._bare_key_before(before)
            if end is None or (inner and before[end] == "\n"):
                return None
            ends = self._ends(pair + 1, place, brackets, False)
            return gap + end if self._ambiguities.choose("key", quote, ends, not ends) else None
        content = before.rstrip()
        if inner % 2 == 0 and content[-1:] in (*COMMA,) and next_mark(text, pair + 1)[1] in (",", "]", ""):
            return gap + len(content) - 1
        return None

    def _bare_key_before(self, before: str) -> int | None:
        """Where the `, key:` begins that `before` ends with."""
        content = before.rstrip()
        if content[-1:] not in (":", "："):
            return None
        content = content[:-1]
        start = max(content.rfind(mark) for mark in f"{COMMA}\n")
        key = content[start + 1 :].strip().rstrip(QUOTES)
        if start < 0 or not _WORD.fullmatch(key) or (self._names and key not in self._names):
            return None
        return start

    def _without_quote(self, begin: int, end: int) -> RepairedString:
        """A string that ended before `end` without a quote, or with an escaped one or one of another kind."""
        text = self._text
        end = begin + len(text[begin:end].rstrip(f" \t\r\n{COMMA}"))
        if text.endswith('\\"', begin, end):
            return RepairedString(
                self._unescaped(text[begin : end - 1] + "\\"), end, "a backslash before a closing quote"
            )
        raw = text[begin:end]
        if raw[-1:] and raw[-1] in QUOTES:
            openings = [opening for opening, closers in CLOSING_QUOTES.items() if raw[-1] in closers]
            if not any(opening in raw[:-1] for opening in openings):
                raw = raw[:-1]
        return RepairedString(self._unescaped(raw), end, "a string without its end")

    def _without_end_quote(
        self, begin: int, remark: int | None, member: int | None, place: Within, brackets: Sequence[str]
    ) -> RepairedString:
        """A string that no quote ends: the text is truncated within it, or its quote was forgotten."""
        text = self._text
        if place is Within.KEY:
            end = _end_of_key(text, begin, len(text))
            if end is None or self._before_last_brackets(begin, brackets) is None:
                return RepairedString(text[begin:], len(text), truncated=True)
            return self._without_quote(begin, end)
        end = self._before_last_brackets(begin, brackets)
        if end is not None:
            bare = _MEMBER_WITHIN.search(text, begin, end) if place is Within.MEMBER else None
            return self._without_quote(begin, min(end, member or end, bare.start() if bare else end))
        if fence := _FENCE_LINE.search(text, begin):
            return self._without_quote(begin, fence.start())
        if remark is not None:
            return self._quoted(begin, remark, remark + 1)
        value = self._unescaped(text[begin : strict.end_of(_WITHOUT_HALF_ESCAPE, text, begin)])
        if "\ud800" <= value[-1:] <= "\udbff":
            value = value[:-1]  # half of a surrogate pair
        return RepairedString(value, len(text), truncated=True)

    def _before_last_brackets(self, begin: int, brackets: Sequence[str]) -> int | None:
        """Where the closing brackets at the end of the text begin, if the string opened none of them."""
        text = self._text
        end = len(text.rstrip(" \t\r\n;`"))
        found = 0
        for bracket in brackets:
            if end <= begin or text[end - 1] != bracket:
                break
            found, end = found + 1, begin + len(text[begin : end - 1].rstrip())
        content = text[begin:end]
        if (
            found < max(1, len(brackets) - 1)
            or content.count("{") > content.count("}")
            or content.count("[") > content.count("]")
        ):
            return None
        return end

    def _quoted(self, begin: int, end: int, after: int, flaw: str = "") -> RepairedString:
        raw = self._text[begin:end]
        if not flaw and not _SOUND.match(raw):
            flaw = "a raw control character or unknown escape in a string"
        return RepairedString(self._unescaped(raw), after, flaw)

    def _unescaped(self, raw: str) -> str:
        """The string that is written as `raw`."""
        if "\\" not in raw:
            return raw
        if _DECODABLE.match(raw):
            return str(_DECODER.decode(f'"{raw}"'))
        self._budget.spend(0, raw.count("\\") // _ESCAPES_A_STEP)
        return _ESCAPE.sub(_unescape, raw)


def _end_of_key(text: str, begin: int, end: int) -> int | None:
    """Where a key without its closing quote ends: before the first colon, if only words come before it."""
    words = _WORDS_OF_KEY.match(text, begin, end)
    return words.end() if words and _COLON.match(text, words.end(), end) else None


def _depth_of(text: str) -> int:
    return text.count("{") + text.count("[") - text.count("}") - text.count("]")


def _unescape(escape: re.Match[str]) -> str:
    high, low, *code, character = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if digits := "".join(filter(None, code)):
        return chr(int(digits, 16))
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    return "\\" + character if _LITERAL_BACKSLASH.match(character) else character
