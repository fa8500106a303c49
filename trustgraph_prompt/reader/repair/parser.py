"""Parses broken JSON: members and elements, with anything missing or superfluous between them."""

from __future__ import annotations

import json
import re
from typing import Any

from trustgraph_prompt.json_text import grammar as strict
from trustgraph_prompt.json_text.grammar import end_of
from trustgraph_prompt.outcome import Edit
from trustgraph_prompt.reader.repair.ambiguities import Ambiguities, RepairBudget
from trustgraph_prompt.reader.repair.bare_values import BareValues, Half
from trustgraph_prompt.reader.repair.brackets import Brackets, OpenBracket
from trustgraph_prompt.reader.repair.grammar import (
    COLON,
    COMMA,
    COMMENT,
    ELLIPSIS,
    FENCE,
    QUOTED_KEY,
    QUOTES,
    SPACE,
    Names,
    Within,
    begins_member,
    key_at,
    next_mark,
)
from trustgraph_prompt.reader.repair.strings import Strings

_MOST_EDITS = 100  # recorded for one value

# Several members or elements of strict JSON at once, where what follows leaves no doubt.
_BLANK = strict.SPACE
_SCALAR = rf"(?:{strict.STRING}|-?(?:0|[1-9][0-9]{{0,300}}+)(?:\.[0-9]{{1,300}}+)?+|true|false|null)"
_ARRAY = strict.array(_SCALAR)
_KEY = rf"{strict.STRING}{_BLANK}:"
_MEMBER = strict.member(f"(?:{_SCALAR}|{_ARRAY})")
_OBJECT = strict.object_(f"(?:{_SCALAR}|{_ARRAY})")
_MEMBERS = re.compile(rf"(?>{_BLANK}{_MEMBER},)+(?={_BLANK}{_KEY})")
_ELEMENTS = re.compile(
    rf"(?>{_BLANK}(?:{_SCALAR}|{_ARRAY}|{_OBJECT}){_BLANK},)+(?={_BLANK}(?:{_SCALAR}{_BLANK}[],]|[\[{{]))"
    rf"|{_BLANK}{_OBJECT}"
)

_SPACE = re.compile(SPACE)
_COMMAS = re.compile(rf"[{COMMA}](?:{SPACE}[{COMMA}])*+")
_COLONS = re.compile(rf"{COLON}(?:{SPACE}{COLON})*+")
_LINE = re.compile(r"[^\n]*+")
_TO_CLOSER = re.compile(r"[^\n}\]]*+")
_OMITTED = re.compile(r"(?:\.{3,}|…)[^,\]}\n\"']*+")
_FENCE_LINE = re.compile(r"`{3,}[ \t]*\w*")
_WORD = rf"(?:[^\s{QUOTES}{{}}\[\]()<>,，;:：=/#\\]|/(?![/*]))++"
_BARE_KEY = re.compile(rf"({_WORD}(?:[ \t]++{_WORD}){{0,5}}+)[{QUOTES}]?(?={SPACE}(?:[:：]|=))")
_BARE_WORD = re.compile(rf"{_WORD}(?={SPACE}([{QUOTES}\[{{,}}]|\Z))")
_MISPLACED = re.compile(rf"[^\s{QUOTES}{{}}\[\],]++|(?s:.)")
_KEY_OF_LOST_OBJECT = re.compile(rf"[^\W\d][\w$-]*+{SPACE}[:：]{SPACE}[{QUOTES}\[{{\d-]")
_PREFIX = re.compile(
    rf"(?:[rbfuRBFU]|[rR][bBfF]|[bBfF][rR])(?=\"(?!{SPACE}[:：])[^\s\",\]}}][^\"]*+\"|'[^\s',\]}}][^']*+')"
)
# A call with one argument; other calls are text.
_CALL = re.compile(
    r"(?:new\s+)?[^\W\d][\w$.]*+\s*+\((?=\s*+(?:[{\[]|(?:\"[^\"\n]*+\"|'[^'\n]*+'|`[^`\n]*+`|-?[\d.]++)\s*+\)))"
)
_TUPLE = re.compile(r"\((?=\s*+(?:[\"'\[{(]|-?[\d.]++\s*+,|(?:None|True|False)\b|\)))")
_PLACEHOLDER = re.compile(r"\{[^\W\d][\w.]*+\}(?=\s*+[,}\]])|\{\{ ?[^\W\d][\w.]*+ ?\}\}(?=\s*+[,}\]])")
_ESCAPED_QUOTES = re.compile(r'\\"[^"]*+(?<=\\)"')
_JOIN = re.compile(rf"{SPACE}\+{SPACE}(?=[{QUOTES}]|\Z)")


