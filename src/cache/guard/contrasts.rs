//! Mutually exclusive words: opposites, and members of a set from which a question picks one.
//!
//! "Turn on" and "turn off" lie close together in every embedding, as do "monday" and "tuesday". If the texts have
//! different words of the same line, they ask for different things.

use std::{collections::HashMap, sync::LazyLock};

use super::{
    lemma::lemma,
    lexicon::{hash, known},
};

/// Each line is a set; `/` separates its members, words between two `/` are synonyms. Written for this project.
const SETS: &str = "
on / off
enable / disable
in / out
up / down upward / downward
above / below under beneath
before / after
first / last
increase / decrease
gain / lose
grow / shrink
expand contract_out / compress
maximum max maximize maximise maximal / minimum min minimize minimise minimal
more / less fewer
most / least fewest
high higher highest / low lower lowest
big bigger biggest larger largest large / small smaller smallest little
long longer longest / short shorter shortest
fast faster fastest quick / slow slower slowest slowly
hot hotter hottest / cold colder coldest cool
warm / chilly
heavy heavier / light lighter
thick / thin
wide / narrow
deep / shallow
hard / soft
strong stronger / weak weaker
easy easier easiest / difficult harder hardest
cheap cheaper cheapest / expensive costly pricey
rich / poor
old older oldest / new newer newest
young younger youngest / elderly
early earlier earliest / late later latest
good better best / bad worse worst
right / wrong
true / false
positive / negative
safe / dangerous unsafe
legal / illegal
healthy / unhealthy
happy / sad unhappy
love / hate
like / dislike
accept / reject decline refuse
agree / disagree
for / against
allow permit / forbid prohibit block deny prevent
approve / disapprove
appear / disappear vanish
arrive / depart leave
ascend ascending / descend descending
attach / detach
attack / defend
attract / repel
begin start / end finish stop
open / close shut
lock / unlock
encrypt / decrypt
encode / decode
compress zip / decompress unzip extract
import / export
input / output
upload / download
install / uninstall
load / unload
mount / unmount
push / pull
insert / delete remove extract_from
add append / remove delete subtract
multiply / divide
buy purchase / sell
borrow / lend
deposit / withdraw
import_from / export_to
send / receive
connect / disconnect
subscribe / unsubscribe
follow / unfollow
join / leave
enter / exit
login / logout
signup / deactivate
hire / fire
pass / fail
win / lose
succeed success / fail failure
create / delete destroy
build / demolish destroy
save / spend
save / discard
show display / hide
public / private
include / exclude
internal / external
inside indoor indoors / outside outdoor outdoors
front / back rear
top / bottom
left / right
north northern / south southern / east eastern / west western
horizontal horizontally / vertical vertically
clockwise / counterclockwise anticlockwise
major / minor
primary / secondary
major / trivial
advantage benefit pro / disadvantage drawback con risk danger
strength / weakness
cause / effect / symptom / treatment cure / prevention
cause / prevent
similarity alike / difference
question / answer
male man boy guy masculine / female woman girl lady feminine
husband boyfriend / wife girlfriend
father dad / mother mom mum
son / daughter
brother / sister
uncle / aunt
nephew / niece
grandfather / grandmother
he him his / she her hers
king / queen
actor / actress
mother father parent dad mom mum / brother sister sibling / son daughter child / uncle aunt / cousin
husband wife spouse / boyfriend girlfriend / friend / boss / colleague coworker / neighbour neighbor / teacher
baby infant toddler newborn / teenager teen / adult
morning / noon / afternoon / evening / night midnight
breakfast / lunch / dinner supper
daily day / weekly week / monthly month / quarterly quarter / yearly annual annually year / hourly hour / minute / second_unit
monday / tuesday / wednesday / thursday / friday / saturday / sunday
january jan / february feb / march_month / april apr / may_month / june jun / july jul / august aug / september sep sept / october oct / november nov / december dec
spring / summer / autumn fall_season / winter
today / tomorrow / yesterday / tonight
last previous past / next upcoming future
current present / former previous / future
temporary temporarily / permanent permanently
static / dynamic
synchronous sync / asynchronous async
serial sequential / parallel
local / remote
client / server
frontend / backend
source / destination target
parent / child
horizontal / vertical / diagonal
ascending / descending
odd / even
singular / plural
uppercase capital / lowercase
integer / float / string / boolean
array / hashmap / queue / stack / heap / tree / graph
red / blue / green / yellow / orange / purple / pink / black / white / brown / gray grey
gold / silver / bronze / copper / iron / aluminum aluminium / platinum / lead / zinc
oxygen / hydrogen / nitrogen / carbon / helium
rice / pasta / bread / potato / noodle / pizza / quinoa / couscous
beef / pork / chicken / lamb / fish / turkey / tofu / shrimp / salmon / tuna
apple / banana / orange_fruit / grape / strawberry / lemon / mango / pear / peach
coffee / tea / beer / wine / milk / juice / water / vodka / whiskey
sugar / salt / pepper / flour
butter / oil / margarine
dog puppy / cat kitten / bird / fish / horse / cow / pig / rabbit / hamster / snake / mouse / rat
lion / tiger / bear / wolf / elephant
car / truck / motorcycle motorbike / bicycle bike / bus / train / plane airplane / boat ship
laptop / desktop / tablet / phone / tv
windows / macos mac osx / linux / ubuntu / android / ios / debian / fedora
chrome / firefox / safari / edge / opera
iphone / ipad / macbook / android
facebook / instagram / twitter / whatsapp / snapchat / linkedin / tiktok / youtube / reddit / quora / telegram
gmail / outlook / yahoo / hotmail
google / microsoft / apple_inc / amazon / meta / netflix / ibm / oracle
uber / lyft
aws / azure / gcp
python / java / javascript / typescript / rust / ruby / php / perl / scala / kotlin / swift / golang / haskell / matlab / julia / fortran / cobol / bash / powershell
django / flask / rails / spring_boot / laravel / express
react / angular / vue / svelte
mysql / postgres / sqlite / mongodb / redis / oracle / mariadb / cassandra
docker / kubernetes / podman
pytorch / tensorflow / keras
numpy / pandas
git / svn / mercurial
commit / branch / tag / merge / rebase / stash
maven / gradle
npm / yarn / pip / cargo
json / yaml / xml / csv / toml / html / pdf / markdown / word / excel
get_request / post_request / put_request
english / french / german / spanish / italian / portuguese / dutch / russian / chinese mandarin / japanese / korean / arabic / hindi / turkish / polish / greek / latin / swedish / tamil / urdu / bengali / vietnamese / thai
france / germany / spain / italy / portugal / netherlands / russia / china / japan / korea / india / turkey_country / poland / greece / sweden / norway / denmark / finland / uk / usa / canada / mexico / brazil / argentina / australia / egypt / iran / iraq / israel / pakistan / bangladesh / indonesia / thailand / vietnam / nigeria / kenya / ireland / switzerland / austria / belgium / hungary / ukraine / singapore / malaysia / philippines / nepal / saudi / dubai
london / paris / berlin / rome / madrid / tokyo / beijing / delhi / mumbai / bangalore / chennai / hyderabad / kolkata / pune / nyc / la / chicago / boston / seattle / toronto / sydney / melbourne / moscow / amsterdam / vienna / lisbon / dublin / singapore
europe / asia / africa / america / antarctica / oceania
mercury / venus / mars / jupiter / saturn / uranus / neptune / pluto / earth / moon / sun
christian christianity / muslim islam / hindu hinduism / jewish judaism / buddhist buddhism / atheist atheism / sikh
democrat / republican
physics / chemistry / biology / maths / history / geography / economics / psychology / philosophy
mechanical / electrical / civil / chemical / computer_engineering
engineer / doctor / lawyer / teacher / nurse / accountant / plumber / electrician / architect / pilot
mba / phd / bachelor undergraduate / master postgraduate / diploma
football soccer / basketball / tennis / cricket / baseball / hockey / golf / rugby / volleyball / badminton / swimming
guitar / piano / violin / drum / flute / cello
dollar usd / euro eur / pound_sterling gbp / yen jpy / rupee inr / bitcoin btc / ethereum eth
kilometre / mile / metre / foot / inch / centimetre / yard / millimetre
celsius / fahrenheit / kelvin
kilogram / pound / ounce / gram / ton tonne / stone
litre / gallon / pint / cup / tablespoon / teaspoon / millilitre ml
byte / bit
kb kilobyte / mb megabyte / gb gigabyte / tb terabyte
volt voltage / ampere amp current_amp / watt / ohm resistance
mean_average average / median / variance / mode
sum total / product / average / difference_of
area / perimeter / volume / circumference
sine / cosine / tangent
square / cube / circle / triangle / rectangle / hexagon / sphere / cylinder / cone
introvert introverted / extrovert extroverted
optimist / pessimist
vegetarian / vegan / carnivore
acid / base alkali
solid / liquid / gas
virus / bacteria / fungus
artery / vein
liver / kidney / lung / heart / brain / stomach / pancreas / spleen
arm / leg / knee / shoulder / elbow / ankle / wrist / neck / hip / back
debit / credit
asset / liability
revenue income / expense loss / profit
stock / bond / option_contract
bull bullish / bear bearish
tax / tariff / fee
win / lose / tie_game
author writer / actor / director / producer / singer / president / ceo / founder / inventor
birth born / death die
marriage marry / divorce
summer / winter
sunrise / sunset
";

