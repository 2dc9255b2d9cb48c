from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.mrc import RecordCounts, problems
from training import convert, score
from training.convert import ConvertConfig
from training.metrics.tags import entities
from training.recipes.scoring import ScoreConfig
from training.tasks import absa, conll, universal_ner, wikiann
from training.tasks.columns import located, read_tags, sentences, tags_at
from training.tasks.records import read_records


def written(folder: Path, name: str, content: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode(encoding))
    return path


# --- WikiAnn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content",
    [
        ("de/test", "de:In\tO\nde:Bad\tB-LOC\nde:Ems:\tI-LOC\n\nde:5:1\tO\n"),
        ("dev-de.tsv", "In\tO\nBad\tB-LOC\nEms:\tI-LOC\n\n5:1\tO\n"),
        ("dev-de.tsv", "In\tO\r\nBad\tB-LOC\r\nEms:\tI-LOC\r\n\r\n\r\n5:1\tO\r\n\r\n"),
        ("dev-de.tsv", "In\tO\nBad\tI-LOC\nEms:\tI-LOC\n\n5:1\tO"),  # ill-formed tags are mended
    ],
)
def test_wikiann_reads_the_authors_and_xtremes_layout_alike(name: str, content: str, tmp_path: Path) -> None:
    (first, second), flags, _ = wikiann.read(written(tmp_path, name, content))
    assert (first.text, first.words, first.tags) == ("In Bad Ems:", ("In", "Bad", "Ems:"), ("O", "B-LOC", "I-LOC"))
    assert second.words == ("5:1",) and first.lang == second.lang == "de" and flags == {}
    assert first.id == f"{Path(name).name}:1" and problems(first) == []


def test_wikianns_words_keep_what_python_takes_for_line_ends_and_blanks(tmp_path: Path) -> None:
    (example,), *_ = wikiann.read(written(tmp_path, "zh/test", "zh:a\u2028b\tO\nzh:\u3000\tO\nzh:\tB-LOC\n"))
    assert example.words == ("a\u2028b", "\u3000", "") and example.tags == ("O", "O", "B-LOC")


def test_a_word_without_the_languages_prefix_among_others_with_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test:4: expected a word that begins with de: as the others do"):
        wikiann.read(written(tmp_path, "de/test", "de:In\tO\nde:Bad\tO\n\nEms\tO\n"))


def test_a_first_word_with_a_colon_is_no_prefix(tmp_path: Path) -> None:
    (example,), *_ = wikiann.read(written(tmp_path, "test-de.tsv", "http://a.de\tO\nEms\tO\n"))
    assert example.words == ("http://a.de", "Ems")


def test_wikiann_without_labels_is_flagged(tmp_path: Path) -> None:
    (example,), flags, _ = wikiann.read(written(tmp_path, "test-de.tsv", "In\nBad\n"))
    assert example.words == ("In", "Bad") and example.tags == () and flags == {"unlabelled": [example.id]}


# --- CoNLL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content, encoding",
    [
        ("eng.testa", "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nBrüssel NNP I-NP I-LOC\nBonn X X B-LOC\n", "utf-8"),
        ("deu.testa", "EU EU NN I-NC I-ORG\nBrüssel b NN I-NC I-LOC\nBonn b NN I-NC B-LOC\n", "iso-8859-1"),
        ("ned.train", "-DOCSTART- -DOCSTART- O\nEU N B-ORG\nBrüssel N B-LOC\nBonn N B-LOC\n", "iso-8859-1"),
        ("esp.train", "EU B-ORG\r\nBrüssel B-LOC\r\nBonn B-LOC\r\n\r\n", "iso-8859-1"),
        ("de.test.txt", "\ufeffEU S-ORG\nBrüssel\tS-LOC\nBonn S-LOC", "utf-8"),
    ],
)
def test_conll_reads_every_years_columns_scheme_and_encoding(
    name: str, content: str, encoding: str, tmp_path: Path
) -> None:
    content = content.replace("-DOCSTART- -DOCSTART- O\n", "-DOCSTART- -DOCSTART- O\n\n")
    (example,), *_ = conll.read(written(tmp_path, name, content, encoding))
    assert example.words == ("EU", "Brüssel", "Bonn") and example.tags == ("B-ORG", "B-LOC", "B-LOC")
    assert example.lang == {"eng": "en", "deu": "de", "ned": "nl", "esp": "es", "de": "de"}[name.split(".")[0]]


