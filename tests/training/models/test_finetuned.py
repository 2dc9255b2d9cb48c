from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from schemas.errors import ConfigError, InputError
from tests.training.models.families import FAMILIES, family_folder
from training.data.batches import pack
from training.data.tag_windows import tag_names
from training.models.encoder import Encoder
from training.models.finetuned import load_finetuned, save_finetuned
from training.models.folder import Provenance, load_model, save_model
from training.models.heads import QaHead, SpanHead, TagHead, WaeExtractor, task_head
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import MethodSettings, Plain, Que, TwoStage, Unified

PROVENANCE = Provenance("xlm-roberta-base", {"name": "plain_qa"}, {"train": "3fa9"}, step=1_500, commit="b1c2")
SCORES = {"xquad.de": 71.25}
ENTITIES, RELATIONS = ("PER", "LOC"), ("contradiction", "entailment", "neutral")
AUTO: dict[str, Any] = {
    "qa": AutoModelForQuestionAnswering,
    "tagging": AutoModelForTokenClassification,
    "pairs": AutoModelForSequenceClassification,
}
PLAIN = {
    "qa": InferenceSettings(Plain(), "qa", max_tokens=100),
    "tagging": InferenceSettings(Plain(), "tagging", ENTITIES),
    "pairs": InferenceSettings(Plain(), "pairs", RELATIONS),
}
STANDARD = {"qa": "qa", "tagging": "tags", "pairs": "pairs"}
TEXT = "Anna lives in Hanoi."
IDS = [[0, 11, 12, 13, 2], [0, 17, 18, 2], [0, 11, 15, 16, 14, 19, 2]]


class Saved(NamedTuple):
    folder: Path
    head: Any
    encoder: Encoder


@pytest.fixture
def save(xlmr_folder: Path, tmp_path: Path) -> Callable[..., Saved]:
    """Writes a folder as a run does that has just ended."""

    def write(settings: InferenceSettings, family: str = "xlm-roberta", name: str = "model") -> Saved:
        base = tmp_path / family
        start = load_model(base if base.exists() else family_folder(family, xlmr_folder, [TEXT], base))
        config, method = start.language_model.config, settings.method
        encoder = Encoder(start.language_model.base_model)
        if not isinstance(method, Plain):
            add_que_token(start.language_model, start.tokenizer)
        torch.manual_seed(7)
        for parameter in encoder.parameters():  # trained
            parameter.data += 0.01 * torch.randn_like(parameter)
        heads: dict[str, Any] = {"span": SpanHead(32), "wae": WaeExtractor(32, 24)}
        classes = tag_names(settings.labels) if settings.kind == "tagging" else settings.labels
        heads[STANDARD[settings.kind]] = task_head(STANDARD[settings.kind], config, classes)
        for head in heads.values():
            for parameter in head.parameters():
                torch.nn.init.normal_(parameter)
        save_finetuned(tmp_path / name, start.language_model, start.tokenizer, heads, settings, PROVENANCE, SCORES)
        needed = {Que: "span", Unified: "wae"}.get(type(method), STANDARD[settings.kind])
        return Saved(tmp_path / name, heads[needed].eval(), encoder.eval())

    return write


def said(head: Any, encoder: Encoder, ids: list[list[int]] = IDS) -> torch.Tensor:
    """What a standard head says of every token, or of every sequence."""
    inputs = pack(ids)
    hidden_TD = encoder(inputs)
    if isinstance(head, QaHead):
        return torch.stack(head(hidden_TD), dim=1)
    places = torch.arange(inputs.tokens) if isinstance(head, TagHead) else inputs.bounds_N1[:-1]
    return head(hidden_TD, places)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", AUTO)
