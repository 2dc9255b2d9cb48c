from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AddedToken, AutoTokenizer, PreTrainedTokenizerBase

from schemas.clism import QUE_TOKEN
from training.data.tokens import TextEncoder

ROOT = Path(__file__).resolve().parents[3]

TEXTS = {
    "en": "Anna’s sister lives in Hanoi; she didn’t move to New York in 2015 (or so they say).",
    "ar": "وُلدت بريا شارما في جايبور في ١٢ مارس ١٩٨٥، وانتقلت إلى القاهرة.",
    "hi": "लिन्ह ट्रान २०१५ में हनोई से जिनेवा चली गईं। क्या आप क़ाहिरा में रहते हैं?",
    "vi": "Trần Linh chuyển từ Hà Nội đến Genève vào năm 2015, rồi về Đà Nẵng.",
    "zh": "安娜住在河内。她于2015年从北京搬到了日内瓦,“真的”吗?",
    "ja": "アンナはハノイに住んでいる。東京都から1999年に引っ越した。",
    "th": "แอนนาอาศัยอยู่ในกรุงเทพฯ ตั้งแต่ปี ๒๕๕๘ และทำงานที่นั่น",
    "ko": "안나는 2015년부터 서울에 살고 있다. 하노이에서 태어났다.",
    "bn": "আন্না ২০১৫ সাল থেকে ঢাকায় বাস করেন। তিনি হ্যানয়ে জন্মগ্রহণ করেন।",
    "sw": "Anna anaishi Nairobi tangu 2015; alizaliwa Hanoi, ng'ambo ya bahari.",
    "te": "అన్నా 2015 నుండి హైదరాబాద్‌లో నివసిస్తోంది. ఆమె హనోయిలో జన్మించింది.",
    "ru": "Анна живёт в Ханое с 2015 года; она родилась в Санкт-Петербурге.",
    "el": "Η Άννα ζει στο Ανόι από το 2015. Ο Οδυσσεύς γύρισε στην Ιθάκη.",
    "ka": "ანა 2015 წლიდან თბილისში ცხოვრობს.",
}


def save_tokenizer(folder: Path, **options: str) -> PreTrainedTokenizerBase:
    """A tokenizer of XLM-R's form with `[QUE]`: SentencePiece Unigram, nmt_nfkc, Metaspace; some 3,000 tokens."""
    from transformers import XLMRobertaTokenizer

    from training.models.tiny import sentencepiece_model

    sample = ROOT / "pipelines" / "sample"
    texts = [*sorted(sample.glob("wiki/*.xml")), sample / "sample.tsv"]
    lines = [line for path in texts for line in path.read_text("utf-8").replace("\t", "\n").splitlines()]
    model = sentencepiece_model(iter([*lines, *TEXTS.values()]), 3_000, **options)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    tokenizer = XLMRobertaTokenizer.from_pretrained(folder, model_max_length=512)
    tokenizer.add_tokens([AddedToken(QUE_TOKEN, special=True)], special_tokens=True)
    tokenizer.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def encoder(tokenizer: PreTrainedTokenizerBase) -> TextEncoder:
    encoder = TextEncoder(tokenizer)
    assert encoder.caches_words
    return encoder
