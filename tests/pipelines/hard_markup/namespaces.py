"""Links that are no anchors: files, categories, other namespaces, other wikis. Local names, English names, aliases."""

from __future__ import annotations

from .snippet import Link, Snippet

FILES = (
    Snippet(
        "file_nested_caption",
        "en",
        "[[File:Dog.jpg|thumb|left|A [[dog]] by [http://a.org a [great] man], "
        "[[File:x.svg|20px|link=[[y]]]] ''[[cat|cats]]'']]"
        "A [[wolf]].",
        "A wolf.",
        (Link("wolf", "wolf"),),
        why="a caption may hold links; the file with all of it is gone",
    ),
    Snippet("file_names_en", "en", "[[image:a.png]][[ FILE : b c.png|thumb]][[File:d_e.svg|frame|x\n\ny]]Text", "Text"),
    Snippet("file_then_letters", "en", "[[File:a.png]]s", "s", why="a file has no trail"),
    Snippet(
        "file_de",
        "de",
        "[[Datei:A.jpg|mini|Ein [[Hund]]]][[Bild:B.jpg|mini]][[File:C.jpg]]Ein [[Wolf]]",
        "Ein Wolf",
        (Link("Wolf", "Wolf"),),
    ),
    Snippet(
        "file_fr",
        "fr",
        "[[Fichier:A.jpg|vignette|Le [[chat]]]][[Image:B.jpg|droite]]Le [[chien]]",
        "Le chien",
        (Link("chien", "chien"),),
    ),
    Snippet(
        "file_alias_it",
        "it",
        "[[Immagine:Roma.jpg|thumb|La [[fontana]]]]\n[[Roma]]",
        "Roma",
        (Link("Roma", "Roma"),),
        why="an alias that siteinfo does not name",
    ),
    Snippet(
        "file_alias_vi",
        "vi",
        "[[Hình:Hanoi.jpg|nhỏ|[[Hồ Gươm]]]][[Tập tin:X.jpg|phải]]'''[[Hà Nội]]''' là",
        "Hà Nội là",
        (Link("Hà Nội", "Hà Nội"),),
        bold=("Hà Nội",),
    ),
    Snippet(
        "file_alias_es",
        "es",
        "[[Archivo:A.jpg|miniatura|Un [[gato]]]][[Imagen:B.jpg]]Un [[perro]]",
        "Un perro",
        (Link("perro", "perro"),),
    ),
    Snippet(
        "file_alias_fi",
        "fi",
        "[[Kuva:A.jpg|pienoiskuva|[[Kissa]]]][[Tiedosto:B.jpg]]Se on [[koira]].",
        "Se on koira.",
        (Link("koira", "koira"),),
    ),
    Snippet(
        "file_alias_ru",
        "ru",
        "[[Файл:A.jpg|мини|[[Кот]]]][[Изображение:B.jpg]][[Image:C.jpg]]Это [[собака]]",
        "Это собака",
        (Link("собака", "собака"),),
    ),
    Snippet(
        "file_alias_ar", "ar", "[[ملف:A.jpg|تصغير|[[قط]]]][[صورة:B.jpg]]هذا [[كلب]]", "هذا كلب", (Link("كلب", "كلب"),)
    ),
    Snippet(
        "file_alias_ja",
        "ja",
        "[[ファイル:A.jpg|thumb|[[猫]]]][[画像:B.jpg]]これは[[犬]]。",
        "これは犬。",
        (Link("犬", "犬"),),
    ),
    Snippet(
        "file_alias_zh",
        "zh",
        "[[文件:A.jpg|缩略图|[[猫]]]][[檔案:B.jpg]][[图像:C.jpg]]这是[[狗]]",
        "这是狗",
        (Link("狗", "狗"),),
    ),
    Snippet(
        "file_hi",
        "hi",
        "[[चित्र:A.jpg|अंगूठाकार|[[बिल्ली]]]][[File:B.jpg]]यह [[कुत्ता]] है",
        "यह कुत्ता है",
        (Link("कुत्ता", "कुत्ता"),),
    ),
    Snippet(
        "file_ko_th_style",
        "ko",
        "[[파일:A.jpg|섬네일|[[고양이]]]]이것은 [[개]]이다",
        "이것은 개이다",
        (Link("개", "개"),),
    ),
    Snippet("file_th_alias", "th", "[[ไฟล์:A.jpg|thumb|[[แมว]]]][[ภาพ:B.jpg]][[สุนัข]]", "สุนัข", (Link("สุนัข", "สุนัข"),)),
    Snippet(
        "file_tr",
        "tr",
        "[[Dosya:A.jpg|küçükresim|[[Kedi]]]][[Resim:B.jpg]]Bu bir [[köpek]]",
        "Bu bir köpek",
        (Link("köpek", "köpek"),),
    ),
    Snippet(
        "file_sw", "sw", "[[Picha:A.jpg|thumb|[[Paka]]]]Huyu ni [[mbwa]].", "Huyu ni mbwa.", (Link("mbwa", "mbwa"),)
    ),
    Snippet("file_bn", "bn", "[[চিত্র:A.jpg|থাম্ব|[[বিড়াল]]]]এটি [[কুকুর]]", "এটি কুকুর", (Link("কুকুর", "কুকুর"),)),
    Snippet(
        "file_unclosed",
        "en",
        "[[File:a.jpg|thumb|A [[dog]]\n\nA [[wolf]].",
        "[[File:a.jpg|thumb|A dog\nA wolf.",
        (Link("dog", "dog"), Link("wolf", "wolf")),
        why="without its ]] it is no file; what follows is not lost",
    ),
    Snippet(
        "file_alias_id",
        "id",
        "[[Berkas:A.jpg|jmpl|[[Kucing]]]][[Gambar:B.jpg]]Ini [[anjing]]",
        "Ini anjing",
        (Link("anjing", "anjing"),),
    ),
    Snippet(
        "file_nl_ta",
        "nl",
        "[[Bestand:A.jpg|miniatuur|Een [[kat]]]][[AFBEELDING:B.jpg]]Een [[hond]]",
        "Een hond",
        (Link("hond", "hond"),),
    ),
)

