"""The keys of `top`, and the exit code when it is interrupted."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from typing import Any

import pytest
import typer

from trustgraph_prompt.cli import top


async def until_equal(found: list[Any], expected: list[Any]) -> None:
    async with asyncio.timeout(30):
        while found != expected:
            await asyncio.sleep(0)
            assert found == expected[: len(found)]


async def test_top_ends_when_the_terminal_is_lost_and_not_at_a_broken_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    reads: list[bytes] = []
    pressed: list[str] = []

    def read(file: int, size: int, read: Any = os.read) -> bytes:
        reads.append(read(file, size))
        return reads[-1]

    with os.fdopen(theirs) as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", terminal)
        patched.setattr(os, "read", read)
        with top._keys(pressed.append):
            os.write(ours, b"\xe4")
            await until_equal(reads, [b"\xe4"])
            os.write(ours, b"f")
            await until_equal(pressed, ["f"])
            patched.setattr(os, "read", lambda file, size: b"")
            os.write(ours, b"x")
            async with asyncio.timeout(30):
                while "q" not in pressed:
                    await asyncio.sleep(0)
    os.close(ours)


@pytest.mark.parametrize(("once", "code"), [(True, 130), (False, 0)])
def test_interrupted_top_has_the_exit_code_of_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, once: bool, code: int
) -> None:
    async def interrupted(*_: object, **options: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "_once", interrupted)
    monkeypatch.setattr(top, "_live", interrupted)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(typer.Exit) as ended:
        top.command(["http://worker:1"], once=once)
    assert ended.value.exit_code == code
