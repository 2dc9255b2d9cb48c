"""What can be told of pre-training before torch is imported, which takes seconds: data and models that are not there.

`run_folder.check_config` has the settings.
"""

from __future__ import annotations

from pathlib import Path

from schemas import manifest
from schemas.shards import check_shard
from training.models.files import check_model
from training.recipes import PretrainConfig


def check_inputs(config: PretrainConfig) -> None:
    """Raises `DatasetError` for a shard that is missing or torn, `ConfigError` or `InputError` for a model that is not
    there. Checksums are compared later."""
    for folder in config.data:
        index = manifest.load(folder)
        for shard in index.shards:
            check_shard(Path(folder) / shard.file, shard.info, index.schema, checksum=False)
    if config.recipe.model != "tiny":
        check_model(config.recipe.model)
