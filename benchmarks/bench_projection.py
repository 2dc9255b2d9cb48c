"""Projected answers against gold: how many are right, and how many right ones each setting of `MaskingConfig` loses.

    python -m benchmarks.bench_projection                       # all six language pairs; a minute on one core
    python -m benchmarks.bench_projection en-hi en-zh --grid    # every strictness, min_score and link threshold
    python -m benchmarks.bench_projection en-fr --ideas         # rules that were tried and did not pay
    python -m benchmarks.bench_projection --draw benchmarks/projection.svg      # the trade-off as a picture

en-{fr,hi,ja,zh} have gold word alignments. Mentions are the built-in tagger's, without digits ("names") and with them
("numbers"), and every run of words that are no stop words ("phrases"): harder, and many where names are few. The
right answer of a mention runs from the first to the last word that a sure link joins to it, if no word inside is
linked to the outside; else it has none. "names, S+P" counts possible links as well.
en-{de,pt}: Universal NER's parallel test sets (PUD), names annotated in both languages by hand. The mentions are the
English names, and any name of the translation is right: this judges the edges of answers.

Words are those of the job's tokenizer, on the gold set's words joined by spaces, or by nothing in Japanese and Chinese.
The aligner learns from the pair's corpora and from the text (not the links) of the gold set. Japanese and Chinese gold
counts "23日" as the answer of "23rd", where the tokenizer ends a word behind 23. Their English is in lower case, where
no tagger finds a name: it gets its capitals back from how words are mostly written elsewhere.

    asked     questions of `mask_mentions`' own steps
    exact     answers that equal the right one, of those questions whose mention has one
    partly    … that overlap it
    no gold   questions whose mention has no right answer
    right     exact answers of all questions: what a model would learn from
    kept      exact answers of all mentions that have a right one

The picture has `exact` against the share of mentions kept, right or not: kept / exact.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.bench_aligner import BITEXT, CORPORA, DATA, NTREX, TATOEBA, Words, cut
from benchmarks.curves import Axis, Curve, draw
from pipelines.aligner import AlignerConfig, train
from pipelines.aligner.links import Link
from pipelines.aligner.projection import is_consistent, project, words_of
from pipelines.steps.bitext.readers import expand_bitext, read_bitext
from pipelines.steps.clism.masking import Candidate, MaskingConfig, TokenizedPair, drop_overlapping, find_answer
from pipelines.steps.clism.stop_words import is_punctuation, stop_words
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair
from pipelines.steps.common.tokenize import token_texts, tokenizer_for
from pipelines.steps.ner.config import TaggerConfig
from pipelines.steps.ner.taggers import load_tagger
from schemas.languages import LanguagePair
from schemas.spans import CharSpan, TokenSpan

PUD = {"en-de": "German-PUD/de_pud", "en-pt": "Portuguese-PUD/pt_pud"}
PUD_CORPORA = {
    "en-de": [f"{NTREX}-src.eng.txt,{NTREX}-ref.deu.txt", f"{TATOEBA}/deu-eng/*.eng,{TATOEBA}/deu-eng/*.deu"],
    "en-pt": [f"{NTREX}-src.eng.txt,{NTREX}-ref.por.txt"],
}
FRENCH = {  # the gold set writes contractions in full
    "du": ["de", "le"], "des": ["de", "les"], "au": ["à", "le"], "aux": ["à", "les"],
    **{f"{start}{mark}": [f"{start}e"] for start in ("l", "d", "n", "s", "c", "j", "m", "t", "qu") for mark in "'’"},
}  # fmt: skip
STRICTNESS: tuple[Literal["consistent", "any"], ...] = ("consistent", "any")
MIN_SCORES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
LINK_THRESHOLDS = (0.3, 0.4, 0.5)

Filter = Callable[[TokenizedPair, TokenSpan, list[Link]], list[Link]]


class Case(NamedTuple):
    """A sentence pair of a gold set, with the right answers of each mention that has one."""

    tokenized: TokenizedPair
    right: dict[EntityMention, list[CharSpan]]


class Score(NamedTuple):
    asked: int
    with_gold: int  # questions whose mention has a right answer
    exact: int
    partly: int
    answerable: int  # mentions that have one

    def __str__(self) -> str:
        shares = (
            (self.exact, self.with_gold),
            (self.partly, self.with_gold),
            (self.asked - self.with_gold, self.asked),
            (self.exact, self.asked),
            (self.exact, self.answerable),
        )
        return f"{self.asked:7,}" + "".join(f"{part / max(1, whole):9.1%}" for part, whole in shares)


# ---------------------------------------------------------------- gold


def gold_cases(pair: str) -> dict[str, list[Case]]:
    """The cases of each population of mentions; every population has the same sentences in the same order."""
    if pair in PUD:
        return {"names": pud_cases(pair)}
    folder = DATA / "alignment" / pair
    sources, targets = ([line.split(" ") for line in lines(folder / name)] for name in ("src.txt", "tgt.txt"))
    if all(word == word.lower() for words in sources for word in words):
        cased = usual_case()
        sources = [[cased.get(word, word) for word in words] for words in sources]
    mentions = load_tagger(TaggerConfig(), "en").tag([" ".join(words) for words in sources])
    cases: dict[str, list[Case]] = {"names": [], "numbers": [], "phrases": []}
    if pair == "en-fr":
        cases["names, S+P"] = []
    for number, line in enumerate(lines(folder / "gold.txt")):
        links = [(Link(int(i), int(j)), kind == "-") for i, kind, j in re.findall(r"(\d+)([-?])(\d+)", line)]
        gold_words = word_spans(sources[number], "en"), word_spans(targets[number], pair[3:])
        source_text = " ".join(sources[number])
        numbers = [mention for mention in mentions[number] if re.search(r"\d", mention.span.of(source_text))]
        names = [mention for mention in mentions[number] if mention not in numbers]
        for population, found in cases.items():
            chosen = {"numbers": numbers, "phrases": phrases(sources[number])}.get(population, names)
            kept = [link for link, sure in links if sure or population == "names, S+P"]
            right = {mention: aligned(mention, *gold_words, kept) for mention in chosen}
            tokenized = tokenized_pair(pair, number, sources[number], targets[number], chosen)
            found.append(Case(tokenized, {mention: [span] for mention, span in right.items() if span}))
    return cases


def aligned(
    mention: EntityMention, source: Sequence[CharSpan], target: Sequence[CharSpan], links: list[Link]
) -> CharSpan | None:
    """The mention's right answer by gold links, if it has one."""
    words = words_of(mention.span, source)
    answer = words and project(words, links)
    if not words or not answer or not is_consistent(words, answer, links):
        return None
    return CharSpan(target[answer.start].start, target[answer.end - 1].end)


