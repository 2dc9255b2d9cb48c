"""Translation memories: which text of a `<tu>` is read, and what is not safe to read."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from pathlib import Path

import pytest

from pipelines.steps.bitext.tmx import MAX_DEPTH, MAX_MARKUP_BYTES, read_units
from pipelines.steps.common.files import MAX_LINE_BYTES, BadText, FileDigest
from schemas.errors import InputError
from schemas.languages import LanguagePair
from schemas.rejects import MAX_EXCERPT_CHARS

EN_VI = LanguagePair("en", "vi")


def tuv(lang: str, seg: str, attribute: str = "xml:lang") -> str:
    return f'<tuv {attribute}="{lang}"><prop type="note">not text</prop><seg>{seg}</seg></tuv>'


def tmx(*units: str, doctype: str = "", declaration: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    body = "\n".join(f"<tu><note>not text</note>\n{unit}</tu>" for unit in units)
    return f'{declaration}\n{doctype}\n<tmx version="1.4"><header srclang="en"/><body>\n{body}\n</body></tmx>\n'


def read(tmp_path: Path, content: str | bytes, pair: LanguagePair = EN_VI) -> list:
    path = tmp_path / "memory.tmx"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_units(str(path), pair))


def test_units_in_the_order_of_the_file_whichever_language_comes_first(tmp_path):
    content = tmx(tuv("en", "one") + tuv("vi", "một"), tuv("vi", "hai") + tuv("de", "zwei") + tuv("en", "two"))
    assert read(tmp_path, content) == [("one", "một"), ("two", "hai")]
    assert read(tmp_path, content, LanguagePair("vi", "en")) == [("một", "one"), ("hai", "two")]


def test_unit_without_one_of_the_languages_lacks_that_side(tmp_path):
    content = tmx(tuv("en", "one"), tuv("vi", "hai") + tuv("de", "zwei"), "", tuv("en", "four") + tuv("vi", ""))
    assert read(tmp_path, content) == [("one", None), (None, "hai"), (None, None), ("four", "")]


@pytest.mark.parametrize(
    "pair, languages, expected",
    [
        ("en es", ["en-US", "es-419"], ("0", "1")),
        ("en es", ["EN_us", "ES"], ("0", "1")),
        ("en es-419", ["en", "es"], ("0", "1")),
        ("en es", ["en-GB", "es-ES", "en", "es"], ("2", "3")),  # the equal tag wins, wherever it stands
        ("en es", ["en-GB", "en-US", "es-ES", "es-MX"], ("0", "2")),  # else the first
        ("en zh-TW", ["en", "zh-CN", "zh-TW"], ("0", "2")),
        ("zh-CN zh-TW", ["zh", "zh-TW", "zh-cn"], ("2", "1")),
    ],
)
def test_languages_are_found_by_their_codes(tmp_path, pair, languages, expected):
    content = tmx("".join(tuv(language, str(number)) for number, language in enumerate(languages)))
    assert read(tmp_path, content, LanguagePair(*pair.split())) == [expected]


@pytest.mark.parametrize(
    "pair, languages",
    [("en zh-TW", "en zh-CN"), ("en fi", "en fil"), ("pt-BR pt-PT", "pt-BR pt")],
)
def test_another_language_is_not_mistaken_for_the_wanted_one(tmp_path, pair, languages):
    content = tmx("".join(tuv(language, language) for language in languages.split()))
    with pytest.raises(InputError, match="none of its 1 <tu> has both"):
        read(tmp_path, content, LanguagePair(*pair.split()))


def test_old_lang_attribute(tmp_path):
    assert read(tmp_path, tmx(tuv("en", "one", "lang") + tuv("vi", "một", "lang"))) == [("one", "một")]


@pytest.mark.parametrize(
    "seg, text",
    [
        ("Press <bpt i='1'>&lt;b&gt;</bpt>Start<ept i='1'>&lt;/b&gt;</ept> now", "Press Start now"),
        ("a<ph>{0}</ph>b<it pos='begin'>&lt;i&gt;</it>c<ut>code</ut>d", "abcd"),
        ("a<ph>x<sub>a title</sub>y</ph>b", "ab"),
        ("Visit <hi type='b'>Hà <hi>Nội</hi></hi>!", "Visit Hà Nội!"),
        ("<hi>a<ph>x</ph>b</hi>c", "abc"),
        ("AT&amp;T &lt; &#x1F600; &#233;", "AT&T < 😀 é"),
        ("<![CDATA[<b> & ]]>x<!-- no --><?no no?>y", "<b> & xy"),
        ("  two\nlines\t ", "  two\nlines\t "),
        ("", ""),
    ],
)
def test_text_of_a_segment_is_what_a_reader_sees(tmp_path, seg, text):
    assert read(tmp_path, tmx(tuv("en", seg) + tuv("vi", "x"))) == [(text, "x")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1", "windows-1258"])
def test_encodings_that_the_file_declares(tmp_path, encoding):
    declared = {"utf-8-sig": "UTF-8", "utf-16-le": "UTF-16"}.get(encoding, encoding)
    declaration = f'<?xml version="1.0" encoding="{declared}"?>'
    content = tmx(tuv("en", "café") + tuv("vi", "à la"), declaration=declaration).encode(encoding)
    if encoding == "utf-16-le":
        content = b"\xff\xfe" + content
    assert read(tmp_path, content) == [("café", "à la")]


@pytest.mark.parametrize("encoding", ["shift_jis", "klingon"])
def test_encoding_that_cannot_be_read_is_refused(tmp_path, encoding):
    content = tmx(tuv("en", "x") + tuv("vi", "y"), declaration=f'<?xml version="1.0" encoding="{encoding}"?>')
    with pytest.raises(InputError, match=r"memory\.tmx, line 1: .*UTF-8"):
        read(tmp_path, content)


def test_chunks_may_end_anywhere(tmp_path, monkeypatch):
    content = tmx(tuv("en", "a&amp;ở<ph>x</ph>b") + tuv("vi", "Hà Nội"))
    monkeypatch.setattr("pipelines.steps.common.files.CHUNK_BYTES", 1)
    assert read(tmp_path, content) == [("a&ởb", "Hà Nội")]


def test_compressed_memory_is_read_to_its_end_and_digested(tmp_path):
    path = tmp_path / "memory.tmx.gz"
    path.write_bytes(gzip.compress(tmx(tuv("en", "one") + tuv("vi", "một")).encode()))
    digests: list[FileDigest] = []
    assert list(read_units(str(path), EN_VI, digests)) == [("one", "một")]
    assert [digest.size_bytes for digest in digests] == [path.stat().st_size]


def test_memory_without_units_is_refused(tmp_path):
    with pytest.raises(InputError, match="no <tu>"):
        read(tmp_path, tmx())


def test_memory_in_other_languages_is_refused_with_those_that_it_has(tmp_path):
    with pytest.raises(InputError, match=r"none of its 2 <tu> has both en and vi. Languages found: de, en, fr"):
        read(tmp_path, tmx(tuv("en", "one") + tuv("de", "eins"), tuv("fr", "deux")))


@pytest.mark.parametrize(
    "content, message",
    [
        ("<tmx>\n<body>\n<tu></body></tmx>", "line 3: not well-formed XML .mismatched tag"),
        ("<tmx>\n<body>\n<tu><tuv", "line 3: not well-formed"),
        ("<tmx><body>\n", "line 2: not well-formed XML .no element found"),
        (tmx(tuv("en", "a\0b")), "line 5: not well-formed"),
        (tmx(tuv("en", "x")).encode() + b"<tmx/>", "line 7: not well-formed XML .junk after document element"),
        (tmx(tuv("en", "caf\xe9")).encode("latin-1"), "line 5: not well-formed"),
        ("<html>\n<body>Moved</body></html>", "expected the root element <tmx>, found <html>"),
        ("not found", "line 1: not well-formed"),
    ],
)
def test_what_is_not_tmx_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(InputError, match=rf"memory\.tmx, {message}" if message.startswith("line") else message):
        read(tmp_path, content)


UNSAFE = {
    "billion laughs": '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
    "external entity": '<!DOCTYPE tmx [<!ENTITY b SYSTEM "file://{secret}">]>',
    "parameter entity": '<!DOCTYPE tmx [<!ENTITY % b SYSTEM "file://{secret}"> %b;]>',
    "external subset": '<!DOCTYPE tmx SYSTEM "file://{secret}">',
    "remote subset": '<!DOCTYPE tmx SYSTEM "http://localhost:9/evil.dtd">',
    "public subset": '<!DOCTYPE tmx PUBLIC "-//X//Y//EN" "{secret}">',
    "subset beside the known one": '<!DOCTYPE tmx SYSTEM "tmx14.dtd" [<!ENTITY b "x">]>',
    "empty subset": "<!DOCTYPE tmx []>",
    "no name": "<!DOCTYPE tmx>",
}

_opened: list[str] | None = None


def _note_opened(event: str, arguments: tuple) -> None:
    if _opened is not None and (event == "open" or event.startswith(("socket.", "urllib.", "os.open"))):
        _opened.append(f"{event} {arguments[0]}")


sys.addaudithook(_note_opened)


@pytest.mark.parametrize("kind", UNSAFE)
def test_document_type_that_may_declare_entities_is_refused_and_nothing_is_opened(tmp_path, kind):
    global _opened
    secret = tmp_path / "secret.dtd"
    secret.write_text('<!ENTITY b "secret">')
    content = tmx(tuv("en", "&b;") + tuv("vi", "x"), doctype=UNSAFE[kind].replace("{secret}", str(secret)))
    path = tmp_path / "memory.tmx"
    path.write_text(content)
    _opened = []
    try:
        with pytest.raises(InputError, match=r"line \d+: a document type .* remove it"):
            list(read_units(str(path), EN_VI))
        assert _opened == [f"open {path}"]
    finally:
        _opened = None


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx SYSTEM "tmx11.dtd">',
        '<!DOCTYPE tmx SYSTEM "http://www.lisa.org/tmx/tmx14.dtd">',
        r"<!DOCTYPE tmx SYSTEM 'C:\dtd\TMX.DTD'>",
        '<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for Translation Memory eXchange//EN" "tmx14.dtd" >',
    ],
)
def test_tmx_document_type_is_skipped_and_never_loaded(tmp_path, doctype):
    global _opened
    for name in ("tmx11.dtd", "tmx14.dtd"):
        (tmp_path / name).write_text('<!ENTITY b "loaded">')
    path = tmp_path / "memory.tmx"
    path.write_text(tmx(tuv("en", "one") + tuv("vi", "một"), doctype=doctype))
    _opened = []
    try:
        assert list(read_units(str(path), EN_VI)) == [("one", "một")]
        assert _opened == [f"open {path}"]
    finally:
        _opened = None
    path.write_text(tmx(tuv("en", "a&b;c") + tuv("vi", "x"), doctype=doctype))
    with pytest.raises(InputError, match="the entity &b; is not defined"):
        list(read_units(str(path), EN_VI))


def test_long_segment_is_bad_and_only_that_side(tmp_path):
    text = "ở" * (MAX_LINE_BYTES // 3)
    content = tmx(tuv("en", f"{text}x") + tuv("vi", "x"), tuv("en", f"{text}yyy") + tuv("vi", "y"))
    assert read(tmp_path, content) == [(f"{text}x", "x"), (BadText("line_too_long", "ở" * MAX_EXCERPT_CHARS), "y")]


@pytest.mark.parametrize("kind", ["units", "segment", "entities"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    unit = f"<tu>{tuv('en', 'x' * 2000)}{tuv('vi', 'y' * 2000)}</tu>\n"
    middle = {"units": unit * 5000, "segment": "x" * 20_000_000, "entities": "&amp;" * 4_000_000}[kind]
    if kind != "units":
        middle = f"<tu>{tuv('en', middle)}{tuv('vi', 'y')}</tu>"
    path = tmp_path / "memory.tmx"
    path.write_text(f"<tmx><body>{middle}</body></tmx>")
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        units = sum(1 for _ in read_units(str(path), EN_VI))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert units == (5000 if kind == "units" else 1)
    assert peak < 8_000_000


@pytest.mark.parametrize("inside", ["<body>", "<body><tu><tuv xml:lang='en'><seg>"])
def test_elements_too_deep_inside_each_other_are_refused(tmp_path, inside):
    with pytest.raises(InputError, match=f"more than {MAX_DEPTH} elements"):
        read(tmp_path, "<tmx>" + inside + "<hi>" * 1_000_000)


@pytest.mark.parametrize("markup", ["<!-- ", "<header o-tmf='", "<?x ", "<tu"])
def test_endless_markup_is_refused_before_the_file_ends(tmp_path, markup):
    with pytest.raises(InputError, match=f"a tag or comment of more than {MAX_MARKUP_BYTES} bytes"):
        read(tmp_path, "<tmx>" + markup + "x" * (2 * MAX_MARKUP_BYTES))
