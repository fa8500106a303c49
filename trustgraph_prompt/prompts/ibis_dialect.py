"""TrustGraph's dialect: ibis templates, parsed into the same syntax tree as Jinja's.

A template of ibis 3.3 renders the same here, or it is rejected when it is loaded: for calls, for blocks that
assign, include or buffer, and for filters that `filters.IBIS` does not have.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from jinja2 import ChainableUndefined, nodes

from trustgraph_prompt.errors import RenderError, TemplateError
from trustgraph_prompt.prompts import filters
from trustgraph_prompt.prompts.sandbox import Sandbox


class IbisUndefined(ChainableUndefined):
    """An undefined value, which in ibis equals nothing, not even itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = ChainableUndefined.__hash__


class Ibis(Sandbox):
    """Renders values as Python's `str` does (None, True, {'a': 1}), and keeps all white space."""

    def __init__(self) -> None:
        super().__init__(filters.IBIS, undefined=IbisUndefined, keep_trailing_newline=True)

    def tree(self, source: str) -> nodes.Template:
        return parse(source)

    def text(self, value: Any) -> str:
        return str(value)

    def loop(self, index: int, length: int, parent: Any) -> dict[str, Any]:
        return {
            "index": index,
            "count": index + 1,
            "length": length,
            "is_first": index == 0,
            "is_last": index == length - 1,
            "parent": parent,
        }

    def rounds(self, value: Any) -> Sequence[Any]:
        return super().rounds(value) if isinstance(value, str | list | tuple | dict) else ()

    def unpack(self, item: Any, names: int) -> Sequence[Any]:
        values = (
            item if isinstance(item, list | tuple | str) else list(item) if isinstance(item, dict) else ()
        )
        if len(values) < names:
            raise RenderError(f"cannot unpack {filters.kind(item)} into {names} loop variables")
        return values[:names]

    def getitem(self, obj: Any, argument: Any) -> Any:
        """One step of `a.b.0`: a key or an index."""
        if isinstance(obj, list | tuple | str) and isinstance(argument, str) and argument.isdecimal():
            argument = int(argument[:20])
        return super().getitem(obj, argument)


_OPENING = re.compile(r"\{[#$%{]")
_CLOSING = {"{#": "#}", "{$": "$}", "{{": "}}", "{%": "%}"}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "lteq", ">=": "gteq", "in": "in"}
_TOKEN = re.compile(
    r"""\s*(?: (?P<string> "(?:[^\\"]|\\.)*" | '(?:[^\\']|\\.)*' )
             | (?P<word> -?[\w.]+ )
             | (?P<sign> \?\? | :: | \|\| | && | [=!<>]= | [<>|(),\[\]] )
             | (?P<other> \S ) )""",
    re.VERBOSE | re.DOTALL,
)


def parse(source: str) -> nodes.Template:
    """Parse a template. Raises `TemplateError` with the line."""
    return _TemplateParser(source).template()


def _refuse(line: int, message: str) -> NoReturn:
    raise TemplateError.in_line(line, message)


@dataclass(slots=True)
class _Block:
    """An open block, the body that continues after it, and whether its last branch has begun."""

    node: nodes.For | nodes.If
    after: list[nodes.Node]
    last_branch: bool = False


