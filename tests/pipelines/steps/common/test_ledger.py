from __future__ import annotations

import json
import random

from pipelines.steps.common.ledger import Ledger
from schemas.anchor_mrc import AnchorCounts
from schemas.clism import PairCounts
from schemas.rejects import Reject


def reject(number: int, reason: str = "no_mention") -> Reject:
    return Reject(reason, "pair", f"{number:04}", "en-vi", "c", number, f"text {number}")


def test_counts_are_exact_and_the_sample_is_bounded():
    ledger = Ledger(seed=0, sample_size=3)
    ledger.add("en-vi", PairCounts(pairs_read=11, examples=1), [reject(n) for n in range(10)])
    assert ledger.counts["en-vi"] == PairCounts(11, 1, {"no_mention": 10})
    assert len(ledger.sample) == 3


def test_the_sample_depends_on_the_input_and_not_on_the_order_of_merging():
    chunks = [[reject(n) for n in range(start, start + 10)] for start in range(0, 100, 10)]
    samples = []
    for order in range(5):
        random.Random(order).shuffle(chunks)
        total = Ledger(seed=0, sample_size=4)
        for chunk in chunks:
            part = Ledger(seed=0, sample_size=4)
            part.add("en-vi", PairCounts(), chunk)
            total.merge(Ledger.from_json(json.loads(json.dumps(part.to_json())), PairCounts))
        samples.append(total.sorted_sample())
    assert all(sample == samples[0] for sample in samples) and len(samples[0]) == 4
    other_seed = Ledger(seed=1, sample_size=4)
    other_seed.add("en-vi", PairCounts(), [reject(n) for n in range(100)])
    assert other_seed.sorted_sample() != samples[0]


def test_each_reason_and_unit_has_a_sample_of_its_own():
    ledger = Ledger(seed=0, sample_size=1)
    mention = Reject("no_link", "mention", "0001", "en-vi", "c", 1, "x")
    ledger.add("en-vi", PairCounts(), [reject(1), reject(2), reject(3, "duplicate"), mention])
    assert sorted(r.reason for r in ledger.sample) == ["duplicate", "no_link", "no_mention"]
    assert ledger.counts["en-vi"].mention_rejects == {"no_link": 1}


def test_a_wikis_records_are_counted_in_its_own_ledgers():
    ledger = Ledger(seed=0, sample_size=1)
    red_link = Reject("red_link", "link", "0001", "sw", "swwiki", 1, "x")
    # A reason that nobody needs to see is counted alone.
    ledger.add("sw", AnchorCounts(links_found=5, mentions=2, link_rejects={"self_link": 1}), [red_link, red_link])
    again = Ledger.from_json(json.loads(json.dumps(ledger.to_json())), AnchorCounts)
    again.merge(ledger)
    assert again.counts == {
        "sw": AnchorCounts(links_found=10, mentions=4, link_rejects={"red_link": 4, "self_link": 2})
    }
    assert again.sample == [red_link]
