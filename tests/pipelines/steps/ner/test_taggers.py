"""The tagger interface: the built-in rules, and spaCy pipelines trained here in a second or two."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from pipelines.steps.common.sentence_pairs import EntityMention
from pipelines.steps.ner import taggers
from pipelines.steps.ner.config import TaggerConfig
from pipelines.steps.ner.taggers import TAGGERS, TaggerKind, check_tagger, load_tagger, tagger_version
from schemas.errors import ConfigError
from schemas.spans import CharSpan

PEOPLE, PLACES = ["Anna", "Oda", "Tarn", "Mira"], ["Hanoi", "Dresden", "Lyon", "Quillon"]
SENTENCES = [f"{person} lives in {place} ." for person in PEOPLE for place in PLACES]


def gold(nlp: Language, text: str) -> Example:
    person, place = text.split()[0], text.split()[3]
    start = text.index(place)
    spans = [(0, len(person), "PERSON"), (start, start + len(place), "GPE")]
    tags = {"tags": ["NNP", "VBZ", "IN", "NNP", "."]} if "tagger" in nlp.pipe_names else {}
    return Example.from_dict(nlp.make_doc(text), {"entities": spans, **tags})


def train(*, shared: bool) -> Language:
    """Blank English with a NER that overfits `SENTENCES`; `shared`: it listens to a tok2vec that a tagger uses too."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    if shared:
        nlp.add_pipe("tok2vec", config={"model": {"width": 32, "depth": 1, "embed_size": 500}})
        listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32, "upstream": "*"}
        nlp.add_pipe("tagger", config={"model": {"tok2vec": listener}})
        nlp.add_pipe("ner", config={"model": {"tok2vec": listener}})
        nlp.add_pipe("sentencizer")
    else:
        nlp.add_pipe("ner")
    examples = [gold(nlp, text) for text in SENTENCES]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(40 if shared else 15):
        nlp.update(examples, sgd=optimizer)
    return nlp


