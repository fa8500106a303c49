"""What the package offers."""

from __future__ import annotations

import trustgraph_prompt


def test_every_public_name_is_there() -> None:
    for name in trustgraph_prompt.__all__:
        assert getattr(trustgraph_prompt, name).__name__ == name