def phrases(words: Words) -> list[EntityMention]:
    spans, runs = word_spans(words, "en"), [list[CharSpan]()]
    for word, span in zip(words, spans, strict=True):
        if is_punctuation(word) or word.lower() in stop_words("en"):
            runs.append([])
        else:
            runs[-1].append(span)
    return [EntityMention(CharSpan(run[0].start, run[-1].end), "PHRASE") for run in runs if run]


def pud_cases(pair: str) -> list[Case]:
    sides = [read_iob2(name) for name in ("English-PUD/en_pud", PUD[pair])]
    cases = []
    for number, ((source, names), (target, answers)) in enumerate(zip(*sides, strict=True)):
        tokenized = tokenized_pair(pair, number, source, target, names)
        cases.append(Case(tokenized, {name: [answer.span for answer in answers] for name in names}))
    return cases


def read_iob2(name: str) -> list[tuple[Words, list[EntityMention]]]:
    sentences: list[tuple[Words, list[EntityMention]]] = []
    for block in (DATA / "ner" / f"UNER_{name}-ud-test.iob2").read_text(encoding="utf-8").strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        words = [row[1].replace(" ", "_") for row in rows]
        names: list[EntityMention] = []
        for (_, _, tag, *_), span in zip(rows, word_spans(words, "en"), strict=True):
            if tag.startswith("B-"):
                names.append(EntityMention(span, tag[2:]))
            elif tag.startswith("I-"):
                names[-1] = EntityMention(CharSpan(names[-1].span.start, span.end), names[-1].label)
        sentences.append((words, names))
    return sentences