@pytest.fixture(scope="module", params=[False, True], ids=["own_tok2vec", "shared_tok2vec"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Language, Path]:
    nlp = train(shared=request.param)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    nlp.to_disk(folder)
    return nlp, folder


def saved(nlp: Language, folder: Path) -> TaggerConfig:
    nlp.to_disk(folder)
    return TaggerConfig(str(folder))


def mention(start: int, end: int, label: str) -> EntityMention:
    return EntityMention(CharSpan(start, end), label)


# ---------------------------------------------------------------- spaCy


def test_folder_tags_as_the_whole_pipeline_does(model: tuple[Language, Path]) -> None:
    nlp, folder = model
    texts = ["Anna lives in Hanoi .", "", "Mira lives in Lyon .", "nobody"]
    tagged = load_tagger(TaggerConfig(str(folder)), "en").tag(texts)
    assert tagged[0] == [mention(0, 4, "PERSON"), mention(14, 19, "GPE")]
    assert tagged == [[mention(e.start_char, e.end_char, e.label_) for e in nlp(text).ents] for text in texts]


def test_only_what_the_entities_need_is_loaded(model: tuple[Language, Path]) -> None:
    nlp, folder = model
    tagger: Any = load_tagger(TaggerConfig(str(folder)), "en")
    needed = [name for name in nlp.pipe_names if name not in ("tagger", "sentencizer")]
    assert tagger.nlp.pipe_names == needed
    assert ("tok2vec" in needed) == ("tagger" in nlp.pipe_names)


def test_rules_keep_what_they_may_look_at(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Hanoi"}])
    nlp.add_pipe("merge_entities")
    tagger: Any = load_tagger(saved(nlp, tmp_path / "rules"), "en")
    assert tagger.nlp.pipe_names == ["sentencizer", "entity_ruler"]
    assert tagger.tag(["In Hanoi\u00a0."]) == [[mention(3, 8, "GPE")]]


def test_labels_filter_and_edges_lose_their_white_space(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(  # spaCy's tokenizer makes a token of the second blank
        [{"label": "GPE", "pattern": [{"IS_SPACE": True}, {"TEXT": "Hanoi"}]}, {"label": "PERSON", "pattern": "Anna"}]
    )
    config = saved(nlp, tmp_path / "spaces")
    text = "Anna in  Hanoi"
    assert load_tagger(config, "en").tag([text]) == [[mention(0, 4, "PERSON"), mention(9, 14, "GPE")]]
    assert load_tagger(replace(config, labels=("GPE",)), "en").tag([text]) == [[mention(9, 14, "GPE")]]


def test_a_package_loads_by_its_name(
    model: tuple[Language, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp, folder = model
    name = f"en_tiny_{len(nlp.pipe_names)}"
    data = tmp_path / name / f"{name}-1.2.3"
    shutil.copytree(folder, data)
    meta = {**json.loads((folder / "meta.json").read_text()), "name": name.removeprefix("en_"), "version": "1.2.3"}
    for path in (data, data.parent):
        (path / "meta.json").write_text(json.dumps(meta))
    (data.parent / "__init__.py").write_text("")
    info = tmp_path / f"{name}-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = TaggerConfig(name)
    check_tagger(config, "en")
    assert load_tagger(config, "en").tag(["Oda lives in Dresden ."])[0][1] == mention(13, 20, "GPE")
    assert tagger_version(config, "en") == {"name": name, "version": "1.2.3", "spacy": spacy.__version__}


def test_the_vocabulary_does_not_grow_with_the_texts(model: tuple[Language, Path]) -> None:
    tagger: Any = load_tagger(TaggerConfig(str(model[1])), "en")
    tagger.tag(["Anna lives in Hanoi ."])
    before = len(list(tagger.nlp.vocab)), len(tagger.nlp.vocab.strings)
    tagger.tag([f"word{i} other{i}" for i in range(500)])
    assert (len(list(tagger.nlp.vocab)), len(tagger.nlp.vocab.strings)) == before


def test_the_checksum_follows_the_files(model: tuple[Language, Path], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        shutil.copytree(model[1], folder)
    versions = [tagger_version(TaggerConfig(str(folder)), "en") for folder in (first, second)]
    assert versions[0] == versions[1]
    assert versions[0]["spacy"] == spacy.__version__
    (second / "vocab" / "strings.json").write_text("[]")
    assert tagger_version(TaggerConfig(str(second)), "en") != versions[0]


# ---------------------------------------------------------------- built-in


def test_builtin_is_the_default_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    taggers._load.cache_clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            check_tagger(TaggerConfig(), "en")
    assert [record.message.count("python -m spacy download en_core_web_sm") for record in caplog.records] == [1]


def test_builtin_filters_labels() -> None:
    tagger = load_tagger(TaggerConfig(labels=("GPE",)), "en")
    assert tagger.tag(["Anna lives in Hanoi.", "Nobody."]) == [[mention(14, 19, "GPE")], []]


def test_builtin_version_names_its_lists() -> None:
    version = tagger_version(TaggerConfig(), "en")
    assert version["name"] == "builtin" and len(version["checksum"]) == 64


def test_a_tagger_is_loaded_once_per_process() -> None:
    assert load_tagger(TaggerConfig(), "en") is load_tagger(TaggerConfig(), "en")


# ---------------------------------------------------------------- another tagger


class FirstWords:
    """Takes the first word of every text for a name."""

    def tag(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        return [[mention(0, len(text.split()[0]), "NAME")] if text.split() else [] for text in texts]


def test_a_tagger_that_is_added_to_the_table_is_selected_checked_and_versioned_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = TaggerKind(
        lambda config, lang: FirstWords(), lambda config, lang: ["NAME"], lambda config, lang: {"v": lang}
    )
    monkeypatch.setitem(TAGGERS, "first-words", kind)
    config = TaggerConfig("first-words", labels=("NAME",))
    check_tagger(config, "sw")
    assert load_tagger(config, "sw").tag(["Hanoi ni mji", ""]) == [[mention(0, 5, "NAME")], []]
    assert tagger_version(config, "sw") == {"v": "sw"}
    with pytest.raises(ConfigError, match="GPE: the model 'first-words' has no such label; it has: NAME"):
        check_tagger(replace(config, labels=("GPE",)), "sw")
    with pytest.raises(ConfigError, match=r"'first-word' is neither 'builtin' nor 'first-words' nor .* Did you mean"):
        check_tagger(TaggerConfig("first-word"), "en")


# ---------------------------------------------------------------- configurations that cannot work


@pytest.mark.parametrize(
    "config, lang, expected",
    [
        (TaggerConfig("en_core_web_sm2"), "en", ["en_core_web_sm2", "Did you mean en_core_web_sm", "Installed:"]),
        (TaggerConfig("bultin"), "en", ["Did you mean builtin?"]),
        (TaggerConfig("zz_absent"), "de", ["python -m spacy download de_core_news_sm", "pip install https://"]),
        (TaggerConfig(), "de", ["English", "'de'", "--tagger.model de_core_news_sm"]),
        (TaggerConfig(), "sw", ["xx_ent_wiki_sm"]),
        (TaggerConfig(labels=("PER", "GPE")), "en", ["--tagger.labels: PER:", "PERSON"]),
        (TaggerConfig(batch_size=0), "en", ["--tagger.batch-size", "found 0"]),
        (TaggerConfig("pytest"), "en", ["no spaCy pipeline"]),
    ],
)
def test_config_errors_say_what_to_do(config: TaggerConfig, lang: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check_tagger(config, lang)
    for words in expected:
        assert words in str(caught.value)


def test_missing_package_gives_both_install_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy.util.is_package", lambda name: False)
    with pytest.raises(ConfigError) as caught:
        check_tagger(TaggerConfig("en_core_web_sm"), "en")
    assert "python -m spacy download en_core_web_sm (or: pip install https://" in str(caught.value)
    assert "Did you mean" not in str(caught.value)


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ConfigError, match=r"no spaCy pipeline: expected config\.cfg .*; found notes\.txt"):
        check_tagger(TaggerConfig(str(tmp_path)), "en")


def test_a_pipeline_without_entities_lists_its_components(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    with pytest.raises(ConfigError, match=r'finds no entities: .*"ner".* its components are: sentencizer'):
        check_tagger(saved(nlp, tmp_path / "empty"), "en")


def test_a_pipeline_for_another_language(tmp_path: Path) -> None:
    nlp = spacy.blank("de")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "LOC", "pattern": "Hanoi"}])
    config = saved(nlp, tmp_path / "german")
    check_tagger(config, "de")
    with pytest.raises(ConfigError, match="pipeline for 'de', but mentions are sought in 'en'"):
        check_tagger(config, "en")


def test_labels_that_the_model_lacks(model: tuple[Language, Path]) -> None:
    config = TaggerConfig(str(model[1]), labels=("GPE", "ORG"))
    with pytest.raises(ConfigError, match=r"ORG: the model .* has no such label; it has: GPE PERSON"):
        check_tagger(config, "en")


def test_a_broken_pipeline_says_why(model: tuple[Language, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model[1], broken)
    shutil.rmtree(broken / "ner")
    with pytest.raises(ConfigError, match=r"does not load: .*spacy validate"):
        check_tagger(TaggerConfig(str(broken)), "en")
