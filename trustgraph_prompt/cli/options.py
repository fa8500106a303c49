"""Options that several commands share. What is heavy is imported only when it is used."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import BrokerUnavailable, ConfigError, TopicInvalid

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet

T = TypeVar("T")

ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="scripted:PATH",
        help="Answer from a recording instead of a model.",
        rich_help_panel="Who answers",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_BASE_URL",
        help="An OpenAI-compatible server, such as http://localhost:11434/v1. "
        "Its key comes from OPENAI_API_KEY, or the file that OPENAI_API_KEY_FILE names.",
        rich_help_panel="Who answers",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        envvar="TRUSTGRAPH_PROMPT_MODEL",
        help="The model that is asked.",
        rich_help_panel="Who answers",
    ),
]


class Prefill(StrEnum):
    """How a server is told that the last message begins its answer: as `OpenAIProvider` has it."""

    assistant = "assistant"
    vllm = "vllm"
    prefix = "prefix"


PrefillOption = Annotated[
    Prefill | None,
    typer.Option(
        "--prefill",
        envvar="TRUSTGRAPH_PROMPT_PREFILL",
        help="How the server takes the beginning of its answer, so that it can go on with one that was cut: "
        "as it is (assistant: llama.cpp), by switches (vllm), by a mark (prefix: Mistral, DeepSeek).",
        rich_help_panel="Who answers",
    ),
]
NativeSchemaOption = Annotated[
    bool | None,
    typer.Option(
        "--native-schema/--no-native-schema",
        envvar="TRUSTGRAPH_PROMPT_NATIVE_SCHEMA",
        help="Whether the server is sent the schema of an answer; unless given, that is found out.",
        rich_help_panel="Who answers",
        show_default=False,
    ),
]
TemplatesOption = Annotated[
    Path | None,
    typer.Option("--templates", metavar="PATH", help="Prompt files to use instead of the bundled ones."),
]
TermOption = Annotated[
    list[str] | None,
    typer.Option(
        "--term",
        "-t",
        metavar="NAME=VALUE",
        help="A term of the template: a text; NAME=@FILE for the text of a file; NAME:=JSON or "
        "NAME:=@FILE for a JSON value. May be given several times.",
    ),
]
BrokerOption = Annotated[
    str,
    typer.Option(
        "--broker",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_BROKER",
        help="pulsar://HOST:PORT, or embedded:PATH for a broker in a file.",
    ),
]
CacheOption = Annotated[
    str,
    typer.Option(
        "--cache",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_CACHE",
        help="Where answers of prompts with a `cache` are kept: memory:, or redis://HOST:PORT/0.",
    ),
]
DEFAULT_BROKER = "pulsar://localhost:6650"


def _topic(name: str) -> str:
    from trustgraph_prompt.broker import topics

    try:
        return topics.resolve(name)
    except TopicInvalid as error:
        raise ConfigError(str(error), where="--topic") from error


ConfigTopicOption = Annotated[
    str,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="The config topic.",
        envvar="TRUSTGRAPH_PROMPT_CONFIG_TOPIC",
        callback=_topic,
    ),
]
DEFAULT_CONFIG_TOPIC = "persistent://tg/config/prompt"
FlowsOption = Annotated[
    Path | None,
    typer.Option("--flows", metavar="PATH", help="A flow file, or a folder of them, instead of the bundled."),
]
TrustGraphOption = Annotated[
    bool,
    typer.Option(
        "--trustgraph",
        help="Take the place of TrustGraph's own service: serve the flows that its config service has.",
    ),
]


def _space(name: str) -> str:
    from trustgraph_prompt.broker import topics

    try:
        topics.resolve(f"request:{name}:config")
    except TopicInvalid as error:
        raise ConfigError(str(error), where="--space") from error
    return name


SpaceOption = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="NAME",
        help="With --trustgraph, the topic space of its config service.",
        callback=_space,
    ),
]
IdOption = Annotated[
    str, typer.Option("--id", metavar="NAME", help="The id of this processor; its subscriptions carry it.")
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Calls to models at once, over all flows; not bounded unless given, with --trustgraph 64.",
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics."),
]
ReadyOption = Annotated[
    bool,
    typer.Option(
        "--ready-without-model", help="/readyz says 200 also while a model is away that requests wait for."
    ),
]
DrainOption = Annotated[
    float,
    typer.Option(
        "--drain-timeout", min=0, metavar="SECONDS", help="What is under way may take so long to finish."
    ),
]
DEFAULT_DRAIN = 30.0
RequestsPerMinuteOption = Annotated[
    int | None,
    typer.Option(
        "--requests-per-minute", metavar="N", min=1, help="Calls to models in any minute, over all flows."
    ),
]
TokensPerMinuteOption = Annotated[
    int | None,
    typer.Option(
        "--tokens-per-minute", metavar="N", min=1, help="Tokens of models in any minute, over all flows."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def provider(
    script: str | None,
    base_url: str | None,
    model: str | None,
    prefill: Prefill | None,
    native_schema: bool | None,
) -> Provider:
    """The provider that the options name. Raises `ConfigError`."""
    if script is not None:
        for option in ("--base-url", "--model", "--prefill", "--native-schema", "--no-native-schema"):
            if _typed(option):
                raise ConfigError(f"is about a server, and --provider {script} is none", where=option)
        return _scripted(script)
    if base_url is None or model is None:
        raise ConfigError(
            "who answers? say --base-url URL and --model NAME, or --provider scripted:PATH "
            "(or set TRUSTGRAPH_PROMPT_BASE_URL and TRUSTGRAPH_PROMPT_MODEL)"
        )
    from trustgraph_prompt.llm import OpenAIProvider, api_key

    kind = cast("Literal['assistant', 'vllm', 'prefix'] | None", prefill and prefill.value)
    key = api_key.from_environment()
    return OpenAIProvider(base_url, model, api_key=key, prefill=kind, native_schema=native_schema)


def providers(
    script: str | None,
    base_url: str | None,
    model: str | None,
    prefill: Prefill | None,
    native_schema: bool | None,
) -> Callable[[str | None], Provider]:
    """What gives the provider of a model, for None of the one that the options name; raises as `provider`."""
    return lambda named: provider(script, base_url, named or model, prefill, native_schema)


def check_trustgraph(flows: Path | None, *, trustgraph: bool) -> None:
    """Raises `ConfigError` where an option says nothing beside `--trustgraph`, or without it."""
    if trustgraph and flows is not None:
        raise ConfigError("TrustGraph's config service has the flows; leave this out", where="--flows")
    if trustgraph and _typed("--topic"):
        raise ConfigError("TrustGraph's config service has the prompts; leave this out", where="--topic")
    if not trustgraph and _typed("--space"):
        raise ConfigError("is of TrustGraph's config service: say --trustgraph, too", where="--space")


def cache(url: str) -> Cache:
    """The cache of that URL. Raises `ConfigError`."""
    from trustgraph_prompt.ask import MemoryCache, RedisCache

    try:
        return MemoryCache() if url == "memory:" else RedisCache(url)
    except ConfigError as error:
        raise error.at("--cache") from None


def _typed(option: str) -> bool:
    """Whether an option was on the command line; from the environment, it is a mere default."""
    return any(word == option or word.startswith(f"{option}=") for word in sys.argv[1:])


def recording(script: str) -> Path:
    """The path in `scripted:PATH`. Raises `ConfigError`."""
    kind, _, path = script.partition(":")
    if kind != "scripted" or not path:
        raise ConfigError("unknown provider", where="--provider", found=script, expected="scripted:PATH")
    return Path(path)


def prompts(templates: Path | None) -> PromptSet:
    """The prompts of a folder or file, of the bundled one by default. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import PromptSet, files

    return PromptSet.build(files.load(templates or package_data.templates()))


