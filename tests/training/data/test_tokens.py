from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, TokenizersBackend

from schemas.errors import ConfigError
from tests.training.models.families import deberta_tokenizer, roberta_tokenizer
from training.data.tokens import Encoded, TextEncoder, token_span
from training.models.tokenizer import load_tokenizer
from training.models.tokenizer import save_tokenizer as save_as_ours

from .conftest import TEXTS, save_tokenizer

ODD = [
    "",
    " ",
    "   leading and trailing   ",
    "two  blanks,   three\tand\ttabs",
    "CR LF\r\nand a\nline \r\n \r\n end\r",
    "no-break\u00a0blank, thin\u2009blank, ideographic\u3000blank　東京",
    "ﬁve ㎏ of ½ … ＡＢＣ ｱﾝﾅ ﾊﾞ ① Ⅳ ™",
    "a¨b ¨ x ´y",  # NFKC makes a blank and a mark of one code point
    "e\u0301 \u0301x x \u0308 y\u00a0\u0308z o\u0302\u0301",  # marks, also where a word begins
    "👩‍👩‍👧 👍🏽👍 🏽 🇻🇳🇻 🇳 ❤️",
    "soft\u00adhyphen zero\u200bwidth \u200d x\u200c \ufeffmark \u0001\u001c control\x85",
    "\u0600 12 \u0600\u0308 x",  # a sign that takes the blank after it into its grapheme
    "1,234.56 ١٢٣ २०१५ 二〇一五",
    "▁ a▁b ▁▁",
    "\ufffd 𝔘𝔫𝔦 𐍈 \U0010ffff",
]


def own(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The ids that the tokenizer itself gives."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids


def read(tokenizer: PreTrainedTokenizerBase, ids: list[int] | tuple[int, ...]) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(ids))


def check_offsets(encoded: Encoded, text: str) -> None:
    ids, starts, ends = encoded
    assert len(ids) == len(starts) == len(ends)
    assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True))
    assert list(starts) == sorted(starts)
    assert list(ends) == sorted(ends)
    assert not any(text[start:end][:1].isspace() for start, end in zip(starts, ends, strict=True))


# --- ids and offsets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*TEXTS.values(), *ODD])
def test_ids_are_the_tokenizers_own(text: str, tokenizer: PreTrainedTokenizerBase) -> None:
    encoder = TextEncoder(tokenizer)
    cold, warm = encoder.encode(text), encoder.encode(text)
    assert list(cold.ids) == own(tokenizer, text)
    assert warm == cold
    check_offsets(cold, text)


