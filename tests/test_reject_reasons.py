"""The tables of reject reasons agree with the code that refuses records, and with `docs/rejects.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.candidates import CandidateCounts
from schemas.catalog import SCHEMAS
from schemas.clism import PairCounts
from schemas.counts import Counts
from schemas.mrc import RecordCounts

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    *(ROOT / "pipelines").rglob("*.py"),
    *(ROOT / "training/tasks").rglob("*.py"),
    *(ROOT / "training" / name for name in ("convert.py", "translate.py")),
]
REASON = re.compile(r"[a-z]+(_[a-z0-9]+)*")


def tables() -> dict[str, dict[str, dict[str, str]]]:
    """Names of the schemas that share a table → unit → reason → sentence."""
    names: dict[type[Counts], list[str]] = {}
    for name, spec in SCHEMAS.items():
        names.setdefault(spec.counts, []).append(name)
    return {", ".join(schemas): counts.REJECT_REASONS for counts, schemas in names.items()}


def known_reasons() -> set[str]:
    return {reason for units in tables().values() for reasons in units.values() for reason in reasons}


# --- what the code emits ----------------------------------------------------------------------------------------------

# Function or class → position of the reason among its arguments.
REASON_ARGUMENT = {
    **dict.fromkeys(("Reject", "BadText", "Damage", "MentionReject", "LeftOut"), 0),
    **dict.fromkeys(("pair_reject", "mention_reject", "_reject"), 0),
    "BadLine": 1,
}
RETURNS_A_REASON = re.compile(r"\w+_(reject|problem)|find_answer|_empty_words")
REASON_VARIABLES = {"reason", "reasons", "skipped", "lost"}


def literals(node: ast.AST | None) -> Iterator[str]:
    """Strings that an expression may give: also of both branches of a condition, and of the first items of tuples."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from literals(value)
    elif isinstance(node, ast.Tuple) and node.elts:
        yield from literals(node.elts[0])
    elif isinstance(node, ast.List):
        for item in node.elts:
            yield from literals(item)


def emitted(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in REASON_ARGUMENT and len(node.args) > REASON_ARGUMENT[name]:
                yield from literals(node.args[REASON_ARGUMENT[name]])
            if name == "append" and getattr(getattr(node.func, "value", None), "id", "") in REASON_VARIABLES:
                yield from literals(node.args[0])
            for keyword in node.keywords:
                if (keyword.arg or "").endswith("_rejects"):
                    keys = (key for part in ast.walk(keyword.value) if isinstance(part, ast.Dict) for key in part.keys)
                    yield from (word for key in keys for word in literals(key))
        elif isinstance(node, ast.FunctionDef) and RETURNS_A_REASON.fullmatch(node.name):
            for part in ast.walk(node):
                if isinstance(part, ast.Return):
                    yield from literals(part.value)
        elif isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & REASON_VARIABLES:
            yield from literals(node.value)
        elif isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "refused" for target in node.targets):
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            yield from (word for key in keys for word in literals(key))


def test_every_reason_that_the_code_emits_is_in_a_table() -> None:
    found = {
        word: path.relative_to(ROOT)
        for path in SOURCES
        for word in emitted(ast.parse(path.read_text(encoding="utf-8")))
        if REASON.fullmatch(word)
    }
    assert len(found) > 40
    assert {word: path for word, path in found.items() if word not in known_reasons()} == {}


def test_every_reason_of_the_tables_is_emitted_by_some_code() -> None:
    written = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    assert [reason for reason in sorted(known_reasons()) if f'"{reason}"' not in written] == []


def test_every_reason_has_one_plain_sentence() -> None:
    for units in tables().values():
        for reasons in units.values():
            for reason, sentence in reasons.items():
                assert REASON.fullmatch(reason)
                assert sentence[0].isupper() and sentence.endswith(".")
                assert ". " not in sentence and len(sentence) < 110


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_table_has_the_units_that_are_counted(schema: str) -> None:
    counts = SCHEMAS[schema].counts
    assert list(counts.REJECT_REASONS) == [balance.unit for balance in counts.BALANCES]


# --- counting is strict, reading is not -------------------------------------------------------------------------------


def test_counting_an_unknown_reason_is_a_bug_of_the_job() -> None:
    assert PairCounts().with_rejects("mention", {"no_link": 1}).mention_rejects == {"no_link": 1}
    with pytest.raises(ValueError, match=r"a mention was refused for an unknown reason: .* found 'no_lnk'"):
        PairCounts().with_rejects("mention", {"no_lnk": 1})
    with pytest.raises(ValueError, match="unknown reason"):  # a reason of another unit
        PairCounts().with_rejects("pair", {"no_link": 1})
    with pytest.raises(ValueError, match="unknown reason"):
        RecordCounts(1, 0, {"bad_record": 1}).check()
    with pytest.raises(ValueError, match="expected one of none; found 'no_answer'"):
        CandidateCounts(1, 0, {"no_answer": 1}).check()


def test_a_dataset_with_reasons_of_another_release_is_read_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    from schemas.inspection.cli import main

    folder = str(ROOT / "tests/golden/candidates-1")  # has rejects, which candidates of this release never have
    for command in (["verify"], ["stats"], ["show", "--rejects", "breaks_contract", "--lang", "en"]):
        assert main([command[0], folder, *command[1:]]) == 0
    out = capsys.readouterr().out
    assert "  record: breaks_contract\n" in out and re.search(r"breaks_contract +1 +[\d.]+%\n", out)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_lists_the_tables() -> None:
    expected = []
    for schemas, units in tables().items():
        rows = [(unit, reason, sentence) for unit, reasons in units.items() for reason, sentence in reasons.items()]
        if rows:
            expected += [f"## {schemas}", *(f"| {unit} | `{reason}` | {sentence} |" for unit, reason, sentence in rows)]
    page = (ROOT / "docs" / "rejects.md").read_text(encoding="utf-8").splitlines()
    heads = ("| unit |", "| --- |")
    listed = [line for line in page if line.startswith(("## ", "| ")) and not line.startswith(heads)]
    assert listed == expected


def test_the_readme_names_every_reason_for_which_a_sentence_pair_or_mention_is_refused() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reasons = [reason for unit in PairCounts.REJECT_REASONS.values() for reason in unit]
    assert [reason for reason in reasons if f"`{reason}`" not in readme] == []
