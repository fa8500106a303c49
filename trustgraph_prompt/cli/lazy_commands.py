"""Commands as they are shown: sections by who is asked, switches without a type; and loaded when called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main


class _Shown:
    """How the help of a command and of a group of commands looks."""

    def get_params(self, context: Any) -> list[Any]:
        """All parameters, those included that typer adds by itself."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # there is nothing to write behind a switch
        return parameters

    def format_options(self, context: Any, formatter: Any) -> None:
        """The parameters under their headings, then the commands, if there are any."""
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
    """One command."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """What a list of commands says of it: its first sentence, wrapped and not cut."""
        return super().get_short_help_str(limit=1000)


class Group(_Shown, typer.core.TyperGroup):
    """A command of commands."""

    def format_options(self, context: Any, formatter: Any) -> None:
        super().format_options(context, formatter)
        self.format_commands(context, formatter)


class LazyCommand(Command):
    """What stands for a command until it is called: only then its module is imported."""

    def load(self) -> Any:
        """The command itself."""
        module = import_module(f"trustgraph_prompt.cli.{self.name}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(self.name, cls=Command, epilog=module.EXAMPLE)(module.command)
        return typer.main.get_command(app)

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """The context of the command itself, with which everything that is called begins."""
        return self.load().make_context(*arguments, **extra)
