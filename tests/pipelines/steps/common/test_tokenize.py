from __future__ import annotations

import threading
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.steps.clism.stop_words import is_punctuation, stop_words
from pipelines.steps.common import tokenize
from pipelines.steps.common.tokenize import check_tokenizer, token_texts, tokenizer_for, tokenizer_version
from schemas.errors import ConfigError
from schemas.languages import LANGUAGES
from schemas.spans import CharSpan

NTREX = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "bitext" / "ntrex128"
SPACY_LANGUAGES = [code for code, row in LANGUAGES.items() if row.tokenizer == "spacy"]
MOSES_LANGUAGES = [code for code, row in LANGUAGES.items() if row.tokenizer == "moses"]
REWORKED = {"ar", "bn", "hi", "ta", "te", "tr", "ur"}  # where our rules go beyond spaCy's

# What makes tokenizers stumble: joiners, marks, bidirectional controls, control characters, emoji sequences, markers
# that Sacremoses writes into its own text, lone surrogates, several kinds of white space.
ADVERSARIAL = [
    *"aZé9.,'’`\"-–()[]{}!?;:/@#%&$…।॥؟،؛۔。、「」¿¡|<>~^+*=_",
    *"\0\x07\x0b\x1b\x1c\x1f\x7f\x85\xad\xa0\u1680\u2028\u3000 \t\n",
    *"\u200b\u200c\u200d\u200e\u200f\u202b\u202c\u2060\ufeff\ufffd\ufe0f\u0301\u0323\u0302\u064b\u093f\u094d\u0e33",
    *"👩🏽🇻🇳❤💥\ud800\udfff\U0010ffff\U000e0101",
    *("DOTMULTI", "DOTDOTMULTI", "U.S.", "don't", "1,234.5", "https://a.b/c?d=e", "v.v.", "No.", "...", "EE. UU."),
]
LETTERS = {
    "Arab": "ابتةىیےکً٣ءـ",
    "Beng": "কখগািে্৩ৎ",
    "Cyrl": "абвЁщ",
    "Deva": "कखगाि्ं३ऽ",
    "Grek": "αβΓώς΄",
    "Hani": "中文科学㐀𠀀〇",
    "Jpan": "日本ひらカナーっ々ﾊﾟが",
    "Kore": "한국어가ㄱᄒ",
    "Latn": "abÇñßİğơữ",
    "Taml": "கஙசாி்",
    "Telu": "కఖగాి్",
    "Thai": "กขคเแำ่ๆฯ๓",
}
SAMPLES = {
    "ar": "ولدت آنا في هانوي، ثم عاشت في لندن؟",
    "hi": "आन्ना हनोई में रहती है।",
    "ja": "アンナはハノイに住んでいる。",
    "ko": "안나는 하노이에 산다.",
    "th": "แอนนาอาศัยอยู่ในฮานอย",
    "vi": "Anna sống ở Hà Nội.",
    "zh": "安娜住在河内(Hanoi)。",
}


def words(lang: str, text: str) -> list[str]:
    return token_texts(text, tokenizer_for(lang)(text))


def assert_tiles(text: str, spans: list[CharSpan]) -> None:
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(left.end <= right.start for left, right in pairwise(spans))
    assert not any(character.isspace() for span in spans for character in span.of(text))
    assert "".join(token_texts(text, spans)) == "".join(text.split())


def adversarial_text(lang: str) -> st.SearchStrategy[str]:
    pieces = [*ADVERSARIAL, *LETTERS[LANGUAGES[lang].script], SAMPLES.get(lang, "Anna lives in Hanoi.")]
    return st.lists(st.sampled_from(pieces), max_size=25).map("".join)


def ntrex_lines(lang: str, count: int = 300) -> list[str]:
    iso = {"zh": "zho-CN"}.get(lang, LANGUAGES[lang].iso639_3)
    paths = sorted(NTREX.glob(f"newstest2019-*.{iso}.txt"))
    if not paths:
        pytest.skip(f"no NTREX-128 text of {lang} in {NTREX}")
    return paths[0].read_text("utf-8").splitlines()[:count]


# --- What holds in every language -----------------------------------------------------------------


@pytest.mark.parametrize("lang", LANGUAGES)
def test_tokens_tile_any_text(lang: str) -> None:
    tokenizer = tokenizer_for(lang)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(st.one_of(adversarial_text(lang), st.text(max_size=30)))
    def check(text: str) -> None:
        spans = tokenizer(text)
        assert_tiles(text, spans)
        assert tokenizer(text) == spans

    check()


@pytest.mark.real_data
@pytest.mark.parametrize("lang", LANGUAGES)
def test_tokens_tile_real_lines(lang: str) -> None:
    tokenizer = tokenizer_for(lang)
    for line in ntrex_lines(lang):
        assert_tiles(line, tokenizer(line))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("text", ["", " ", "\t\n\u3000"])
