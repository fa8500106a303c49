"""`extract`: runs prompts on text files."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import options, output, progress
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.run import Extraction
    from trustgraph_prompt.llm import Provider

HOPELESS = 20
"""After this many failures in a row the run stops: the server is down."""

DEFAULT_PROMPTS = ["extract-definitions", "extract-relationships"]

EXAMPLE = (
    "Example:  trustgraph-prompt extract report.txt --base-url http://localhost:11434/v1 --model qwen3 "
    "-o report.jsonl"
)


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="UTF-8 text files.")],
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help=f"A prompt to run on each chunk; may be given several times. Default: "
            f"{' and '.join(DEFAULT_PROMPTS)}.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.jsonl",
            help="The file of objects. A file that `extract` did not write is never overwritten.",
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
        int, typer.Option(metavar="N", min=100, help="Maximum size of a chunk, in characters.")
    ] = 2000,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number of concurrent model calls.")
    ] = 8,
    bare: Annotated[
        bool, typer.Option("--bare", help="Write the objects only, without their origin.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, for programs.")] = False,
) -> None:
    """Run prompts on text files and write the valid objects as JSON lines.

    Each file is split into chunks, and each prompt runs on each chunk. An output line is {"prompt", "file",
    "chunk", "object", "grounding"}: the object and its origin. `grounding` gives the positions of the
    object's values in the chunk, if the prompt's schema requires them to occur there. With --bare, a line is
    the object only.

    Objects are collected in OUT.jsonl.part, which replaces OUT.jsonl at the end. Answers are kept in
    OUT.jsonl.state: the same command run again calls the model only for those that are missing. Exits with 1
    if a call failed, if a file was skipped because it is empty or not text, or if there are no objects and
    some answers were truncated or without use.
    """
    import asyncio

    from trustgraph_prompt.cli.extract_summary import ExtractSummary
    from trustgraph_prompt.cli.output_file import OutputFile
    from trustgraph_prompt.extraction import results, run

    prompts = options.prompts(templates)
    if not prompt and not any(map(prompts.find, DEFAULT_PROMPTS)):
        there = ", ".join(sorted(prompts.prompts)) or "none"
        raise ConfigError(
            f"no default prompts ({', '.join(DEFAULT_PROMPTS)}) here; give --prompt ID, one of: {there}",
            where=str(templates),
        )
    found = [options.prompt(prompts, id) for id in prompt or DEFAULT_PROMPTS]
    asked = list({definition.id: definition for definition in found}.values())
    terms = options.terms(term)
    if "text" in terms:
        raise ConfigError("is reserved for the chunk", where="--term text")
    provider = options.provider(script, base_url, model, prefill, native_schema)
    jobs, skipped = run.jobs(files, asked, model=_identity(script, model), terms=terms, chunk_size=chunk_size)
    for definition in asked:
        options.require_terms(definition, {"text", *terms})
    if skipped and not jobs:
        raise skipped[0]
    destination = OutputFile(out, files)
    limits = {definition.id: definition.config.answer_limit for definition in asked}
    summary = ExtractSummary(jobs, limits, skipped=[str(error) for error in skipped])
    with progress.shown(summary) as update:
        lines = results.ObjectsFile(destination.write, bare=bare)

        def listen(result: results.Result) -> None:
            lines.add(result)
            summary.add(result)
            update()
            if summary.failed_in_a_row == HOPELESS:
                output.note(f"stopping after {HOPELESS} failures in a row")
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
    if summary.answered:
        destination.replace()
    else:
        destination.discard()
    if as_json:
        output.print_json({"output": str(out), **summary.as_json()})
    else:
        ended = f"-> {out}" if summary.answered else f"nothing was written to {out}"
        typer.echo(harmless(f"{summary.text()}\n{ended}"))
    if interrupted:
        output.note("interrupted: run the same command again for the rest")
        raise typer.Exit(130)
    if extraction.is_hopeless and summary.open:
        output.note("stopped early: every other question would fail in the same way")
    if summary.failed:
        settings = summary.settings_to_change()
        for setting in settings:
            output.note(setting)
        then = "then run the same command again" if settings else "run the same command again"
        output.note(f"{then}: it only repeats the calls that failed or were not made")
    if summary.came_to_nothing:
        output.note("error: no objects were extracted, as answers were truncated or without use")
    if summary.failed or summary.came_to_nothing or skipped:
        raise typer.Exit(1)
    if script is not None and not as_json:
        typer.echo(_command_with_a_model(script))


async def _run(extraction: Extraction, provider: Provider) -> bool:
    """Run to the end or until a signal; return whether there was one."""
    import asyncio

    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        if interrupted:
            extraction.give_up()
        else:
            output.note("stopping after the calls in progress; interrupt again to stop at once")
            extraction.stop()
        interrupted = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await extraction.run()
    finally:
        await provider.close()
    return interrupted


def _identity(script: str | None, model: str | None) -> str:
    """What answers of an earlier run depend on: the model, or the content of the recording."""
    if script is None:
        return model or ""
    return f"scripted:{hashlib.sha256(options.recording(script).read_bytes()).hexdigest()}"


def _command_with_a_model(script: str) -> str:
    program = "trustgraph-prompt" if shutil.which("trustgraph-prompt") else sys.argv[0]
    arguments = [word for word in sys.argv[1:] if word not in ("--provider", script, f"--provider={script}")]
    command = shlex.join([program, *arguments])
    return (
        "\nThese answers were recorded. To call a real model on any OpenAI-compatible server:\n"
        f"  {command} --base-url http://localhost:11434/v1 --model NAME"
    )
