"""Stand-ins for TrustGraph's config service and for its text-completion worker, over a broker of ours.

They speak the wire in plain JSON of their own and nothing of `trustgraph_prompt.wire`, so that they bear
witness independently of it. Names and order of the fields are those of trustgraph-base 2.11.1.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from trustgraph_prompt.broker import Broker, Message, Producer

WORKSPACES: Final = "__workspaces__"
_RESPONSE: Final = {"version": 0, "values": [], "directory": [], "config": {}, "error": None}


class ConfigService:
    """TrustGraph's config service: values by workspace, type and key, and a poke for every change of them.

    The switches: one that is `silent` hears requests and answers none; operations in `refuses` are answered
    with `bad-operation`, as by a version that does not know them; of workspaces in `mute` it says nothing;
    what is asked of a workspace and type in `held` it answers when that is set; `version` may be set back, as
    by a database that was wiped.
    """

    def __init__(self, responses: Producer, pokes: Producer) -> None:
        self.values: dict[tuple[str, str, str], str] = {}
        self.version = 1
        self.silent = False
        self.refuses: set[str] = set()
        self.mute: set[str] = set()
        self.held: dict[tuple[str, str], asyncio.Event] = {}
        self.requests: list[dict[str, Any]] = []
        self._responses = responses
        self._pokes = pokes

    async def set(self, type: str, workspace: str, key: str, value: str) -> None:
        """Set a value, which is JSON text for whoever reads it, and poke."""
        await self.put(workspace, {(type, key): value})

    async def put(self, workspace: str, values: Mapping[tuple[str, str], str]) -> None:
        """Set several values, by type and key, with one poke for all of them."""
        self.values |= {(workspace, type, key): value for (type, key), value in values.items()}
        await self._changed({type for type, _ in values}, workspace)

    async def delete(self, type: str, workspace: str, *keys: str) -> None:
        """Delete some keys of a type, with one poke."""
        for key in keys:
            self.values.pop((workspace, type, key), None)
        await self._changed({type}, workspace)

    async def start_flow(
        self, name: str, topics: Mapping[str, str], workspace: str = "default", processor: str = "prompt"
    ) -> None:
        """Tell a processor to serve a flow, by the topics of its specs; or that its topics are others now."""
        definition = json.dumps({"topics": topics, "parameters": {}})
        await self.set(f"processor:{processor}", workspace, name, definition)

    async def stop_flow(self, name: str, workspace: str = "default", processor: str = "prompt") -> None:
        """Tell a processor that a flow is over."""
        await self.delete(f"processor:{processor}", workspace, name)

    async def create_workspace(self, name: str) -> None:
        self.values[WORKSPACES, "workspace", name] = json.dumps({"enabled": True})
        await self._changed({"workspace"}, WORKSPACES, created=[name])

    async def delete_workspace(self, name: str) -> None:
        """The workspace goes, with all its values."""
        del self.values[WORKSPACES, "workspace", name]
        self.values = {place: value for place, value in self.values.items() if place[0] != name}
        await self._changed({"workspace"}, WORKSPACES, deleted=[name])

    async def poke(
        self,
        changes: Mapping[str, list[str]],
        *,
        version: int | None = None,
        created: Collection[str] = (),
        deleted: Collection[str] = (),
    ) -> None:
        """Say what changed: the workspaces by type. With no change it says that the service has started."""
        workspaces = {"created": list(created), "deleted": list(deleted)} if created or deleted else None
        push = {
            "version": self.version if version is None else version,
            "changes": dict(changes),
            "workspace_changes": workspaces,
        }
        await self._pokes.send(json.dumps(push).encode())

    async def answer(self, message: Message) -> None:
        request = json.loads(message.data)
        self.requests.append(request)
        if self.silent or request.get("workspace") in self.mute:
            return
        response = json.dumps({**_RESPONSE, **self._response(request)}).encode()
        if event := self.held.get((request.get("workspace", ""), request.get("type", ""))):
            await event.wait()
        await self._responses.send(response, properties={"id": message.properties["id"]})

    def asked(self, workspace: str) -> int:
        """How many requests were about a workspace."""
        return sum(request.get("workspace") == workspace for request in self.requests)

    async def _changed(
        self,
        types: Iterable[str],
        workspace: str,
        created: Collection[str] = (),
        deleted: Collection[str] = (),
    ) -> None:
        self.version += 1
        reserved = workspace.startswith("_")  # of these nobody is told
        changes = {} if reserved else {type: [workspace] for type in types}
        await self.poke(changes, created=created, deleted=deleted)

    def _response(self, request: Mapping[str, Any]) -> dict[str, Any]:
        operation, workspace, type = (request.get(name, "") for name in ("operation", "workspace", "type"))
        if operation in self.refuses:
            return _error("bad-operation", "Bad operation")
        match operation:
            case "getkeys-all-ws" | "getvalues-all-ws":
                found = [place for place in self.values if place[1] == type]
                values = [self._value(*place, named=True) for place in found]
                if operation == "getkeys-all-ws":
                    values = [{**value, "value": ""} for value in values]
                return {"version": self.version, "values": values}
            case "getvalues" | "getkeys" | "list" | "get" | "config" if not workspace:
                return _error("bad-request", "Workspace is required")
            case "getvalues":
                found = [place for place in self.values if place[:2] == (workspace, type)]
                return {"version": self.version, "values": [self._value(*place) for place in found]}
            case "get":
                asked = [(workspace, key["type"], key["key"]) for key in request["keys"]]
                return {"version": self.version, "values": [self._value(*place) for place in asked]}
            case "list" | "getkeys":
                keys = [place[2] for place in self.values if place[:2] == (workspace, type)]
                return {"version": self.version, "directory": keys}
            case "config":
                config: dict[str, dict[str, str]] = {}
                for (where, kind, key), value in self.values.items():
                    if where == workspace:
                        config.setdefault(kind, {})[key] = value
                return {"version": self.version, "config": config}
        return _error("bad-operation", "Bad operation")

    def _value(self, workspace: str, type: str, key: str, *, named: bool = False) -> dict[str, Any]:
        value = self.values.get((workspace, type, key))
        return {"type": type, "key": key, "value": value, "workspace": workspace if named else ""}


def _error(type: str, message: str) -> dict[str, Any]:
    return {"error": {"type": type, "message": message}}


@asynccontextmanager
async def config_service(broker: Broker, space: str = "tg") -> AsyncIterator[ConfigService]:
    """A config service on the topics of a space, which says that it has started."""
    responses = await broker.producer(f"response:{space}:config")
    service = ConfigService(responses, await broker.producer(f"notify:{space}:config"))
    async with _flow_set(broker, f"request:{space}:config", "config-svc", service.answer):
        await service.poke({})
        yield service


@dataclass(frozen=True)
class Completion:
    """What a text-completion worker does with a request.

    It waits `delay` seconds and for `once`; then it answers `text`, in pieces of `piece` characters where it
    is asked to stream, or an error (type and message), or nothing at all where `lost`: so ends a rate limit
    of theirs. `cut` gives the pieces of a stream and no end of it.
    """

    text: str | None = ""
    in_token: int | None = 10
    out_token: int | None = 5
    model: str | None = "stand-in"
    piece: int = 8
    delay: float = 0.0
    once: asyncio.Event | None = None
    error: tuple[str, str] | None = None
    lost: bool = False
    cut: bool = False


#: What to do with a request (`system`, `prompt`, …); a plain text is a completion with that text.
Script = Callable[[dict[str, Any]], Completion | str]


@dataclass
class CompletionWorker:
    """A text-completion worker that answers what its script says, any number of requests at a time.

    `asked` counts the requests by their prompt, `most` is how many were in its hands at once.
    """

    script: Script
    responses: Producer
    requests: list[dict[str, Any]] = field(default_factory=list)
    in_hand: int = 0
    most: int = 0

    @property
    def asked(self) -> Counter[str]:
        return Counter(request["prompt"] for request in self.requests)

    async def answer(self, message: Message) -> None:
        request = json.loads(message.data)
        self.requests.append(request)
        said = self.script(request)
        completion = said if isinstance(said, Completion) else Completion(said)
        self.in_hand += 1
        self.most = max(self.most, self.in_hand)
        try:
            await asyncio.sleep(completion.delay)
            if completion.once is not None:
                await completion.once.wait()
            for response in _responses(completion, streaming=request.get("streaming", False)):
                data = json.dumps(response).encode()
                await self.responses.send(data, properties={"id": message.properties["id"]})
        finally:
            self.in_hand -= 1


def _responses(said: Completion, *, streaming: bool) -> list[dict[str, Any]]:
    if said.lost:
        return []
    if said.error is not None:
        kind, text = said.error
        return [_completion(None, error={"type": kind, "message": text}, end_of_stream=True)]
    counted = {"in_token": said.in_token, "out_token": said.out_token, "model": said.model}
    if not streaming or said.text is None:
        return [_completion(said.text, end_of_stream=True, **counted)]
    starts = range(0, len(said.text), said.piece)
    pieces = [_completion(said.text[at : at + said.piece], model=said.model) for at in starts]
    return pieces if said.cut else [*pieces, _completion("", end_of_stream=True, **counted)]


def _completion(response: str | None, **fields: object) -> dict[str, Any]:
    empty = {"error": None, "response": response, "in_token": None, "out_token": None, "model": None}
    return {**empty, "end_of_stream": False, "models": [], **fields}


@asynccontextmanager
async def completion_worker(
    broker: Broker, request: str, response: str, script: Script
) -> AsyncIterator[CompletionWorker]:
    """A worker on a pair of topics."""
    worker = CompletionWorker(script, await broker.producer(response))
    async with _flow_set(broker, request, "text-completion--stand-in", worker.answer):
        yield worker


@asynccontextmanager
async def agent(broker: Broker, request: str, response: str, script: Script) -> AsyncIterator[None]:
    """An agent on a pair of topics, that answers a `question` with what the script says."""
    responses = await broker.producer(response)

    async def answer(message: Message) -> None:
        said = script(json.loads(message.data))
        text = said.text if isinstance(said, Completion) else said
        last = {"message_type": "answer", "content": text, "end_of_message": True, "end_of_dialog": True}
        await responses.send(json.dumps(last).encode(), properties={"id": message.properties["id"]})

    async with _flow_set(broker, request, "agent--stand-in", answer):
        yield


def flow_topics(space: str, workspace: str, flow: str) -> dict[str, str]:
    """The topics of the prompt processor's specs, as TrustGraph's stock blueprint names them."""
    place = f"{workspace}:{flow}"
    return {
        "request": f"request:{space}:prompt:{place}",
        "response": f"response:{space}:prompt:{place}",
        "text-completion-request": f"request:{space}:text-completion:{place}",
        "text-completion-response": f"response:{space}:text-completion:{place}",
    }


def extractor_topics(space: str, workspace: str, flow: str) -> dict[str, str]:
    """The topics of the extractors' specs, as TrustGraph's stock blueprint names them."""
    place = f"{workspace}:{flow}"
    return {
        "input": f"flow:{space}:chunk-load:{place}",
        "triples": f"flow:{space}:triples-store:{place}",
        "entity-contexts": f"flow:{space}:entity-contexts-load:{place}",
        "output": f"flow:{space}:rows-store:{place}",
        "prompt-request": f"request:{space}:prompt:{place}",
        "prompt-response": f"response:{space}:prompt:{place}",
    }


@asynccontextmanager
async def _flow_set(
    broker: Broker, topic: str, subscription: str, answer: Callable[[Message], Awaitable[None]]
) -> AsyncIterator[None]:
    """Answer each message of a topic in a task of its own; an answer that fails, fails the test."""
    consumer = await broker.consumer(topic, subscription)

    async def one(message: Message) -> None:
        await answer(message)
        await consumer.acknowledge(message)

    async def each() -> None:
        async with asyncio.TaskGroup() as tasks:
            while message := await consumer.receive():
                tasks.create_task(one(message))

    flow_set = asyncio.create_task(each())
    try:
        yield
    finally:
        await consumer.close()
        flow_set.cancel()
        await asyncio.gather(flow_set, return_exceptions=True)
        if not flow_set.cancelled():
            flow_set.result()
