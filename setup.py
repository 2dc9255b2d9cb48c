from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import find_packages, setup

PACKAGES = ("schemas", "pipelines", "training")

README = Path(__file__).with_name("README.md")

EXTRAS = {
    "pipelines": [
        "apache-beam>=2.77,<2.78",
        "numpy>=2.2",
        "pythainlp>=5.4,<6",
        "rjieba>=0.2.2,<0.3",
        "sacremoses>=0.2,<0.3",
        "spacy>=3.8,<3.9",
        "sudachidict_core>=20261015",
        "sudachipy>=0.7,<0.8",
        "tyro>=1.0,<2",
        "zstandard>=0.25",
    ],
    "inspect": [],  # polyspan-inspect needs nothing beyond pyarrow so far
    "training": [
        "matplotlib>=3.10",
        "numpy>=2.2",
        "safetensors>=0.8",
        "sentencepiece>=0.2.1",
        "tensorboard>=2.20",
        "tokenizers>=0.23",
        "torch>=2.11",
        "transformers>=5.17,<6",
        "tyro>=1.0,<2",
    ],
}
EXTRAS["all"] = sorted({requirement for extra in EXTRAS.values() for requirement in extra})
EXTRAS["test"] = [
    "datasets>=5",
    "duckdb>=1.5",
    "hypothesis>=6.168",
    "pandas>=2.3",
    "polars>=2",
    "pytest>=9.2",
]
EXTRAS["lint"] = ["import-linter>=2.15", "mypy>=2.4", "ruff>=0.17.5"]
EXTRAS["dev"] = [*EXTRAS["test"], *EXTRAS["lint"], "build>=1.6", "pybind11>=3"]

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

setup(
    name="polyspan",
    version="0.1.0",
    description="Parallel corpora into cross-lingual span-extraction training data",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
    package_data={"pipelines": ["sample/*", "sample/*/*", "data/*", "data/*/*"], "training": ["sample/*"]},
    ext_modules=[ALIGNER],
    install_requires=["pyarrow>=25"],
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            "polyspan-data = pipelines.__main__:main",
            "polyspan-inspect = schemas.inspection.cli:main",
            "polyspan-train = training.__main__:main",
        ]
    },
)
