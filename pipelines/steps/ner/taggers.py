"""The taggers that the CLISM job can use: those in `TAGGERS`, and any spaCy pipeline that sets `doc.ents`.

Another tagger is a module with a class that finds mentions, and one entry here; `--tagger.model NAME` then selects it.
spaCy and its models are loaded when they are first used, once per process, and run on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.steps.common.sentence_pairs import EntityMention
from pipelines.steps.ner import english_rules, english_words
from pipelines.steps.ner.config import BUILTIN, TaggerConfig
from schemas.did_you_mean import closest
from schemas.errors import ConfigError
from schemas.spans import CharSpan

if TYPE_CHECKING:
    from spacy.language import Language

_NEWS_LANGUAGES = "ca da de el es fi fr hr it ja ko lt mk nb nl pl pt ro ru sl sv uk".split()
_ENTITY_FACTORIES = ("ner", "beam_ner", "entity_ruler")

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class EntityTagger(Protocol):
    def tag(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        """Returns the mentions of each text: sorted, disjoint, without white space at their edges.

        It keeps those whose label is in `TaggerConfig.labels`, or all if that is empty.
        """


@dataclass(frozen=True)
class TaggerKind:
    """How a job loads, checks and identifies one kind of tagger."""

    load: Callable[[TaggerConfig, str], EntityTagger]
    """Loads the tagger for texts in a language. Raises `ConfigError` if it cannot tag them."""
    labels: Callable[[TaggerConfig, str], Sequence[str]]
    """Returns the labels that the tagger may give, with which `--tagger.labels` is compared; none if it cannot tell."""
    version: Callable[[TaggerConfig, str], dict[str, str]]
    """Returns what decides the mentions, for the manifest: names, versions, and a checksum of files that can change."""


# ---------------------------------------------------------------- the built-in tagger


class _BuiltinTagger:
    def __init__(self, config: TaggerConfig) -> None:
        self.labels = config.labels
        _log.info(
            "The built-in tagger guesses English names from capitals and word lists. A trained model is better, above "
            "all at their types: --tagger.model en_core_web_sm, after: python -m spacy download en_core_web_sm"
        )

    def tag(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        return [[m for m in english_rules.tag(text) if not self.labels or m.label in self.labels] for text in texts]


def _load_builtin(config: TaggerConfig, lang: str) -> EntityTagger:
    if lang != "en":
        model = _suggested_model(lang)
        raise ConfigError(
            f"--tagger.model: the built-in tagger reads English (en), but the mentions are sought in {lang!r}. "
            f"Pass a spaCy pipeline for that language, such as --tagger.model {model}. {_install_hint(model)}"
        )
    return _BuiltinTagger(config)


def _builtin_version(config: TaggerConfig, lang: str) -> dict[str, str]:
    lists = english_words.DATA.iterdir()
    return {"name": BUILTIN, "version": english_rules.VERSION, "checksum": _checksum(lists)}


def _checksum(paths: Iterable[Any]) -> str:
    """Returns the SHA-256 over the files' names and bytes, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=str):
        digest.update(hashlib.sha256(path.read_bytes()).digest() + path.name.encode() + b"\0")
    return digest.hexdigest()


# ---------------------------------------------------------------- spaCy pipelines


