"""Pictures: the numbers that go into them, and that the same numbers make the same bytes."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.colors
import pytest

from schemas.errors import ConfigError
from training.reports import plots
from training.reports.plots import Bar, Curve

ROOT = Path(__file__).resolve().parents[3]


def lines(figure: Any) -> list[list[tuple[float, float]]]:
    return [[(float(x), float(y)) for x, y in line.get_xydata()] for line in figure.axes[0].get_lines()]


def test_the_mean_and_the_deviation_of_several_values() -> None:
    assert plots.mean_sd([3.0, 5.0, 10.0]) == pytest.approx((6.0, statistics.stdev([3, 5, 10])))
    assert plots.mean_sd([3.0]) == (3.0, None)


def test_smoothing_takes_noise_away_and_does_not_lag() -> None:
    noisy = [(step, 100 - step + (-1) ** step) for step in range(500)]
    found = plots.smoothed(noisy)
    assert [step for step, _ in found] == list(range(500))
    assert all(abs(value - (100 - step)) < 0.2 for step, value in found[20:-20])


def test_smoothing_leaves_out_what_is_no_number() -> None:
    assert plots.smoothed([(1, 2.0), (2, math.nan), (3, math.inf), (4, 2.0)]) == [(1, 2.0), (4, 2.0)]


def test_long_curves_are_thinned_to_their_ends() -> None:
    points = [(step, 0.0) for step in range(100_001)]
    found = plots.thinned(points)
    assert (len(found), found[0], found[-1]) == (plots.POINTS, points[0], points[-1])
    assert plots.thinned(points[:7]) == points[:7]


def test_the_runs_of_a_group_share_a_colour() -> None:
    curve = Curve([(1, 2.0), (2, 1.0)])
    figure = plots.learning_curves({"one": [curve, curve, curve], "other": [curve]})
    assert [line.get_color() for line in figure.axes[0].get_lines()] == [plots.COLOURS[0]] * 3 + [plots.COLOURS[1]]


def test_the_best_evaluation_is_ringed() -> None:
    points = [(10, 40.0), (20, 60.0), (30, 50.0)]
    assert lines(plots.dev_curves({"run": [Curve(points, (20, 60.0))]})) == [points, [(20, 60.0)]]


def test_few_shot_curves_are_means_over_draws_on_a_scale_of_sizes() -> None:
    figure = plots.few_shot_curves({"F1": {"model": {256: [30.0, 34.0], 64: [10.0], 128: []}}})
    mean, draws = lines(figure)
    assert mean == [(64, 10.0), (256, 32.0)]
    assert draws == [(64, 10.0), (256, 30.0), (256, 34.0)]
    assert figure.axes[0].get_xscale() == "log"


def test_bars_are_side_by_side_with_their_intervals() -> None:
    bars = {"one": {"en": Bar(80.0, (78.0, 83.0)), "de": Bar(70.0, None)}, "other": {"de": Bar(60.0, None)}}
    figure = plots.language_bars(bars, "XQuAD, F1")
    assert [bar.get_height() for bar in figure.axes[0].patches] == [80.0, 70.0, 60.0]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["en", "de"]
    (interval,) = lines(figure)
    assert [y for _, y in interval] == [78.0, 83.0]
    english, german, other = (bar.get_x() + bar.get_width() / 2 for bar in figure.axes[0].patches)
    assert interval[0][0] == pytest.approx(english)
    assert german < 1 < other


def test_bars_are_in_the_order_of_the_table_on_a_scale_from_0() -> None:
    of = {"one": {"fr": Bar(0.0, None), "avg": Bar(0.0, None)}, "other": {"de": Bar(0.0, None), "avg": Bar(0.0, None)}}
    axes = plots.language_bars(of, "t", order=("de", "fr", "avg", "none")).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["de", "fr", "avg"]
    assert axes.get_ylim() == (0, 1)


@pytest.mark.parametrize("count", [1, 5, 12, 24])
def test_every_group_looks_different(count: int) -> None:
    figure = plots.learning_curves({f"run {at}": [Curve([(1, 2.0)])] * 3 for at in range(count)})
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()}
    assert len(looks) == count
    assert [each.get_text() for each in figure.legends[0].get_texts()] == [f"run {at}" for at in range(count)]


def test_a_group_looks_the_same_in_every_picture() -> None:
    curves = plots.learning_curves({"one": [], "other": [Curve([(1, 2.0)])] * 3})
    bars = plots.language_bars({"one": {}, "other": {"en": Bar(80.0, None)}}, "XQuAD, F1")
    (bar,) = bars.axes[0].patches
    assert {line.get_color() for line in curves.axes[0].get_lines()} == {plots.COLOURS[1]}
    assert matplotlib.colors.to_hex(bar.get_facecolor()) == plots.COLOURS[1]
    assert [each.get_text() for each in bars.legends[0].get_texts()] == ["other"]
    assert (bar.get_x() + bar.get_width() / 2) == pytest.approx(0)


def picture() -> str:
    bars = {"_a $b$ <c>": {"en": Bar(80.0, (78.0, 83.0))}, "other": {"en": Bar(60.0, None)}}
    return plots.as_svg(plots.language_bars(bars, "XQuAD, F1"))


def test_the_same_numbers_make_the_same_bytes_whatever_the_users_settings() -> None:
    before = picture()
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False}):
        assert picture() == before
        assert matplotlib.rcParams["font.size"] == 30
    assert "dc:date" not in before


def test_words_stay_words_in_the_picture() -> None:
    for word in ("a $b$ &lt;c&gt;", "other", "XQuAD, F1", "en"):
        assert f">{word}</text>" in picture()


def test_matplotlib_waits_until_it_draws_and_pyplot_is_never_needed() -> None:
    code = """
import sys
from training.reports import plots
assert "matplotlib" not in sys.modules
plots.as_svg(plots.learning_curves({"run": [plots.Curve([(1, 2.0)])]}))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"matplotlib, which is not installed: pip install 'polyspan\[training\]'"):
        plots.learning_curves({"run": [Curve([(1, 2.0)])]})


def test_a_matrix_has_a_figure_in_every_cell_that_has_a_value() -> None:
    drawn = plots.as_svg(
        plots.matrix({"en": {"en": 81.25, "de": 12.0}, "de": {"de": 7.5}}, "F1", "question", "context")
    )
    for word in ("81.2", "12.0", "7.5", "question", "context", "en", "de"):
        assert f">{word}</text>" in drawn
    assert ">nan</text>" not in drawn


def test_languages_are_points_with_names_and_panels_share_a_scale() -> None:
    panels = {"before": {"en": (3.0, 0.0), "de": (-1.0, 2.0)}, "after": {"en": (0.5, 0.0), "de": (-0.5, 0.1)}}
    figure = plots.language_points(panels)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["before", "after"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim() == figure.axes[1].get_ylim()
    for axes, points in zip(figure.axes, panels.values(), strict=True):
        assert [tuple(map(float, line.get_xydata()[0])) for line in axes.get_lines()] == list(points.values())
        assert [text.get_text() for text in axes.texts] == ["en", "de"]
    colours = [[line.get_color() for line in axes.get_lines()] for axes in figure.axes]
    assert colours[0] == colours[1] and len(set(colours[0])) == 2
    assert plots.as_svg(figure) == plots.as_svg(plots.language_points(panels))
