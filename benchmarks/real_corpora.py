"""The CLISM job on NTREX-128, TICO-19 and Tatoeba: pairs in, examples out, rejects by reason, answers.

    python benchmarks/real_corpora.py --output clism-real [--pair en-ar en-hi en-vi] [--workers 4]

Runs `polyspan-data clism` once for all language pairs, as a user would type it, then `polyspan-inspect verify` and
`stats`. Needs the corpora, which are not part of the project.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BITEXT = ROOT.parent / "shared" / "data" / "bitext"
NTREX = {"de": "deu", "hi": "hin", "ja": "jpn", "th": "tha", "vi": "vie", "zh": "zho-CN"}  # it has no Arabic here
TATOEBA = {
    "ar": "ara-eng",
    "de": "deu-eng",
    "hi": "eng-hin",
    "ja": "eng-jpn",
    "th": "eng-tha",
    "vi": "eng-vie",
    "zh": "eng-zho",
}
TICO = ("ar", "hi", "zh")


def specs(pair: str) -> list[str]:
    """What `--bitext` reads for one language pair."""
    target = pair.split("-")[1]
    found = []
    if target in NTREX:
        ntrex = BITEXT / "ntrex128"
        found.append(f"{ntrex}/newstest2019-src.eng.txt,{ntrex}/newstest2019-ref.{NTREX[target]}.txt")
    if target in TICO:
        found.append(f"{BITEXT}/tico19/all.{pair}.tmx")
    folder = BITEXT / "tatoeba" / TATOEBA[target]
    other = next(code for code in TATOEBA[target].split("-") if code != "eng")
    found.append(f"{folder}/tatoeba-test-v2021-08-07.eng,{folder}/tatoeba-test-v2021-08-07.{other}")
    return [f"{pair}={spec}" for spec in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="clism-real")
    parser.add_argument("--pair", nargs="+", default=[f"en-{target}" for target in TATOEBA])
    parser.add_argument("--workers", default="1")
    arguments = parser.parse_args()
    if not BITEXT.exists():
        print(f"skipped: this benchmark needs the corpora in {BITEXT}")
        return
    bitext = [spec for pair in arguments.pair for spec in specs(pair)]
    data = [sys.executable, "-m", "pipelines.cli", "clism", "--pair", *arguments.pair, "--bitext", *bitext]
    data += ["--output", arguments.output, "--overwrite", "--workers", arguments.workers]
    inspect = [sys.executable, "-m", "schemas.inspection.cli"]
    for command in (data, [*inspect, "verify", arguments.output], [*inspect, "stats", arguments.output]):
        print(f"$ {shlex.join(command[1:]) if command is not data else 'python -m pipelines.cli clism …'}", flush=True)
        subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
