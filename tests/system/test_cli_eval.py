"""`eval` as a process, with a model on loopback whose errors are known."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.command import DOCUMENT, ROOT, SCRIPTED, environment, run, started
from tests.support.model_server import DONE, ModelServer, Reply, in_chunks, said, used

TEXTS, EACH = 8, 5
TOKENS_IN, TOKENS_OUT = 100, 50

SOURCE = '''
schema Mountain:
    name: string
    height: int?

prompt mountains expecting Mountain[] as jsonl:
    text: """
    Which mountains are in {{ text }}?
    {{ answer_format }}
    """
'''

Gold = list[dict[str, Any]]


def gold() -> Gold:
    return [
        {
            "terms": {"text": f"text {number}: " + ", ".join(names)},
            "objects": [{"name": name} for name in names],
        }
        for number in range(TEXTS)
        for names in [[f"Mount {number}{each}" for each in "abcde"]]
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mountains.prompt").write_text(SOURCE)
    write_gold(tmp_path, gold())
    return tmp_path


def write_gold(folder: Path, lines: Gold) -> None:
    (folder / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def names_in(body: dict[str, Any]) -> list[str]:
    question: str = body["messages"][-1]["content"]
    return question.partition(": ")[2].partition("?")[0].split(", ")


def answer(objects: list[str]) -> Reply:
    text = "".join(json.dumps({"name": name}) + "\n" for name in objects) or "[]"
    events = said(text) + said(finish_reason="stop") + used(TOKENS_IN, TOKENS_OUT) + DONE
    return Reply(in_chunks(events, 400))


def flawed(body: dict[str, Any]) -> Reply:
    """Misses the last mountain, writes the first in capitals, and makes one up."""
    first, *others = names_in(body)
    return answer([first.upper(), *others[:-1], "Atlantis"])


def right(body: dict[str, Any]) -> Reply:
    return answer(names_in(body))


def command(server: ModelServer, *options: object, model: str = "small") -> list[object]:
    return [
        *("eval", "mountains", "--gold", "gold.jsonl", "--templates", "mine"),
        *("--base-url", f"{server.url}/v1", "--model", model, *options),
    ]


async def evaluated(folder: Path, server: ModelServer, *options: object) -> CompletedProcess[str]:
    return await asyncio.to_thread(run, *command(server, *options), folder=folder)


async def report(folder: Path, server: ModelServer, *options: object) -> dict[str, Any]:
    result = await evaluated(folder, server, "--json", *options)
    assert result.returncode == 0, result.stderr
    [found] = json.loads(result.stdout)
    return dict(found)


async def test_known_errors_come_out_and_nothing_is_asked_twice(folder: Path, server: ModelServer) -> None:
    server.reply = flawed
    found = await report(folder, server, "--price", "1000000,2000000")
    assert len(server.bodies) == TEXTS
    came = EACH  # one too few, one too many
    assert found["precision"]["value"] == found["recall"]["value"] == pytest.approx((EACH - 1) / came)
    assert (found["answers"], found["calls"], found["truncated"]) == (TEXTS, TEXTS, 0)
    assert found["tokens_in"] == TEXTS * TOKENS_IN
    assert found["money"] == TEXTS * (TOKENS_IN + 2 * TOKENS_OUT)
    assert [mistake["what"] for mistake in found["texts"][0]["mistakes"]] == ["missing", "too many"]
    assert found["texts"][0]["mistakes"][0]["expected"] == {"name": "Mount 0e"}

    prompt = folder / "mine" / "mountains.prompt"
    prompt.write_text(SOURCE.replace("as jsonl:", 'as jsonl:\n    match: {name: "exact"}'))
    exact = await report(folder, server)
    assert exact["version"] == found["version"]
    assert exact["recall"]["value"] == pytest.approx((EACH - 2) / EACH)

    corrected = gold()
    corrected[0]["objects"].pop()
    write_gold(folder, corrected)
    again = await report(folder, server)
    assert again["recall"]["value"] == pytest.approx((EACH - 2) * TEXTS / (EACH * TEXTS - 1))
    assert len(server.bodies) == TEXTS


async def test_people_get_tables_with_mistakes_side_by_side(folder: Path, server: ModelServer) -> None:
    server.reply = flawed
    shown = await evaluated(folder, server)
    assert shown.returncode == 0, shown.stderr
    rows = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert rows[0] == "mountains: 8 texts, 40 objects expected"
    assert "precision 0.800 0.800 to 0.800" in rows
    assert "line 1 5 5 4 0.800" in rows
    assert "line 1 missing Mount 0e" in rows
    assert "line 1 too many Atlantis" in rows
    assert "8/8 answers, 0 kept from earlier runs" in shown.stderr


async def test_comparison_finds_the_better_of_two_wordings(folder: Path, server: ModelServer) -> None:
    (folder / "old.prompt").write_text(SOURCE.replace("Which", "List the"))
    server.reply = lambda body: (flawed if "List the" in str(body) else right)(body)
    found = await report(folder, server, "--against", "old.prompt")
    assert found["comparison"]["verdict"] == "better"
    assert found["comparison"]["differences"]["f1"]["value"] == pytest.approx(0.2)
    assert found["f1"]["value"] == 1
    assert found["against"]["version"] != found["version"]
    changes = [change for change in found["comparison"]["changes"] if change["text"] == "line 1"]
    assert [(change["what"], change["object"]["name"]) for change in changes] == [
        ("found", "Mount 0e"),
        ("no longer too many", "Atlantis"),
    ]
    shown = await evaluated(folder, server, "--against", "old.prompt")
    assert f"{found['version'][:12]} is better: the difference in F1 is more than noise." in shown.stdout
    assert len(server.bodies) == 2 * TEXTS


async def test_two_models_are_compared(folder: Path, server: ModelServer) -> None:
    server.reply = lambda body: (flawed if body["model"] == "large" else right)(body)
    found = await report(folder, server, "--against", "large")
    assert (found["model"], found["against"]["model"]) == ("small", "large")
    assert found["against"]["recall"]["value"] == pytest.approx(0.8)

    same = await evaluated(folder, server, "--against", "small")
    assert "both sides are the same version and model" in same.stderr
    assert "not more than noise" in same.stdout


async def test_check_and_eval_warn_of_limits_of_the_scores_before_asking(
    folder: Path, server: ModelServer
) -> None:
    (folder / "mine" / "mountains.prompt").write_text(
        SOURCE.replace("as jsonl:", "as jsonl:\n    match: {name: exact, height: exact}")
    )
    write_gold(folder, gold()[:5])
    said = [
        "`height` is compared, but 25 of 25 objects lack it (the first in gold.jsonl:1): "
        "an object that comes with `height` matches none of these",
        "mountains has fewer than 6 texts (5): no difference between two versions can be told from noise",
    ]
    checked = await asyncio.to_thread(run, "check", "mine", "gold.jsonl", folder=folder)
    assert checked.stderr.splitlines() == [f"warning: gold.jsonl: {each}" for each in said]

    server.reply = right
    shown = await evaluated(folder, server)
    assert shown.stderr.splitlines()[: len(said)] == said  # before the first question
    assert shown.stdout.splitlines()[:4] == [
        "mountains: 5 texts, 25 objects expected",
        "compared: `name` (exact), `height` (exact)",
        *said,
    ]


async def test_a_version_of_the_history_is_compared(folder: Path, server: ModelServer) -> None:
    broker = ("--broker", f"embedded:{folder / 'broker.db'}")

    async def config(*words: str) -> str:
        done = await asyncio.to_thread(run, "config", *words, *broker, folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (folder / "mine" / "mountains.prompt").write_text(SOURCE.replace("Which", "List the"))
    await config("push", "mine")
    (folder / "mine" / "mountains.prompt").write_text(SOURCE)
    await config("push", "mine")
    history = (await config("history", "mountains", "--json")).splitlines()
    new, old = (json.loads(line)["version"] for line in history)

    server.reply = lambda body: (flawed if "List the" in str(body) else right)(body)
    found = await report(folder, server, "--against", old[:8], *broker)
    assert (found["version"], found["against"]["version"]) == (new, old)
    assert found["comparison"]["verdict"] == "better"

    unknown = await evaluated(folder, server, "--against", "0123abcd", *broker)
    assert unknown.returncode == 2
    assert unknown.stderr.startswith(
        "error: --against: gold.jsonl.state has no answers of the version 0123abcd"
    )
    assert "there is no such version" in unknown.stderr
    assert f"the broker is embedded:{folder / 'broker.db'}\n" in unknown.stderr


def test_check_leaves_terms_that_no_line_has_to_the_options_of_eval(folder: Path) -> None:
    (folder / "mine" / "mountains.prompt").write_text(
        SOURCE.replace("{{ text }}", "{{ text }} {{ language }}")
    )
    write_gold(folder, gold())
    checked = run("check", "mine", "gold.jsonl", folder=folder)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (
        0,
        f"OK     gold.jsonl ({TEXTS} gold texts)",
    )
    assert "not compared with mountains, as no line has its terms language: give them to" in checked.stderr


async def test_a_version_that_was_printed_is_compared_without_a_broker(
    folder: Path, server: ModelServer
) -> None:
    server.reply = lambda body: (right if "List the" in str(body) else flawed)(body)
    old = (await report(folder, server))["version"]
    (folder / "mine" / "mountains.prompt").write_text(SOURCE.replace("Which", "List the"))
    found = await report(folder, server, "--against", old[:12])
    assert found["against"]["version"] == old != found["version"]
    assert found["comparison"]["verdict"] == "better"
    assert len(server.bodies) == 2 * TEXTS

    unknown = await evaluated(folder, server, "--against", "0123abcd")
    assert unknown.returncode == 1
    [error] = (line for line in unknown.stderr.splitlines() if line.startswith("error: "))
    nowhere = "has no answers of the version 0123abcd of mountains, nor is it in the history: "
    assert error.startswith("error: --against: ")
    assert f"gold.jsonl.state {nowhere}pulsar://localhost:6650: " in error


async def test_a_pipeline_fails_under_a_limit(folder: Path, server: ModelServer) -> None:
    server.reply = flawed
    assert (await evaluated(folder, server, "--fail-under", "f1=0.8")).returncode == 0
    failed = await evaluated(folder, server, "--fail-under", "f1=0.81", "--fail-under", "recall=0.5")
    assert failed.returncode == 1
    assert "mountains: f1 is 0.8000, less than 0.81 (--fail-under)" in failed.stderr
    assert "recall is" not in failed.stderr


async def test_a_question_without_an_answer_is_not_scored_and_asked_again(
    folder: Path, server: ModelServer
) -> None:
    refused = Reply([b'{"error": {"message": "no"}}'], status=400, content_type="application/json")
    server.reply = lambda body: refused if "text 3" in str(body) else right(body)
    failed = await evaluated(folder, server, "--json")
    assert failed.returncode == 1
    assert "gold.jsonl:4: no answer:" in failed.stderr
    assert f"{TEXTS - 1}/{TEXTS} answers, 0 kept from earlier runs, 1 failed" in failed.stderr
    assert "change what its errors name, then run the same command again, which only" in failed.stderr
    [found] = json.loads(failed.stdout)
    assert (found["answers"], found["recall"]["value"]) == (TEXTS - 1, 1)

    shown = await evaluated(folder, server)
    assert f"mountains: {TEXTS - 1} of {TEXTS} texts, " in shown.stdout

    asked = len(server.bodies)
    server.reply = right
    assert (await report(folder, server))["answers"] == TEXTS
    assert len(server.bodies) == asked + 1


async def test_refusals_are_answers_that_find_nothing_and_do_not_end_it(
    folder: Path, server: ModelServer
) -> None:
    lines = [{"terms": {"text": f"text {number}: Etna"}, "objects": ["Etna"]} for number in range(60)]
    write_gold(folder, [{**line, "objects": [{"name": "Etna"}]} for line in lines])
    events = said(finish_reason="content_filter") + used(TOKENS_IN, 0) + DONE
    server.reply = lambda _: Reply(in_chunks(events, 400))
    found = await report(folder, server)
    assert (found["answers"], found["recall"]["value"], found["failed"]) == (60, 0, [])


async def test_interrupted_run_goes_on_where_it_ended(folder: Path, server: ModelServer) -> None:
    held = asyncio.Event()

    def hold_after_two(body: dict[str, Any]) -> Reply:
        reply = right(body)
        return reply if len(server.bodies) <= 2 else Reply([held, *reply.parts])

    server.reply = hold_after_two
    words = command(server, "--concurrency", "2")
    words[words.index("gold.jsonl")] = folder / "gold.jsonl"
    words[words.index("mine")] = folder / "mine"
    with started(*words) as process:
        while len(server.bodies) < 4:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "interrupt again" not in await asyncio.to_thread(process.stderr.readline):
            assert process.poll() is None
        held.set()
        out, err = await asyncio.to_thread(process.communicate)
    assert (process.returncode, out) == (130, "")
    assert "run the same command again for the rest:\n  " in err
    assert "eval " in err.partition("for the rest:\n  ")[2]
    assert len(server.bodies) == 4

    assert (await report(folder, server))["answers"] == TEXTS
    assert len(server.bodies) == TEXTS


async def test_the_limit_of_cost_is_that_of_both_sides(folder: Path, server: ModelServer) -> None:
    server.reply = right
    paid = TOKENS_IN + TOKENS_OUT
    price = ("--price", "1000000,1000000", "--concurrency", "1", "--against", "large")
    ended = await evaluated(folder, server, *price, "--max-cost", (TEXTS + 0.5) * paid + 4_400)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "ended by --max-cost" in ended.stderr
    asked = len(server.bodies)
    assert TEXTS <= asked < 2 * TEXTS

    assert (await report(folder, server, *price))["comparison"]["texts"] == TEXTS
    assert len(server.bodies) == 2 * TEXTS


async def test_an_estimate_asks_nothing_and_counts_what_is_kept(folder: Path, server: ModelServer) -> None:
    server.reply = lambda body: Reply([b"{}"], status=404, content_type="application/json")
    estimate = ("--estimate", "--against", "large", "--json")
    first, other = json.loads((await evaluated(folder, server, *estimate)).stdout)
    assert (first["questions"], other["questions"]) == (TEXTS, TEXTS)
    assert first["low"]["tokens_in"] > TEXTS
    assert "POST /v1/chat/completions" not in server.lines

    server.reply = right
    await report(folder, server)
    first, other = json.loads((await evaluated(folder, server, *estimate)).stdout)
    assert (first["questions"], first["kept"], other["questions"]) == (0, TEXTS, TEXTS)
    shown = await evaluated(folder, server, "--estimate")
    assert shown.stdout.startswith("0 questions to ask; 8 more are answered already")


def test_gold_file_begins_with_the_output_of_extract(tmp_path: Path) -> None:
    document = tmp_path / "chalk.txt"
    document.write_bytes(DOCUMENT.read_bytes())
    run("extract", document, "--provider", SCRIPTED, "-o", "out.jsonl", folder=tmp_path)
    begin = ("eval", "extract-definitions", "--gold", "gold.jsonl", "--from", "out.jsonl")
    begun = run(*begin, folder=tmp_path)
    assert (begun.returncode, begun.stdout) == (0, "-> gold.jsonl: 7 texts\n")
    assert "correct them by hand" in begun.stderr
    lines = [json.loads(line) for line in (tmp_path / "gold.jsonl").read_text().splitlines()]
    assert [len(line["objects"]) for line in lines] == [4, 5, 0, 5, 3, 4, 3]
    assert lines[2]["name"] == f"{document} chunk 3"
    assert all(line["terms"]["text"] in document.read_text() for line in lines)
    assert run("check", "gold.jsonl", folder=tmp_path).stdout == "OK     gold.jsonl (7 gold texts)\n"

    scored = run(*begin[:4], "--provider", SCRIPTED, "--json", folder=tmp_path)
    assert json.loads(scored.stdout)[0]["f1"]["value"] == 1

    again = run(*begin, folder=tmp_path)
    assert again.returncode == 2
    assert "already exists and may hold corrections" in again.stderr
    document.write_text("Another text.")
    changed = run(*begin[:3], "new.jsonl", *begin[4:], folder=tmp_path)
    assert changed.returncode == 2
    assert "the document has changed since it was extracted" in changed.stderr
    (tmp_path / "out.jsonl.state").unlink()
    lost = run(*begin[:3], "new.jsonl", *begin[4:], folder=tmp_path)
    assert "out.jsonl.state: does not tell how documents were split" in lost.stderr


def test_the_gold_file_of_the_demo_is_valid_and_scores_its_recording(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_bytes((ROOT / "demo" / "on-a-piece-of-chalk.gold.jsonl").read_bytes())
    assert run("check", gold).returncode == 0
    words = ("eval", "extract-definitions", "extract-relationships", "--gold", gold)
    result = run(*words, "--provider", SCRIPTED, "--against", SCRIPTED, "--json")
    assert result.returncode == 0, result.stderr
    definitions, relationships = json.loads(result.stdout)
    assert 0.5 < definitions["f1"]["value"] < 1
    assert relationships["comparison"]["verdict"] == "noise"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-under", "f2=0.5"], "--fail-under: is not a limit (found 'f2=0.5'"),
        (["--fail-under", "f1=80"], "--fail-under: is not a limit"),
        (["--against", "./mine/none.prompt"], "--against: there is no such file or folder"),
        (["--max-cost", "1"], "--max-cost: needs the price of the model"),
        (["--tokenizer", "x.json"], "--tokenizer: has no effect without --estimate"),
        (["--gold", "none.jsonl"], "none.jsonl: No such file"),
    ],
)
async def test_wrong_usage_is_refused_before_anything_is_asked(
    folder: Path, server: ModelServer, options: list[str], message: str
) -> None:
    refused = await evaluated(folder, server, *options)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert not server.bodies


def test_prompt_without_objects_and_gold_file_without_its_lines_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "gold.jsonl").write_text('{"prompt": "others", "terms": {"text": "x"}, "objects": []}\n')
    text = run("eval", "question", "--gold", "gold.jsonl", "--provider", SCRIPTED, folder=tmp_path)
    assert "question: it answers with text, which contains no objects" in text.stderr
    words = ("eval", "extract-topics", "--gold", "gold.jsonl", "--provider", SCRIPTED)
    none = run(*words, folder=tmp_path)
    assert none.returncode == 2
    assert "gold.jsonl: no line is for extract-topics" in none.stderr


def test_eval_without_its_extra_says_what_to_install(tmp_path: Path) -> None:
    words = ["eval", "extract-topics", "--gold", "gold.jsonl", "--provider", SCRIPTED]
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        f"sys.argv[1:] = {words!r}\n"
        "from trustgraph_prompt.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "pip install 'trustgraph-prompt[eval]'" in result.stderr
