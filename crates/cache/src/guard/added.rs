//! Texts that say what another does, and more: an instruction, a condition, a second question.
//!
//! Nothing is known of the instruction ("as a pirate", "answer wrongly"): what one text has and the other lacks counts,
//! whichever of them is stored.

/// A word, however little it means.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Said {
    /// Low half of the hash of its base form.
    pub(super) word: u32,
    /// True if it means something by itself, if only a little.
    pub(super) means: bool,
    /// True if it only asks, or names who asks.
    pub(super) asks: bool,
}

/// True if `one` has all words of `other` and more: "… keep it simple", "… explain why". Words that only ask may replace
/// others, so they count where nothing is replaced. Both are sorted.
pub(super) fn says_more(one: &[Said], other: &[Said]) -> bool {
    /// Least number of words if one means something, if only a little; if they only join; and if they only ask.
    const MEANING: u16 = 2;
    const JOINING: u16 = 3;
    const ASKING: u16 = 2;
    let (more, less) = (Beyond::of(one, other), Beyond::of(other, one));
    let contained = less.words == 0;
    contained && (more.words >= JOINING || more.means && more.words >= MEANING)
        || contained && less.asking == 0 && more.words + more.asking >= ASKING
}

/// Words of one text beyond those of another.
#[derive(Default)]
struct Beyond {
    /// Those that do not only ask.
    words: u16,
    /// True if one of these means something by itself.
    means: bool,
    /// Those that only ask.
    asking: u16,
}

impl Beyond {
    /// Compares sorted words.
    fn of(one: &[Said], other: &[Said]) -> Self {
        let (mut beyond, mut at) = (Self::default(), 0);
        for said in one {
            at += other[at..].iter().take_while(|other| *other < said).count();
            if other.get(at) == Some(said) {
                at += 1;
            } else if said.asks {
                beyond.asking += 1;
            } else {
                beyond.words += 1;
                beyond.means |= said.means;
            }
        }
        beyond
    }
}
