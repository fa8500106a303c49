"""The queries of `monitoring/`: the metrics and labels they ask for, and the labels of their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "monitoring"
RUNBOOK = ROOT / "docs" / "runbook"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))

Labels = frozenset[str]

TARGET: Labels = frozenset({"namespace", "job", "pod", "instance"})
"""Labels that Prometheus gives to what it scrapes."""

PULSAR: Mapping[str, Labels] = {
    "pulsar_subscription_back_log_no_delayed": TARGET | {"cluster", "topic", "subscription"}
}

WIDTH = 120


def rules(name: str) -> list[dict[str, Any]]:
    """The rules of all groups of a file."""
    document = yaml.safe_load((MONITORING / name).read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def query(expression: str) -> promql.Expr:
    """A query of a dashboard or of a rule. Raises `ValueError` if it is not valid."""
    for variable, duration in (("$__rate_interval", "5m"), ("$__range", "1h")):
        expression = expression.replace(variable, duration)
    return promql.parse(expression)


def metrics(expression: promql.Expr) -> set[str]:
    """The metrics that a query asks for."""
    names: set[str] = set()

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector) and node.name:
            names.add(node.name)

    promql.walk(expression, visit)
    return names


def targets(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The targets of all panels of a dashboard, with the place of each."""
    for panel in json.loads(file.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield f"{file.name}, {panel['title']}, {target['refId']}", target


def variables(file: Path) -> Iterator[tuple[str, str]]:
    """The metric and the label that each variable of a dashboard takes its values from."""
    for variable in json.loads(file.read_text("utf-8"))["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert found, variable["name"]
            yield found[1], found[2]


def runbook_queries() -> Iterator[tuple[str, str]]:
    """The queries in the pages of the runbook, each with its page."""
    for page in sorted(RUNBOOK.glob("*.md")):
        for block in re.findall(r"^```promql\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                yield page.name, line


def recorded(exposed: Mapping[str, Labels]) -> dict[str, Labels]:
    """All metrics with their labels: the exposed ones, Pulsar's, and those that rules record."""
    known = {**exposed, **PULSAR}
    for rule in rules("rules.yaml"):
        found = labels(query(rule["expr"]), known)
        assert found is not None, rule["record"]
        known[rule["record"]] = found
    return known


def labels(expression: promql.Expr, known: Mapping[str, Labels]) -> Labels | None:
    """The labels of a result, None for a number. Fails at an unknown metric or label."""
    match expression:
        case promql.VectorSelector(name=name, matchers=matchers):
            assert name in known, f"no such metric: {name}"
            return _has(known[name or ""], {matcher.name for matcher in matchers.matchers}, expression)
        case promql.MatrixSelector(vector_selector=inner):
            return labels(inner, known)
        case promql.ParenExpr(expr=inner) | promql.SubqueryExpr(expr=inner) | promql.UnaryExpr(expr=inner):
            return labels(inner, known)
        case promql.AggregateExpr(expr=inner, modifier=modifier):
            found = labels(inner, known)
            assert found is not None, expression
            if modifier is None:
                return frozenset()
            _has(found, modifier.labels, expression)
            by = modifier.type == promql.AggModifierType.By
            return frozenset(modifier.labels) if by else found - set(modifier.labels)
        case promql.Call(func=function, args=arguments):
            return _of_call(function.name, arguments, known, expression)
        case promql.BinaryExpr():
            return _of_two(expression, known)
    return None


def _of_call(
    function: str, arguments: list[promql.Expr], known: Mapping[str, Labels], expression: promql.Expr
) -> Labels | None:
    vectors = [found for argument in arguments if (found := labels(argument, known)) is not None]
    if function == "vector":
        return frozenset()
    if not vectors:
        return None
    [found] = vectors
    match function, arguments:
        case "label_replace", [_, promql.StringLiteral(val=new), _, promql.StringLiteral(val=old), _]:
            return _has(found, {old}, expression) | {new}
        case "histogram_quantile", _:
            return _has(found, {"le"}, expression) - {"le"}
    return found


def _of_two(expression: promql.BinaryExpr, known: Mapping[str, Labels]) -> Labels | None:
    left, right = labels(expression.lhs, known), labels(expression.rhs, known)
    if left is None or right is None:
        return right if left is None else left
    if (modifier := expression.modifier) is not None and modifier.matching is not None:
        on = set(modifier.matching.labels)
        _has(right, on, expression.rhs)
        _has(left, on, expression.lhs)
    elif str(expression.op) != "or":
        assert left == right, f"never match: {sorted(left)} and {sorted(right)} in {expression}"
    return left


def _has(found: Labels, wanted: set[str] | list[str], where: promql.Expr) -> Labels:
    assert found.issuperset(wanted), f"labels {sorted(found)} in {where}"
    return found


def layout(value: object, indent: int = 0, room: int = WIDTH) -> str:
    """JSON with as much on a line as fits, but each item of a long list on lines of its own."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (indent and len(line) <= room - indent):
        return line
    inner = indent + 2
    if isinstance(value, list):
        lines = [layout(item, inner) for item in value]
    else:
        lines = []
        for key, item in value.items():
            name = json.dumps(key) + ": "
            part = name + layout(item, inner, WIDTH - len(name))
            if lines and "\n" not in lines[-1] + part and len(lines[-1] + part) + 3 <= WIDTH - inner:
                lines[-1] += ", " + part
            else:
                lines.append(part)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(" " * inner + part for part in lines)
    return f"{opening}\n{body}\n{' ' * indent}{closing}" + ("" if indent else "\n")


def legend_labels(legend: str) -> set[str]:
    """The labels in a legend of Grafana's."""
    return set(re.findall(r"\{\{ *(\w+) *\}\}", legend))


def annotation_labels(annotation: str) -> set[str]:
    """The labels in a template of Prometheus's."""
    return set(re.findall(r"\$labels\.(\w+)", annotation))
