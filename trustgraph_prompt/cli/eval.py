"""`eval`: measures how good a prompt is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import asking_run, config_history, inspect_broker, options, output, push_prompts
from trustgraph_prompt.cli.asking_run import LIMIT_REACHED, Pace, limited, spending_limit, timed
from trustgraph_prompt.cli.eval_sides import Side
from trustgraph_prompt.cli.own_command import own_command
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.cli.eval_report import Report
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.evaluation.gold import GoldQuestion
    from trustgraph_prompt.extraction.results import Result
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.llm.calls_in_progress import CallsInProgress

EXAMPLE = (
    "Example:  trustgraph-prompt eval extract-definitions --gold gold.jsonl "
    "--base-url http://localhost:11434/v1 --model qwen3"
)

_LIMIT = re.compile(r"(precision|recall|f1)=(0(?:\.\d+)?|1(?:\.0+)?)")


def command(
    prompt: Annotated[list[str], typer.Argument(metavar="PROMPT…", help="The ids of the prompts to score.")],
    gold: Annotated[
        Path,
        typer.Option(
            metavar="GOLD.jsonl",
            help='Texts, and the objects that should come, a line each: {"terms": {"text": "…"}, '
            '"objects": […]}. Answers are kept beside it, in GOLD.jsonl.state.',
        ),
    ],
    begin_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="EXTRACTED.jsonl",
            help="Begin the gold file with the objects of a run of `extract`, to be corrected by hand; ask "
            "nothing.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION|PATH|MODEL",
            help="Compare with another version of the prompt, measured with this gold file or from the "
            "history on the broker; with the prompts of another file or folder; or with another model, or "
            "scripted:PATH. A file or folder of this name comes before a version, and a version before a "
            "model.",
        ),
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=VALUE",
            help="Exit with 1 if precision, recall or f1 is less, as in f1=0.8. May be given several times.",
        ),
    ] = None,
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
    allow_parameter: options.AllowParameterOption = None,
    templates: options.TemplatesOption = None,
    term: options.TermOption = None,
    concurrency: options.CallsOption = 8,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    begin_seconds: options.BeginSecondsOption = 300.0,
    answer_seconds: options.AnswerSecondsOption = 600.0,
    price: options.PriceOption = None,
    max_cost: options.MaxCostOption = None,
    estimate: options.EstimateOption = False,
    tokenizer: options.TokenizerOption = None,
    workspace: push_prompts.WorkspaceOption = "default",
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Ask prompts about texts, and compare what comes with what should come.

    Objects are the same if the keys agree that the clause `match` of the prompt names. Prints precision,
    recall and F1 with 95 % intervals, what the answers cost, and the objects that are missing, too many or
    different. With --against, says whether the difference between two versions is more than noise.

    Answers are kept: the same command run again only asks what failed or was refused, also after a change of
    `match` or of the gold file's objects. Exits with 1 if a question has no answer, or if a value is less
    than --fail-under.
    """
    from trustgraph_prompt.cli import estimates
    from trustgraph_prompt.evaluation import gold as gold_files
    from trustgraph_prompt.evaluation import measured_prompts
    from trustgraph_prompt.extraction.estimate import estimate_run
    from trustgraph_prompt.extraction.run_record import RunRecord
    from trustgraph_prompt.llm import ScriptedProvider

    if begin_from is not None:
        _begin(gold, begin_from, prompt)
        return
    _check_extra()
    limits = _limits(fail_under or ())
    prices = options.price(price)
    options.check_max_cost(max_cost, prices)
    options.check_tokenizer(tokenizer, estimate=estimate)

    def provider(side: Side) -> Provider:
        if side.script is not None:
            return ScriptedProvider.load(options.recording(side.script))
        return options.provider(None, base_url, side.model, prefill, native_schema, untimed=True)

    model = options.chosen_model(script, base_url, model)
    options.provider(script, base_url, model, prefill, native_schema)  # wrong options are told first
    terms = options.terms(term)
    state = gold.with_name(f"{gold.name}.state")
    sides = [Side.of(templates, prompt, script, model)]
    if against is not None:
        history = partial(config_history.look, broker, admin_url, workspace, topic, None)
        sides = [*sides[0].against(against, state, broker, history)]
    options.check_parameters((definition for side in sides for definition in side.asked), allow_parameter)
    texts = gold_files.read(gold)
    remarks: dict[str, list[str]] = {}
    for definition in sides[0].asked:
        if not (own := gold_files.texts_for(definition, texts)):
            raise ConfigError(f"no line is for {definition.id}", where=str(gold))
        gold_files.check_for(definition, own, terms)
        remarks[definition.id] = gold_files.remarks(definition, own)
        for remark in remarks[definition.id]:
            output.note(remark)
    pace = Pace(concurrency, requests_per_minute, tokens_per_minute)
    owner = RunRecord(state, "eval", "--gold").owner(gold)
    todo = [
        (side, gold_files.questions(side.asked, texts, model=side.identity, terms=terms)) for side in sides
    ]
    if estimate:
        with output.waiting("counting tokens"):
            estimated = [
                estimate_run(
                    questions,
                    side.prompts,
                    provider(side),
                    state=state,
                    terms=terms,
                    tokenizer_file=tokenizer,
                    examples=options.examples(templates),
                    price=prices,
                )
                for side, questions in todo
            ]
        if as_json:
            output.print_json([estimates.as_json(each) for each in estimated])
        else:
            typer.echo("\n\n".join(harmless(estimates.text(each)) for each in estimated))
        return
    if len(sides) > 1 and [each.id for each in todo[0][1]] == [each.id for each in todo[1][1]]:
        output.note("warning: both sides are the same version and model, so that they share their answers")
    results, money = [], max_cost or inf
    for side, questions in todo:
        calls = timed(provider(side), begin_seconds, answer_seconds)
        answered, paid = _ask(side, calls, questions, state, owner, terms, pace, prices, money)
        results.append(answered)
        money -= paid
        measured_prompts.keep(state, side.asked, side.entries)
    reports = list(_reports(sides, results, prices, remarks))
    if as_json:
        output.print_json([report.as_json() for report in reports])
    else:
        for report in reports:
            report.print()
    failed = [failure for report in reports for side in report.sides for failure in side.failed]
    for text, why in failed:
        output.note(f"{text.where}: no answer: {why}")
    if failed:
        _advise("run the same command again, which only repeats the calls that failed")
    missed = [message for report in reports for message in report.below(limits)]
    for message in missed:
        output.note(message)
    if failed or missed:
        raise typer.Exit(1)


