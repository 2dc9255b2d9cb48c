"""Paragraphs, headings, lists, tables: what becomes a line of its own and what is dropped."""

from __future__ import annotations

from .snippet import Link, Snippet

LINES = (
    Snippet(
        "paragraphs", "en", "One [[dog]].\n\n\n\nTwo.\n\n \t\nThree.\n", "One dog.\nTwo.\nThree.", (Link("dog", "dog"),)
    ),
    Snippet(
        "single_line_break",
        "en",
        "One [[dog]]\nand [[cat]].\n\nTwo.",
        "One dog and cat.\nTwo.",
        (Link("dog", "dog"), Link("cat", "cat")),
        why="a single line break does not end a paragraph",
    ),
    Snippet(
        "headings",
        "en",
        "Lead\n== A [[dog]] ==\nText\n=== ''B'' === <!-- c -->\n== C =\n= D = e",
        "Lead\nA dog\nText\nB\n= C\n= D = e",
        (Link("dog", "dog"),),
        why="the shorter run of = counts, and only a comment may follow",
    ),
    Snippet(
        "heading_then_text",
        "de",
        "==Geschichte==\n[[Berlin]] war\n==Siehe auch==\n* [[Bonn]]",
        "Geschichte\nBerlin war\nSiehe auch\nBonn",
        (Link("Berlin", "Berlin"), Link("Bonn", "Bonn")),
    ),
    Snippet(
        "lists",
        "en",
        "* [[A]]\n** b\n# [[C]]\n#* d\n: e\n:* [[F]]s\n*g",
        "A\nb\nC\nd\ne\nFs\ng",
        (Link("A", "A"), Link("C", "C"), Link("Fs", "F")),
    ),
    Snippet(
        "definition_lists",
        "en",
        ";Term [[A]]\n:definition [[B]]\n;[[Dune: Part Two]] : a [[film]]",
        "Term A\ndefinition B\nDune: Part Two\na film",
        (Link("A", "A"), Link("B", "B"), Link("Dune: Part Two", "Dune: Part Two"), Link("film", "film")),
        why="a colon outside links divides term and definition",
    ),
    Snippet(
        "list_with_comment_line",
        "en",
        "* a\n<!-- c -->\n* b\n<!-- d --> \n* c",
        "a\nb\nc",
        why="a line of comments goes with its line break",
    ),
    Snippet("empty_items", "en", "* {{foo}}\n* [[Category:Y]]\n* a\n*\n", "a"),
    Snippet("rule", "en", "a\n----\nb\n-----c", "a\nb\nc"),
    Snippet(
        "leading_space",
        "en",
        " code with [[dog]]\n more",
        "code with dog more",
        (Link("dog", "dog"),),
        space_open=True,
        why="a preformatted line still has links",
    ),
    Snippet("markup_only_at_line_start", "en", "a * b # c ; d : e == f == {| g", "a * b # c ; d : e == f == {| g"),
    Snippet("br", "en", "a<br>b<br/>c<BR clear=all />[[d]]", "a b c d", (Link("d", "d"),), space_open=True),
    Snippet(
        "paragraphs_zh",
        "zh",
        "'''狗'''是[[动物]]。\n\n[[猫]]也是。",
        "狗是动物。\n猫也是。",
        (Link("动物", "动物"), Link("猫", "猫")),
        bold=("狗",),
    ),
    Snippet(
        "poem", "fr", "<poem>\n[[Rose]], ô\nrose\n</poem>", "Rose, ô rose", (Link("Rose", "Rose"),), space_open=True
    ),
    Snippet(
        "headings_odd",
        "en",
        "== A == B ==\n======= C =======\n==[[D]]==   \nE == F ==",
        "A == B\n= C =\nD\nE == F ==",
        (Link("D", "D"),),
        why="six is the most",
    ),
    Snippet(
        "tags_alone_on_lines",
        "en",
        "<div>\n\na [[b]]\n\n</div>\n<center>\n\n&nbsp;\n\n</center>\n\nc",
        "a b\nc",
        (Link("b", "b"),),
    ),
    Snippet("blockquote", "sw", "a\n<blockquote>\n[[b]] c\n</blockquote>\nd", "a\nb c\nd", (Link("b", "b"),)),
)

TABLES = (
    Snippet(
        "table",
        "en",
        'Before [[a]]\n{| class="wikitable"\n! [[b]] !! c\n|-\n| [[d|e]] || {{f|g}}\n|}\nAfter [[h]]',
        "Before a\nAfter h",
        (Link("a", "a"), Link("h", "h")),
    ),
    Snippet("table_nested", "en", "{|\n| a\n{|\n| [[b]]\n|}\n| [[c]]\n|}\nAfter", "After"),
    Snippet("table_indented", "en", "Text\n:{|\n| [[a]]\n|}\nAfter", "Text\nAfter"),
    Snippet("table_end_with_text", "en", "{|\n| a\n|} after [[b]]", "after b", (Link("b", "b"),)),
    Snippet(
        "table_with_template_end",
        "en",
        "{|\n| {{foo\n| y\n|}}\n| [[a]]\n|}\nAfter",
        "After",
        why="|}} ends the template, not the table",
    ),
    Snippet(
        "template_end_at_line_start",
        "en",
        "{{Infobox\n| a = {{b\n|c}}\n|}}\nText",
        "Text",
        why="|}} at the start of a line ends no table",
    ),
    Snippet(
        "table_unclosed",
        "en",
        "Before [[a]].\n{|\n| [[b]]\n",
        "Before a.",
        (Link("a", "a"),),
        why="the end of the page closes a table",
    ),
    Snippet("table_with_file", "ja", "{|\n|[[ファイル:A.jpg|thumb|[[猫]]]]\n|}\n[[犬]]", "犬", (Link("犬", "犬"),)),
    Snippet("table_html", "en", "A\n<table><tr><td>[[b]]</td></tr></table>\nC", "A\nC"),
    Snippet("table_in_template", "en", "{{box|\n{|\n| a\n|}\n}}Text", "Text"),
    Snippet("table_between_items", "en", "* a\n{|\n| b\n|}\n* [[c]]", "a\nc", (Link("c", "c"),)),
    Snippet(
        "table_with_ref_and_nowiki",
        "en",
        "{|\n| a<ref>\n|}\n</ref> || <nowiki>\n|}</nowiki>\n|}\n[[b]]",
        "b",
        (Link("b", "b"),),
        why="what stands in tags ends no table",
    ),
    Snippet(
        "table_after_spaces",
        "en",
        "a\n  {|\n  | b\n  |}\n:: {|\n| c\n|}\nd",
        "a\nd",
        why="white space before a line of a table does not count",
    ),
)

SNIPPETS = LINES + TABLES
