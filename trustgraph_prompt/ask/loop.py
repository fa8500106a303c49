"""The loop: put the question, keep what stands, ask for the rest or ask again, until there is an outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from trustgraph_prompt.ask import messages
from trustgraph_prompt.ask.allowance import Allowance
from trustgraph_prompt.ask.harvest import Harvest, Reply
from trustgraph_prompt.ask.hearing import Hearing, Listen
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Call, Message, Provider, RetryPolicy
from trustgraph_prompt.llm.retry import Sleep
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome


async def ask(
    prompt: PromptDefinition,
    question: Question,
    provider: Provider,
    *,
    budget: Budget = Budget(),
    price: Price | None = None,
    published: float | None = None,
    listen: Listen | None = None,
    retry: RetryPolicy = RetryPolicy(),
    clock: Callable[[], float] = time.time,
    sleep: Sleep = asyncio.sleep,
) -> Outcome:
    """What came of a question: always an outcome, with every call that was made and why.

    A call that failed for the moment is sent again as `retry` says; an answer that is no good is asked for
    again with what is wrong with it, up to the attempts of prompt and budget; a jsonl answer that was cut is
    continued (docs/asking.md). `published` and `clock` are in seconds since the epoch; without `published`
    the seconds of the budget count from now. `price` turns tokens into the money of the budget. `listen` is
    awaited with each piece of the answer as soon as it stands; what it raises ends the asking.
    """
    allowance = Allowance(budget, clock=clock, published=published, price=price)
    asking = _Asking(prompt, provider, allowance, retry, listen, sleep)
    harvest = asking.harvest
    attempts = min(prompt.attempts, budget.attempts or prompt.attempts)
    why, conversation = "first", messages.opening(question)
    while (spent := allowance.spent()) is None:
        try:
            harvest.add(await asking.put(why, conversation))
        except ProviderError as error:
            return harvest.failed(error, allowance.spent())
        if harvest.may_go_on:
            why, conversation = "continue", messages.continuation(question, harvest.objects)
        elif attempts > 1 and harvest.is_worth_another_attempt:
            attempts -= 1
            why, conversation = "invalid", messages.correction(question, harvest.last)
        else:
            return harvest.outcome()
    return harvest.stopped(spent)


class _Asking:
    """Puts one question to one provider, as often as it takes."""

    def __init__(
        self,
        prompt: PromptDefinition,
        provider: Provider,
        allowance: Allowance,
        retry: RetryPolicy,
        listen: Listen | None,
        sleep: Sleep,
    ) -> None:
        self.harvest = Harvest(prompt.contract)
        self._prompt = prompt
        self._provider = provider
        self._allowance = allowance
        self._retry = retry
        self._listen = listen
        self._sleep = sleep

    async def put(self, why: str, conversation: Sequence[Message]) -> Reply:
        """What came back; tried again after failures that pass, unless some text had been given.

        Raises the `ProviderError` of the last try.
        """
        reasons = iter((why,))

        async def attempt() -> Reply:
            return await self._call(next(reasons, "transient"), conversation)

        return await self._retry.run(attempt, sleep=self._sleep, seconds_left=self._allowance.seconds_left)

    async def _call(self, why: str, conversation: Sequence[Message]) -> Reply:
        config = self._prompt.config
        call = Call(
            conversation,
            config=replace(config, max_tokens=self._allowance.room(conversation, config.max_tokens)),
            labels={"prompt": self._prompt.id, "call": str(len(self.harvest.calls) + 1), "why": why},
        )
        hearing = Hearing(self._prompt.contract, self.harvest.is_new, self._listen)
        broken: ProviderError | None = None
        try:
            await hearing.hear(self._allowance.in_time(self._provider.stream(call)))
        except ProviderError as error:
            broken = error
        report = hearing.report(why, broken)
        self._allowance.pay(call, report)
        self.harvest.calls.append(report)
        if broken and not hearing.text:
            raise broken
        return await hearing.reply(report, broken)
