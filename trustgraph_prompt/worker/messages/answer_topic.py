"""The answer records of a flow: looked through for those that gave nothing."""

from __future__ import annotations

from dataclasses import dataclass

from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.worker.messages.answer import Answer


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Which records are meant: those of the flow that gave nothing and fit all that is set."""

    flow: str
    reason: str | None = None
    prompt: str | None = None

    def has(self, answer: Answer) -> bool:
        return (
            answer.gave_nothing
            and answer.flow == self.flow
            and self.reason in (None, answer.reason)
            and self.prompt in (None, answer.prompt)
        )


async def look(broker: Broker, topic: str, choice: AnswerFilter) -> list[tuple[float, Answer]]:
    """Of the last records of all requests those chosen, in their order, each with its time of publication.

    Held are only these: a topic has a record for each request. Raises `BrokerError`.
    """
    found: dict[str, tuple[float, Answer]] = {}
    reader = await broker.reader(topic)
    try:
        while await reader.behind() and (message := await reader.receive()):
            if message.key is None:
                continue
            found.pop(message.key, None)
            answer = _answer(message)
            if answer is not None and choice.has(answer):
                found[message.key] = message.published, answer
    finally:
        await reader.close()
    return list(found.values())


def _answer(message: Message) -> Answer | None:
    try:
        return Answer.decode(message.data)
    except RequestError:
        return None  # a deletion, or somebody else's, who may publish here
