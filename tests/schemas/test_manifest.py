from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from operator import add

import pytest
import yaml  # which `datasets` needs
from hypothesis import given
from hypothesis import strategies as st

from schemas.card import dataset_card
from schemas.clism import PairCounts
from schemas.errors import DatasetError
from schemas.manifest import InputFile, Manifest, ShardEntry, load

SHA = "0" * 64
MANIFEST = Manifest(
    schema="clism/1",
    shards=(ShardEntry("data/part-00000-of-00001.arrow", 3, 100, SHA),),
    rejects=(ShardEntry("rejects/part-00000-of-00001.arrow", 2, 50, SHA),),
    counts={
        "en-vi": PairCounts(4, 2, {"too_long": 1, "no_mention": 1}, 6, 5, {"no_link": 1}),
        "en-no": PairCounts(1, 1, {}, 2, 2, {}),
    },
    config={"seed": 0, "filters": {"max_words": 128, "name": "Hà Nội"}},
    versions={"spacy": "3.8", "pyarrow": "25.0"},
    inputs=(InputFile("news", "news.en", 12, SHA), InputFile("news", "gs://bucket/news.vi", None, None)),
    commit="170a678",
)

counts = st.integers(0, 50)
reasons = st.dictionaries(st.sampled_from(["no_link", "no_mention", "too_long"]), counts)
pair_counts = st.builds(PairCounts, counts, counts, reasons, counts, counts, reasons)


@given(st.lists(pair_counts, max_size=5), st.randoms(use_true_random=False))
def test_chunks_add_up_in_any_order_to_the_same_json(chunks, random):
    shuffled = list(chunks)
    random.shuffle(shuffled)
    total = sum(chunks, PairCounts())
    assert json.dumps(total.to_json()) == json.dumps(reduce(add, shuffled, PairCounts()).to_json())
    assert total.pairs_read == sum(chunk.pairs_read for chunk in chunks)
    assert sum(total.mention_rejects.values()) == sum(sum(chunk.mention_rejects.values()) for chunk in chunks)


@pytest.mark.parametrize(
    "counted, said",
    [
        (PairCounts(3, 1, {"no_mention": 1}, 0, 0, {}), "3 pairs read, but 1 examples \\+ 1 rejects = 2"),
        (PairCounts(1, 1, {}, 2, 1, {"no_link": 2}), "2 mentions found, but 1 questions \\+ 2 rejects = 3"),
        (PairCounts(0, 1, {"no_mention": -1}, 0, 0, {}), "negative"),
    ],
)
def test_a_record_lost_or_counted_twice_is_an_error(counted, said):
    with pytest.raises(ValueError, match=said):
        counted.check()
    assert replace(MANIFEST, counts={"en-vi": counted}).problems()


def test_counts_that_add_up_pass():
    PairCounts(3, 1, {"no_mention": 2}, 2, 1, {"no_link": 1}).check()
    assert MANIFEST.problems() == []


@pytest.mark.parametrize(
    "change, said",
    [
        ({"shards": ()}, "the shards hold 0 rows, but the counts say 3 examples"),
        ({"rejects": MANIFEST.rejects * 2}, "rejects/part-00000-of-00001.arrow is listed twice"),
        ({"rejects": (ShardEntry("../x.arrow", 0, 0, SHA),)}, "'../x.arrow' is not a file of rejects/"),
        ({"rejects": (ShardEntry("rejects/../../x", 0, 0, SHA),)}, "is not a file of rejects/"),
    ],
)
def test_a_manifest_that_contradicts_itself_says_where(change, said):
    (problem,) = replace(MANIFEST, **change).problems()
    assert said in problem


def test_a_manifest_comes_back_from_its_json_as_it_was():
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST


def test_json_does_not_depend_on_the_order_in_which_things_were_counted():
    turned = replace(
        MANIFEST,
        counts={
            pair: replace(each, pair_rejects=dict(reversed(each.pair_rejects.items())))
            for pair, each in reversed(MANIFEST.counts.items())
        },
        versions=dict(reversed(MANIFEST.versions.items())),
    )
    assert turned.to_json() == MANIFEST.to_json()
    assert dataset_card(turned) == dataset_card(MANIFEST)