def test_hugging_face_loads_every_weight_and_says_the_same(kind: str, family: str, save: Callable[..., Saved]) -> None:
    folder, head, encoder = save(PLAIN[kind], family)
    model, info = AUTO[kind].from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    ids_NL, mask_NL = pack(IDS).padded(model.config.pad_token_id)
    with torch.no_grad():
        theirs = model.eval()(input_ids=ids_NL, attention_mask=mask_NL.long())
        expected = {
            "qa": lambda: torch.stack([theirs.start_logits, theirs.end_logits], dim=2)[mask_NL],
            "tagging": lambda: theirs.logits[mask_NL],
            "pairs": lambda: theirs.logits,
        }[kind]()
        torch.testing.assert_close(said(head, encoder), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", AUTO)
def test_what_was_saved_is_loaded_to_the_bit(kind: str, family: str, save: Callable[..., Saved]) -> None:
    folder, head, encoder = save(PLAIN[kind], family)
    loaded = load_finetuned(folder)
    assert (loaded.settings, loaded.provenance, list(loaded.heads)) == (PLAIN[kind], PROVENANCE, [STANDARD[kind]])
    with torch.no_grad():
        its_head = loaded.heads[STANDARD[kind]].eval()
        assert torch.equal(said(its_head, Encoder(loaded.language_model.base_model).eval()), said(head, encoder))
    again = folder.with_name("again")
    save_finetuned(again, *loaded, SCORES)
    assert files_of(again) == files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


OTHERS: list[tuple[MethodSettings, str, str]] = [
    (Que(), "qa", "span"),
    (Unified(threshold=0.25, extractor_inner=24), "tagging", "wae"),
    (Unified(extractor_inner=24), "pairs", "wae"),
    (TwoStage(hard="mml", alpha=0.25), "qa", "qa"),
]


@pytest.mark.parametrize(("method", "kind", "name"), OTHERS)
def test_every_method_keeps_its_settings_and_its_head(
    method: MethodSettings, kind: str, name: str, save: Callable[..., Saved]
) -> None:
    settings = replace(PLAIN[kind], method=method, stride=20, max_query_tokens=32, max_answer_tokens=9)
    folder, head, encoder = save(settings)
    loaded = load_finetuned(folder)
    assert loaded.settings == settings and list(loaded.heads) == [name]
    assert loaded.tokenizer.convert_tokens_to_ids("[QUE]") == len(loaded.tokenizer) - 1
    weights = loaded.heads[name].state_dict()
    assert all(torch.equal(weights[key], value) for key, value in head.state_dict().items())
    assert torch.equal(Encoder(loaded.language_model.base_model).eval()(pack(IDS)), encoder(pack(IDS)))
    assert (folder / "heads.safetensors").exists() == (name != "qa")
    again = folder.with_name("again")
    save_finetuned(again, *loaded, SCORES)
    assert files_of(again) == files_of(folder)


def test_the_configuration_names_labels_and_nothing_of_ours(save: Callable[..., Saved]) -> None:
    tags = json.loads((save(PLAIN["tagging"], name="tags").folder / "config.json").read_text())
    assert tags["architectures"] == ["XLMRobertaForTokenClassification"]
    assert tags["id2label"] == {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC", "4": "I-LOC"}
    assert tags["label2id"] == {"O": 0, "B-PER": 1, "I-PER": 2, "B-LOC": 3, "I-LOC": 4}
    pairs = json.loads((save(PLAIN["pairs"], name="pairs").folder / "config.json").read_text())
    assert pairs["problem_type"] == "single_label_classification"
    assert list(pairs["id2label"].values()) == list(RELATIONS)
    assert "packed" not in json.dumps([tags, pairs])


def test_saving_leaves_the_model_that_is_trained_as_it_was(xlmr_folder: Path, tmp_path: Path) -> None:
    model, tokenizer, _, _ = load_model(family_folder("bert", xlmr_folder, [TEXT], tmp_path / "bert"))
    encoder = Encoder(model.base_model).eval()
    before, config, names = encoder(pack(IDS)), model.config.to_dict(), list(tokenizer.model_input_names)
    heads = {"tags": task_head("tags", model.config, tag_names(ENTITIES))}
    save_finetuned(tmp_path / "model", model, tokenizer, heads, PLAIN["tagging"], PROVENANCE, SCORES)
    assert torch.equal(encoder(pack(IDS)), before)
    assert model.config.to_dict() == config and tokenizer.model_input_names == names
    assert "token_type_ids" in names and "model_input_names" not in tokenizer.init_kwargs


@pytest.mark.parametrize("kind", AUTO)
def test_a_model_of_another_kind_is_a_starting_point(
    kind: str, save: Callable[..., Saved], caplog: pytest.LogCaptureFixture
) -> None:
    """From tags to questions, say: the encoder and the labels of the new task, no trace of the old one's."""
    folder, head, encoder = save(PLAIN[kind])
    start = load_model(folder)
    assert "no MLM head: it begins with random weights" in caplog.text
    assert torch.equal(Encoder(start.language_model.base_model).eval()(pack(IDS)), encoder(pack(IDS)))
    assert start.heads[STANDARD[kind]].settings == head.settings
    weights = start.heads[STANDARD[kind]].state_dict()
    assert all(torch.equal(weights[key], value) for key, value in head.state_dict().items())
    for other, name in STANDARD.items():
        settings = replace(PLAIN[other], labels=PLAIN[other].labels[:2])
        classes = tag_names(settings.labels) if other == "tagging" else settings.labels
        new = {name: task_head(name, start.language_model.config, classes)}
        at = folder.with_name(f"{kind}-{other}")
        save_finetuned(at, start.language_model, start.tokenizer, new, settings, PROVENANCE, {})
        assert load_finetuned(at).settings == settings
        assert AUTO[other].from_pretrained(at).config.num_labels == len(classes or "SE")


def test_a_pretrained_model_is_not_a_finetuned_one(xlmr_folder: Path, tmp_path: Path) -> None:
    model, tokenizer, _, _ = load_model(xlmr_folder)
    save_model(tmp_path / "ours", model, tokenizer, {}, PROVENANCE)
    with pytest.raises(InputError, match=r"pre-trained, but not fine-tuned. Fine-tune it first: polyspan-train fine"):
        load_finetuned(tmp_path / "ours")
    with pytest.raises(InputError, match=r"found XLMRobertaForMaskedLM. Fine-tune it first: polyspan-train fine"):
        load_finetuned(xlmr_folder)


# --- models that others have fine-tuned -------------------------------------------------------------------------------


def foreign(base: Path, folder: Path, kind: str, names: tuple[str, ...] = (), **changes: Any) -> Any:
    """A model with a random head, as transformers writes it."""
    shutil.copytree(base, folder)
    if names:
        changes |= {"id2label": dict(enumerate(names)), "label2id": {name: at for at, name in enumerate(names)}}
    torch.manual_seed(5)
    model = AUTO[kind].from_pretrained(base, config=AutoConfig.from_pretrained(base, **changes)).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", AUTO)
def test_foreign_models_are_read_as_plain_ones(kind: str, family: str, xlmr_folder: Path, tmp_path: Path) -> None:
    base = family_folder(family, xlmr_folder, [TEXT], tmp_path / "base")
    classes = tag_names(ENTITIES) if kind == "tagging" else PLAIN[kind].labels
    model = foreign(base, tmp_path / "theirs", kind, classes)
    loaded = load_finetuned(tmp_path / "theirs")
    assert loaded.settings == replace(PLAIN[kind], max_tokens=384) and loaded.provenance is None
    ids_NL, mask_NL = pack(IDS).padded(model.config.pad_token_id)
    with torch.no_grad():
        ours = said(loaded.heads[STANDARD[kind]].eval(), Encoder(loaded.language_model.base_model).eval())
        theirs = model(input_ids=ids_NL, attention_mask=mask_NL.long())
        if kind == "qa":
            torch.testing.assert_close(ours[:, 0], theirs.start_logits[mask_NL], rtol=0, atol=1e-5)
        else:
            expected = theirs.logits[mask_NL] if kind == "tagging" else theirs.logits
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


def test_foreign_tags_may_come_in_any_order_and_in_iob1(xlmr_folder: Path, tmp_path: Path) -> None:
    """The labels of FacebookAI/xlm-roberta-large-finetuned-conll03-english: no entity began next to another PER."""
    names = ("B-LOC", "B-MISC", "B-ORG", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O")
    model = foreign(xlmr_folder, tmp_path / "theirs", "tagging", names)
    loaded = load_finetuned(tmp_path / "theirs")
    assert loaded.settings.labels == ("LOC", "MISC", "ORG", "PER")
    ids_NL, mask_NL = pack(IDS).padded(model.config.pad_token_id)
    with torch.no_grad():
        ours = said(loaded.heads["tags"].eval(), Encoder(loaded.language_model.base_model).eval()).softmax(dim=1)
        theirs = model(input_ids=ids_NL, attention_mask=mask_NL.long()).logits[mask_NL].softmax(dim=1)
    for at, name in enumerate(tag_names(loaded.settings.labels)):
        expected = theirs[:, names.index(name)] if name in names else torch.zeros(len(theirs))
        torch.testing.assert_close(ours[:, at], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("O", "B-PER", "I-PER", "E-PER", "S-PER"), "found O, B-PER, I-PER, E-PER, S-PER"),
        (("LABEL_0", "LABEL_1"), "found LABEL_0, LABEL_1"),
        (("NOUN", "VERB", "O"), "found NOUN, VERB, O"),
        (("B-PER", "I-PER"), "found B-PER, I-PER"),
        (("O", "B-"), "found O, B-"),
    ],
)
def test_tags_that_are_no_iob_are_refused(
    names: tuple[str, ...], found: str, xlmr_folder: Path, tmp_path: Path
) -> None:
    foreign(xlmr_folder, tmp_path / "theirs", "tagging", names)
    with pytest.raises(InputError, match=rf"expected tags O, B-… and I-… in config.json's id2label, {found}\. Fine"):
        load_finetuned(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("names", "problem"), [(("score",), "regression"), (("score",), None), (("a", "b"), "multi_label_classification")]
)
def test_classifiers_of_no_or_many_labels_are_refused(
    names: tuple[str, ...], problem: str | None, xlmr_folder: Path, tmp_path: Path
) -> None:
    foreign(xlmr_folder, tmp_path / "theirs", "pairs", names, problem_type=problem)
    with pytest.raises(InputError, match=f"expected a classifier of one label among several, found {problem}"):
        load_finetuned(tmp_path / "theirs")


def test_a_foreign_head_without_weights_is_refused(xlmr_folder: Path, tmp_path: Path) -> None:
    theirs = shutil.copytree(xlmr_folder, tmp_path / "theirs")
    config = json.loads((theirs / "config.json").read_text())
    config["architectures"] = ["XLMRobertaForQuestionAnswering"]
    (theirs / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"lack 2 tensors of a XLMRobertaForQuestionAnswering, such as qa_outputs"):
        load_finetuned(theirs)


def test_a_foreign_model_of_few_positions_reads_no_more(xlmr_folder: Path, tmp_path: Path) -> None:
    config = AutoConfig.from_pretrained(xlmr_folder, max_position_embeddings=66)
    shutil.copytree(xlmr_folder, tmp_path / "theirs")
    AutoModelForQuestionAnswering.from_config(config).save_pretrained(tmp_path / "theirs")
    loaded = load_finetuned(tmp_path / "theirs")
    assert loaded.settings.max_tokens == Encoder(loaded.language_model.base_model).max_tokens == 64


def test_a_foreign_bert_that_knows_token_types_is_read_with_a_warning(
    xlmr_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, save: Callable[..., Saved]
) -> None:
    load_finetuned(save(PLAIN["pairs"], "bert").folder)
    assert "token type" not in caplog.text
    foreign(tmp_path / "bert", tmp_path / "theirs", "pairs", RELATIONS)
    load_finetuned(tmp_path / "theirs")
    assert "was trained with token types" in caplog.text


def test_a_foreign_pickle_is_refused_with_a_command_that_keeps_its_head(xlmr_folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    model = foreign(xlmr_folder, theirs, "qa")
    torch.save(model.state_dict(), theirs / "pytorch_model.bin")
    (theirs / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"pytorch_model.bin is a pickle") as caught:
        load_finetuned(theirs)
    exec(str(caught.value).split("\n")[1].removeprefix('python -c "').removesuffix('"'), {})
    head = load_finetuned(f"{theirs}-safetensors").heads["qa"]
    assert torch.equal(head.state_dict()["qa_outputs.weight"], model.qa_outputs.weight)


# --- damage and misuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
@pytest.mark.parametrize(("method", "name"), [(Plain(), "model"), (Que(), "model"), (Que(), "heads")])
def test_torn_and_altered_weights_are_refused(
    method: MethodSettings, name: str, spoil: Callable[[bytes], bytes], save: Callable[..., Saved]
) -> None:
    path = save(replace(PLAIN["qa"], method=method)).folder / f"{name}.safetensors"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=rf"{name}.safetensors is not the file that was written"):
        load_finetuned(path.parent)


@pytest.mark.parametrize("name", ["model", "heads"])
def test_missing_weights_are_named(name: str, save: Callable[..., Saved]) -> None:
    folder = save(replace(PLAIN["qa"], method=Que())).folder
    (folder / f"{name}.safetensors").unlink()
    with pytest.raises(InputError, match=rf"{name}.safetensors"):
        load_finetuned(folder)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"reading": {"method": {"name": "plain"}, "kind": "tagging"}}, "its reading is not as it was written"),
        ({"reading": {"method": {"name": "best"}, "kind": "qa", "labels": []}}, r"not as it was written \(KeyError"),
        ({"reading": {"method": {"name": "plain"}, "kind": "ner", "labels": []}}, r"not as it was written \(KeyError"),
        ({"reading": {"method": {"name": "plain", "deep": 1}, "kind": "qa", "labels": []}}, "not as it was written"),
        ({"reading": {"method": {"name": "plain"}, "kind": "qa", "labels": [], "x": 1}}, "not as it was written"),
        ({"reading": []}, "its reading is not as it was written"),
        ({"heads": {}}, "expected a head tags in polyspan.json, found none"),
        ({"heads": {"tags": {"hidden_size": 32, "labels": ["O"]}}}, "its heads cannot be read"),
        ({"heads": {"qa": {"hidden_size": 32}}}, r"its heads cannot be read \(SafetensorError.*qa_outputs"),
        (
            {"reading": {"method": {"name": "plain"}, "kind": "tagging", "labels": ["LOC", "PER"]}},
            "polyspan.json and config.json disagree on labels or sizes",
        ),
        ({"format_version": 2}, "this release of polyspan reads version 1"),
    ],
)
def test_a_changed_polyspan_json_is_refused(change: dict[str, Any], expected: str, save: Callable[..., Saved]) -> None:
    path = save(PLAIN["tagging"]).folder / "polyspan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=expected):
        load_finetuned(path.parent)


