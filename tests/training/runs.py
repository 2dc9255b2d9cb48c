"""Starts small runs for tests, in own processes that can be killed at any moment."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from training.recipes.finetuning import FinetuneConfig
from training.recipes.pretraining import RECIPES, PretrainConfig

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
DATA = {"tiny_clism": GOLDEN / "clism-1", "tiny_mpmr": GOLDEN / "anchor_mrc-1"}
SPEEDS = {"seconds", "examples_per_s", "tokens_per_s", "loader_wait"}
Config = PretrainConfig | FinetuneConfig
PATIENCE = 120.0  # seconds

# Imports torch once, so that its children start at once.
server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(["training.pretrain", "training.finetune", "torch.utils.tensorboard", "torch._dynamo"])


def small(
    recipe: str, output: Path, steps: int = 10, workers: int = 0, micro_batch_tokens: int = 0, **fields: Any
) -> PretrainConfig:
    """Makes a run with batches of 4 from the golden datasets, which have 7 and 17 examples, and a checkpoint every 3
    steps. `fields` replace the recipe's."""
    values = {"steps": steps, "batch_size": 4, "warmup_steps": 2, **fields}
    return PretrainConfig(
        recipe=replace(RECIPES[recipe], **values),
        data=(str(DATA[recipe]),),
        output=str(output),
        device="cpu",
        loader_workers=workers,
        checkpoint_every=3,
        micro_batch_tokens=micro_batch_tokens,
    )


def start(config: Config, ranks: int = 1) -> list[BaseProcess]:
    """Starts the processes of a run as torchrun does, each with its loader's workers in its own group."""
    port = free_port()
    processes = [server.Process(target=_run, args=(config, rank, ranks, port)) for rank in range(ranks)]
    for process in processes:
        process.start()
    return processes


def finish(processes: Sequence[BaseProcess]) -> list[int | None]:
    """Waits for the processes. Returns their exit codes."""
    for process in processes:
        process.join(PATIENCE)
    return [process.exitcode for process in processes]


def kill_at(config: Config, row: int, ranks: int = 1) -> None:
    """Starts a run, and kills all its processes with SIGKILL once the log has `row` rows."""
    processes = start(config, ranks)
    wait_for_row(config, row, processes)
    for process in processes:
        os.kill(process.pid or 0, signal.SIGKILL)
    assert finish(processes) == [-signal.SIGKILL] * ranks, "it was over before it could be killed"


def wait_for_row(config: Config, row: int, processes: Sequence[BaseProcess]) -> None:
    log, until = Path(config.output) / "metrics.jsonl", time.monotonic() + PATIENCE
    while not log.exists() or log.read_text().count("\n") < row:
        assert time.monotonic() < until and all(process.is_alive() for process in processes)
        time.sleep(0.001)


def losses(output: str | Path) -> list[dict[str, float]]:
    """Reads the rows of a run's log, without the figures that depend on the clock."""
    lines = (Path(output) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in SPEEDS} for line in lines]


def weights(output: str | Path) -> dict[str, bytes]:
    """Reads the weights of a finished run and its last checkpoint."""
    folder = Path(output)
    files = [*folder.glob("model/*.safetensors"), *sorted(folder.glob("checkpoints/*/*.safetensors"))[-2:]]
    return {path.name: path.read_bytes() for path in files}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(config: Config, rank: int, ranks: int, port: int) -> None:
    if ranks > 1:
        values = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        os.environ.update({name: str(value) for name, value in values.items()})
    multiprocessing.set_start_method("fork", force=True)  # of the loader's workers, as in a process of its own
    os.setpgrp()
    import torch

    from training.cli import quiet_libraries
    from training.finetune import finetune
    from training.pretrain import pretrain

    quiet_libraries()
    torch.set_num_threads(1)
    finished = finetune(config) if isinstance(config, FinetuneConfig) else pretrain(config)
    raise SystemExit(128 + finished.stopped_by if finished.stopped_by else 0)
