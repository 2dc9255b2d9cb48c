"""Internal links: what is one, what its target is, and what its reader sees."""

from __future__ import annotations

from .snippet import Link, Snippet

TARGETS = (
    Snippet(
        "lower_case_first_letter",
        "en",
        "a [[dog]] and [[iPod]]",
        "a dog and iPod",
        (Link("dog", "dog"), Link("iPod", "iPod")),
    ),
    Snippet(
        "colon_titles",
        "en",
        "[[2001: A Space Odyssey]], [[Star Trek: Voyager|Voyager]], [[CSI: NY]]",
        "2001: A Space Odyssey, Voyager, CSI: NY",
        (
            Link("2001: A Space Odyssey", "2001: A Space Odyssey"),
            Link("Voyager", "Star Trek: Voyager"),
            Link("CSI: NY", "CSI: NY"),
        ),
        why="an unknown prefix is part of the title",
    ),
    Snippet("leading_colon", "en", "[[:Dog]]", "Dog", (Link("Dog", ":Dog"),)),
    Snippet(
        "sections",
        "en",
        "[[Dog#Breeds]], [[Dog#Breeds|breeds]], [[#History]], [[#History|above]]",
        "Dog#Breeds, breeds, #History, above",
        (
            Link("Dog#Breeds", "Dog#Breeds"),
            Link("breeds", "Dog#Breeds"),
            Link("#History", "#History"),
            Link("above", "#History"),
        ),
    ),
    Snippet(
        "underscores",
        "en",
        "[[New_York_City]] [[_Dog_|dogs]]",
        "New_York_City dogs",
        (Link("New_York_City", "New_York_City"), Link("dogs", "_Dog_")),
        why="an unpiped title is shown as written",
    ),
    Snippet(
        "percent",
        "fr",
        "[[Caf%C3%A9|le café]] [[100 %|cent]]",
        "le café cent",
        (Link("le café", "Caf%C3%A9"), Link("cent", "100 %")),
    ),
    Snippet(
        "percent_shown",
        "fr",
        "un [[Caf%C3%A9]]",
        "un Café",
        (Link("Café", "Caf%C3%A9"),),
        why="the parser decodes %-escapes before it shows an unpiped title",
    ),
    Snippet(
        "entities",
        "en",
        "[[AT&amp;T]] [[Caf&eacute;|a caf&eacute;]] [[Mount&nbsp;Fuji]]",
        "AT&T a café Mount Fuji",
        (Link("AT&T", "AT&amp;T"), Link("a café", "Caf&eacute;"), Link("Mount Fuji", "Mount&nbsp;Fuji")),
    ),
    Snippet(
        "no_break_space",
        "fr",
        "[[Guerre\u00a0froide]]\u00a0: [[Mont\u00a0Blanc|le\u00a0mont]]",
        "Guerre froide : le mont",
        (Link("Guerre froide", "Guerre\u00a0froide"), Link("le mont", "Mont\u00a0Blanc")),
    ),
    Snippet(
        "bidi_marks_in_target",
        "ar",
        "في [[باريس\u200f|باريس]] و[[\u200eLondon|لندن]]",
        "في باريس ولندن",
        (Link("باريس", "باريس"), Link("ولندن", "London")),
        why="titles have no such marks",
    ),
    Snippet(
        "bidi_marks_in_text",
        "ar",
        "في [[باريس|باريس\u200f]] (Paris)\u200e",
        "في باريس\u200f (Paris)\u200e",
        (Link("باريس\u200f", "باريس"),),
        why="they are characters of the text like others",
    ),
    Snippet(
        "joiners",
        "bn",
        "[[র\u200d্যাব]] ও [[হিন্দি|हिन्\u200dदी]]",
        "র\u200d্যাব ও हिन्\u200dदी",
        (Link("র\u200d্যাব", "র\u200d্যাব"), Link("हिन्\u200dदी", "হিন্দি")),
        why="zero width joiners are part of the spelling",
    ),
    Snippet(
        "punctuation_titles",
        "en",
        "[[C++]], [[AC/DC]], [[!!!]], [['Allo 'Allo!]], [[Who?]], [[.NET]], [[(x)]]",
        "C++, AC/DC, !!!, 'Allo 'Allo!, Who?, .NET, (x)",
        (
            Link("C++", "C++"),
            Link("AC/DC", "AC/DC"),
            Link("!!!", "!!!"),
            Link("'Allo 'Allo!", "'Allo 'Allo!"),
            Link("Who?", "Who?"),
            Link(".NET", ".NET"),
            Link("(x)", "(x)"),
        ),
    ),
    Snippet(
        "quotes_in_title",
        "it",
        "la [[Lista d''e paise]] e",
        "la Lista d''e paise e",
        (Link("Lista d''e paise", "Lista d''e paise"),),
        why="apostrophes are markup in a label but not in an unpiped title",
    ),
    Snippet(
        "spaces_around",
        "en",
        "a [[ Dog ]] or [[Cat | cats]]",
        "a Dog or cats",
        (Link("Dog", "Dog"), Link("cats", "Cat")),
    ),
    Snippet(
        "same_text_twice",
        "en",
        "A cat, a [[cat]], no [[Felis|cat]]",
        "A cat, a cat, no cat",
        (Link("cat", "cat", 1), Link("cat", "Felis", 2)),
    ),
    Snippet(
        "named_as_namespaces",
        "en",
        "[[File]], [[Category]] and [[Help]]: [[Wikipedia|it]]",
        "File, Category and Help: it",
        (Link("File", "File"), Link("Category", "Category"), Link("Help", "Help"), Link("it", "Wikipedia")),
    ),
)

