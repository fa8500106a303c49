"""Pools of examples as a person uses them: published, looked at, shown, measured, and taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run
from tests.support.pools import FILMS, gold_line, pool, prompt_file

PASSAGE = "Stalker is a film by Andrei Tarkovsky."
STALKER = '{"film": "Stalker", "by": "Andrei Tarkovsky"}'
KEY, PROMPT = pool().key, "template.films"


@pytest.fixture
def broker(tmp_path: Path) -> list[str]:
    return ["--broker", f"embedded:{tmp_path / 'broker.db'}"]


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    return prompt_file(tmp_path / "prompts")


def ok(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def add(prompt: Path, *lines: str) -> None:
    """Add lines to the pool."""
    with (prompt.parent / "films.gold.jsonl").open("a") as gold:
        gold.writelines(f"\n{line}" for line in lines)


def recording(folder: Path, *answers: tuple[str, str]) -> str:
    path = folder / "answers.jsonl"
    lines = ({"contains": match, "answer": answer} for match, answer in answers)
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"scripted:{path}"


def test_push_publishes_the_pool_once_and_the_prompt_names_its_hash(prompt: Path, broker: list[str]) -> None:
    assert f"pushed 2 entries to workspace default: {KEY}, {PROMPT}" in ok("config", "push", prompt, *broker)
    assert ok("config", "list", *broker).split() == [f"default/{KEY}", f"default/{PROMPT}"]
    entry = json.loads(ok("config", "get", PROMPT, *broker))
    assert entry["examples"] == {"pool": KEY.removeprefix("pool."), "show": 2}
    assert json.loads(ok("config", "get", f"default/{KEY}", *broker))["term"] == "text"
    [line] = ok("config", "history", *broker).splitlines()
    assert "template.films" in line


def test_export_of_a_workspace_can_be_used_again(tmp_path: Path, prompt: Path, broker: list[str]) -> None:
    ok("config", "push", prompt, *broker)
    export = tmp_path / "export.json"
    export.write_text(ok("config", "list", "--json", "-w", "default", *broker))
    ok("check", export)
    shown = json.loads(ok("render", "films", "--term", f"text={PASSAGE}", "--templates", export, "--json"))
    assert [each["prompt"] for each in shown["examples"]] == [FILMS[3][0], FILMS[1][0]]


def test_rollback_finds_the_pool_of_the_version_before(prompt: Path, broker: list[str]) -> None:
    ok("config", "push", prompt, *broker)
    first = ok("config", "get", PROMPT, *broker)
    add(prompt, gold_line("A lake is wet.", []))
    ok("config", "push", prompt, *broker)
    assert ok("config", "get", PROMPT, *broker) != first
    assert len(ok("config", "list", *broker).split()) == 3
    assert "rolled back template.films" in ok("config", "rollback", "films", *broker)
    assert ok("config", "get", PROMPT, *broker) == first


def test_rollback_to_a_version_whose_pool_was_deleted_is_refused(prompt: Path, broker: list[str]) -> None:
    ok("config", "push", prompt, *broker)
    add(prompt, gold_line("A lake is wet.", []))
    ok("config", "push", prompt, *broker)
    ok("config", "delete", KEY, *broker)
    gone = run("config", "rollback", "films", *broker)
    assert gone.returncode == 2
    assert "its pool of examples is not there" in gone.stderr


def test_apply_keeps_pools_that_its_files_no_longer_name(prompt: Path, broker: list[str]) -> None:
    apply = ("config", "apply", prompt.parent, "--owner", "me", *broker)
    ok(*apply)
    add(prompt, gold_line("A lake is wet.", []))
    ok(*apply)
    assert len(ok("config", "list", *broker).split()) == 3
    assert "nothing to change" in ok(*apply)


def test_check_and_push_refuse_a_value_that_its_text_does_not_have(prompt: Path, broker: list[str]) -> None:
    prompt.write_text(prompt.read_text().replace("by: string", "by: string @from(text)"))
    add(prompt, gold_line("Alien again", [{"film": "Alien", "by": "Ridley Scott"}]))
    for command in (("check", prompt), ("config", "push", prompt, *broker)):
        refused = run(*command)
        assert refused.returncode == 2
        assert "films.gold.jsonl:5 /objects/0/by: the answer is rejected" in refused.stdout + refused.stderr


def test_check_says_what_is_wrong_with_a_pool(prompt: Path) -> None:
    add(prompt, "{", gold_line(FILMS[0][0], []))
    refused = run("check", prompt)
    assert refused.returncode == 2
    assert "films.gold.jsonl:5: not JSON" in refused.stdout + refused.stderr


def test_canary_gets_its_pool_before_it_answers(prompt: Path, broker: list[str]) -> None:
    ok("config", "push", prompt, *broker)
    add(prompt, gold_line("A lake is wet.", []))
    said = ok("config", "push", prompt, "--canary", "10%", *broker)
    assert "10 % of the requests in workspace default: films" in said
    assert len(ok("config", "list", *broker).split()) == 3
    ok("config", "canary", "promote", "films", *broker)
    assert json.loads(ok("config", "get", PROMPT, *broker))["examples"]["pool"] != KEY.removeprefix("pool.")


def test_extract_asks_again_only_where_other_examples_are_shown(tmp_path: Path, prompt: Path) -> None:
    texts = {"stalker.txt": PASSAGE, "lake.txt": "In March the lake was free of ice."}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    model = recording(tmp_path, ("Stalker", STALKER), ("March", "[]"))
    out = tmp_path / "objects.jsonl"
    extract = (
        *("extract", *(tmp_path / name for name in texts), "--prompt", "films", "-o", out),
        *("--templates", prompt, "--provider", model),
    )
    ok(*extract)
    [line] = [json.loads(each) for each in out.read_text().splitlines()]
    assert len(line["examples"]) == 2

    add(prompt, gold_line("Each year the lake is free of ice in April.", []))
    estimate = json.loads(ok(*extract, "--estimate", "--json"))
    assert (estimate["questions"], estimate["kept"]) == (1, 1)
    again = run(*extract)
    assert again.returncode == 0
    assert "the prompt films has changed" in again.stderr
    assert [json.loads(each) for each in out.read_text().splitlines()] == [line]


def test_estimate_counts_the_examples(tmp_path: Path, prompt: Path) -> None:
    (tmp_path / "stalker.txt").write_text(PASSAGE)

    def tokens(path: Path) -> int:
        arguments = (
            "--prompt",
            "films",
            "-o",
            tmp_path / "o.jsonl",
            "--templates",
            path,
            "--estimate",
            "--json",
        )
        found: dict[str, Any] = json.loads(
            ok("extract", tmp_path / "stalker.txt", *arguments, "--provider", recording(tmp_path))
        )
        return int(found["low"]["tokens_in"])

    with_examples = tokens(prompt)
    prompt.write_text(prompt.read_text().replace('    examples: {from: "films.gold.jsonl", show: 2}\n', ""))
    assert with_examples > tokens(prompt) + 20


def test_eval_shows_no_text_to_itself_and_says_for_how_many(tmp_path: Path, prompt: Path) -> None:
    gold = prompt.parent / "films.gold.jsonl"
    answers = [(text, "\n".join(map(json.dumps, objects)) or "[]") for text, objects in FILMS]
    evaluate = (
        *("eval", "films", "--gold", gold, "--templates", prompt),
        *("--provider", recording(tmp_path, *answers), "--json"),
    )
    [report] = json.loads(ok(*evaluate))
    assert report["f1"]["value"] == 1
    said = "films shows no example that has the same text, or part of it: left out for 4 of 4 texts"
    assert said in report["remarks"]

    add(prompt, gold_line("Winter is cold.", [], note="measured with no text before"))
    estimates = json.loads(ok(*evaluate, "--estimate"))
    assert [(each["kept"], each["questions"]) for each in estimates] == [
        (3, 2)
    ]  # the text on winter, and its own


def test_eval_compares_with_a_version_that_had_another_pool(tmp_path: Path, prompt: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(gold_line(PASSAGE, [json.loads(STALKER)]))
    evaluate = (
        *("eval", "films", "--gold", gold, "--templates", prompt),
        *("--provider", recording(tmp_path, ("Stalker", STALKER)), "--json"),
    )
    [first] = json.loads(ok(*evaluate))
    add(prompt, gold_line("Nostalghia is a film by Andrei Tarkovsky, too.", []))
    [second] = json.loads(ok(*evaluate, "--against", first["version"]))
    assert second["version"] != first["version"]
    assert second["against"]["version"] == first["version"]


def test_ask_names_the_texts_that_it_showed(tmp_path: Path, prompt: Path) -> None:
    arguments = ("--templates", prompt, "--provider", recording(tmp_path, ("Stalker", STALKER)), "--json")
    found = json.loads(ok("ask", "films", "--term", f"text={PASSAGE}", *arguments))
    assert len(set(found["examples"])) == 2
