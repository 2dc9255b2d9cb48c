"""Positions of answers: Wiki Anchor Extraction trained on stochastic and on centred positions (mPMR, 2.2, table 2).

    python -m benchmarks.learning.positions --pipelines-python .venv/bin/python   # five minutes on one core
    python -m benchmarks.learning.positions --quick                               # a few steps: does it run?

Both models read the same mentions of the same entities in the same text. The stochastic contexts are what
`polyspan-data anchor-mrc` cuts of the articles. The job cuts no centred ones: so each mention, with half a context of
words on each side, becomes an article of its own, whose whole text is the context. Both models then answer on
contexts of other articles, cut by the job, in which the answer may be anywhere.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.learning.generate import polyspan_data, wikipedia
from benchmarks.learning.small import arguments, encoder_of, rows_of, table, trained, write_small
from training.data.batches import wae_batch
from training.data.features import Limits, WaeFeatures, wae_features
from training.data.tokens import TextEncoder
from training.methods.base import EncoderWithHeads
from training.methods.wae import WaeMethod
from training.models.folder import Pretrained, load_model
from training.recipes.pretraining import MPMR_BASE, WaeObjective

ENTITIES, MENTIONS, QUERY_WORDS, CONTEXT_WORDS = 150, 14, 8, 40
OBJECTIVE = WaeObjective(extractor_inner=256, extractor_dropout=0.0, max_query_tokens=20, max_context_tokens=100)
LIMITS = Limits(query=OBJECTIVE.max_query_tokens, context=OBJECTIVE.max_context_tokens)
RECIPE = replace(MPMR_BASE, objective=OBJECTIVE, steps=450, batch_size=32, learning_rate=2e-3, warmup_steps=50)


def main() -> None:
    options = arguments(__doc__)
    recipe = replace(RECIPE, steps=60) if options.quick else RECIPE
    results = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(folder, options.pipelines_python)
        rows = [*rows_of(folder / "stochastic"), *rows_of(folder / "test")]
        texts = [row[name] for row in rows for name in ("query_text", "context_text")]
        for positions in ("centred", "stochastic"):
            found = []
            for seed in range(options.seeds):
                start = write_small(folder / f"start-{positions}-{seed}", texts, seed)
                output = folder / f"{positions}-{seed}"
                model = load_model(trained(replace(recipe, seed=seed), start, folder / positions, output))
                found.append([exact_match(model, folder / data) for data in ("centred", "test")])
            results.append([positions, *zip(*found, strict=True)])
    print(table(["trained on", "centred contexts, training text", "other text, any position"], results))


def make_shards(folder: Path, python: str) -> None:
    wiki = wikipedia(1, 1, ENTITIES, MENTIONS, CONTEXT_WORDS)
    other = wikipedia(1, 2, ENTITIES, MENTIONS, CONTEXT_WORDS)
    dumps = {"stochastic": wiki.dump(), "centred": wiki.dump_of_middles(CONTEXT_WORDS), "test": other.dump()}
    for name, xml in dumps.items():
        dump = folder / f"{name}.xml"
        dump.write_text(xml, encoding="utf-8")
        # Every mention is sampled. `anchor_mrc_filled`: of an article that is no longer than a context, all of it.
        sizes = {"query-words": QUERY_WORDS, "context-words": CONTEXT_WORDS, "per-entity": MENTIONS}
        options = [text for name, size in sizes.items() for text in (f"--triplets.{name}", str(size))]
        files = ["--lang", "en", "--dump", str(dump), "--output", str(folder / name)]
        polyspan_data(python, "anchor-mrc", "--recipe", "anchor_mrc_filled", *files, *options)


@torch.inference_mode()
def exact_match(model: Pretrained, data: Path) -> float:
    """For how many answerable queries the best span of the context is an answer."""
    encoder, method = TextEncoder(model.tokenizer), WaeMethod(OBJECTIVE)
    features = [wae_features(row, encoder, LIMITS) for row in rows_of(data) if row["answerable"]]
    usable = [each for each in features if isinstance(each, WaeFeatures)]
    reader = EncoderWithHeads(encoder_of(model), method.heads(model, seed=0)).eval()
    right = 0.0
    for at in range(0, len(usable), 100):
        batch = wae_batch(usable[at : at + 100])
        right += method.losses(reader, batch, None)["wae"].figures["exact"][0].item()
    return right / len(features)


if __name__ == "__main__":
    main()
