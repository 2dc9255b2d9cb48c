from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase

from schemas.errors import ConfigError, InputError
from tests.training.models.families import FAMILIES, family_folder
from training.data.batches import pack
from training.models.encoder import Encoder
from training.models.folder import Provenance, load_model, save_model
from training.models.heads import MlmHead, SpanHead, WaeExtractor
from training.models.tokenizer import add_que_token, load_tokenizer

PROVENANCE = Provenance(
    base_model="xlm-roberta-base",
    recipe={"name": "clism", "steps": 15_000},
    data={"clism-en-vi": "3fa9"},
    step=1_500,
    commit="b1c2",
)
TEXT = "Anna lives in [QUE]."


@pytest.fixture
def ours(xlmr_folder: Path, tmp_path: Path) -> Path:
    """A folder that `save_model` has written."""
    model, tokenizer, _, _ = load_model(xlmr_folder)
    add_que_token(model, tokenizer)
    torch.manual_seed(3)
    heads = {"wae": WaeExtractor(32, 24), "span": SpanHead(32, deep=True)}
    save_model(tmp_path / "model", model, tokenizer, heads, PROVENANCE)
    return tmp_path / "model"


@pytest.fixture
def theirs(xlmr_folder: Path, tmp_path: Path) -> Path:
    """A user's folder, to spoil."""
    return shutil.copytree(xlmr_folder, tmp_path / "theirs")


def test_a_saved_tokenizer_is_one_for_transformers_4_too(ours: Path, que_tokenizer: PreTrainedTokenizerBase) -> None:
    """Release 4 has a mapping under the name under which 5 writes a list, and fails at the list."""
    values = json.loads((ours / "tokenizer_config.json").read_text("utf-8"))
    assert "extra_special_tokens" not in values and "[QUE]" in values["additional_special_tokens"]
    found = load_tokenizer(ours, add_que=False)
    assert found.backend_tokenizer.to_str() == que_tokenizer.backend_tokenizer.to_str()
    assert found.extra_special_tokens == que_tokenizer.extra_special_tokens


def test_what_was_saved_is_loaded_to_the_bit(ours: Path) -> None:
    model, tokenizer, heads, provenance = load_model(ours)
    again = ours.with_name("again")
    save_model(again, model, tokenizer, heads, PROVENANCE)
    assert provenance == PROVENANCE
    assert sorted(path.name for path in ours.iterdir()) == sorted(path.name for path in again.iterdir())
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in ours.iterdir())
    torch.manual_seed(3)
    for name, expected in {"wae": WaeExtractor(32, 24), "span": SpanHead(32, deep=True)}.items():
        assert heads[name].settings == expected.settings
        assert all(torch.equal(heads[name].state_dict()[key], value) for key, value in expected.state_dict().items())


def test_hugging_face_loads_the_encoder_with_equal_outputs_and_the_tokenizer_with_que(ours: Path) -> None:
    model, tokenizer, _, _ = load_model(ours)
    auto, auto_tokenizer = AutoModel.from_pretrained(ours), AutoTokenizer.from_pretrained(ours)
    inputs = auto_tokenizer([TEXT, "x"], padding=True, return_tensors="pt")
    assert inputs.input_ids.tolist() == tokenizer([TEXT, "x"], padding=True).input_ids
    assert tokenizer.convert_tokens_to_ids("[QUE]") in inputs.input_ids[0]
    encoder = Encoder(model.base_model).eval()
    with torch.no_grad():
        expected = auto.eval()(**inputs).last_hidden_state
        assert torch.equal(encoder.model(**inputs).last_hidden_state, expected)
        masked = AutoModelForMaskedLM.from_pretrained(ours).eval()(**inputs).logits
        assert torch.equal(model.eval()(**inputs).logits, masked)


def test_que_is_one_special_token_at_the_end_of_the_vocabulary(xlmr_folder: Path) -> None:
    plain, tokenizer = load_tokenizer(xlmr_folder, add_que=False), load_tokenizer(xlmr_folder)
    assert len(tokenizer) == len(plain) + 1
    assert tokenizer.convert_tokens_to_ids("[QUE]") == len(plain)
    assert tokenizer.tokenize(TEXT)[-2:] != plain.tokenize(TEXT)[-2:]
    assert tokenizer.tokenize(TEXT).count("[QUE]") == 1
    assert "[QUE]" in tokenizer.all_special_tokens
    assert set(plain.all_special_tokens) < set(tokenizer.all_special_tokens)


