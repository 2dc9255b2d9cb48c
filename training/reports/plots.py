"""Draws curves and bars with matplotlib and writes them as SVG. The same numbers give the same bytes.

Draws without pyplot, which needs a display and has global state.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9")  # distinguishable for colour-blind readers
HATCHES = {"-": "", "--": "//", ":": "..", "-.": "xx"}  # dashes of a line → hatches of a bar
DASHES: tuple[Any, ...] = tuple(HATCHES)  # one for each round of the colours
POINTS = 400  # of a curve, at most
SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "font.size": 10.5,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # words stay words: small files, text that can be searched
    "svg.hashsalt": "polyspan",  # else every picture has names of its own inside
    "text.parse_math": False,  # a $ in a folder's name is no formula
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}

Point = tuple[float, float]


class Curve(NamedTuple):
    """Points to connect."""

    points: Sequence[Point]  # step, value
    mark: Point | None = None  # a point to highlight


class Bar(NamedTuple):
    """A figure with its interval, which need not be symmetric."""

    value: float
    interval: tuple[float, float] | None


def learning_curves(groups: Mapping[str, Sequence[Curve]], ylabel: str = "training loss") -> Figure:
    """Draws smoothed curves over steps. Curves of a group share its colour. Up to two curves also show their points."""
    looks = _looks(groups)
    with _style():
        figure, (axes,) = _panels(1)
        for name, (colour, dashes) in looks.items():
            for curve in groups[name]:
                if sum(map(len, groups.values())) < 3:
                    axes.plot(*_xy(thinned(curve.points)), color=colour, alpha=0.25, linewidth=0.8)
                axes.plot(*_xy(thinned(smoothed(curve.points))), color=colour, linestyle=dashes)
        axes.set(xlabel="step", ylabel=ylabel)
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", integer=True)  # no half steps
        _legend(figure, looks)
        return figure


def dev_curves(groups: Mapping[str, Sequence[Curve]], ylabel: str = "dev score, %") -> Figure:
    """Draws scores over steps, with a ring around each curve's mark: the step whose weights were kept."""
    looks = _looks(groups)
    with _style():
        figure, (axes,) = _panels(1)
        for name, (colour, dashes) in looks.items():
            for curve in groups[name]:
                axes.plot(*_xy(curve.points), color=colour, linestyle=dashes, marker="o", markersize=3.5)
                if curve.mark:
                    axes.plot(*curve.mark, "o", markersize=11, fillstyle="none", color=colour, markeredgewidth=1.8)
        axes.set(xlabel="step   (ring: the best, whose weights were kept)", ylabel=ylabel)
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", integer=True)  # no half steps
        axes.margins(y=0.12)
        low, high = axes.get_ylim()
        axes.set_ylim(max(0.0, low), max(low + 1.0, high))  # no scale of hundredths
        _legend(figure, looks)
        return figure


def few_shot_curves(panels: Mapping[str, Mapping[str, Mapping[int, Sequence[float]]]]) -> Figure:
    """Draws scores over training set sizes. `panels`: title → model → size → scores of its samples, in percent.

    Lines are means, bands a standard deviation to both sides, dots single samples. The scale of sizes is log2.
    """
    looks = _looks({name: scores for panel in panels.values() for name, scores in panel.items()})
    sizes = sorted({size for panel in panels.values() for scores in panel.values() for size in scores})
    with _style():
        figure, all_axes = _panels(len(panels))
        for axes, (title, models) in zip(all_axes, panels.items(), strict=True):
            for name, scores in models.items():
                colour, dashes = looks[name]
                of_sizes = {size: scores[size] for size in sorted(scores) if scores[size]}
                spread = [mean_sd(values) for values in of_sizes.values()]
                middle = [mean for mean, _ in spread]
                low, high = ([mean + sign * (sd or 0) for mean, sd in spread] for sign in (-1, 1))
                axes.fill_between(list(of_sizes), low, high, color=colour, alpha=0.16, linewidth=0)
                axes.plot(list(of_sizes), middle, color=colour, linestyle=dashes, marker="o", markersize=5)
                dots = [(size, value) for size, values in of_sizes.items() for value in values]
                axes.plot(*_xy(dots), ".", color=colour, alpha=0.4, markersize=4)
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.tick_params(axis="x", which="minor", bottom=False)
            axes.set(title=title, xlabel="training examples", ylabel="%")
            axes.set_ylim(bottom=0)
        _legend(figure, looks)
        return figure


def language_bars(
    groups: Mapping[str, Mapping[str, Bar]], title: str, ylabel: str = "%", order: Sequence[str] = ()
) -> Figure:
    """Draws a bar for each language or average. `groups`: name in the legend → row of a report → its bar. Rows in
    `order` come first, then the others."""
    present = dict.fromkeys(row for bars in groups.values() for row in bars)
    rows = [*(row for row in order if row in present), *(row for row in present if row not in order)]
    looks = _looks(groups)
    thick = 0.8 / len(looks)
    with _style():
        figure, (axes,) = _panels(1, width=min(16, max(6.0, 1.5 + len(rows) * (0.3 + 0.22 * len(looks)))))
        for number, (name, (colour, dashes)) in enumerate(looks.items()):
            bars = groups[name]
            positions = [rows.index(row) + (number - (len(looks) - 1) / 2) * thick for row in bars]
            values = [bar.value for bar in bars.values()]
            axes.bar(
                positions,
                values,
                thick * 0.92,
                color=colour,
                alpha=0.85,
                hatch=HATCHES[dashes],
                edgecolor="white",
                linewidth=0,
            )
            for x, bar in zip(positions, bars.values(), strict=True):
                if bar.interval:
                    axes.plot([x, x], bar.interval, color="#222222", linewidth=1.1, solid_capstyle="butt")
        axes.set_xticks(range(len(rows)), rows)
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(title=title, ylabel=ylabel)
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))  # where all are 0, not a scale of hundredths
        _legend(figure, looks, patches=True)
        return figure