def test_nothing_but_white_space_has_no_tokens(lang: str, text: str) -> None:
    assert tokenizer_for(lang)(text) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_mark_stays_with_its_letter_and_an_emoji_with_its_parts(lang: str) -> None:
    family = "👩\u200d👩\u200d👧"
    decomposed = "Vie\u0323\u0302t"
    assert words(lang, f"{decomposed} {family} ❤\ufe0f") == [decomposed, family, "❤\ufe0f"]


@pytest.mark.parametrize("lang", ["de", "ja", "th", "vi", "zh"])  # one of each tokenizer
@pytest.mark.parametrize("unit", ["(", "a", "กา", "の、", "... ", "x. ", "'", "\u0301", "\U00020000"])
def test_time_grows_with_length_and_not_with_its_square(lang: str, unit: str) -> None:
    text = (unit * 100_000)[:20_000]
    tokenizer = tokenizer_for(lang)
    started = time.perf_counter()
    spans = tokenizer(text)
    assert time.perf_counter() - started < 5
    assert_tiles(text, spans)


@pytest.mark.parametrize("lang", ["de", "ja"])
def test_threads_share_a_tokenizer(lang: str) -> None:
    tokenizer = tokenizer_for(lang)
    texts = [f"Wort{i} 東京{i}都 ({i}x)" for i in range(300)]
    expected = [tokenizer(text) for text in texts]
    tokenize.tokenizer_for.cache_clear()
    fresh = tokenizer_for(lang)
    results: list[list[list[CharSpan]]] = []
    threads = [threading.Thread(target=lambda: results.append([fresh(text) for text in texts])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_a_renewed_spacy_finds_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"({number}x) don't U.S.-based, café{number}." for number in range(50)]
    expected = [tokenizer_for("en")(text) for text in texts]
    monkeypatch.setattr(tokenize, "_SPACY_LIFETIME", 7)
    renewed = tokenizer_for.__wrapped__("en")
    assert [renewed(text) for text in texts] == expected


# --- The libraries as oracles ---------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.parametrize("lang", [lang for lang in SPACY_LANGUAGES if lang not in REWORKED])
def test_words_are_spacys(lang: str) -> None:
    spacy = pytest.importorskip("spacy")
    oracle = spacy.blank(lang).tokenizer
    for line in ntrex_lines(lang):
        if any(character in line for character in "\u200b\u200e\u200f"):
            continue
        # A token of spaCy's may hold a space ("EE. UU."); ours end there.
        expected = [piece for token in oracle(line) if not token.is_space for piece in token.text.split()]
        if any(" " in token.text for token in oracle(line)):
            assert "".join(words(lang, line)) == "".join(expected)
        else:
            assert words(lang, line) == expected


@pytest.mark.real_data
@pytest.mark.parametrize("lang", MOSES_LANGUAGES)
def test_words_are_sacremoses(lang: str) -> None:
    oracle = pytest.importorskip("sacremoses").MosesTokenizer(lang)
    for line in ntrex_lines(lang):
        composed = unicodedata.normalize("NFC", line)
        assert words(lang, composed) == oracle.tokenize(composed, escape=False)
        # Sacremoses itself cuts decomposed letters apart, and some real lines hold them.
        assert [unicodedata.normalize("NFC", word) for word in words(lang, line)] == words(lang, composed)


@pytest.mark.parametrize("lang", MOSES_LANGUAGES)
def test_words_are_sacremoses_on_mixed_punctuation(lang: str) -> None:
    oracle = pytest.importorskip("sacremoses").MosesTokenizer(lang)

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(st.text(alphabet="aB 9한ơ.,'`-–\"()?!&<|Mr", max_size=20))
    def check(text: str) -> None:
        assert words(lang, text) == oracle.tokenize(text, escape=False)

    check()


@pytest.mark.filterwarnings("ignore:Dictionary.create")  # spaCy calls it; SudachiPy has a newer name
@pytest.mark.real_data
def test_japanese_words_are_spacys() -> None:
    spacy = pytest.importorskip("spacy")
    oracle = spacy.blank("ja").tokenizer
    for line in ntrex_lines("ja"):
        if " " not in line and "\u3000" not in line:
            assert words("ja", line) == [token.text for token in oracle(line)]


@pytest.mark.real_data
def test_thai_words_are_newmms_within_thai() -> None:
    newmm = pytest.importorskip("pythainlp.tokenize.newmm")
    for line in ntrex_lines("th"):
        for chunk in line.split():
            if all("\u0e00" <= character <= "\u0e7f" for character in chunk):
                assert words("th", chunk) == newmm.segment(chunk)


# --- Boundaries, by example -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "lang, text, expected",
    [
        ("en", "Anna doesn't live in Hanoi.", "Anna|does|n't|live|in|Hanoi|."),
        ("fr", "L’école d'Anna", "L’|école|d'|Anna"),
        ("fr", "un cafe\u0301.", "un|cafe\u0301|."),  # decomposed
        ("es", "en EE. UU.", "en|EE|.|UU|."),
        ("ar", SAMPLES["ar"], "ولدت|آنا|في|هانوي|،|ثم|عاشت|في|لندن|؟"),
        ("ar", "قال «المدرّس.»", "قال|«|المدرّس|.|»"),  # spaCy alone keeps the full stop in the word
        ("ar", "د. محمد", "د.|محمد"),
        ("ar", "\u200fهانوي\u200f", "\u200f|هانوي|\u200f"),
        ("bn", 'ভয়াবহতা"কে', 'ভয়াবহতা|"|কে'),
        ("hi", "वह हनोई में रहती है।फिर", "वह|हनोई|में|रहती|है|।|फिर"),
        ("hi", "3.5 और 1,000", "3.5|और|1,000"),
        ("ur", "وہ لندن میں رہتی ہے۔", "وہ|لندن|میں|رہتی|ہے|۔"),
        ("tr", "Anna Hanoi'de yaşıyor.", "Anna|Hanoi|'de|yaşıyor|."),
        ("tr", "1975'te, 3. %2,8'i", "1975|'te|,|3.|%|2,8|'i"),
        ("ja", SAMPLES["ja"], "アンナ|は|ハノイ|に|住ん|で|いる|。"),
        ("th", "แอนนา (Anna) เกิด 12 ก.พ. 2019)", "แอน|นา|(|Anna|)|เกิด|12|ก.พ.|2019|)"),
        ("vi", "Anna sống ở Hà Nội.", "Anna|sống|ở|Hà|Nội|."),
        ("ko", "안나는 하노이에 산다.", "안나는|하노이에|산다|."),
        ("sw", "Anna anaishi Hanoi...", "Anna|anaishi|Hanoi|..."),
        ("vi", "a\0b DOTDOTMULTI c", "a|\0|b|DOTDOTMULTI|c"),  # Sacremoses drops the one and unfolds the other
        ("zh", SAMPLES["zh"], "安娜|住|在|河内|(|Hanoi|)|。"),
        ("zh", "英国首相访问威尔士。", "英国首相|访问|威尔士|。"),
        ("zh", "2019年增长3.5%", "2019|年|增长|3.5|%"),
    ],
)
def test_words(lang: str, text: str, expected: str) -> None:
    assert words(lang, text) == expected.split("|")