class Parser:
    """Reads one value of `text`; its public attributes are those of `RepairedValue`."""

    def __init__(
        self, text: str, names: Names, ambiguities: Ambiguities, budget: RepairBudget, max_depth: int
    ) -> None:
        self.end = 0
        self.truncated = False
        self.dropped = False
        self.half = False
        self.edits: list[Edit] = []
        self._text = text
        self._names = names
        self._ambiguities = ambiguities
        self._budget = budget
        self._strings = Strings(text, names, ambiguities, self._budget)
        self._words = BareValues(text, names, ambiguities, self._budget)
        self._brackets = Brackets(text, names, max_depth)
        self._missing_first = ""
        self._meant = False  # whether something came that only JSON has

    def read(self, start: int, missing: str = "") -> Any:
        """The value whose bracket is at `start`, or `missing` there; `NOTHING` where no value was meant.

        Raises `Unrepairable`.
        """
        self._begin(missing or self._text[start], start)
        self._missing_first = missing
        if missing:
            self._edit(start, "a missing opening bracket")
            self.end = start
        while self._brackets.open:
            self._budget.spend(self.end)
            top = self._top
            if top.bracket == "{":
                self._read_member(top)
            else:
                self._read_element(top)
        return self._brackets.value

    @property
    def _top(self) -> OpenBracket:
        return self._brackets.open[-1]

    # Brackets

    def _begin(self, bracket: str, start: int, *, called: bool = False) -> OpenBracket:
        self.end = start + 1
        return self._brackets.begin(bracket, start, called=called)

    def _read_closer(self, mark: str) -> None:
        closed = self._brackets.closed_by(self.end)
        if closed == 0:
            self._edit(self.end, "a closing bracket too many, or too early")
        elif closed > 1 or mark != self._brackets.missing[-1]:
            self._edit(self.end, "a missing or wrong closing bracket")
        for _ in range(closed):
            self._brackets.close()
        self.end += 1

    def _end_cut(self) -> None:
        """Close all brackets at the end of the text; an element without content is dropped.

        A value whose first bracket is missing may lack the last one, too, without being truncated.
        """
        self.truncated = (
            self.truncated or self.dropped or len(self._brackets.open) > 1 or not self._missing_first
        )
        self.end = len(self._text)
        brackets = self._brackets
        while brackets.open:
            *outer, last = brackets.open[-2:]
            is_element = bool(outer) and outer[0].key is None
            if is_element and last.is_empty and self._ambiguities.choose("empty", last.start, True, False):
                brackets.drop()
            else:
                brackets.close()

    def _read_fence(self) -> None:
        """A fence ends the value, unless the value continues after it."""
        fence = _FENCE_LINE.match(self._text, self.end)
        assert fence is not None
        position, mark = next_mark(self._text, fence.end())
        if mark and (mark in "}]" or begins_member(self._text, position, self._names)):
            self._edit(self.end, "a code fence within the value")
            self.end = fence.end()
            return
        self._edit(self.end, "a code fence before the closing bracket")
        self._brackets.close_all()

    # Between values

    def _edit(self, offset: int, what: str) -> None:
        if what and len(self.edits) < _MOST_EDITS:
            self.edits.append(Edit(offset, what))

    def _next(self, *, commas: bool = False) -> str:
        """Pass space, comments, ellipses and perhaps commas, and return the next character, "" at the end."""
        text = self._text
        passed = 0
        while True:
            start = self.end
            self.end = strict.skip_space(text, start)
            mark = text[self.end : self.end + 1]
            if mark in '"{[}]':  # or the end
                break
            if commas and mark in COMMA:
                if mark != ",":
                    self._edit(self.end, "another mark than a comma")
                self.end = end_of(_COMMAS, text, self.end)
                passed += 1 if self.end - start == 1 or text[start : self.end].strip() in COMMA else 2
            elif COMMENT.match(text, self.end):
                self._pass_comment()
            elif ELLIPSIS.match(text, self.end):
                self._edit(self.end, "something left out")
                self.end = end_of(_OMITTED, text, self.end)
            else:
                space = end_of(_SPACE, text, self.end)
                if space == self.end:
                    break
                self._edit(self.end, "a space that is not JSON's")
                self.end = space
        if commas:
            self._count_commas(passed, mark)
        return mark

    def _count_commas(self, passed: int, mark: str) -> None:
        top = self._top
        top.commas += passed
        expected = 0 if top.is_empty or mark in "}])" else 1
        if passed != expected and mark:
            self._edit(self.end, "a missing comma" if passed < expected else "a comma too many")

    def _pass_comment(self) -> None:
        """Pass a comment, which ends with its line, or with the object or array that begins on its line."""
        text, start = self._text, self.end
        self._edit(start, "a comment")
        if text.startswith("/*", start):
            end = text.find("*/", start + 2)
            self.end = end + 2 if end >= 0 else len(text)
            return
        self.end = end_of(_LINE, text, start)
        if self.end == len(text) or text.find("\n", self._top.start, start) < 0:
            closer = end_of(_TO_CLOSER, text, start)
            self.end = min(closer, self.end)

    # Members

    def _read_member(self, top: OpenBracket) -> None:
        text = self._text
        commas = top.commas
        mark = self._next(commas=True)
        if mark and top.commas == commas and key_at(text, self.end) in top.members:
            self._end_object()
        elif mark == '"' and (run := _MEMBERS.match(text, self.end)):
            top.members |= json.loads("{" + run[0][:-1] + "}")
            self._meant = True
            self.end = run.end() - 1
        elif mark == "":
            self._end_cut()
        elif mark in "}])":
            self._read_closer(mark)
        elif FENCE.match(text, self.end):
            self._read_fence()
        elif mark == "{" and top.members:
            self._end_object()
        elif mark in "{[":
            self._open_without_key(top, mark)
        else:
            self._read_key(top)

    def _end_object(self) -> None:
        """Close all open objects up to an array, since another begins: with `{`, or a key that is there."""
        self._edit(self.end, "a missing closing bracket")
        while self._brackets.open and self._top.bracket == "{":
            self._brackets.close()

    def _open_without_key(self, top: OpenBracket, mark: str) -> None:
        """Braces that are doubled or of a set; or an array that was closed too early continues."""
        start = self.end
        last = next(reversed(top.members), None)
        if mark == "[" and last is not None and isinstance(top.members[last], list):
            self._edit(start, "an array closed too early")
            top.key = last
            self._begin("[", start).items = top.members[last]
            return
        self._edit(start, "a value without a key")
        self._begin(mark, start)

    def _read_key(self, top: OpenBracket) -> None:
        text, start = self._text, self.end
        if prefix := _PREFIX.match(text, start):
            self.end = prefix.end()
        if text[self.end] in QUOTES or _ESCAPED_QUOTES.match(text, self.end):
            quoted = self._strings.read(self.end, Within.KEY, self._brackets.missing)
            if quoted.truncated:
                self.dropped = True
                self._end_cut()
                return
            key, self.end, flaw = quoted.value, quoted.end, quoted.flaw
            self._meant = True
        elif (bare := _BARE_KEY.match(text, start)) and (
            " " not in bare[1] or not self._has_quoted_keys(top)
        ):
            key, self.end, flaw = bare[1], bare.end(), "a key without quotes"
        elif (word := _BARE_WORD.match(text, start)) and (not word[1] or self._may_be_key(word)):
            key, self.end, flaw = word[0], word.end(), "a key without quotes"
            if word[1] in (",", "}"):
                self._edit(start, "a word without a value")
                if not top.members:
                    top.items.append(self._words.meaning(key, start)[0])  # of a set
                return
        else:
            self._pass_misplaced(top)
            return
        self._edit(start, flaw)
        self._read_value_of(top, key)

    def _may_be_key(self, word: re.Match[str]) -> bool:
        """Whether a word may be a key without its colon, or a member of a set; not a word before a key."""
        if not self._meant and word[1] in ",}":
            return False  # `{name}`, `{1, 2}`
        return QUOTED_KEY.match(self._text, word.start(1)) is None

    def _has_quoted_keys(self, top: OpenBracket) -> bool:
        start = end_of(_SPACE, self._text, top.start + 1)
        return not top.is_empty and self._text[start : start + 1] in QUOTES

    def _pass_misplaced(self, top: OpenBracket) -> None:
        """Pass what cannot belong here; if nothing else came so far, no value was meant."""
        if not self._meant:
            self._brackets.open.clear()
            return
        self._edit(self.end, "something that has no place there")
        self.end = end_of(_MISPLACED, self._text, self.end)

    def _read_value_of(self, top: OpenBracket, key: str) -> None:
        """Read what follows a key: a colon and a value, or what is there instead."""
        text = self._text
        mark = self._next()
        colon = _COLONS.match(text, self.end)
        if colon:
            self._meant = True
            if len(colon[0]) > 1 or mark != ":":
                self._edit(self.end, "another mark than a colon")
            self.end = colon.end()
            before = self.end
            mark = self._next()
        if mark == "":
            self.dropped = True
            self._end_cut()
            return
        if mark in "}])" or mark in COMMA or (colon and self._goes_on_without_value(before)):
            self._edit(self.end, "a member without its value")
            if not colon:
                top.items.append(key)
            elif self._ambiguities.choose("value", self.end, True, False):
                top.members[key] = None
            else:
                top.commas += 1  # the next member needs no comma before it
            return
        if not colon:
            self._edit(self.end, "a missing colon")
        top.key = key
        self._read_value(Within.MEMBER, mark)

    def _goes_on_without_value(self, colon: int) -> bool:
        """Whether the next member or a fence begins on a later line than the colon."""
        text = self._text
        if "\n" not in text[colon : self.end]:
            return False
        return QUOTED_KEY.match(text, self.end) is not None or FENCE.match(text, self.end) is not None

    # Elements

    def _read_element(self, top: OpenBracket) -> None:
        text = self._text
        mark = self._next(commas=True)
        if top.bracket == "[" and mark and (run := _ELEMENTS.match(text, self.end)):
            elements = run[0].removesuffix(",")
            top.items += json.loads(f"[{elements}]")
            self._meant = True
            self.end += len(elements)
        elif mark == "":
            self._end_cut()
        elif mark in "}])":
            self._read_closer(mark)
        elif FENCE.match(text, self.end):
            self._read_fence()
        elif mark in ":：=":
            self._pass_misplaced(top)
        elif key := QUOTED_KEY.match(text, self.end) or _KEY_OF_LOST_OBJECT.match(text, self.end):
            self._read_member_of_array(top, key[0])
        else:
            self._read_value(Within.ELEMENT, mark)

    def _read_member_of_array(self, top: OpenBracket, key: str) -> None:
        """At a key in an array: an object's opening bracket is missing, or the array's closing one."""
        start = self.end
        before = top.items[-1] if top.items else None
        known = isinstance(before, dict) and any(key.find(name, 0, len(name) + 1) >= 0 for name in before)
        if self._brackets.missing[-2:-1] == ["}"] and top.items and not known:
            self._edit(start, "a missing closing bracket")
            self._brackets.close()
            return
        self._edit(start, "an object without its opening bracket")
        self._begin("{", start)
        self.end = start

    # Values

    def _read_value(self, place: Within, mark: str) -> None:
        text, start = self._text, self.end
        self._meant = self._meant or mark not in "{["
        if placeholder := _PLACEHOLDER.match(text, start):
            self.end = placeholder.end()
            self._edit(start, "text without quotes")
            self._top.put(placeholder[0])
        elif mark in "{[":
            self._begin(mark, start)
        elif call := _CALL.match(text, start) or _TUPLE.match(text, start):
            self._edit(start, "a call or a tuple")
            self._begin("(", call.end() - 1, called=call.end() - start > 1)
        elif mark in QUOTES or _PREFIX.match(text, start) or _ESCAPED_QUOTES.match(text, start):
            self._read_string(place)
        else:
            self._read_word(place)

    def _read_string(self, place: Within) -> None:
        """Read a string, or several that are joined by `+`."""
        text, start = self._text, self.end
        value = ""
        while True:
            self._budget.spend(self.end)
            if prefix := _PREFIX.match(text, self.end):
                self._edit(self.end, "a prefix before a string")
                self.end = prefix.end()
            quoted = self._strings.read(self.end, place, self._brackets.missing)
            self._edit(self.end, quoted.flaw)
            value += quoted.value
            self.end = quoted.end
            join = None if quoted.truncated else _JOIN.match(text, self.end)
            if join is None:
                break
            self._edit(self.end, "strings that are joined")
            self.end = join.end()
            if self.end == len(text):
                break
        top = self._top
        self.truncated = self.truncated or quoted.truncated
        if quoted.truncated and not self._ambiguities.choose("cut string", start, True, False):
            top.key = None
            self.dropped = True
        else:
            self.half = quoted.truncated
            top.put(value)

    def _read_word(self, place: Within) -> None:
        """Read a value without quotes; one that may be incomplete is dropped.

        A number is kept if other marks are missing as well: then the closing bracket was forgotten.
        """
        text, start, top = self._text, self.end, self._top
        bare = self._words.read(start, place, self._brackets.missing)
        self.end = bare.end
        kept = bare.half is Half.NUMBER and bool(self.edits)
        if bare.half and not self._ambiguities.choose("cut word", start, kept, not kept):
            top.key = None
            self.dropped = True
            return
        self._edit(start, bare.flaw)
        self.half = self.end == len(text) and isinstance(bare.value, str)
        top.put(bare.value)
