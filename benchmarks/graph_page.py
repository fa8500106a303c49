"""What the page of a graph costs: seconds to write it, and in a headless Chromium without a GPU to use it.

Drawing is from navigation to the first frame with the graph; the layout is refined meanwhile. Choosing is
from a click in a list to the frame that shows the thing or relation.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.support.browser import browsers, missing, opened
from tests.support.made_graph import made_graph
from trustgraph_prompt.graph_store.page import write_page

SIZES = ((2_000, 5_000, 5), (20_000, 50_000, 3))
FRAME = """(act) => new Promise((done) => {
    const started = performance.now();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
    document.querySelector(act).click();
})"""


def main() -> None:
    if reason := missing():
        print(reason)
        return
    with browsers() as launch, tempfile.TemporaryDirectory() as folder:
        browser = launch()
        file = Path(folder) / "graph.html"
        for things, relations, documents in SIZES:
            view = made_graph(things, relations, documents)
            started = time.process_time()
            write_page(view, file)
            written = time.process_time() - started
            print(f"{things:,} things, {relations:,} relations, {documents} documents: ", end="")
            print(f"written in {written:.2f} s of CPU, {file.stat().st_size / 1e6:.1f} MB")
            with opened(browser, file, reduced_motion="no-preference") as page:
                drawn = int(page.locator("html").get_attribute("data-drawn") or 0)
                print(f"  drawn after {drawn / 1000:.1f} s")
                page.wait_for_selector("#graph[aria-busy=false]")
                for name, button in (
                    ("a thing", "#things button"),
                    ("a relation", ".predicate:not(.without)"),
                ):
                    print(f"  {name} chosen in {page.evaluate(FRAME, button) / 1000:.1f} s")


if __name__ == "__main__":
    main()
