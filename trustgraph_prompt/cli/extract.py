"""`extract`: documents in, objects out."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.run import Extraction
    from trustgraph_prompt.llm import Provider

HOPELESS = 20
"""So many failures in a row, and nothing more is asked: the server is down, the key is wrong."""

DEFAULT_PROMPTS = ["extract-definitions", "extract-relationships"]

EXAMPLE = (
    "Example:  trustgraph-prompt extract report.txt --base-url http://localhost:11434/v1 --model qwen3 "
    "-o report.jsonl"
)


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Text files in UTF-8.")],
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help=f"A prompt to ask about each chunk; {' and '.join(DEFAULT_PROMPTS)} unless given. "
            "May be given several times.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.jsonl",
            help="Where the objects go. A file that extract has not written is not overwritten.",
        ),
    ] = Path("extracted.jsonl"),
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
    templates: options.TemplatesOption = None,
    term: options.TermOption = None,
    chunk_size: Annotated[
        int, typer.Option(metavar="N", min=100, help="Characters of a chunk at most.")
    ] = 2000,
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Questions at once.")] = 8,
    bare: Annotated[
        bool, typer.Option("--bare", help="Write the objects alone, without where they are from.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, for programs.")] = False,
) -> None:
    """Ask prompts about every chunk of some text files, and write each valid object as a line of OUT.jsonl.

    A line says where its object is from: {"prompt", "file", "chunk", "object"}. Lines gather in
    OUT.jsonl.part, which takes the place of OUT.jsonl at the end. What was answered is kept in
    OUT.jsonl.state: after an interruption, run the same command again, and only the rest is asked.
    Exits with 1 where a question failed, where a file was skipped because it is empty or no text, and where
    answers were cut or without use and not one object came.
    """
    import asyncio

    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.cli.output_file import OutputFile
    from trustgraph_prompt.cli.progress import Progress
    from trustgraph_prompt.extraction import results, run

    prompts = options.prompts(templates)
    if not prompt and not any(map(prompts.find, DEFAULT_PROMPTS)):
        there = ", ".join(sorted(prompts.prompts)) or "none"
        raise ConfigError(
            f"which prompt? say --prompt ID; there are no {' and '.join(DEFAULT_PROMPTS)}, but: {there}",
            where=str(templates),
        )
    found = [options.prompt(prompts, id) for id in prompt or DEFAULT_PROMPTS]
    asked = list({definition.id: definition for definition in found}.values())
    terms = options.terms(term)
    if "text" in terms:
        raise ConfigError("is the chunk that is asked about, and cannot be given", where="--term text")
    provider = options.provider(script, base_url, model, prefill, native_schema)
    jobs, skipped = run.jobs(files, asked, model=_identity(script, model), terms=terms, chunk_size=chunk_size)
    for definition in asked:
        options.require_terms(definition, {"text", *terms})
    if skipped and not jobs:
        raise skipped[0]
    destination = OutputFile(out, files)
    limits = {definition.id: definition.config.answer_limit for definition in asked}
    tally = ExtractSummary(jobs, limits, skipped=[str(error) for error in skipped])
    with Progress(tally) as progress:
        lines = results.ObjectsFile(destination.write, bare=bare)

        def listen(result: results.Result) -> None:
            lines.add(result)
            tally.add(result)
            progress.update()
            if tally.failed_in_a_row == HOPELESS:
                output.note(f"giving up: {HOPELESS} failures in a row")
                extraction.stop()

        extraction = run.Extraction(
            jobs,
            prompts,
            provider,
            state=destination.state,
            terms=terms,
            concurrency=concurrency,
            listen=listen,
        )
        interrupted = asyncio.run(_run(extraction, provider))
        lines.finish()
    if tally.answered:
        destination.replace()
    else:
        destination.discard()
    if as_json:
        output.print_json({"output": str(out), **tally.as_json()})
    else:
        ended = f"-> {out}" if tally.answered else f"nothing was written to {out}"
        typer.echo(harmless(f"{tally.summary()}\n{ended}"))
    if interrupted:
        output.note("interrupted; run the same command again for the rest")
        raise typer.Exit(130)
    if tally.failed:
        output.note("run the same command again to ask once more what failed or was not asked")
    if tally.came_to_nothing:
        output.note("error: not one object came, and answers were cut off or without use")
    if tally.failed or tally.came_to_nothing or skipped:
        raise typer.Exit(1)
    if script is not None and not as_json:
        typer.echo(_the_same_with_a_model(script))


async def _run(extraction: Extraction, provider: Provider) -> bool:
    """Run to the end, or until a signal; returns whether there was one."""
    import asyncio

    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        if not interrupted:
            output.note("stopping: what is under way is finished; interrupt again to leave it")
        interrupted = True
        extraction.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await extraction.run()
    finally:
        await provider.close()
    return interrupted


def _identity(script: str | None, model: str | None) -> str:
    """Who answers, as far as an answer of an earlier run still counts: another recording is somebody else."""
    if script is None:
        return model or ""
    return f"scripted:{hashlib.sha256(options.recording(script).read_bytes()).hexdigest()}"


def _the_same_with_a_model(script: str) -> str:
    program = "trustgraph-prompt" if shutil.which("trustgraph-prompt") else sys.argv[0]
    typed = [word for word in sys.argv[1:] if word not in ("--provider", script, f"--provider={script}")]
    command = shlex.join([program, *typed])
    return (
        "\nThese answers were recorded. The same with a real model, on any OpenAI-compatible server:\n"
        f"  {command} --base-url http://localhost:11434/v1 --model NAME"
    )