@pytest.mark.parametrize(
    "content, message",
    [
        ("EU X B-ORG\nBonn B-LOC\n", r"eng\.train:2: expected 3 columns, as line 1 has; found 2 in 'Bonn B-LOC'"),
        ("-DOCSTART- O\n\nEU B-ORG\n\nin\tX\tO\n", r"eng\.train:5: expected 2 columns, as line 3 has; found 3"),
        ("EU\nBonn B-LOC\n", r"eng\.train:2: expected 1 column, as line 1 has; found 2"),
        ("EU B-ORG\n\nBonn B-CITY\n", r"eng\.train:3: expected O or a tag of LOC, MISC, ORG, PER; found 'B-CITY'"),
    ],
)
def test_lines_of_other_columns_and_unknown_labels_are_refused_by_every_command(
    content: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "eng.train", content)
    with pytest.raises(InputError, match=message):
        convert.run(ConvertConfig("conll", (path,), tmp_path / "out"))
    with pytest.raises(InputError, match=message):
        score.run(ScoreConfig("conll", (path,), (written(tmp_path, "p", "B-ORG\n\nB-LOC\n"),)))
    with pytest.raises(InputError, match=message):
        read_records([path], "conll")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "read, name, content",
    [
        (wikiann.read, "dev-de.tsv", "Bonn\tB-CITY\n"),
        (universal_ner.read, "de_pud-ud-test.iob2", "1\tBonn\tB-CITY\t-\t-\n"),
        (absa.read, "gold-de-test.txt", "Wein\tT-GOOD\n"),
    ],
)
def test_unknown_labels_are_refused_by_every_reader(read: Any, name: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{name}:1: expected O or a tag of .*; found '"):
        read(written(tmp_path, name, content))


def test_unknown_labels_among_predictions_are_counted(tmp_path: Path) -> None:
    gold, predicted = written(tmp_path, "eng.testa", "EU B-ORG\nin O\n"), written(tmp_path, "p", "B-ORG\nB-CITY\n")
    assert "\nen: unknown_labels 1\n" in score.run(ScoreConfig("conll", (gold,), (predicted,), resamples=0))


def test_words_beside_a_docstart_line_are_not_lost(tmp_path: Path) -> None:
    (first, second), _, ledger = conll.read(written(tmp_path, "eng.train", "EU B-ORG\n-DOCSTART- O\nBonn B-LOC\n"))
    assert first.words == ("EU",) and second.words == ("Bonn",) and second.id == "eng.train:3"
    assert ledger.counts([first, second])["en"].labels_found == 2


@pytest.mark.parametrize("tag", ["B_LOC", "X", "", "B-", "B-LOC,B-ORG"])
def test_what_is_no_tag_is_refused_with_file_and_line(tag: str, tmp_path: Path) -> None:
    path = written(tmp_path, "eng.train", f"EU\tB-ORG\n\nin\tO\nBonn\t{tag}\n")
    with pytest.raises(InputError, match=r"eng\.train:4: expected a tag such as O, B-LOC or I-LOC, found '"):
        conll.read(path)


def test_an_unknown_language_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "mine.txt", "EU B-ORG\n")
    with pytest.raises(InputError, match=r"mine\.txt: its name does not say its language"):
        conll.read(path)
    assert conll.read(path, "fr")[0][0].lang == "fr"


# --- Universal NER ----------------------------------------------------------------------------------------------------

CHINESE = (
    "# sent_id = s1\n# text = 在河内, 5 月。\n1\t在\tO\t-\t-\n2\t河内\tB-LOC\t-\tx\n3\t,\tO\t-\t-\n4\t5\tO\t-\t-\n"
)


