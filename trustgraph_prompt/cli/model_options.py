"""Options that choose a model and limit a run of questions, and what they give."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.options import OptionGroup, option, typed
from trustgraph_prompt.errors import ConfigError, ProviderError, excerpt

if TYPE_CHECKING:
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.prompts import PromptDefinition

_MODELS_NAMED = 20
"""Models of a server that an error names."""

_option = partial(option, rich_help_panel="Model")


Prefill = Literal["assistant", "vllm", "prefix"]
"""How a server continues a partial answer: as `OpenAIProvider` has it, whose import is slow."""


class ModelOptions(OptionGroup):
    """The model that is asked, or the recording in its place."""

    script: str | None = _option(
        "--provider scripted:PATH", "Replay recorded answers from a file instead of calling a model.", None
    )
    base_url: str | None = _option(
        "--base-url URL",
        "Base URL of an OpenAI-compatible server, such as http://localhost:11434/v1. "
        "The API key comes from OPENAI_API_KEY, or from the file that OPENAI_API_KEY_FILE names.",
        None,
        envvar="TRUSTGRAPH_PROMPT_BASE_URL",
    )
    model: str | None = _option("--model NAME", "The model to call.", None, envvar="TRUSTGRAPH_PROMPT_MODEL")
    prefill: Prefill | None = _option(
        "--prefill",
        "Have the server continue a truncated text or JSON value, which is sent back as it is "
        "(assistant: llama.cpp), with switches (vllm) or with a marker (prefix: Mistral, DeepSeek). "
        "Default: off.",
        None,
        envvar="TRUSTGRAPH_PROMPT_PREFILL",
    )
    native_schema: bool | None = _option(
        "--native-schema/--no-native-schema",
        "Whether to send the JSON Schema of the answer to the server. By default, this is detected.",
        None,
        envvar="TRUSTGRAPH_PROMPT_NATIVE_SCHEMA",
        show_default=False,
    )

    @property
    def identity(self) -> str:
        """What answers of an earlier run depend on: the model, or the content of the recording."""
        if self.script is None:
            return self.model or ""
        import hashlib

        return f"scripted:{hashlib.sha256(recording(self.script).read_bytes()).hexdigest()}"

    def chosen(self) -> Self:
        """Return the options with the only model of the server, if none is given.

        Raises `ConfigError`, which names several.
        """
        if self.script or self.model or self.base_url is None:
            return self
        import asyncio

        try:
            models = asyncio.run(_listed(self.base_url))
        except ProviderError as error:
            unknown = "no model is chosen, and the server does not list its models"
            raise ConfigError(f"{unknown}: {error}", where="--model") from error
        if len(models) == 1:
            output.note(f"asking {models[0]}, the only model of the server")
            return self.but(model=models[0])
        named = [excerpt(name, 80) for name in models[:_MODELS_NAMED]]
        names = ", ".join(named) + (", …" if len(models) > _MODELS_NAMED else "")
        raise ConfigError(f"no model is chosen; the server has {names or 'none'}", where="--model")

    def provider(self, *, untimed: bool = False) -> Provider:
        """Return the provider that the options name. Raises `ConfigError`.

        `untimed`: a wrapper limits when an answer begins, and how long it may take.
        """
        if self.script is not None:
            from trustgraph_prompt.llm import ScriptedProvider

            path = recording(self.script)
            for option in ("--base-url", "--model", "--prefill", "--native-schema", "--no-native-schema"):
                if typed(option):
                    raise ConfigError(
                        f"has no effect with --provider {self.script}, which calls no server", where=option
                    )
            return ScriptedProvider.load(path)
        if self.base_url is None or self.model is None:
            raise ConfigError(
                "no model to call: give --base-url URL and --model NAME "
                "(or set TRUSTGRAPH_PROMPT_BASE_URL and TRUSTGRAPH_PROMPT_MODEL), or --provider scripted:PATH"
            )
        from trustgraph_prompt.llm import OpenAIProvider, api_key
        from trustgraph_prompt.llm.timeout import DEFAULT_TIMEOUT, Timeout

        return OpenAIProvider(
            self.base_url,
            self.model,
            api_key=api_key.from_environment(),
            prefill=self.prefill,
            native_schema=self.native_schema,
            timeout=Timeout(first=inf, total=inf) if untimed else DEFAULT_TIMEOUT,
        )


class PromptModelOptions(ModelOptions):
    """The model that is asked, and the parameters of it that prompts may set."""

    allow_parameter: list[str] | None = _option(
        "--allow-parameter NAME",
        "A parameter that prompts may set in `model: extras`, such as reasoning_effort. May be "
        "given several times.",
        None,
    )

    def check_parameters(self, prompts: Iterable[PromptDefinition]) -> None:
        """Raise `ConfigError` if a prompt sets a parameter that `--allow-parameter` does not list."""
        from trustgraph_prompt.llm.parameters import why_refused

        for definition in prompts:
            if why := why_refused(definition.config, self.allow_parameter or ()):
                raise ConfigError(why, where=definition.id)


RequestsPerMinuteOption = Annotated[
    int | None,
    option(
        "--requests-per-minute N",
        "Maximum number of model calls per minute over all flows. Default: no limit.",
        min=1,
    ),
]
TokensPerMinuteOption = Annotated[
    int | None,
    option(
        "--tokens-per-minute N",
        "Maximum number of tokens per minute over all flows. Default: no limit.",
        min=1,
    ),
]


class RunOptions(OptionGroup):
    """What a run of many questions may take, in calls, time and money, and whether it is only estimated."""

    concurrency: int = option(
        "--concurrency N", "Maximum number of concurrent model calls.", 8, min=1, max=1000
    )
    requests_per_minute: RequestsPerMinuteOption = None
    tokens_per_minute: TokensPerMinuteOption = None
    begin_seconds: float = option(
        "--begin-seconds N",
        "Give up a call whose answer has not begun when the server has sent nothing for so long, to "
        "any call.",
        300.0,
        min=1,
    )
    answer_seconds: float = option(
        "--answer-seconds N",
        "End an answer that takes longer, from its first piece. The next run asks for it again.",
        600.0,
        min=1,
    )
    price: str | None = option(
        "--price IN,OUT[,CACHED]",
        "What a million tokens cost, in any currency: of questions, of answers, and of questions "
        "that come from the provider's cache.",
        None,
    )
    max_cost: float | None = option(
        "--max-cost MONEY",
        "Ask nothing that may cost more than this in all, in the currency of --price, and end the run.",
        None,
    )
    estimate: bool = option(
        "--estimate", "Say what the run would take, in calls, tokens and money, and ask nothing.", False
    )
    tokenizer: Path | None = option(
        "--tokenizer FILE",
        "With --estimate: count tokens with this tokenizer.json instead of asking the server.",
        None,
    )

    def checked_price(self) -> Price | None:
        """Return the price in `IN,OUT[,CACHED]`.

        Raises `ConfigError` if it is none, if `--max-cost` is no sum of money or has no price, and for a
        tokenizer that nothing counts with.
        """
        price = _price(self.price)
        if self.max_cost is not None:
            if not 0 < self.max_cost < inf:
                raise ConfigError(
                    "is not a sum of money", where="--max-cost", found=self.max_cost, expected="more than 0"
                )
            if price is None:
                raise ConfigError("needs the price of the model: give --price IN,OUT", where="--max-cost")
        if self.tokenizer is not None and not self.estimate:
            raise ConfigError("has no effect without --estimate", where="--tokenizer")
        return price


def _price(text: str | None) -> Price | None:
    from trustgraph_prompt.cost import Price

    if text is None:
        return None
    try:
        prices = [float(each) for each in text.split(",")]
    except ValueError:
        prices = []
    if len(prices) not in (2, 3) or not all(0 <= each < inf for each in prices):
        expected = "prices of a million tokens in and out, such as 0.15,0.60"
        raise ConfigError("is not a price", where="--price", found=text, expected=expected)
    return Price(*prices)


async def _listed(base_url: str) -> list[str]:
    """The models of a server. Raises `ProviderError`."""
    from trustgraph_prompt.llm import OpenAIProvider, api_key

    provider = OpenAIProvider(base_url, "", api_key=api_key.from_environment())
    try:
        return await provider.models()
    finally:
        await provider.close()


def recording(script: str) -> Path:
    """Return the path in `scripted:PATH`. Raises `ConfigError`."""
    kind, _, path = script.partition(":")
    if kind != "scripted" or not path:
        expected = "scripted:PATH for recorded answers; a server is given by --base-url and --model"
        raise ConfigError("unknown provider", where="--provider", found=script, expected=expected)
    return Path(path)
