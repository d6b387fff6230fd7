//! The language of a prompt, also of a question of few words. Frequent words and letters that few languages have decide
//! first: statistics of letters, which decide the rest, need a paragraph. What stays uncertain is unknown rather than wrong.

use std::{collections::HashMap, sync::LazyLock};

use whatlang::Script;

/// Bytes of a text that are read.
const BYTES: usize = 1024;
/// Least confidence at which a language counts that letters' statistics find.
const CERTAIN: f64 = 0.5;
/// Words and letters that tell a language: a word of one language counts 1.
const LEAST: f64 = 0.75;
/// The lead over the next language.
const LEAD: f64 = 1.35;

/// A language: its code, frequent words of questions and requests, and letters that few others have.
type Language = (&'static str, &'static str, &'static str);

/// Languages of the Latin script.
const LATIN: &[Language] = &[
    (
        "en",
        "the a an of and to in is are was were be been it its this that these those i you he she we they my your his her our \
         their what whats which who why how when where whose for with from by at on about into do does did don doesn can \
         could would should will please write give tell show explain summarize summarise translate make create list \
         find fix describe compare help many much more most some any not no yes there here then than have has had let me \
         if but or as so between without using thanks hello difference best way mean all new out up get say",
        "",
    ),
    (
        "de",
        "der die das den dem des ein eine einen einem einer eines und oder aber ist sind war waren sein nicht kein keine \
         ich du er wir ihr sie mir mich dir dich uns euch mein meine dein deine was wer wie wo wann warum wieso weshalb \
         welche welcher welches wozu mit von zu zum zur für auf aus bei im am an nach über unter vor durch gegen ohne um \
         es bitte schreibe schreib erkläre erklär übersetze fasse zeige gib nenne mache kann kannst können soll wird \
         werden hat haben habe auch noch nur schon sehr mehr viel viele gibt macht dieser diese dieses diesen leben heißt \
         hallo danke zwischen als wenn dass ob man beste funktioniert",
        "ßäöü",
    ),
    (
        "fr",
        "le la les un une des du de et ou est sont était être pas ne je tu il elle nous vous ils elles on mon ma mes ton ta \
         tes son sa ses notre votre que qui quoi quel quelle quels quelles comment pourquoi quand où combien dans pour avec \
         sur sous par sans aux au ce cet cette ces c d l j qu n s y en à se plus moins très fait faire peux peut peut-être \
         écris écrivez explique expliquez traduis traduisez résume résumez donne donnez moi bonjour merci entre comme si \
         mais tout tous ai as avez ont dit signifie différence meilleur meilleure",
        "çèêàùœîâôû",
    ),
    (
        "es",
        "el la los las un una unos unas de del y o es son era ser está están no yo tú él ella nosotros ustedes mi tu su mis \
         tus sus qué que quién cuál cuáles cómo como por para porque cuándo cuando dónde donde cuánto cuántos cuántas cuánta \
         en con sin sobre entre al lo se me te le hay tiene tengo puedo puedes puede hacer hace más muy este esta estos \
         estas ese esa escribe escríbeme explica explícame traduce resume dame dime muéstrame gracias hola pero si también \
         ha he significa mejor diferencia personas",
        "ñ¿¡áíóú",
    ),
    (
        "it",
        "il lo la i gli le un uno una di del della dello dei degli delle e o è sono era essere non io tu lui lei noi voi loro \
         mio mia tuo tua suo sua che chi cosa quale quali come perché quando dove quanto quanti quante in con su per tra fra \
         da dal dalla al alla allo nel nella sul sulla ci si mi ti questo questa questi queste scrivi spiega spiegami traduci \
         riassumi dammi dimmi mostrami grazie ciao ma anche più molto ho ha hai hanno fare c dell l significa migliore \
         differenza puoi può",
        "èòìù",
    ),
    (
        "pt",
        "o a os as um uma uns umas de do da dos das e ou é são era ser está não eu tu você ele ela nós vocês eles meu minha \
         seu sua que quem qual quais como por porque quando onde quanto quantos quantas em no na nos nas com sem para pelo \
         pela ao à se me lhe há tem tenho pode posso fazer faz mais muito este esta esse essa isso isto escreva escreve \
         explique explica traduza traduz resuma dê diga mostre obrigado obrigada olá mas também foi significa melhor \
         diferença pessoas entre",
        "ãõçêâ",
    ),
    (
        "nl",
        "de het een en of is zijn was waren niet geen ik jij je hij zij wij we jullie mij mijn jouw ons onze wat wie hoe waar \
         wanneer waarom welke welk hoeveel met van voor naar op uit bij in aan over onder door tegen zonder om te er dit dat \
         deze die schrijf leg vertaal vat geef vertel toon maak kan kun kunt kunnen moet wordt worden heeft hebben heb ook nog \
         maar meer veel zeer graag alstublieft bedankt hallo tussen als dan mensen betekent verschil beste werkt samen",
        "",
    ),
    (
        "sv",
        "en ett den det de och eller är var vara inte jag du han hon vi ni mig dig oss min mitt din ditt vad vem hur var när \
         varför vilken vilket vilka med av för till från på i om under genom utan att som den detta dessa skriv förklara \
         översätt sammanfatta ge berätta visa gör kan ska skulle har hade också men mer mycket många tack hej mellan finns \
         människor betyder skillnaden bästa",
        "äöå",
    ),
    (
        "da",
        "en et den det de og eller er var være ikke jeg du han hun vi i mig dig os min mit din dit hvad hvem hvordan hvor \
         hvornår hvorfor hvilken hvilket hvilke hvilken med af for til fra på om under gennem uden at som dette disse skriv \
         forklar oversæt opsummer giv fortæl vis gør kan skal skulle har havde også men mere meget mange tak hej mellem \
         findes bor der mennesker betyder forskellen bedste",
        "æøå",
    ),
    (
        "no",
        "en ei et den det de og eller er var være ikke jeg du han hun vi dere meg deg oss min mitt din ditt hva hvem hvordan \
         hvor når hvorfor hvilken hvilket hvilke med av for til fra på i om under gjennom uten å at som dette disse skriv \
         forklar oversett oppsummer gi fortell vis gjør kan skal skulle har hadde også men mer mye mange takk hei mellom \
         finnes bor det mennesker betyr forskjellen beste",
        "æøå",
    ),
    (
        "fi",
        "ja tai on ovat oli olla ei en et minä sinä hän me te he minun sinun mikä mitä kuka miten kuinka missä milloin miksi \
         mikä mitkä monta paljon kanssa ilman että kun jos tämä tuo nämä kirjoita selitä käännä tiivistä anna kerro näytä voi \
         voitko pitää myös mutta enemmän hyvin kiitos hei välillä ihmistä tarkoittaa ero paras siitä",
        "äö",
    ),
    (
        "pl",
        "i lub albo jest są był była być nie ja ty on ona my wy oni mój moja twój jego co kto jak gdzie kiedy dlaczego czemu \
         jaki jaka jakie które który która ile z ze w we na do od dla po o u przez bez pod nad się to ten ta te tego tej napisz \
         wyjaśnij przetłumacz streść podaj powiedz pokaż zrób czy może można mam ma też ale bardzo więcej dziękuję cześć \
         między oznacza różnica mi proszę ludzi",
        "łżźęąśćń",
    ),
    (
        "cs",
        "a nebo je jsou byl byla být není ne já ty on ona my vy oni můj moje tvůj co kdo jak kde kdy proč jaký jaká jaké které \
         který která kolik s se v ve na do od pro po o u přes bez pod nad si to ten ta te toho napiš napište vysvětli přelož \
         shrň dej řekni ukaž udělej může můžeš mám má také ale velmi více děkuji ahoj mezi znamená rozdíl mi prosím lidí žije",
        "ěřůčšž",
    ),
    (
        "tr",
        "ve veya bir bu şu o ben sen biz siz onlar benim senin ne kim nasıl nerede neden niçin niye ne zaman hangi kaç mi mı \
         mu mü ile için gibi kadar daha çok en var yok değil da de ama yaz açıkla çevir özetle ver söyle göster yap olarak olan \
         nedir kimdir midir misin mısın teşekkürler merhaba arasında insan yaşıyor anlama gelir fark bana",
        "ığşçöü",
    ),
    (
        "ro",
        "și sau este sunt era fi nu eu tu el ea noi voi ei meu mea tău ta ce cine cum unde când de ce care cât câți câte cu din \
         în la pe pentru fără prin despre un o unei unui al ale acest această aceste scrie explică traduce rezumă dă spune \
         arată fă poate poți are am dar mai foarte mulți mulțumesc salut între înseamnă diferența cel mai bun îmi oameni",
        "ăâîșțşţ",
    ),
    (
        "hu",
        "a az egy és vagy van vannak volt nem én te ő mi ti ők mit ki hogyan hol mikor miért melyik milyen hány mennyi mennyire \
         hogy ha ez azt ezt írj magyarázd fordítsd foglald adj mondd mutasd lehet is de még nagyon több köszönöm szia között \
         ember jelent különbség legjobb nekem kell kérlek meg el",
        "őű",
    ),
    (
        "id",
        "dan atau adalah ialah yang di ke dari untuk dengan pada ini itu saya aku kamu anda dia kami kita mereka apa siapa \
         bagaimana dimana mana kapan mengapa kenapa berapa banyak tidak bukan ada bisa dapat akan sudah juga tapi lebih sangat \
         tulis tuliskan jelaskan terjemahkan ringkas berikan katakan tunjukkan buat buatkan terima kasih halo antara orang arti \
         perbedaan terbaik tentang dalam oleh cara",
        "",
    ),
    (
        "vi",
        "và hoặc là của có không tôi bạn anh chị em chúng ta họ gì ai như thế nào ở đâu khi tại sao bao nhiêu với cho từ trong \
         trên này đó viết giải thích dịch tóm tắt hãy nói được sẽ đã cũng nhưng hơn rất nhiều cảm ơn xin chào giữa người nghĩa \
         khác nhau một các những",
        "đơưạảấầậắằặẹẻẽếềểệịỉĩọỏốồổỗộớờởỡợụủứừửữựỳỷỹ",
    ),
    (
        "ca",
        "el la els les un una i o és són era ser no jo tu ell ella nosaltres meu meva què qui quin quina com per perquè quan on \
         quant quants quantes en amb sense sobre entre al del dels hi ha té puc pot pots fer fa més molt aquest aquesta això \
         escriu explica tradueix resumeix dóna digues mostra gràcies hola però també significa",
        "·çòèàï",
    ),
];

/// Languages of the Cyrillic script.
const CYRILLIC: &[Language] = &[
    (
        "ru",
        "и в не на я что с как это он она они мы вы ты по из у за от для о к но же бы ли или где когда почему зачем сколько \
         какой какая какие какое кто чем который есть был была быть если мне меня мой твой ваш напиши объясни переведи расскажи \
         покажи сделай дай можно может нужно ещё уже так только очень также между людей живёт значит привет спасибо пожалуйста \
         лучше стихи работает называется",
        "ыэё",
    ),
    (
        "uk",
        "і й та в у не на я що з як це він вона вони ми ви ти по із за від для о до але чи або де коли чому навіщо скільки який \
         яка які яке хто є був була бути якщо мені мене мій твій напиши поясни переклади розкажи покажи зроби дай можна може \
         треба ще вже так тільки дуже також між людей живе означає привіт дякую будь ласка",
        "іїєґ",
    ),
    (
        "bg",
        "и в не на аз че с със как това той тя те ние вие ти по от за до но ли или къде кога защо колко какъв каква какви какво \
         кой коя кое които е съм са сме беше бъде ако ми ме моят напиши обясни преведи разкажи покажи направи дай може трябва \
         още вече само много също между хора живеят означава здравей благодаря моля да ще се",
        "",
    ),
    (
        "sr",
        "и у не на ја да са како то он она они ми ви ти по од за до али ли или где када зашто колико какав која који које ко је \
         сам су смо био била бити ако мене мој напиши објасни преведи реци покажи направи дај може треба још већ само врло \
         такође између људи живи значи здраво хвала молим се шта што",
        "ђћјљњџ",
    ),
    (
        "mk",
        "и во не на јас дека со како тоа тој таа тие ние вие ти од за до но ли или каде кога зошто колку каков која кој е сум се ќе што",
        "ќѓѕ",
    ),
    (
        "be",
        "і ў не на я што з як гэта ён яна яны мы вы ты па ад для але ці або дзе калі чаму колькі які якая хто ёсць быў",
        "ў",
    ),
];

/// Languages of the Arabic script.
const ARABIC: &[Language] = &[
    (
        "ar",
        "في من على إلى ما هو هي هل كيف متى أين لماذا كم هذا هذه التي الذي أن لا مع عن اكتب اشرح ترجم لخص لي أنا أنت كان و أو",
        "ةىأإ",
    ),
    (
        "fa",
        "در از به با که این آن را چه چرا چگونه کجا چند است هست برای و یا من شما تو می بنویس توضیح ترجمه کن بده چیست",
        "پچژگکی",
    ),
    ("ur", "میں سے کو کا کی کے ہے ہیں کیا کیوں کیسے کہاں کب کتنے یہ وہ اور پر نے آپ مجھے لکھو بتاؤ", "ٹڈڑںےہ"),
];

/// Words of a script's languages, each with the languages that have it, by their index.
struct Table {
    languages: &'static [Language],
    words: HashMap<&'static str, u32>,
}

static TABLES: LazyLock<[Table; 3]> = LazyLock::new(|| [LATIN, CYRILLIC, ARABIC].map(Table::of));

/// The two-letter code of a text's language; empty if it is uncertain.
pub(super) fn code(text: &str) -> &'static str {
    let head = &text[..text.floor_char_boundary(BYTES.min(text.len()))];
    let [latin, cyrillic, arabic] = &*TABLES;
    let by_words = match whatlang::detect_script(head) {
        // Names and terms in Latin letters may outnumber the signs of the languages that need few of them.
        Some(Script::Latin) => latin.find(head).or_else(|| of_signs(head)),
        Some(Script::Cyrillic) => cyrillic.find(head),
        Some(Script::Arabic) => arabic.find(head),
        Some(Script::Mandarin | Script::Hiragana | Script::Katakana | Script::Hangul) => of_signs(head),
        _ => None,
    };
    let by_letters = || whatlang::detect(head).filter(|found| found.confidence() >= CERTAIN);
    by_words.unwrap_or_else(|| by_letters().map_or("", |found| iso_639_1(found.lang())))
}