@pytest.mark.parametrize("lang", TEXTS)
def test_each_token_reads_as_its_part_of_the_text(
    lang: str, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    text = "  ".join([TEXTS[lang]] * 2)
    normalize = tokenizer.backend_tokenizer.normalizer.normalize_str
    encoded = encoder.encode(text)
    covered = [text[start:end] for start, end in zip(encoded.starts, encoded.ends, strict=True)]
    for part, token in zip(covered, read(tokenizer, encoded.ids), strict=True):
        assert token.lstrip("▁") in normalize(part)
        assert token.lstrip("▁") == normalize(part) or "ำ" in part  # of which the normaliser makes two
    places = [place for start, end in zip(encoded.starts, encoded.ends, strict=True) for place in range(start, end)]
    assert sorted({*places}) == [place for place, char in enumerate(text) if char not in " \u200c"]


SCRIPTS = "aZé’ßﬁ ا١لُ हि२क़ ơ中京東にハﾊﾞ กรุำ 서ᄒ বা্ తెి яй Ως 👍🏽\u200d♀️ \t\r\n\u00a0\u3000\u0301\u0308\u200b\u00ad¨½▁.,-"


@given(st.text(st.sampled_from(SCRIPTS) | st.characters(exclude_categories=["Cs"]), max_size=30))
@example("\u0600 \u0308")
def test_words_from_the_cache_are_as_the_tokenizer_gives_them(
    encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    encoded = encoder.encode(text)
    assert list(encoded.ids) == own(tokenizer, text)
    check_offsets(encoded, text)
    theirs = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True)
    for token, start, end, (first, last) in zip(*encoded, theirs.offset_mapping, strict=True):
        first += len(text[first:last]) - len(text[first:last].lstrip())
        assert (start, end) == (first, first if token == tokenizer.convert_tokens_to_ids("▁") else last)


def test_blank_alone_before_han_covers_nothing(encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
    text = "x 東京都"
    encoded = encoder.encode(text)
    assert read(tokenizer, encoded.ids)[-2:] == ["▁", "東京都"]
    assert (encoded.starts[-2:], encoded.ends[-2:]) == ((2, 2), (2, 5))
    assert token_span(encoded, 2, 5) == (len(encoded.ids) - 1, len(encoded.ids) - 1)


def test_no_text_becomes_a_special_token(encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
    encoded = encoder.encode("a </s> <s><mask> [QUE] <pad>")
    assert encoder.special_ids.isdisjoint(encoded.ids)
    assert read(tokenizer, encoded.ids).count("<unk>") == 4
    assert encoder.que_id in tokenizer("a [QUE]").input_ids  # which the tokenizer alone would do


# --- the cache --------------------------------------------------------------------------------------------------------


def test_words_that_were_seen_need_no_tokenizer(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TextEncoder(tokenizer)
    encoder.encode("Anna  lives in Hanoi")
    monkeypatch.setattr(encoder, "_backend", None)
    assert list(encoder.encode("in Hanoi  lives Anna").ids) == own(tokenizer, "in Hanoi  lives Anna")


def test_the_cache_is_bounded_and_holds_no_sentences(tokenizer: PreTrainedTokenizerBase) -> None:
    encoder = TextEncoder(tokenizer, cached_words=3)
    for text in [*TEXTS.values(), *ODD, "あ" * 41]:
        assert list(encoder.encode(text).ids) == own(tokenizer, text)
        assert encoder._words is not None and len(encoder._words) <= 3
        assert all(len(word) <= 40 for word in encoder._words)


def unigram(*steps: pre_tokenizers.PreTokenizer, normalizer: normalizers.Normalizer | None = None) -> TokenizersBackend:
    pieces = ["<unk>", "▁", "▁a", "a", "b", "ab", "▁a▁b", ".", "[QUE]"]
    backend = Tokenizer(models.Unigram([(piece, -float(index)) for index, piece in enumerate(pieces)], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    if normalizer is not None:
        backend.normalizer = normalizer
    return TokenizersBackend(tokenizer_object=backend, unk_token="<unk>")


WHITE = pre_tokenizers.WhitespaceSplit()
MARKED = pre_tokenizers.Metaspace(prepend_scheme="always")


@pytest.mark.parametrize(
    "tokenizer, cached",
    [
        (unigram(WHITE, MARKED), True),
        (unigram(WHITE, MARKED, normalizer=normalizers.NFKC()), True),
        (unigram(pre_tokenizers.Metaspace(prepend_scheme="always", split=False)), False),  # "▁a▁b" is one token
        (unigram(MARKED), False),  # two blanks are two "▁"
        (unigram(WHITE, pre_tokenizers.Metaspace(prepend_scheme="first")), False),
        (unigram(WHITE, MARKED, normalizer=normalizers.Replace(Regex("a b"), "ab")), False),
        (unigram(WHITE, MARKED, normalizer=normalizers.Prepend("b")), False),
    ],
    ids="words normalised whole marked first replaced prepended".split(),
)
def test_words_are_cached_only_where_they_stand_alone(tokenizer: TokenizersBackend, cached: bool) -> None:
    encoder = TextEncoder(tokenizer)
    assert encoder.caches_words == cached
    for text in ("a b", "ab  a b ", " b", "ab. a"):
        encoded = encoder.encode(text)
        assert list(encoded.ids) == own(tokenizer, text)
        check_offsets(encoded, text)


def test_a_normaliser_that_reads_blanks_with_their_neighbours_forbids_the_cache(tmp_path: Path) -> None:
    (tmp_path / "rules.tsv").write_text("20 301\t27\n", "utf-8")  # a blank and an acute accent are an apostrophe
    tokenizer = save_tokenizer(tmp_path, normalization_rule_tsv=str(tmp_path / "rules.tsv"))
    encoder = TextEncoder(tokenizer)
    assert not encoder.caches_words
    assert list(encoder.encode("x \u0301a").ids) == own(tokenizer, "x \u0301a") == own(tokenizer, "x'a")


def test_tokens_that_are_looked_for_in_text_forbid_the_cache() -> None:
    tokenizer = unigram(WHITE, MARKED)
    tokenizer.add_tokens([AddedToken("b a", special=False)])
    encoder = TextEncoder(tokenizer)
    assert not encoder.caches_words
    assert list(encoder.encode("b a").ids) == own(tokenizer, "b a") == [len(tokenizer) - 1]


# --- special tokens ---------------------------------------------------------------------------------------------------


def test_pairs_and_single_texts_have_the_tokenizers_own_form(
    encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    first, second = encoder.encode("Anna lives").ids, encoder.encode("in Hanoi.").ids
    ids, (a, b), (c, d) = encoder.pair(first, second)
    assert list(ids) == tokenizer("Anna lives", "in Hanoi.").input_ids
    assert (ids[a:b], ids[c:d]) == (first, second)
    assert list(encoder.single(first)) == tokenizer("Anna lives").input_ids


@pytest.mark.parametrize(
    "text, expected",
    [
        ("_", "[QUE]"),
        ("_ in Hanoi", "[QUE] ▁in ▁Hanoi"),
        ("in _ in", "▁in [QUE] ▁in"),  # it covers the blank before it, too
        ("_.", "[QUE] ."),  # not "▁."
        ("_’s in", "[QUE] ’ s ▁in"),
        ("に_に_", "▁ に [QUE] に [QUE]"),
        ("_\u00a0in _　in _\nin", "[QUE] ▁in [QUE] ▁in [QUE] ▁in"),
        ("_２ _ｓ", "[QUE] 2 [QUE] s"),  # the normaliser still sees them
        ("_s¨", "[QUE] s ▁ <unk>"),  # a blank and a mark
        ("_</s>", "[QUE] <unk>"),
        ("in [QUE] _", "▁in ▁ [ Q U E ] [QUE]"),  # text is text
        ("", ""),
    ],
)
def test_what_follows_a_masked_span_without_a_blank_goes_on_with_its_word(
    text: str, expected: str, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    spans = [(place, place + 1) for place, char in enumerate(text) if char == "_"]
    ids, places = encoder.encode_masked(text, spans, encoder.que_id)
    assert " ".join(read(tokenizer, ids)) == expected
    assert [place for place, token in enumerate(ids) if token == encoder.que_id] == places


@pytest.mark.parametrize("lang", TEXTS)
def test_text_around_masked_words_keeps_its_ids(lang: str, encoder: TextEncoder) -> None:
    text = TEXTS[lang]
    start = text.find(" ", len(text) // 3) + 1
    end = text.find(" ", start)
    if not 0 < start < end:
        start, end = 0, text.index("。") + 1 if "。" in text else len(text)
    ids, (place,) = encoder.encode_masked(text, [(start, end)], encoder.que_id)
    assert tuple(ids[:place]) == encoder.encode(text[:start]).ids
    if text[end : end + 1] == " ":
        assert tuple(ids[place + 1 :]) == encoder.encode(text[end:]).ids
        assert [*ids[:place], *encoder.encode(text[start:end]).ids, *ids[place + 1 :]] == [*encoder.encode(text).ids]


@given(st.text(st.sampled_from(SCRIPTS), max_size=20))
def test_pieces_after_a_mask_are_those_of_a_tokenizer_that_adds_no_blank(
    encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    ids, _ = encoder.encode_masked("_" + text, [(0, 1)], encoder.que_id)
    head, _, _ = text.partition(" ")
    if text and not (tokenizer.backend_tokenizer.normalizer.normalize_str(head) or " ")[0].isspace():
        # As the whole word has them, after one that is a token of its own.
        assert read(tokenizer, ids)[1][:1] != "▁"
        letters = "".join(read(tokenizer, ids[1:])).replace("<unk>", "").replace("▁", "")
        assert letters == "".join(read(tokenizer, encoder.encode(text).ids)).replace("<unk>", "").replace("▁", "")
    else:
        assert tuple(ids[1:]) == encoder.encode(text).ids


@pytest.mark.parametrize(
    "text, words, expected",
    [
        ("in Hanoi.", [(0, 2), (3, 8), (8, 9)], "▁in|▁Hanoi|."),  # not "▁."
        ("東京都に", [(0, 2), (2, 3), (3, 4)], "(▁)東京|都|に"),
        ("東京 都", [(0, 2), (3, 4)], "(▁)東京|(▁)都"),
        ("in, in", [(0, 2), (4, 6)], "▁in|▁in"),  # what no word holds is left out
        ("in,in", [(0, 2), (3, 5)], "▁in|▁in"),  # as if it were a blank
        ("in\u00a0in", [(0, 2), (3, 5)], "▁in|▁in"),
        ("inin", [(0, 2), (2, 4)], "▁in|in"),
        ("in\u200bin", [(0, 2), (2, 3), (3, 5)], "▁in||in"),  # left out by the tokenizer
        ("\u200bin", [(0, 1), (1, 3)], "|▁in"),
        ("in in", [(0, 2), (2, 2), (2, 3), (3, 5)], "▁in|||▁in"),
        ("in</s>in", [(0, 2), (2, 6), (6, 8)], "▁in|<unk>|in"),  # text is text
        ("in", [], ""),
    ],
)
def test_words_are_tokenised_one_by_one(
    text: str, words: list[tuple[int, int]], expected: str, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    ids, places = encoder.encode_words(text, words)
    tokens, end, found = read(tokenizer, ids), 0, []
    for start, following in places:
        alone = f"({''.join(tokens[end:start])})" if start > end else ""  # a "▁" that is none of the word's tokens
        found.append(alone + "".join(tokens[start:following]))
        end = following
    assert "|".join(found) == expected
    assert end == len(ids)


@pytest.mark.parametrize("lang", TEXTS)
def test_words_between_blanks_have_the_ids_of_running_text(lang: str, encoder: TextEncoder) -> None:
    text = TEXTS[lang]
    starts = [0, *[at + 1 for at, char in enumerate(text) if char == " "]]
    words = [(start, start + len(text[start:].split(" ")[0])) for start in starts]
    ids, places = encoder.encode_words(text, words)
    assert tuple(ids) == encoder.encode(text).ids
    for (start, end), (first, last) in zip(words, places, strict=True):
        assert token_span(encoder.encode(text), start, end) == (first, last - 1)


def test_byte_level_words_keep_the_blank_before_them(tmp_path: Path) -> None:
    encoder = TextEncoder(roberta_tokenizer(tmp_path))
    text, words = "In Hà Nội, he won", [(0, 2), (3, 5), (6, 9), (9, 10), (11, 13), (14, 17)]
    ids, places = encoder.encode_words(text, words)
    assert tuple(ids) == encoder.encode(text).ids
    assert [encoder.tokenizer.decode(ids[first:last]) for first, last in places] == [
        text[start:end] for start, end in words
    ]


@given(st.text(st.sampled_from(SCRIPTS), max_size=20), st.data())
def test_no_token_holds_parts_of_two_words(encoder: TextEncoder, text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    words = [*pairwise(cuts)]
    ids, places = encoder.encode_words(text, words)
    blank = set(encoder.ids("\u00a8")[:1])  # "▁"
    end = 0
    for (start_char, end_char), (start, following) in zip(words, places, strict=True):
        assert end <= start <= following
        assert {*ids[end:start]} <= blank
        assert (start == following) == ({*encoder.ids(text[start_char:end_char])} <= blank)
        end = following
    assert end == len(ids)


def test_tokens_that_are_asked_for_must_be_there() -> None:
    encoder = TextEncoder(unigram(WHITE, MARKED))
    with pytest.raises(ConfigError, match=r"special token \[QUE\]"):  # a piece of the vocabulary is none
        _ = encoder.que_id
    with pytest.raises(ConfigError, match="for masks"):
        _ = encoder.mask_id


def test_slow_tokenizers_are_refused() -> None:
    slow = SimpleNamespace(is_fast=False, name_or_path="folder")
    with pytest.raises(ConfigError, match="folder: expected a fast tokenizer"):
        TextEncoder(cast(PreTrainedTokenizerBase, slow))


# --- the whole --------------------------------------------------------------------------------------------------------


def test_different_tokenizers_have_different_fingerprints(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    again, larger = type(tokenizer).from_pretrained(tmp_path), type(tokenizer).from_pretrained(tmp_path)
    again("a", truncation=True, max_length=5, padding="max_length")  # leaves its mark in the tokenizer
    larger.add_tokens(["new"])
    assert TextEncoder(again).fingerprint == TextEncoder(tokenizer).fingerprint
    assert TextEncoder(larger).fingerprint != TextEncoder(tokenizer).fingerprint


def test_an_encoder_goes_to_another_process_without_its_cache(encoder: TextEncoder) -> None:
    text = TEXTS["hi"]
    expected = encoder.encode(text)
    copy = pickle.loads(pickle.dumps(encoder))
    assert copy.encode(text) == expected
    assert copy.fingerprint == encoder.fingerprint


@pytest.mark.parametrize(
    "start, end, expected",
    [
        (0, 2, (1, 1)),  # not the "▁" before it
        (1, 2, (1, 1)),  # a token straddles the edge: the cover
        (3, 4, (3, 4)),  # two tokens of one code point, both
        (3, 5, (3, 5)),
        (4, 9, (5, 6)),
        (0, 9, (1, 6)),
        (2, 3, None),  # a blank
        (2, 4, (3, 4)),
        (8, 10, (6, 6)),  # nor the one after it
        (5, 6, None),  # left out by the tokenizer
        (9, 10, None),
    ],
)
def test_token_span_is_the_smallest_cover(start: int, end: int, expected: tuple[int, int] | None) -> None:
    # "▁", "東京", "▁", then "k" and "g" of "㎏", "a", "b", "▁"; nothing of code points 2 and 5
    encoded = Encoded(ids=(5, 6, 5, 7, 8, 9, 10, 5), starts=(0, 0, 3, 3, 3, 4, 6, 9), ends=(0, 2, 3, 4, 4, 5, 9, 9))
    assert token_span(encoded, start, end) == expected


@pytest.mark.real_data
def test_ids_of_news_in_every_language_are_the_tokenizers_own(
    shared_data: Path, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    paths = sorted((shared_data / "bitext" / "ntrex128").glob("*.txt"))
    assert len(paths) > 20
    for path in paths:
        text = "\n".join(path.read_text("utf-8").splitlines()[:100])
        assert list(encoder.encode(text).ids) == own(tokenizer, text)
        check_offsets(encoder.encode(text), text)


@pytest.mark.real_data
@pytest.mark.parametrize("lowercase", [False, True])
def test_wordpiece_vocabularies_are_cached_likewise(shared_data: Path, lowercase: bool) -> None:
    tokenizer = BertTokenizer.from_pretrained(shared_data / "tokenizers" / "mbert_cased", do_lower_case=lowercase)
    encoder = TextEncoder(tokenizer)
    assert encoder.caches_words
    for text in [*TEXTS.values(), *ODD, "the [MASK] and [SEP]"]:
        for _ in range(2):
            encoded = encoder.encode(text)
            assert list(encoded.ids) == own(tokenizer, text), text
            check_offsets(encoded, text)
    ids, places, _ = encoder.pair(encoder.encode("a").ids, encoder.encode("b c").ids)
    assert list(ids) == tokenizer("a", "b c").input_ids
    assert places == (1, 2)
    masked, _ = encoder.encode_masked("_’s [MASK]", [(0, 1)], encoder.mask_id)
    assert masked.count(encoder.mask_id) == 1
    assert all(start <= following for start, following in pairwise(encoded.starts))


# --- DeBERTa's tokenizer ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deberta(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    """Of mDeBERTa's form, as the hub has it: a SentencePiece model, no tokenizer.json."""
    folder = tmp_path_factory.mktemp("deberta")
    deberta_tokenizer([*TEXTS.values(), "ﬁve ㎏，ＡＢＣ"] * 2, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "vocab_type": "spm"}))
    return load_tokenizer(folder, add_que=False)


@pytest.mark.parametrize("text", [*TEXTS.values(), *ODD])
def test_debertas_ids_and_offsets_are_its_tokenizers(text: str, deberta: PreTrainedTokenizerBase) -> None:
    encoder = TextEncoder(deberta)
    encoded = encoder.encode(text)
    assert list(encoded.ids) == own(deberta, text)
    check_offsets(encoded, text)


def test_deberta_has_one_separator_between_texts(deberta: PreTrainedTokenizerBase) -> None:
    encoder = TextEncoder(deberta)
    a, b = encoder.ids("Anna"), encoder.ids("Hanoi")
    ids, first, second = encoder.pair(a, b)
    assert list(ids) == deberta("Anna", "Hanoi").input_ids
    assert (ids[first[0] : first[1]], ids[second[0] : second[1]]) == (tuple(a), tuple(b))
    cls_id, sep_id = deberta.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    assert ids == (cls_id, *a, sep_id, *b, sep_id) and encoder.single(a) == (cls_id, *a, sep_id)


def test_a_blank_alone_covers_nothing_in_deberta_too(deberta: PreTrainedTokenizerBase) -> None:
    encoded = TextEncoder(deberta).encode("x 東京")
    assert read(deberta, encoded.ids)[-3:] == ["▁", "東", "京"]
    assert (encoded.starts[-3:], encoded.ends[-3:]) == ((2, 2, 3), (2, 3, 4))
    assert token_span(encoded, 2, 4) == (len(encoded.ids) - 2, len(encoded.ids) - 1)


@pytest.mark.parametrize("text", ["ﬁve", "你好，安娜", "ＡＢＣ ２０１５", "ｱﾝﾅ", "a\u3000b"])
def test_debertas_text_is_normalized_as_its_sentencepiece_model_does(
    text: str, deberta: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """transformers 5 leaves that out. The oracle is SentencePiece itself."""
    model = SentencePieceProcessor(model_file=str(Path(deberta.name_or_path) / "spm.model"))
    assert deberta.tokenize(text) == [piece for piece in model.encode(text, out_type=str)]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    save_as_ours(deberta, tmp_path)
    for again in (load_tokenizer(tmp_path, add_que=False), AutoTokenizer.from_pretrained(tmp_path)):
        assert again.tokenize(text) == deberta.tokenize(text)
    deberta.save_pretrained(tmp_path / "theirs")  # the class as transformers writes it, with tokenizer.json alone
    assert load_tokenizer(tmp_path / "theirs", add_que=False).tokenize(text) == deberta.tokenize(text)