def test_saving_without_the_head_that_prediction_needs_is_refused(xlmr_folder: Path, tmp_path: Path) -> None:
    start = load_model(xlmr_folder)
    with pytest.raises(ConfigError, match=r"expected a head qa \(QaHead\) to save, found span \(SpanHead\)"):
        save_finetuned(
            tmp_path / "m", start.language_model, start.tokenizer, {"span": SpanHead(32)}, PLAIN["qa"], PROVENANCE, {}
        )
    with pytest.raises(ConfigError, match=r"expected a head span \(SpanHead\) to save, found none"):
        que = replace(PLAIN["qa"], method=Que())
        save_finetuned(tmp_path / "m", start.language_model, start.tokenizer, {}, que, PROVENANCE, {})
    assert not list(tmp_path.iterdir())


def test_saving_replaces_a_model_of_ours_and_nothing_else(save: Callable[..., Saved], tmp_path: Path) -> None:
    save(replace(PLAIN["qa"], method=Que()))
    folder = save(PLAIN["pairs"]).folder
    assert load_finetuned(folder).settings == PLAIN["pairs"]
    assert not (folder / "heads.safetensors").exists()
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ConfigError, match="exists and is no model of ours"):
        save(PLAIN["pairs"], name="thesis")
    assert list((tmp_path / "thesis").iterdir()) == []