/// The language of a text with signs that only one usual language has.
fn of_signs(text: &str) -> Option<&'static str> {
    let count = |range: &[std::ops::RangeInclusive<char>]| {
        text.chars().filter(|sign| range.iter().any(|range| range.contains(sign))).count()
    };
    let (kana, hangul) = (count(&['\u{3041}'..='\u{30FF}']), count(&['\u{AC00}'..='\u{D7A3}']));
    match count(&['\u{4E00}'..='\u{9FFF}']) {
        _ if kana > 1 && kana >= hangul => Some("ja"),
        han if hangul > 1 && hangul >= han => Some("ko"),
        han if han > 1 && kana == 0 && hangul == 0 => Some("zh"),
        _ => None,
    }
}

impl Table {
    fn of(languages: &'static [Language]) -> Self {
        let mut words: HashMap<_, u32> = HashMap::new();
        for (index, (_, list, _)) in languages.iter().enumerate() {
            list.split_whitespace().for_each(|word| *words.entry(word).or_default() |= 1 << index);
        }
        Self { languages, words }
    }

    /// The language whose words and letters the text has. `None` if that is not clear.
    fn find(&self, text: &str) -> Option<&'static str> {
        let lower = text.to_lowercase();
        let mut scores = vec![0.0; self.languages.len()];
        let mut add = |of: u32, amount: f64| {
            let each = amount / f64::from(of.count_ones().max(1));
            scores
                .iter_mut()
                .enumerate()
                .filter(|(index, _)| of >> index & 1 == 1)
                .for_each(|(_, score)| *score += each);
        };
        let words = lower.split(|sign: char| !sign.is_alphabetic() && sign != '·').filter(|word| !word.is_empty());
        for word in words {
            if let Some(of) = self.words.get(word) {
                add(*of, 1.0);
            }
            // One of its letters counts, so that long words do not decide.
            let by_letter = |sign: char| {
                let has = |(index, (_, _, letters)): (usize, &Language)| u32::from(letters.contains(sign)) << index;
                self.languages.iter().enumerate().map(has).sum::<u32>()
            };
            let letters = word.chars().filter(|sign| !sign.is_ascii()).map(by_letter).filter(|of| *of != 0);
            if let Some(of) = letters.min_by_key(|of| of.count_ones()) {
                add(of, 0.8);
            }
        }
        for sign in lower.chars().filter(|sign| matches!(sign, '¿' | '¡')) {
            let has = |(index, (_, _, letters)): (usize, &Language)| u32::from(letters.contains(sign)) << index;
            add(self.languages.iter().enumerate().map(has).sum(), 1.0);
        }
        let best = (0..scores.len()).max_by(|one, other| scores[*one].total_cmp(&scores[*other]))?;
        let next =
            scores.iter().enumerate().filter(|(index, _)| *index != best).map(|(_, score)| *score).fold(0.0, f64::max);
        (scores[best] >= LEAST && scores[best] >= LEAD * next).then(|| self.languages[best].0)
    }
}