class _TemplateParser:
    """Reads the tags in order; `_body` receives the next node."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._line = 1
        self._root = nodes.Template([], lineno=1)
        self._body: list[nodes.Node] = self._root.body
        self._open: list[_Block] = []

    def template(self) -> nodes.Template:
        for opening, text in self._tags():
            if opening == "":
                self._output(nodes.TemplateData(text))
            elif opening == "{%":
                self._instruction(text)
            elif opening == "{{":
                self._output(_Expression(text, self._line).printed())
            elif opening == "{$":
                text_node = _filter(_Expression(text, self._line).printed(), "str")
                self._output(_filter(text_node, "escape"))
        if self._open:
            _refuse(self._open[-1].node.lineno, "the block opened here is not closed")
        return self._root

    def _tags(self) -> Iterator[tuple[str, str]]:
        """The parts of the source: ("", literal text) or (opening delimiter, content of the tag)."""
        position = 0
        while match := _OPENING.search(self._source, position):
            opening = match[0]
            if match.start() > position:
                yield "", self._source[position : match.start()]
            self._line += self._source.count("\n", position, match.start())
            end = self._source.find(_CLOSING[opening], match.end())
            if end < 0:
                _refuse(self._line, f"`{opening}` is not closed by `{_CLOSING[opening]}`")
            yield opening, self._source[match.end() : end].strip()
            self._line += self._source.count("\n", match.start(), end)
            position = end + 2
        if position < len(self._source):
            yield "", self._source[position:]

    def _output(self, node: nodes.Expr) -> None:
        self._body.append(nodes.Output([node.set_lineno(self._line)], lineno=self._line))

    def _instruction(self, text: str) -> None:
        keyword, rest = (*text.split(None, 1), "", "")[:2]
        block = self._open[-1] if self._open else None
        match keyword, block:
            case "if", _:
                self._enter(nodes.If(self._condition(rest), [], [], [], lineno=self._line))
            case "for", _:
                target, over = _Expression(rest, self._line).loop()
                self._enter(nodes.For(target, over, [], [], None, False, lineno=self._line))
            case "elif", _Block(nodes.If() as node, _, False):
                branch = nodes.If(self._condition(rest), [], [], [], lineno=self._line)
                node.elif_.append(branch)
                self._body = branch.body
            case ("else", _Block(nodes.If() as node, _, False)) | (
                "empty",
                _Block(nodes.For() as node, _, False),
            ):
                self._open[-1].last_branch = True
                self._body = node.else_
            case ("endif", _Block(nodes.If())) | ("endfor", _Block(nodes.For())):
                self._body = self._open.pop().after
            case (("elif" | "else" | "empty" | "endif" | "endfor"), _):
                _refuse(self._line, f"`{{% {keyword} %}}` is out of place")
            case _:
                _refuse(self._line, f"`{{% {keyword} %}}` is not available in templates")

    def _enter(self, node: nodes.For | nodes.If) -> None:
        self._open.append(_Block(node, self._body))
        self._body.append(node)
        self._body = node.body

    def _condition(self, text: str) -> nodes.Expr:
        return _Expression(text, self._line).condition()


class _Expression:
    """Parses the content of one tag."""

    def __init__(self, text: str, line: int) -> None:
        self._line = line
        self._tokens: list[tuple[str, str]] = []
        for match in _TOKEN.finditer(text.rstrip()):
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
            if kind == "other":  # nothing is read beyond, such as the rest of a string without its end
                break
        self._tokens.append(("end", "the end of the tag"))
        self._at = 0

    def printed(self) -> nodes.Expr:
        """`a`, `a or b or c` (the first non-empty one, else the last), or `test ?? a :: b`."""
        value = self._value()
        if self._take("??"):
            chosen = self._value()
            self._expect("::")
            value = nodes.CondExpr(value, chosen, self._value(), lineno=self._line)
        else:
            while self._take("or", "||"):
                value = nodes.Or(value, self._value(), lineno=self._line)
        return self._done(value)

    def condition(self) -> nodes.Expr:
        """`[not] a [op b]`, joined by `and` and `or`."""
        return self._done(
            self._joined(nodes.Or, ("or", "||"), lambda: self._joined(nodes.And, ("and", "&&"), self._test))
        )

    def loop(self) -> tuple[nodes.Expr, nodes.Expr]:
        """`a, b in value`: the target and the iterated value."""
        names: list[nodes.Expr] = [self._loop_variable()]
        while self._take(","):
            names.append(self._loop_variable())
        self._expect("in")
        target = names[0] if len(names) == 1 else nodes.Tuple(names, "store", lineno=self._line)
        return target, self._done(self._value())

    def _joined(
        self, kind: type[nodes.And | nodes.Or], words: tuple[str, ...], part: Callable[[], nodes.Expr]
    ) -> nodes.Expr:
        value = part()
        while self._take(*words):
            value = kind(value, part(), lineno=self._line)
        return value

    def _test(self) -> nodes.Expr:
        if self._take("not"):
            return nodes.Not(self._test(), lineno=self._line)
        value = self._value()
        kind, text = self._tokens[self._at]
        operator = _COMPARISONS.get(text) if kind != "string" else None
        if self._take("not"):
            operator = "notin"
        if operator is None:
            return value
        self._expect(*_COMPARISONS)
        return nodes.Compare(value, [nodes.Operand(operator, self._value())], lineno=self._line)

    def _value(self) -> nodes.Expr:
        value = self._primary()
        while self._take("|"):
            name = self._word()
            value = _filter(value, name, self._literals(")") if self._take("(") else [])
        return value

    def _primary(self) -> nodes.Expr:
        kind, text = self._tokens[self._at]
        if kind != "word" or _is_literal(text):
            items = [self._literal()]
            while self._take(","):
                items.append(self._literal())
            return items[0] if len(items) == 1 else nodes.Tuple(items, "load", lineno=self._line)
        self._at += 1
        first, *keys = text.split(".")
        if not all((first, *keys)) or not f"l_{first}".isidentifier():
            _refuse(self._line, f"`{text}` is not a valid name")
        value: nodes.Expr = nodes.Name(first, "load", lineno=self._line)
        for key in keys:
            value = nodes.Getattr(value, key, "load", lineno=self._line)
        if self._take("("):
            value = nodes.Call(value, self._literals(")"), [], None, None, lineno=self._line)
        return value

    def _literals(self, closing: str) -> list[nodes.Expr]:
        literals: list[nodes.Expr] = []
        while not self._take(closing):
            literals.append(self._literal())
            if self._tokens[self._at][1] != closing:
                self._expect(",")
        return literals

    def _literal(self) -> nodes.Expr:
        kind, text = self._tokens[self._at]
        self._at += 1
        if (kind, text) == ("sign", "["):
            return nodes.List(self._literals("]"), lineno=self._line)
        if (kind, text) == ("sign", "("):
            return nodes.Tuple(self._literals(")"), "load", lineno=self._line)
        if kind == "string" or (kind == "word" and _is_literal(text)):
            try:
                value = ast.literal_eval(text)
            except (SyntaxError, ValueError):
                value = ...
            if value is None or isinstance(value, str | bool | int | float):
                return nodes.Const(value, lineno=self._line)
        _refuse(self._line, f"found {text:.40}, expected a name or a literal")

    def _loop_variable(self) -> nodes.Expr:
        name = self._word()
        if "." in name or not f"l_{name}".isidentifier():
            _refuse(self._line, f"`{name}` is not a valid name for a loop variable")
        return nodes.Name(name, "store", lineno=self._line)

    def _word(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "word":
            _refuse(self._line, f"found {text:.40}, expected a name")
        self._at += 1
        return text

    def _take(self, *texts: str) -> bool:
        kind, text = self._tokens[self._at]
        found = kind in ("word", "sign") and text in texts
        self._at += found
        return found

    def _expect(self, *texts: str) -> None:
        if not self._take(*texts):
            _refuse(self._line, f"found {self._tokens[self._at][1]:.40}, expected {' or '.join(texts)}")

    def _done(self, value: nodes.Expr) -> nodes.Expr:
        kind, text = self._tokens[self._at]
        if kind != "end":
            _refuse(self._line, f"found {text:.40}, expected the end of the tag")
        return value


def _is_literal(word: str) -> bool:
    return word in ("True", "False", "None") or word[0] in "-.0123456789"


def _filter(value: nodes.Expr, name: str, arguments: Sequence[nodes.Expr] = ()) -> nodes.Filter:
    return nodes.Filter(value, name, list(arguments), [], None, None, lineno=value.lineno)
