"""What a server quotes of a key is not shown."""

from __future__ import annotations

import pytest

from trustgraph_prompt.llm.openai.redaction import Secrets

KEY = "sk-live-AbCdEfGh-0123456789"


@pytest.mark.parametrize(
    "quoted",
    [
        *(KEY, "sk-live-AbCdEf", "sk-live-", "EfGh-0123456789"),
        *("sk-l****6789", "sk-live-AbCd**********", "sk-li…"),
    ],
)
@pytest.mark.parametrize("text", ["the key {} is wrong", "{}", "({})", '"{}": no'])
def test_quoted_part_of_a_key_is_redacted(quoted: str, text: str) -> None:
    told = Secrets([KEY]).redacted(text.format(quoted))
    assert "[secret]" in told
    assert not any(KEY[at : at + 5] in told for at in range(len(KEY) - 4))


def test_text_without_the_key_is_left_unchanged() -> None:
    text = "a live AbCdE sk-key of 2345 is not the key"
    assert Secrets([KEY]).redacted(text) == text
