from __future__ import annotations

from pathlib import Path

import pytest

from schemas.mrc import problems
from training.errors import InputError
from training.tasks import absa, conll, universal_ner, wikiann
from training.tasks.columns import located, read_tags


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
    (first, second), flags = wikiann.read(written(tmp_path, name, content))
    assert (first.text, first.words, first.tags) == ("In Bad Ems:", ("In", "Bad", "Ems:"), ("O", "B-LOC", "I-LOC"))
    assert second.words == ("5:1",) and first.lang == second.lang == "de" and flags == {}
    assert first.id == f"{Path(name).name}:1" and problems(first) == []


def test_wikianns_words_keep_what_python_takes_for_line_ends_and_blanks(tmp_path: Path) -> None:
    (example,), _ = wikiann.read(written(tmp_path, "zh/test", "zh:a\u2028b\tO\nzh:\u3000\tO\nzh:\tB-LOC\n"))
    assert example.words == ("a\u2028b", "\u3000", "") and example.tags == ("O", "O", "B-LOC")


def test_a_word_without_the_languages_prefix_among_others_with_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test:4: expected a word that begins with de: as the others do"):
        wikiann.read(written(tmp_path, "de/test", "de:In\tO\nde:Bad\tO\n\nEms\tO\n"))


def test_a_first_word_with_a_colon_is_no_prefix(tmp_path: Path) -> None:
    (example,), _ = wikiann.read(written(tmp_path, "test-de.tsv", "http://a.de\tO\nEms\tO\n"))
    assert example.words == ("http://a.de", "Ems")


def test_wikiann_without_labels_is_flagged(tmp_path: Path) -> None:
    (example,), flags = wikiann.read(written(tmp_path, "test-de.tsv", "In\nBad\n"))
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
    (example,), _ = conll.read(written(tmp_path, name, content, encoding))
    assert example.words == ("EU", "Brüssel", "Bonn") and example.tags == ("B-ORG", "B-LOC", "B-LOC")
    assert example.lang == {"eng": "en", "deu": "de", "ned": "nl", "esp": "es", "de": "de"}[name.split(".")[0]]


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
    (first, second), flags = universal_ner.read(written(tmp_path, "zh_gsd-ud-dev.iob2", content))
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
    (first, second), flags = absa.read(written(tmp_path, "EN_REST_SB1_TEST.xml.gold", XML))
    tagged = [(word, tag) for word, tag in zip(first.words, first.tags, strict=True) if tag != "O"]
    assert tagged == [("ambience", "B-POS"), ("place", "B-NEG"), ("pad", "B-NEU"), ("thai", "I-NEU")]
    assert (first.id, first.lang, second.id, set(second.tags)) == ("1:0", "en", "1:2", {"O"})
    assert first.text[5:13] == "ambience" and flags == {} and problems(first) == []


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
    (first, _), flags = absa.read(written(tmp_path, "EN_REST_SB1_TEST.xml.gold", content))
    assert flags == ({flag: ["1:0"]} if flag else {})
    if word:  # the word around it is cut
        assert first.tags[first.words.index(word)] == "B-POS" and first.words[1:4] == ("am", "bienc", "e")


def test_absa_reads_the_words_in_circulation(tmp_path: Path) -> None:
    content = "Pad\tT-POS\tFOOD#QUALITY\nthai\tT-POS\tFOOD#QUALITY\nwine\tT-NEG\tX\n,\tO\tNIL\nice\tT-NEG\tX\n"
    (example,), _ = absa.read(written(tmp_path, "gold-en-dev.txt", content))
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
        examples, flags = universal_ner.read(path)
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
    counts = [
        len(conll.read(folder / name, "en")[0])
        for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    ]
    assert counts == [3_394, 1_009, 1_287]
    with pytest.raises(InputError, match=r"emerging\.test\.conll:\d+: expected a tag .*,B-"):
        conll.read(folder / "emerging.test.conll", "en")
