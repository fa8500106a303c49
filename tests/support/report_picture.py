"""Takes a picture of the report of a run, such as that of the guide; `--help` tells how."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.support.browser import browsers, opened
from tests.support.graph_page_picture import with_palette

parser = argparse.ArgumentParser(description="Takes a picture of the report of a run.")
parser.add_argument("page", type=Path, help="the HTML file")
parser.add_argument("picture", type=Path, help="the PNG file to write")
parser.add_argument("--scheme", choices=["light", "dark"], default="light")
parser.add_argument("--size", type=int, nargs=2, default=(1200, 900), metavar=("WIDTH", "HEIGHT"))


def main() -> None:
    given = parser.parse_args()
    size = dict(zip(("width", "height"), given.size, strict=True))
    look = {"viewport": size, "color_scheme": given.scheme}
    with browsers() as launch:
        browser = launch("--disable-lcd-text")
        with opened(browser, given.page.resolve(), "main", device_scale_factor=2, **look) as page:
            png = page.screenshot()
        given.picture.write_bytes(with_palette(browser, png))


if __name__ == "__main__":
    main()
