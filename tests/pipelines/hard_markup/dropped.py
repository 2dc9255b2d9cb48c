"""Templates, references, comments and tags whose content a reader's plain text does not have, and nowiki."""

from __future__ import annotations

from .snippet import Link, Snippet

TEMPLATES = (
    Snippet(
        "infobox",
        "en",
        "{{Infobox dog\n| name = [[Dog]]\n| image = [[File:a.jpg|thumb|{{nested|[[x]]|{{deep}}}}]]\n"
        "| text = {{nowrap|'''bold'''}}\n}}\n'''Dog''' is an [[animal]].",
        "Dog is an animal.",
        (Link("animal", "animal"),),
        bold=("Dog",),
    ),
    Snippet("template_inline", "en", "a{{foo|[[y]]}}b {{bar}} [[c]]", "ab c", (Link("c", "c"),)),
    Snippet(
        "template_kept_lang",
        "en",
        "{{lang|fr|[[Paris]] la nuit}} and {{nowrap|[[New York]]}}",
        "Paris la nuit and New York",
        (Link("Paris", "Paris"), Link("New York", "New York")),
    ),
    Snippet(
        "template_kept_lang_fr",
        "fr",
        "le mot {{lang|en|[[chien|dog]]}} veut",
        "le mot dog veut",
        (Link("dog", "chien"),),
    ),
    Snippet(
        "template_kept_lang_ja",
        "ja",
        "[[犬]]({{Lang|en|[[英語|dog]]}})は",
        "犬(dog)は",
        (Link("犬", "犬"), Link("dog", "英語")),
    ),
    Snippet(
        "template_with_nowiki",
        "en",
        "{{foo|<nowiki>}}</nowiki>|<!-- }} -->}}y",
        "y",
        why="braces in nowiki and comments close nothing",
    ),
    Snippet(
        "template_unclosed",
        "en",
        "{{foo|[[a]]\n\nText [[b]].",
        "{{foo|a\nText b.",
        (Link("a", "a"), Link("b", "b")),
        why="without its }} it is text; what follows is not lost",
    ),
    Snippet("stray_braces", "en", "a }} b { c } [[d]]", "a }} b { c } d", (Link("d", "d"),)),
    Snippet(
        "parser_functions",
        "en",
        "A{{#if:x|[[b]]|c}} {{#tag:ref|[[d]]}}{{PAGENAME}}{{DEFAULTSORT:E, F}}{{#invoke:g|h}}[[i]]",
        "A i",
        (Link("i", "i"),),
    ),
    Snippet(
        "default_of_parameter",
        "en",
        "a {{{1|[[b]]}}} c",
        "a b c",
        (Link("b", "b"),),
        why="on its own page a parameter shows its default",
    ),
    Snippet("soft_redirect", "en", "{{soft redirect|wikt:dog}}\n{{disambiguation}}", ""),
    Snippet(
        "template_between_letters", "ja", "東{{foo|\n* [[a]]\n* b\n}}京[[犬]]{{bar}}は", "東京犬は", (Link("犬", "犬"),)
    ),
    Snippet("parameter_without_default", "en", "a {{{1|}}}b [[c]]", "a b c", (Link("c", "c"),)),
    Snippet(
        "template_kept_nested",
        "en",
        "{{lang|fr|{{nowrap|a [[b]]}} ''c''}} {{nowrap|1=d=e}}{{foo|{{nowrap|[[f]]}}}}",
        "a b c d=e",
        (Link("b", "b"),),
    ),
)

REFS = (
    Snippet(
        "refs",
        "en",
        'A.<ref>x [[y]]</ref> B.<ref name=n/> C.<ref name="n" /> [[D]].<REF group="g" name=\'o\'>\n* p\n</Ref > E',
        "A. B. C. D. E",
        (Link("D", "D"),),
    ),
    Snippet(
        "ref_slash_in_name",
        "en",
        'a<ref name="b/c">[[d]]</ref> e<ref name=x/> f <ref>g</ref>h',
        "a e f h",
        why="a self-closing ref does not reach to the next </ref>",
    ),
    Snippet(
        "ref_with_template",
        "de",
        "Text<ref>{{Literatur|Titel=[[X]]\n|Jahr=1}}</ref>, [[Y]]",
        "Text, Y",
        (Link("Y", "Y"),),
    ),
    Snippet(
        "references",
        "en",
        '== Notes ==\n<references>\n<ref name="a">[[b]]</ref>\n</references>\n<references/>\nText',
        "Notes\nText",
    ),
    Snippet(
        "ref_unclosed",
        "en",
        "a<ref>b\n\nc [[d]]",
        "a<ref>b\nc d",
        (Link("d", "d"),),
        also=("ab\nc d", "a\nc d"),
        why="an unclosed ref is text; what follows is not lost",
    ),
    Snippet(
        "link_between_refs",
        "th",
        "[[แมว]]<ref>ก</ref><ref>ข</ref>และ[[สุนัข]]",
        "แมวและสุนัข",
        (Link("แมว", "แมว"), Link("สุนัข", "สุนัข")),
    ),
    Snippet(
        "ref_in_label_and_bold",
        "en",
        "'''A<ref>b</ref>''' [[C|c<ref>[[d]]</ref>]]s",
        "A cs",
        (Link("cs", "C"),),
        bold=("A",),
    ),
    Snippet(
        "ref_with_much", "en", "a<ref>b <nowiki>[[c]]</nowiki> {{d|<!-- e -->}}\n\n* [[f]] <math>g</math></ref>h", "ah"
    ),
)

