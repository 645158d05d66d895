"""Requests per second by requests at once, as a PNG. Pillow comes with vLLM."""

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

_WIDTH, _HEIGHT, _EDGE = 460, 300, 56
_INK, _PAPER = "#222222", "#ffffff"
_COLOURS = {"stock": "#b04a3a", "firstword": "#2a6fb0"}


def draw(report: dict[str, Any], to: Path) -> None:
    """Draw one panel for each workload, side by side, each with its own scale."""
    panels = [
        (f"{family}: {workload}", counts)
        for family, told in report["models"].items()
        for workload, counts in told["workloads"].items()
    ]
    image = Image.new("RGB", (_WIDTH * len(panels), _HEIGHT), _PAPER)
    pen = ImageDraw.Draw(image)
    for index, (title, counts) in enumerate(panels):
        _panel(pen, index * _WIDTH, title, counts)
    image.save(to)


def _panel(pen: ImageDraw.ImageDraw, left: int, title: str, counts: dict[str, Any]) -> None:
    rates = {name: [sides[name]["median"]["requests_per_second"] for sides in counts.values()] for name in _COLOURS}
    top = max((rate for side in rates.values() for rate in side), default=0.0) * 1.1 or 1.0
    bottom, right = _HEIGHT - _EDGE, left + _WIDTH - _EDGE // 2
    pen.text((left + _EDGE, 8), f"{title}, requests/s", fill=_INK)
    pen.line([(left + _EDGE, _EDGE), (left + _EDGE, bottom), (right, bottom)], fill=_INK)
    pen.text((left + 6, _EDGE), f"{top:.2f}", fill=_INK)
    pen.text((left + 6, bottom - 10), "0", fill=_INK)
    places = [left + _EDGE + round((right - left - _EDGE) * (n + 0.5) / len(counts)) for n in range(len(counts))]
    for place, together in zip(places, counts, strict=True):
        pen.text((place - 4, bottom + 6), together, fill=_INK)
    pen.text((left + _EDGE, bottom + 24), "requests at once", fill=_INK)
    for row, (name, colour) in enumerate(_COLOURS.items()):
        points = [
            (place, bottom - round((bottom - _EDGE) * rate / top))
            for place, rate in zip(places, rates[name], strict=True)
        ]
        pen.line(points, fill=colour, width=2)
        for x, y in points:
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=colour)
        pen.text((left + _EDGE + 10 + 90 * row, 26), name, fill=colour)
