"""Events out of bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear
from trustgraph_prompt.llm.openai.sse import EventStream, EventTooLarge

STREAM = (
    b": keep-alive\n\n"
    b"data: one\n\n"
    b"event: message\r\nid: 7\r\ndata:two\r\n\r\n"
    b"data\rdata: a\rdata:  b\r\r"
    b"data: \xc5\xbc\xf0\x9f\xa6\x89\xe2\x80\xa8!\n\n\n\n"
    b"retry: 10\n\ndata: last"
)
EVENTS = [b"one", b"two", b"\na\n b", "ż🦉\u2028!".encode(), b"last"]


def events(chunks: list[bytes]) -> list[bytes]:
    stream = EventStream()
    return [event for chunk in chunks for event in stream.feed(chunk)] + stream.close()


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]

    assert events([STREAM[a:b] for a, b in itertools.pairwise(edges)]) == EVENTS


def test_events_are_given_as_soon_as_they_end() -> None:
    stream = EventStream()

    assert stream.feed(b"data: one\n\ndata: tw") == [b"one"]
    assert stream.feed(b"o\n") == []
    assert stream.feed(b"\n") == [b"two"]
    assert stream.close() == []


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"", b"data: " + b"x" * 200),
        (b"x" * 100, b"x"),
        (b"data: x\n" * 14, b"data: x\n"),
        (b"data\n" * 25, b"data\n"),
    ],
)
def test_event_that_never_ends_is_too_large(begun: bytes, more: bytes) -> None:
    stream = EventStream(max_event_bytes=100)
    stream.feed(begun)

    with pytest.raises(EventTooLarge):
        stream.feed(more)


def test_byte_order_mark_is_no_part_of_the_first_event() -> None:
    stream = b"\xef\xbb\xbfdata: one\n\ndata: two\n\n"

    assert events([stream]) == events([bytes([byte]) for byte in stream]) == [b"one", b"two"]


def test_single_bytes_are_taken_in_linear_time() -> None:
    def feed(size: int) -> None:
        stream = EventStream()
        for _ in range(size):
            stream.feed(b"x")

    assert is_linear(feed, 1_000)


PARTS = st.sampled_from(
    [
        b"data: {}\n\n",
        b"data: \n\n",
        b"data:1\n\n",
        b"data: 2\n",
        b"\n",
        b"\r",
        b": ping\n\n",
        b"\xef\xbb\xbf",
    ]
)


@given(st.lists(st.lists(PARTS, max_size=4).map(b"".join), max_size=6))
def test_events_of_a_plain_stream_are_those_of_its_bytes_one_by_one(chunks: list[bytes]) -> None:
    assert events(chunks) == events([bytes([byte]) for chunk in chunks for byte in chunk])


def test_plain_events_too_large_are_refused_like_others() -> None:
    with pytest.raises(EventTooLarge):
        EventStream(max_event_bytes=10).feed(b"data: 0123456789\n\n")
