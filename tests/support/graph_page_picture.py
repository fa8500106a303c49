"""Takes a picture of the page of a graph, such as that of the README; `--help` tells how."""

from __future__ import annotations

import argparse
import base64
import struct
import zlib
from array import array
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.browser import browsers, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

parser = argparse.ArgumentParser(description="Takes a picture of the page of a graph.")
parser.add_argument("page", type=Path, help="the HTML file")
parser.add_argument("picture", type=Path, help="the PNG file to write")
parser.add_argument("--thing", help="the name of the thing to choose")
parser.add_argument("--relation", help="the name of the fact or relation of it whose sentence to show")
parser.add_argument("--scheme", choices=["light", "dark"], default="light")
parser.add_argument("--size", type=int, nargs=2, default=(1200, 750), metavar=("WIDTH", "HEIGHT"))

COLOURS: Final = 48
DECODE: Final = """async (png) => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const url = await new Promise((done) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.readAsDataURL(new Blob([data]));
    });
    return [image.width, image.height, url.split(",")[1]];
}"""


def main() -> None:
    given = parser.parse_args()
    size = dict(zip(("width", "height"), given.size, strict=True))
    look = {"viewport": size, "color_scheme": given.scheme, "reduced_motion": "no-preference"}
    with browsers() as launch:
        browser = launch("--disable-lcd-text")
        with opened(browser, given.page.resolve(), device_scale_factor=2, **look) as page:
            page.wait_for_selector("#graph[aria-busy=false]")
            page.emulate_media(reduced_motion="reduce")  # the camera moves at once
            if given.thing:
                page.locator("#things").get_by_role("button", name=given.thing, exact=True).click()
            if given.relation:
                page.locator(".predicate", has_text=given.relation).first.click()
            page.mouse.move(0, 0)
            png = page.screenshot()
        given.picture.write_bytes(with_palette(browser, png))


def with_palette(browser: Browser, png: bytes) -> bytes:
    """Return a picture with its most frequent colours only, at a third of its size."""
    width, height, data = browser.new_page().evaluate(DECODE, base64.b64encode(png).decode())
    pixels = array("I", base64.b64decode(data))
    frequent = [colour for colour, _ in Counter(pixels).most_common(COLOURS)]

    def nearest(colour: int) -> int:
        parts = colour.to_bytes(4, "little")
        distances = [
            sum((a - b) ** 2 for a, b in zip(parts, each.to_bytes(4, "little"), strict=True))
            for each in frequent
        ]
        return distances.index(min(distances))

    number = {colour: nearest(colour) for colour in set(pixels)}
    rows = bytes(map(number.__getitem__, pixels))
    lines = b"".join(b"\0" + rows[start : start + width] for start in range(0, len(rows), width))
    palette = b"".join(colour.to_bytes(4, "little")[:3] for colour in frequent)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
        for name, part in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


if __name__ == "__main__":
    main()
