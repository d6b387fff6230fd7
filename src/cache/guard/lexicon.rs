//! Lexicon of the guards: stop words, light words, synonyms, negations and contractions.
//!
//! All lists were written for this project by reasoning, not from a corpus. They are English, except for negations.
//! Unknown words count as content words, so that a text in another language is compared more strictly and never more
//! loosely.

use std::{collections::HashMap, sync::LazyLock};

use super::lemma::lemma;

/// Weight of a stop word in comparisons.
pub(super) const STOP: f32 = 0.0;
/// Weight of words with little meaning of their own, such as "way" or "really".
pub(super) const LIGHT: f32 = 0.25;
/// Weight of other words.
pub(super) const CONTENT: f32 = 1.0;
/// Weight of names.
pub(super) const NAME: f32 = 1.5;

/// Stop words: they join, ask or point, and mean nothing by themselves.
const STOPS: &str = "a an the this that these those some any of in on at for with about as and or but so if then than is are was were \
    be been being am do does did done doing have has had having i me my mine myself we us our ours you your yours yourself he him \
    his she her hers it its they them their theirs what which who whom whose when where why how can could shall should will would may \
    might must there here please tell let me know thank thanks hi hello hey to into onto from by via upon within per up down out \
    also just too very really quite actually basically exactly even ever still already again etc ok okay one ones oneself \
    somebody anyone anybody something anything like kindly dear sir plz pls vs versus because since while during until \
    between among through both such own go going want wanted need needed wish able explain describe";

/// Light words: texts with and without them may well ask the same.
const LIGHTS: &str = "way best good great nice well better thing stuff people person possible possibly easy easily simple simply \
    proper properly correct correctly right effective effectively efficient efficiently common commonly main basic general generally \
    typical typically usual usually normal normally certain particular specific given current currently recommend recommendation suggest \
    suggestion advice tip idea example step process guide tutorial instruction help use find give get make take show try think believe \
    feel consider happen work different various several many much lot lots more most other another kind type sort time life world \
    question answer information detail reason meaning mean difference exist follow become come keep put see look say opinion view \
    important major actual true real ever order case point fact part term matter system complete whole entire full";

/// Synonyms by line; the first word represents the others. `_` joins words to a phrase.
const SAME: &str = "
way method technique approach strategy means manner
good nice great awesome excellent decent
best top finest greatest ideal
start begin commence
buy purchase
sell_off
big large huge
small little tiny
quick fast rapid quickly rapidly speedily
fix repair mend resolve solve troubleshoot
delete remove erase
show display
change modify alter
get obtain acquire receive
choose select pick opt_for
movie film motion_picture
car automobile
phone cellphone mobile_phone cell_phone smartphone telephone
child kid children kids
doctor physician
enable activate turn_on switch_on
disable deactivate turn_off switch_off
increase raise boost
decrease reduce lower lessen cut_down
login log_in sign_in log_on logon signin
logout log_out sign_out log_off logoff signout
signup sign_up register enrol enroll
shutdown shut_down power_off
install set_up setup
difference differ distinguish
advantage benefit pro upside
disadvantage drawback con downside
price cost
happen occur take_place
reason cause
important crucial essential vital
speak talk
shop store
job occupation
salary wage pay
company firm
trip journey
holiday vacation
garbage trash rubbish
picture photo photograph image pic
email e_mail mail_address
website web_site site webpage
internet web online
app application
pc computer
laptop notebook
tv television
exam examination
maths math mathematics
university uni college
teach instruct
study learn
road street
angry mad
ill sick
fat obese
rich wealthy
famous popular well_known
difficult hard tough challenging
easy simple straightforward
cheap inexpensive affordable
answer reply respond
ask inquire enquire
end finish conclude terminate
close shut
error_message error
bug defect
usa united_states united_states_of_america america u_s u_s_a american
uk united_kingdom britain great_britain u_k british
uae united_arab_emirates
eu european_union
un united_nations
nyc new_york new_york_city
la los_angeles
ai artificial_intelligence
ml machine_learning
js javascript
ts typescript
k8s kubernetes
postgres postgresql
db database
os operating_system
id identifier
lose shed
weight kilo
slim thin
earn make_money earn_money
improve enhance better_at get_better
avoid prevent
stop quit cease
allow permit let
need require
try attempt
live reside
die pass_away
explain describe elaborate clarify
define definition meaning mean
work function operate
people person human individual
woman lady
man guy
wife_of spouse
love_affair affair
forget forgot
attach add
retrieve recover restore get_back
locate find discover
reset_of resetting
rename change_name
copy duplicate
send transmit
save store_up
undo revert roll_back
update upgrade_to
verify check validate
build construct
fight combat
hire employ recruit
fire dismiss sack
calculate compute work_out figure_out determine
length long
height tall
width wide
depth deep
age old
distance far
frequency often
kilometre kilometer km kms
metre meter
centimetre centimeter cm
millimetre millimeter mm
mile mi
litre liter
gram gramme
kilogram kg kgs
pound lb lbs
ounce oz
celsius centigrade
hour hr hrs
minute min mins
second_unit sec secs
";

