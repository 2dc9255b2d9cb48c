"""Sentences are translated as the model's own `generate` does by hand; languages are named as each model wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from schemas.errors import ConfigError, InputError
from tests.training import translation_models as models
from training.inference.language_codes import code_of, codes_of
from training.inference.translator import Translator, load_translator
from training.models.files import check_translation_model

SENTENCES = ["anna lives.", "who?", "ben met anna, too.", "a"]
MAKERS = {
    "marian": lambda folder: models.marian(folder, ["de", "es", "zho_Hans"]),
    "m2m100": models.m2m100,
    "nllb": models.nllb,
    "mbart50": models.mbart50,
}
# The source's code, and the token that a German translation begins with; of Marian the token before the sentence.
GERMAN = {
    "marian": (None, ">>de<<"),
    "m2m100": ("en", "__de__"),
    "nllb": ("eng_Latn", "deu_Latn"),
    "mbart50": ("en_XX", "de_DE"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made: dict[str, Path] = {}
    for name, make in MAKERS.items():
        made[name] = make(tmp_path_factory.mktemp("models") / name)
    return made


def loaded(folder: Path, **settings: Any) -> Translator:
    return load_translator(str(folder), settings.pop("codes", {}), torch.device("cpu"), "fp32", **settings)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("beams", [1, 2])
def test_translations_are_those_of_generate_called_by_hand(name: str, beams: int, folders: dict[str, Path]) -> None:
    source_code, first = GERMAN[name]
    tokenizer: Any = AutoTokenizer.from_pretrained(folders[name])
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folders[name])
    texts = SENTENCES
    if source_code:
        tokenizer.src_lang = source_code
        forced = tokenizer.convert_tokens_to_ids(first)
        assert tokenizer.convert_ids_to_tokens(forced) == first
    else:
        texts, forced = [f"{first} {text}" for text in texts], None
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    options = {"early_stopping": True} if beams > 1 else {}
    found = model.generate(
        **encoded, forced_bos_token_id=forced, forced_eos_token_id=None, num_beams=beams, max_new_tokens=31, **options
    )
    translator = loaded(folders[name], beams=beams)
    translations = translator.translate(SENTENCES, "en", "de")
    for ids, translation in zip(found.tolist(), translations, strict=True):
        text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        assert translation == (text if model.generation_config.eos_token_id in ids[1:] else None)


@pytest.mark.parametrize("name", ["m2m100", "nllb", "mbart50"])
def test_another_language_gives_another_translation(name: str, folders: dict[str, Path]) -> None:
    translator = loaded(folders[name])
    encoded = {lang: translator.encode(["anna"], lang, "hi") for lang in ("en", "de")}
    assert encoded["en"] != encoded["de"] and translator.first_token("de") != translator.first_token("hi")


@pytest.fixture(scope="module")
def substituting(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    words = {word: word[::-1] for word in "Anna lives in Hanoi here".split()}
    folder = models.substituting_model(tmp_path_factory.mktemp("sub"), words, source_lang="en", target_lang="de")
    return loaded(folder)


def test_a_model_set_to_substitute_words_does(substituting: Translator) -> None:
    assert substituting.translate(["Anna lives in Hanoi", "here Anna"], "en", "de") == [
        "annA sevil ni ionaH",
        "ereh annA",
    ]


def test_translations_have_the_order_of_the_sentences_whatever_the_batches(substituting: Translator) -> None:
    sentences = [" ".join(["Anna", "in"] * number + ["here"]) for number in (3, 1, 20, 0, 7, 7, 2)]
    expected = [" ".join(word[::-1] for word in sentence.split()) for sentence in sentences]
    seen: list[int] = []
    assert substituting.translate(sentences, "en", "de", seen.append) == expected
    assert seen[-1] == len(sentences)
    for at_once in (1, 10, 100):
        smaller = Translator(**{**vars(substituting), "most_tokens_at_once": at_once})
        assert smaller.translate(sentences, "en", "de") == expected


def test_a_translation_that_does_not_end_is_none(folders: dict[str, Path]) -> None:
    translator = loaded(folders["nllb"])
    with torch.no_grad():  # the end is never the most probable word
        translator.model.lm_head.weight[2] = 0.0
        translator.model.lm_head.weight[3:] = translator.model.lm_head.weight[3:].abs() + 1.0
    ends = translator.translate(SENTENCES, "en", "de")
    assert None in ends or all(isinstance(text, str) for text in ends)


@pytest.mark.parametrize(
    "lang, known, given, expected",
    [
        ("de", ["de", "deu_Latn"], {}, "de"),
        ("de", ["eng_Latn", "deu_Latn"], {}, "deu_Latn"),
        ("de", ["en_XX", "de_DE"], {}, "de_DE"),
        ("de", ["deu", "spa"], {}, "deu"),
        ("zh", ["zho_Hans", "zho_Hant"], {}, "zho_Hans"),
        ("zh", ["zho_Hans", "zho_Hant"], {"zh": "zho_Hant"}, "zho_Hant"),
        ("zh", ["zh_CN"], {}, "zh_CN"),
        ("ar", ["arb_Arab", "arz_Arab"], {}, "arb_Arab"),
        ("sw", ["swh_Latn"], {}, "swh_Latn"),
        ("ko", ["kor_Hang"], {}, "kor_Hang"),
        ("eu", ["eus_Latn"], {"eu": "eus_Latn"}, "eus_Latn"),  # Polyspan does not know Basque
    ],
)
def test_the_code_of_a_language_is_found(lang: str, known: list[str], given: dict[str, str], expected: str) -> None:
    assert code_of(lang, known, given, "m") == expected


@pytest.mark.parametrize(
    "lang, known, given, said",
    [
        (
            "eu",
            ["deu_Latn"],
            {},
            "eu: m does not translate this language, or has another code for it. Its codes: deu_Latn",
        ),
        ("de", ["deu_Latn"], {"de": "ger"}, "--codes de=ger: m has no such code"),
        ("zh", ["zho_Hant", "zho_Bopo"], {}, "zh: m has zho_Hant, zho_Bopo. Choose one with --codes zh=zho_Hant"),
    ],
)
def test_a_language_without_a_code_is_refused(lang: str, known: list[str], given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said.replace('.', '[.]')}"):
        code_of(lang, known, given, "m")


def test_every_language_of_polyspan_has_a_code_in_nllb_and_all_but_one_in_m2m100(folders: dict[str, Path]) -> None:
    from schemas.languages import LANGUAGES

    lacking = []
    for name in ("nllb", "m2m100"):
        known = codes_of(loaded(folders[name]).tokenizer).source
        for lang in LANGUAGES:
            try:
                code_of(lang, known, {}, name)
            except ConfigError:
                lacking.append((name, lang))
    assert lacking == [("m2m100", "ltg"), ("m2m100", "te")]


def test_a_bilingual_model_refuses_other_languages(substituting: Translator) -> None:
    substituting.check("en", "de")
    with pytest.raises(ConfigError, match=r"translates into de, but --to es. Name another model"):
        substituting.check("en", "es")
    with pytest.raises(ConfigError, match=r"translates from en, but the records are in de"):
        substituting.check("de", "de")


def test_damaged_models_are_refused_in_words(folders: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(folders["marian"], folder)
    (folder / "source.spm").unlink()
    with pytest.raises(InputError, match=r"model: the tokenizer cannot be read"):
        loaded(folder)
    shutil.copytree(folders["marian"], folder, dirs_exist_ok=True)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(InputError, match=r"model: the model cannot be read"):
        loaded(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"is a pickle(.|\n)*AutoModelForSeq2SeqLM"):
        check_translation_model(str(folder))
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match=r"model_type 'bert', which does not translate"):
        check_translation_model(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"no model. Expected config.json"):
        check_translation_model(str(folder))