/// Converts the three-letter codes of `whatlang` (ISO 639-3).
fn iso_639_1(language: whatlang::Lang) -> &'static str {
    use whatlang::Lang;
    match language {
        Lang::Eng => "en",
        Lang::Deu => "de",
        Lang::Fra => "fr",
        Lang::Spa => "es",
        Lang::Ita => "it",
        Lang::Por => "pt",
        Lang::Nld => "nl",
        Lang::Rus => "ru",
        Lang::Ukr => "uk",
        Lang::Pol => "pl",
        Lang::Ces => "cs",
        Lang::Slk => "sk",
        Lang::Slv => "sl",
        Lang::Hrv => "hr",
        Lang::Srp => "sr",
        Lang::Bul => "bg",
        Lang::Mkd => "mk",
        Lang::Bel => "be",
        Lang::Ron => "ro",
        Lang::Hun => "hu",
        Lang::Swe => "sv",
        Lang::Dan => "da",
        Lang::Nob => "no",
        Lang::Fin => "fi",
        Lang::Est => "et",
        Lang::Lav => "lv",
        Lang::Lit => "lt",
        Lang::Ell => "el",
        Lang::Tur => "tr",
        Lang::Aze => "az",
        Lang::Uzb => "uz",
        Lang::Tuk => "tk",
        Lang::Kat => "ka",
        Lang::Hye => "hy",
        Lang::Heb => "he",
        Lang::Ara => "ar",
        Lang::Pes => "fa",
        Lang::Urd => "ur",
        Lang::Hin => "hi",
        Lang::Ben => "bn",
        Lang::Mar => "mr",
        Lang::Guj => "gu",
        Lang::Pan => "pa",
        Lang::Tam => "ta",
        Lang::Tel => "te",
        Lang::Kan => "kn",
        Lang::Mal => "ml",
        Lang::Ori => "or",
        Lang::Sin => "si",
        Lang::Nep => "ne",
        Lang::Tha => "th",
        Lang::Mya => "my",
        Lang::Khm => "km",
        Lang::Vie => "vi",
        Lang::Ind => "id",
        Lang::Jav => "jv",
        Lang::Tgl => "tl",
        Lang::Cmn => "zh",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        Lang::Amh => "am",
        Lang::Afr => "af",
        Lang::Aka => "ak",
        Lang::Zul => "zu",
        Lang::Sna => "sn",
        Lang::Cat => "ca",
        Lang::Epo => "eo",
        Lang::Lat => "la",
        Lang::Yid => "yi",
        Lang::Cym => "cy",
        // A later version of the crate may add languages.
        #[allow(unreachable_patterns, reason = "the list is whole for this version of the crate")]
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_questions_have_a_language() {
        for (language, texts) in [
            (
                "en",
                &[
                    "How tall is Mount Everest?",
                    "Why is the sky blue?",
                    "Is it cold?",
                    "Please fix this code",
                    "Give me three names",
                    "What's the capital of France?",
                    "Translate this to German",
                    "tell me a joke",
                    "Write a haiku about autumn",
                ][..],
            ),
            (
                "de",
                &[
                    "Wie hoch ist der Eiffelturm?",
                    "Warum ist der Himmel blau?",
                    "Schreibe ein Gedicht über den Herbst",
                    "Was kostet das?",
                    "Wer war Goethe?",
                    "Erkläre mir Rekursion",
                ],
            ),
            (
                "fr",
                &[
                    "Quelle est la capitale du Japon ?",
                    "Pourquoi le ciel est bleu ?",
                    "Écris un poème sur l'automne",
                    "Combien coûte un billet ?",
                    "Qu'est-ce que c'est ?",
                ],
            ),
            (
                "es",
                &[
                    "¿Cuántas personas viven en Perú?",
                    "¿Por qué llueve?",
                    "Escribe un poema sobre el mar",
                    "Cuál es la capital de Italia",
                    "Explica la fotosíntesis",
                ],
            ),
            (
                "it",
                &[
                    "Qual è la capitale della Spagna?",
                    "Perché piove oggi?",
                    "Scrivi una poesia sul mare",
                    "Quante persone vivono a Roma?",
                ],
            ),
            (
                "pt",
                &["Qual é a capital do Brasil?", "Escreva um poema sobre o mar", "Quantas pessoas vivem em Lisboa?"],
            ),
            (
                "nl",
                &[
                    "Hoeveel mensen wonen er in Utrecht?",
                    "Waarom regent het vandaag?",
                    "Schrijf een gedicht over de zee",
                ],
            ),
            ("sv", &["Hur många bor i Stockholm?", "Varför är himlen blå?"]),
            ("da", &["Hvad hedder du?"]),
            ("pl", &["Dlaczego niebo jest niebieskie?", "Ile osób mieszka w Polsce?", "Napisz wiersz o morzu"]),
            ("tr", &["Gökyüzü neden mavi?", "Türkiye'de kaç kişi yaşıyor?", "Bana bir şiir yaz"]),
            ("cs", &["Proč je nebe modré?", "Kolik lidí žije v Praze?"]),
            ("fi", &["Miksi taivas on sininen?", "Kuinka monta ihmistä asuu Helsingissä?"]),
            (
                "ru",
                &[
                    "Почему идёт дождь?",
                    "Сколько людей живёт в Москве?",
                    "Напиши стихи про осень",
                    "Столица Франции как называется",
                ],
            ),
            ("uk", &["Чому небо блакитне?", "Скільки людей живе у Києві?"]),
            ("bg", &["Защо небето е синьо?", "Колко хора живеят в София?"]),
            ("ja", &["空はなぜ青いのですか", "Rustのライフタイムを説明して"]),
            ("zh", &["天空为什么是蓝色的", "请解释 Kubernetes deployment"]),
            ("ko", &["하늘은 왜 파란가요?"]),
            ("ar", &["لماذا السماء زرقاء؟", "ما هي عاصمة فرنسا؟"]),
            ("fa", &["چرا آسمان آبی است؟"]),
            ("el", &["Γιατί ο ουρανός είναι μπλε;"]),
            ("he", &["למה השמיים כחולים?"]),
            ("hi", &["आसमान नीला क्यों है और बादल सफेद क्यों होते हैं?"]),
        ] {
            for text in texts {
                assert_eq!(code(text), language, "{text}");
            }
        }
    }

    #[test]
    fn an_uncertain_language_is_unknown() {
        for text in [
            "",
            "42",
            "ok",
            "12 + 30 = ?",
            "Rust 1.90",
            "foo_bar(baz)",
            "Paris London Berlin",
            "https://example.org/a/b",
        ] {
            assert_eq!(code(text), "", "{text}");
        }
    }
}
