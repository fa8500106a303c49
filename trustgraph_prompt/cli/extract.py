"""`extract`: runs prompts on documents."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import asking_run, options, output
from trustgraph_prompt.cli.asking_run import LIMIT_REACHED, limited, model_identity, spending_limit, timed
from trustgraph_prompt.cli.own_command import own_command
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.cli.asking_run import Ending
    from trustgraph_prompt.cli.extract_outputs import RunOutputs
    from trustgraph_prompt.cli.extract_plan import Plan
    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.extraction.estimate import RunEstimate
    from trustgraph_prompt.extraction.graph_outputs import GraphOutputs
    from trustgraph_prompt.extraction.results import Result

EXAMPLE = (
    "Example:  trustgraph-prompt extract report.txt --base-url http://localhost:11434/v1 --model qwen3 "
    "-o report.jsonl"
)


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Documents, folders, patterns, or - for standard input."),
    ],
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="A prompt to run on each chunk; may be given several times. "
            "Default: extract-definitions and extract-relationships.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="SCHEMA QUESTION",
            help="Ask for objects without a prompt file: a JSON Schema in a file, or MODULE:CLASS of a "
            "dataclass or Pydantic model, which is imported from here; and what to find, in your words.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.jsonl",
            help="The file of objects: JSON lines, or a table if its name ends in .csv or .parquet. A file "
            "that `extract` did not write is never overwritten.",
        ),
    ] = Path("extracted.jsonl"),
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
    allow_parameter: options.AllowParameterOption = None,
    templates: options.TemplatesOption = None,
    term: options.TermOption = None,
    chunk_size: Annotated[
        str, typer.Option(metavar="N", help="Maximum size of a chunk: characters (2000) or tokens (800t).")
    ] = "2000",
    overlap: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="How much of what precedes a chunk is shown to the model as context: a part of the chunk "
            "size (10%), characters (200) or tokens (80t). Nothing is extracted from it.",
        ),
    ] = "0",
    concurrency: options.CallsOption = 8,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    begin_seconds: options.BeginSecondsOption = 300.0,
    answer_seconds: options.AnswerSecondsOption = 600.0,
    price: options.PriceOption = None,
    max_cost: options.MaxCostOption = None,
    estimate: options.EstimateOption = False,
    tokenizer: options.TokenizerOption = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            metavar="FILE.html",
            help="Write the graph of the objects as a page to open in a browser.",
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Put the graph into this store, beside what is there.")
    ] = None,
    rdf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the graph as RDF: .nt, .nq, .ttl, .trig, .jsonld or .rdf."),
    ] = None,
    neo4j: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the graph as CSV files for Neo4j's import.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write what was extracted, refused and truncated, and what it cost, as a page to open in a "
            "browser.",
        ),
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="Write the objects only, without their origin.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, for programs.")] = False,
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
    from trustgraph_prompt.cli import extract_plan
    from trustgraph_prompt.cli.extract_advice import Settings, advice
    from trustgraph_prompt.cli.extract_outputs import RunOutputs
    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.extraction.estimate import estimate_run

    prices = options.price(price)
    options.check_max_cost(max_cost, prices)
    options.check_tokenizer(tokenizer, estimate=estimate)
    terms = extract_plan.chunk_terms(term)
    model = options.chosen_model(script, base_url, model)
    provider = options.provider(script, base_url, model, prefill, native_schema, untimed=True)
    pace = asking_run.Pace(concurrency, requests_per_minute, tokens_per_minute)
    outputs = RunOutputs(out, files, _graph_outputs(store, rdf, neo4j, page), report, bare=bare)
    plan = extract_plan.make_plan(
        files,
        templates=templates,
        ids=prompt,
        schema=schema,
        terms=terms,
        chunk_size=chunk_size,
        overlap=overlap,
        model=model_identity(script, model),
        outputs=outputs,
    )
    options.check_parameters(plan.asked, allow_parameter)
    if estimate:
        outputs.check(plan)
        with output.waiting("counting tokens"):
            estimated = estimate_run(
                plan.jobs,
                plan.prompts,
                provider,
                state=outputs.state,
                terms=plan.terms,
                tokenizer_file=tokenizer,
                examples=options.examples(templates),
                price=prices,
            )
        _print_estimate(plan, estimated, as_json=as_json)
        return
    outputs.prepare(plan)
    calls = timed(provider, begin_seconds, answer_seconds)
    asked = limited(calls, pace)
    spending = spending_limit(asked, prices, max_cost or inf)
    summary = ExtractSummary(plan.jobs, plan.answer_limits, plan.skipped, spending)

    def listen(result: Result) -> None:
        outputs.add(result)
        summary.add(result)

    ending = asking_run.run(
        plan.jobs,
        plan.prompts,
        spending or asked,
        calls,
        summary,
        listen,
        state=outputs.state,
        terms=plan.terms,
        concurrency=concurrency,
        owner=outputs.record.owner(out, **plan.record),
        splitting=plan.splitting,
    )
    given = Settings(
        out,
        base_url,
        concurrency,
        is_recorded=script is not None,
        has_report=report is not None,
    )
    advised = advice(summary, plan, ending, given)
    written = outputs.write(plan, prices, advised) if summary.answered else outputs.discard()
    _print_summary(summary, outputs, written, as_json=as_json)
    _remark_failures(summary, ending)
    for each in advised:
        typer.echo(harmless(str(each)), err=as_json)
    if code := _exit_code(summary, ending):
        raise typer.Exit(code)
    if script is not None and not as_json:
        _print_command_with_a_model(outputs)


def _graph_outputs(
    store: Path | None,
    rdf: Path | None,
    neo4j: Path | None,
    page: Path | None,
) -> GraphOutputs | None:
    """Return where the graph goes, if it goes anywhere. Raises `ConfigError` without the extra for it."""
    if not any((store, rdf, neo4j, page)):
        return None
    from trustgraph_prompt.extraction.graph_outputs import GraphOutputs

    return GraphOutputs(store, rdf, neo4j, page)


def _print_estimate(plan: Plan, estimated: RunEstimate, *, as_json: bool) -> None:
    from trustgraph_prompt.cli import estimates

    for skipped in plan.skipped:
        output.note(f"skipped: {skipped}")
    documents = len(plan.documents)
    if as_json:
        output.print_json({"documents": documents, "chunks": plan.chunks, **estimates.as_json(estimated)})
        return
    split = f"{output.counted(plan.chunks, 'chunk')} of {output.counted(documents, 'file')}"
    typer.echo(harmless(f"{split}\n{estimates.text(estimated)}"))


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
    typer.echo(harmless("\n".join([summary.text(), *ends])))
    if outputs.graph and (neo4j := outputs.graph.neo4j) in graph:
        from trustgraph_prompt.graph_store.neo4j import import_command

        typer.echo(f"To make a database of {neo4j}:\n  {import_command(neo4j)}")


def _remark_failures(summary: ExtractSummary, ending: Ending) -> None:
    if ending.is_hopeless and summary.open and not (summary.spending and summary.spending.reached):
        output.note("stopped early: every other question would fail in the same way")
    if summary.came_to_nothing:
        output.note("error: no objects were extracted, as answers were truncated or without use")


def _exit_code(summary: ExtractSummary, ending: Ending) -> int:
    if ending.interrupted:
        return 130
    if summary.spending and summary.spending.reached:
        return LIMIT_REACHED
    return int(bool(summary.failed or summary.came_to_nothing or summary.skipped))


def _print_command_with_a_model(outputs: RunOutputs) -> None:
    model = {"--provider": None, "--base-url": "http://localhost:11434/v1", "--model": "NAME"}
    has_store = outputs.graph is not None and outputs.graph.store is not None
    more = "; the store keeps its facts, so name another one" if has_store else ""
    typer.echo(
        "\nThese answers were recorded. To call a real model on any OpenAI-compatible server, which replaces "
        f"these files{more}:\n"
        f"  {own_command(model)}"
    )
