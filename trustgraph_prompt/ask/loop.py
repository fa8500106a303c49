"""`ask`: the loop of calls from a question to its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from trustgraph_prompt.ask.budget_meter import BudgetMeter, BudgetSpent
from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.caching import cached
from trustgraph_prompt.ask.call_stream import CallStream, Listen, Piece
from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.grounding import judging_by_terms
from trustgraph_prompt.ask.merge_calls import merge_calls
from trustgraph_prompt.ask.messages import Feedback, next_pass
from trustgraph_prompt.ask.next_step import Plan
from trustgraph_prompt.ask.passes import add_pass, may_have_more
from trustgraph_prompt.ask.step import Reply, Step, first_step
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import Issue, ProviderError, ProviderPaused, Reason, without_frames
from trustgraph_prompt.llm import Provider, RetryPolicy
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.llm.retry import LONGEST_WAIT, Sleep
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.reader.reading import steps


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
    feedback: Feedback | None = None,
    request: str = "",
) -> Outcome:
    """Ask a question and return its outcome, with every call that was made, its reason and its cost.

    After a transient error a call is retried as `retry` says; a truncated answer is continued; an invalid
    answer is asked for again, with feedback, up to the attempts of prompt and budget; further passes ask for
    objects that are missing (docs/reference/asking.md).
    `published` and `clock` are in seconds since the epoch; without `published` the seconds of the budget
    count from now. `price` converts tokens into the money of the budget. `listen` is awaited with each piece
    of the answer as soon as it is final; its exceptions are raised. `cache` stores the answers of prompts
    that allow it (docs/how-to/caching.md). `feedback` replaces our words about what is wrong with an answer;
    then the question itself must describe the schema to the model. `request` is the id that the calls carry,
    by which a circuit breaker tells requests apart.

    Raises `ValueError` if `retry` has a deadline or tokens, which belong in the budget, or if the budget has
    money and there is no price.
    """
    if retry.deadline is not None or retry.tokens is not None:
        raise ValueError("retry has a deadline or tokens: ask() takes both from the budget")
    if budget.money is not None and price is None:
        raise ValueError("a budget of money needs a price of the tokens")
    prompt = judging_by_terms(prompt, question)
    meter = BudgetMeter(budget, clock=clock, published=published, price=price)
    attempts = prompt.attempts if budget.attempts is None else min(prompt.attempts, budget.attempts)
    plan = partial(Plan, prompt, provider, attempts, feedback)
    calls = _Calls(prompt, provider, meter, retry, listen, sleep, budget.characters, request)
    converse = partial(_ask_passes, prompt, question, plan, calls)
    if cache is None or prompt.cache is None:
        return await converse()
    return await cached(
        converse,
        prompt,
        question,
        provider.identity,
        cache,
        listen=listen,
        seconds_left=meter.seconds_left,
        clock=clock,
    )


async def _ask_passes(
    prompt: PromptDefinition, question: Question, plan: Callable[[Step], Plan], calls: _Calls
) -> Outcome:
    """Ask the question, and then for what is still missing, until a pass brings nothing new or fails."""
    outcome = last = await _converse(plan(first_step(prompt, question)), calls)
    for _ in range(1, prompt.passes):
        if not may_have_more(last):
            break
        calls.collected = Collected(prompt, outcome)
        step = Step("pass", next_pass(question, outcome.value), prompt.config)
        last = await _converse(plan(step), calls)
        outcome = add_pass(outcome, last)
    return outcome


async def _converse(plan: Plan, calls: _Calls) -> Outcome:
    """Make one step after the other, for as long as the plan has a next one and the budget allows it."""
    collected, end, cause = calls.collected, None, None
    try:
        step: Step | None = plan.first()
        while step is not None:
            reply = await calls.make(step)
            next_step = partial(_next_step, plan, collected, reply)
            step = await beside(next_step, steps(len(reply.text), collected.contract))
    except BudgetSpent as spent:
        end = Issue(Reason.BUDGET_SPENT, str(spent))
    except ProviderError as error:
        end, cause = calls.end_by(error), without_frames(error)
    outcome = merge_calls(collected, end, cause)
    await calls.pass_on_value(outcome)
    return outcome


def _next_step(plan: Plan, collected: Collected, reply: Reply) -> Step | None:
    """Add a reply and return the next step."""
    collected.add(reply)
    return plan.next(collected)


class _Calls:
    """Makes the calls of one question, within its budget, and collects what they bring."""

    def __init__(
        self,
        prompt: PromptDefinition,
        provider: Provider,
        meter: BudgetMeter,
        retry: RetryPolicy,
        listen: Listen | None,
        sleep: Sleep,
        characters: int | None,
        request: str,
    ) -> None:
        self.collected = Collected(prompt)  # of the current pass
        self._made = 0
        self._prompt = prompt
        self._provider = provider
        self._meter = meter
        self._retry = retry
        self._listen = listen
        self._sleep = sleep
        self._characters = characters
        self._request = request

    async def make(self, step: Step) -> Reply:
        """Make a step and return the reply; retried after transient errors, unless some text had arrived.

        Raises the `ProviderError` of the last attempt, or of the step before if the wait after it would be
        too long, and `BudgetSpent` if the budget does not allow a call.
        """
        await self._recover()
        reasons = iter((step.why,))

        async def attempt() -> Reply:
            return await self._call(next(reasons, "transient"), step)

        return await self._retry.run(attempt, sleep=self._sleep, seconds_left=self._meter.seconds_left)

    async def _recover(self) -> None:
        """Back off if the last call broke off. Raises its error where the wait would be too long."""
        broken, left = self.collected.broken, self._meter.seconds_left()
        if broken is None:
            return
        seconds = max(broken.retry_after or 0.0, self._retry.backoff(0))
        if seconds >= (LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)):
            raise broken
        await self._sleep(seconds)

    def end_by(self, error: ProviderError) -> Issue:
        """The issue of an error that ended the loop: what of the budget is used up, if anything."""
        if spent := self._meter.spent():
            return Issue(Reason.BUDGET_SPENT, spent)
        if isinstance(error, ProviderAway):
            return Issue(Reason.PROVIDER_ERROR, str(error))  # which names the category of the cause
        return Issue(Reason.PROVIDER_ERROR, f"{error.category}: {error}")

    async def pass_on_value(self, outcome: Outcome) -> None:
        """Pass the value of a json answer to the listener, which received everything else as it came."""
        if self._listen is not None and outcome.ok and outcome.contract.format == "json":
            await self._listen(Piece(objects=(outcome.value,), grounding=outcome.grounding))

    async def _call(self, why: str, step: Step) -> Reply:
        allowed, wanted = self._meter.answer_tokens(step.messages), step.config.answer_limit
        if allowed is not None and allowed <= step.more_than:
            found = f"the budget leaves {allowed} tokens for an answer"
            raise BudgetSpent(f"{found}, which was truncated at {step.more_than}")
        number = self._made + 1
        call = step.call(self._prompt, why, number=number, answer_tokens=allowed, request=self._request)
        stream = CallStream(
            step,
            self._prompt.contract,
            self.collected.new,
            self._listen,
            self._characters,
            getattr(self._provider, "thinking", None),  # not every provider is a `Completer`
        )
        broken: ProviderError | None = None
        try:
            await stream.receive(self._provider.stream(call), self._meter.seconds_left())
        except (ProviderPaused, ProviderAway):
            raise  # no call was made, or none that counts, so none is reported
        except ProviderError as error:
            broken = without_frames(error)
        cost = self._meter.pay(call, stream.usage, stream.written, failed=broken is not None)
        report = stream.report(call, why, broken, cost)
        self.collected.calls.append(report)
        self._made += 1
        if broken and not stream.text:
            raise broken
        is_the_prompts = wanted is not None and (allowed is None or wanted <= allowed)
        reply = await stream.reply(report, broken, room=wanted if is_the_prompts else None)
        self.collected.calls[-1] = reply.report
        return reply
