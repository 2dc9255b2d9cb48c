"""`--bitext` from the argument to the sentence pair, in every form that it takes."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from pipelines.steps.bitext.formats import BitextFile
from pipelines.steps.bitext.readers import excerpt, expand_bitext, read_bitext
from pipelines.steps.common.files import MAX_LINE_BYTES, FileDigest
from pipelines.steps.common.sentence_pairs import SentencePair, record_id
from schemas.errors import ConfigError, InputError
from schemas.languages import LanguagePair
from schemas.rejects import MAX_EXCERPT_CHARS, Reject

EN_VI, EN_HI = LanguagePair("en", "vi"), LanguagePair("en", "hi")
COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXTS = [("Anna lives in Hanoi.", "Anna sống ở Hà Nội."), ("  Yes. ", " Vâng.  "), ("Two.", "Hai.")]
TMX = "".join(
    f'<tu><tuv xml:lang="vi"><seg>{target}</seg></tuv><tuv xml:lang="en-GB"><seg>{source}</seg></tuv></tu>\n'
    for source, target in TEXTS
)
CONTENT = {
    "c.en": "".join(f"{source}\n" for source, _ in TEXTS),
    "c.vi": "".join(f"{target}\r\n" for _, target in TEXTS),
    "c.tmx": f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>{TMX}</body></tmx>',
    "codes.tsv": "vi\tscore\ten\n" + "".join(f"{target}\t0.5\t{source}\n" for source, target in TEXTS),
    "names.tsv": "\ufeffenglish\tvietnamese\n" + "".join(f"{source}\t{target}\n" for source, target in TEXTS),
    "rows.tsv": "".join(f"id\t{source}\t{target}\tmore\n" for source, target in TEXTS),
}
FORMS = {  # spec, with Z for the compression → line of the first record
    "c.enZ,c.viZ": 1,
    "c.tmxZ": 1,
    "codes.tsvZ": 2,
    "names.tsvZ@english,vietnamese": 2,
    "rows.tsvZ@2,3": 1,
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str | bytes) -> None:
    """`a__en="x"` writes x into a.en, `d_a__en` into d/a.en."""
    for name, content in files.items():
        path = Path(name.replace("__", ".").replace("_", "/"))
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def records(spec: str, pair: LanguagePair = EN_VI) -> list[SentencePair | Reject]:
    return [record for file in expand_bitext([spec], [pair]) for record in read_bitext(file)]


def texts(spec: str, pair: LanguagePair = EN_VI) -> list[tuple[str, str]]:
    found = records(spec, pair)
    assert all(isinstance(record, SentencePair) for record in found)
    return [(record.source_text, record.target_text) for record in found]


def names(specs: list[str], pairs: list[LanguagePair]) -> list[tuple[str, str, str]]:
    return [(str(file.pair), file.source_path, file.target_path) for file in expand_bitext(specs, pairs)]


# --- Reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_in_every_compression_gives_the_same_pairs(form, suffix):
    for name, content in CONTENT.items():
        Path(name + suffix).write_bytes(COMPRESS[suffix](content.encode()))
    [file] = expand_bitext([form.replace("Z", suffix)], [EN_VI])
    digests: list[FileDigest] = []
    found = list(read_bitext(file, digests))
    assert [(record.source_text, record.target_text) for record in found] == TEXTS
    assert file.corpus == form.replace("Z", "").split(",")[0].split("@")[0]
    for line, record in enumerate(found, FORMS[form]):
        assert (record.id, record.line) == (record_id(EN_VI, file.corpus, line), line)
        assert (record.languages, record.corpus) == (EN_VI, file.corpus)
    paths = dict.fromkeys([file.source_path, file.target_path])
    stored = [(path, Path(path).read_bytes()) for path in paths]
    assert digests == [FileDigest(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in stored]


def test_sides_may_be_compressed_differently():
    write(c__en=CONTENT["c.en"], c__vi__xz=lzma.compress(CONTENT["c.vi"].encode()))
    assert texts("c.en,c.vi.xz") == TEXTS


def test_the_other_direction_swaps_the_sides():
    write(c__tmx=CONTENT["c.tmx"], c__tsv=CONTENT["codes.tsv"])
    swapped = [(target, source) for source, target in TEXTS]
    assert texts("c.tmx", LanguagePair("vi", "en")) == swapped
    assert texts("c.tsv", LanguagePair("vi", "en")) == swapped


def test_characters_that_other_tools_take_for_line_ends_do_not_tear_pairs():
    write(c__en="a\u2028b\nc\rd\n", c__vi="x\u0085y\nz\n")
    assert texts("c.en,c.vi") == [("a\u2028b", "x\u0085y"), ("c\rd", "z")]


def test_blank_sides_are_pairs():
    write(c__en="\none\n\n", c__vi="\n\nhai\n", c__tsv="\tx\n\t\n")
    assert texts("c.en,c.vi") == [("", ""), ("one", ""), ("", "hai")]
    assert texts("c.tsv@1,2") == [("", "x"), ("", "")]


def test_tsv_knows_no_quotes():
    write(c__tsv='en\tvi\n"a\t"b\n"c"\td""\n')
    assert texts("c.tsv") == [('"a', '"b'), ('"c"', 'd""')]


@pytest.mark.parametrize(
    "english, vietnamese, reason, shown",
    [
        (b"caf\xe9", b"x", "invalid_utf8", "caf\ufffd ||| x"),
        (b"ok", b"caf\xe9", "invalid_utf8", "ok ||| caf\ufffd"),
        (b"ok", b"a\0b", "nul_character", "ok ||| a\0b"),
        (b"caf\xe9", b"a\0b", "invalid_utf8", "caf\ufffd ||| a\0b"),  # the source side's comes first
        (b"ok", b"x" * (MAX_LINE_BYTES + 1), "line_too_long", "ok ||| " + "x" * 196 + "…"),
    ],
)
def test_bad_line_rejects_its_pair_and_no_other(english, vietnamese, reason, shown):
    write(c__en=b"one\n" + english + b"\nthree\n", c__vi=b"m\n" + vietnamese + b"\nb\n")
    first, reject, last = records("c.en,c.vi")
    assert reject == Reject(reason, "pair", record_id(EN_VI, "c.en", 2), "en-vi", "c.en", 2, shown)
    assert (first.source_text, last.source_text, last.line) == ("one", "three", 3)


@pytest.mark.parametrize(
    "row, reason, shown",
    [
        (b"only", "missing_side", "only ||| "),
        (b"", "missing_side", " ||| "),
        (b"one\tm\xff\tt", "invalid_utf8", "one ||| m\ufffd"),
        (b"one\xff", "invalid_utf8", "one\ufffd ||| "),
        (b"one\tm\t\0", "nul_character", "one ||| m"),
    ],
)
def test_bad_row_is_a_reject(row, reason, shown):
    write(c__tsv=b"en\tvi\na\tb\n" + row + b"\nc\td\n")
    first, reject, last = records("c.tsv")
    assert reject == Reject(reason, "pair", record_id(EN_VI, "c.tsv", 3), "en-vi", "c.tsv", 3, shown)
    assert (first.line, last.line, last.target_text) == (2, 4, "d")


def test_unit_without_one_of_the_languages_is_a_reject():
    write(c__tmx=CONTENT["c.tmx"].replace("<body>", '<body><tu><tuv xml:lang="en"><seg>alone</seg></tuv></tu>'))
    reject, first, *_ = records("c.tmx")
    assert reject == Reject("missing_side", "pair", record_id(EN_VI, "c.tmx", 1), "en-vi", "c.tmx", 1, "alone ||| ")
    assert (first.line, first.source_text) == (2, TEXTS[0][0])


@pytest.mark.parametrize("source, target", [("", ""), ("x" * 999, ""), ("x" * 999, "ở" * 999), ("a", "ở" * 197)])
def test_excerpt_shows_both_sides_within_its_bound(source, target):
    shown = excerpt(source, target)
    left, right = shown.split(" ||| ")
    assert len(shown) <= MAX_EXCERPT_CHARS
    for side, text in ((left, source), (right, target)):
        assert side == text or (side.endswith("…") and text.startswith(side[:-1]) and len(side) > 100)


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("english, vietnamese", [(3, 5), (5, 3), (1, 4000)])
def test_unequal_line_counts_are_an_error_that_counts_both(english, vietnamese, suffix):
    Path(f"c.en{suffix}").write_bytes(COMPRESS[suffix](b"x\n" * english))
    Path(f"c.vi{suffix}").write_bytes(COMPRESS[suffix](b"y\n" * vietnamese))
    [file] = expand_bitext([f"c.en{suffix},c.vi{suffix}"], [EN_VI])
    message = rf"c\.en\S* has {english} lines and c\.vi\S* has {vietnamese}; .* nothing is written.* \| wc -l"
    with pytest.raises(InputError, match=message):
        list(read_bitext(file))


def test_file_cut_short_after_the_start_is_an_error_while_reading():
    lines = os.urandom(1_000_000).hex().encode()
    write(c__en__gz=gzip.compress(b"\n".join([lines] * 3))[:-100], c__vi="x\n" * 3)
    [file] = expand_bitext(["c.en.gz,c.vi"], [EN_VI])
    with pytest.raises(InputError, match=r"c\.en\.gz: .* cut short"):
        list(read_bitext(file))


@pytest.mark.parametrize(
    "files, spec",
    [
        ({"c__en__gz": gzip.compress(b""), "c__vi__gz": gzip.compress(b"")}, "c.en.gz,c.vi.gz"),
        ({"c__tsv": "en\tvi\n"}, "c.tsv"),
        ({"c__tsv__gz": gzip.compress(b"")}, "c.tsv.gz@1,2"),
        ({"c__tmx": "<tmx><body></body></tmx>"}, "c.tmx"),
    ],
)
def test_file_without_a_record_is_an_error(files, spec):
    write(**files)
    with pytest.raises(InputError, match=r"no line|no row|no <tu>"):
        records(spec)


# --- From --bitext to files ----------------------------------------------------------------------------------------


def test_stars_on_both_sides_match_the_same():
    write(**{f"news-{year}__{lang}": "x\n" for year in (10, 9, 11) for lang in ("en", "vi")}, **{"other__en": "x\n"})
    assert names(["news-*.en,news-*.vi"], [EN_VI]) == [
        ("en-vi", f"news-{year}.en", f"news-{year}.vi") for year in ("10", "11", "9")
    ]
    assert names(["news-?.en,news-?.vi"], [EN_VI]) == [("en-vi", "news-9.en", "news-9.vi")]
    assert names(["news-1[!0].en,news-1[!0].vi"], [EN_VI]) == [("en-vi", "news-11.en", "news-11.vi")]


def test_stars_in_folders(folder):
    write(a_en_x__txt="x\n", a_vi_x__txt="x\n", b_en_x__txt="x\n", b_vi_x__txt="x\n", b_en_deep_x__txt="x\n")
    found = [("en-vi", f"{name}/en/x.txt", f"{name}/vi/x.txt") for name in "ab"]
    assert names(["*/en/*.txt,*/vi/*.txt"], [EN_VI]) == found
    absolute = [(pair, f"{folder}/{source}", f"{folder}/{target}") for pair, source, target in found]
    assert names([f"{folder}//*/en/*.txt,{folder}/*/vi/*.txt"], [EN_VI]) == absolute
    dotted = [(pair, f"./{source}", f"./{target}") for pair, source, target in found]
    assert names(["./*/en/*.txt,./*/vi/*.txt"], [EN_VI]) == dotted


def test_name_with_a_wildcard_character_in_it_is_found():
    write(**{"a[1]__en": "x\n", "a[1]__vi": "x\n"})
    assert names(["a[1].en,a[1].vi"], [EN_VI]) == [("en-vi", "a[1].en", "a[1].vi")]


def test_stars_serve_for_single_files_too():
    write(a__tmx=CONTENT["c.tmx"], b__tmx=CONTENT["c.tmx"], a__tsv="x\ty\n", b__tsv="x\ty\n")
    assert [file.source_path for file in expand_bitext(["*.tmx", "*.tsv@1,2"], [EN_VI])] == [
        *("a.tmx", "b.tmx"),
        *("a.tsv", "b.tsv"),
    ]


def test_home_folder_is_expanded_on_both_sides(folder, monkeypatch):
    write(c__en="x\n", c__vi="x\n")
    monkeypatch.setenv("HOME", str(folder))
    assert names(["~/c.en,~/c.vi"], [EN_VI]) == [("en-vi", f"{folder}/c.en", f"{folder}/c.vi")]


def test_placeholders_are_filled_for_every_pair():
    write(**{f"en-{lang}_c__{side}": "x\n" for lang in ("vi", "hi") for side in ("en", lang)})
    assert names(["{pair}/c.{source},{pair}/c.{target}"], [EN_VI, EN_HI]) == [
        ("en-vi", "en-vi/c.en", "en-vi/c.vi"),
        ("en-hi", "en-hi/c.en", "en-hi/c.hi"),
    ]


def test_placeholders_name_columns_too():
    write(c__tsv="l_en\tl_hi\tl_vi\n1\t2\t3\n")
    files = expand_bitext(["c.tsv@l_{source},l_{target}"], [EN_VI, EN_HI])
    assert [next(read_bitext(file)).target_text for file in files] == ["3", "2"]


def test_prefix_restricts_a_spec_to_its_pair():
    es_419 = LanguagePair("en", "es-419")
    write(a__en="x\n", a__vi="x\n", b__en="x\n", b__es="x\n", **{"p=q-r_c__en": "x\n", "p=q-r_c__vi": "x\n"})
    specs = ["en-vi=a.en,a.vi", "en-es-419=b.en,b.es", "en-vi=p=q-r/c.en,p=q-r/c.vi"]
    assert names(specs, [EN_VI, es_419]) == [
        ("en-vi", "a.en", "a.vi"),
        ("en-vi", "p=q-r/c.en", "p=q-r/c.vi"),
        ("en-es-419", "b.en", "b.es"),
    ]


def test_memory_and_tsv_with_codes_serve_every_pair():
    more = '<tuv xml:lang="hi"><seg>x</seg></tuv></tu>'
    write(c__tmx=CONTENT["c.tmx"].replace("</tu>", more), c__tsv="hi\ten\tvi\na\tb\tc\n")
    assert names(["c.tmx", "c.tsv"], [EN_VI, EN_HI]) == [
        (pair, path, path) for pair in ("en-vi", "en-hi") for path in ("c.tmx", "c.tsv")
    ]


@pytest.mark.parametrize(
    "specs, expected",
    [
        (["a/2023/news.en,a/2023/news.vi"], ["news.en"]),
        (["a/*/news.en,a/*/news.vi"], ["2023/news.en", "2024/news.en"]),
        (["a/2023/news.en,a/2023/news.vi", "b/2023/news.en.gz,b/2023/news.vi"], ["a/2023/news.en", "b/2023/news.en"]),
        (["a/2023/news.en,a/2023/news.vi", "en-hi=b/2023/news.en.gz,b/2023/news.vi"], ["news.en", "news.en"]),
        (
            ["a/2023/news.en,a/2023/news.vi", "a/2023/news.en,a/2024/news.vi"],
            ["news.en+2023/news.vi", "news.en+2024/news.vi"],
        ),
        (["t.tsv@1,2", "t.tsv@1,3"], ["t.tsv@1,2", "t.tsv@1,3"]),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_corpus_names_are_short_and_distinct_and_the_same_from_anywhere(folder, specs, expected, absolute):
    write(**{f"a_{year}_news__{lang}": "x\n" for year in (2023, 2024) for lang in ("en", "vi")})
    write(b_2023_news__en__gz=gzip.compress(b"x\n"), b_2023_news__vi="x\n", t__tsv="x\ty\tz\n")
    pairs = [EN_VI, EN_HI] if any("en-hi=" in spec for spec in specs) else [EN_VI]
    specs = [spec if "=" in spec or len(pairs) == 1 else f"en-vi={spec}" for spec in specs]
    if absolute:
        specs = [",".join(_absolute(folder, side) for side in spec.split(",")) for spec in specs]
    files = expand_bitext(specs, pairs)
    assert [file.corpus for file in files] == expected
    assert len({(file.pair, file.corpus) for file in files}) == len(files)


def _absolute(folder: Path, side: str) -> str:
    prefix, _, path = side.rpartition("=")
    return side if path.isdecimal() else f"{prefix}{'=' if prefix else ''}{folder}/{path}"


def test_files_travel_between_workers():
    write(c__tsv=CONTENT["codes.tsv"])
    [file] = expand_bitext(["c.tsv"], [EN_VI])
    assert pickle.loads(pickle.dumps(file)) == file == BitextFile(EN_VI, "c.tsv", "tsv", "c.tsv", "c.tsv", "en", "vi")


@pytest.mark.parametrize(
    "spec, message",
    [
        ("c.en", "of no known form. Expected one of .*corpus.tmx.*corpus.tsv@1,2.*; each may end in .gz .bz2 .xz .zst"),
        ("c.en,", "of no known form"),
        ("c.en,c.vi,c.hi", "of no known form"),
        ("c.zip", "of no known form"),
        ("c.en.zip,c.vi.zip", "archives are to be unpacked first"),
        ("c.tar.gz,d.tar.gz", "archives are to be unpacked first"),
        ("c.tmx,c.en", "of no known form"),
        ("t.tsv,c.en", "of no known form"),
        ("t.tsv@1", "of no known form"),
        ("", "of no known form"),
        ("en-vi=", "of no known form"),
        ("en-hi=c.en,c.vi", r"--bitext en-hi=c.en,c.vi: the job makes en-vi, not en-hi"),
        ("c.{lang},c.vi", r"{lang} is unknown; there are {pair}, {source} and {target}"),
        ("c.em,c.vi", r"c\.em: no such file. Did you mean c\.en"),
        ("d.tmx", r"d\.tmx: no such file. Did you mean c\.tmx"),
        ("sub/c.en,c.vi", r"sub/c\.en: no such file: there is no folder sub"),
        ("folder,c.vi", "folder: a folder, expected a file"),
        ("neus-*.en,news-*.vi", r"neus-\*\.en: no file matches. Did you mean news-2\.en or news-1\.en"),
        ("news-*.en,news-*.vi", r"news-2\.en has no counterpart: no file is news-\*\.vi with '2' for its stars"),
        ("news-*.vi,news-*.en", r"news-2\.en has no counterpart"),
        ("news-*.en,c.vi", r"news-1\.en has no counterpart"),
        ("c.en,./c.en", "both sides of the pair"),
        ("t.tsv", r"no column 'en'. Its columns: 'a', 'b'.*no header give positions: t\.tsv@1,2"),
        ("t.tsv@a,c", r"no column 'c'. Its columns: 'a', 'b'"),
        ("t.tsv@1,3", r"t\.tsv: there is no column 3: its first 2 rows have at most 2"),
        ("t.tsv@0,1", "counted from 1"),
        ("t.tsv@1,1", "two different columns"),
        ("t.tsv@a,2", "both by name"),
        ("t.tsv@,b", "two different columns"),
        ("nowhere://c.tmx", r"nowhere://c\.tmx: cannot be looked up"),
    ],
)
def test_spec_that_cannot_work_is_refused_before_any_work(spec, message):
    write(c__en="x\n", c__vi="x\n", c__tmx=CONTENT["c.tmx"], t__tsv="a\tb\n1\t2\n", folder_x="")
    write(**{"news-1__en": "x\n", "news-2__en": "x\n", "news-1__vi": "x\n"})
    with pytest.raises(ConfigError, match=message):
        expand_bitext([spec], [EN_VI])


@pytest.mark.parametrize("spec", ["c.en,c.vi", "t.tsv@1,2", "t.tsv@a,b", "c.{source},c.vi"])
def test_one_text_cannot_serve_two_pairs(spec):
    write(c__en="x\n", c__vi="x\n", t__tsv="a\tb\n1\t2\n")
    with pytest.raises(
        ConfigError, match=r"same two texts for en-vi and en-hi\. Say for which .* --bitext en-vi=[ct]\."
    ):
        expand_bitext([spec], [EN_VI, EN_HI])


@pytest.mark.parametrize(
    "specs", [["c.en,c.vi", "./c.en,c.vi"], ["c.tmx", "*.tmx"], ["c.en,c.vi", "c.en.gz,c.vi"], ["t.tsv@1,2"] * 2]
)
def test_same_file_twice_is_refused(specs):
    write(c__en="x\n", c__vi="x\n", c__tmx=CONTENT["c.tmx"], c__en__gz=gzip.compress(b"x\n"), t__tsv="a\tb\n")
    with pytest.raises(ConfigError, match="given twice for en-vi"):
        expand_bitext(specs, [EN_VI])


def test_pair_that_no_spec_serves_is_refused():
    write(c__en="x\n", c__vi="x\n")
    with pytest.raises(ConfigError, match="en-hi: no --bitext is read for this pair"):
        expand_bitext(["en-vi=c.en,c.vi"], [EN_VI, EN_HI])


@pytest.mark.parametrize(
    "files, spec, message",
    [
        ({"c__en": "", "c__vi": "x\n"}, "c.en,c.vi", "c.en: the file is empty"),
        ({"c__en": "x\n", "c__vi": "x\n".encode("utf-16")}, "c.en,c.vi", "c.vi: expected UTF-8, found .* UTF-16"),
        ({"c__en__gz": "x\n", "c__vi": "x\n"}, "c.en.gz,c.vi", "c.en.gz: the gzip data are damaged"),
        ({"c__tsv": gzip.compress(b"en\tvi\n")}, "c.tsv", "c.tsv: the content is compressed"),
        ({"c__tmx": "<html>404</html>"}, "c.tmx", "c.tmx, line 1: expected the root element <tmx>"),
        ({"c__tmx": '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>'}, "c.tmx", "c.tmx, line 1: a document type"),
    ],
)
def test_file_that_begins_wrong_is_refused_before_any_work(files, spec, message):
    write(**files)
    with pytest.raises(InputError, match=message):
        expand_bitext([spec], [EN_VI])


def test_file_systems_of_beam_serve_patterns_and_reading(monkeypatch):
    filesystem = pytest.importorskip("apache_beam.io.filesystem")
    stored = {
        "bitextmem://b/news-1.en.gz": gzip.compress(b"one\n"),
        "bitextmem://b/news-1.vi.gz": gzip.compress("một\n".encode()),
        "bitextmem://b/x/news-2.en.gz": gzip.compress(b"two\n"),
        "bitextmem://b/c.tmx": CONTENT["c.tmx"].encode(),
    }

    class MemoryFileSystem(filesystem.FileSystem):  # as an object store: names with slashes, no folders
        scheme = classmethod(lambda cls: "bitextmem")
        has_dirs = lambda self: False  # noqa: E731
        exists = lambda self, path: path in stored  # noqa: E731
        metadata = lambda self, path: SimpleNamespace(path=path)  # noqa: E731
        _list = lambda self, prefix: [SimpleNamespace(path=path) for path in stored if path.startswith(prefix)]  # noqa: E731

        def open(self, path, mime_type="", compression_type="auto"):
            assert compression_type == "uncompressed"
            return io.BytesIO(stored[path])

    MemoryFileSystem.__abstractmethods__ = frozenset()  # writing is not what is tested
    files = expand_bitext(["bitextmem://b/news-*.en.gz,bitextmem://b/news-*.vi.gz", "bitextmem://b/c.tmx"], [EN_VI])
    assert [file.corpus for file in files] == ["news-1.en", "c.tmx"]
    digests: list[FileDigest] = []
    [pair] = read_bitext(files[0], digests)
    assert (pair.source_text, pair.target_text) == ("one", "một")
    assert [digest.path for digest in digests] == [*stored][:2]
    assert len(list(read_bitext(files[1]))) == 3
    with pytest.raises(ConfigError, match=r"bitextmem://b/absent\.tmx: no such file"):
        expand_bitext(["bitextmem://b/absent.tmx"], [EN_VI])


# --- Real corpora --------------------------------------------------------------------------------------------------

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "bitext"


@pytest.mark.real_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not in ../shared/data")
@pytest.mark.parametrize(
    "spec, pair, count, first",
    [
        ("tico19/all.{pair}.tmx", "en ar", 3071, "about how long have these symptoms been going on?"),
        ("tico19/all.en-es-419.tmx", "es en", 3071, "¿cuánto hace más o menos que tiene estos síntomas?"),
        ("ntrex128/newstest2019-src.eng.txt,ntrex128/newstest2019-ref.vie.txt", "en vi", 1997, "Welsh AMs worried"),
        ("tatoeba/eng-vie/*.eng,tatoeba/eng-vie/*.vie", "en vi", 2500, ""),
        ("tatoeba/ara-eng/*.eng,tatoeba/ara-eng/*.ara", "en ar", 10305, ""),
        ("corpora/bible.{pair}.tsv.xz@1,2", "en vi", 31095, "In the beginning, God created"),
        ("corpora/joshua.{pair}.tsv.xz@1,2", "en hi", 12594, ".It is believed"),
    ],
)
def test_real_corpora_give_every_pair_that_they_hold(spec, pair, count, first):
    language_pair = LanguagePair(*pair.split())
    [file] = expand_bitext(
        [",".join(f"{DATA}/{side}" if side != "2" else side for side in spec.split(","))], [language_pair]
    )
    digests: list[FileDigest] = []
    found = list(read_bitext(file, digests))
    assert len(found) == count and {type(record) for record in found} == {SentencePair}
    assert found[0].source_text.startswith(first)
    assert [digest.size_bytes for digest in digests] == [
        os.path.getsize(path) for path in dict.fromkeys([file.source_path, file.target_path])
    ]
