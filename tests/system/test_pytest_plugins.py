"""What the run of the tests itself does: with one that hangs, and with those that want to be alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT, environment

HANGING = """
import time
import hypothesis
import pytest

@hypothesis.given(hypothesis.strategies.integers())
def test_that_hangs(number):
    while True:
        time.sleep(0.01)

def test_that_hangs_and_lets_nobody_end_it():
    # What would end it is caught in another frame, so this one stands on one line.
    while True:
        sleep_whatever_happens()

def sleep_whatever_happens():
    try:
        time.sleep(0.01)
    except BaseException:
        pass

@pytest.fixture
def closed():
    yield
    with open("closed", "a") as notes:
        notes.write("closed")

@pytest.fixture
def endless(closed):
    yield
    while True:
        time.sleep(0.01)

def test_that_fails_and_then_hangs(endless):
    assert False

def test_of_which_only_a_thing_beside_hangs():
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass

@pytest.mark.parametrize("number", range(8))
def test_that_ends(number):
    pass
"""

PROPERTY = """
import hypothesis

@hypothesis.given(number=hypothesis.strategies.integers(0, 5_000))
def test_of_any_number(number):
    with open("tried", "a") as tried:
        tried.write(f"{{number}}\\n")
    {body}
"""

SHARING = """
import os
import time
import pytest

def note(what):
    with open("notes", "a") as notes:
        notes.write(what + "\\n")

@pytest.mark.alone
@pytest.mark.parametrize("number", range(3))
def test_alone(number):
    note("alone begins")
    time.sleep(0.1)
    note("alone ends")

@pytest.mark.xdist_group("few")
@pytest.mark.parametrize("number", range(4))
def test_grouped(number):
    note(f"group in {os.getpid()}")

@pytest.mark.parametrize("number", range(8))
def test_shared(number):
    note("shared begins")
    time.sleep(0.1)
    note("shared ends")
"""


def run_tests(folder: Path, tests: str, *options: str) -> str:
    """What pytest says of the tests, in two processes set up as ours are."""
    (folder / "test_some.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-c", f"{ROOT}/pyproject.toml", f"--rootdir={folder}", "."]
    plugins = [f"-ptests.support.{name}" for name in ("parallel", "hanging", "hypothesis_profiles")]
    result = subprocess.run(
        [*command, "-pno:cacheprovider", *plugins, "-n2", *options],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr


def test_a_test_that_hangs_ends_and_says_where_and_the_others_go_on(tmp_path: Path) -> None:
    output = run_tests(tmp_path, HANGING, "-o", "faulthandler_timeout=3")
    assert "TestHangs: still at work after 1.5 s" in output
    assert "test_some.py:9" in output
    assert "test_some.py::test_that_hangs - " in output
    assert 'test_some.py", line 14 in test_that_hangs_and_lets_nobody_end_it' in output
    assert "crashed while running 'test_some.py::test_that_hangs_and_lets_nobody_end_it'" in output
    assert "ERROR test_some.py::test_that_fails_and_then_hangs - " in output
    assert (tmp_path / "closed").read_text() == "closed"
    assert "test_some.py::test_of_which_only_a_thing_beside_hangs - " in output
    assert "4 failed, 8 passed, 1 error" in output


def test_tests_marked_alone_run_last_and_a_group_shares_a_process(tmp_path: Path) -> None:
    output = run_tests(tmp_path, SHARING)
    assert "15 passed" in output
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes[-6:] == ["alone begins", "alone ends"] * 3
    assert len({note for note in notes if note.startswith("group")}) == 1
    together = [note for note in notes if note.startswith("shared")]
    assert together != ["shared begins", "shared ends"] * 8


@pytest.mark.parametrize("body", ["assert number < 1000", "while number >= 1000: pass"])
def test_example_that_fuzzing_finds_is_tried_first_by_every_run(tmp_path: Path, body: str) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import hypothesis_profiles\nhypothesis_profiles.SECONDS = 0.2\n"
    )
    found = run_tests(
        tmp_path, PROPERTY.format(body=body), "--hypothesis-profile=fuzz", "--hypothesis-seed=1"
    )
    assert "number=1000" in found
    assert "1 failed" in found

    (tmp_path / "tried").unlink()
    assert "1 passed" in run_tests(tmp_path, PROPERTY.format(body="pass"))
    assert (tmp_path / "tried").read_text().splitlines()[0] == "1000"


def test_two_runs_try_the_same_examples(tmp_path: Path) -> None:
    tried = []
    for _ in range(2):
        assert "1 passed" in run_tests(tmp_path, PROPERTY.format(body="pass"))
        tried.append((tmp_path / "tried").read_text())
        (tmp_path / "tried").unlink()
    assert tried[0] == tried[1]