def tokenized_pair(
    pair: str, number: int, source: Words, target: Words, mentions: Sequence[EntityMention]
) -> TokenizedPair:
    languages = LanguagePair(*pair.split("-"))
    texts = [joiner(lang).join(words) for words, lang in zip((source, target), languages, strict=True)]
    record = SentencePair(str(number), languages, pair, number + 1, *texts)
    tokens = [tokenizer_for(lang)(text) for text, lang in zip(texts, languages, strict=True)]
    return TokenizedPair(record, tokens[0], tokens[1], mentions)


def joiner(lang: str) -> str:
    return "" if lang in ("ja", "zh") else " "


def word_spans(words: Words, lang: str) -> list[CharSpan]:
    """Of words that are joined to a text."""
    spans: list[CharSpan] = []
    for word in words:
        start = spans[-1].end + len(joiner(lang)) if spans else 0
        spans.append(CharSpan(start, start + len(word)))
    return spans


def usual_case() -> dict[str, str]:
    """How a lower-cased word is mostly written within sentences."""
    seen: dict[str, Counter[str]] = {}
    for path in (Path(f"{NTREX}-src.eng.txt"), *sorted(TATOEBA.glob("*/*.eng"))):
        for line in lines(path):
            for word in line.split()[1:]:
                word = word.strip(".,;:!?\"'()“”‘’").removesuffix("'s").removesuffix("’s")
                seen.setdefault(word.lower(), Counter())[word] += 1
    return {word: max(forms, key=lambda form: (forms[form], form)) for word, forms in seen.items()}


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


# ---------------------------------------------------------------- the aligner


def words_of_pair(tokenized: TokenizedPair) -> tuple[Words, Words]:
    pair = tokenized.sentences
    sides = (pair.source_text, tokenized.source_tokens), (pair.target_text, tokenized.target_tokens)
    source, target = (token_texts(*side) for side in sides)
    return source, target


