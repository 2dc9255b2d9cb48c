"""Translates sentences with a sequence-to-sequence model of transformers: Marian, M2M-100, NLLB, mBART-50 and others.

sentences → tokens with the source's language → batches of similar length → greedy or beam search → sentences
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoTokenizer, GenerationConfig

from schemas.errors import InputError
from training.inference.language_codes import check_pair, code_of, codes_of
from training.inference.predictor import MOST_TOKENS, Progress, inference_mode
from training.models.files import auto_class, load_weights, local_folder

DEFAULT_MOST_TOKENS = 512  # of a sentence, where neither model nor tokenizer sets a limit
MOST_SENTENCES = 512  # in a batch: short ones would need much memory for the scores of all words
# What Moses's normalisation of punctuation does to these characters: Marian models were trained on its output.
_PUNCTUATION = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "–": "-", "—": " - ", "…": "..."}
)


@dataclass(frozen=True)
class Translator:
    """A model with its tokenizer, on its device."""

    model: Any
    tokenizer: Any
    name: str  # for messages
    codes: Mapping[str, str]  # language → the model's code, where the user gave one
    device: torch.device
    precision: Literal["bf16", "fp32"]
    beams: int = 1
    most_tokens_at_once: int | None = None

    @property
    def most_tokens(self) -> int:
        """The most tokens of a sentence, special ones included, that the model reads or writes."""
        config = self.model.config
        limits = [self.tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
        known = [int(limit) for limit in limits if limit is not None and limit < 1e6]
        return min(known, default=DEFAULT_MOST_TOKENS)

    def check(self, source: str, target: str) -> None:
        """Raises `ConfigError` if the model does not translate between these languages."""
        known = codes_of(self.tokenizer)
        if known.source:
            code_of(source, known.source, dict(self.codes), self.name)
        if known.target:
            code_of(target, list(known.target), dict(self.codes), self.name)
        else:
            check_pair(self.tokenizer, source, target, self.name)

    def encode(self, sentences: Sequence[str], source: str, target: str) -> list[list[int]]:
        """Returns the token ids of each sentence, with the tokens that name its language or the target's."""
        known = codes_of(self.tokenizer)
        if known.source:
            self.tokenizer.src_lang = code_of(source, known.source, dict(self.codes), self.name)
        elif known.target:
            token = known.target[code_of(target, list(known.target), dict(self.codes), self.name)]
            sentences = [f"{token} {sentence}" for sentence in sentences]
        ids: list[list[int]] = self.tokenizer(list(sentences), truncation=False, verbose=False)["input_ids"]
        return ids

    def count_tokens(self, source: str, target: str) -> Callable[[list[str]], list[int]]:
        """Returns a function that counts the tokens of sentences."""
        return lambda sentences: [len(ids) for ids in self.encode(sentences, source, target)] if sentences else []

    def first_token(self, target: str) -> int | None:
        """Returns the token that a translation must begin with; None if the model is told the language otherwise."""
        known = codes_of(self.tokenizer)
        if not known.source:
            return None
        token = known.target[code_of(target, list(known.target), dict(self.codes), self.name)]
        return int(self.tokenizer.convert_tokens_to_ids(token))

    def generation(self, target: str, most_new_tokens: int) -> GenerationConfig:
        """Returns the settings of the search; the rest are the model's `kept_settings`."""
        own, first = self.model.generation_config, self.first_token(target)
        return GenerationConfig(  # type: ignore[no-untyped-call]
            forced_bos_token_id=own.forced_bos_token_id if first is None else first,
            max_new_tokens=most_new_tokens,
            num_beams=self.beams,
            do_sample=False,
            length_penalty=own.length_penalty if self.beams > 1 else None,
            early_stopping=True if self.beams > 1 else None,
            eos_token_id=own.eos_token_id,
        )

    def translate(
        self, sentences: Sequence[str], source: str, target: str, progress: Callable[[int], None] | None = None
    ) -> list[str | None]:
        """Translates sentences of at most `most_tokens` tokens, in their order; None where the translation does not end
        within four times the sentence's tokens (but at least 64, and at most what the model writes).

        Batches change only the rounding, which may decide between words that are equally probable. `progress` receives
        the number of sentences that are done. Raises `TrainingError` if the device's memory is too small.
        """
        ids = self.encode(sentences, source, target) if sentences else []
        translations: list[str | None] = [None] * len(sentences)
        at_once = max(1, (self.most_tokens_at_once or MOST_TOKENS[self.device.type]) // self.beams)
        done = 0
        with inference_mode(self.model, self.device, self.precision, at_once * self.beams):
            for indices, most_new in _batches([len(each) for each in ids], at_once, self.most_tokens):
                outputs = self._generated([ids[index] for index in indices], self.generation(target, most_new))
                for index, text in zip(indices, outputs, strict=True):
                    translations[index] = text
                done += len(indices)
                if progress:
                    progress(done)
        return translations

    def _generated(self, ids: Sequence[Sequence[int]], settings: GenerationConfig) -> list[str | None]:
        longest = max(map(len, ids))
        padding = self.tokenizer.pad_token_id
        ids_BT = torch.tensor([[*each, *[padding] * (longest - len(each))] for each in ids], device=self.device)
        mask_BT = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in ids], device=self.device)
        found_BU = self.model.generate(input_ids=ids_BT, attention_mask=mask_BT, generation_config=settings)
        ends = settings.eos_token_id
        ends = [ends] if isinstance(ends, int) else list(ends or [])
        return [self._text(row[1:], ends) for row in found_BU.tolist()]  # without the decoder's start

    def _text(self, ids: Sequence[int], ends: Sequence[int]) -> str | None:
        if not any(end in ids for end in ends):
            return None
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)).strip()