def test_que_joins_the_special_tokens_of_a_user(theirs: Path) -> None:
    tokenizer = load_tokenizer(theirs, add_que=False)
    tokenizer.add_special_tokens({"extra_special_tokens": ["[OWN]"]})
    tokenizer.save_pretrained(theirs)
    assert {"[OWN]", "[QUE]"} < set(load_tokenizer(theirs).all_special_tokens)


def test_add_que_token_starts_it_near_mask_and_leaves_every_other_row(xlmr_folder: Path) -> None:
    model, tokenizer, _, _ = load_model(xlmr_folder)
    before, bias = model.get_input_embeddings().weight.detach().clone(), model.lm_head.bias.detach().clone()
    que_id = add_que_token(model, tokenizer)
    rows = model.get_input_embeddings().weight.detach()
    assert que_id == len(before) == len(tokenizer) - 1
    assert len(rows) % 64 == 0 and model.config.vocab_size == len(rows)
    assert torch.equal(rows[:que_id], before)
    assert not rows[que_id + 1 :].any()
    distance = (rows[que_id] - before[tokenizer.mask_token_id]).norm() / before[tokenizer.mask_token_id].norm()
    assert 0.05 < distance < 0.2
    assert torch.equal(model.lm_head.bias[:que_id], bias)
    assert (model.lm_head.bias[que_id:] == bias[tokenizer.mask_token_id]).all()
    assert model.lm_head.decoder.weight is model.get_input_embeddings().weight


def test_add_que_token_is_a_function_of_its_seed(xlmr_folder: Path) -> None:
    def rows(seed: int) -> torch.Tensor:
        model, tokenizer, _, _ = load_model(xlmr_folder)
        torch.manual_seed(torch.seed())
        add_que_token(model, tokenizer, seed)
        return model.get_input_embeddings().weight

    assert torch.equal(rows(0), rows(0))
    assert not torch.equal(rows(0), rows(1))


def test_a_que_token_that_was_trained_stays(ours: Path) -> None:
    model, tokenizer, _, _ = load_model(ours)
    rows = model.get_input_embeddings().weight.detach()
    que_id = tokenizer.convert_tokens_to_ids("[QUE]")
    rows[que_id] = 7
    assert add_que_token(model, tokenizer) == que_id
    assert (model.get_input_embeddings().weight[que_id] == 7).all()


def test_a_tokenizer_that_knows_que_does_not_hide_that_the_model_does_not(xlmr_folder: Path) -> None:
    model = load_model(xlmr_folder).language_model
    tokenizer = load_tokenizer(xlmr_folder)
    before = model.config.vocab_size
    assert add_que_token(model, tokenizer) == before
    assert model.get_input_embeddings().weight[before].any()


def test_a_folder_without_mlm_head_gets_one_by_the_seed_and_says_so(
    theirs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = AutoModel.from_pretrained(theirs)
    encoder.save_pretrained(theirs)
    torch.manual_seed(torch.seed())
    state = torch.get_rng_state()
    first, again, other = (load_model(theirs, seed=seed).language_model for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert "no MLM head: it begins with random weights" in caplog.text
    assert torch.equal(first.lm_head.dense.weight, again.lm_head.dense.weight)
    assert not torch.equal(first.lm_head.dense.weight, other.lm_head.dense.weight)
    assert first.lm_head.bias is first.lm_head.decoder.bias
    assert torch.equal(first.get_input_embeddings().weight, encoder.get_input_embeddings().weight)


def test_weights_in_half_precision_are_loaded_in_fp32(theirs: Path) -> None:
    AutoModelForMaskedLM.from_pretrained(theirs).half().save_pretrained(theirs)
    model = load_model(theirs).language_model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_pickle_is_refused_with_the_command_that_converts_it(theirs: Path) -> None:
    torch.save(AutoModelForMaskedLM.from_pretrained(theirs).state_dict(), theirs / "pytorch_model.bin")
    (theirs / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"pytorch_model.bin is a pickle") as caught:
        load_model(theirs)
    _, command = str(caught.value).split("\n")
    code = command.removeprefix('python -c "').removesuffix('"')
    exec(code, {})
    assert load_model(f"{theirs}-safetensors").language_model.config.hidden_size == 32


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ("config.json", r"no model. Expected config.json, model.safetensors and a tokenizer; found model.saf"),
        ("model.safetensors", r"no weights. Expected model.safetensors; found config.json, "),
    ],
)
def test_a_missing_file_is_named(theirs: Path, gone: str, expected: str) -> None:
    (theirs / gone).unlink()
    with pytest.raises(InputError, match=expected):
        load_model(theirs)


