"""`extract` as a process: what comes out, after interruptions too, and from a real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import DOCUMENT, PROGRAM, RECORDING, ROOT, SCRIPTED, environment, run, started
from tests.support.model_server import ModelServer, Reply, Then, streamed
from trustgraph_prompt.llm import ScriptedAnswer, recording_files

OBJECTS = 68
ANSWERS = 14


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The objects of the demo, from one undisturbed run."""
    out = tmp_path_factory.mktemp("expected") / "objects.jsonl"
    assert run("extract", DOCUMENT, "--provider", SCRIPTED, "-o", out).returncode == 0
    return out.read_bytes()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class TestTheDemo:
    def test_demo_gives_every_valid_object_with_its_origin(self, expected: bytes) -> None:
        found = [json.loads(line) for line in expected.splitlines()]
        assert len(found) == OBJECTS
        assert found[0] == {
            "prompt": "extract-definitions",
            "file": str(DOCUMENT),
            "sha256": hashlib.sha256(DOCUMENT.read_bytes()).hexdigest(),
            "chunk": 1,
            "start": 0,
            "object": {
                "quote": "that white substance almost too soft to be called rock",
                "entity": "chalk",
                "definition": "A white substance almost too soft to be called rock, found under the whole "
                "county of Norfolk and along the coasts of England.",
            },
            "grounding": found[0]["grounding"],
        }
        positions = [(line["chunk"], line["prompt"]) for line in found]
        assert positions == sorted(positions)

    def test_demo_names_the_place_of_each_entity_in_the_document(self, expected: bytes) -> None:
        text = DOCUMENT.read_text(encoding="utf-8")
        exact = 0
        for line in map(json.loads, expected.splitlines()):
            for key, where in line["grounding"].items():
                assert where is not None or key == "/object"
                if where is not None and where["kind"] == "exact":
                    start, end = where["spans"][0]
                    assert text[line["start"] :][start:end] == line["object"][key[1:]]
                    exact += 1
        assert exact > OBJECTS / 2

    def test_summary_has_refused_objects_truncated_answers_and_tokens(self, tmp_path: Path) -> None:
        result = run("extract", DOCUMENT, "--provider", SCRIPTED, "-o", tmp_path / "o.jsonl", "--json")
        summary = json.loads(result.stdout)
        place = f"{DOCUMENT} chunk {{}}, {{}}"
        assert summary["objects"] == {"extract-definitions": 24, "extract-relationships": 44}
        assert summary["answers"] == ANSWERS
        assert summary["open"] == 0
        assert summary["refused"] == len(summary["refusals"]) == 2
        assert summary["refusals"][0].startswith(
            place.format(4, "extract-definitions") + ', object 5: "definition" is missing'
        )
        assert summary["cut"]["completed"] == [
            place.format(2, "extract-relationships"),
            place.format(6, "extract-definitions"),
        ]
        [cut] = summary["cut"]["truncated"]
        assert cut.startswith(place.format(7, "extract-relationships") + ": after 41 tokens by the server's")
        assert summary["without_objects"] == [place.format(3, "extract-definitions")]
        assert summary["tokens"]["in"] > 0
        assert summary["tokens"]["out"] > 0
        assert summary["failures"] == []

    def test_summary_says_what_to_type_next(self, tmp_path: Path) -> None:
        result = run("extract", DOCUMENT, "--provider", SCRIPTED, "-o", tmp_path / "o.jsonl")
        assert "68 objects from 7 chunks of 1 file" in result.stdout
        assert f"extract {DOCUMENT} -o {tmp_path / 'o.jsonl'} --base-url" in result.stdout.splitlines()[-1]
        assert "14/14 answers, 7/7 chunks, 68 objects" in result.stderr

    def test_summary_is_that_of_the_readme(self, tmp_path: Path) -> None:
        (tmp_path / "demo").symlink_to(ROOT / "demo")
        readme, makefile = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "Makefile"))
        rule = makefile.partition("demo: $(READY)")[2].partition("\n\n")[0].replace("\\\n", " ")
        command = rule.partition("$(BIN)/trustgraph-prompt ")[2]
        printed = run(*shlex.split(command), folder=tmp_path).stdout.partition("\n\n")[0].splitlines()
        blocks = re.findall(r"```text\n(.*?)\n```", readme, re.DOTALL)
        block = next(each for each in blocks if " objects from 7 chunks" in each)
        for line, told in zip(printed, block.splitlines(), strict=True):
            line, told = (re.sub(r"in \d+\.\d s", "in 0.1 s", each) for each in (line, told))
            assert line == told or line.startswith(told.removesuffix("…").rstrip())

    def test_bare_objects_are_the_objects_alone(self, tmp_path: Path, expected: bytes) -> None:
        out = tmp_path / "o.jsonl"
        run("extract", DOCUMENT, "--provider", SCRIPTED, "-o", out, "--bare")
        assert lines(out) == [json.loads(line)["object"] for line in expected.splitlines()]