def prompt(prompts: PromptSet, id: str) -> PromptDefinition:
    """The prompt of that id or alias. Raises `ConfigError` where there is none, or where it is refused."""
    from trustgraph_prompt.errors import suggestion

    if refusal := prompts.refused.get(f"template.{id}"):
        raise refusal
    if found := prompts.find(id):
        return found
    if near := suggestion(id, prompts.prompts):
        raise ConfigError(f"there is no prompt {id}{near}")
    known = ", ".join(sorted(prompts.prompts)) or "none"
    raise ConfigError("there is no such prompt", found=id, expected=f"one of {known}")


def terms(given: list[str] | None) -> dict[str, object]:
    """The terms that `--term` gave. Raises `ConfigError`, also where one is given twice."""
    terms: dict[str, object] = {}
    for name, value in map(_term, given or ()):
        if name in terms:
            raise ConfigError("is given twice", where=f"--term {name}")
        terms[name] = value
    return terms


def warn_of_terms(definition: PromptDefinition, given: Iterable[str]) -> None:
    """Say which terms the prompt does not know, and which it misses."""
    given = set(given)
    for name in sorted(given - definition.named):
        known = ", ".join(sorted(definition.named)) or "none"
        output.note(f"warning: {definition.id} does not use the term {name}; its terms: {known}")
    for name in definition.missing(given):
        output.note(f"warning: {definition.id} has nothing where its term {name} stands: --term {name}=…")


