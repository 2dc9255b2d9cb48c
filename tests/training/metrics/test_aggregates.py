from __future__ import annotations

import numpy as np
import pytest

from training.metrics import aggregates
from training.metrics.cka import cka


def test_the_transfer_gap_is_english_less_the_mean_of_the_others() -> None:
    # mPMR, table 11, mPMR's row: 93.5 - (75.0 + 85.0 + 83.1) / 3
    assert aggregates.transfer_gap({"de": 75.0, "en": 93.5, "es": 85.0, "nl": 83.1}) == pytest.approx(12.4667, abs=1e-4)
    assert aggregates.transfer_gap({"de": 75.0}) is None
    assert aggregates.transfer_gap({"en": 75.0}) is None


def test_xtremes_averages() -> None:
    assert aggregates.xtreme_qa(exact_match=60.0, f1=80.0) == 70.0
    found = aggregates.xtreme({"xnli": 80.0, "paws_x": 90.0, "wikiann": 60.0, "xquad": 70.0})
    assert found == {"classification": 85.0, "tagging": 60.0, "all": 75.0}  # of qa, two tasks are missing


# --- CKA --------------------------------------------------------------------------------------------------------------

RANDOM = np.random.Generator(np.random.Philox(7))
X = RANDOM.standard_normal((50, 6))


def test_cka_ignores_rotation_scale_and_offset_but_not_a_linear_map() -> None:
    rotation, _ = np.linalg.qr(RANDOM.standard_normal((6, 6)))
    assert cka(X, 3.0 * X @ rotation + 5.0) == pytest.approx(1.0)
    assert cka(X, X @ np.diag([9, 1, 1, 1, 1, 1])) < 0.9


def test_cka_by_hand() -> None:
    # Centred already: XᵀX = 2, YᵀY = diag(2, 2), YᵀX = (2, 0): 4 / (2 · √8)
    x, y = np.array([[1.0], [-1.0], [0.0], [0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert cka(x, y) == pytest.approx(4 / (2 * 8**0.5))
    assert cka(y + 7, x - 3) == pytest.approx(cka(x, y))


def test_cka_is_that_of_the_gram_matrices() -> None:
    y = X[:, :3] ** 2 + RANDOM.standard_normal((50, 3))
    centre = np.eye(50) - 1 / 50
    k, l = centre @ X @ X.T @ centre, centre @ y @ y.T @ centre  # noqa: E741
    assert cka(X, y) == pytest.approx(np.sum(k * l) / np.sqrt(np.sum(k * k) * np.sum(l * l)))


def test_cka_of_a_constant_is_not_a_number_and_rows_must_agree() -> None:
    assert np.isnan(cka(X, np.ones((50, 2))))
    with pytest.raises(ValueError, match="found 50 and 49"):
        cka(X, X[:49])
