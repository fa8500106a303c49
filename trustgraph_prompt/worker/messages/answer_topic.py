"""Searches the answer records of a flow for those without a result."""

from __future__ import annotations

from dataclasses import dataclass

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.worker.messages.answer import Answer


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Matches the records of a flow that have no result and the given reason and prompt."""

    flow: str
    reason: str | None = None
    prompt: str | None = None

    def matches(self, answer: Answer) -> bool:
        return (
            answer.gave_nothing
            and answer.flow == self.flow
            and self.reason in (None, answer.reason)
            and self.prompt in (None, answer.prompt)
        )


async def search(broker: Broker, topic: str, filter: AnswerFilter) -> list[tuple[float, Answer]]:
    """The matching records, the last one of each request, in order, with their time of publication.

    Keeps only these in memory: a topic has a record for each request. Raises `BrokerError`.
    """
    found: dict[str, tuple[float, Answer]] = {}
    reader = await broker.reader(topic)
    try:
        while await reader.behind() and (message := await reader.receive()):
            if message.key is None:
                continue
            found.pop(message.key, None)
            try:
                answer = Answer.decode(message.data)
            except RequestError:  # a deletion, or a message of another program
                continue
            if filter.matches(answer):
                found[message.key] = message.published, answer
    finally:
        await reader.close()
    return list(found.values())
