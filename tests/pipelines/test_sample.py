"""The demo corpus: clean wherever it is not deliberately bad, and its names recur in one form per language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from importlib.resources import files

import pytest

LANGS = ("en", "ar", "hi", "vi")
SAMPLE = files("pipelines") / "sample"

# English, Arabic, Hindi, Vietnamese: the string that every correct translation contains.
FORMS = {
    forms[0]: dict(zip(LANGS, forms, strict=True))
    for line in unicodedata.normalize(
        "NFC",
        """\
Hanoi | هانوي | हनोई | Hà Nội
Danang | دا نانغ | दानांग | Đà Nẵng
Hue | هوي | ह्वे | Huế
Saigon | سايغون | साइगॉन | Sài Gòn
Cairo | القاهرة | काहिरा | Cairo
Alexandria | الإسكندرية | अलेक्ज़ेंड्रिया | Alexandria
Aswan | أسوان | असवान | Aswan
Amman | عمّان | अम्मान | Amman
Beirut | بيروت | बेरूत | Beirut
Delhi | دلهي | दिल्ली | Delhi
Mumbai | مومباي | मुंबई | Mumbai
Jaipur | جايبور | जयपुर | Jaipur
Kolkata | كولكاتا | कोलकाता | Kolkata
Geneva | جنيف | जिनेवा | Geneva
Paris | باريس | पेरिस | Paris
London | لندن | लंदन | London
Tokyo | طوكيو | टोक्यो | Tokyo
Vietnam | فيتنام | वियतनाम | Việt Nam
Egypt | مصر | मिस्र | Ai Cập
India | الهند | भारत | Ấn Độ
Jordan | الأردن | जॉर्डन | Jordan
Lebanon | لبنان | लेबनान | Liban
Switzerland | سويسرا | स्विट्ज़रलैंड | Thụy Sĩ
France | فرنسا | फ़्रांस | Pháp
Japan | اليابان | जापान | Nhật Bản
Mekong | ميكونغ | मेकांग | Mê Kông
Nile | النيل | नील | Nile
Ganges | الغانج | गंगा | sông Hằng
Red Sea | البحر الأحمر | लाल सागर | Biển Đỏ
Himalayas | الهيمالايا | हिमालय | Himalaya
Mekong University | جامعة ميكونغ | मेकांग विश्वविद्यालय | Đại học Mê Kông
Nile Bank | بنك النيل | नील बैंक | Ngân hàng Nile
Red Sea Museum | متحف البحر الأحمر | लाल सागर संग्रहालय | Bảo tàng Biển Đỏ
Ganges Hospital | مستشفى الغانج | गंगा अस्पताल | Bệnh viện Sông Hằng
Himalaya Institute | معهد الهيمالايا | हिमालय संस्थान | Viện Himalaya
Lotus Airlines | طيران لوتس | लोटस एयरलाइंस | Lotus Airlines
Delta Telecom | دلتا تليكوم | डेल्टा टेलीकॉम | Delta Telecom
Cedar Foundation | مؤسسة الأرز | सीडर फ़ाउंडेशन | Quỹ Cedar
Jasmine Club | نادي الياسمين | जैस्मिन क्लब | Câu lạc bộ Jasmine
Asia Cup | كأس آسيا | एशिया कप | Cúp châu Á
United Nations | الأمم المتحدة | संयुक्त राष्ट्र | Liên Hợp Quốc
Linh Tran | لينه تران | लिन्ह ट्रान | Trần Linh
Minh Pham | مينه فام | मिन्ह फाम | Phạm Minh
Lan Nguyen | لان نغوين | लान गुयेन | Nguyễn Lan
Quang Dang | كوانغ دانغ | क्वांग डांग | Đặng Quang
Omar Haddad | عمر حداد | उमर हद्दाद | Omar Haddad
Sara Mansour | سارة منصور | सारा मंसूर | Sara Mansour
Youssef Nasser | يوسف ناصر | यूसुफ़ नासेर | Youssef Nasser
Layla Khoury | ليلى خوري | लैला ख़ूरी | Layla Khoury
Karim Saleh | كريم صالح | करीम सालेह | Karim Saleh
Priya Sharma | بريا شارما | प्रिया शर्मा | Priya Sharma
Anita Rao | أنيتا راو | अनीता राव | Anita Rao
Rohan Mehta | روهان ميهتا | रोहन मेहता | Rohan Mehta
Vikram Gupta | فيكرام غوبتا | विक्रम गुप्ता | Vikram Gupta
Maria Weber | ماريا فيبر | मारिया वेबर | Maria Weber
Lucas Girard | لوكاس جيرار | लुकास जिरार | Lucas Girard
Yuki Tanaka | يوكي تاناكا | युकी तनाका | Yuki Tanaka
""",
    ).splitlines()
    for forms in [line.split(" | ")]
}
# Longest first, so that "Nile Bank" is not also read as "Nile".
NAME_PATTERN = re.compile(r"\b(?:" + "|".join(sorted(FORMS, key=len, reverse=True)) + r")\b")

# (line of the file, language) -> what is wrong there on purpose.
DELIBERATE = {
    (123, "hi"): "empty",
    (169, "ar"): "copy",
    (184, "hi"): "length",
    (218, "en"): "duplicate",
    (241, "vi"): "copy",
    (271, "vi"): "length",
}


def read_rows() -> list[dict[str, str]]:
    lines = (SAMPLE / "sample.tsv").read_bytes().decode("utf-8").split("\n")
    assert lines[0].split("\t") == list(LANGS)
    assert lines.pop() == "", "the file ends with one line feed"
    return [dict(zip(LANGS, line.split("\t"), strict=True)) for line in lines[1:]]


ROWS = dict(enumerate(read_rows(), start=2))  # keyed by the 1-based line of the file
EN_HAS = {line: NAME_PATTERN.findall(row["en"]) for line, row in ROWS.items()}


def good_cells(lang: str) -> list[tuple[int, str, str]]:
    """(line, English, translation) wherever the translation is meant to be right."""
    return [(line, row["en"], row[lang]) for line, row in ROWS.items() if (line, lang) not in DELIBERATE]


def defects() -> dict[tuple[int, str], str]:
    found: dict[tuple[int, str], str] = {}
    seen: set[tuple[str, ...]] = set()
    for line, row in ROWS.items():
        if tuple(row.values()) in seen:
            found[line, "en"] = "duplicate"
        seen.add(tuple(row.values()))
        for lang in LANGS[1:]:
            ratio = len(row[lang]) / len(row["en"])
            if not row[lang]:
                found[line, lang] = "empty"
            elif row[lang] == row["en"]:
                found[line, lang] = "copy"
            elif not 0.4 < ratio < 2.5:
                found[line, lang] = "length"
    return found


def test_bad_cells_are_exactly_the_deliberate_ones_and_the_readme_lists_their_lines() -> None:
    assert len(ROWS) == 300
    assert defects() == DELIBERATE
    readme = (SAMPLE / "README.md").read_text("utf-8")
    assert {line for line, _ in DELIBERATE} <= {int(number) for number in re.findall(r"\d+", readme)}


def test_cells_are_normalised_and_free_of_stray_space() -> None:
    for row in ROWS.values():
        for text in row.values():
            assert unicodedata.is_normalized("NFC", text)
            assert text == " ".join(text.split())


@pytest.mark.parametrize("lang", LANGS[1:])
def test_translation_contains_the_one_form_of_every_name(lang: str) -> None:
    for line, _, translation in good_cells(lang):
        for name in EN_HAS[line]:
            form = FORMS[name][lang]
            # Arabic li- merges with the article: القاهرة but للقاهرة.
            forms = (form, "لل" + form[2:]) if form.startswith("ال") else (form,)
            assert any(form in translation for form in forms), f"line {line}: {name}: {translation}"


def test_every_name_stands_in_at_least_four_sentences() -> None:
    sentences = Counter(name for line in EN_HAS if (line, "en") not in DELIBERATE for name in set(EN_HAS[line]))
    assert min(sentences[name] for name in FORMS) >= 4


@pytest.mark.parametrize("lang", LANGS[1:])
def test_translation_keeps_the_digits_of_numbers(lang: str) -> None:
    """Except of 1 and 2 (often the Arabic dual) and of millions (lakh and crore in Hindi)."""

    def numbers(text: str) -> Counter[str]:
        return Counter(re.findall(r"\d+", re.sub(r"(?<=\d)[.,](?=\d{3})", "", text)))

    for line, english, translation in good_cells(lang):
        wanted = numbers(re.sub(r"\d+ million", "", english))
        del wanted["1"], wanted["2"]
        assert wanted <= numbers(translation), f"line {line}: {translation}"


@pytest.mark.parametrize(("lang", "foreign"), [("ar", r"[A-Za-z,?;]|[٠-٩]"), ("hi", r"[A-Za-z]|\.$|[०-९]")])
def test_cells_keep_to_their_script_and_punctuation(lang: str, foreign: str) -> None:
    for line, _, translation in good_cells(lang):
        text = re.sub(r"(?<=\d),(?=\d)", "", translation)
        assert not re.search(foreign, text), f"line {line}: {translation}"