def test_a_missing_tokenizer_is_refused(theirs: Path) -> None:
    (theirs / "tokenizer.json").unlink()
    (theirs / "sentencepiece.bpe.model").unlink()
    with pytest.raises(InputError, match=r"no tokenizer. Expected tokenizer.json or sentencepiece.bpe.model"):
        load_model(theirs)


def test_a_tokenizer_of_another_model_is_refused(theirs: Path) -> None:
    tokenizer = load_tokenizer(theirs)
    tokenizer.add_tokens([f"word{number}" for number in range(3)])
    tokenizer.save_pretrained(theirs)
    with pytest.raises(InputError, match=r"the tokenizer has \d+ tokens, but the model only \d+"):
        load_model(theirs)


def test_another_architecture_is_refused(theirs: Path) -> None:
    config = json.loads((theirs / "config.json").read_text())
    (theirs / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    with pytest.raises(InputError, match=r"model_type 'gpt2'. Expected one of xlm-roberta"):
        load_model(theirs)


def test_an_empty_folder_or_an_unknown_name_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no model. Expected config.json.*; found nothing"):
        load_model(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="no such folder, and no model of that name"):
        load_model("no-such/model")


@pytest.mark.parametrize("name", ["{}/no/such/folder", "no/such/folder", "./folder", "../folder", "~/folder", "a/"])
def test_a_path_that_cannot_be_a_name_on_the_hub_is_not_looked_up_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.models.files.snapshot_download", lambda _: pytest.fail("the hub was asked"))
    with pytest.raises(ConfigError, match=r"no such folder. Expected a folder that holds config.json"):
        load_model(name.format(tmp_path))


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ConfigError, match=r"model.safetensors: a file. Expected a folder"):
        load_model(tmp_path / "model.safetensors")


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
@pytest.mark.parametrize("name", ["model.safetensors", "heads.safetensors"])
def test_torn_and_altered_weights_of_our_own_are_refused(ours: Path, name: str, spoil) -> None:
    (ours / name).write_bytes(spoil((ours / name).read_bytes()))
    with pytest.raises(InputError, match=rf"{name} is not the file that was written"):
        load_model(ours)


def test_torn_weights_of_others_are_refused(theirs: Path) -> None:
    data = (theirs / "model.safetensors").read_bytes()
    (theirs / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="the model cannot be read"):
        load_model(theirs)


