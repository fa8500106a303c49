"""Options that choose flows, by their files or in TrustGraph's config service, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trustgraph_prompt.cli import broker_options
from trustgraph_prompt.cli.options import option, typed
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.worker import Flow

where_option = partial(option, rich_help_panel="Flows and subscriptions")
"""Declares an option that says where to look."""

FlowsOption = Annotated[
    Path | None,
    option(
        "--flows PATH",
        "A flow file, or a folder of them, instead of the bundled ones.",
        envvar="TRUSTGRAPH_PROMPT_FLOWS",
    ),
]
SeveralFlowsOption = Annotated[
    list[Path] | None,
    where_option(
        "--flows PATH",
        "A flow file, or a folder of them, instead of the bundled ones. May be given several times.",
        envvar="TRUSTGRAPH_PROMPT_FLOWS",
    ),
]
FlowOption = Annotated[str | None, where_option("--flow NAME", "Only this flow.")]
IdOption = Annotated[
    str,
    option(
        "--id NAME",
        "Processor id of the worker; subscription names begin with it.",
        envvar="TRUSTGRAPH_PROMPT_ID",
    ),
]


def _space(name: str) -> str:
    broker_options.resolved(f"request:{name}:config", "--space")
    return name


SpaceOption = Annotated[
    str,
    option(
        "--space NAME", "With --trustgraph: the topic space of TrustGraph's config service.", callback=_space
    ),
]


def check_trustgraph(flows: Path | None, *, trustgraph: bool) -> None:
    """Reject options that have no effect with `--trustgraph`, or without it. Raises `ConfigError`."""
    if trustgraph and flows is not None and typed("--flows"):
        raise ConfigError(
            "has no effect with --trustgraph: TrustGraph's config service defines the flows", where="--flows"
        )
    if trustgraph and typed("--topic"):
        raise ConfigError(
            "has no effect with --trustgraph: TrustGraph's config service has the prompts", where="--topic"
        )
    if not trustgraph and typed("--space"):
        raise ConfigError("has no effect without --trustgraph", where="--space")


def known(name: str | None, names: Sequence[str], option: str) -> str | None:
    """Return the value of an option `--NOUN`. Raises `ConfigError` if it is not one of `names`."""
    from trustgraph_prompt.errors import suggestion

    if name is None or name in names:
        return name
    what = f"there is no such {option.removeprefix('--')}"
    if near := suggestion(name, names):
        raise ConfigError(f"{what}{near}", where=option)
    raise ConfigError(what, where=option, found=name, expected=f"one of {', '.join(names)}")


def flows_of(
    flows: list[Path] | None, name: str | None, *, processor: str = "prompt"
) -> tuple[list[Flow], str]:
    """Load the flows that the options name, else the bundled ones; also describe them for a message.

    Raises `ConfigError`.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.worker.flow_file import load

    served = [flow for path in flows or [package_data.flows()] for flow in load(path, processor=processor)]
    try:
        known(name, sorted(flow.name for flow in served), "--flow")
    except ConfigError as error:
        if not flows:
            error.add_note("flows of your own are in the files that --flows names")
        raise
    chosen = [flow for flow in served if name in (None, flow.name)]
    names = ", ".join(dict.fromkeys(flow.name for flow in chosen))
    given = f" in {', '.join(map(str, flows))}" if flows else ""
    description = (
        f"of the {'' if flows else 'bundled '}{'flow' if len(chosen) == 1 else 'flows'} {names}{given}"
    )
    return chosen, description
