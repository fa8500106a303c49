"""Further parameters of a call: those of a flow, and those that a prompt may set."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.errors import ProviderInvalidRequest
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta, Identity, RuntimeConfig


def why_refused(config: RuntimeConfig, allowed: Collection[str]) -> str | None:
    """What is wrong with the extras of a prompt, which others than the operator may have written."""
    refused = [name for name in config.extras if name not in allowed]
    if not refused:
        return None
    return (
        f"the prompt sets the parameter {refused[0]!r} (model/extras), which is not allowed: list it under "
        f"`allow-parameters` of the flow, or give --allow-parameter {refused[0]}"
    )


@dataclass(eq=False, repr=False)
class FlowParameters(ProviderWrapper):
    """A provider wrapper that adds the `extras` of a flow to each call, unless the prompt sets them.

    Raises `ProviderInvalidRequest` for extras of a prompt that are not `allowed`; None allows all.
    """

    extras: Mapping[str, Any]
    allowed: Collection[str] | None

    @property
    def identity(self) -> Identity:
        """That of the server, and the extras: with others it may answer otherwise."""
        identity = self.provider.identity
        extras = f" {canonical(self.extras).decode()}" if self.extras else ""
        return replace(identity, place=identity.place + extras)

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        config = call.config
        if not (self.extras or config.extras):
            return self.provider.stream(call)
        if self.allowed is not None and (why := why_refused(config, self.allowed)):
            raise ProviderInvalidRequest(why)
        added = {name: value for name, value in self.extras.items() if getattr(config, name, None) is None}
        if added:
            call = replace(call, config=replace(config, extras={**added, **config.extras}))
        return self.provider.stream(call)