/// Set and member numbers of a word.
pub(super) type Places = &'static [(u16, u8)];

static PLACES: LazyLock<HashMap<u64, Vec<(u16, u8)>>> = LazyLock::new(|| {
    let mut places: HashMap<u64, Vec<(u16, u8)>> = HashMap::new();
    for (set, line) in SETS.lines().filter(|line| !line.is_empty()).enumerate() {
        for (member, words) in line.split('/').enumerate() {
            for word in words.split_whitespace() {
                let places = places.entry(number(word)).or_default();
                if !places.contains(&(set as u16, member as u8)) {
                    places.push((set as u16, member as u8));
                }
            }
        }
    }
    places
});

/// Number of a word in the lexicon, the same for all synonyms.
fn number(word: &str) -> u64 {
    let stem = lemma(word);
    known(&stem).map_or_else(|| hash(&stem), |known| known.word)
}

/// Sets that contain a word.
pub(super) fn places(word: u64) -> Places {
    PLACES.get(&word).map_or(&[], Vec::as_slice)
}

/// True if two words exclude each other.
pub(super) fn exclude(one: u64, other: u64) -> bool {
    let (one, other) = (places(one), places(other));
    // Words that share a member of some set are synonyms there and exclude nothing.
    let together = one.iter().any(|place| other.contains(place));
    !together && one.iter().any(|(set, member)| other.iter().any(|(also, place)| set == also && member != place))
}

