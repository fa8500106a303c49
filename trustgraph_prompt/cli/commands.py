"""Commands whose help shows a switch without a type: there is nothing to write behind it."""

from __future__ import annotations

from typing import Any

import typer.core


class _Switches:
    """What a command and a group of commands have in common."""

    def get_params(self, context: Any) -> list[Any]:
        """All parameters, those included that typer adds by itself."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_Switches, typer.core.TyperCommand):
    """One command."""


class Group(_Switches, typer.core.TyperGroup):
    """A command of commands."""
