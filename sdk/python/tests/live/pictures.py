"""Looks at what a session sent."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from typing import Optional

from PIL import Image


def picture(png: Optional[str]) -> Image.Image:
    """The decoded picture, which must not be blank."""
    assert png
    image = Image.open(io.BytesIO(base64.b64decode(png, validate=True)))
    image.load()
    histogram = image.convert("RGB").convert("L").histogram()
    assert any(histogram[:128]), "the picture is blank"
    assert any(histogram[128:]), "the picture is blank"
    return image


class _Table(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        self._open = tag in ("td", "th")
        if self._open:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data.strip()


def table(html: Optional[str]) -> list[list[str]]:
    """The cells' texts, row by row."""
    assert html
    parser = _Table()
    parser.feed(html)
    return parser.rows
