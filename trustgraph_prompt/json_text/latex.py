r"""Restores LaTeX commands of which a JSON escape took the beginning: `"\frac"` is a form feed and `rac`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Final

_LETTERS = {"\b": "b", "\f": "f", "\t": "t", "\n": "n", "\r": "r"}

_NAMES = """
backslash bar barwedge because begin beta beth between bf bfseries big bigcap bigcirc bigcup bigg biggl
biggr bigl bigm bigodot bigoplus bigotimes bigr bigsqcup bigstar bigtriangledown bigtriangleup biguplus
bigvee bigwedge binom blacksquare bm bmatrix bmod boldsymbol bot bowtie box boxdot boxed boxminus
boxplus boxtimes breve bullet bumpeq fbox flat footnote footnotemark footnotesize footnotetext forall
frac frak frown tan tanh tau tbinom text textbf textcolor textit textmd textnormal textrm textsc textsf
textsubscript textsuperscript texttt textup tfrac therefore theta thickapprox thicksim tilde times tiny
to top triangle triangledown triangleleft trianglelefteq triangleq triangleright trianglerighteq tt
nabla ncong ne nearrow neg neq newline nexists ngeq ngtr ni nleftarrow nleq nless nmid nolimits nonumber
norm not notin nparallel nprec npreceq nrightarrow nsim nsubseteq nsucc nsucceq nsupseteq nu nwarrow
rVert rangle rbrace rbrack rceil ref rfloor rho rhd right rightarrow rightharpoondown rightharpoonup
rightleftarrows rightleftharpoons rightsquigarrow rm root rtimes rule rvert
"""
_COMMANDS = frozenset(_NAMES.split())

_ESCAPES = (r"\b", r"\f", r"\u000", r"\t", r"\n", r"\r")
_HINT = re.compile(r"\\(?:[bf(\[]|u000)")
_EATEN = re.compile(r"([\b\f\t\n\r])([A-Za-z]++)")
_EATEN_ANYWHERE = re.compile(r"([\b\f])([A-Za-z]++)")
_DELIMITERS = re.compile(r"(?<!\\)(\\[()\[\]]|\$\$?)")
_CLOSES: Final = {"$": "$", "$$": "$$", r"\(": r"\)", r"\[": r"\]"}


def may_be_eaten(json_text: str) -> bool:
    """Whether a string of a JSON text may have lost the beginning of a command; most texts cannot."""
    return has_hint(json_text) and any(escape in json_text for escape in _ESCAPES)


def has_hint(json_text: str) -> bool:
    """Whether a part of a JSON text has an escape that takes a beginning anywhere, or may have a formula."""
    return "$" in json_text or ("\\" in json_text and _HINT.search(json_text) is not None)


def control_words(text: str) -> frozenset[str]:
    """The words of a text with a control character before them."""
    return frozenset(found[0] for found in _EATEN.finditer(text))


def restored(text: str, written: Container[str]) -> str:
    """The text with its commands restored, except for what is `written`, as `control_words` has it.

    A backspace or form feed before the rest of a command is nothing else anywhere; a tab, newline or return
    may be, and counts only within `$…$`, `\\(…\\)` and `\\[…\\]`.
    """

    def command(eaten: re.Match[str]) -> str:
        name = _LETTERS[eaten[1]] + eaten[2]
        return f"\\{name}" if name in _COMMANDS and eaten[0] not in written else eaten[0]

    return _in_formulas(_EATEN_ANYWHERE.sub(command, text), lambda part: _EATEN.sub(command, part))


def _in_formulas(text: str, change: Callable[[str], str]) -> str:
    """Change what is in formulas. A `$` before a digit or after white space closes none: it is a dollar."""
    parts = _DELIMITERS.split(text)
    opened = 0
    for index in range(1, len(parts), 2):
        mark, before, after = parts[index], parts[index - 1][-1:], parts[index + 1][:1]
        may_close = mark != "$" or not (before.isspace() or after.isdigit())
        if opened and may_close and mark == _CLOSES[parts[opened]]:
            parts[opened + 1 : index : 2] = map(change, parts[opened + 1 : index : 2])
            opened = 0
        elif mark in _CLOSES and not (mark == "$" and after == " ") and (not opened or mark == parts[opened]):
            opened = index
    return "".join(parts)
