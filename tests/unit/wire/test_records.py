"""TrustGraph's records: what is read, what is written, what is refused and how."""

from __future__ import annotations

import json

import pytest

from trustgraph_prompt import wire
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.wire import Chunk, Error, PromptRequest, PromptResponse


def test_request_as_trustgraph_writes_it_is_read() -> None:
    data = b'{"id": "extract-definitions", "terms": {"text": "\\"hi\\"", "n": "[1]"}, "streaming": false}'

    request = PromptRequest.decode(data)

    assert request.id == "extract-definitions"
    assert request.values() == {"text": "hi", "n": [1]}
    assert request.streaming is False


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    assert PromptRequest.decode(b'{"id": "x", "later": 1}') == PromptRequest("x", {}, False)
    assert PromptRequest.decode(b'{"id": "x", "terms": null}') == PromptRequest("x")


def test_encoded_request_is_decoded_unchanged() -> None:
    request = PromptRequest.asking("q", {"text": "Grüße \u2028", "deep": {"a": [None, 1.5]}}, streaming=True)

    assert PromptRequest.decode(request.encode()) == request
    assert request.values() == {"text": "Grüße \u2028", "deep": {"a": [None, 1.5]}}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "PromptRequest is not JSON"),
        (b"hello", "PromptRequest is not JSON"),
        (b"\xff\xfe", "PromptRequest is not JSON"),
        (b"[1]", "PromptRequest: found an array, expected an object"),
        (b"null", "PromptRequest: found null, expected an object"),
        (b'{"id": 7}', "PromptRequest/id: found a number, expected a string"),
        (b'{"id": "x", "terms": []}', "PromptRequest/terms: found an array, expected an object"),
        (
            b'{"id": "x", "streaming": "yes"}',
            "streaming: found a string, expected true or false",
        ),
        (b"[" * 100_000, "PromptRequest is not JSON"),
        (b'{"a":' * 2_000 + b"1" + b"}" * 2_000, "PromptRequest is not JSON"),
        (b" " * (wire.MAX_MESSAGE_BYTES + 1), "expected at most"),
    ],
)
def test_malformed_request_is_refused_with_what_was_found(data: bytes, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        PromptRequest.decode(data)

    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"text": "not json"}, "PromptRequest/terms/text is not JSON"),
        ({"text": 1}, "PromptRequest/terms/text: found a number, expected a string of JSON"),
        ({"text": None}, "PromptRequest/terms/text: found null, expected a string of JSON"),
    ],
)
def test_term_that_is_no_json_text_is_named(terms: object, says: str) -> None:
    request = PromptRequest.decode(json.dumps({"id": "x", "terms": terms}).encode())

    with pytest.raises(RequestError) as caught:
        request.values()

    assert says in str(caught.value)


def test_response_has_every_field_of_trustgraphs() -> None:
    plain = json.loads(PromptResponse(text="hi", in_token=1, out_token=2, model="m").encode())

    theirs: dict[str, object] = {"error": None, "text": "hi", "object": None, "end_of_stream": True}
    theirs |= {"in_token": 1, "out_token": 2, "model": "m"}
    assert plain | theirs == plain
    failed = json.loads(PromptResponse(error=Error("llm-error", "no")).encode())
    assert failed["error"] == {"type": "llm-error", "message": "no"}
    assert failed["text"] is None
    assert failed["object"] is None


def test_chunk_is_read_with_its_metadata() -> None:
    data = (
        b'{"metadata": {"id": "urn:c", "root": "urn:d", "collection": "docs", "later": 1},'
        b' "chunk": "Chalk is white.", "document_id": "urn:c", "attributes": {}}'
    )

    chunk = Chunk.decode(data)

    assert (chunk.metadata.id, chunk.metadata.root, chunk.metadata.collection) == ("urn:c", "urn:d", "docs")
    assert chunk.chunk == "Chalk is white."
    assert Chunk.decode(chunk.encode()) == chunk


def test_chunk_with_wrong_metadata_is_refused() -> None:
    with pytest.raises(RequestError, match="Chunk/metadata/id: found a number, expected a string"):
        Chunk.decode(b'{"metadata": {"id": 1}, "chunk": "x"}')


def test_huge_integers_and_lone_surrogates_survive_encoding() -> None:
    value = {"big": 2**80, "lone": "\ud800"}

    assert json.loads(wire.encode(value)) == value
    assert json.loads(wire.canonical(value)) == value


def test_record_with_a_lone_surrogate_is_read() -> None:
    record = {"value": "a \ud800", "terms": ["\udfff"]}
    assert wire.decode(wire.encode(record), "Answer") == record


@pytest.mark.parametrize("data", [b'{"a": "\\ud800", "b": NaN}', b'{"a": "\\ud800"', b'["\\ud800"]'])
def test_other_records_with_a_lone_surrogate_are_refused(data: bytes) -> None:
    with pytest.raises(RequestError, match="Answer"):
        wire.decode(data, "Answer")


def test_equal_objects_have_one_canonical_text() -> None:
    one, other = {"a": 1, "ä": [{"y": 2, "x": 1}]}, {"ä": [{"x": 1, "y": 2}], "a": 1}

    assert wire.canonical(one) == wire.canonical(other)