def test_universal_ner_keeps_the_text_as_it_was_written(tmp_path: Path) -> None:
    content = (
        CHINESE + "5\t月\tO\t-\t-\n6\t。\tO\t-\t-\n\n# sent_id = s2\n# text = don't\n1\tdo\tO\t-\t-\n2\tnot\tO\t-\t-\n"
    )
    (first, second), flags, _ = universal_ner.read(written(tmp_path, "zh_gsd-ud-dev.iob2", content))
    assert (first.id, first.lang, first.text) == ("s1", "zh", "在河内, 5 月。")
    assert first.words == ("在", "河内", ",", "5", "月", "。") and first.tokens[1] == (1, 3)
    assert second.text == "do not" and flags == {"words_not_in_text": ["s2"]}


def test_words_are_located_only_if_all_of_the_text_is_theirs() -> None:
    assert located(["a", "a"], "a  a") == ((0, 1), (3, 4))
    assert located(["a"], "b a") is None
    assert located(["a"], "a b") is None
    assert located(["c"], "a b") is None


def test_a_treebank_names_its_row() -> None:
    assert universal_ner.row(Path("en_ewt-ud-test.iob2"), "en") == "en_ewt"
    assert universal_ner.row(Path("mine.txt"), "en") == "en"


# --- ABSA -------------------------------------------------------------------------------------------------------------

XML = """<?xml version="1.0" encoding="UTF-8"?>
<Reviews><Review rid="1"><sentences>
 <sentence id="1:0"><text>Nice ambience, highly over-rated place &amp; pad thai.</text><Opinions>
  <Opinion target="ambience" category="AMBIENCE#GENERAL" polarity="positive" from="5" to="13"/>
  <Opinion target="place" category="RESTAURANT#GENERAL" polarity="negative" from="33" to="38"/>
  <Opinion target="place" category="SERVICE#GENERAL" polarity="negative" from="33" to="38"/>
  <Opinion target="NULL" category="SERVICE#GENERAL" polarity="negative" from="0" to="0"/>
  <Opinion target="pad thai" category="FOOD#QUALITY" polarity="neutral" from="41" to="49"/>
 </Opinions></sentence>
 <sentence id="1:1" OutOfScope="TRUE"><text>Hello.</text></sentence>
 <sentence id="1:2"><text>Nothing.</text></sentence>
</sentences></Review></Reviews>
"""


def test_absa_reads_the_tasks_xml(tmp_path: Path) -> None:
    (first, second), flags, ledger = absa.read(written(tmp_path, "EN_REST_SB1_TEST.xml.gold", XML))
    tagged = [(word, tag) for word, tag in zip(first.words, first.tags, strict=True) if tag != "O"]
    assert tagged == [("ambience", "B-POS"), ("place", "B-NEG"), ("pad", "B-NEU"), ("thai", "I-NEU")]
    assert (first.id, first.lang, second.id, set(second.tags)) == ("1:0", "en", "1:2", {"O"})
    assert first.text[5:13] == "ambience" and flags == {} and problems(first) == []
    assert ledger.counts([first, second]) == {
        "en": RecordCounts(3, 2, {"out_of_scope": 1}, 5, 3, {"null_target": 1, "repeated_target": 1})
    }
    assert ledger.left_out[0] == ("null_target", "label", "en", "1:0", 1, f"'NULL' (NEG) at 0 to 0 ⟵ {first.text}")