def matrix(values: Mapping[str, Mapping[str, float]], title: str, xlabel: str, ylabel: str) -> Figure:
    """Draws row → column → percent as a table of coloured cells with their figures. Missing cells are white."""
    columns = list(dict.fromkeys(column for cells in values.values() for column in cells))
    cells = [[of.get(column, math.nan) for column in columns] for of in values.values()]
    with _style():
        figure, (axes,) = _panels(1, width=max(4.0, 1.6 + 0.7 * len(columns)))
        axes.pcolormesh(cells, cmap="Blues", vmin=0, vmax=100, edgecolors="white", linewidth=1)
        for y, row in enumerate(cells):
            for x, value in enumerate(row):
                if not math.isnan(value):
                    colour = "white" if value > 60 else "#222222"
                    axes.text(x + 0.5, y + 0.5, f"{value:.1f}", ha="center", va="center", color=colour)
        axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
        axes.set_yticks([y + 0.5 for y in range(len(values))], list(values))
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        return figure


def language_points(panels: Mapping[str, Mapping[str, Point]]) -> Figure:
    """Draws a point with its name for each language. `panels`: title → language → coordinates. All panels have the same
    scale, so that distances can be compared."""
    langs = dict.fromkeys(lang for points in panels.values() for lang in points)
    looks = _looks({lang: True for lang in langs})
    reach = 1.2 * max(abs(value) for points in panels.values() for point in points.values() for value in point)
    with _style():
        figure, all_axes = _panels(len(panels))
        for axes, (title, points) in zip(all_axes, panels.items(), strict=True):
            for lang, (x, y) in points.items():
                axes.plot(x, y, "o", color=looks[lang][0], markersize=7)
                axes.annotate(lang, (x, y), xytext=(5, 5), textcoords="offset points")
            axes.set(title=title, xlim=(-reach or -1, reach or 1), ylim=(-reach or -1, reach or 1), aspect="equal")
        return figure


def as_svg(figure: Figure) -> str:
    """Returns the text of an SVG file."""
    target = io.StringIO()
    with _style():
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    return target.getvalue()


# --- numbers ----------------------------------------------------------------------------------------------------------


def mean_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and standard deviation (over n − 1); None instead of the latter for a single value."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def smoothed(points: Sequence[Point]) -> list[Point]:
    """Returns running means over about n / 25 points, half as many at the ends. Drops infinite and nan values."""
    finite = [point for point in points if math.isfinite(point[1])]
    side = len(finite) // 50
    sums = [0.0, *itertools.accumulate(y for _, y in finite)]
    means = []
    for index, (x, _) in enumerate(finite):
        first, end = max(0, index - side), min(len(finite), index + side + 1)
        means.append((x, (sums[end] - sums[first]) / (end - first)))
    return means


def thinned(points: Sequence[Point]) -> list[Point]:
    """Returns at most `POINTS` evenly spaced points, with the first and the last."""
    if len(points) <= POINTS:
        return list(points)
    return [points[number * (len(points) - 1) // (POINTS - 1)] for number in range(POINTS)]


# --- what all pictures share ------------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    """Applies our settings over matplotlib's defaults inside the block, and then restores the user's settings."""
    try:
        from matplotlib import rc_context, rcdefaults, rcParams
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"pictures need {error.name}, which is not installed: pip install 'polyspan[training]'"
        ) from None
    with rc_context():
        rcdefaults()
        rcParams.update(SETTINGS)
        yield


def _panels(count: int, width: float = 7.2) -> tuple[Figure, list[Axes]]:
    """Makes axes side by side. `width` is in inches; an inch is 72 units of SVG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width if count == 1 else 4.8 * count, 4.2), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(1, count, number) for number in range(1, count + 1)]


def _looks(groups: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Returns colour and dashes of each group that has something to show. Empty groups take a colour too, so that a
    group looks the same in all pictures."""
    rounds = [
        (COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]) for number in range(len(groups))
    ]
    return {name: look for (name, shown), look in zip(groups.items(), rounds, strict=True) if shown}


def _legend(figure: Figure, looks: Mapping[str, tuple[str, Any]], patches: bool = False) -> None:
    """Adds a legend below the panels, in as many columns as fit."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, hatch=HATCHES[dashes], edgecolor="white", linewidth=0)
        if patches
        else Line2D([], [], color=colour, linestyle=dashes)
        for colour, dashes in looks.values()
    ]
    letters = figure.get_figwidth() * 10  # about as many fit into the width
    columns = max(1, min(len(looks), int(letters // (max(map(len, looks), default=1) + 8))))
    shown = [name.lstrip("_") or name for name in looks]  # matplotlib hides what begins with an underscore
    figure.legend(handles, shown, loc="outside lower center", ncols=columns)


def _xy(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
