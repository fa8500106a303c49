"""The schema language: what an answer must be and how it is asked for, as a text that authors write."""

from __future__ import annotations