/// Negations. Contractions are expanded before.
const NEGATIONS: &str = "not no never without none nobody nothing nowhere neither nor cannot non hardly barely rarely seldom unable except \
    excluding lacking lack instead \
    nicht kein keine keinen keiner nie niemals ohne pas jamais sans aucun aucune ningún ninguna nunca jamás sin não nunca sem \
    non mai senza niet geen nooit zonder не нет без никогда inte ingen aldrig utan ikke uden";

/// Words that reverse what follows, like a negation; two of them roughly cancel out.
const REVERSERS: &str =
    "avoid prevent stop quit refuse fail forbid ban prohibit oppose reject deny cancel block exclude ignore";

/// Words of quantity.
const QUANTIFIERS: &str = "only all always every each everything entire both half least few less fewer fewest almost mostly \
    sometimes often once twice own someone everyone everybody";

/// Contractions of two words; the apostrophe may be missing.
const CONTRACTIONS: &str = "
don't do not
doesn't do not
didn't did not
isn't is not
aren't is not
wasn't was not
weren't was not
can't can not
cant can not
dont do not
doesnt do not
didnt did not
isnt is not
wont will not
won't will not
wouldn't would not
couldn't could not
shouldn't should not
hasn't has not
haven't has not
hadn't had not
mustn't must not
needn't need not
ain't is not
cannot can not
i'm i am
im i am
i've i have
i'd i would
i'll i will
ive i have
you're you are
you've you have
you'll you will
you'd you would
we're we are
we've we have
we'll we will
they're they are
they've they have
they'll they will
he'll he will
she'll she will
it'll it will
what're what are
who're who are
there're there are
how're how are
let's let us
wanna want to
gonna going to
gotta have to
what's what is
how's how is
who's who is
where's where is
when's when is
why's why is
that's that is
there's there is
here's here is
it's it is
he's he is
she's she is
whats what is
hows how is
whos who is
wheres where is
thats that is
u you
ur your
r are
n and
";

/// Lexicon entry of a word.
#[derive(Copy, Clone, Debug)]
pub(super) struct Known {
    /// Hash of the word that represents its synonyms.
    pub(super) word: u64,
    pub(super) weight: f32,
    pub(super) negation: bool,
    pub(super) reverser: bool,
    pub(super) quantifier: bool,
}