def require_terms(definition: PromptDefinition, given: Iterable[str]) -> None:
    """Say which terms the prompt does not know. Raises `ConfigError` for one that it needs and does not get.

    TrustGraph's prompts write nothing there.
    """
    given = set(given)
    missing = definition.missing(given) if definition.template.dialect == "jinja" else []
    if missing:
        raise ConfigError(f"{definition.id} needs it: --term {missing[0]}=…", where=f"term {missing[0]}")
    warn_of_terms(definition, given)


def _term(term: str) -> tuple[str, object]:
    name, equals, value = term.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        wrong = "there is no name before its =" if equals else "there is no = in it"
        raise ConfigError(
            f"the term is not valid: {wrong}", where="--term", found=term, expected="NAME=VALUE or NAME:=JSON"
        )
    where = f"--term {name}"
    if value.startswith("@"):
        where = value[1:]
        value = read_text(Path(where))
    return name, _json(value, where) if is_json else value


def read_text(path: Path) -> str:
    """The text of a UTF-8 file. Raises `ConfigError`."""
    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error


def decode(data: bytes, where: str) -> str:
    """UTF-8 as text. Raises `ConfigError`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 at byte {error.start}", where=where) from error


def read_json(path: Path) -> Any:
    """The JSON value in a file. Raises `ConfigError`."""
    return _json(read_text(path), str(path))


def _json(text: str, where: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error}", where=where) from error


def _scripted(script: str) -> Provider:
    from trustgraph_prompt.llm import ScriptedProvider

    return ScriptedProvider.load(recording(script))


async def connect(url: str) -> Broker:
    """The broker of that URL. Raises `ConfigError`, and `BrokerUnavailable`, which says what to name."""
    from trustgraph_prompt.broker import connect

    try:
        return await connect(url)
    except BrokerUnavailable as error:
        if url != DEFAULT_BROKER or _typed("--broker"):
            raise
        raise BrokerUnavailable(
            f"{error}; for another broker say --broker embedded:PATH or --broker pulsar://HOST:PORT, "
            "or set TRUSTGRAPH_PROMPT_BROKER"
        ) from error


def existing(url: str) -> str:
    """The URL again, where it names no file, or one that is there: not every command makes a broker."""
    scheme, _, path = url.partition(":")
    if scheme == "embedded":
        if not path:
            raise ConfigError("is of one process, and has nothing yet", where=url, expected="embedded:PATH")
        if not Path(path).exists():
            raise BrokerUnavailable(f"{path}: no such broker file")
    return url


def on_broker(url: str, action: Callable[[Broker], Awaitable[T]]) -> T:
    """What the action gives on the broker of that URL. Raises as `connect`."""
    import asyncio

    async def act() -> T:
        async with await connect(url) as broker:
            return await action(broker)

    return asyncio.run(act())


def check_broker(url: str) -> None:
    """See that the broker of that URL lets us connect. Raises as `connect`."""

    async def nothing(broker: Broker) -> None:
        """Connecting is all."""

    on_broker(url, nothing)
