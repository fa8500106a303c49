"""Which trouble may pass."""

from __future__ import annotations

from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable, ProviderError, Reason
from trustgraph_prompt.reader import Outcome


def is_transient(outcome: Outcome) -> bool:
    """Whether the same request may well succeed later."""
    return (
        outcome.reason is Reason.PROVIDER_ERROR
        and isinstance(outcome.cause, ProviderError)
        and outcome.cause.transient
    )


def is_away(error: BaseException | None) -> bool:
    """Whether the broker is away, or was for a provider that asks over topics; it may be so for hours."""
    cause = error.__cause__ if isinstance(error, ProviderError) else error
    return isinstance(cause, BrokerUnavailable | BrokerClosed)
