"""TrustGraph around processes of ours, on a real broker: its config service, completion workers, clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.support.trustgraph_client import TrustGraphClient, trustgraph_client
from tests.support.trustgraph_services import (
    CompletionWorker,
    ConfigService,
    Script,
    completion_worker,
    config_service,
    flow_topics,
)
from tests.support.worker_processes import Process, Site
from trustgraph_prompt.broker import connect

#: Seconds that somebody waits who expects no answer, or not the first time.
SOON = 2.0


class TrustGraphSite(Site):
    """A space on a broker, with TrustGraph's services in it and none that takes prompts or asks a model."""

    config: ConfigService

    def __init__(self, folder: Path, stack: AsyncExitStack, url: str, space: str) -> None:
        super().__init__(folder, stack)
        self.url = url
        self.space = space

    async def open(self) -> None:
        self.broker = await self._stack.enter_async_context(await connect(self.url))
        self.config = await self._stack.enter_async_context(config_service(self.broker, self.space))

    def topics(self, flow: str = "default", workspace: str = "default") -> dict[str, str]:
        """The topics of a flow, by the names of their specs."""
        return flow_topics(self.space, workspace, flow)

    async def model(
        self, script: Script, flow: str = "default", workspace: str = "default"
    ) -> CompletionWorker:
        """A completion worker of TrustGraph's for a flow, which says what the script says."""
        topics = self.topics(flow, workspace)
        asked, answered = topics["text-completion-request"], topics["text-completion-response"]
        return await self._stack.enter_async_context(completion_worker(self.broker, asked, answered, script))

    async def start_flow(self, flow: str = "default", workspace: str = "default") -> None:
        """Have the prompt processor serve a flow."""
        await self.config.start_flow(flow, self.topics(flow, workspace), workspace)

    async def prompts(self, workspace: str = "default", **templates: Any) -> None:
        """Put prompts into the config of a workspace: entries, or texts of templates."""
        entries = {
            name.replace("_", "-"): {"prompt": entry} if isinstance(entry, str) else entry
            for name, entry in templates.items()
        }
        values = {("prompt", f"template.{name}"): json.dumps(entry) for name, entry in entries.items()}
        await self.config.put(workspace, values)

    async def work(self, *options: object) -> Process:
        """A worker of ours in the place of TrustGraph's prompt service, once it is ready."""
        place = ("--broker", self.url, "--trustgraph", "--space", self.space)
        return await self.start("run", *place, *options)

    async def client(self, flow: str = "default", workspace: str = "default") -> TrustGraphClient:
        """Clients of a flow."""
        topics = self.topics(flow, workspace)
        return await self._stack.enter_async_context(trustgraph_client(self.url, topics))


async def answered(client: TrustGraphClient, prompt: str, expected: Mapping[str, Any]) -> int:
    """Ask until that is the answer: a change is not heard of at once. Says how often somebody asked."""
    for count in range(1, 60):
        came = await client.call("prompt", id=prompt, variables={}, timeout=SOON)
        if expected.items() <= came.get("result", came).items():
            return count
        await asyncio.sleep(0.1)
    raise AssertionError(f"{prompt} still gives {came}")


async def unanswered(client: TrustGraphClient, prompt: str) -> None:
    """Ask until nobody answers any more."""
    await answered(client, prompt, {"error": "TimeoutError"})
