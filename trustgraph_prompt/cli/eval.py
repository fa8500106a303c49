"""`eval`: measures how good a prompt is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import options, output, prompt_options
from trustgraph_prompt.cli.broker_options import ReadWorkspaceOptions
from trustgraph_prompt.cli.model_options import PromptModelOptions, RunOptions
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.cli.asking_run import Questions
    from trustgraph_prompt.cli.eval_sides import Side
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.evaluation.gold import GoldQuestion

EXAMPLE = "eval extract-definitions --gold gold.jsonl --base-url http://localhost:11434/v1 --model qwen3"

_LIMIT = re.compile(r"(precision|recall|f1)=(0(?:\.\d+)?|1(?:\.0+)?)")


def command(
    prompt: list[str] = argument("PROMPT…", "The ids of the prompts to score."),
    *,
    gold: Path = option(
        "--gold GOLD.jsonl",
        'Texts, and the objects that should come, a line each: {"terms": {"text": "…"}, '
        '"objects": […]}. Answers are kept beside it, in GOLD.jsonl.state.',
    ),
    begin_from: Path | None = option(
        "--from EXTRACTED.jsonl",
        "Begin the gold file with the objects of a run of `extract`, to be corrected by hand; ask nothing.",
        None,
    ),
    against: str | None = option(
        "--against VERSION|PATH|MODEL",
        "Compare with another version of the prompt, measured with this gold file or from the "
        "history on the broker; with the prompts of another file or folder; or with another model, or "
        "scripted:PATH. A file or folder of this name comes before a version, and a version before a "
        "model.",
        None,
    ),
    fail_under: list[str] | None = option(
        "--fail-under MEASURE=VALUE",
        "Exit with 1 if precision, recall or f1 is less, as in f1=0.8. May be given several times.",
        None,
    ),
    model: PromptModelOptions,
    templates: prompt_options.TemplatesOption = None,
    term: prompt_options.TermOption = None,
    ontology: prompt_options.OntologyOption = None,
    ontology_language: prompt_options.OntologyLanguageOption = None,
    limits: RunOptions,
    place: ReadWorkspaceOptions,
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
    if begin_from is not None:
        _begin(gold, begin_from, prompt)
        return
    _check_extra()  # before what imports scipy
    from trustgraph_prompt.cli import failure_advice
    from trustgraph_prompt.cli.asking_run import LimitedProvider, Questions
    from trustgraph_prompt.cli.eval_report import reports
    from trustgraph_prompt.cli.eval_sides import Side, advise, as_facts, ask, remarks_on
    from trustgraph_prompt.evaluation import gold as gold_files
    from trustgraph_prompt.evaluation import measured_prompts
    from trustgraph_prompt.extraction.run_record import RunRecord
    from trustgraph_prompt.prompts import gold_file

    least = _least(fail_under or ())
    price = limits.checked_price()
    model = model.chosen()
    model.provider()  # reject wrong options first
    terms = prompt_options.terms(term)
    state = gold.with_name(f"{gold.name}.state")
    sides = [Side.of(templates, prompt, model)]
    if against is not None:
        sides = [*sides[0].against(against, state, place)]
    model.check_parameters(definition for side in sides for definition in side.asked)
    index = prompt_options.ontology(ontology, ontology_language)
    as_asked = as_facts(sides[0].asked, index)
    texts = [each.as_asked(as_asked) for each in gold_file.read(gold)]
    remarks = remarks_on(sides[0].asked, texts, gold, terms, index)
    owner = RunRecord(state, "eval", "--gold").owner(gold)
    asked = [
        Questions(
            gold_files.questions(
                side.asked,
                texts,
                model=side.identity,
                terms=terms,
                ontology=None if index is None else index.ontology.fingerprint,
            ),
            side.prompts,
            state,
            terms,
            index,
        )
        for side in sides
    ]
    if limits.estimate:
        _print_estimates(sides, asked, limits, price, templates, as_json=as_json)
        return
    if len(sides) > 1 and [each.id for each in asked[0].jobs] == [each.id for each in asked[1].jobs]:
        output.note("warning: both sides are the same version and model, so that they share their answers")
    results, money = [], limits.max_cost or inf
    for side, questions in zip(sides, asked, strict=True):
        within = LimitedProvider(side.provider(), limits, price, money)
        results.append(ask(questions, within, owner))
        money -= within.spending.spent if within.spending else 0
        measured_prompts.keep(state, side.asked, side.entries)
    found = list(reports(sides, results, price, remarks, as_asked))
    if as_json:
        output.print_json([report.as_json() for report in found])
    else:
        for report in found:
            report.print()
    failed = [failure for report in found for side in report.sides for failure in side.failed]
    for text, why in failed:
        output.note(f"{text.where}: no answer: {why}")
    if failed:
        run_again = failure_advice.run_again(why for _, why in failed)
        advise(f"{run_again} the same command again, which only repeats the calls that failed")
    missed = [message for report in found for message in report.below(least)]
    for message in missed:
        output.note(message)
    if failed or missed:
        raise typer.Exit(1)


def _print_estimates(
    sides: Sequence[Side],
    asked: Sequence[Questions[GoldQuestion]],
    limits: RunOptions,
    price: Price | None,
    templates: Path | None,
    *,
    as_json: bool,
) -> None:
    from trustgraph_prompt.cli import asking_run

    found = [
        asking_run.estimate(questions, side.provider(), limits, price, templates)
        for side, questions in zip(sides, asked, strict=True)
    ]
    if as_json:
        output.print_json([asking_run.estimate_as_json(each) for each in found])
    else:
        typer.echo("\n\n".join(harmless(asking_run.estimate_text(each)) for each in found))


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


def _least(given: Sequence[str]) -> dict[str, float]:
    least: dict[str, float] = {}
    for text in given:
        if not (match := _LIMIT.fullmatch(text)):
            expected = "precision, recall or f1, and a number from 0 to 1, such as f1=0.8"
            raise ConfigError("is not a limit", where="--fail-under", found=text, expected=expected)
        least[match[1]] = float(match[2])
    return least