@pytest.mark.parametrize(
    "old, new, flag, word",
    [
        ('from="5" to="13"', 'from="6" to="14"', "target_elsewhere", None),
        ('SERVICE#GENERAL" polarity="negative" from="33"', 'X" polarity="neutral" from="33"',
         "conflicting_polarity", None),
        ('target="NULL" category="SERVICE#GENERAL" polarity="negative" from="0" to="0"',
         'target="thai" category="X" polarity="negative" from="45" to="49"', "overlapping_targets", None),
        ('target="ambience"', 'target="bienc"', None, "bienc"),
    ],
)  # fmt: skip
def test_absa_loses_no_target_silently(old: str, new: str, flag: str | None, word: str | None, tmp_path: Path) -> None:
    content = XML.replace(old, new).replace('"bienc" category="AMBIENCE#GENERAL" polarity="positive" from="5" to="13"',
                                            '"bienc" category="A" polarity="positive" from="7" to="12"')  # fmt: skip
    (first, second), flags, ledger = absa.read(written(tmp_path, "EN_REST_SB1_TEST.xml.gold", content))
    assert flags == ({flag: ["1:0"]} if flag else {})
    counts = ledger.counts([first, second])["en"]
    assert counts.labels_found == 5 and counts.label_rejects.get(flag or "target_elsewhere", 0) == bool(flag)
    assert counts.labels_kept == len(entities(first.tags)) == 5 - sum(counts.label_rejects.values())
    if word:  # the word around it is cut
        assert first.tags[first.words.index(word)] == "B-POS" and first.words[1:4] == ("am", "bienc", "e")


def sentence_of(text: str, target: str, start: int, end: int) -> str:
    opinion = f'<Opinion target="{target}" category="X" polarity="positive" from="{start}" to="{end}"/>'
    text = f"<text>{text}</text>" if text else "<text/>"
    sentence = f'<sentence id="1">{text}<Opinions>{opinion}</Opinions></sentence>'
    return f'<?xml version="1.0"?><Reviews><Review rid="1"><sentences>{sentence}</sentences></Review></Reviews>'


@pytest.mark.parametrize(
    "text, target, start, end, word",
    [
        ("Ontbijtbuffet was tip top.", "ontbijtbuffet", 0, 13, "Ontbijtbuffet"),  # as the Dutch files have it
        ("IŞIKLI yer", "ışıklı", 0, 6, "IŞIKLI"),
        ("İçecek güzel", "i\u0307çecek", 0, 6, "İçecek"),  # as Python writes it in small letters
        ("De Ober", "ober", 2, 7, None),  # the offsets take in a blank
        ("De Ober", "ober", 0, 4, None),
        ("De Ober", "ober", -4, 7, None),
        ("De Ober", "ober", 9, 13, None),
    ],
)
def test_the_offsets_decide_where_a_target_is_and_case_makes_no_difference(
    text: str, target: str, start: int, end: int, word: str | None, tmp_path: Path
) -> None:
    path = written(tmp_path, "restaurants_dutch_training.xml", sentence_of(text, target, start, end))
    (example,), flags, ledger = absa.read(path)
    found = [word for word, tag in zip(example.words, example.tags, strict=True) if tag != "O"]
    assert (example.lang, example.text, found) == ("nl", text, [word] if word else [])
    counts = ledger.counts([example])["nl"]
    assert (counts.labels_found, counts.labels_kept) == (1, int(word is not None))
    assert flags == ({} if word else {"target_elsewhere": ["1"]})


@pytest.mark.parametrize(
    "name, lang",
    [
        ("ABSA16_Restaurants_Train_SB1_v2.xml", "en"),
        ("ABSA-15_Restaurants_Train_Final.xml", "en"),
        ("EN_REST_SB1_TEST.xml.gold", "en"),
        ("restaurants_trial_english_sl.xml", "en"),
        ("SemEval-2016ABSA Restaurants-Spanish_Train_Subtask1.xml", "es"),
        ("SP_REST_SB1_TEST.xml.gold", "es"),
        ("ABSA16FR_Restaurants_Train-withcontent.xml", "fr"),
        ("ABSA16FR_Restaurants_Gold-withcontent.xml", "fr"),
        ("restaurants_dutch_training.xml", "nl"),
        ("DU_REST_SB1_TEST.xml.gold", "nl"),
        ("se16_ru_rest_train.xml", "ru"),
        ("RU_REST_SB1_TEST.xml.gold", "ru"),
        ("TU_REST_SB1_TRAINING.xml", "tr"),
        ("TU_REST_SB1_TEST.xml", "tr"),
    ],
)
def test_the_published_names_of_every_language_are_known(name: str, lang: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, XML)
    assert {example.lang for example in absa.read(path)[0]} == {lang}
    assert {example.lang for example in absa.read(path, "xx")[0]} == {"xx"}


