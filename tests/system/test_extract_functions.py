"""`extract` and `extract_document` with a server: answers are continued and kept, nothing is left open."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, streamed
from trustgraph_prompt import Reason, aextract, aextract_document, extract, extract_document
from trustgraph_prompt.errors import BrokerError, ConfigError
from trustgraph_prompt.extraction import ChunkOutcome
from trustgraph_prompt.llm import OpenAIProvider

TEXT = "The Rhine rises in the Alps, the Danube in the Black Forest."
RHINE, DANUBE = '{"name": "Rhine"}', '{"name": "Danube"}'


@dataclass
class River:
    name: str = field(metadata={"x-from": "text"})


def cut_after_the_first(body: dict[str, Any]) -> Reply:
    goes_on = len(body["messages"]) > 1
    return Reply(streamed(DANUBE) if goes_on else streamed(f'{RHINE}\n{{"na', "length"))


async def test_a_cut_answer_is_continued_over_connections_that_are_kept() -> None:
    async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
        server.reply = cut_after_the_first
        for _ in range(2):
            outcome = await aextract(TEXT, list[River], provider)
            assert outcome.instances == [River("Rhine"), River("Danube")]
        assert (len(server.bodies), len(server.peers)) == (4, 1)


async def test_a_program_without_a_loop_asks_again_and_again_and_closes_nothing() -> None:
    def program() -> None:
        provider = OpenAIProvider(server.url, "small")
        for _ in range(2):
            assert extract(TEXT, list[River], provider).instances == [River("Rhine"), River("Danube")]

    async with ModelServer() as server:
        server.reply = cut_after_the_first
        await asyncio.to_thread(program)
        gc.collect()  # a connection or a loop that is left open warns
        assert (len(server.bodies), len(server.peers)) == (4, 2)


async def test_unclosed_provider_ends_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with ModelServer() as server:
        server.reply = cut_after_the_first
        provider = OpenAIProvider(server.url, "small")
        assert (await aextract(TEXT, list[River], provider)).instances
        del provider
        gc.collect()  # aiohttp logs a session that is left open, and warns
        await asyncio.sleep(0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_program_that_closes_no_provider_prints_nothing_at_its_end(tmp_path: Path) -> None:
    async with ModelServer() as server:
        server.reply = cut_after_the_first
        program = (
            "import asyncio\nfrom trustgraph_prompt import aextract\n"
            "from trustgraph_prompt.llm import OpenAIProvider\n"
            f"provider = OpenAIProvider({server.url!r}, 'small')\n"
            "print(asyncio.run(aextract('The Rhine.', list[dict], provider)).ok)"
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        assert await process.communicate() == (b"True\n", b"")


RIVERS = {"alps.txt": "The Rhine rises in the Alps.", "forest.md": "# Forest\n\nThe Danube rises here."}


def both_rivers(body: dict[str, Any]) -> Reply:
    return Reply(streamed(f"{RHINE}\n{DANUBE}"))


def right(body: dict[str, Any]) -> Reply:
    return Reply(streamed(RHINE if "Rhine" in str(body["messages"]) else DANUBE))


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name, text in RIVERS.items():
        (folder / name).write_text(text)
    return folder


class TestDocuments:
    async def test_each_chunk_has_its_origin_and_its_instances(self, papers: Path) -> None:
        (papers / "broken.pdf").write_bytes(b"%PDF-1.4\n%\xe2\xe3")
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            server.reply = both_rivers
            alps, forest, broken = await aextract_document(papers, list[River], provider)
        assert (alps.file, alps.number, alps.start, alps.heading) == (str(papers / "alps.txt"), 1, 0, None)
        assert (forest.heading, forest.instances) == ("Forest", [River("Danube")])
        [where] = [found["/name"] for found in forest.grounding]
        assert where is not None
        assert [forest.text[start:end] for start, end in where.spans] == ["Danube"]
        assert [issue.reason for each in alps.rejected for issue in each.issues] == [Reason.UNGROUNDED]
        assert (alps.ok, broken.ok, broken.reason) == (True, False, None)
        assert broken.problem.startswith(f"{papers / 'broken.pdf'}: cannot be read as PDF")

    async def test_skipped_files_and_guessed_encodings_are_logged(
        self, papers: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (papers / "old.xyz").write_bytes(b"old")
        (papers / "latin.txt").write_bytes("The Rhine rises in the Alps. Größe, Österreich.".encode("cp1252"))
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            server.reply = both_rivers
            await aextract_document(papers, list[River], provider)
        logged = [record for record in caplog.records if record.name == "trustgraph_prompt.extraction"]
        assert {record.levelno for record in logged} == {logging.WARNING}
        skipped, encoding = (record.getMessage() for record in logged)
        assert skipped == f"{papers}: skipped 1 .xyz"
        assert encoding.startswith(f"{papers / 'latin.txt'}: is not UTF-8; read as ")

    async def test_answers_in_a_state_are_not_asked_for_again(self, papers: Path, tmp_path: Path) -> None:
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:

            async def outcomes(**options: Any) -> list[ChunkOutcome[River]]:
                found: list[ChunkOutcome[River]] = await aextract_document(
                    papers, list[River], provider, state=tmp_path / "rivers.state", **options
                )
                return found

            failed = Reply([b'{"error": {"message": "no"}}'], status=400, content_type="application/json")
            server.reply = lambda body: failed if "Danube" in str(body) else right(body)
            first = await outcomes()
            assert [each.ok for each in first] == [True, False]
            assert "HTTP 400" in first[1].problem

            server.reply = right
            again = await outcomes()
            assert [(each.ok, each.earlier) for each in again] == [(True, True), (True, False)]
            assert [each.instances for each in await outcomes()] == [[River("Rhine")], [River("Danube")]]
            assert len(server.bodies) == 3
            await outcomes(instruction="Leave out lakes.")
            assert len(server.bodies) == 5

    async def test_program_without_a_loop_gets_the_same(self, papers: Path) -> None:
        async with ModelServer() as server:
            server.reply = right
            provider = OpenAIProvider(server.url, "small")
            [alps] = await asyncio.to_thread(extract_document, papers / "alps.txt", list[River], provider)
            assert alps.instances == [River("Rhine")]
            with pytest.raises(RuntimeError, match=r"await aextract_document\(\) instead"):
                extract_document(papers, list[River], provider)

    async def test_list_that_is_one_value_is_returned_whole(self, papers: Path) -> None:
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            server.reply = lambda _: Reply(streamed('["Rhine", "Main"]'))
            [alps] = await aextract_document(papers / "alps.txt", list[str], provider)
            assert alps.instances == ["Rhine", "Main"]

    async def test_long_integers_of_one_value_keep_their_digits(self, papers: Path) -> None:
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            server.reply = lambda _: Reply(streamed("[123456789012345678901]"))
            [alps] = await aextract_document(papers / "alps.txt", list[int], provider)
            assert alps.instances == [123456789012345678901]

    async def test_wrong_argument_is_named_before_a_question(self, papers: Path) -> None:
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            with pytest.raises(ValueError, match="concurrency: expected at least 1, found 0"):
                await aextract_document(papers, list[River], provider, concurrency=0)
            with pytest.raises(TypeError, match="provider: expected a Provider"):
                await aextract_document(papers, list[River], None)  # type: ignore[arg-type]
            assert not server.bodies

    async def test_calls_that_fail_one_after_the_other_end_the_run(self, tmp_path: Path) -> None:
        cold = "In the winter of {} the river Rhine was so cold that one could walk over it."
        lines = (cold.format(year) for year in range(1700, 1750))
        (tmp_path / "long.txt").write_text("\n\n".join(lines))
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            server.reply = lambda _: Reply([b"{}"], status=400, content_type="application/json")
            outcomes = await aextract_document(
                tmp_path / "long.txt", list[River], provider, chunk_size=100, concurrency=1
            )
            assert len(server.bodies) < 25 < len(outcomes)
            assert not any(each.ok for each in outcomes)
            assert outcomes[-1].problem == "was not asked: calls before it failed"

    async def test_file_of_another_program_is_no_state(self, papers: Path, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("mine")
        async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
            with pytest.raises((ConfigError, BrokerError)):
                await aextract_document(papers, list[River], provider, state=tmp_path / "notes.txt")
            with pytest.raises(ConfigError, match="does not exist"):
                await aextract_document(papers / "none.txt", list[River], provider)
            assert not server.bodies
        assert (tmp_path / "notes.txt").read_text() == "mine"
