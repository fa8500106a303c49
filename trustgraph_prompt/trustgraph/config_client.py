"""The client of TrustGraph's config service."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable, CallTimeout, RequestError
from trustgraph_prompt.wire import ConfigRequest, ConfigResponse, ConfigValue

SECONDS_FOR_AN_ANSWER = 10.0

AT_ONCE = 8
"""Maximum number of concurrent requests."""

Values = Mapping[str, str]
"""The values of one type of config in a workspace, by key; each is JSON text."""


class ConfigClient:
    """Calls the service of a topic space over its request and response topics.

    Methods raise `BrokerError`; the next call may succeed, even after `BrokerClosed`.
    """

    def __init__(self, broker: Broker, space: str) -> None:
        self.version = 0
        self._callers = CallerPool(broker)
        requests = f"non-persistent://{space}/request/config"
        self._caller = self._callers.between(requests, f"non-persistent://{space}/response/config")
        self._silent = f"{broker.address}: no response from the config service on {requests}"
        self._permits = asyncio.Semaphore(AT_ONCE)

    async def values(self, workspace: str, type: str) -> Values:
        """Fetch the values of a type in a workspace."""
        request = ConfigRequest("getvalues", workspace=workspace, type=type)
        response = await self._ask(request)
        if response.error is not None:
            raise _refusal(request, response)
        return _by_key(response.values)

    async def everywhere(
        self, type: str, *, skip: Collection[str] = ()
    ) -> dict[str, Values | BrokerError | None]:
        """Fetch the values of a type in every workspace that has any; the error where that fails.

        Reserved workspaces are left out. Those to `skip` get None instead of values. Services before 2.7.13
        do not support `getkeys-all-ws` and return all values at once.
        """
        request = ConfigRequest("getkeys-all-ws", type=type)
        response = await self._ask(request)
        whole = response.error is not None and response.error.type == "bad-operation"
        if whole:
            request = ConfigRequest("getvalues-all-ws", type=type)
            response = await self._ask(request)
        if response.error is not None:
            raise _refusal(request, response)
        named = {value.workspace for value in response.values}
        workspaces = sorted(name for name in named if name and not is_reserved(name))
        if whole:
            return {
                name: _by_key(value for value in response.values if value.workspace == name)
                for name in workspaces
            }
        asked = [name for name in workspaces if name not in skip]
        return {**dict.fromkeys(workspaces), **await self.each(asked, type)}

    async def each(self, workspaces: Iterable[str], type: str) -> dict[str, Values | BrokerError]:
        """Fetch the values of a type in some workspaces; the error where that fails. Raises nothing."""

        async def values_or_error(workspace: str) -> Values | BrokerError:
            try:
                return await self.values(workspace, type)
            except BrokerError as error:
                return error

        names = list(workspaces)
        return dict(zip(names, await asyncio.gather(*map(values_or_error, names)), strict=True))

    async def close(self) -> None:
        """Close the client: calls under way raise `BrokerClosed`, later ones `BrokerUnavailable`."""
        await self._callers.close()

    async def _ask(self, request: ConfigRequest) -> ConfigResponse:
        async with (
            self._permits,
            aclosing(self._caller.call(request.encode(), timeout=SECONDS_FOR_AN_ANSWER)) as responses,
        ):
            try:
                response = ConfigResponse.decode((await anext(responses)).data)
            except CallTimeout:
                raise CallTimeout(f"{self._silent} in {SECONDS_FOR_AN_ANSWER:g} s") from None
            except RequestError as error:
                raise BrokerUnavailable(f"invalid answer of the config service: {error}") from None
        if response.error is None:
            self.version = response.version
        return response


def is_reserved(workspace: str) -> bool:
    """Whether a workspace is TrustGraph's own, without flows."""
    return workspace.startswith("_")


def _by_key(values: Iterable[ConfigValue]) -> Values:
    return {value.key: value.value for value in values if value.value is not None}


def _refusal(request: ConfigRequest, response: ConfigResponse) -> BrokerError:
    assert response.error is not None
    asked = f"{request.operation} {request.type} {request.workspace}".rstrip()
    return BrokerUnavailable(
        f"the config service rejected `{asked}`: {response.error.type}: {response.error.message}"
    )
