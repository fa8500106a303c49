"""Rules about a whole object, such as `items_total is none or items_total >= items_shown` (seed 3).

A rule is an expression of Jinja. Its syntax tree is turned into functions of ours: what is not turned does
not run. There are no loops, calls or powers, and arithmetic is of numbers only, so that a rule takes at most
its number of parts times the size of the object.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from trustgraph_prompt.errors import ContractError

MAX_SOURCE = 2_000
MAX_PARTS = 200
MAX_RULES = 100
MAX_BITS = 20_000  # of an integer

WHOLE = "this"
"""The name of the object itself, unless it has a member of that name."""

_JINJA = Environment()

Evaluate = Callable[[Mapping[str, Any]], Any]


class Invariant(NamedTuple):
    """A rule, and what to say where it does not hold; the rule itself where nothing is said."""

    rule: str
    message: str = ""

    @classmethod
    def of(cls, written: object) -> Invariant:
        """From a rule, a pair, or a mapping with the keys `rule` and `message`. Raises `ContractError`."""
        if isinstance(written, str):
            written = (written,)
        if isinstance(written, Mapping):
            unknown = set(written) - set(cls._fields)
            parts = [] if unknown else [written.get("rule"), written.get("message", "")]
        else:
            parts = list(written) if isinstance(written, list | tuple) else []
        if not 1 <= len(parts) <= 2 or not all(isinstance(part, str) for part in parts):
            raise ContractError(
                "this is no invariant", found=written, expected="a rule, or `rule` and `message`"
            )
        return cls(*parts)


class Rule:
    """A compiled invariant. Raises `ContractError` for what is no rule."""

    def __init__(self, invariant: Invariant) -> None:
        self.message = invariant.message or f"{invariant.rule} does not hold"
        self._evaluate = _Compiler(invariant.rule).compile()

    def failure(self, names: Mapping[str, Any]) -> str | None:
        """What to say where the rule does not hold for these names; None where it does."""
        try:
            return None if self._evaluate(names) else self.message
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            return f"{self.message} (cannot be evaluated: {error})"


def failures(rules: Iterable[Rule], value: Any) -> Iterator[str]:
    """What the rules that do not hold for a value have to say."""
    names = {WHOLE: value, **value} if isinstance(value, dict) else {WHOLE: value}
    found = (rule.failure(names) for rule in rules)
    return (message for message in found if message is not None)


def rules(written: Iterable[object]) -> tuple[tuple[Invariant, ...], tuple[Rule, ...]]:
    """Invariants as authors write them, and compiled. Raises `ContractError` with the index."""
    if isinstance(written, str | Mapping):
        written = (written,)
    invariants: list[Invariant] = []
    compiled: list[Rule] = []
    for index, one in enumerate(written):
        try:
            if index >= MAX_RULES:
                raise ContractError("too many invariants", found="more", expected=f"at most {MAX_RULES}")
            invariants.append(Invariant.of(one))
            compiled.append(Rule(invariants[-1]))
        except ContractError as error:
            raise error.at("", f"/invariants/{index}") from None
    return tuple(invariants), tuple(compiled)


class _Missing:
    """What is not there: like null, but not defined."""


_MISSING = _Missing()


def _plain(value: Any) -> Any:
    return None if value is _MISSING else value


class _Compiler:
    def __init__(self, source: str) -> None:
        self._source = source
        self._parts = 0

    def compile(self) -> Evaluate:
        source = self._source
        if len(source) > MAX_SOURCE:
            raise ContractError(
                "the rule is too long", found=len(source), expected=f"at most {MAX_SOURCE:,} characters"
            )
        try:
            parser = Parser(_JINJA, source, state="variable")
            tree = parser.parse_expression()
            if not parser.stream.eos:
                raise TemplateSyntaxError("more follows after the expression", 1)
            return self._value(tree)
        except TemplateSyntaxError as error:
            raise self._unreadable(str(error.message)) from None
        except (RecursionError, ValueError, OverflowError) as error:
            raise self._unreadable(str(error)) from None

    def _unreadable(self, why: str) -> ContractError:
        expected = "a rule such as `total >= shown`"
        return ContractError(f"this is no rule: {why}", found=self._source, expected=expected)

    def _of(self, node: nodes.Node) -> Evaluate:
        """The function of a part; what it gives may be `_MISSING`."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ContractError("the rule is too large", found="more", expected=f"at most {MAX_PARTS} parts")
        match node:
            case nodes.Const(value=value) if value is None or isinstance(value, str | bool | int | float):
                return lambda names: value
            case nodes.List(items=items) | nodes.Tuple(items=items):
                made = [self._value(item) for item in items]
                return lambda names: [one(names) for one in made]
            case nodes.Name(name=name):
                return lambda names: names.get(name, _MISSING)
            case nodes.Getattr(node=inner, attr=key):
                return self._item(inner, nodes.Const(key))
            case nodes.Getitem(node=inner, arg=argument):
                return self._item(inner, argument)
            case nodes.Not(node=inner):
                negated = self._value(inner)
                return lambda names: not negated(names)
            case nodes.And(left=left, right=right):
                one, other = self._value(left), self._value(right)
                return lambda names: one(names) and other(names)
            case nodes.Or(left=left, right=right):
                one, other = self._value(left), self._value(right)
                return lambda names: one(names) or other(names)
            case nodes.CondExpr(test=test, expr1=first, expr2=second):
                asked, yes = self._value(test), self._value(first)
                no = self._value(second or nodes.Const(None))
                return lambda names: yes(names) if asked(names) else no(names)
            case nodes.Compare():
                return self._compare(node)
            case nodes.BinExpr(left=left, right=right) if type(node) in _ARITHMETIC:
                return _calculate(_ARITHMETIC[type(node)], self._value(left), self._value(right))
            case nodes.Neg(node=inner):
                return _calculate(operator.sub, lambda names: 0, self._value(inner))
            case nodes.Filter(node=nodes.Expr() as inner, name=name, args=[], kwargs=[]) if name in FILTERS:
                given, function = self._value(inner), FILTERS[name]
                return lambda names: function(given(names))
            case nodes.Test(node=inner, name="defined" | "undefined" as name, args=[]):
                asked = self._of(inner)
                return lambda names: (asked(names) is _MISSING) == (name == "undefined")
            case nodes.Test(node=inner, name="none", args=[]):
                asked = self._value(inner)
                return lambda names: asked(names) is None
        raise ContractError(
            f"{_described(node)} is not available in rules", found=self._source, expected=AVAILABLE
        )

    def _value(self, node: nodes.Node) -> Evaluate:
        """The function of a part, which gives null for what is not there."""
        function = self._of(node)
        return lambda names: _plain(function(names))

    def _item(self, inner: nodes.Node, argument: nodes.Node) -> Evaluate:
        container, key = self._value(inner), self._value(argument)
        return lambda names: _item(container(names), key(names))

    def _compare(self, node: nodes.Compare) -> Evaluate:
        first = self._value(node.expr)
        others = [(_COMPARISONS[operand.op], self._value(operand.expr)) for operand in node.ops]

        def compare(names: Mapping[str, Any]) -> bool:
            left = first(names)
            for holds, other in others:
                right = other(names)
                if not holds(left, right):
                    return False
                left = right
            return True

        return compare


