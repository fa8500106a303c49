"""`extract`: runs prompts on documents."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.extract_options import OutputOptions, QuestionOptions
from trustgraph_prompt.cli.model_options import PromptModelOptions, RunOptions
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.own_command import own_command
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.cli.asking_run import Ending
    from trustgraph_prompt.cli.extract_outputs import RunOutputs
    from trustgraph_prompt.cli.extract_plan import Plan
    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.extraction.estimate import RunEstimate
    from trustgraph_prompt.extraction.results import Result

EXAMPLE = "extract report.txt --base-url http://localhost:11434/v1 --model qwen3 -o report.jsonl"


def command(
    files: list[Path] = argument("FILE…", "Documents, folders, patterns, or - for standard input."),
    *,
    prompt: list[str] | None = option(
        "--prompt ID",
        "A prompt to run on each chunk; may be given several times. "
        "Default: extract-definitions and extract-relationships; with --ontology, extract-with-ontologies.",
        None,
        show_default=False,
    ),
    schema: tuple[str, str] | None = option(
        "--schema SCHEMA QUESTION",
        "Ask for objects without a prompt file: a JSON Schema in a file, or MODULE:CLASS of a "
        "dataclass or Pydantic model, which is imported from here; and what to find, in your words.",
        None,
        show_default=False,
    ),
    out: Path = option(
        "--output -o OUT.jsonl",
        "The file of objects: JSON lines, or a table if its name ends in .csv or .parquet. A file "
        "that `extract` did not write is never overwritten.",
        Path("extracted.jsonl"),
    ),
    model: PromptModelOptions,
    questions: QuestionOptions,
    limits: RunOptions,
    wanted: OutputOptions,
    as_json: bool = option("--json", "Print the summary as JSON, for programs.", False),
) -> None:
    """Run prompts on documents and write the valid objects as JSON lines, and their graph if asked for.

    Each file is split into chunks, and each prompt runs on each chunk. An output line is {"prompt", "file",
    "sha256", "chunk", "start", "page", "heading", "object", "grounding"}: the object and its origin. `start`
    is the chunk's position in the text of the file, and `sha256` the hash of that text. `page` and `heading`
    are those of the object, if the file has them. `grounding` gives the positions of the object's values in
    the chunk, if the prompt's schema requires them to occur there. With --bare, a line is the object only.

    --graph writes the graph of the objects as a page for the browser, in which each relation leads to its
    sentence. --store, --rdf and --neo4j write it for other uses. With --store, all of them show the whole
    store. --report writes a page of what was extracted, refused and truncated, and what it cost; it is made
    of the kept answers too.

    Objects are collected in OUT.jsonl.part, which replaces OUT.jsonl at the end. Answers are kept in
    OUT.jsonl.state: the same command run again calls the model only for those that are missing. The text of a
    file that is not plain UTF-8 is kept as OUT.jsonl.texts/SHA256.txt. Exits with 1 if a call failed, if a
    file was skipped because it is empty or not text, or if there are no objects and some answers were
    truncated or without use.

    --estimate says what the run would take, and asks nothing. --max-cost ends the run before it may cost
    more; it then exits with 3. The limit is that of one run: what earlier runs cost does not count.
    """
    from trustgraph_prompt.cli import asking_run, extract_plan
    from trustgraph_prompt.cli.asking_run import LimitedProvider, Questions
    from trustgraph_prompt.cli.extract_advice import Settings, advice
    from trustgraph_prompt.cli.extract_outputs import RunOutputs
    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.extraction.run import has_no_answer

    price = limits.checked_price()
    terms = extract_plan.chunk_terms(questions.term)
    model = model.chosen()
    provider = model.provider(untimed=True)
    outputs = RunOutputs(out, files, wanted)
    if schema:
        extract_plan.check_schema(prompt, questions, wanted)
    plan = extract_plan.make_plan(
        files, prompt, schema, questions, terms, model.identity, outputs.file, outputs.paths
    )
    model.check_parameters(plan.asked)
    asked = Questions(plan.jobs, plan.prompts, outputs.file.state, plan.terms, plan.ontology)
    if limits.estimate:
        outputs.check(plan)
        estimated = asking_run.estimate(asked, provider, limits, price, questions.templates)
        _print_estimate(plan, estimated, as_json=as_json)
        return
    outputs.prepare(plan)
    within = LimitedProvider(provider, limits, price, limits.max_cost or inf)
    summary = ExtractSummary(plan.jobs, plan.answer_limits, plan.skipped, within.spending)

    def listen(result: Result) -> None:
        outputs.add(result)
        summary.add(result)

    owner = outputs.file.record.owner(out, **plan.record)
    ending = asking_run.run(asked, within, summary, listen, owner, has_no_answer)
    is_recorded = model.script is not None
    given = Settings(out, model.base_url, limits.concurrency, is_recorded, wanted.report is not None)
    advised = advice(summary, plan, ending, given)
    written = outputs.write(plan, price, advised) if summary.answered else outputs.discard()
    _print_summary(summary, outputs, written, as_json=as_json)
    _remark_failures(summary, ending)
    for each in advised:
        typer.echo(harmless(str(each)), err=as_json)
    if code := _exit_code(summary, ending):
        raise typer.Exit(code)
    if is_recorded and not as_json:
        _print_command_with_a_model(has_store=wanted.store is not None)


def _print_estimate(plan: Plan, estimated: RunEstimate, *, as_json: bool) -> None:
    from trustgraph_prompt.cli import asking_run

    for skipped in plan.skipped:
        output.note(f"skipped: {skipped}")
    documents = len(plan.documents)
    if as_json:
        output.print_json(
            {"documents": documents, "chunks": plan.chunks, **asking_run.estimate_as_json(estimated)}
        )
        return
    split = f"{output.counted(plan.chunks, 'chunk')} of {output.counted(documents, 'file')}"
    output.say(f"{split}\n{asking_run.estimate_text(estimated)}")


def _print_summary(
    summary: ExtractSummary, outputs: RunOutputs, written: list[Path], *, as_json: bool
) -> None:
    graph = outputs.graph.paths if outputs.graph and written else []
    if as_json:
        report = str(outputs.report) if outputs.report in written else None
        files = {"output": str(outputs.out), "graph": list(map(str, graph)), "report": report}
        output.print_json({**files, **summary.as_json()})
        return
    nothing = f"nothing was written to {outputs.out}; what was there is unchanged"
    ends = [f"-> {path}" for path in written] or [nothing]
    output.say("\n".join([summary.text(), *ends]))
    if outputs.graph and (neo4j := outputs.graph.neo4j) in graph:
        from trustgraph_prompt.graph_store.neo4j import import_command

        typer.echo(f"To make a database of {neo4j}:\n  {import_command(neo4j)}")


def _remark_failures(summary: ExtractSummary, ending: Ending) -> None:
    if ending.is_hopeless and summary.open and not (summary.spending and summary.spending.reached):
        output.note("stopped early: every other question would fail in the same way")
    if summary.came_to_nothing:
        output.note("error: no objects were extracted, as answers were truncated or without use")


def _exit_code(summary: ExtractSummary, ending: Ending) -> int:
    from trustgraph_prompt.cli.asking_run import LIMIT_REACHED

    if ending.interrupted:
        return 130
    if summary.spending and summary.spending.reached:
        return LIMIT_REACHED
    return int(bool(summary.remarks["failed"] or summary.came_to_nothing or summary.skipped))


def _print_command_with_a_model(*, has_store: bool) -> None:
    model = {"--provider": None, "--base-url": "http://localhost:11434/v1", "--model": "NAME"}
    more = "; the store keeps its facts, so name another one" if has_store else ""
    typer.echo(
        "\nThese answers were recorded. To call a real model on any OpenAI-compatible server, which replaces "
        f"these files{more}:\n"
        f"  {own_command(model)}"
    )
