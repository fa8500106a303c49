"""Options that several commands share, and what they give. Heavy modules are imported only when used."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import (
    BrokerUnavailable,
    ConfigError,
    ProviderError,
    TopicInvalid,
    TrustgraphPromptError,
    excerpt,
)

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cost import Price
    from trustgraph_prompt.graph_store.store import GraphStore
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet
    from trustgraph_prompt.prompts.example import Example

T = TypeVar("T")

DEFAULT_BROKER = "pulsar://localhost:6650"
DEFAULT_CONFIG_TOPIC = "persistent://tg/config/prompt"
DEFAULT_DRAIN = 30.0

_MODELS_NAMED = 20
"""Models of a server that an error names."""

_model_option = partial(typer.Option, rich_help_panel="Model")

ProviderOption = Annotated[
    str | None,
    _model_option(
        "--provider",
        metavar="scripted:PATH",
        help="Replay recorded answers from a file instead of calling a model.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    _model_option(
        "--base-url",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_BASE_URL",
        help="Base URL of an OpenAI-compatible server, such as http://localhost:11434/v1. "
        "The API key comes from OPENAI_API_KEY, or from the file that OPENAI_API_KEY_FILE names.",
    ),
]
ModelOption = Annotated[
    str | None,
    _model_option("--model", metavar="NAME", envvar="TRUSTGRAPH_PROMPT_MODEL", help="The model to call."),
]


class Prefill(StrEnum):
    """How a server continues a partial answer; the values of `OpenAIProvider`'s `prefill`."""

    assistant = "assistant"
    vllm = "vllm"
    prefix = "prefix"


PrefillOption = Annotated[
    Prefill | None,
    _model_option(
        "--prefill",
        envvar="TRUSTGRAPH_PROMPT_PREFILL",
        help="Have the server continue a truncated text or JSON value, which is sent back as it is "
        "(assistant: llama.cpp), with switches (vllm) or with a marker (prefix: Mistral, DeepSeek). "
        "Default: off.",
    ),
]
NativeSchemaOption = Annotated[
    bool | None,
    _model_option(
        "--native-schema/--no-native-schema",
        envvar="TRUSTGRAPH_PROMPT_NATIVE_SCHEMA",
        help="Whether to send the JSON Schema of the answer to the server. By default, this is detected.",
        show_default=False,
    ),
]
AllowParameterOption = Annotated[
    list[str] | None,
    _model_option(
        "--allow-parameter",
        metavar="NAME",
        help="A parameter that prompts may set in `model: extras`, such as reasoning_effort. May be given "
        "several times.",
    ),
]
TemplatesOption = Annotated[
    Path | None,
    typer.Option(
        "--templates", metavar="PATH", help="A prompt file, or a folder of them, instead of the bundled ones."
    ),
]
TermOption = Annotated[
    list[str] | None,
    typer.Option(
        "--term",
        "-t",
        metavar="NAME=VALUE",
        help="A term of the prompt's template: NAME=TEXT, NAME=@FILE for the text of a file, NAME:=JSON or "
        "NAME:=@FILE for a JSON value. May be given several times.",
    ),
]
BrokerOption = Annotated[
    str,
    typer.Option(
        "--broker",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_BROKER",
        help="URL of the broker: pulsar://HOST:PORT, or embedded:PATH for a broker in a file.",
    ),
]
CacheOption = Annotated[
    str,
    typer.Option(
        "--cache",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_CACHE",
        help="Where to cache the answers of prompts that set `cache`: memory:, or redis://HOST:PORT/0.",
    ),
]


def config_topic(name: str) -> str:
    """Return the full name of a config topic. Raises `ConfigError`."""
    from trustgraph_prompt.broker import topics

    try:
        return topics.resolve(name)
    except TopicInvalid as error:
        raise ConfigError(str(error), where="--topic or TRUSTGRAPH_PROMPT_CONFIG_TOPIC") from error


ConfigTopicOption = Annotated[
    str,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="The config topic, which carries prompts.",
        envvar="TRUSTGRAPH_PROMPT_CONFIG_TOPIC",
        callback=config_topic,
    ),
]
FlowsOption = Annotated[
    Path | None,
    typer.Option(
        "--flows",
        metavar="PATH",
        envvar="TRUSTGRAPH_PROMPT_FLOWS",
        help="A flow file, or a folder of them, instead of the bundled ones.",
    ),
]
TrustGraphOption = Annotated[
    bool,
    typer.Option(
        "--trustgraph",
        help="Replace TrustGraph's own service: serve the flows that its config service defines.",
    ),
]


