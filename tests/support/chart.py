"""The chart: its values and what they say about themselves, and what the real helm makes of it.

`python -m tests.support.chart` writes what follows from the chart: the table of its README, the descriptions
of its schema, and the golden files.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.kubernetes_tools import HELM_4
from tests.support.requirements import unavailable

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "helm" / "trustgraph-prompt"
VALUES, SCHEMA, README = (CHART / name for name in ("values.yaml", "values.schema.json", "README.md"))
RELEASE, NAMESPACE = "demo", "prompts"
GOLDEN: Final = {
    name: ROOT / "tests" / "data" / f"chart-{name.replace(' ', '-')}.yaml"
    for name in ("two workers", "keda with a token")
}

Object = dict[str, Any]


@cache
def matrix() -> Mapping[str, Object]:
    """The values to render the chart with, by what they try."""
    found: Mapping[str, Object] = yaml.safe_load(Path(__file__).with_name("chart_values.yaml").read_text())
    return found


def helm(binary: Path, *arguments: object, values: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
    """Run helm, with values on its standard input; return its exit code, output and errors."""
    if not binary.exists():
        unavailable(f"no {binary.name}: make .venv/kubernetes/.ready")
    given = ("--values", "-") if values is not None else ()
    try:
        done = subprocess.run(
            [binary, *map(str, arguments), *given],
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            timeout=60,
        )
    except OSError as error:
        unavailable(f"{binary.name} does not run here, it is for linux/amd64: {error.strerror}")
    return done.returncode, done.stdout, done.stderr


def render(binary: Path, values: Mapping[str, Any]) -> tuple[int, str, str]:
    """Render the chart; return helm's exit code, the manifests and its errors."""
    options = ("--namespace", NAMESPACE, "--kube-version", "1.34.0", "--include-crds")
    return helm(binary, "template", RELEASE, CHART, *options, values=values)


@cache
def text(name: str, binary: Path = HELM_4) -> str:
    """The manifests that the values of the matrix with this name give."""
    code, manifests, errors = render(binary, matrix()[name])
    assert code == 0, f"{name}: {errors}"
    return manifests


@cache
def objects(name: str, binary: Path = HELM_4) -> list[Object]:
    """The objects of those manifests."""
    return list(yaml.load_all(text(name, binary), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def of_kind(name: str, kind: str) -> dict[str, Object]:
    """Those of one kind, by name."""
    return {found["metadata"]["name"]: found for found in objects(name) if found["kind"] == kind}


def pod_specs(name: str) -> Iterator[tuple[str, Object]]:
    """The Pods of all kinds of objects, with the names of the objects."""
    for found in objects(name):
        place = f"{found['kind']} {found['metadata']['name']}"
        if found["kind"] == "Pod":
            yield place, found["spec"]
        elif found["kind"] in ("Deployment", "Job"):
            yield place, found["spec"]["template"]["spec"]


def places(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value within a value, with its path."""
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, f"{path}/{key}")


def comments() -> dict[str, str]:
    """What values.yaml says about its keys, by their path with dots: the comment above each."""
    found: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in VALUES.read_text().splitlines():
        if match := re.match(r"( *)# (.*)", line):
            comment.append(match[2])
            continue
        if match := re.match(r"( *)([\w-]+):", line):
            indent, key = len(match[1]), match[2]
            parents = [*(parent for parent in parents if parent[0] < indent), (indent, key)]
            if comment:
                found[".".join(name for _, name in parents)] = " ".join(comment)
        comment = []
    return found


def schema() -> Object:
    """The schema of the values."""
    found: Object = json.loads(SCHEMA.read_text())
    return found


def described(schema: Object) -> dict[str, Object]:
    """The keys that a schema knows, by their path; those of `worker` once."""

    def of(part: Object, path: str) -> Iterator[tuple[str, Object]]:
        for key, inner in part.get("properties", {}).items():
            inside = f"{path}{key}"
            yield inside, inner
            target = schema["$defs"]["worker"] if inside == "worker" else inner
            if target.get("additionalProperties") is False:
                yield from of(target, f"{inside}.")

    return dict(of(schema, ""))


def table() -> str:
    """The keys with their defaults and meanings, as in the README; no default for those that hold others."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    known, defaults = comments(), dict(places(yaml.safe_load(VALUES.read_text())))
    for path, comment in known.items():
        holds_others = any(other.startswith(f"{path}.") for other in known)
        shown = "" if holds_others else f"`{json.dumps(defaults['/' + path.replace('.', '/')])}`"
        lines.append(f"| `{path}` | {shown} | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def with_table(readme: str) -> str:
    """The README with the table of today."""
    return re.sub(r"(?s)\| key \| default \| meaning \|.*?\n(?=\n|$)", lambda _: table() + "\n", readme)


def main() -> None:
    README.write_text(with_table(README.read_text()))
    known, found = schema(), comments()
    for path, part in described(known).items():
        part["description"] = found.get(path, part.get("description", ""))
    SCHEMA.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    for name, golden in GOLDEN.items():
        golden.write_text(text(name))


if __name__ == "__main__":
    main()
