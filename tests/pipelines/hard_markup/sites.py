"""The <siteinfo> of the wikis that the snippets come from: real names of namespaces."""

from __future__ import annotations

from pipelines.steps.wikitext.site import SiteInfo

KEYS = (-2, *range(-1, 16))
# Media, Special, (main), then each namespace with its talk pages: main, user, project, file, MediaWiki, template, help,
# category.
NAMES = {
    "ar": "ميديا|خاص||نقاش|مستخدم|نقاش المستخدم|ويكيبيديا|نقاش ويكيبيديا|ملف|نقاش الملف|ميدياويكي|نقاش ميدياويكي"
    "|قالب|نقاش القالب|مساعدة|نقاش المساعدة|تصنيف|نقاش التصنيف",
    "bn": "মিডিয়া|বিশেষ||আলাপ|ব্যবহারকারী|ব্যবহারকারী আলাপ|উইকিপিডিয়া|উইকিপিডিয়া আলোচনা|চিত্র|চিত্র আলোচনা|মিডিয়াউইকি"
    "|মিডিয়াউইকি আলোচনা|টেমপ্লেট|টেমপ্লেট আলোচনা|সাহায্য|সাহায্য আলোচনা|বিষয়শ্রেণী|বিষয়শ্রেণী আলোচনা",
    "de": "Medium|Spezial||Diskussion|Benutzer|Benutzer Diskussion|Wikipedia|Wikipedia Diskussion|Datei"
    "|Datei Diskussion|MediaWiki|MediaWiki Diskussion|Vorlage|Vorlage Diskussion|Hilfe|Hilfe Diskussion"
    "|Kategorie|Kategorie Diskussion",
    "el": "Μέσο|Ειδικό||Συζήτηση|Χρήστης|Συζήτηση χρήστη|Βικιπαίδεια|Συζήτηση Βικιπαίδειας|Αρχείο|Συζήτηση αρχείου"
    "|MediaWiki|Συζήτηση MediaWiki|Πρότυπο|Συζήτηση προτύπου|Βοήθεια|Συζήτηση βοήθειας|Κατηγορία|Συζήτηση κατηγορίας",
    "en": "Media|Special||Talk|User|User talk|Wikipedia|Wikipedia talk|File|File talk|MediaWiki|MediaWiki talk"
    "|Template|Template talk|Help|Help talk|Category|Category talk",
    "es": "Medio|Especial||Discusión|Usuario|Usuario discusión|Wikipedia|Wikipedia discusión|Archivo"
    "|Archivo discusión|MediaWiki|MediaWiki discusión|Plantilla|Plantilla discusión|Ayuda|Ayuda discusión"
    "|Categoría|Categoría discusión",
    "fi": "Media|Toiminnot||Keskustelu|Käyttäjä|Keskustelu käyttäjästä|Wikipedia|Keskustelu Wikipediasta|Tiedosto"
    "|Keskustelu tiedostosta|Järjestelmäviesti|Keskustelu järjestelmäviestistä|Malline|Keskustelu mallineesta"
    "|Ohje|Keskustelu ohjeesta|Luokka|Keskustelu luokasta",
    "fr": "Média|Spécial||Discussion|Utilisateur|Discussion utilisateur|Wikipédia|Discussion Wikipédia|Fichier"
    "|Discussion fichier|MediaWiki|Discussion MediaWiki|Modèle|Discussion modèle|Aide|Discussion aide"
    "|Catégorie|Discussion catégorie",
    "hi": "मीडिया|विशेष||वार्ता|सदस्य|सदस्य वार्ता|विकिपीडिया|विकिपीडिया वार्ता|चित्र|चित्र वार्ता|मीडियाविकि"
    "|मीडियाविकि वार्ता|साँचा|साँचा वार्ता|सहायता|सहायता वार्ता|श्रेणी|श्रेणी वार्ता",
    "hy": "Մեդիա|Սպասարկող||Քննարկում|Մասնակից|Մասնակցի քննարկում|Վիքիպեդիա|Վիքիպեդիայի քննարկում|Պատկեր"
    "|Պատկերի քննարկում|MediaWiki|MediaWiki քննարկում|Կաղապար|Կաղապարի քննարկում|Օգնություն|Օգնության քննարկում"
    "|Կատեգորիա|Կատեգորիայի քննարկում",
    "id": "Media|Istimewa||Pembicaraan|Pengguna|Pembicaraan Pengguna|Wikipedia|Pembicaraan Wikipedia|Berkas"
    "|Pembicaraan Berkas|MediaWiki|Pembicaraan MediaWiki|Templat|Pembicaraan Templat|Bantuan|Pembicaraan Bantuan"
    "|Kategori|Pembicaraan Kategori",
    "it": "Media|Speciale||Discussione|Utente|Discussioni utente|Wikipedia|Discussioni Wikipedia|File"
    "|Discussioni file|MediaWiki|Discussioni MediaWiki|Template|Discussioni template|Aiuto|Discussioni aiuto"
    "|Categoria|Discussioni categoria",
    "ja": "メディア|特別||ノート|利用者|利用者‐会話|Wikipedia|Wikipedia‐ノート|ファイル|ファイル‐ノート|MediaWiki"
    "|MediaWiki‐ノート|Template|Template‐ノート|Help|Help‐ノート|Category|Category‐ノート",
    "ko": "미디어|특수||토론|사용자|사용자토론|위키백과|위키백과토론|파일|파일토론|미디어위키|미디어위키토론|틀|틀토론"
    "|도움말|도움말토론|분류|분류토론",
    "mr": "मिडिया|विशेष||चर्चा|सदस्य|सदस्य चर्चा|विकिपीडिया|विकिपीडिया चर्चा|चित्र|चित्र चर्चा|मिडियाविकी"
    "|मिडियाविकी चर्चा|साचा|साचा चर्चा|सहाय्य|सहाय्य चर्चा|वर्ग|वर्ग चर्चा",
    "nl": "Media|Speciaal||Overleg|Gebruiker|Overleg gebruiker|Wikipedia|Overleg Wikipedia|Bestand|Overleg bestand"
    "|MediaWiki|Overleg MediaWiki|Sjabloon|Overleg sjabloon|Help|Overleg help|Categorie|Overleg categorie",
    "pl": "Media|Specjalna||Dyskusja|Wikipedysta|Dyskusja wikipedysty|Wikipedia|Dyskusja Wikipedii|Plik"
    "|Dyskusja pliku|MediaWiki|Dyskusja MediaWiki|Szablon|Dyskusja szablonu|Pomoc|Dyskusja pomocy|Kategoria"
    "|Dyskusja kategorii",
    "ru": "Медиа|Служебная||Обсуждение|Участник|Обсуждение участника|Википедия|Обсуждение Википедии|Файл"
    "|Обсуждение файла|MediaWiki|Обсуждение MediaWiki|Шаблон|Обсуждение шаблона|Справка|Обсуждение справки"
    "|Категория|Обсуждение категории",
    "sw": "Media|Maalum||Majadiliano|Mtumiaji|Majadiliano ya mtumiaji|Wikipedia|Majadiliano ya Wikipedia|Picha"
    "|Majadiliano ya faili|MediaWiki|Majadiliano ya MediaWiki|Kigezo|Majadiliano ya kigezo|Msaada"
    "|Majadiliano ya msaada|Jamii|Majadiliano ya jamii",
    "ta": "ஊடகம்|சிறப்பு||பேச்சு|பயனர்|பயனர் பேச்சு|விக்கிப்பீடியா|விக்கிப்பீடியா பேச்சு|படிமம்|படிமப் பேச்சு|மீடியாவிக்கி"
    "|மீடியாவிக்கி பேச்சு|வார்ப்புரு|வார்ப்புரு பேச்சு|உதவி|உதவி பேச்சு|பகுப்பு|பகுப்பு பேச்சு",
    "th": "สื่อ|พิเศษ||พูดคุย|ผู้ใช้|คุยกับผู้ใช้|วิกิพีเดีย|คุยเรื่องวิกิพีเดีย|ไฟล์|คุยเรื่องไฟล์|มีเดียวิกิ|คุยเรื่องมีเดียวิกิ"
    "|แม่แบบ|คุยเรื่องแม่แบบ|วิธีใช้|คุยเรื่องวิธีใช้|หมวดหมู่|คุยเรื่องหมวดหมู่",
    "tr": "Ortam|Özel||Tartışma|Kullanıcı|Kullanıcı mesaj|Vikipedi|Vikipedi tartışma|Dosya|Dosya tartışma|MediaWiki"
    "|MediaWiki tartışma|Şablon|Şablon tartışma|Yardım|Yardım tartışma|Kategori|Kategori tartışma",
    "vi": "Phương tiện|Đặc biệt||Thảo luận|Thành viên|Thảo luận Thành viên|Wikipedia|Thảo luận Wikipedia|Tập tin"
    "|Thảo luận Tập tin|MediaWiki|Thảo luận MediaWiki|Bản mẫu|Thảo luận Bản mẫu|Trợ giúp|Thảo luận Trợ giúp"
    "|Thể loại|Thảo luận Thể loại",
}
NAMES["zh"] = NAMES["en"]  # the Chinese Wikipedia keeps the English names; 文件, 分类 … are aliases


def _siteinfo(lang: str, names: str) -> SiteInfo:
    return SiteInfo(
        name=names.split("|")[6],
        dbname=f"{lang}wiki",
        base=f"https://{lang}.wikipedia.org/wiki/Main_Page",
        first_letter=True,
        namespaces=tuple(zip(KEYS, names.split("|"), strict=True)),
    )


SITEINFO = {lang: _siteinfo(lang, names) for lang, names in NAMES.items()}
