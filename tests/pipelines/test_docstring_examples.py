from __future__ import annotations

import pytest

from tests.docstring_examples import check_examples, modules_with_examples


@pytest.mark.parametrize("module", modules_with_examples("pipelines"))
def test_examples_in_docstrings_print_what_they_say(module: str) -> None:
    check_examples(module)