def _begin(gold: Path, extracted: Path, prompts: list[str]) -> None:
    from trustgraph_prompt import wire
    from trustgraph_prompt.evaluation.begin_gold import begin

    if gold.exists():
        raise ConfigError(
            "already exists and may hold corrections: delete it, or name another file", where=f"--gold {gold}"
        )
    lines = list(begin(extracted, prompts))
    try:
        with gold.open("xb") as file:
            file.writelines(wire.encode(line) + b"\n" for line in lines)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=f"--gold {gold}") from error
    typer.echo(f"-> {gold}: {output.counted(len(lines), 'text')}")
    output.note("these are the answers of a model: correct them by hand before you measure with them")
    output.note("documents of which no prompt gave an object are not in it: add lines for them by hand")


def _check_extra() -> None:
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise ConfigError("`eval` needs the extra `eval`: pip install 'trustgraph-prompt[eval]'") from error


def _limits(given: Sequence[str]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for text in given:
        if not (match := _LIMIT.fullmatch(text)):
            expected = "precision, recall or f1, and a number from 0 to 1, such as f1=0.8"
            raise ConfigError("is not a limit", where="--fail-under", found=text, expected=expected)
        limits[match[1]] = float(match[2])
    return limits


@dataclass
class _Progress:
    """Counts the results of one side."""

    questions: Sequence[GoldQuestion]
    results: list[Result[GoldQuestion]] = field(default_factory=list)
    failed_in_a_row: int = 0

    @property
    def total(self) -> int:
        return len(self.questions)

    @property
    def done(self) -> int:
        return len(self.results)

    @property
    def rest(self) -> str:
        return ""

    def begin(self) -> str:
        questions = output.counted(self.total, "question")
        return f"{questions}; those with an answer from an earlier run are not asked again"

    def line(self) -> str:
        kept = sum(result.earlier for result in self.results)
        return f"{self.done:,}/{output.counted(self.total, 'answer')}, {kept:,} kept from earlier runs"

    def add(self, result: Result[GoldQuestion]) -> None:
        from trustgraph_prompt.evaluation.scores import is_unanswered

        self.results.append(result)
        self.failed_in_a_row = self.failed_in_a_row + 1 if is_unanswered(result) else 0


def _ask(
    side: Side,
    calls: CallsInProgress,
    questions: Sequence[GoldQuestion],
    state: Path,
    owner: Mapping[str, object],
    terms: Mapping[str, object],
    pace: Pace,
    price: Price | None,
    money: float,
) -> tuple[list[Result[GoldQuestion]], float]:
    """Ask what has no answer yet; return all results, and what was paid.

    A signal, the limit of cost and a hopeless run end the program.
    """
    asked = limited(calls, pace)
    spending = spending_limit(asked, price, money)
    counted = _Progress(questions)
    ending = asking_run.run(
        questions,
        side.prompts,
        spending or asked,
        calls,
        counted,
        counted.add,
        state=state,
        terms=terms,
        concurrency=pace.concurrency,
        owner=owner,
    )
    if ending.interrupted:
        _advise("interrupted: run the same command again for the rest")
        raise typer.Exit(130)
    if spending is not None and spending.reached:
        _advise("ended by --max-cost: run the same command again, with a higher limit if need be")
        raise typer.Exit(LIMIT_REACHED)
    if counted.done < counted.total:
        for result in counted.results[-1:]:
            output.note(f"{result.job.place}: {result.failure}")
        output.note(f"{output.counted(counted.total - counted.done, 'question')} not asked")
        raise typer.Exit(1)
    return counted.results, spending.spent if spending else 0


def _advise(what: str) -> None:
    output.note(f"{what}:\n  {own_command()}")


def _reports(
    sides: Sequence[Side],
    results: Sequence[Sequence[Result[GoldQuestion]]],
    price: Price | None,
    remarks: Mapping[str, Sequence[str]],
) -> Iterator[Report]:
    """The report of each prompt. Both sides are scored by its clause `match` on the first side."""
    from trustgraph_prompt.cli.eval_report import Report
    from trustgraph_prompt.evaluation.scores import Evaluation

    for definition in sides[0].asked:
        evaluations = [
            Evaluation.of(
                side.prompts.get(definition.id).version,
                side.name,
                definition.match,
                [result for result in of_side if result.job.prompt == definition.id],
            )
            for side, of_side in zip(sides, results, strict=True)
        ]
        yield Report(definition.id, evaluations, price, remarks[definition.id])