def test_a_terminal_shows_the_progress_live_and_standard_output_stays_json(
    tmp_path: Path, slow_recording: str
) -> None:
    terminal, stderr = pty.openpty()
    command = ("extract", DOCUMENT, "--provider", slow_recording, "-o", tmp_path / "o.jsonl", "--json")
    process = subprocess.Popen(
        [str(PROGRAM), *map(str, command), "--price", "1,2"],
        env=environment(TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    os.close(stderr)
    shown = b""
    with suppress(OSError):  # that is how a terminal ends
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    stdout, _ = process.communicate(timeout=60)
    assert re.search(r"\d+/14 answers, .* objects, .* paid", shown.decode())
    assert json.loads(stdout)["answers"] == ANSWERS


class TestAgain:
    def test_a_second_run_asks_nothing_and_gives_the_same(self, tmp_path: Path, expected: bytes) -> None:
        out = tmp_path / "o.jsonl"
        command = ["extract", DOCUMENT, "--provider", SCRIPTED, "-o", out, "--json"]
        run(*command)
        summary = json.loads(run(*command).stdout)
        assert summary["from_earlier_runs"] == ANSWERS
        assert summary["tokens"] == {"in": 0, "out": 0}
        assert out.read_bytes() == expected

    def test_only_questions_of_new_prompts_are_asked(self, tmp_path: Path, expected: bytes) -> None:
        out = tmp_path / "o.jsonl"
        command = ["extract", DOCUMENT, "--provider", SCRIPTED, "-o", out, "--json"]
        run(*command, "--prompt", "extract-relationships")
        assert {line["prompt"] for line in lines(out)} == {"extract-relationships"}
        summary = json.loads(run(*command).stdout)
        assert summary["from_earlier_runs"] == ANSWERS // 2
        assert out.read_bytes() == expected

    def test_another_recording_is_another_model(self, tmp_path: Path) -> None:
        copy = tmp_path / "recording.jsonl"
        copy.write_bytes(RECORDING.read_bytes())
        command = ["extract", DOCUMENT, "--provider", f"scripted:{copy}", "-o", tmp_path / "o", "--json"]
        run(*command)
        copy.write_bytes(RECORDING.read_bytes() + b"\n")
        assert json.loads(run(*command).stdout)["from_earlier_runs"] == 0

    def test_failed_questions_are_asked_again_by_the_next_run(self, tmp_path: Path) -> None:
        out = tmp_path / "o.jsonl"
        server = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
        failed = run("extract", DOCUMENT, *server, "-o", out, "--chunk-size", "4000", "--json")
        summary = json.loads(failed.stdout)
        assert failed.returncode == 1
        assert len(summary["failures"]) > summary["answers"] == 0
        assert "127.0.0.1:9" in summary["failures"][0]
        again = run("extract", DOCUMENT, *server, "-o", out, "--chunk-size", "4000", "--json")
        assert json.loads(again.stdout)["from_earlier_runs"] == 0

    def test_a_chunk_that_comes_twice_is_asked_once(self, tmp_path: Path) -> None:
        copy = tmp_path / "copy.txt"
        copy.write_bytes(DOCUMENT.read_bytes())
        out = tmp_path / "o.jsonl"
        result = run("extract", DOCUMENT, "--provider", SCRIPTED, "-o", out, "--json")
        once = json.loads(result.stdout)["tokens"]
        result = run("extract", DOCUMENT, copy, "--provider", SCRIPTED, "-o", tmp_path / "both", "--json")
        summary = json.loads(result.stdout)
        assert summary["tokens"] == once
        assert sum(summary["objects"].values()) == 2 * OBJECTS

    def test_a_document_that_is_named_twice_counts_once(self, tmp_path: Path, expected: bytes) -> None:
        out = tmp_path / "o.jsonl"
        link = tmp_path / "link.txt"
        link.symlink_to(DOCUMENT)
        run("extract", DOCUMENT, DOCUMENT, link, "--provider", SCRIPTED, "-o", out)
        assert out.read_bytes() == expected


def recorded(folder: Path, **answer: object) -> str:
    """Somebody who always says the same."""
    (folder / "recording.jsonl").write_text(json.dumps(answer) + "\n")
    return f"scripted:{folder / 'recording.jsonl'}"


NOT_ONE = "no objects were extracted, as answers were truncated or without use"


class TestNotOneObject:
    def test_run_with_only_truncated_answers_fails_and_so_does_the_next(self, tmp_path: Path) -> None:
        cut = recorded(tmp_path, answer="Let me think about it. First", finish_reason="length")
        command = ["extract", DOCUMENT, "--provider", cut, "-o", tmp_path / "o.jsonl"]
        for _ in range(2):
            result = run(*command)
            assert result.returncode == 1
            assert "truncated: 14 answers" in result.stdout
            assert "without use: 14 answers" in result.stdout
            assert f"error: {NOT_ONE}\n" in result.stderr
            assert f"--report {tmp_path / 'o-report.html'}\n" in result.stdout

    def test_run_with_only_unusable_answers_fails(self, tmp_path: Path) -> None:
        sorry = recorded(tmp_path, answer="I'm sorry, I can't do that.")
        result = run("extract", DOCUMENT, "--provider", sorry, "-o", tmp_path / "o.jsonl")
        assert result.returncode == 1
        first = f"{DOCUMENT} chunk 1, extract-definitions"
        assert f"without use: 14 answers\n  14 × no object in the answer (first: {first})\n" in result.stdout
        assert "without any object" not in result.stdout
        assert "14 answers without use\n" in result.stderr
        assert f"error: {NOT_ONE}\n" in result.stderr

    def test_run_in_which_the_model_finds_nothing_succeeds(self, tmp_path: Path) -> None:
        nothing = recorded(tmp_path, answer="[]")
        result = run("extract", DOCUMENT, "--provider", nothing, "-o", tmp_path / "o.jsonl")
        assert result.returncode == 0
        assert "without any object: 14 answers" in result.stdout


class TestTheFileOfObjects:
    def test_output_never_replaces_a_file_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "n.txt").write_text("Chalk is soft.")
        (tmp_path / "n.txt.state").write_text("Chalk is white.")
        (tmp_path / "precious.jsonl").write_text("precious")
        (tmp_path / "foreign.jsonl.state").write_text("precious")
        os.mkfifo(tmp_path / "fifo")
        before = {file.name for file in tmp_path.iterdir()}
        refused = {
            ("n.txt", "n.txt"): "would overwrite the document",
            ("n.txt.state", "n.txt"): "would overwrite the document",
            ("n.txt", "precious.jsonl"): "not written by `extract`",
            ("n.txt", "foreign.jsonl"): "is not the state of an earlier `extract`",
            ("n.txt", "-"): "not to standard output",
            ("n.txt", "fifo"): "is not a regular file",
        }
        for (document, out), told in refused.items():
            command = ("extract", document, "--provider", SCRIPTED, "-o", out)
            result = run(*command, folder=tmp_path)
            assert result.returncode == 2, out
            assert told in result.stderr, out
        command = ("extract", "n.txt", "--provider", SCRIPTED, "-o", "/dev/stdout")
        to_stdout = [str(PROGRAM), *map(str, command)]
        piped = subprocess.run(to_stdout, cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert (piped.returncode, piped.stdout) == (2, "")
        assert "is not a regular file" in piped.stderr
        with (tmp_path / "out").open("w") as target:
            redirected = subprocess.run(
                to_stdout, cwd=tmp_path, env=environment(), stdout=target, stderr=subprocess.PIPE, text=True
            )
        assert redirected.returncode == 2
        assert "not to standard output" in redirected.stderr
        (tmp_path / "out").unlink()
        assert {file.name for file in tmp_path.iterdir()} == before
        assert (tmp_path / "n.txt").read_text() == "Chalk is soft."
        assert (tmp_path / "precious.jsonl").read_text() == "precious"

    def test_output_stays_as_it_was_where_nobody_answers(self, tmp_path: Path, expected: bytes) -> None:
        out = tmp_path / "o.jsonl"
        command = ["extract", DOCUMENT, "-o", out, "--chunk-size", "2000"]
        run(*command, "--provider", SCRIPTED)
        result = run(*command, "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
        assert result.returncode == 1
        assert f"nothing was written to {out}" in result.stdout
        assert "0/14 answers, 0/7 chunks" in result.stderr
        assert out.read_bytes() == expected
        assert not out.with_name("o.jsonl.part").exists()


@pytest.fixture
def slow_recording(tmp_path: Path) -> str:
    """The recording at the pace of a model."""
    slow = [json.loads(line) | {"delay": 0.4} for line in RECORDING.read_bytes().splitlines()]
    path = tmp_path / "slow.jsonl"
    path.write_text("\n".join(map(json.dumps, slow)))
    return f"scripted:{path}"


def wait_for_objects(out: Path, process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Wait until the first objects are written, while the run goes on."""
    part = out.with_name(f"{out.name}.part")
    deadline = time.monotonic() + seconds
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestInterrupted:
    def test_killed_run_asks_only_the_rest_when_it_is_run_again(
        self, tmp_path: Path, expected: bytes, slow_recording: str
    ) -> None:
        out = tmp_path / "o.jsonl"
        command = ["extract", DOCUMENT, "--provider", slow_recording, "-o", out, "--concurrency", "2"]
        with started(*command) as process:
            wait_for_objects(out, process)
            process.kill()
            process.wait()
        result = run(*command, "--json")
        summary = json.loads(result.stdout)
        assert result.returncode == 0
        assert 0 < summary["from_earlier_runs"] < ANSWERS
        assert out.read_bytes() == expected

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted_run_finishes_its_questions_and_says_how_to_go_on(
        self, number: signal.Signals, tmp_path: Path, expected: bytes, slow_recording: str
    ) -> None:
        out = tmp_path / "o.jsonl"
        command = [
            "extract",
            DOCUMENT,
            "--provider",
            slow_recording,
            "-o",
            out,
            "--concurrency",
            "2",
            "--json",
            "--graph",
            page := tmp_path / "graph.html",
        ]
        with started(*command) as process:
            wait_for_objects(out, process)
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=60)
        summary = json.loads(stdout)
        assert process.returncode == 130
        assert "Traceback" not in stderr
        assert "run the same command again" in stderr
        assert 0 < summary["answers"] < ANSWERS
        assert summary["open"] == ANSWERS - summary["answers"]
        assert len(lines(out)) == sum(summary["objects"].values())
        incomplete = f"Incomplete: {summary['open']} of {ANSWERS} questions of the run "
        assert incomplete in page.read_text("utf-8")
        rest = json.loads(run(*command).stdout)
        assert rest["from_earlier_runs"] == summary["answers"]
        assert out.read_bytes() == expected
        assert "questions of the run" not in page.read_text("utf-8")

    def test_run_interrupted_twice_leaves_its_questions_unfinished(self, tmp_path: Path) -> None:
        stuck = tmp_path / "stuck.jsonl"
        stuck.write_text('{"answer": "[]", "delay": 3600}\n')
        out = tmp_path / "o.jsonl"
        with started("extract", DOCUMENT, "--provider", f"scripted:{stuck}", "-o", out) as process:
            assert process.stderr is not None
            assert "asking about 7 chunks" in process.stderr.readline()
            while "8 calls in progress (the longest for " not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            while "interrupt again" not in (line := process.stderr.readline()):
                pass
            assert line.startswith("waiting for 8 calls in progress (the longest for ")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130

    @pytest.mark.parametrize("gone", ["o.jsonl*", "o.jsonl.state", "o.jsonl.state-wal"])
    def test_state_that_is_removed_meanwhile_ends_the_run(
        self, gone: str, tmp_path: Path, slow_recording: str
    ) -> None:
        out = tmp_path / "o.jsonl"
        with started("extract", DOCUMENT, "--provider", slow_recording, "-o", out) as process:
            wait_for_objects(out, process)
            for file in tmp_path.glob(gone):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert re.search(rf"error: {out}\.state.*: the file was moved or deleted, it is gone", stderr)
        assert "Traceback" not in stderr

    def test_state_that_cannot_grow_ends_the_run(self, tmp_path: Path, slow_recording: str) -> None:
        out = tmp_path / "o.jsonl"
        with started("extract", DOCUMENT, "--provider", slow_recording, "-o", out) as process:
            wait_for_objects(out, process)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, 1))
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert f"error: {out}.state: " in stderr
        assert "Traceback" not in stderr

    def test_two_runs_on_one_output_do_not_mix(self, tmp_path: Path, slow_recording: str) -> None:
        out = tmp_path / "o.jsonl"
        command = ["extract", DOCUMENT, "--provider", slow_recording, "-o", out, "--concurrency", "1"]
        with started(*command) as process:
            wait_for_objects(out, process)
            result = run(*command)
            assert result.returncode == 1
            assert "another run is using it" in result.stderr
            assert out.with_name("o.jsonl.part").stat().st_size > 0


class TestFilesThatAreNoDocuments:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (b"", "is empty"),
            (b" \n\n ", "is empty"),
            (b"\x7fELF\0\0", "is a binary file"),
            (b"%PDF-1.4\n%\xe2\xe3", "cannot be read as PDF, it is damaged"),
        ],
    )
    def test_run_over_only_unreadable_files_is_refused(
        self, content: bytes, told: str, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.txt").write_bytes(content)
        result = run("extract", "bad.txt", "--provider", SCRIPTED, folder=tmp_path)
        assert result.returncode == 2
        assert f"bad.txt: {told}" in result.stderr
        assert "Traceback" not in result.stderr
        assert not (tmp_path / "extracted.jsonl").exists()

    def test_templates_without_the_usual_prompts_ask_for_one(self, tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").write_text("dialect: jinja\nprompt: '{{ text }}'\n")
        result = run("extract", DOCUMENT, "--provider", SCRIPTED, "--templates", tmp_path, folder=tmp_path)
        assert result.returncode == 2
        assert "give --prompt ID" in result.stderr
        assert result.stderr.rstrip().endswith("one of: mine")

    def test_folder_without_documents_is_refused(self, tmp_path: Path) -> None:
        result = run("extract", tmp_path, "--provider", SCRIPTED, folder=tmp_path)
        assert result.returncode == 2
        assert str(tmp_path) in result.stderr

    def test_a_prompt_that_answers_with_text_has_no_objects(self, tmp_path: Path) -> None:
        result = run("extract", DOCUMENT, "--provider", SCRIPTED, "--prompt", "question", folder=tmp_path)
        assert result.returncode == 2
        assert "question: it answers with text" in result.stderr


class Recorded:
    """The recording behind a server that is busy, hangs up before or amid an answer, and else behaves."""

    def __init__(self) -> None:
        self._answers = list(recording_files.read(RECORDING))
        self._given: Counter[str] = Counter()
        self._seen: set[str] = set()
        self.troubles: Counter[str] = Counter()

    def reply(self, body: dict[str, Any]) -> Reply:
        system, *others = body["messages"]
        text = "\n".join(message["content"] for message in others if message["role"] == "user")
        prompt = "extract-relationships" if '"predicate"' in system["content"] else "extract-definitions"
        answers = [answer for answer in self._answers if answer.fits(prompt, text)]
        question = f"{prompt} {answers[0].contains}"
        answer = answers[min(self._given[question], len(answers) - 1)]
        parts = streamed(answer.text, answer.finish_reason, piece=5, chunk=17)
        match self._trouble(question, answers):
            case "busy":
                return Reply(status=503)
            case "gone":
                return Reply([Then.DROP])
            case "gone amid":
                return Reply([*parts[: len(parts) // 2], Then.DROP])
        self._given[question] += 1
        return Reply(parts)

    def _trouble(self, question: str, answers: list[ScriptedAnswer]) -> str:
        """What happens to the first call about a question; later ones are well."""
        if question in self._seen:
            return "none"
        self._seen.add(question)
        kinds = ["none", "busy", "gone", "gone amid" if len(answers) == 1 else "none"]
        kind = kinds[len(self._seen) % len(kinds)]
        self.troubles[kind] += 1
        return kind


async def test_a_server_on_loopback_gives_the_same_objects_as_the_recording(
    server: ModelServer, tmp_path: Path, expected: bytes
) -> None:
    recorded = Recorded()
    server.reply = recorded.reply
    out = tmp_path / "o.jsonl"
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "extract", str(DOCUMENT), "--json", "-o", str(out)),
        *("--base-url", f"{server.url}/v1", "--model", "small"),
        env=environment(OPENAI_API_KEY="sesame"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    assert json.loads(stdout)["objects"] == {"extract-definitions": 24, "extract-relationships": 44}
    assert out.read_bytes() == expected
    assert recorded.troubles.keys() == {"none", "busy", "gone", "gone amid"}
    assert {body["model"] for body in server.bodies} == {"small"}
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sesame"}
    assert b"sesame" not in stdout + stderr


REFUSED = {
    "the key": (401, b'{"error": {"message": "no such key"}}', "OPENAI_API_KEY"),
    "the model": (404, b'{"error": {"message": "no such model"}}', "--model NAME"),
    "the address": (404, b"no such page", "--base-url"),
}


async def extract_from(server: ModelServer, out: Path, *options: str) -> tuple[int | None, Any, str]:
    """Exit code, summary and standard error of a run over the document."""
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "extract", str(DOCUMENT), "--json", "-o", str(out)),
        *("--base-url", f"{server.url}/v1", "--model", "small", *options),
        env=environment(OPENAI_API_KEY="sesame"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    return process.returncode, json.loads(stdout), stderr.decode()


@pytest.mark.parametrize(("status", "body", "setting"), REFUSED.values(), ids=REFUSED)
async def test_a_run_in_which_every_question_would_fail_ends_with_those_in_progress(
    server: ModelServer, tmp_path: Path, expected: bytes, status: int, body: bytes, setting: str
) -> None:
    recorded, out, answered, concurrency = Recorded(), tmp_path / "o.jsonl", 3, 2

    def reply(question: dict[str, Any]) -> Reply:
        if len(server.bodies) > answered:
            return Reply([body], status, content_type="application/json")
        return recorded.reply(question)

    server.reply = reply
    code, summary, stderr = await extract_from(server, out, "--concurrency", str(concurrency))
    assert code == 1
    assert len(summary["failures"]) <= concurrency
    assert len(server.bodies) <= answered + concurrency
    assert summary["open"] == ANSWERS - summary["answers"] - len(summary["failures"]) > 0
    assert "stopped early: every other question would fail in the same way" in stderr
    assert setting in stderr
    assert f"extract {DOCUMENT} --json -o {out} --base-url {server.url}" in stderr

    server.reply = recorded.reply
    code, rest, _ = await extract_from(server, out)
    assert (code, rest["from_earlier_runs"]) == (0, summary["answers"])
    assert out.read_bytes() == expected


async def test_a_server_that_forbids_one_question_is_asked_the_others(
    server: ModelServer, tmp_path: Path
) -> None:
    server.reply = lambda body: Reply([b"{}"], 403) if len(server.bodies) == 1 else Reply(streamed("[]"))
    code, summary, _ = await extract_from(server, tmp_path / "o.jsonl")
    assert (code, summary["answers"], summary["open"]) == (1, ANSWERS - 1, 0)


def test_a_file_of_no_use_is_skipped_and_the_others_are_asked(expected: bytes, tmp_path: Path) -> None:
    empty, broken, out = tmp_path / "empty.txt", tmp_path / "broken.txt", tmp_path / "objects.jsonl"
    empty.write_text(" ")
    broken.write_bytes(b"caf\xe9\0")
    result = run("extract", empty, DOCUMENT, broken, "--provider", SCRIPTED, "-o", out)
    assert result.returncode == 1
    assert out.read_bytes() == expected
    assert f"skipped: 2 files\n  {empty}: is empty\n  {broken}: is a binary file" in result.stdout


def test_misspelt_key_in_the_terms_of_an_ontology_is_named_with_the_known_ones(tmp_path: Path) -> None:
    terms = ("-t", 'classes:={"Person": {"coment": "A human."}}', "--provider", SCRIPTED, "--estimate")
    asked = run(
        "extract", DOCUMENT, "--prompt", "extract-with-ontologies", *terms, "-o", tmp_path / "o.jsonl"
    )
    assert "warning: unknown keys in the term classes: coment; the known ones are uri," in asked.stderr


def test_page_of_the_graph_says_that_a_file_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" ")
    outputs = ("-o", tmp_path / "objects.jsonl", "--graph", tmp_path / "graph.html")
    run("extract", tmp_path / "empty.txt", DOCUMENT, "--provider", SCRIPTED, *outputs)
    page = (tmp_path / "graph.html").read_text("utf-8")
    assert '<p id="incomplete">1 file of the run was skipped.</p>' in page


@pytest.mark.parametrize(
    ("prompt", "given", "says"),
    [
        ("extract-with-ontologies", [], "term classes: extract-with-ontologies needs an ontology: give "),
        (
            "ontology-extract",
            ["--estimate"],
            "term classes: extract-with-ontologies needs an ontology: give ",
        ),
        ("extract-with-ontologies", ["-t", "classes:={}"], "--term classes:=@FILE"),
        ("extract-rows", [], "term schema: extract-rows needs it: give --term schema="),
        ("extract-rows", ["-t", "schema= "], "term schema: is empty, and extract-rows needs it"),
    ],
)
def test_prompt_without_a_term_that_it_needs_is_refused_before_asking(
    tmp_path: Path, prompt: str, given: list[str], says: str
) -> None:
    out = tmp_path / "o.jsonl"
    result = run("extract", DOCUMENT, "--prompt", prompt, *given, "--provider", SCRIPTED, "-o", out)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr
    assert not list(tmp_path.iterdir())


def test_answer_with_a_lone_surrogate_and_a_long_integer_reaches_every_output(tmp_path: Path) -> None:
    (tmp_path / "doc.txt").write_text("Etna grew by 123456789012345678901 grains.")
    answer = r'{"name": "Etna", "grains": 123456789012345678901, "note": "a \ud800"}'
    (tmp_path / "answers.jsonl").write_text(json.dumps({"answer": answer}))
    (tmp_path / "one.prompt").write_text(
        "schema Growth:\n    name: string\n    grains: int\n    note: string\n\n"
        "prompt growth expecting Growth as json:\n"
        '    graph: [{entity: {subject: "name", properties: {grains: {}, note: {}}}}]\n'
        '    text: """\n    {{ text }}\n    """\n'
    )
    command = ("extract", "doc.txt", "--templates", "one.prompt", "--prompt", "growth", "-o", "o.jsonl")
    outputs = ("--graph", "g.html", "--rdf", "g.ttl", "--report", "r.html", "--store", "store")
    for _ in range(2):  # also from the state
        result = run(*command, *outputs, "--provider", "scripted:answers.jsonl", folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert lines(tmp_path / "o.jsonl")[0]["object"] == json.loads(answer)
        assert "123456789012345678901 ;" in (tmp_path / "g.ttl").read_text()