def training_text(pair: str, size: int) -> list[tuple[Words, Words]]:
    """`size` sentence pairs, evenly spaced over the pair's corpora."""
    languages = LanguagePair(*pair.split("-"))
    files = expand_bitext((CORPORA | PUD_CORPORA)[pair], [languages])
    records = [record for file in files for record in read_bitext(file) if isinstance(record, SentencePair)]
    text: list[tuple[Words, Words]] = []
    for record in records[:: max(1, len(records) // size)][:size]:
        source, target = cut([record.source_text], "en")[0], cut([record.target_text], languages.target)[0]
        if languages.target == "fr":
            target = [part for word in target for part in FRENCH.get(word.lower(), [word])]
        text.append((source, target))
    return text


# ---------------------------------------------------------------- answers


def answers(case: Case, links: Iterable[Link], config: MaskingConfig, rule: Filter | None) -> list[Candidate]:
    """What `mask_mentions` asks of one sentence pair, where `rule` may first change the links that a mention sees."""
    links = list(links)
    found = []
    for mention in case.tokenized.mentions:
        words = words_of(mention.span, case.tokenized.source_tokens)
        seen = rule(case.tokenized, words, links) if rule and words else links
        found.append(find_answer(case.tokenized, mention, seen, config))
    return drop_overlapping([candidate for candidate in found if isinstance(candidate, Candidate)])


def outcome(case: Case, candidate: Candidate) -> str:
    right = case.right.get(candidate.mention)
    if right is None:
        return "no gold"
    if candidate.answer in right:
        return "exact"
    start, end = candidate.answer
    return "partly" if any(span.start < end and start < span.end for span in right) else "wrong"


def measure(
    cases: list[Case], links: list[list[Link]], threshold: float, config: MaskingConfig, rule: Filter | None = None
) -> Score:
    counts: Counter[str] = Counter()
    for case, all_links in zip(cases, links, strict=True):
        kept = [link for link in all_links if link.score > threshold]
        counts.update(outcome(case, candidate) for candidate in answers(case, kept, config, rule))
    asked = counts.total()
    return Score(
        asked, asked - counts["no gold"], counts["exact"], counts["partly"], sum(len(case.right) for case in cases)
    )


# ---------------------------------------------------------------- rules that were tried


def trim_weak(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """A mention's links of less than 0.7 of its best do not count."""
    best = max((link.score for link in links if link.source in mention), default=0.0)
    return [link for link in links if link.source not in mention or link.score >= 0.7 * best]


def trim_edges(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """Answers do not begin or end with a stop word or punctuation."""
    text, listed = tokenized.sentences.target_text, stop_words(tokenized.sentences.languages.target)
    words = [token.of(text).lower() for token in tokenized.target_tokens]
    content = [k for k in links if k.source in mention and not is_punctuation(words[k.target])]
    content = [k for k in content if words[k.target] not in listed]
    return content + [k for k in links if k.source not in mention] if content else links


def tolerate_function_words(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """Stop words and punctuation outside the mention may be linked into its answer."""
    words = [token.of(tokenized.sentences.source_text).lower() for token in tokenized.source_tokens]
    listed = stop_words("en")
    return [
        link
        for link in links
        if link.source in mention or not (words[link.source] in listed or is_punctuation(words[link.source]))
    ]


def tolerate_weaker(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """A word of the answer may be linked to the outside, if its link to the mention is the better one."""
    best: dict[int, float] = {}
    for link in links:
        if link.source in mention:
            best[link.target] = max(best.get(link.target, 0.0), link.score)
    return [link for link in links if link.source in mention or link.score > best.get(link.target, 0.0)]


def no_gap(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """Every word of an answer is linked."""
    targets = {link.target for link in links if link.source in mention}
    if targets and max(targets) - min(targets) + 1 == len(targets):
        return links
    return [link for link in links if link.source not in mention]


def no_unlinked_edge(tokenized: TokenizedPair, mention: TokenSpan, links: list[Link]) -> list[Link]:
    """The first and the last word of a mention are linked."""
    if {mention.start, mention.end - 1} <= {link.source for link in links}:
        return links
    return [link for link in links if link.source not in mention]


RULES = (trim_weak, trim_edges, tolerate_function_words, tolerate_weaker, no_gap, no_unlinked_edge)


# ---------------------------------------------------------------- tables


def align_gold(pair: str, size: int, cases: list[Case]) -> list[list[Link]]:
    """The links of each case by an aligner that has learnt from `size` pairs and these."""
    gold_text = [words_of_pair(case.tokenized) for case in cases]
    text = training_text(pair, size)
    model = train([*text, *gold_text], AlignerConfig(min_score=min(LINK_THRESHOLDS)))
    print(f"\n{pair}: {len(gold_text)} sentences; aligner trained on them and {len(text):,} pairs", flush=True)
    return model.align_batch(gold_text)


def picture(pairs: Sequence[str], size: int) -> str:
    """Names and phrases, a curve over min_score 0 to 0.95 for each gold set and strictness, marked at the default."""
    panels: dict[str, dict[str, list[Curve]]] = {"names": {}, "phrases": {}}
    link_default, default = AlignerConfig().min_score, MaskingConfig()
    for pair in pairs:
        populations = gold_cases(pair)
        links = align_gold(pair, size, populations["names"])
        for population in panels.keys() & populations.keys():
            cases = populations[population]
            curves = panels[population].setdefault(pair, [])
            for strictness in STRICTNESS:

                def point(min_score: float) -> tuple[float, float]:
                    config = replace(default, strictness=strictness, min_score=min_score)  # noqa: B023 (called at once)
                    found = measure(cases, links, link_default, config)  # noqa: B023
                    return found.with_gold / max(1, found.answerable), found.exact / max(1, found.with_gold)

                points = [point(twentieth / 20) for twentieth in range(20)]
                curves.append(Curve(points, point(default.min_score), is_dashed=strictness == "any"))
    asked = Axis("mentions kept, of those that have a right answer", [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    exact = Axis("answers that are exactly right", [0.6, 0.7, 0.8, 0.9, 1.0])
    labels = [f"strictness {name}, marked at min_score {default.min_score}" for name in STRICTNESS]
    return draw(panels, asked, exact, (labels[0], labels[1]))


def report(pair: str, arguments: argparse.Namespace, by_score: Counter[tuple[str, int, bool]]) -> None:
    populations = gold_cases(pair)
    links = align_gold(pair, arguments.pairs, populations["names"])
    link_default, default = AlignerConfig().min_score, MaskingConfig()
    for population, cases in populations.items():
        mentions = sum(len(case.tokenized.mentions) for case in cases)
        print(f"{f'  {population}: {mentions:,} mentions':46}  asked    exact   partly  no gold    right     kept")

        def row(name: str, threshold: float, config: MaskingConfig, rule: Filter | None = None) -> None:
            print(f"    {name:42}{measure(cases, links, threshold, config, rule)}")  # noqa: B023 (called at once)

        for strictness in STRICTNESS:
            for threshold in LINK_THRESHOLDS if arguments.grid else (link_default,):
                for min_score in MIN_SCORES:
                    config = replace(default, strictness=strictness, min_score=min_score)
                    is_default = (config, threshold) == (default, link_default)
                    name = f"{strictness:10}  min_score {min_score}  links > {threshold}"
                    row(name + "  default" * is_default, threshold, config)
        for rule in RULES if arguments.ideas else ():
            row(rule.__name__, link_default, default, rule)
        if population in ("names", "phrases"):
            for case, all_links in zip(cases, links, strict=True):
                kept = [link for link in all_links if link.score > link_default]
                for strictness in STRICTNESS:
                    config = replace(default, strictness=strictness, min_score=0.0)
                    for candidate in answers(case, kept, config, None):
                        is_right = outcome(case, candidate) == "exact"
                        by_score[f"{strictness} {population}", int(candidate.score * 10), is_right] += 1


def report_by_score(by_score: Counter[tuple[str, int, bool]]) -> None:
    """Where a question is more often wrong than right, it is better not asked."""
    print("\nexact answers of all questions, by alignment score; refused: those that only strictness any asks")
    columns = [
        f"{strictness} {population}" for population in ("names", "phrases") for strictness in ("consistent", "refused")
    ]
    print("  score   " + "".join(f"{column:>22}" for column in columns))
    for tenth in range(11):
        counts = {}
        for population in ("names", "phrases"):
            asked, any_asked = (
                [by_score[f"{strictness} {population}", tenth, is_right] for is_right in (True, False)]
                for strictness in STRICTNESS
            )
            counts[f"consistent {population}"] = asked
            counts[f"refused {population}"] = [both - one for both, one in zip(any_asked, asked, strict=True)]
        cells = (
            f"{right:,} of {right + wrong:,} {right / max(1, right + wrong):4.0%}" for right, wrong in counts.values()
        )
        print(f"  {tenth / 10:.1f}     " + "".join(f"{cell:>22}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", nargs="*", default=["en-fr", "en-hi", "en-ja", "en-zh", "en-de", "en-pt"])
    parser.add_argument("--pairs", type=int, default=15_000, help="sentence pairs that train the aligner")
    parser.add_argument("--grid", action="store_true", help="the aligner's min_score as well")
    parser.add_argument("--ideas", action="store_true", help="rules that were tried")
    parser.add_argument("--draw", type=Path, help="write the trade-off as an SVG picture, instead of tables")
    arguments = parser.parse_args()
    if not BITEXT.is_dir():
        print(f"skipped: no real data in {DATA}")
        return
    if arguments.draw:
        arguments.draw.write_text(picture(arguments.pair, arguments.pairs), encoding="utf-8")
        return
    by_score: Counter[tuple[str, int, bool]] = Counter()
    for pair in arguments.pair:
        report(pair, arguments, by_score)
    report_by_score(by_score)


if __name__ == "__main__":
    main()