def load_translator(
    model: str,
    codes: Mapping[str, str],
    device: torch.device,
    precision: Literal["bf16", "fp32"],
    beams: int = 1,
    most_tokens_at_once: int | None = None,
) -> Translator:
    """Loads a model from a folder or the hub. Raises `InputError` if model or tokenizer are missing or damaged."""
    folder = local_folder(model)
    tokenizer = _load_tokenizer(folder)
    loaded, missing = load_weights(folder, auto_class("AutoModelForSeq2SeqLM"))
    if missing:
        raise InputError(f"{folder}: the weights lack {len(missing)} of the model's tensors, such as {missing[0]}")
    embeddings: Any = loaded.get_input_embeddings()
    if len(tokenizer) > (size := embeddings.num_embeddings):
        raise InputError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, but the model only {size}. Expected the tokenizer "
            "that the model was trained with"
        )
    loaded.generation_config = kept_settings(loaded.generation_config)
    loaded.to(device).eval()  # type: ignore[arg-type]
    return Translator(loaded, tokenizer, str(model), codes, device, precision, beams, most_tokens_at_once)


def kept_settings(own: GenerationConfig) -> GenerationConfig:
    """Returns those of a model's settings that say which tokens begin, end or may not be part of a translation, and
    the penalty for length. Marian's others would end every translation that is cut as if it were complete."""
    return GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=own.bos_token_id,
        eos_token_id=own.eos_token_id,
        pad_token_id=own.pad_token_id,
        decoder_start_token_id=own.decoder_start_token_id,
        forced_bos_token_id=own.forced_bos_token_id,
        bad_words_ids=own.bad_words_ids,
        length_penalty=own.length_penalty,
    )


def _load_tokenizer(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # the tokenizers library raises no narrower class
        raise InputError(f"{folder}: the tokenizer cannot be read ({type(error).__name__}: {error})") from error
    if hasattr(tokenizer, "punc_normalizer"):  # so that an installed sacremoses changes no translation
        tokenizer.punc_normalizer = lambda text: text.translate(_PUNCTUATION)
    return tokenizer


def _batches(lengths: Sequence[int], at_once: int, most_tokens: int) -> Iterator[tuple[list[int], int]]:
    """Yields the indices of each batch and the most tokens of its translations. The longest sentences come first.

    The limit depends on a sentence's own length, and a batch has one limit, so that batches decide nothing.
    """
    batch: list[int] = []
    limit = 0
    for index in np.argsort(-np.asarray(lengths, np.int64), kind="stable").tolist():
        own = min(most_tokens - 1, max(64, 1 << (4 * lengths[index] - 1).bit_length()))
        full = batch and ((len(batch) + 1) * lengths[batch[0]] > at_once or len(batch) == MOST_SENTENCES)
        if batch and (full or own != limit):
            yield batch, limit
            batch = []
        batch.append(index)
        limit = own
    if batch:
        yield batch, limit


class SentenceProgress(Progress):
    """Prints `en-de: 640 of 1,190 sentences, 12.3 a second, 1 min left`, as `Progress` does. Sentences of an earlier
    process are counted as done, but not in the rate."""

    def __init__(self, name: str, total: int, done: int) -> None:
        super().__init__(name, total)
        self.done = self._before = done
        self._started = time.monotonic()

    def _print(self, end: str) -> None:
        self._printed = time.monotonic()
        rate = (self.done - self._before) / max(1e-9, self._printed - self._started)
        left = f", {max(1, round((self.total - self.done) / rate / 60)):,} min left" if rate and end != "\n" else ""
        print(
            f"{self.name}: {self.done:,} of {self.total:,} sentences, {rate:.1f} a second{left}",
            end=end,
            file=sys.stderr,
            flush=True,
        )
