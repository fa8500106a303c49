"""Options that name a broker and what is on its config topic, and how a command connects to it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from trustgraph_prompt.cli.options import OptionGroup, option, typed
from trustgraph_prompt.cli.prompt_options import TemplatesOption
from trustgraph_prompt.errors import BrokerUnavailable, ConfigError, TopicInvalid, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker.config.history import Author

T = TypeVar("T")

DEFAULT_BROKER = "pulsar://localhost:6650"
DEFAULT_CONFIG_TOPIC = "persistent://tg/config/prompt"

BrokerOption = Annotated[
    str,
    option(
        "--broker URL",
        "URL of the broker: pulsar://HOST:PORT, or embedded:PATH for a broker in a file.",
        envvar="TRUSTGRAPH_PROMPT_BROKER",
    ),
]
AdminUrlOption = Annotated[
    str | None,
    option(
        "--admin-url URL",
        "URL of Pulsar's admin API. Default: port 8080 of the broker's host, 8443 with pulsar+ssl://.",
        envvar="TRUSTGRAPH_PROMPT_ADMIN_URL",
    ),
]


def resolved(topic: str, where: str) -> str:
    """Return the full name of a topic. Raises `ConfigError`, which says where it was given."""
    from trustgraph_prompt.broker import topics

    try:
        return topics.resolve(topic)
    except TopicInvalid as error:
        raise ConfigError(str(error), where=where) from error


def _config_topic(name: str) -> str:
    return resolved(name, "--topic or TRUSTGRAPH_PROMPT_CONFIG_TOPIC")


def check_workspace(name: str | None) -> str | None:
    """Return the value of `--workspace`. Raises `ConfigError` if it is not a valid name."""
    if name is not None and (not name or "/" in name):
        wrong = "there is a / in it" if name else "it is empty"
        raise ConfigError(
            f"the name is not valid: {wrong}", where="--workspace", found=name, expected="a name without /"
        )
    return name


config_topic_option = partial(option, envvar="TRUSTGRAPH_PROMPT_CONFIG_TOPIC", callback=_config_topic)
"""Declares an option for a config topic."""
workspace_option = partial(option, "--workspace -w NAME", callback=check_workspace)
"""Declares an option for a workspace."""


ConfigTopicOption = Annotated[
    str, config_topic_option("--topic TOPIC", "The config topic, which carries prompts.")
]


WorkspaceOption = Annotated[str, workspace_option("The workspace of the prompts.", show_default=True)]


class Readable:
    """Options that name a broker, and where its admin API is."""

    if TYPE_CHECKING:  # otherwise their order would be that of this class
        broker: str
        admin_url: str | None

    def look(self, action: Callable[[BrokerView], Awaitable[T]]) -> T:
        """Run an action that creates nothing, and return its result. Raises `ConfigError`, `BrokerError`."""
        from trustgraph_prompt.cli.broker_view import BrokerView

        url = existing(self.broker)
        return on_broker(url, lambda connected: action(BrokerView(connected, url, self.admin_url)))


class BrokerOptions(OptionGroup, Readable):
    """A broker that is read."""

    broker: BrokerOption = DEFAULT_BROKER
    admin_url: AdminUrlOption = None


class ReadTopicOptions(OptionGroup, Readable):
    """The config topic of a broker, which is read."""

    broker: BrokerOption = DEFAULT_BROKER
    topic: ConfigTopicOption = DEFAULT_CONFIG_TOPIC
    admin_url: AdminUrlOption = None


class WorkspaceOptions(OptionGroup):
    """A workspace of prompts on the config topic of a broker."""

    workspace: WorkspaceOption = "default"
    broker: BrokerOption = DEFAULT_BROKER
    topic: ConfigTopicOption = DEFAULT_CONFIG_TOPIC


class ReadWorkspaceOptions(WorkspaceOptions, Readable):
    """A workspace that is read."""

    admin_url: AdminUrlOption = None


class RuleOptions(OptionGroup, Readable):
    """A broker that is read, and where the rules are that its objects break."""

    broker: BrokerOption = DEFAULT_BROKER
    config_topic: str = config_topic_option(
        "--config-topic TOPIC",
        "The config topic, in whose history the schema of the answer is looked up.",
        DEFAULT_CONFIG_TOPIC,
    )
    templates: TemplatesOption = None
    admin_url: AdminUrlOption = None


WaitOption = Annotated[
    float | None,
    option(
        "--wait SECONDS",
        "Wait up to this long until all running workers of the workspace have applied the prompts; "
        "exit with 1 if one has not, and at once if there is no worker. Default: do not wait.",
        min=0,
    ),
]

ByOption = Annotated[
    str | None, option("--by NAME", "Who makes the change, for the history. Default: your account.")
]


class ChangeOptions(OptionGroup):
    """Who makes a change, and why."""

    by: ByOption = None
    why: str = option("--message -m TEXT", "Why you make the change, for the history.", "")

    def author(self, default: str = "") -> Author:
        """Who makes the change, and why, or else the default reason."""
        return author(self.by, self.why or default)


def author(by: str | None, why: str) -> Author:
    """Who makes a change and why; by default the account that runs the command."""
    import getpass

    from trustgraph_prompt.worker.config.history import Author

    try:
        return Author(by or getpass.getuser(), why)
    except (KeyError, OSError):  # an account without a name, as in many containers
        return Author(f"uid {os.getuid()}", why)


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
