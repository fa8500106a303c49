"""The batch job behind `extract`: prompts run on text files, with the answers in a local file."""

from __future__ import annotations
