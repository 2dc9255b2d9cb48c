from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, PairExample
from schemas.spans import CharSpan
from schemas.translations import Translation, TranslationCounts
from training.data.dataset_writer import write_dataset
from training.tasks.translations import Translations, join_lines, read_translations

ENGLISH = MrcExample("q1", "en", "Who won?", "The Broncos won.", (CharSpan(4, 11),), ("Broncos",), True, "squad", None)
ENGLISH_PAIR, GERMAN_PAIR = "Anna lives here.\tHere lives Anna.", "Anna wohnt hier.\tHier wohnt Anna."
PAIR = PairExample("3", "en", "Anna lives here.", "Here lives Anna.", "1", "paws_x")


def squad(path: Path, question: str, context: str, answer: str, start: int, id_: str = "q1") -> Path:
    answers = [{"text": answer, "answer_start": start}]
    paragraph = {"context": context, "qas": [{"id": id_, "question": question, "answers": answers}]}
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]}), encoding="utf-8")
    return path


def tsv(path: Path, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def test_questions_are_joined_by_id(tmp_path: Path) -> None:
    german = squad(tmp_path / "squad.translate.train.en-de.json", "Wer?", "Die Broncos.", "Broncos", 4)
    found = read_translations([german], "squad").of(ENGLISH)
    assert found["de"].labels == "known" and found["de"].record().answer_texts == ("Broncos",)  # type: ignore[union-attr]
    other = read_translations([squad(german, "Wer?", "Die Broncos.", "Broncos", 4, id_="q2")], "squad")
    assert other.of(ENGLISH) == {}


def test_an_answer_that_is_not_in_the_translation_is_unknown_not_absent(tmp_path: Path) -> None:
    german = squad(tmp_path / "squad.translate.train.en-de.json", "Wer?", "Die Broncos.", "Pferde", 4)
    assert read_translations([german], "squad").of(ENGLISH)["de"].labels == "unknown"


def test_test_files_translated_to_english_belong_to_records_of_the_other_language(tmp_path: Path) -> None:
    english = squad(tmp_path / "xquad.translate.test.de-en.json", "Who?", "The Broncos.", "Broncos", 4)
    translations = read_translations([english], "xquad")
    german = MrcExample("q1", "de", "Wer?", "Die Broncos.", (), (), False, "xquad", None)
    assert set(translations.of(german)) == {"en"} and translations.of(ENGLISH) == {}


def test_pairs_are_joined_by_their_original_sentences_never_by_order(tmp_path: Path) -> None:
    rows = (
        "Other.\tPair.\tAnderes.\tPaar.\t0",
        "Anna lives here.\tHere lives Anna.\tAnna wohnt hier.\tHier wohnt Anna.\t1",
    )
    for path in (
        tsv(tmp_path / "a" / "en-de-translated.tsv", *rows),
        tsv(tmp_path / "b" / "en-de-translated.tsv", *rows[::-1]),
    ):
        found = read_translations([path], "paws_x").of(PAIR)["de"]
        assert found.texts == ("Anna wohnt hier.", "Hier wohnt Anna.") and found.label == "1"


def test_translated_test_pairs_have_no_labels(tmp_path: Path) -> None:
    path = tsv(
        tmp_path / "test-de-en-translated.tsv", "Anna wohnt hier.\tHier wohnt Anna.\tAnna lives here.\tHere lives Anna."
    )
    german = PairExample("test-de.tsv:1", "de", "Anna wohnt hier.", "Hier wohnt Anna.", None, "paws_x")
    assert read_translations([path], "paws_x").of(german)["en"].labels == "unknown"


def test_paws_xs_translated_training_file_is_joined_by_its_ids(tmp_path: Path) -> None:
    path = tsv(
        tmp_path / "de" / "translated_train.tsv",
        "id\tsentence1\tsentence2\tlabel",
        "3\tAnna wohnt hier.\tHier wohnt Anna.\t1",
    )
    assert read_translations([path], "paws_x").of(PAIR)["de"].texts == ("Anna wohnt hier.", "Hier wohnt Anna.")


def test_files_with_neither_ids_nor_originals_are_refused(tmp_path: Path) -> None:
    path = tsv(tmp_path / "multinli.train.de.tsv", "premise\thypo\tlabel", "Anna wohnt.\tSie wohnt.\tentailment")
    with pytest.raises(InputError, match="not joined by order"):
        read_translations([path], "xnli", ["en-de"])


def test_a_translation_of_another_text_under_the_same_id_is_not_joined(tmp_path: Path) -> None:
    def translated(context: str) -> Translations:
        texts = ("Who won?", context)
        example = Translation("q1", "en", "de", "qa", "squad", texts, ("Wer?", "Die Broncos."), "unknown")
        counts = {"en-de": TranslationCounts(1, 1, unknown=1)}
        write_dataset(tmp_path / "out", "translations/1", [example], counts, overwrite=True)
        return read_translations([tmp_path / "out"], "squad")

    assert set(translated(ENGLISH.context).of(ENGLISH)) == {"de"}
    assert translated("The Broncos lost.").of(ENGLISH) == {}


def test_the_log_says_how_many_records_have_a_translation(tmp_path: Path) -> None:
    german = squad(tmp_path / "squad.translate.train.en-de.json", "Wer?", "Die Broncos.", "Broncos", 4)
    lines = join_lines(
        [ENGLISH, MrcExample("q9", "en", "?", "x", (), (), False, "squad", None)], read_translations([german], "squad")
    )
    assert lines == [
        "  translations of 2 records, by language: de 1",
        "  left out, as they have no translation: 1 records",
    ]


def test_blank_and_untranslated_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ("id\tsentence1\tsentence2\tlabel", "3\tNS\tHier wohnt Anna.\t1", "4\tAnna.\t \t0", "5\tJa.\tNein.\t0")
    translations = read_translations([tsv(tmp_path / "de" / "translated_train.tsv", *rows)], "paws_x")
    assert translations.of(PAIR) == {} and translations.unusable == 2
    assert "  left out, as a text is blank or not translated: 2 translations" in join_lines([PAIR], translations)


def test_what_cannot_be_read_is_said_before_reading(tmp_path: Path) -> None:
    nameless = squad(tmp_path / "german.json", "Wer?", "Die Broncos.", "Broncos", 4)
    with pytest.raises(ConfigError, match="--translation-langs en-de"):
        read_translations([nameless], "squad")
    assert set(read_translations([nameless], "squad", ["en-de"]).of(ENGLISH)) == {"de"}
    with pytest.raises(ConfigError, match="a pair of languages for each of 1 translations, found 2"):
        read_translations([nameless], "squad", ["en-de", "en-zh"])
    with pytest.raises(ConfigError, match="no such file or folder of translations"):
        read_translations([tmp_path / "en-de.json"], "squad")
    ragged = tsv(tmp_path / "en-de-translated.tsv", "a\tb\tc\td\t1", "a\tb\tc")
    with pytest.raises(InputError, match=r"en-de-translated.tsv:2: expected 5 columns separated by tabs, found 3"):
        read_translations([ragged], "paws_x")
    unknown = tsv(tmp_path / "en-fr-translated.tsv", "a\tb\tc\td\tmaybe")
    with pytest.raises(InputError, match="expected a label of 0, 1; found 'maybe'"):
        read_translations([unknown], "paws_x")