OTHERS = (
    Snippet(
        "categories", "en", "Text\n\n[[Category:Dogs| ]]\n[[category:Cats|Dog, Big]]\n[[Category : Wolves|*]]\n", "Text"
    ),
    Snippet("category_inside_line", "en", "A [[Category:Dogs]][[dog]]", "A dog", (Link("dog", "dog"),)),
    Snippet("categories_local", "de", "Text[[Kategorie:Hund|Sort]][[Category:X]]", "Text"),
    Snippet(
        "categories_ru",
        "ru",
        "Текст [[Собака|пёс]]\n[[Категория:Собаки|Пёс]]\n[[категория:Коты]]",
        "Текст пёс",
        (Link("пёс", "Собака"),),
    ),
    Snippet(
        "colon_category_and_file",
        "en",
        "see [[:Category:Dogs]], [[:File:a.jpg|a file]], [[:Image:b.jpg]]",
        "see Category:Dogs, a file, Image:b.jpg",
        why="with a leading colon it is a visible link, though to no article",
    ),
    Snippet(
        "other_namespaces",
        "en",
        "[[User:Ann|Ann]] [[user_talk:Ann]] [[Help:Links|help]] [[Template:X]] "
        "[[Wikipedia:About|about]] [[Special:Search]]",
        "Ann user_talk:Ann help Template:X about Special:Search",
    ),
    Snippet("media", "en", "[[Media:a.ogg|listen]]", "listen", why="Media: links to the file and shows its label"),
    Snippet(
        "namespace_local_tr",
        "tr",
        "[[Kullanıcı:Ali|Ali]] [[Yardım:X|y]] [[İstanbul]]",
        "Ali y İstanbul",
        (Link("İstanbul", "İstanbul"),),
    ),
    Snippet(
        "interlanguage",
        "sw",
        "Matini\n[[en:Dog]]\n[[zh-min-nan:Káu]]\n[[simple:Dog]]",
        "Matini",
        why="links between languages are shown beside the page",
    ),
    Snippet("interlanguage_colon", "fr", "[[:en:Dog]], [[:de:Hund|le Hund]]", "en:Dog, le Hund"),
    Snippet(
        "interwiki",
        "en",
        "[[wikt:dog|dogs]], [[wikt:cat]], [[commons:Dog|pictures]], [[s:The Raven|poem]]",
        "dogs, wikt:cat, pictures, poem",
        why="links to other projects are visible, but to no article of this wiki",
    ),
    Snippet("interwiki_trail", "de", "[[wikt:Hund|Hund]]e und [[Hund]]", "Hunde und Hund", (Link("Hund", "Hund", 1),)),
    Snippet(
        "user_feminine",
        "de",
        "[[Benutzerin:Anna|Anna]] und [[benutzer:Otto|Otto]]",
        "Anna und Otto",
        why="user pages of women have a name of their own",
    ),
    Snippet(
        "interlanguage_in_line",
        "es",
        "A [[en:Dog|dog]][[perro]]",
        "A perro",
        (Link("perro", "perro"),),
        why="a label does not make it visible",
    ),
    Snippet("category_then_letters", "pl", "A[[Kategoria:Psy]]b [[pies]]", "Ab pies", (Link("pies", "pies"),)),
    Snippet(
        "spaces_before_colon",
        "it",
        "[[de : Hund]][[categoria : Cani]][[ immagine : a.jpg|x]]Il [[cane]]",
        "Il cane",
        (Link("cane", "cane"),),
    ),
    Snippet("item_with_file", "en", "* [[File:a.jpg|x]] a [[b]]\n: [[File:c.jpg]]\n* d", "a b\nd", (Link("b", "b"),)),
)

SNIPPETS = FILES + OTHERS
