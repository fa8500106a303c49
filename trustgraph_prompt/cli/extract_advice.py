"""Says what to change after a run of `extract`, and the command to type then."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trustgraph_prompt.cli import failure_advice, options
from trustgraph_prompt.cli.output import counted
from trustgraph_prompt.cli.own_command import own_command
from trustgraph_prompt.documents.chunks import SMALLEST
from trustgraph_prompt.errors import (
    ProviderInvalidModel,
    ProviderInvalidRequest,
    ProviderRateLimit,
    ProviderUnavailable,
)

if TYPE_CHECKING:
    from trustgraph_prompt.cli.asking_run import Ending
    from trustgraph_prompt.cli.extract_plan import Plan
    from trustgraph_prompt.cli.extract_summary import ExtractSummary


#: An error without any response; a server's own words follow its status or `in place of an answer`.
_NO_CONNECTION = re.compile(r"^\w+: (?:http\S+: )?Cannot connect to ", re.IGNORECASE)


#: The end of a URL from the version of the API.
_VERSION = re.compile(r"/v[0-9]+(?:/.*)?$")


class Advice(NamedTuple):
    """What to change, and the commands to type, if there are any."""

    what: str
    commands: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  ".join([f"{self.what}:" if self.commands else self.what, *self.commands])


class Settings(NamedTuple):
    """What a run was given. `is_recorded` says that its answers are a recording's, which nothing changes."""

    out: Path
    base_url: str | None
    concurrency: int
    is_recorded: bool
    has_report: bool


def advice(summary: ExtractSummary, plan: Plan, ending: Ending, given: Settings) -> list[Advice]:
    """What helps against what went wrong: first with questions without an answer, then with answers."""
    improvements = () if given.is_recorded else _to_improve(summary, plan, given)
    return [*_to_finish(summary, plan, ending, given), *improvements, *_to_look(summary, given)]


def _to_finish(summary: ExtractSummary, plan: Plan, ending: Ending, given: Settings) -> Iterator[Advice]:
    causes = dict.fromkeys(remark.text for remark in sorted(summary.remarks["failed"]))
    changes = list(dict.fromkeys(filter(None, (_against(cause, plan, given) for cause in causes))))
    yield from changes
    again = own_command()
    if ending.interrupted:
        yield Advice("interrupted: run the same command again for the rest", (again,))
    elif summary.spending and summary.spending.reached:
        yield Advice(
            f"ended by --max-cost, with {counted(summary.open, 'question')} left: run the same command "
            "again, with a higher limit if need be; answers that were kept are not paid again",
            (again,),
        )
    elif any("--answer-seconds" in remark.text for remark in summary.remarks["truncated"]):
        yield Advice(
            "answers that took too long are asked for again by the same command; to give them more time, add "
            "--answer-seconds",
            (again,),
        )
    elif summary.remarks["failed"] and not any(change.commands for change in changes):
        then = "then run" if changes else failure_advice.run_again(causes)
        yield Advice(
            f"{then} the same command again, which only repeats the calls that failed or were not made",
            (again,),
        )


def _against(cause: str, plan: Plan, given: Settings) -> Advice | None:
    """What helps against the failure of a call, whose text begins with its category."""
    url = (given.base_url or "").rstrip("/").removesuffix("/chat/completions")
    setting = failure_advice.failed_call(cause)
    match cause.partition(":")[0]:
        case ProviderInvalidRequest.category if failure_advice.TOO_LONG in cause:
            limit = "tokens per minute" if "per minute" in cause else "context of the model"
            return _smaller_chunks(f"chunks are too large for the {limit}: use smaller ones", plan)
        case _ if failure_advice.REFUSED in cause:
            return Advice(
                "refused chunks would be refused again: another model or provider may answer them",
                (own_command({"--model": "NAME"}),),
            )
        case ProviderInvalidRequest.category if setting and not url.endswith("/v1"):
            return Advice(setting, (own_command({"--base-url": f"{_VERSION.sub('', url)}/v1"}),))
        case ProviderInvalidModel.category:
            listing = f"curl --silent {shlex.quote(f'{url}/models')}"
            return Advice(
                f"{setting}; the first command lists them", (listing, own_command({"--model": "NAME"}))
            )
        case ProviderRateLimit.category:
            fewer = str(max(1, given.concurrency // 2))
            return Advice(
                "the server limits its calls: make fewer at a time", (own_command({"--concurrency": fewer}),)
            )
        case ProviderUnavailable.category if "--begin-seconds" in cause:
            return Advice("the server is silent: restart it, or give it more time with --begin-seconds")
        case ProviderUnavailable.category if _NO_CONNECTION.search(cause):
            return Advice(f"no server answers at {url}: start it, or correct --base-url")
        case _:
            return Advice(setting) if setting else None


def _smaller_chunks(why: str, plan: Plan) -> Advice:
    size = plan.splitting.size
    half = size._replace(length=size.length // 2)
    if half.length < SMALLEST[half.in_tokens]:
        return Advice(why)
    return Advice(f"{why} (all are then asked again)", (own_command({"--chunk-size": str(half)}),))


def _to_improve(summary: ExtractSummary, plan: Plan, given: Settings) -> Iterator[Advice]:
    if summary.lacked_room:
        yield _smaller_chunks(f"{failure_advice.LONGER_ANSWERS} smaller chunks", plan)
    elif summary.remarks["without_use"]:
        yield Advice(
            "answers without use: another model may follow the questions better",
            (own_command({"--model": "NAME"}),),
        )
    nothing = sorted(summary.remarks["nothing"])
    prompts = dict.fromkeys(plan.jobs[remark.position].prompt for remark in nothing)
    barren = [prompt for prompt in prompts if not summary.objects[prompt]]
    if barren:
        look = "" if options.typed("--schema") else ": `trustgraph-prompt render` shows the question"
        yield Advice(f"{' and '.join(barren)} gave no objects{look}")


def _to_look(summary: ExtractSummary, given: Settings) -> Iterator[Advice]:
    doubtful = any(summary.remarks[kind] for kind in ("refused", "truncated", "nothing", "without_use"))
    if doubtful and summary.answered and not given.has_report:
        file = str(given.out.with_name(f"{given.out.stem}-report.html"))
        yield Advice(
            "to read what was refused, truncated or without objects beside its text, without asking again",
            (own_command({"--report": file}),),
        )