def test_a_save_that_fails_leaves_the_model_that_was_there(
    save: Callable[..., Saved], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(PLAIN["qa"]).folder
    before = files_of(folder)

    def fail(*_: object) -> str:
        raise OSError("no space left")

    monkeypatch.setattr("training.models.folder.model_card", fail)
    with pytest.raises(OSError, match="no space left"):
        save(PLAIN["pairs"])
    assert files_of(folder) == before


def test_the_card_and_polyspan_json_say_what_the_model_is(save: Callable[..., Saved]) -> None:
    folder = save(PLAIN["tagging"]).folder
    card = (folder / "README.md").read_text()
    expected = (
        "pipeline_tag: token-classification",
        "AutoModelForTokenClassification",
        "| xquad.de | 71.25 |",
        "1,500",
    )
    assert all(part in card for part in expected) and "pooler" not in card
    about = json.loads((folder / "polyspan.json").read_text())
    assert about["scores"] == SCORES and about["reading"]["method"] == {"name": "plain"}
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors", ".md"}
    que = (save(replace(PLAIN["qa"], method=Que())).folder / "README.md").read_text()
    assert "pipeline_tag" not in que and "load_finetuned" in que and "AutoModelForQ" not in que
    assert "No class or pipeline of transformers reads its head" in que
