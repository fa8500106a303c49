"""The loop: put the question, keep what stands, ask for the rest or ask again, until there is an outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from trustgraph_prompt.ask import messages
from trustgraph_prompt.ask.allowance import Allowance, BudgetSpent
from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.cached import cached
from trustgraph_prompt.ask.harvest import Harvest, Reply
from trustgraph_prompt.ask.hearing import Hearing, Listen
from trustgraph_prompt.ask.verdict import is_worth_another_attempt, verdict
from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.errors import Issue, ProviderError, Reason
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
    cache: Cache | None = None,
) -> Outcome:
    """What came of a question: always an outcome, with every call that was made and why.

    A call that failed for the moment is sent again as `retry` says; an answer that is no good is asked for
    again with what is wrong with it, up to the attempts of prompt and budget; a jsonl answer that was cut is
    continued (docs/asking.md). `published` and `clock` are in seconds since the epoch; without `published`
    the seconds of the budget count from now. `price` turns tokens into the money of the budget. `listen` is
    awaited with each piece of the answer as soon as it stands; what it raises ends the asking. `cache` keeps
    the answers of prompts that let it (docs/caching.md).
    """
    allowance = Allowance(budget, clock=clock, published=published, price=price)
    attempts = prompt.attempts if budget.attempts is None else min(prompt.attempts, budget.attempts)
    asking = _Asking(prompt, provider, allowance, retry, listen, sleep)
    converse = partial(_converse, asking, question, attempts)
    if cache is None or prompt.cache is None:
        return await converse()
    return await cached(
        converse,
        prompt,
        question,
        provider.identity,
        cache,
        listen=listen,
        seconds_left=allowance.seconds_left,
    )


async def _converse(asking: _Asking, question: Question, attempts: int) -> Outcome:
    harvest = asking.harvest
    if attempts < 1:
        return verdict(harvest, Issue(Reason.BUDGET_SPENT, "the budget has no attempts"))
    why, conversation = "first", messages.opening(question)
    while True:
        try:
            harvest.add(await asking.put(why, conversation))
        except BudgetSpent as end:
            return verdict(harvest, Issue(Reason.BUDGET_SPENT, str(end)))
        except ProviderError as error:
            if spent := asking.allowance.spent():
                return verdict(harvest, Issue(Reason.BUDGET_SPENT, spent), error)
            return verdict(harvest, Issue(Reason.PROVIDER_ERROR, f"{error.category}: {error}"), error)
        if harvest.may_go_on:
            why, conversation = "continue", messages.continuation(question, harvest.objects)
        elif attempts > 1 and is_worth_another_attempt(harvest):
            attempts -= 1
            answer, problem = harvest.last.report.text, harvest.last.outcome.explain()
            why, conversation = "invalid", messages.correction(question, answer, problem)
        else:
            return verdict(harvest)


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
        self.allowance = allowance
        self._retry = retry
        self._listen = listen
        self._sleep = sleep

    async def put(self, why: str, conversation: Sequence[Message]) -> Reply:
        """What came back; tried again after failures that pass, unless some text had been given.

        Raises the `ProviderError` of the last try, and `BudgetSpent` where one cannot be paid for.
        """
        reasons = iter((why,))

        async def attempt() -> Reply:
            return await self._call(next(reasons, "transient"), conversation)

        return await self._retry.run(attempt, sleep=self._sleep, seconds_left=self.allowance.seconds_left)

    async def _call(self, why: str, conversation: Sequence[Message]) -> Reply:
        call = Call(
            conversation,
            config=self._prompt.config.at_most(self.allowance.answer_tokens(conversation)),
            labels={"prompt": self._prompt.id, "call": str(len(self.harvest.calls) + 1), "why": why},
        )
        hearing = Hearing(self._prompt.contract, self.harvest.is_new, self._listen)
        broken: ProviderError | None = None
        try:
            await hearing.hear(self.allowance.in_time(self._provider.stream(call)))
        except ProviderError as error:
            broken = error
        report = hearing.report(why, broken)
        if broken is None or hearing.written or report.usage != Usage():
            self.allowance.pay(call, report.usage, hearing.written)
        self.harvest.calls.append(report)
        if broken and not hearing.text:
            raise broken
        return await hearing.reply(report, broken)