/// Prefixes that reverse or negate the word.
const PREFIXES: [&str; 12] = ["un", "in", "im", "ir", "il", "dis", "non", "de", "anti", "mis", "re", "over"];

/// The word without a prefix or ending that reverses its sense, if it has one.
pub(super) fn turned(stem: &str) -> Option<&str> {
    let prefixed = PREFIXES.iter().filter_map(|prefix| stem.strip_prefix(prefix)).find(|rest| rest.len() >= 4);
    prefixed.or_else(|| stem.strip_suffix("les").or_else(|| stem.strip_suffix("less"))).filter(|rest| rest.len() >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposites_exclude_each_other_in_all_forms() {
        for (one, other) in [
            ("on", "off"),
            ("enabled", "disabling"),
            ("buying", "sold"),
            ("increased", "reduce"),
            ("Monday", "friday"),
            ("cats", "dog"),
            ("advantages", "cons"),
            ("mysql", "postgresql"),
            ("first", "last"),
            ("highest", "lowest"),
            ("cheapest", "costly"),
        ] {
            let (one, other) = (number(&one.to_lowercase()), number(&other.to_lowercase()));
            assert!(exclude(one, other) && exclude(other, one) && !exclude(one, one));
        }
        for (one, other) in [("buy", "purchase"), ("tea", "table"), ("big", "huge"), ("photo", "picture")] {
            assert!(!exclude(number(one), number(other)), "{one} {other}");
        }
        assert_eq!(turned("unsaf"), None);
        assert_eq!(turned("unsubscrib"), Some("subscrib"));
        assert_eq!(turned("tax"), None);
    }
}