class _SpacyTagger:
    def __init__(self, config: TaggerConfig, folder: Path) -> None:
        self.config = config
        self.nlp = _load_pipeline(folder)
        self.lock = threading.Lock()  # a memory zone belongs to one thread; a Beam worker may run several

    def tag(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        # Inside a memory zone the vocabulary forgets its new words, so millions of sentences take no more memory.
        with self.lock, self.nlp.memory_zone():
            docs = self.nlp.pipe(texts, batch_size=self.config.batch_size)
            return [
                _disjoint(text, ((ent.start_char, ent.end_char, ent.label_) for ent in doc.ents), self.config.labels)
                for text, doc in zip(texts, docs, strict=True)
            ]


def _disjoint(text: str, found: Iterable[tuple[int, int, str]], labels: Sequence[str]) -> list[EntityMention]:
    mentions: list[EntityMention] = []
    for start, end, label in sorted(found):
        covered = text[start:end]
        start, end = end - len(covered.lstrip()), start + len(covered.rstrip())
        if start < end and (not labels or label in labels) and (not mentions or mentions[-1].span.end <= start):
            mentions.append(EntityMention(CharSpan(start, end), label))
    return mentions


def _load_spacy(config: TaggerConfig, lang: str) -> EntityTagger:
    folder, _ = _find_pipeline(config, lang)
    try:
        return _SpacyTagger(config, folder)
    except ConfigError:
        raise
    except Exception as error:  # foreign code: a wrong version, its own errors, a missing library
        raise ConfigError(
            f"--tagger.model: the spaCy pipeline {config.model!r} is there but does not load: {type(error).__name__}: "
            f"{error}. Check what it needs with: python -m spacy validate"
        ) from error


def _spacy_labels(config: TaggerConfig, lang: str) -> Sequence[str]:
    """Returns every label that the pipeline's entity components announce; a custom component may announce none."""
    tagger = load_tagger(config, lang)
    assert isinstance(tagger, _SpacyTagger)
    return sorted({label for labels in tagger.nlp.pipe_labels.values() for label in labels})


def _spacy_version(config: TaggerConfig, lang: str) -> dict[str, str]:
    folder, meta = _find_pipeline(config, lang)
    version = {
        "name": f"{meta['lang']}_{meta.get('name', 'pipeline')}",
        "version": str(meta.get("version", "")),
        "spacy": metadata.version("spacy"),
    }
    if Path(config.model).is_dir():
        version["checksum"] = _checksum(path for path in folder.rglob("*") if path.is_file())
    return version


def _find_pipeline(config: TaggerConfig, lang: str) -> tuple[Path, dict[str, Any]]:
    """Returns the folder that holds `config.cfg`, and the content of its `meta.json`."""
    import spacy.util

    model = config.model
    folder = Path(model)
    if spacy.util.is_package(model):
        package = spacy.util.get_package_path(model)
        meta = _json(package / "meta.json")
        folder = package / f"{meta.get('lang')}_{meta.get('name')}-{meta.get('version')}"
    elif not folder.exists():
        installed = spacy.util.get_installed_models()
        close = closest(model, [*TAGGERS, *installed, *_KNOWN_MODELS])
        known = model if model in _KNOWN_MODELS else next((name for name in close if name in _KNOWN_MODELS), None)
        raise ConfigError(
            f"--tagger.model: {model!r} is neither {' nor '.join(map(repr, TAGGERS))} nor an installed spaCy "
            "pipeline nor a folder. "
            + (f"Did you mean {' or '.join(close)}? " if close and model not in close else "")
            + f"Installed: {' '.join(sorted(installed)) or 'none'}. {_install_hint(known or _suggested_model(lang))}"
        )
    if not (folder / "config.cfg").is_file() or not (folder / "meta.json").is_file():
        raise ConfigError(
            f"--tagger.model: {model!r} is no spaCy pipeline: expected config.cfg and meta.json in it, as nlp.to_disk "
            f"writes them" + (f"; found {_listing(folder)}." if folder.is_dir() else ".")
        )
    meta = _json(folder / "meta.json")
    if not _same_language(str(meta.get("lang", "")), lang):
        raise ConfigError(
            f"--tagger.model: {model!r} is a pipeline for {meta.get('lang')!r}, but mentions are sought in {lang!r}. "
            f"Pass one for that language, such as --tagger.model {_suggested_model(lang)}"
        )
    return folder, meta


def _load_pipeline(folder: Path) -> Language:
    import spacy

    config = spacy.util.load_config(folder / "config.cfg")
    keep = _needed_components(config)
    if not keep:
        names = " ".join(config["nlp"]["pipeline"]) or "none"
        raise ConfigError(
            f'--tagger.model: {folder.name!r} finds no entities: expected a component that does, such as "ner" or '
            f'"entity_ruler"; its components are: {names}.'
        )
    return spacy.load(folder, exclude=[name for name in config["nlp"]["pipeline"] if name not in keep])


def _needed_components(config: Mapping[str, Any]) -> list[str]:
    """Returns the components that `doc.ents` depends on, in the pipeline's order; none if no component sets it."""
    names: list[str] = config["nlp"]["pipeline"]
    disabled = config["nlp"].get("disabled", [])
    components = config["components"]
    finders = [name for name in names if name not in disabled and _sets_entities(components[name])]
    if not finders:
        return []
    if any(components[name].get("factory") not in ("ner", "beam_ner") for name in finders):
        # Rules may look at tags, lemmas or sentences: everything up to the last finder stays.
        return names[: names.index(finders[-1]) + 1]
    upstreams = {upstream for name in finders for upstream in _listens_to(components[name])}
    return [
        name
        for name in names
        if name in finders or name in upstreams or ("*" in upstreams and _embeds(components[name]))
    ]


def _sets_entities(component: Mapping[str, Any]) -> bool:
    from spacy.language import Language

    factory = component.get("factory", "")
    if factory == "span_ruler":
        return bool(component.get("annotate_ents"))
    if factory in _ENTITY_FACTORIES:
        return True
    return Language.has_factory(factory) and "doc.ents" in Language.get_factory_meta(factory).assigns


def _embeds(component: Mapping[str, Any]) -> bool:
    factory = str(component.get("factory", ""))
    return factory == "tok2vec" or factory.endswith("transformer")


def _listens_to(section: Any) -> Iterable[str]:
    """Yields the names (or "*") of the shared tok2vec or transformer components that a model listens to."""
    if isinstance(section, Mapping):
        if "Listener" in str(section.get("@architectures", "")):
            yield str(section.get("upstream", "*"))
        for value in section.values():
            yield from _listens_to(value)


# ---------------------------------------------------------------- what to tell the user


_KNOWN_MODELS = (
    "xx_ent_wiki_sm",
    *(f"{lang}_core_web_{size}" for lang in ("en", "zh") for size in ("sm", "md", "lg", "trf")),
    *(f"{lang}_core_news_{size}" for lang in _NEWS_LANGUAGES for size in ("sm", "md", "lg", "trf")),
)


def _suggested_model(lang: str) -> str:
    lang = {"no": "nb"}.get(lang, lang)
    if lang in ("en", "zh"):
        return f"{lang}_core_web_sm"
    return f"{lang}_core_news_sm" if lang in _NEWS_LANGUAGES else "xx_ent_wiki_sm"


def _install_hint(model: str) -> str:
    release = ".".join(metadata.version("spacy").split(".")[:2]) + ".0"
    wheel = f"{model}-{release}/{model}-{release}-py3-none-any.whl"
    return (
        f"Install it with: python -m spacy download {model} "
        f"(or: pip install https://github.com/explosion/spacy-models/releases/download/{wheel})"
    )


def _same_language(model_lang: str, lang: str) -> bool:
    norwegian = {"nb": "no", "nn": "no"}
    first, second = (code.split("-")[0] for code in (model_lang, lang))
    return first == "xx" or norwegian.get(first, first) == norwegian.get(second, second)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if names else "an empty folder"


# ---------------------------------------------------------------- what the job calls


TAGGERS: dict[str, TaggerKind] = {
    BUILTIN: TaggerKind(_load_builtin, lambda config, lang: english_rules.LABELS, _builtin_version),
}
_SPACY = TaggerKind(_load_spacy, _spacy_labels, _spacy_version)


def tagger_kind(config: TaggerConfig) -> TaggerKind:
    """Returns the tagger that `config.model` names; any other value is a spaCy pipeline."""
    return TAGGERS.get(config.model, _SPACY)


def load_tagger(config: TaggerConfig, lang: str) -> EntityTagger:
    """Returns the tagger for texts in `lang`, loaded once per process. Raises `ConfigError` if it cannot be loaded."""
    with _loading:
        return _load(config, lang)


@lru_cache(maxsize=8)
def _load(config: TaggerConfig, lang: str) -> EntityTagger:
    return tagger_kind(config).load(config, lang)


def check_tagger(config: TaggerConfig, lang: str) -> None:
    """Loads the model, and raises `ConfigError` if it cannot tag texts in `lang`."""
    if config.batch_size < 1:
        raise ConfigError(f"--tagger.batch-size: expected at least 1, found {config.batch_size}.")
    load_tagger(config, lang)
    known = tagger_kind(config).labels(config, lang)
    unknown = [label for label in config.labels if label not in known] if known else []
    if unknown:
        raise ConfigError(
            f"--tagger.labels: {' '.join(unknown)}: the model {config.model!r} has no such label; it has: "
            f"{' '.join(known)}."
        )


def tagger_version(config: TaggerConfig, lang: str) -> dict[str, str]:
    """Returns what decides the mentions, for the manifest: names, versions, and a checksum of files that can change."""
    return tagger_kind(config).version(config, lang)