def _item(container: Any, key: Any) -> Any:
    if isinstance(container, dict) and isinstance(key, str):
        return container.get(key, _MISSING)
    if isinstance(container, list | str) and type(key) is int and -len(container) <= key < len(container):
        return container[key]
    return _MISSING


def _calculate(function: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    def calculate(names: Mapping[str, Any]) -> Any:
        result = function(_number(left(names)), _number(right(names)))
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise ValueError("a number becomes too large")
        if isinstance(result, float) and not math.isfinite(result):
            raise ValueError("a number becomes too large")
        return result

    return calculate


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {_kind(value)}")
    return value


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return function(left, right)
        return function(_number(left), _number(right))

    return compare


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _within(left: Any, right: Any) -> bool:
    if isinstance(right, str) != isinstance(left, str) and not isinstance(right, list | dict):
        raise TypeError(f"cannot look for {_kind(left)} in {_kind(right)}")
    if isinstance(right, dict):
        return isinstance(left, str) and left in right
    return any(_same(left, item) for item in right) if isinstance(right, list) else left in right


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TypeError(f"{_kind(value)} has no length")
    return len(value)


def _text(function: Callable[[str], str]) -> Callable[[Any], str]:
    def apply(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"expected a string, found {_kind(value)}")
        return function(value)

    return apply


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", dict: "an object", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")


def _described(node: nodes.Node) -> str:
    match node:
        case nodes.Filter(name=name) | nodes.Test(name=name):
            return f"`{name}`"
        case nodes.Call():
            return "a call"
    return type(node).__name__.lower()


_ARITHMETIC: dict[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.Mod: operator.mod,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "ne": lambda left, right: not _same(left, right),
    "lt": _ordered(operator.lt),
    "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "gteq": _ordered(operator.ge),
    "in": _within,
    "notin": lambda left, right: not _within(left, right),
}
FILTERS: dict[str, Callable[[Any], Any]] = {
    "length": _length,
    "lower": _text(str.lower),
    "trim": _text(str.strip),
    "upper": _text(str.upper),
}
AVAILABLE = (
    "names, constants, lists, items, `and or not`, `if else`, comparisons, `in`, `+ - * / %` of numbers, "
    f"the tests defined, none and undefined, the filters {', '.join(FILTERS)}"
)