LABELS = (
    Snippet("pipe_in_label", "en", "[[a|b|c]]", "b|c", (Link("b|c", "a"),), why="only the first pipe divides"),
    Snippet(
        "empty_label",
        "en",
        "x [[Dog|]] y",
        "x [[Dog|]] y",
        why="the pipe trick works when a page is saved; left in a page, it is no link",
    ),
    Snippet("blank_label", "en", "x [[Dog| ]] y", "x y", why="a link of white space cannot be an anchor"),
    Snippet(
        "markup_in_label",
        "en",
        "[[Harry Potter|''Harry'' <small>'''Potter'''</small>&nbsp;1]]",
        "Harry Potter 1",
        (Link("Harry Potter 1", "Harry Potter"),),
        bold=("Potter",),
    ),
    Snippet(
        "newline_in_label",
        "en",
        "[[Dog|big\ndog]]s",
        "big dogs",
        (Link("big dogs", "Dog"),),
        why="a label may span lines; a single line break is a space",
    ),
    Snippet(
        "newline_in_target", "en", "[[big\ndog]]", "[[big dog]]", space_open=True, why="a title may not span lines"
    ),
    Snippet(
        "bracket_in_label",
        "en",
        "[[Dog|[dog]]] [[Cat|a [sic] cat]]",
        "[dog] a [sic] cat",
        (Link("[dog]", "Dog"), Link("a [sic] cat", "Cat")),
    ),
    Snippet("nowiki_in_label", "en", "[[Dog|b<nowiki>]]|</nowiki>c]]", "b]]|c", (Link("b]]|c", "Dog"),)),
    Snippet(
        "nowiki_in_target", "en", "[[a<nowiki />b]]", "[[ab]]", why="a strip marker is no legal character of a title"
    ),
    Snippet(
        "comment_in_link",
        "en",
        "[[Do<!-- x -->g|the <!-- ]] -->dog]] [<!-- y -->[Cat]]",
        "the dog Cat",
        (Link("the dog", "Dog"), Link("Cat", "Cat")),
    ),
    Snippet("template_in_label", "en", "[[Dog|the {{nowrap|big dog}}]]", "the big dog", (Link("the big dog", "Dog"),)),
    Snippet("br_in_label", "en", "[[Dog|big<br />dog]]", "big dog", (Link("big dog", "Dog"),), space_open=True),
    Snippet(
        "address_as_label",
        "en",
        "[[Example|http://a.org]] [[Dog|a]][http://b.org]",
        "http://a.org a",
        (Link("http://a.org", "Example"), Link("a", "Dog", 1)),
        also=("http://a.org a[1]",),
    ),
)

BRACKETS = (
    Snippet(
        "three_brackets",
        "en",
        "a [[[Dog]]] b [[Cat]]]",
        "a [[[Dog]]] b Cat]",
        (Link("Cat", "Cat"),),
        why="text is cut at each [[ from the left; '[Dog' is no title",
    ),
    Snippet(
        "spaced_brackets", "en", "[ [[Dog]] ] {[[Cat]]}", "[ Dog ] {Cat}", (Link("Dog", "Dog"), Link("Cat", "Cat"))
    ),
    Snippet("unclosed_link", "en", "a [[Dog b\n\nc [[Cat]] ]] d", "a [[Dog b\nc Cat ]] d", (Link("Cat", "Cat"),)),
    Snippet("unclosed_label", "en", "a [[Dog|b [[Cat]] c", "a [[Dog|b Cat c", (Link("Cat", "Cat"),)),
    Snippet(
        "nested_link",
        "en",
        "[[Dog|a [[Cat]] b]]",
        "[[Dog|a Cat b]]",
        (Link("Cat", "Cat"),),
        why="links do not nest: the inner one wins",
    ),
    Snippet("illegal_titles", "en", "[[]] [[ ]] [[|Dog]] [[a{b}]] [[<i>c</i>]]", "[[]] [[ ]] [[|Dog]] [[a{b}]] [[c]]"),
    Snippet("escaped_brackets", "en", "&#91;&#91;Dog]] <nowiki>[[</nowiki>Cat]]", "[[Dog]] [[Cat]]"),
)

SNIPPETS = TARGETS + LABELS + BRACKETS
