"""How commands and groups of commands are declared, show their help, and are imported only when called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import typer
import typer.core
import typer.main

from trustgraph_prompt.cli.options import OptionGroup

C = TypeVar("C", bound=Callable[..., None])


class _Shown:
    """Formats the help of a command or group: options by panel, switches without a metavar."""

    def get_params(self, context: Any) -> list[Any]:
        """All parameters, including those that typer adds."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the parameters under the headings of their panels."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            if shown := parameter.get_help_record(context):
                heading = getattr(parameter, "rich_help_panel", None)
                kind = f"{parameter.param_type_name.capitalize()}s"
                sections.setdefault(heading or kind, []).append(shown)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class Command(_Shown, typer.core.TyperCommand):
    """A command."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse the arguments. An error about one too many says how a text is given."""
        context.allow_extra_args = any(parameter.name == "term" for parameter in self.params)
        unexpected: list[str] = super().parse_args(context, args)
        if unexpected:
            given = " ".join(unexpected)
            context.fail(f"unexpected: {given}; the text of a file is a term: --term text=@{unexpected[0]}")
        return unexpected

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, for a list of commands; click would truncate it."""
        return super().get_short_help_str(limit=1000)


class Group(_Shown, typer.core.TyperGroup):
    """A command with subcommands."""

    def format_options(self, context: Any, formatter: Any) -> None:
        super().format_options(context, formatter)
        self.format_commands(context, formatter)


class Commands(typer.Typer):
    """Declares subcommands, whose parameters may be `OptionGroup`."""

    def subcommand(self, example: str, name: str | None = None) -> Callable[[C], C]:
        """Add a function as a subcommand, by default of its name, with an example of its use."""

        def add(command: C) -> C:
            epilog = f"Example:  trustgraph-prompt {example}"
            self.command(name or command.__name__, cls=Command, epilog=epilog)(_spread(command))
            return command

        return add


def _spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options themselves as its parameters, as typer reads a signature."""
    groups: dict[str, tuple[type[OptionGroup], Iterable[str]]] = {}
    annotations: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if inspect.isclass(kind := parameter.annotation) and issubclass(kind, OptionGroup):
            options = get_type_hints(kind, include_extras=True)
            groups[name] = kind, options.keys()
            annotations |= options
            defaults |= {option: getattr(kind, option) for option in options}
        else:
            annotations[name], defaults[name] = kind, parameter.default

    def spread(**given: Any) -> None:
        made = {
            name: kind(**{option: given.pop(option) for option in options})
            for name, (kind, options) in groups.items()
        }
        command(**given, **made)

    spread.__doc__ = command.__doc__
    spread.__annotations__ = annotations
    spread.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=each)
            for name, each in annotations.items()
        ]
    )
    return spread


def group(help: str, example: str) -> Commands:
    """Return an app for a command with subcommands."""
    return Commands(
        cls=Group,
        help=help,
        epilog=f"Example:  trustgraph-prompt {example}",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )


class LazyCommand(Command):
    """Stands for a command, and imports its module only when it is called."""

    def load(self) -> Any:
        """Import the command and return it."""
        module = import_module(f"trustgraph_prompt.cli.{self.name}")
        app = getattr(module, "app", None)
        if app is None:
            app = Commands(add_completion=False, rich_markup_mode=None)
            app.subcommand(module.EXAMPLE, self.name)(module.command)
        return typer.main.get_command(app)

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Return the context of the loaded command: every call begins with this."""
        return self.load().make_context(*arguments, **extra)
