"""The progress of a run in a log: a line soon, and then fewer of them."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_extract_summary import JOB
from trustgraph_prompt.cli.extract_summary import ExtractSummary
from trustgraph_prompt.cli.progress import RunProgress
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.llm.calls_in_progress import CallsInProgress


def test_progress_in_a_log_is_a_line_soon_and_then_one_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = RunProgress(ExtractSummary([JOB]), CallsInProgress(ScriptedProvider([])))
    seconds = []
    with progress.shown() as update:
        capsys.readouterr()
        for second in range(3600):
            now = float(second)
            update()
            if capsys.readouterr().err:
                seconds.append(second)
    assert seconds[:3] == [2, 5, 10]
    assert {later - sooner for sooner, later in zip(seconds[-10:-1], seconds[-9:], strict=True)} == {60}
