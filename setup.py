"""The compiled extension, which pyproject.toml cannot describe. The rest of the distribution is described there."""

from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup

NATIVE = Path("pipelines/aligner/native")
ALIGNER = Pybind11Extension(
    "pipelines.aligner._native",
    sorted(map(str, NATIVE.glob("*.cpp"))),
    depends=sorted(map(str, NATIVE.glob("*.hpp"))),
    cxx_std=17,
    # The same bits on every processor: no fused multiplication and addition, no reordering of sums.
    extra_compile_args=["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-Wno-psabi"],
    extra_link_args=["-pthread"],
)

setup(ext_modules=[ALIGNER])