struct Lexicon {
    words: HashMap<String, Known>,
    /// Phrases by their first word, each with its other words and the representing word.
    phrases: HashMap<String, Vec<(Vec<String>, String)>>,
    contractions: HashMap<&'static str, Vec<&'static str>>,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut words: HashMap<String, Known> = HashMap::new();
    let mut phrases: HashMap<String, Vec<(Vec<String>, String)>> = HashMap::new();
    let blank =
        |word: &str| Known { word: hash(word), weight: CONTENT, negation: false, reverser: false, quantifier: false };
    for line in SAME.lines().filter(|line| !line.is_empty()) {
        let first = line.split(' ').next().unwrap_or_default();
        let stands = lemma(first).into_owned();
        for each in line.split(' ') {
            if let Some((head, rest)) = each.split_once('_') {
                phrases
                    .entry(head.to_owned())
                    .or_default()
                    .push((rest.split('_').map(str::to_owned).collect(), first.to_owned()));
            } else {
                words.entry(lemma(each).into_owned()).or_insert_with(|| blank(&stands));
            }
        }
    }
    // Longest phrase first.
    for rests in phrases.values_mut() {
        rests.sort_by_key(|(rest, _)| std::cmp::Reverse(rest.len()));
    }
    for (list, weight) in [(LIGHTS, LIGHT), (STOPS, STOP)] {
        for word in list.split_whitespace() {
            let stem = lemma(word).into_owned();
            let known = *words.entry(stem.clone()).or_insert_with(|| blank(&stem));
            // A representing word has the same weight as its synonyms.
            words.values_mut().filter(|other| other.word == known.word).for_each(|other| other.weight = weight);
        }
    }
    let mut mark = |list: &str, set: fn(&mut Known)| {
        for word in list.split_whitespace() {
            let stem = lemma(word).into_owned();
            set(words.entry(stem.clone()).or_insert_with(|| blank(&stem)));
        }
    };
    mark(NEGATIONS, |known| (known.negation, known.weight) = (true, STOP));
    mark(REVERSERS, |known| known.reverser = true);
    mark(QUANTIFIERS, |known| (known.quantifier, known.weight) = (true, LIGHT));
    let contractions = CONTRACTIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(short, long)| (short, long.split(' ').collect()))
        .collect();
    Lexicon { words, phrases, contractions }
});

/// Hash of a word. Equal in every build.
pub(super) fn hash(word: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(word.as_bytes())
}

/// Entry of a base form.
pub(super) fn known(stem: &str) -> Option<Known> {
    LEXICON.words.get(stem).copied()
}

/// Phrase that begins with `first` and continues with `rest`: the number of words of `rest` it takes, and its meaning.
pub(super) fn phrase<'a>(first: &str, rest: &(impl Iterator<Item = &'a str> + Clone)) -> Option<(usize, &'static str)> {
    let lexicon = &*LEXICON;
    let (words, means) = lexicon
        .phrases
        .get(first)?
        .iter()
        .find(|(words, _)| rest.clone().take(words.len()).eq(words.iter().map(String::as_str)))?;
    Some((words.len(), means))
}

/// Words of a contraction.
pub(super) fn contraction(word: &str) -> Option<&'static [&'static str]> {
    LEXICON.contractions.get(word).map(Vec::as_slice)
}

/// Distinguishes abbreviations in capitals from the same letters in lower case.
pub(super) fn acronym(word: &str) -> String {
    match word {
        "US" | "USA" => "usa".to_owned(),
        "IT" | "WHO" | "ME" | "IN" | "AM" | "UP" => format!("{word} in capitals"),
        _ => word.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_have_one_number_and_one_weight() {
        let of = |word: &str| known(&lemma(word)).unwrap();
        assert_eq!(of("purchasing").word, of("buy").word);
        assert_eq!(of("approaches").word, of("ways").word);
        assert!((of("technique").weight - LIGHT).abs() < 1e-6 && of("without").negation && of("prevents").reverser);
        assert_eq!(phrase("turn", &["on", "it"].into_iter()), Some((1, "enable")));
        assert_eq!(phrase("united", &["states", "of", "america"].into_iter()), Some((3, "usa")));
        assert_eq!(contraction("don't"), Some(["do", "not"].as_slice()));
    }
}
