"""`check` as a process: what it finds in prompts, flows, exports, recordings and examples."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import ROOT, run

SAY = 'prompt say: "x"\n    example:\n        answer: "y"\n        reads: "y"\n'
SAY += SAY.replace("say", "tell")
LIST = """\
prompt list expecting any[]: "List."
    example "one":
        answer: '[{"name": "a"}]'
        reads: [{name: "PLACE"}]
"""


def test_check_accepts_the_bundled_prompts_and_flows() -> None:
    result = run("check", ROOT / "templates", ROOT / "flows")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "extract-definitions.prompt (prompt, 6 examples)" in result.stdout
    assert "requests.yaml (flow)" in result.stdout


def test_check_names_file_key_found_and_expected_of_every_error(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "name: f\ninput: {topic: 'persistent://a/b/c'}\noutputs: {response: r}\n"
    )
    (tmp_path / "good.yaml").write_text("dialect: jinja\nprompt: hello\n")
    (tmp_path / "loop.yaml").write_text("dialect: jinja\nprompt: '{% for x %}'\n")
    (tmp_path / "typo.yaml").write_text("dialect: jinja\nprompt: hello\nresponse-typ: json\n")
    result = run("check", tmp_path)
    assert result.returncode == 2
    assert "good.yaml" in result.stdout
    assert "flow.yaml /outputs/response" in result.stderr
    assert "loop.yaml /prompt" in result.stderr
    assert "typo.yaml /response-typ" in result.stderr
    assert "did you mean" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("keys", "misspelt", "meant"),
    [
        (["inptu", "name", "outputs"], "inptu", "input"),
        (["inptu", "name", "outptus"], "inptu", "input"),
        (["inptu", "nmae", "outptus"], "inptu", "input"),
        (["inptu", "name", "prompt"], "inptu", "input"),
        (["promt", "dialect"], "promt", "prompt"),
        (["promt", "dialct"], "promt", "prompt"),
    ],
)
def test_check_recognizes_a_flow_or_prompt_whichever_key_is_misspelt(
    keys: list[str], misspelt: str, meant: str, tmp_path: Path
) -> None:
    values = {"inptu": {"topic": "persistent://a/b/c"}, "outputs": {"response": "persistent://a/b/d"}}
    file = tmp_path / "misspelt.yaml"
    file.write_text(json.dumps({key: values.get(key, "jinja") for key in keys}))
    result = run("check", file)
    assert f"{file} /{misspelt}: unknown key, did you mean '{meant}'?" in result.stderr.splitlines()[0]
    if meant == "input":
        assert "`prompt`" not in result.stderr


def test_check_recognizes_a_recording_whichever_key_is_misspelt(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text('{"prompt": "p", "answer": "x"}\n{"answr": "x"}\n{"prompt": "p", "match": "["}\n')
    result = run("check", file)
    assert result.returncode == 2
    assert f"error  {file}:2 /answr: unknown key, did you mean 'answer'?" in result.stderr
    assert f"error  {file}:3" in result.stderr
    file.write_text('{"prompt": "p", "answer": "x"}\n')
    assert run("check", file).stdout == f"OK     {file} (recording, 1 answer)\n"
    file.write_text('{"tems": {"text": "x"}, "objects": []}\n')
    assert "/tems: unknown key, did you mean 'terms'?" in run("check", file).stderr


def test_file_of_objects_is_no_recording(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    origin = {"prompt": "p", "file": "a.txt", "sha256": "0", "chunk": 1, "start": 0}
    file.write_text(json.dumps({**origin, "object": {"n": 1}}) + "\n")
    result = run("check", file)
    assert result.returncode == 2
    assert result.stderr == (
        f"error  {file}: cannot be checked (found 'a file of objects, written by `extract`', "
        "expected a recording, or a gold file, which `eval --from` makes of it)\n"
    )


@pytest.mark.parametrize("wrong", ["", '{"answr": "x"}'])
def test_recording_names_unknown_prompts_beside_its_errors(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    lines = [{"prompt": id, "answer": "x"} for id in ("nope", "extract-topics", "nope")]
    file.write_text("\n".join([*map(json.dumps, lines), wrong]))
    result = run("check", file)
    assert result.returncode == (2 if wrong else 0)
    warning = f"warning: {file}: not compared with the prompt nope, which is not among the files"
    assert result.stderr.splitlines()[-1:] == [warning]
    assert result.stderr.count("not compared") == 1


def test_error_in_a_gold_file_hides_no_unknown_prompt(tmp_path: Path) -> None:
    file = tmp_path / "gold.jsonl"
    file.write_text('{"prompt": "nope", "terms": {}, "objects": []}\n{"terms": {}, "objcts": []}\n')
    result = run("check", file)
    assert f"error  {file}:2 /objcts: unknown key" in result.stderr
    assert f"warning: {file}: not compared with the prompt nope, which is not" in result.stderr


def test_error_in_a_recording_hides_no_error_of_a_gold_file(tmp_path: Path) -> None:
    gold, recording = tmp_path / "gold.jsonl", tmp_path / "recording.jsonl"
    line = {"prompt": "extract-definitions", "terms": {"text": "x"}, "objects": [{"q": 1}]}
    gold.write_text(json.dumps(line) + "\n")
    recording.write_text('{"answr": "x"}\n')
    result = run("check", recording, gold)
    assert f"error  {recording}:1 /answr: unknown key" in result.stderr
    assert f"error  {gold}:1 /objects/0: the key `entity` is missing" in result.stderr


def test_check_refuses_a_named_pipe_without_a_writer_at_once(tmp_path: Path) -> None:
    for name in ("greet.prompt", "flow.yaml", "export.json", "lines.jsonl"):
        os.mkfifo(tmp_path / name)
        result = run("check", tmp_path / name)
        assert result.returncode == 2
        assert f"{tmp_path / name}: a pipe that nobody writes to" in result.stderr


def test_check_finds_two_flows_of_one_name(tmp_path: Path) -> None:
    flow = "name: f\ninput: {topic: 'persistent://a/b/c'}\noutputs: {response: 'persistent://a/b/d'}\n"
    (tmp_path / "one.yaml").write_text(flow)
    (tmp_path / "two.yaml").write_text(flow)
    result = run("check", tmp_path)
    assert result.returncode == 2
    assert "two.yaml /name: two flows have the same name" in result.stderr


def test_check_judges_each_entry_of_an_export(tmp_path: Path) -> None:
    entries = {
        "system": json.dumps("Be brief."),
        "template.good": json.dumps({"prompt": "Say {{text}}"}),
        "template.bad": json.dumps({"prompt": "Say {{text"}),
    }
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"prompt": entries}))
    result = run("check", export, "--json")
    verdicts = {verdict["place"]: verdict["ok"] for verdict in json.loads(result.stdout)}
    assert result.returncode == 2
    assert verdicts == {
        f"{export} system": True,
        f"{export} template.good": True,
        f"{export} template.bad": False,
    }


def test_check_of_a_missing_path_is_an_error(tmp_path: Path) -> None:
    result = run("check", tmp_path / "nowhere.yaml")
    assert result.returncode == 2
    assert "nowhere.yaml" in result.stderr


def test_check_tries_examples_of_prompts_and_shows_what_was_read_instead(tmp_path: Path) -> None:
    (tmp_path / "say.prompt").write_text(SAY)
    (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "a"))
    result = run("check", tmp_path)
    assert result.returncode == 0
    assert "list.prompt (prompt, 1 example)" in result.stdout
    assert "say.prompt (2 prompts, 2 examples)" in result.stdout
    (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "b"))
    result = run("check", tmp_path)
    assert result.returncode == 2
    assert "say.prompt" in result.stdout
    assert "list.prompt:4:24 /reads/0/name: list: one: the value differs" in result.stderr
    assert "found 'a', expected \"b\"" in result.stderr


def test_check_counts_prompts_and_examples_for_programs(tmp_path: Path) -> None:
    (tmp_path / "say.prompt").write_text(SAY)
    (tmp_path / "list.prompt").write_text(LIST.replace("PLACE", "b"))
    result = run("check", tmp_path, "--json")
    bad, good = json.loads(result.stdout)
    assert result.returncode == 2
    assert (good["ok"], good["prompts"], good["examples"]) == (True, 2, 2)
    assert (bad["ok"], bad["prompts"], bad["examples"]) == (False, 1, 1)
    assert bad["error"]["where"] == f"{tmp_path / 'list.prompt'}:4:24"
    assert (bad["error"]["path"], bad["error"]["found"]) == ("/reads/0/name", "a")


def test_check_asks_examples_under_the_system_message_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "a.prompt").write_text(SAY.replace("answer:", "terms: {a: 1}\n        answer:"))
    (tmp_path / "system.prompt").write_text('system: "{{ b }}"\n')
    result = run("check", tmp_path)
    assert result.returncode == 2
    assert (
        "a.prompt:3:16 /terms: say: an example: terms are missing (found ['a'], expected b)" in result.stderr
    )


def test_check_warns_of_a_flow_without_its_prompt_or_without_a_graph(tmp_path: Path) -> None:
    flow = tmp_path / "graph.yaml"
    flow.write_text(
        "name: g\ninput: {topic: 'persistent://a/b/c', kind: chunk}\nprompt: mine\n"
        "outputs: {triples: 'persistent://a/b/d'}\n"
    )
    prompt = tmp_path / "mine.prompt"
    prompt.write_text(
        'schema V:\n    name: string\n\nprompt mine expecting V[] as jsonl: "{{ text }} name"\n'
    )
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"template.mine": {"prompt": "?"}}))
    no_graph = f"warning: {flow}: prompt `mine` has no clause `graph`: no triples are made of its objects\n"

    alone = run("check", flow)

    assert (alone.returncode, alone.stdout) == (0, f"OK     {flow} (flow)\n")
    assert alone.stderr.startswith(f"warning: {flow}: there is no prompt `mine`; ")
    assert run("check", flow, prompt).stderr == no_graph
    assert run("check", flow, export).stderr == no_graph
    flow.write_text(flow.read_text().replace("mine", "extract-topics"))
    assert run("check", flow).stderr == ""


def test_check_names_both_places_of_a_prompt_that_is_there_twice(tmp_path: Path) -> None:
    (tmp_path / "a.prompt").write_text(LIST.replace("PLACE", "a"))
    (tmp_path / "list.yaml").write_text("dialect: jinja\nprompt: hello\n")
    result = run("check", tmp_path)
    assert result.returncode == 2
    assert "list.yaml: the prompt is defined twice" in result.stderr
    assert "a.prompt:1:8" in result.stderr


def test_check_names_every_error_of_a_file_and_the_forms_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("dialect: jinja\nprompt: a\ncache: 1h\nattempts: 99\nrepair: maybe\n")
    result = run("check", tmp_path / "a.yaml")
    assert result.returncode == 2
    assert "/cache: it has none of the allowed forms" in result.stderr
    assert "expected true or false; or the key seconds)" in result.stderr
    assert "/attempts: it is too large (found 99, expected at most 10)" in result.stderr
    assert "/repair" in result.stderr
    assert result.stderr.count("error  ") == 3


def test_check_and_render_show_where_a_question_describes_its_answer(
    tmp_path: Path,
) -> None:
    schema = 'schema Peak:\n    name: string\n    height: float  "In metres."\n\n'
    (tmp_path / "peaks.prompt").write_text(
        f'{schema}prompt peaks expecting Peak[] as jsonl:\n    text: "Which?"\n'
    )
    entry = {"dialect": "jinja", "prompt": "Which?", "response-type": "json", "schema": {"required": ["a"]}}
    (tmp_path / "export.json").write_text(json.dumps({"template.a": entry}))
    checked = run("check", tmp_path / "peaks.prompt", tmp_path / "export.json")
    assert checked.returncode == 0
    says = "does not say that the answer has the"
    assert f"peaks.prompt:6:11: the text of peaks {says} keys `name`, `height`, so" in checked.stderr
    assert f"export.json template.a: the text of a {says} key `a`, so" in checked.stderr
    assert checked.stdout.count("OK ") == 2
    (verdict,) = json.loads(run("check", tmp_path / "peaks.prompt", "--json").stdout)
    assert verdict["ok"]
    assert "{{ answer_format }}" in verdict["warnings"][0]

    shown = run("render", "peaks", "--templates", tmp_path / "peaks.prompt").stdout
    assert "\nWhich?\n\nAnswer with JSON objects" in shown
    assert '\n- "height" (number): In metres.\n' in shown


def test_warnings_of_a_prompt_stay_when_flows_and_lines_are_compared_with_it(tmp_path: Path) -> None:
    prompt, gold = tmp_path / "peaks.prompt", tmp_path / "gold.jsonl"
    prompt.write_text(
        'schema Peak:\n    name: string\n\nprompt peaks expecting Peak[] as jsonl: "{{ text }}"\n'
    )
    gold.write_text('{"terms": {"text": "x"}, "objects": [{"name": "x"}]}\n')
    alone = run("check", prompt).stderr
    assert "peaks does not say that the answer has the key `name`, so" in alone
    assert alone in run("check", prompt, ROOT / "flows" / "requests.yaml").stderr
    assert alone in run("check", prompt, gold).stderr


def test_check_names_the_numbers_and_dates_that_are_not_looked_up(tmp_path: Path) -> None:
    schema = "schema Person:\n    name: string @from(text)\n    born: date\n    year: int?\n\n"
    prompt = (
        'prompt people expecting Person[] as jsonl:\n    terms: {text: ""}\n    text: "Who? {{ text }}"\n'
    )
    (tmp_path / "people.prompt").write_text(schema + prompt)
    checked = run("check", tmp_path / "people.prompt")
    assert checked.returncode == 0
    assert "people does not look up the keys `born`, `year` in the text" in checked.stderr


@pytest.mark.parametrize(
    ("keys", "is_late"),
    [("qnt", False), ("nqt", True), ("nqs", False), ("snq", True)],
    ids=["first", "after a text", "before what it supports", "after what it supports"],
)
def test_check_names_a_quote_after_what_it_is_to_support(tmp_path: Path, keys: str, is_late: bool) -> None:
    fields = {
        "q": "    quote: string @quote(text)\n",
        "n": "    name: string @from(text)\n",
        "t": "    note: string\n",
        "s": "    note: string @supported(of: name)\n",
    }
    schema = "schema Fact:\n" + "".join(map(fields.__getitem__, keys))
    prompt = 'prompt facts expecting Fact[] as jsonl:\n    text: "Which? {{ text }} {{ answer_format }}"\n'
    (tmp_path / "facts.prompt").write_text(f"{schema}\n{prompt}")
    checked = run("check", tmp_path / "facts.prompt")
    assert checked.returncode == 0
    late = "facts asks for a quote after what it is to support, in the key `quote`"
    assert (late in checked.stderr) is is_late


def test_check_names_keys_of_things_in_the_graph_that_are_not_looked_up(tmp_path: Path) -> None:
    schema = "schema Person:\n    name: string @from(text)\n    place: string\n    job: string\n\n"
    prompt = (
        'prompt people expecting Person[] as jsonl:\n    terms: {text: ""}\n    text: "Who? {{ text }}"\n'
        "    graph: [{entity: {subject: name, properties: {place: {entity: true}, job: {}}}}]\n"
    )
    (tmp_path / "people.prompt").write_text(schema + prompt)
    checked = run("check", tmp_path / "people.prompt")
    assert checked.returncode == 0
    assert "people makes things of the key `place` in the graph, and does not look up" in checked.stderr


@pytest.mark.parametrize("said", ["", " @supported(of: name)", "graph"])
def test_check_says_where_nothing_says_what_a_quote_is_to_support(said: str, tmp_path: Path) -> None:
    mark = "" if said == "graph" else said
    schema = f"schema Person:\n    quote: string @quote(text)\n    name: string\n    job: string{mark}\n\n"
    prompt = 'prompt people expecting Person[] as jsonl:\n    text: "Who? {{ text }} {{ answer_format }}"\n'
    clause = "    graph: [{entity: {subject: name, definition: job}}]\n" if said == "graph" else ""
    (tmp_path / "people.prompt").write_text(schema + prompt + clause)
    checked = run("check", tmp_path / "people.prompt")
    assert checked.returncode == 0
    warning = "people quotes the text in the key `quote`, and does not say what the quote is to support"
    assert (warning in checked.stderr) == (said == "")


def test_check_refuses_a_term_of_the_reserved_name(tmp_path: Path) -> None:
    (tmp_path / "p.prompt").write_text('prompt p:\n    terms: {answer_format: "x"}\n    text: "Which?"\n')
    result = run("check", tmp_path / "p.prompt")
    assert result.returncode == 2
    assert "p.prompt:2:28 /terms/answer_format: the term `answer_format` is reserved" in result.stderr


@pytest.mark.parametrize(
    ("text", "is_told"), [("<passage>{{ text }}</passage>", False), ("Look. " * 20, True)]
)
def test_instructions_that_are_repeated_with_each_shown_example_are_a_warning(
    tmp_path: Path, text: str, is_told: bool
) -> None:
    file = tmp_path / "a.prompt"
    file.write_text(
        f'prompt name expecting any[] as jsonl:\n    text: "{text}{{{{ text }}}}"\n'
        '    example "none":\n        show: true\n        terms: {text: "Rain."}\n        reads: []\n'
    )
    checked = run("check", file)
    assert checked.returncode == 0
    says = "name repeats 119 characters of its text with each example that it shows"
    assert (says in checked.stderr) is is_told
