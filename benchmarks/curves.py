"""Curves as an SVG picture: panels side by side that share their axes and one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9")  # distinguishable for the colour-blind too
SIDE, LEFT, TOP, GAP, BELOW = 380, 62, 40, 64, 100  # pixels: of a panel, and around it

Point = tuple[float, float]


class Curve(NamedTuple):
    points: Sequence[Point]
    mark: Point
    is_dashed: bool


class Axis(NamedTuple):
    label: str
    ticks: Sequence[float]  # shares of 1; the first and the last one are its ends

    def place(self, value: float) -> float:
        """0 at the first tick, `SIDE` at the last."""
        return SIDE * (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])


def draw(panels: Mapping[str, Mapping[str, Sequence[Curve]]], x: Axis, y: Axis, styles: tuple[str, str]) -> str:
    """Panel's title → name in the legend → curves of one colour. `styles` say what solid and dashed curves are."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    width, height = LEFT + len(panels) * (SIDE + GAP), TOP + SIDE + BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(0, 0, y.label, f'text-anchor="middle" transform="translate(16 {TOP + SIDE / 2}) rotate(-90)"'),
    ]
    for number, (title, curves) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({LEFT + number * (SIDE + GAP)} {TOP})">')
        parts.append(text(SIDE / 2, -14, title, 'text-anchor="middle" font-weight="bold"'))
        parts.append(text(SIDE / 2, SIDE + 38, x.label, 'text-anchor="middle"'))
        for tick in x.ticks:
            parts.append(line([(x.place(tick), 0), (x.place(tick), SIDE)], "#ddd"))
            parts.append(text(x.place(tick), SIDE + 18, f"{tick:.0%}", 'text-anchor="middle"'))
        for tick in y.ticks:
            parts.append(line([(0, SIDE - y.place(tick)), (SIDE, SIDE - y.place(tick))], "#ddd"))
            parts.append(text(-6, SIDE - y.place(tick) + 4, f"{tick:.0%}", 'text-anchor="end"'))
        for name, of_one_colour in curves.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            for curve in of_one_colour:
                places = [(x.place(a), SIDE - y.place(b)) for a, b in (*curve.points, curve.mark)]
                parts += [line(places[:-1], colour, curve.is_dashed), dot(places[-1], colour, curve.is_dashed)]
        parts.append("</g>")
    at, across = TOP + SIDE + 62, (width - LEFT - GAP) / len(names)
    for number, name in enumerate(names):
        start, colour = LEFT + number * across, COLOURS[number % len(COLOURS)]
        parts += [line([(start, at), (start + 22, at)], colour), text(start + 28, at + 4, name)]
    for start, style, is_dashed in zip((LEFT, LEFT + (width - LEFT) / 2), styles, (False, True), strict=True):
        parts += [line([(start, at + 22), (start + 44, at + 22)], "#444", is_dashed), text(start + 52, at + 26, style)]
        parts.append(dot((start + 22, at + 22), "#444", is_dashed))
    return "\n".join([*parts, "</svg>\n"])


def text(x: float, y: float, content: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(content)}</text>'


def line(points: Sequence[Point], colour: str, is_dashed: bool = False) -> str:
    path, dashes = " ".join(f"{x:.1f},{y:.1f}" for x, y in points), ' stroke-dasharray="5 4"' * is_dashed
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>'


def dot(point: Point, colour: str, is_hollow: bool) -> str:
    fill = "white" if is_hollow else colour
    return (
        f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'
    )