def test_weights_that_lack_a_tensor_of_the_encoder_are_refused(theirs: Path) -> None:
    config = json.loads((theirs / "config.json").read_text())
    (theirs / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 4}))
    with pytest.raises(InputError, match=r"lacks 16 of the encoder's tensors, such as roberta.encoder.layer.3"):
        load_model(theirs)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format_version": 2}, "has format version 2, but this release of polyspan reads version 1"),
        ({"heads": {"ner": {}}}, "unknown heads: ner"),
        ({"heads": {"span": {"hidden_size": 16}}}, "its heads cannot be read"),
        ({"heads": {"span": {"width": 16}}}, "its heads cannot be read"),
        ({"provenance": {}}, "is not as it was written"),
        ({"sha256": None}, "is not as it was written"),
    ],
)
def test_a_changed_polyspan_json_is_refused(ours: Path, change: dict[str, object], expected: str) -> None:
    values = json.loads((ours / "polyspan.json").read_text())
    (ours / "polyspan.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(InputError, match=expected):
        load_model(ours)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_polyspan_json_that_is_no_json_object_is_refused(ours: Path, text: str) -> None:
    (ours / "polyspan.json").write_text(text)
    with pytest.raises(InputError, match=r"polyspan\.json"):
        load_model(ours)


def test_saving_replaces_a_model_of_ours_and_nothing_else(ours: Path, theirs: Path) -> None:
    model, tokenizer, heads, _ = load_model(ours)
    save_model(ours, model, tokenizer, {"span": heads["span"]}, PROVENANCE)
    assert list(load_model(ours).heads) == ["span"]
    with pytest.raises(ConfigError, match="exists and is no model of ours"):
        save_model(theirs, model, tokenizer, heads, PROVENANCE)
    assert sorted(path.name for path in ours.parent.iterdir()) == ["model", "theirs"]


def test_a_save_that_fails_leaves_the_model_that_was_there(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer, _, _ = load_model(ours)
    before = {path.name: path.read_bytes() for path in ours.iterdir()}

    def fail(*_: object) -> str:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("training.models.folder.model_card", fail)
        with pytest.raises(OSError, match="no space left"):
            save_model(ours, model, tokenizer, {}, PROVENANCE)
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == before
    save_model(ours, model, tokenizer, {}, PROVENANCE)  # over what the failed attempt left
    assert load_model(ours).heads == {}


def test_the_card_says_where_the_model_comes_from(ours: Path) -> None:
    card = (ours / "README.md").read_text()
    for part in ("xlm-roberta-base", "1,500 steps", "b1c2", "| clism-en-vi | 3fa9 |", '"steps": 15000', "| span |"):
        assert part in card
    assert json.loads((ours / "polyspan.json").read_text())["attention_dropout"] == 0.0


def test_only_safetensors_and_text_are_written(ours: Path) -> None:
    assert {path.suffix for path in ours.iterdir()} == {".json", ".safetensors", ".md"}


def test_heads_are_saved_under_their_own_names_only(ours: Path) -> None:
    model, tokenizer, heads, _ = load_model(ours)
    with pytest.raises(ConfigError, match=r"cannot save clism \(SpanHead\). Expected heads: span \(SpanHead\), wae"):
        save_model(ours, model, tokenizer, {"clism": heads["span"]}, PROVENANCE)


# --- every family -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gets_que_is_saved_and_predicts_masked_tokens(
    family: str, xlmr_folder: Path, tmp_path: Path
) -> None:
    model, tokenizer, _, _ = load_model(family_folder(family, xlmr_folder, [TEXT], tmp_path / "base"))
    before: Any = model.get_input_embeddings()  # type: ignore[no-untyped-call]
    rows_VD = before.weight.detach().clone()
    que_id, mask_id = add_que_token(model, tokenizer), tokenizer.mask_token_id
    found_VD = model.get_input_embeddings().weight.detach()  # type: ignore[no-untyped-call]
    others = [row for row in range(len(rows_VD)) if row != que_id]
    assert torch.equal(found_VD[others], rows_VD[others])
    assert 0.05 < (found_VD[que_id] - rows_VD[mask_id]).norm() / rows_VD[mask_id].norm() < 0.2
    save_model(tmp_path / "ours", model, tokenizer, {}, PROVENANCE)
    loaded = load_model(tmp_path / "ours")
    ids_1L = torch.tensor([loaded.tokenizer(TEXT).input_ids])
    assert ids_1L.flatten().tolist().count(que_id) == 1
    inputs, masked_M = pack([ids_1L[0].numpy()]), torch.tensor([1, 3])
    with torch.no_grad():
        expected_LV = loaded.language_model.eval()(input_ids=ids_1L).logits[0]
        theirs_LV = AutoModelForMaskedLM.from_pretrained(tmp_path / "ours").eval()(input_ids=ids_1L).logits[0]
        encoder = Encoder(loaded.language_model.base_model).eval()  # type: ignore[arg-type]
        logits_MV = MlmHead(loaded.language_model)(encoder(inputs), masked_M)
    torch.testing.assert_close(logits_MV, expected_LV[masked_M], rtol=0, atol=1e-5)
    torch.testing.assert_close(theirs_LV, expected_LV, rtol=0, atol=1e-5)


def test_a_deberta_with_the_other_mlm_head_begins_with_a_random_one(
    xlmr_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`legacy: false`, whose head has no output layer of its own."""
    base = family_folder("deberta-v2", xlmr_folder, [TEXT], tmp_path / "base")
    config = AutoConfig.from_pretrained(base, legacy=False)
    AutoModelForMaskedLM.from_config(config).save_pretrained(base)
    model = load_model(base).language_model
    assert model.config.legacy and "no MLM head: it begins with random weights" in caplog.text
    assert add_que_token(model, load_tokenizer(base)) > 0
