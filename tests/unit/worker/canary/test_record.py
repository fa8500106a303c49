"""Which requests a canary answers, and what may stand in its record."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.workers import ENTRIES
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker import Flow, Input, Outputs
from trustgraph_prompt.worker.canary.record import Canaries, Canary

SHARES = st.floats(0, 1, exclude_min=True, exclude_max=True)
FLOW = Flow("f", Input("persistent://tg/flow/in", "s"), Outputs(answers="persistent://tg/flow/answers"))
PROMPTS = PromptSet.build(ENTRIES).prompts


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_canary_answers_its_share_of_the_requests(share: float) -> None:
    answered = sum(Canary("c", "{}", share).answers(f"request-{n}") for n in range(20_000))
    assert abs(answered / 20_000 - share) < 0.01


@given(st.text(), st.text(), SHARES)
def test_requests_of_a_smaller_share_are_among_those_of_a_larger_one(
    id: str, request: str, share: float
) -> None:
    small, large = Canary(id, "{}", share / 2), Canary(id, "{}", share)
    assert large.answers(request) or not small.answers(request)


@given(st.text(), SHARES, st.text(), st.text())
def test_side_of_a_request_depends_only_on_request_id_and_share(
    request: str, share: float, entry: str, by: str
) -> None:
    assert Canary("c", entry, share, by).answers(request) == Canary("c", "{}", share).answers(request)


def test_side_of_a_request_is_the_same_in_another_process() -> None:
    program = (
        "from trustgraph_prompt.worker.canary.record import Canary\n"
        "print([Canary('c', '{}', 0.3).answers(f'r{n}') for n in range(50)])"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(other.lower()) == [Canary("c", "{}", 0.3).answers(f"r{n}") for n in range(50)]


def test_two_canaries_select_different_requests() -> None:
    sides = [[Canary(id, "{}", 0.5).answers(f"r{n}") for n in range(200)] for id in ("a", "b")]
    assert 60 < sum(one == other for one, other in zip(*sides, strict=True)) < 140


@given(st.text(min_size=1), st.text(min_size=1), SHARES, st.text())
def test_record_is_read_as_it_was_written(id: str, entry: str, share: float, by: str) -> None:
    canary = Canary(id, entry, share, by)
    assert Canary.decode(canary.encode()) == canary


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"id": "c", "entry": "{}"}',
        *(
            json.dumps({"id": "c", "entry": "{}", "share": share}).encode()
            for share in (0, 1, -0.1, 1e308, "10%", None, True)
        ),
        b'{"id": "", "entry": "{}", "share": 0.5}',
        b'{"id": 7, "entry": "{}", "share": 0.5}',
        b'{"id": "c", "entry": {}, "share": 0.5}',
        b'{"id": "c", "entry": "{}", "share": 0.5, "by": 7}',
    ],
    ids=lambda data: data[:50],
)
def test_hostile_record_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        Canary.decode(data)


def test_flow_without_answers_or_of_another_workspace_has_no_canary() -> None:
    served = PROMPTS["say"]
    changed = replace(served, attempts=2, canary="c")
    canaries = Canaries({("default", "say"): (Canary("c", "{}", 1 - 1e-12), changed)})
    assert canaries.choose(FLOW, served, "r") is changed
    assert canaries.choose(FLOW, PROMPTS["define"], "r") is PROMPTS["define"]
    assert canaries.choose(replace(FLOW, workspace="other"), served, "r") is served
    assert canaries.choose(replace(FLOW, outputs=Outputs()), served, "r") is served


def test_flow_asks_its_own_prompt_or_the_one_that_a_request_names() -> None:
    prompts = {"default": PromptSet.build(ENTRIES)}
    chunks = replace(FLOW, input=replace(FLOW.input, kind="chunk"), prompt="define")
    completions = replace(FLOW, input=replace(FLOW.input, kind="text-completion"))
    asked = {
        id: [f.may_ask(id, "default", prompts) for f in (FLOW, chunks, completions)]
        for id in ("define", "say")
    }
    assert asked == {"define": [True, True, False], "say": [True, False, False]}
    assert not FLOW.may_ask("say", "another", prompts)