def test_the_french_files_without_texts_say_how_to_fill_them_in(tmp_path: Path) -> None:
    path = written(tmp_path, "ABSA16FR_Restaurants_Train.xml", sentence_of("", "vin", 0, 3))
    with pytest.raises(InputError, match=r"Train\.xml: no sentence has a text\. .*ABSA16FR-download\.jar"):
        absa.read(path)


def test_absa_reads_the_words_in_circulation(tmp_path: Path) -> None:
    content = "Pad\tT-POS\tFOOD#QUALITY\nthai\tT-POS\tFOOD#QUALITY\nwine\tT-NEG\tX\n,\tO\tNIL\nice\tT-NEG\tX\n"
    (example,), *_ = absa.read(written(tmp_path, "gold-en-dev.txt", content))
    assert example.tags == ("B-POS", "I-POS", "B-NEG", "O", "B-NEG") and example.lang == "en"


@pytest.mark.parametrize(
    "content, message",
    [
        (XML.replace("</Opinions>", ""), r"\.gold:9: not XML \(mismatched tag\)"),
        (XML.replace('polarity="positive"', 'polarity="good"'), r"\.gold:4: Opinion: .*'good'"),
        (XML.replace('from="33"', 'from="x"', 1), r"\.gold:5: Opinion"),
        (XML.replace('target="NULL" ', ""), r"\.gold:7: Opinion: .*'target'"),
    ],
)
def test_malformed_xml_is_refused_with_file_and_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        absa.read(written(tmp_path, "EN_REST_SB1_TEST.xml.gold", content))


# --- predictions ------------------------------------------------------------------------------------------------------


def test_predictions_are_the_last_column(tmp_path: Path) -> None:
    path = written(tmp_path, "p.txt", "-DOCSTART- O\n\n\nEU X B-ORG\nin X O\n\nBonn X B-LOC")
    assert read_tags(path) == [(4, ["B-ORG", "O"]), (7, ["B-LOC"])]
    assert read_tags(written(tmp_path, "p.txt", "B-ORG\r\nO\r\n\r\nB-LOC")) == [(1, ["B-ORG", "O"]), (4, ["B-LOC"])]


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
def test_every_real_file_reads_with_its_words_in_their_places(shared_data: Path) -> None:
    sentences, words = 0, 0
    paths = sorted((shared_data / "ner").glob("UNER_*/*.iob2"))
    for path in paths:
        examples, flags, _ = universal_ner.read(path)
        lines = path.read_text(encoding="utf-8").split("\n")
        assert len(examples) == sum(line.startswith("# text = ") for line in lines) and flags == {}
        assert [problem for example in examples for problem in problems(example)] == []
        published = [line.split("\t")[1:3] for line in lines if line and line[0].isdigit()]
        assert published == [
            [*pair] for example in examples for pair in zip(example.words, example.tags, strict=True)
        ]  # all of these are good IOB2
        sentences, words = sentences + len(examples), words + len(published)
    assert (len(paths), sentences, words) == (9, 13_075, 260_866)


@pytest.mark.real_data
def test_wnut17_has_conlls_layout_and_the_file_of_several_annotators_is_refused(shared_data: Path) -> None:
    folder = shared_data / "ner" / "wnut17"
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    found = [list(sentences(folder / name)) for name in names]
    assert [len(each) for each in found] == [3_394, 1_009, 1_287]
    assert {tag for each in found for sentence in each for tag in tags_at(folder, sentence, -1)} > {"O", "B-person"}
    with pytest.raises(InputError, match=r"wnut17train\.conll:15: expected O or a tag of LOC.*; found 'B-location'"):
        conll.read(folder / "wnut17train.conll", "en")
    with pytest.raises(InputError, match=r"emerging\.test\.conll:\d+: expected a tag .*,B-"):
        read_tags(folder / "emerging.test.conll")