def test_spans_are_code_points_of_the_text() -> None:
    assert tokenizer_for("vi")("😀 Hà  Nội.") == [CharSpan(0, 1), CharSpan(2, 4), CharSpan(6, 9), CharSpan(9, 10)]


def test_an_overlong_word_is_cut_after_punctuation() -> None:
    text = "x" * 200 + "/" + "y" * 200
    assert token_texts(text, tokenizer_for("de")(text))[-1] == "y" * 200


# --- Configuration --------------------------------------------------------------------------------


def test_versions_name_every_library_that_decides() -> None:
    assert set(tokenizer_version("de")) == {"tokenizer", "spacy", "unicode"}
    assert set(tokenizer_version("ja")) == {"tokenizer", "sudachipy", "sudachidict_core", "unicode"}
    assert tokenizer_version("ja")["tokenizer"] == "sudachi:A, readings apart"
    assert tokenizer_version("vi")["tokenizer"] == "moses:vi"


def test_an_unknown_language_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'vi'"):
        check_tokenizer("vie")


def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "find_spec", lambda module: None)
    with pytest.raises(ConfigError, match="pip install sudachipy sudachidict_core"):
        check_tokenizer("ja")


# --- Words that say nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("lang, word", [("en", "the"), ("de", "und"), ("ar", "في"), ("vi", "bao giờ"), ("zh", "的")])
def test_stop_words(lang: str, word: str) -> None:
    assert word in stop_words(lang)


def test_stop_words_are_lower_cased_and_swahili_has_none() -> None:
    assert all(word == word.lower() for lang in LANGUAGES for word in stop_words(lang))
    assert stop_words("sw") == frozenset()


def test_stop_words_of_an_unknown_language_are_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'en'"):
        stop_words("eng")


@pytest.mark.parametrize("token", [".", "...", "”", "،", "।", "$", "+", "❤\ufe0f", "👩\u200d👧"])
def test_punctuation(token: str) -> None:
    assert is_punctuation(token)


@pytest.mark.parametrize("token", ["", "a", "$5", "U.S.", "हि", "\u093f", "中", "\0", "²"])
def test_no_punctuation(token: str) -> None:
    assert not is_punctuation(token)


def test_a_japanese_word_and_its_reading_are_two() -> None:
    assert words("ja", "寿司（すし）は")[:4] == ["寿司", "（", "すし", "）"]
