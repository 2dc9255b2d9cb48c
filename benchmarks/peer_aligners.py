"""Drives one peer of the word aligner; run by `bench_aligner_peers.py` with the Python that has the peers.

    PYTHON peer_aligners.py NAME FOLDER

Trains on FOLDER/train.source and FOLDER/train.target and links the lines of FOLDER/text.source and FOLDER/text.target,
all tokenised. Writes Pharaoh lines to FOLDER/links, or to FOLDER/forward and FOLDER/backward where the peer has one set
for each direction; both as source-target. Uses only the standard library and the peer.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path


def read(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, lines: list[list[tuple[int, int]]]) -> None:
    path.write_text("".join(" ".join(f"{i}-{j}" for i, j in links) + "\n" for links in lines), encoding="utf-8")


def join(folder: Path, name: str) -> Path:
    """The two sides of `name` as one file of `source ||| target`."""
    sides = ((folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("source", "target"))
    path = folder / f"{name}.both"
    path.write_text("".join(f"{s} ||| {t}\n" for s, t in zip(*sides, strict=True)), encoding="utf-8")
    return path


def fast_align(folder: Path) -> None:
    """systran-align: fast_align's code with the options that its authors recommend; symmetrises by itself."""
    import systran_align

    tables = [str(folder / f"{way}.table") for way in ("forward", "backward")]
    systran_align.generate_alignment_probabilities(
        str(join(folder, "train")), *tables, favor_diagonal=True, optimize_tension=True, variational_bayes=True
    )
    aligner = systran_align.Aligner(*tables)
    pairs = zip(read(folder / "text.source"), read(folder / "text.target"), strict=True)
    links: list[list[tuple[int, int]]] = []
    while block := list(islice(pairs, 1000)):
        links += [found["alignments"] for found in aligner.align_batch(*map(list, zip(*block, strict=True)))]
    write(folder / "links", links)


def thot(folder: Path, kind: str) -> None:
    """sil-thot: five passes of Model 1, then five of the HMM; or its own version of eflomal as it comes."""
    from thot import alignment

    for way, sides in {"forward": ("source", "target"), "backward": ("target", "source")}.items():
        model = None
        stages = ["Ibm1", "Hmm"] if kind == "hmm" else ["Eflomal"]
        for stage in stages:
            model_class = getattr(alignment, f"{stage}AlignmentModel")
            model = model_class(model) if model is not None else model_class()
            model.read_sentence_pairs(*(str(folder / f"train.{side}") for side in sides))
            model.start_training()
            for _ in range(5 if kind == "hmm" else model.scheduled_iterations):
                model.train()
            model.end_training()
        links = []
        for first, second in zip(*(read(folder / f"text.{side}") for side in sides), strict=True):
            _, matrix = model.get_best_alignment(first, second)
            cells = [(i, j) for i in range(len(first)) for j in range(len(second)) if matrix[i, j]]
            links.append([(j, i) for i, j in cells] if way == "backward" else cells)
        write(folder / way, links)


def eflomal(folder: Path, prefix: int = 0) -> None:
    """The program. It has no model to save: text that it was not trained on is linked with priors from its links."""
    ways = ["-f", str(folder / "forward"), "-r", str(folder / "backward")]
    train, text = join(folder, "train"), join(folder, "text")

    def run(program: str, *arguments: str) -> None:
        command = [sys.executable, str(Path(sys.executable).parent / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    if train.read_bytes() == text.read_bytes():
        options = ["--source-prefix", str(prefix), "--target-prefix", str(prefix)] if prefix else []
        run("eflomal-align", "-i", str(train), *ways, *options)
        return
    if prefix:  # what makes the priors knows no prefixes
        for path in (train, text):
            lines = read(path)
            path.write_text(
                "".join(" ".join(word[:prefix] for word in line) + "\n" for line in lines), encoding="utf-8"
            )
    priors = ["--priors", str(folder / "priors")]
    run("eflomal-align", "-i", str(train), *ways)
    run("eflomal-makepriors", "-i", str(train), *ways, *priors)
    run("eflomal-align", "-i", str(text), *ways, "--overwrite", *priors)


PEERS = {
    "fast_align": fast_align,
    "eflomal": eflomal,
    "eflomal prefix 4": lambda folder: eflomal(folder, prefix=4),
    "sil-thot HMM": lambda folder: thot(folder, "hmm"),
    "sil-thot eflomal": lambda folder: thot(folder, "eflomal"),
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](Path(sys.argv[2]))
