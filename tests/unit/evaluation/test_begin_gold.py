"""A gold file begins with a line for each chunk of the documents that a run names."""

from __future__ import annotations

import json
from pathlib import Path

from trustgraph_prompt.documents import Converter
from trustgraph_prompt.documents.chunks import Size
from trustgraph_prompt.evaluation import begin_gold
from trustgraph_prompt.extraction.questions import Splitting
from trustgraph_prompt.extraction.state import OWNER, RECORD, write_state


def test_document_with_objects_of_other_prompts_only_has_a_line(tmp_path: Path) -> None:
    splitting = Splitting(Size(2000))
    write_state(tmp_path / "out.jsonl.state", RECORD, {OWNER: splitting.as_json()})
    lines = []
    for name, prompt in (("a.txt", "define"), ("b.txt", "relate")):
        (tmp_path / name).write_text(f"The text of {name}.")
        document, _ = splitting.read(tmp_path / name, Converter())
        origin = {"prompt": prompt, "file": document.file, "sha256": document.sha256, "chunk": 1}
        lines.append(json.dumps({**origin, "object": {"n": 1}}))
    (tmp_path / "out.jsonl").write_text("\n".join(lines))
    begun = [*begin_gold.begin(tmp_path / "out.jsonl", ["define"])]
    assert [(line["terms"]["text"], line["objects"]) for line in begun] == [
        ("The text of a.txt.", [{"n": 1}]),
        ("The text of b.txt.", []),
    ]
