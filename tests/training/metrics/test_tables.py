from __future__ import annotations

import re

from training.metrics.tables import Table, latex

TABLE = Table(["xquad, F1", *(f"lang{number}" for number in range(40))], [["a_b~c\\\\d^e 100%", *["50.0"] * 40]])


def test_a_latex_table_names_its_packages_and_is_no_wider_than_the_line() -> None:
    comment, begin, *_, end = latex(TABLE).splitlines()

    assert comment == r"% \usepackage{booktabs, adjustbox}"
    assert (begin, end) == (r"\begin{adjustbox}{max width=\linewidth}", r"\end{adjustbox}")


def test_a_latex_table_opens_and_closes_its_environments_and_has_as_many_cells_in_each_line() -> None:
    lines = latex(TABLE).splitlines()

    opened: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", "\n".join(lines)):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert [line.count(" & ") for line in lines if line.endswith(r"\\")] == [40, 40]


def test_what_latex_reads_as_commands_is_escaped() -> None:
    assert r"a\_b\textasciitilde{}c\textbackslash{}\textbackslash{}d\textasciicircum{}e 100\% & 50.0" in latex(TABLE)


def test_negative_numbers_have_a_minus_in_latex_and_names_keep_their_hyphens() -> None:
    row = latex(Table(["name", "a", "b"], [["gpt-2, en-de", "-0.5", "-2.15 to -1.46"]])).splitlines()[6]
    assert row == r"gpt-2, en-de & $-$0.5 & $-$2.15 to $-$1.46 \\"