def _space(name: str) -> str:
    from trustgraph_prompt.broker import topics

    try:
        topics.resolve(f"request:{name}:config")
    except TopicInvalid as error:
        raise ConfigError(str(error), where="--space") from error
    return name


ExtractorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--extractor",
        metavar="ID",
        help="With --trustgraph: replace this extractor of TrustGraph's instead of the prompt service. --id "
        "is then the id of the prompt service whose text-completion topics are used. May be given several "
        "times.",
    ),
]


def _prefix(prefix: str | None) -> str | None:
    from trustgraph_prompt.broker import topics

    if prefix == "":  # such as an unset variable: without a prefix the worker would take over
        raise ConfigError("is empty", where="--into", expected="the beginning of topic names")
    try:
        topics.resolve(f"flow:tg:{prefix}-triples-store")
    except TopicInvalid as error:
        raise ConfigError(str(error), where="--into") from error
    return prefix


IntoOption = Annotated[
    str | None,
    typer.Option(
        "--into",
        metavar="PREFIX",
        help="With --extractor: publish on other topics, whose names begin with PREFIX, and receive all "
        "chunks beside TrustGraph's extractors.",
        callback=_prefix,
    ),
]
SpaceOption = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="NAME",
        help="With --trustgraph: the topic space of TrustGraph's config service.",
        callback=_space,
    ),
]
IdOption = Annotated[
    str,
    typer.Option(
        "--id",
        metavar="NAME",
        envvar="TRUSTGRAPH_PROMPT_ID",
        help="Processor id of the worker; subscription names begin with it.",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Maximum number of concurrent model calls over all flows. Default: no limit beyond that of each "
        "flow; 64 with --trustgraph.",
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="[HOST]:PORT",
        help="Serve the status page, /livez, /readyz and /metrics on this address; :PORT is every address, "
        "IPv4 and IPv6. Default: off.",
    ),
]
HttpHostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--http-host",
        metavar="NAME",
        help="A host name under which browsers reach the status page, beside IP addresses and localhost. May "
        "be given several times.",
    ),
]
ShowContentOption = Annotated[
    bool,
    typer.Option(
        "--show-content",
        help="Show rejected objects and their texts on the status page, to everybody who can reach it.",
    ),
]
ReadyOption = Annotated[
    bool,
    typer.Option(
        "--ready-without-model", help="Keep /readyz at 200 while requests wait for an unavailable model."
    ),
]
DrainOption = Annotated[
    float,
    typer.Option(
        "--drain-timeout",
        min=0,
        metavar="SECONDS",
        help="How long requests in progress may take to finish after SIGTERM.",
    ),
]
RequestsPerMinuteOption = Annotated[
    int | None,
    typer.Option(
        "--requests-per-minute",
        metavar="N",
        min=1,
        help="Maximum number of model calls per minute over all flows. Default: no limit.",
    ),
]
TokensPerMinuteOption = Annotated[
    int | None,
    typer.Option(
        "--tokens-per-minute",
        metavar="N",
        min=1,
        help="Maximum number of tokens per minute over all flows. Default: no limit.",
    ),
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT[,CACHED]",
        help="What a million tokens cost, in any currency: of questions, of answers, and of questions that "
        "come from the provider's cache.",
    ),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="MONEY",
        help="Ask nothing that may cost more than this in all, in the currency of --price, and end the run.",
    ),
]
EstimateOption = Annotated[
    bool,
    typer.Option(
        "--estimate", help="Say what the run would take, in calls, tokens and money, and ask nothing."
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE",
        help="With --estimate: count tokens with this tokenizer.json instead of asking the server.",
    ),
]
CallsOption = Annotated[
    int,
    typer.Option(
        "--concurrency", metavar="N", min=1, max=1000, help="Maximum number of concurrent model calls."
    ),
]
BeginSecondsOption = Annotated[
    float,
    typer.Option(
        "--begin-seconds",
        metavar="N",
        min=1,
        help="Give up a call whose answer has not begun when the server has sent nothing for so long, to "
        "any call.",
    ),
]
AnswerSecondsOption = Annotated[
    float,
    typer.Option(
        "--answer-seconds",
        metavar="N",
        min=1,
        help="End an answer that takes longer, from its first piece. The next run asks for it again.",
    ),
]
PromptFilterOption = Annotated[
    str | None, typer.Option("--prompt", metavar="ID", help="Only requests for this prompt.")
]
StoreOption = Annotated[
    Path, typer.Option("--store", metavar="DIR", help="The folder of a graph store, from `extract --store`.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def graph_store(path: Path, *, read_only: bool = True) -> GraphStore:
    """Open a graph store that exists, and say so while another process writes to it."""
    from trustgraph_prompt.graph_store.store import GraphStore

    return GraphStore.open(path, read_only=read_only, create=False, waiting=output.note)


def provider(
    script: str | None,
    base_url: str | None,
    model: str | None,
    prefill: Prefill | None,
    native_schema: bool | None,
    *,
    untimed: bool = False,
) -> Provider:
    """Return the provider that the options name. Raises `ConfigError`.

    `untimed`: a wrapper limits when an answer begins, and how long it may take.
    """
    if script is not None:
        from trustgraph_prompt.llm import ScriptedProvider

        path = recording(script)
        for option in ("--base-url", "--model", "--prefill", "--native-schema", "--no-native-schema"):
            if typed(option):
                raise ConfigError(
                    f"has no effect with --provider {script}, which calls no server", where=option
                )
        return ScriptedProvider.load(path)
    if base_url is None or model is None:
        raise ConfigError(
            "no model to call: give --base-url URL and --model NAME "
            "(or set TRUSTGRAPH_PROMPT_BASE_URL and TRUSTGRAPH_PROMPT_MODEL), or --provider scripted:PATH"
        )
    from trustgraph_prompt.llm import OpenAIProvider, api_key
    from trustgraph_prompt.llm.timeout import DEFAULT_TIMEOUT, Timeout

    kind = cast("Literal['assistant', 'vllm', 'prefix'] | None", prefill and prefill.value)
    key = api_key.from_environment()
    return OpenAIProvider(
        base_url,
        model,
        api_key=key,
        prefill=kind,
        native_schema=native_schema,
        timeout=Timeout(first=inf, total=inf) if untimed else DEFAULT_TIMEOUT,
    )


def chosen_model(script: str | None, base_url: str | None, model: str | None) -> str | None:
    """Return `--model`, or else the only model of the server. Raises `ConfigError`, which names several."""
    if script or model or base_url is None:
        return model
    import asyncio

    from trustgraph_prompt.llm import OpenAIProvider, api_key

    async def listed() -> list[str]:
        provider = OpenAIProvider(base_url, "", api_key=api_key.from_environment())
        try:
            return await provider.models()
        finally:
            await provider.close()

    try:
        models = asyncio.run(listed())
    except ProviderError as error:
        unknown = "no model is chosen, and the server does not list its models"
        raise ConfigError(f"{unknown}: {error}", where="--model") from error
    if len(models) == 1:
        output.note(f"asking {models[0]}, the only model of the server")
        return models[0]
    named = [excerpt(name, 80) for name in models[:_MODELS_NAMED]]
    names = ", ".join(named) + (", …" if len(models) > _MODELS_NAMED else "")
    raise ConfigError(f"no model is chosen; the server has {names or 'none'}", where="--model")


def price(text: str | None) -> Price | None:
    """Return the price in `IN,OUT[,CACHED]`. Raises `ConfigError`."""
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


def check_max_cost(max_cost: float | None, price: Price | None) -> None:
    """Raise `ConfigError` for a limit that is no sum of money, or that has no price."""
    if max_cost is None:
        return
    if not 0 < max_cost < inf:
        raise ConfigError("is not a sum of money", where="--max-cost", found=max_cost, expected="more than 0")
    if price is None:
        raise ConfigError("needs the price of the model: give --price IN,OUT", where="--max-cost")


def check_tokenizer(tokenizer: Path | None, *, estimate: bool) -> None:
    """Raise `ConfigError` for a tokenizer that nothing counts with."""
    if tokenizer is not None and not estimate:
        raise ConfigError("has no effect without --estimate", where="--tokenizer")


def examples(templates: Path | None) -> Sequence[Example]:
    """Return the examples of a folder or file of prompts, or the bundled ones. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import files

    return files.read(templates or package_data.templates()).examples


def check_trustgraph(flows: Path | None, *, trustgraph: bool) -> None:
    """Reject options that have no effect with `--trustgraph`, or without it. Raises `ConfigError`."""
    if trustgraph and flows is not None and typed("--flows"):
        raise ConfigError(
            "has no effect with --trustgraph: TrustGraph's config service defines the flows", where="--flows"
        )
    if trustgraph and typed("--topic"):
        raise ConfigError(
            "has no effect with --trustgraph: TrustGraph's config service has the prompts", where="--topic"
        )
    if not trustgraph and typed("--space"):
        raise ConfigError("has no effect without --trustgraph", where="--space")


def check_extractors(extractors: list[str] | None, *, trustgraph: bool) -> None:
    """Reject options of extractors that have no effect. Raises `ConfigError`."""
    if extractors and not trustgraph:
        raise ConfigError("has no effect without --trustgraph", where="--extractor")
    if not extractors and typed("--into"):
        raise ConfigError("has no effect without --extractor", where="--into")


def cache(url: str) -> Cache:
    """Return the cache at the URL. Raises `ConfigError`."""
    from trustgraph_prompt.ask import MemoryCache, RedisCache

    try:
        return MemoryCache() if url == "memory:" else RedisCache(url)
    except ConfigError as error:
        raise error.at("--cache") from None


def typed(option: str) -> bool:
    """Whether an option is on the command line; a value from the environment is a default, not a conflict."""
    return any(word == option or word.startswith(f"{option}=") for word in sys.argv[1:])


def recording(script: str) -> Path:
    """Return the path in `scripted:PATH`. Raises `ConfigError`."""
    kind, _, path = script.partition(":")
    if kind != "scripted" or not path:
        expected = "scripted:PATH for recorded answers; a server is given by --base-url and --model"
        raise ConfigError("unknown provider", where="--provider", found=script, expected=expected)
    return Path(path)


def prompts(templates: Path | None) -> PromptSet:
    """Load the prompts of a folder or file, or the bundled ones. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import PromptSet, files

    return PromptSet.build(files.load(templates or package_data.templates()))


def prompt(prompts: PromptSet, id: str) -> PromptDefinition:
    """Return the prompt with that id or alias. Raises `ConfigError` if it is unknown or invalid."""
    from difflib import get_close_matches

    from trustgraph_prompt.prompts.files import SUFFIXES

    if refusal := prompts.refused.get(f"template.{id}"):
        raise refusal
    if found := prompts.find(id):
        return found
    if Path(id).suffix in SUFFIXES:
        raise ConfigError(f"{id} is the name of a file: give --templates {id}, and the id of a prompt in it")
    if Path(id).is_file():
        raise ConfigError(f"{id} is a file: give the id of a prompt, and the text as --term text=@{id}")
    near = get_close_matches(id, known := sorted(prompts.prompts))
    which = f"did you mean {', '.join(near)}?" if near else f"the prompts are {', '.join(known) or 'none'}."
    raise ConfigError(f"there is no prompt {id}; {which} Others come from --templates PATH, a file or folder")


def check_parameters(prompts: Iterable[PromptDefinition], allowed: list[str] | None) -> None:
    """Raise `ConfigError` if a prompt sets a parameter that `--allow-parameter` does not list."""
    from trustgraph_prompt.llm.parameters import why_refused

    for definition in prompts:
        if why := why_refused(definition.config, allowed or ()):
            raise ConfigError(why, where=definition.id)


def terms(given: list[str] | None) -> dict[str, object]:
    """Return the terms of `--term`. Raises `ConfigError`, also if one is given twice."""
    terms: dict[str, object] = {}
    for name, value in map(_term, given or ()):
        if name in terms:
            raise ConfigError("is given twice", where=f"--term {name}")
        terms[name] = value
    return terms


def warn_of_terms(definition: PromptDefinition, given: Iterable[str]) -> None:
    """Warn of terms that the prompt does not use, and of those that it lacks."""
    given = set(given)
    _warn_of_unknown(definition, given)
    for name in definition.missing(given):
        output.note(f"warning: {definition.id} renders without its term {name}: give --term {name}=…")


def require_terms(definition: PromptDefinition, terms: Mapping[str, object]) -> None:
    """Warn as `warn_of_terms`. Raises `ConfigError` if a required term is missing or empty.

    In TrustGraph's dialect a missing term is no error, as it renders as nothing, but a missing ontology is.
    """
    from trustgraph_prompt.graph import ontology

    for unknown in ontology.unknown_keys(terms) if definition.named >= ontology.TERMS else ():
        output.note(f"warning: {unknown}")
    given = [name for name, value in terms.items() if not _is_empty(value)]
    missing = definition.missing(given)
    if set(missing) >= ontology.TERMS:
        raise ConfigError(_NEEDS_ONTOLOGY.format(definition.id), where="term classes")
    if definition.template.dialect != "jinja":
        warn_of_terms(definition, terms)
        return
    _warn_of_unknown(definition, set(terms))
    if missing:
        name = missing[0]
        wrong = f"is empty, and {definition.id} needs it" if name in terms else f"{definition.id} needs it"
        raise ConfigError(f"{wrong}: give --term {name}=TEXT or --term {name}:=JSON", where=f"term {name}")


_NEEDS_ONTOLOGY = (
    "{} needs an ontology: give its classes as --term classes:=@FILE, a JSON object such as "
    '{{"Person": {{"comment": "A human."}}}}, and likewise its object_properties and datatype_properties; '
    "a worker's flow reads a whole ontology, under its key `ontology: FILE.ttl`"
)


def _is_empty(value: object) -> bool:
    """Whether a term says nothing; an empty list may say that there is nothing."""
    return value is None or value == {} or (isinstance(value, str) and not value.strip())


def _warn_of_unknown(definition: PromptDefinition, given: set[str]) -> None:
    for name in sorted(given - definition.named):
        known = ", ".join(sorted(definition.named)) or "none"
        output.note(f"warning: {definition.id} does not use the term {name}; its terms: {known}")


def _term(term: str) -> tuple[str, object]:
    name, equals, value = term.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        wrong = "there is no name before the =" if equals else "there is no ="
        raise ConfigError(
            f"invalid term: {wrong}", where="--term", found=term, expected="NAME=VALUE or NAME:=JSON"
        )
    where = f"--term {name}"
    if value.startswith("@"):
        where = value[1:]
        value = read_text(Path(where))
    return name, _json(value, where) if is_json else value


def read_text(path: Path) -> str:
    """Return the text of a file. Raises `ConfigError`."""
    from trustgraph_prompt.documents.text import decode

    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error


def read_json(path: Path) -> Any:
    """Return the JSON value in a file. Raises `ConfigError`."""
    return _json(read_text(path), str(path))


def _json(text: str, where: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error}", where=where) from error


async def connect(url: str) -> Broker:
    """Connect to the broker at the URL. Raises `ConfigError`, and `BrokerUnavailable`."""
    from trustgraph_prompt.broker import connect

    try:
        return await connect(url)
    except BrokerUnavailable as error:
        if url != DEFAULT_BROKER or typed("--broker"):
            raise
        raise BrokerUnavailable(
            f"{error}; for another broker give --broker embedded:PATH or --broker pulsar://HOST:PORT, "
            "or set TRUSTGRAPH_PROMPT_BROKER"
        ) from error


def existing(url: str) -> str:
    """Return the URL. Raises if it names a broker file that does not exist: connecting would create it."""
    if url == "embedded:":
        raise ConfigError("lives in one process only, and is empty", where=url, expected="embedded:PATH")
    if is_new(url):
        raise BrokerUnavailable(f"{url.removeprefix('embedded:')}: no such broker file")
    return url


def is_new(url: str) -> bool:
    """Whether a URL names a broker file that does not exist."""
    scheme, _, path = url.partition(":")
    return scheme == "embedded" and bool(path) and not Path(path).exists()


def on_broker(url: str, action: Callable[[Broker], Awaitable[T]]) -> T:
    """Run the action on the broker at the URL and return its result. Raises as `connect`."""
    import asyncio

    async def act() -> T:
        async with await connect(url) as broker:
            with naming(url):
                return await action(broker)

    return asyncio.run(act())


@contextmanager
def naming(broker: str) -> Iterator[None]:
    """Have errors name the connected broker that they are about: nobody may have typed it."""
    try:
        yield
    except TrustgraphPromptError as error:
        if broker.removeprefix("embedded:") not in str(error):
            error.add_note(f"the broker is {broker}")
        raise


def check_broker(url: str) -> None:
    """Check that the broker at the URL accepts a connection. Raises as `connect`."""

    async def nothing(broker: Broker) -> None:
        """Connecting is the check."""

    on_broker(url, nothing)