COMMENTS = (
    Snippet("comments", "en", "a<!-- [[b]] -->c <!-- d\n\ne -->[[f]]", "ac f", (Link("f", "f"),)),
    Snippet(
        "comment_line", "en", "a\n<!-- b -->\nc", "a c", space_open=True, why="the line of the comment is no blank line"
    ),
    Snippet(
        "comment_unclosed",
        "en",
        "[[a]] b<!-- c [[d]]\n\ne",
        "a b",
        (Link("a", "a"),),
        why="an unclosed comment runs to the end",
    ),
    Snippet(
        "comment_in_nowiki",
        "en",
        "<nowiki><!-- [[a]] --></nowiki> b <!-- <nowiki> -->[[c]]<!-- </nowiki> -->",
        "<!-- [[a]] --> b c",
        (Link("c", "c"),),
    ),
    Snippet("comment_without_room", "en", "a<!--> b --> c", "a c", why="its end is looked for after <!--"),
    Snippet("comment_in_markup", "en", "'<!-- a -->'b'<!-- -->' '''<!-- c -->d'''", "b d", bold=("d",)),
)

NOWIKI = (
    Snippet(
        "nowiki",
        "en",
        "<nowiki>[[a]] ''b'' {{c}} &amp; <ref></nowiki> [[d]]",
        "[[a]] ''b'' {{c}} & <ref> d",
        (Link("d", "d"),),
        why="entities are read in nowiki, other markup is not",
    ),
    Snippet(
        "nowiki_splits_markup", "en", "'<nowiki/>'a'<nowiki />' {<nowiki/>{b}} [<nowiki/>[c]]", "''a'' {{b}} [[c]]"
    ),
    Snippet(
        "nowiki_at_line_start",
        "en",
        "<nowiki>*</nowiki> a\n\n<nowiki/># b\n\n<nowiki>==</nowiki> c ==",
        "* a\n# b\n== c ==",
    ),
    Snippet(
        "nowiki_unclosed",
        "en",
        "a <nowiki> [[b]]",
        "a <nowiki> b",
        (Link("b", "b"),),
        why="a tag of an extension that is never closed is text",
    ),
    Snippet(
        "pre",
        "en",
        "<pre>[[a]] '''b''' {{c}}</pre>[[d]]",
        "[[a]] '''b''' {{c}} d",
        (Link("d", "d"),),
        also=("d",),
        space_open=True,
        why="nothing in pre is markup; plain text may leave it out",
    ),
    Snippet(
        "syntaxhighlight",
        "en",
        "a <syntaxhighlight lang=\"py\">x = [[1]] # '''b'''</syntaxhighlight>[[d]] <source lang=c>[[e]]</source>",
        "a d",
        (Link("d", "d"),),
        also=("a x = [[1]] # '''b''' d [[e]]", "a x = [[1]] # '''b'''d [[e]]"),
        space_open=True,
    ),
    Snippet(
        "code",
        "en",
        "<code>x[[List (C)|y]]</code> <code><nowiki>[[z]]</nowiki></code>",
        "xy [[z]]",
        (Link("y", "List (C)"),),
        why="code is an ordinary tag: its links work",
    ),
)

TAGS = (
    Snippet(
        "math",
        "en",
        "Let <math>x_{[[1]]} < '''2'''</math> be [[prime number|prime]] <chem>H2O</chem>.",
        "Let be prime .",
        (Link("prime", "prime number"),),
        also=("Let be prime.",),
    ),
    Snippet(
        "gallery",
        "en",
        "a\n<gallery mode=packed>\nFile:b.jpg|A [[dog]]\nc.png|'''x'''\n</gallery>\n[[d]]",
        "a\nd",
        (Link("d", "d"),),
    ),
    Snippet(
        "dropped_extensions",
        "en",
        "a\n<timeline>\nb [[c]]\n</timeline>\n<imagemap>\nImage:d.png\nrect 1 2 [[e]]\n</imagemap>\n"
        "<score>f</score>\n[[g]]",
        "a\ng",
        (Link("g", "g"),),
    ),
    Snippet(
        "html_tags",
        "en",
        "<div class=\"x\">a <b>b</b> <span style='c'>[[d]]</span><sup>2</sup></div> <small>e</small> <u>f</u>",
        "a b d2 e f",
        (Link("d", "d"),),
        space_open=True,
    ),
    Snippet(
        "not_a_tag",
        "en",
        "1 < 2, a <3 [[b]] and <foo>c</foo>, 5 > 4",
        "1 < 2, a <3 b and <foo>c</foo>, 5 > 4",
        (Link("b", "b"),),
        why="unknown tags are text",
    ),
    Snippet(
        "inclusion",
        "en",
        "<noinclude>a [[b]]</noinclude><includeonly>c [[d]]</includeonly><onlyinclude>e</onlyinclude> f",
        "a be f",
        (Link("b", "b"),),
        why="on the page itself all is seen but includeonly",
    ),
    Snippet(
        "templatestyles_section",
        "de",
        '<templatestyles src="x.css" /><section begin=a />[[Hund]]<section end=a /> b',
        "Hund b",
        (Link("Hund", "Hund"),),
    ),
)

SNIPPETS = TEMPLATES + REFS + COMMENTS + NOWIKI + TAGS
