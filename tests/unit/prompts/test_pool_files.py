"""Gold files that prompt files name as their pools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pools import FILMS, gold_line, pool, prompt_file
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import files


def test_file_becomes_an_entry_of_its_own_before_the_prompt_that_names_its_hash(tmp_path: Path) -> None:
    found = files.load(prompt_file(tmp_path))
    key, prompt = found
    assert (key, prompt) == (pool().key, "template.films")
    assert json.loads(found[prompt])["examples"] == {"pool": key.removeprefix("pool."), "show": 2}
    assert not files.read(tmp_path).build().refused


def test_yaml_file_names_a_file_in_its_own_folder(tmp_path: Path) -> None:
    prompt_file(tmp_path)
    document = (
        'dialect: jinja\nprompt: "{{ text }}"\nresponse-type: jsonl\nexamples: {from: films.gold.jsonl}\n'
    )
    (tmp_path / "other.yaml").write_text(document)
    found = files.load(tmp_path)
    assert sorted(found) == [pool().key, "template.films", "template.other"]


def test_only_lines_for_the_prompt_count(tmp_path: Path) -> None:
    others = [gold_line(*FILMS[0], prompt="others"), *(gold_line(*each) for each in FILMS[1:])]
    assert pool(FILMS[1:]).key in files.load(prompt_file(tmp_path, *others))


def test_passage_is_the_first_term_that_is_a_text_where_none_is_called_text(tmp_path: Path) -> None:
    line = json.dumps({"terms": {"year": 1979, "page": "Alien is a film."}, "objects": []})
    path = prompt_file(tmp_path, line)
    path.write_text(path.read_text().replace("{{ text }}", "{{ page }}"))
    assert json.loads(next(iter(files.load(path).values())))["term"] == "page"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["{"], r"films\.gold\.jsonl:1: not JSON"),
        ([gold_line("a", []), gold_line("b", [], obj=1)], r"films\.gold\.jsonl:2 /obj: unknown key"),
        ([""], r"films\.gold\.jsonl: there are no texts"),
        ([gold_line("a", [], prompt="others")], r"films\.gold\.jsonl: no line is for films"),
        (
            [gold_line("a", []), gold_line("a", [{"film": "a", "by": "b"}])],
            r"jsonl:2 /objects: the same text",
        ),
        ([gold_line("a", [{"film": "a"}])], r"jsonl:1 /objects/0: the answer is rejected"),
        (
            [gold_line("a", [{"film": "a" * 20_000, "by": "b"}])],
            r"jsonl:1: the text is too long to be shown .*at most 20,000",
        ),
        (['{"terms": {}, "objects": []}'], r"jsonl:1 /terms: there is no passage"),
        ([gold_line("brick " * 4_000, [])], r"jsonl:1 /terms: .*the rendered text is longer than 20,000"),
        ([gold_line("a", [json.loads("[" * 900 + "]" * 900)])], r"jsonl:1: cannot be shown: Recursion"),
        ([gold_line("brick " * 800_000, [])], r"films\.gold\.jsonl: the pool is too large"),
    ],
)
def test_broken_pool_names_file_line_and_reason_and_the_prompt(
    tmp_path: Path, lines: list[str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        files.load(prompt_file(tmp_path, *lines))
    assert any("films.prompt:7" in note for note in raised.value.__notes__)


def test_values_of_a_pool_are_looked_up_in_their_own_texts(tmp_path: Path) -> None:
    path = prompt_file(tmp_path, gold_line("Alien again", [{"film": "Alien", "by": "Ridley Scott"}]))
    assert files.load(path)
    path.write_text(path.read_text().replace("by: string", "by: string @from(text)"))
    with pytest.raises(ConfigError, match=r'jsonl:1 /objects/0/by: .*"Ridley Scott" is not in the passage'):
        files.load(path)


def test_missing_pool_names_its_file_and_the_prompt(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.jsonl: No such file") as raised:
        files.load(prompt_file(tmp_path, examples='{from: "missing.jsonl"}'))
    assert "films.prompt:7" in raised.value.__notes__[0]


def test_export_has_its_pools(tmp_path: Path) -> None:
    found = files.load(prompt_file(tmp_path))
    export = tmp_path / "export.json"
    export.write_text(json.dumps({key: json.loads(text) for key, text in found.items()}))
    assert not files.read(export).build().refused
