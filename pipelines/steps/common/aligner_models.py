"""What connects the word aligner, which knows only words and local files, with tokenizers and remote files."""

from __future__ import annotations

from pipelines.aligner import AlignmentModel
from pipelines.aligner.text import WHITE_SPACE, TrainingText
from pipelines.steps.common.files import open_raw
from pipelines.steps.common.paths import is_remote
from pipelines.steps.common.tokenize import tokenizer_version
from schemas.languages import LanguagePair


def training_text(pair: LanguagePair, *, tokenized: bool = False) -> TrainingText:
    """Describes text whose words the installed tokenizers find. Raises `ConfigError` if one is not installed."""
    if tokenized:
        return TrainingText(pair, (WHITE_SPACE, WHITE_SPACE))
    return TrainingText(pair, (tokenizer_version(pair.source), tokenizer_version(pair.target)))


def load_aligner(path: str, *, copy: bool | None = None) -> AlignmentModel:
    """Loads an aligner's model from a local path, as `AlignmentModel.load` does, or from a remote one. Raises
    `InputError`."""
    if not is_remote(path):
        return AlignmentModel.load(path, copy=copy)
    with open_raw(path) as file:
        return AlignmentModel.load(file, name=path)