def test_json_is_for_people_too():
    text = MANIFEST.to_json()
    assert text.startswith('{\n  "format_version": 1,\n  "schema": "clism/1",\n  "totals": {\n    "pairs_read": 5,')
    assert "Hà Nội" in text
    assert text.endswith('"created": null\n}\n')


def edited(**changes: object) -> str:
    return json.dumps({**json.loads(MANIFEST.to_json()), **changes})


def without(name: str) -> str:
    return json.dumps({key: value for key, value in json.loads(MANIFEST.to_json()).items() if key != name})


@pytest.mark.parametrize(
    "text, said",
    [
        (edited(format_version=2), "has format version 2, but this release of polyspan reads version 1"),
        (without("format_version"), "lacks format_version"),
        (without("commit"), "lacks commit"),
        (without("totals"), "totals are missing"),
        (edited(shards=[{"file": "a", "rows": 1}]), r"shards\[0\] lacks bytes, sha256"),
        (
            edited(shards=[{"file": "a", "rows": "1", "bytes": 1, "sha256": ""}]),
            r"shards\[0\]\.rows: expected int, fou",
        ),
        (edited(shards=[{"file": "a", "rows": True, "bytes": 1, "sha256": ""}]), "expected int, found True"),
        (edited(counts={"en-vi": {}}), r"counts\['en-vi'\] lacks pairs_read, examples"),
        (edited(created=5), "created: expected str, found 5"),
        (edited(colour="red"), "unknown colour"),
        (edited(totals={}), "not the sum of the counts"),
        ("[]", "expected an object"),
        ('{"schema"', "is not JSON"),
    ],
)
def test_a_damaged_manifest_is_refused_naming_what_is_wrong(text, said):
    with pytest.raises(DatasetError, match=said):
        Manifest.from_json(text)


def test_a_folder_without_a_manifest_is_not_a_dataset(dataset):
    (dataset / "manifest.json").unlink()
    with pytest.raises(DatasetError, match=r"not a dataset.*stopped or is still running"):
        load(dataset)
    with pytest.raises(DatasetError, match="no such folder"):
        load(dataset / "nowhere")


def test_an_error_of_the_manifest_names_its_folder(dataset):
    (dataset / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError, match=r"clism-en-vi.*not UTF-8"):
        load(dataset)
    (dataset / "manifest.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"clism-en-vi: manifest\.json: it lacks schema"):
        load(dataset)


def test_the_cards_front_matter_is_what_the_hub_expects():
    front = yaml.safe_load(dataset_card(MANIFEST, license="cc-by-4.0").split("---\n")[1])
    assert front == {
        "language": ["en", "no", "vi"],  # and not [en, False, vi]
        "license": "cc-by-4.0",
        "task_categories": ["question-answering", "token-classification"],
        "size_categories": ["n<1K"],
        "tags": ["polyspan", "clism", "cross-lingual", "span-extraction"],
        "configs": [{"config_name": "default", "data_files": "data/*.arrow"}],
    }


@pytest.mark.parametrize("examples, size", [(999, "n<1K"), (1000, "1K<n<10K"), (10**6, "1M<n<10M"), (10**9, "n>1B")])
def test_the_cards_size_is_one_of_the_hubs(examples, size):
    grown = replace(MANIFEST, counts={"en-vi": PairCounts(examples, examples)})
    assert f'size_categories: ["{size}"]' in dataset_card(grown)


def test_the_card_names_languages_by_the_tags_that_the_hub_knows():
    counts = dict.fromkeys(["en-es-419", "zh-Hant-en", "pt-BR-en"], PairCounts())
    assert 'language: ["en", "es", "pt", "zh"]' in dataset_card(replace(MANIFEST, counts=counts))


def test_the_card_tells_how_many_and_what_was_left_out():
    card = dataset_card(MANIFEST)
    assert "| `en-vi` | 4 | 2 | 50.0% | 5 |" in card
    assert "| all | 5 | 3 | 60.0% | 7 |" in card
    assert "| sentence pair | `no_mention` | 1 | 20.0% |" in card
    assert "| mention | `no_link` | 1 | 12.5% |" in card
    assert '"max_words": 128' in card
    assert "| `spacy` | `3.8` |" in card
