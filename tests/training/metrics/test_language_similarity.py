from __future__ import annotations

import numpy as np
import pytest

from training.metrics.cka import cka
from training.metrics.language_similarity import principal_components, similarity


def rows(seed: int = 0, number: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(number, 6))


def test_a_rotated_and_shifted_language_has_cka_1_and_its_distance_in_units_of_the_spread() -> None:
    source = rows()
    rotation, _ = np.linalg.qr(rows(1, 6))
    shift = np.array([3.0, 0, 0, 4, 0, 0])
    found = similarity(
        {"en": source, "de": (source - source.mean(axis=0)) @ rotation + shift + source.mean(axis=0)}, "en"
    )
    assert found.cka == {"en": pytest.approx(1), "de": pytest.approx(1)}
    spread = np.sqrt(((source - source.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert found.distance == {"en": 0.0, "de": pytest.approx(5 / spread)}


def test_cka_is_with_the_source_language() -> None:
    by_lang = {"en": rows(0), "de": rows(0) + 0.3 * rows(1), "ar": rows(2)}
    found = similarity(by_lang, "en")
    assert found.cka["de"] == pytest.approx(cka(by_lang["en"], by_lang["de"]))
    assert found.cka["de"] > found.cka["ar"]


def test_scale_changes_neither_distances_nor_centroids() -> None:
    by_lang = {"en": rows(0), "de": rows(1) + 1, "ar": rows(2) - 1}
    one, other = similarity(by_lang, "en"), similarity({lang: 7 * each for lang, each in by_lang.items()}, "en")
    assert one.distance == pytest.approx(other.distance)
    assert {lang: pytest.approx(point) for lang, point in one.centroids.items()} == other.centroids


def test_components_keep_the_distances_of_points_in_a_plane_and_a_sign_that_does_not_change() -> None:
    points = np.array([[0.0, 0], [4, 0], [0, 3], [1, 1]]) @ rows(3, 2)
    found, explained = principal_components(points)
    distances = [np.linalg.norm(each[:, None] - each[None], axis=2) for each in (points, found)]
    np.testing.assert_allclose(distances[0], distances[1], atol=1e-9)
    assert explained == pytest.approx(1)
    np.testing.assert_allclose(principal_components(points + 5)[0], found, atol=1e-9)
    assert all(column[np.abs(column).argmax()] > 0 for column in found.T)


def test_two_languages_and_equal_languages_have_a_picture() -> None:
    found, explained = principal_components(np.array([[1.0, 2], [1, 2]]))
    assert found.tolist() == [[0, 0], [0, 0]] and explained == 1.0
