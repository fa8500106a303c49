"""Rules about a whole object, such as `items_total is none or items_total >= items_shown` (AION).

A rule is a Jinja expression, whose syntax tree is compiled to our own functions; other syntax is rejected.
Without loops, calls, powers and arithmetic on strings, a rule takes at most its number of parts times the
size of the object. The step meter of the answer counts this.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from trustgraph_prompt.contract.limits import VALUE, StepMeter, TooCostly, size
from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.values import is_same

MAX_SOURCE = 2_000
MAX_PARTS = 200
MAX_RULES = 100
MAX_BITS = 20_000  # of an integer

WHOLE = "this"
"""The name of the object itself, unless it has a member with that name."""

_JINJA = Environment()

_PART = 80
"""Steps for each part of a rule, each member of the object, and each item that `in` compares."""


class Scope(NamedTuple):
    """The values of the names in a rule, and the meter for its steps."""

    names: Mapping[str, Any]
    meter: StepMeter


Evaluate = Callable[[Scope], Any]


class Invariant(NamedTuple):
    """A rule, and the message if it does not hold, by default with the rule itself."""

    rule: str
    message: str = ""

    @classmethod
    def of(cls, written: object) -> Invariant:
        """Make one from a rule, a pair, or a mapping with `rule` and `message`. Raises `ContractError`."""
        if isinstance(written, str):
            written = (written,)
        if isinstance(written, Mapping):
            unknown = set(written) - set(cls._fields)
            parts = [] if unknown else [written.get("rule"), written.get("message", "")]
        else:
            parts = list(written) if isinstance(written, list | tuple) else []
        if not 1 <= len(parts) <= 2 or not all(isinstance(part, str) for part in parts):
            raise ContractError("invalid invariant", found=written, expected="a rule, or rule and message")
        return cls(*parts)


class InvariantRule:
    """A compiled invariant. Raises `ContractError` for an invalid rule."""

    def __init__(self, invariant: Invariant) -> None:
        self.message = invariant.message or f"{invariant.rule} does not hold"
        compiler = _Compiler(invariant.rule)
        self._evaluate = compiler.compile()
        self._steps = _PART * compiler.parts

    def failure(self, scope: Scope) -> str | None:
        """The message if the rule does not hold, else None. Raises `TooCostly`."""
        scope.meter.spend(self._steps)
        try:
            return None if self._evaluate(scope) else self.message
        except TooCostly:
            raise
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            return f"{self.message} (cannot be evaluated: {error})"


def failures(rules: Sequence[InvariantRule], value: Any, meter: StepMeter) -> Iterator[tuple[int, str]]:
    """The index and the message of each rule that does not hold for a value. Raises `TooCostly`."""
    names = {WHOLE: value, **value} if rules and isinstance(value, dict) else {WHOLE: value}
    scope = Scope(names, meter)
    found = (rule.failure(scope) for rule in rules)
    return ((index, message) for index, message in enumerate(found) if message is not None)


def rules(written: Iterable[object]) -> tuple[tuple[Invariant, ...], tuple[InvariantRule, ...]]:
    """Parse and compile invariants. Raises `ContractError` with the index."""
    if isinstance(written, str | Mapping):
        written = (written,)
    invariants: list[Invariant] = []
    compiled: list[InvariantRule] = []
    for index, each in enumerate(written):
        try:
            if index >= MAX_RULES:
                raise ContractError("too many invariants", found="more", expected=f"at most {MAX_RULES}")
            invariants.append(Invariant.of(each))
            compiled.append(InvariantRule(invariants[-1]))
        except ContractError as error:
            raise error.at("", f"/invariants/{index}") from None
    return tuple(invariants), tuple(compiled)


_MISSING = object()
"""A member that does not exist: like null, but not defined."""

_LARGE = (str, list, dict)


class _Compiler:
    def __init__(self, source: str) -> None:
        self._source = source
        self.parts = 0

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
                raise TemplateSyntaxError("unexpected text after the expression", 1)
            return self._value(tree)
        except TemplateSyntaxError as error:
            raise self._invalid(str(error.message)) from None
        except (RecursionError, ValueError, OverflowError) as error:
            raise self._invalid(str(error)) from None

    def _invalid(self, reason: str) -> ContractError:
        expected = "a rule such as `total >= shown`"
        return ContractError(f"invalid rule: {reason}", found=self._source, expected=expected)

    def _of(self, node: nodes.Node) -> Evaluate:
        """Compile a part; the result may be `_MISSING`."""
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise ContractError("the rule is too large", found="more", expected=f"at most {MAX_PARTS} parts")
        match node:
            case nodes.Const(value=value) if value is None or isinstance(value, str | bool | int | float):
                return lambda scope: value
            case nodes.List(items=items) | nodes.Tuple(items=items):
                made = [self._value(item) for item in items]
                return lambda scope: [one(scope) for one in made]
            case nodes.Name(name=name):
                return lambda scope: scope.names.get(name, _MISSING)
            case nodes.Getattr(node=inner, attr=key):
                return self._item(inner, nodes.Const(key))
            case nodes.Getitem(node=inner, arg=argument):
                return self._item(inner, argument)
            case nodes.Not(node=inner):
                negated = self._value(inner)
                return lambda scope: not negated(scope)
            case nodes.And(left=left, right=right):
                one, other = self._value(left), self._value(right)
                return lambda scope: one(scope) and other(scope)
            case nodes.Or(left=left, right=right):
                one, other = self._value(left), self._value(right)
                return lambda scope: one(scope) or other(scope)
            case nodes.CondExpr(test=test, expr1=first, expr2=second):
                asked, yes = self._value(test), self._value(first)
                no = self._value(second or nodes.Const(None))
                return lambda scope: yes(scope) if asked(scope) else no(scope)
            case nodes.Compare():
                return self._compare(node)
            case nodes.BinExpr(left=left, right=right) if type(node) in _ARITHMETIC:
                return _calculate(_ARITHMETIC[type(node)], self._value(left), self._value(right))
            case nodes.Neg(node=inner):
                return _calculate(operator.sub, lambda scope: 0, self._value(inner))
            case nodes.Filter(node=nodes.Expr() as inner, name=name, args=[], kwargs=[]) if name in FILTERS:
                given, function = self._value(inner), FILTERS[name]
                return lambda scope: function(_counted(given(scope), scope.meter))
            case nodes.Test(node=inner, name="defined" | "undefined" as name, args=[]):
                asked = self._of(inner)
                return lambda scope: (asked(scope) is _MISSING) == (name == "undefined")
            case nodes.Test(node=inner, name="none", args=[]):
                asked = self._value(inner)
                return lambda scope: asked(scope) is None
        raise ContractError(
            f"{_described(node)} is not available in rules", found=self._source, expected=AVAILABLE
        )

    def _value(self, node: nodes.Node) -> Evaluate:
        """Compile a part, with None for `_MISSING`."""
        function = self._of(node)

        def value(scope: Scope) -> Any:
            found = function(scope)
            return None if found is _MISSING else found

        return value

    def _item(self, inner: nodes.Node, argument: nodes.Node) -> Evaluate:
        container, key = self._value(inner), self._value(argument)
        return lambda scope: _item(container(scope), key(scope))

    def _compare(self, node: nodes.Compare) -> Evaluate:
        first = self._value(node.expr)
        others = [(_COMPARISONS[operand.op], self._value(operand.expr)) for operand in node.ops]

        def compare(scope: Scope) -> bool:
            left = first(scope)
            for holds, other in others:
                right = other(scope)
                if isinstance(right, _LARGE):
                    scope.meter.spend(_steps(holds, left, right))
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
    def calculate(scope: Scope) -> Any:
        result = function(_number(left(scope)), _number(right(scope)))
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


def _within(left: Any, right: Any) -> bool:
    if isinstance(right, str) != isinstance(left, str) and not isinstance(right, list | dict):
        raise TypeError(f"cannot look for {_kind(left)} in {_kind(right)}")
    if isinstance(right, dict):
        return isinstance(left, str) and left in right
    return any(is_same(left, item) for item in right) if isinstance(right, list) else left in right


def _steps(holds: Callable[[Any, Any], bool], left: Any, right: Any) -> int:
    """The steps of a comparison with a string or a container."""
    if isinstance(right, str):
        return len(right)
    if holds in (_within, _not_within):
        each = _PART if not isinstance(left, _LARGE) else _PART + size(left)
        return each * len(right) if isinstance(right, list) else _PART
    is_alike = type(left) is type(right) and len(left) == len(right)
    return size(left) if is_alike else 0  # values of another type or length differ at once


def _counted(value: Any, meter: StepMeter) -> Any:
    """The argument of a filter; a filter may go through all of a string."""
    if isinstance(value, str):
        meter.spend(VALUE * len(value))
    return value


def _not_within(left: Any, right: Any) -> bool:
    return not _within(left, right)


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
    if isinstance(node, nodes.Filter | nodes.Test):
        return f"`{node.name}`"
    return "a call" if isinstance(node, nodes.Call) else type(node).__name__.lower()


_ARITHMETIC: dict[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.Mod: operator.mod,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": is_same,
    "ne": lambda left, right: not is_same(left, right),
    "lt": _ordered(operator.lt),
    "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "gteq": _ordered(operator.ge),
    "in": _within,
    "notin": _not_within,
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
