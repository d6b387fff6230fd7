//! Tests of the detection of diverging prompts.

use std::cell::Cell;

use proptest::{prelude::*, test_runner::RngSeed};

use super::{tally::LATELY, *};
use crate::BlockHasher;
use signalbox_types::Located;

/// A prompt of a simulated client: a head and messages.
struct Made {
    head: String,
    end: HeadEnd,
    messages: Vec<String>,
    session: Option<u64>,
    sketched: Cell<u32>,
}

impl Made {
    fn new(head: &str, messages: &[&str]) -> Self {
        let messages = messages.iter().map(ToString::to_string).collect();
        Self { head: head.to_owned(), end: HeadEnd::System, messages, session: None, sketched: Cell::new(0) }
    }

    fn of(self, session: u64) -> Self {
        Self { session: Some(session), ..self }
    }

    fn unmarked(self) -> Self {
        Self { end: HeadEnd::Unmarked, ..self }
    }

    fn marked(self) -> Self {
        Self { end: HeadEnd::Breakpoint, ..self }
    }

    fn see(&self, history: &PromptHistory) -> Option<Part> {
        self.see_by(history, self)
    }

    fn see_by(&self, history: &PromptHistory, look: &impl LazyPrompt) -> Option<Part> {
        let mut hasher = BlockHasher::new(b"");
        hasher.push(self.head.as_bytes());
        self.messages.iter().for_each(|message| hasher.push(message.as_bytes()));
        let blocks = hasher.finish();
        let head = Head { bytes: self.head.len() as u64, end: self.end };
        history.observe(&TrackedPrompt { prompt: blocks.prompt(), head, session: self.session }, look)
    }
}

impl LazyPrompt for Made {
    fn sketch(&self) -> Sketch {
        self.sketched.set(self.sketched.get() + 1);
        Sketch::of([self.head.as_bytes()].into_iter(), u64::MAX)
    }

    fn locate(&self, place: u64) -> Located {
        let mut end = self.head.len() as u64;
        if place < end {
            return Located { part: Part::System, goes_on: true };
        }
        for (number, message) in self.messages.iter().enumerate() {
            end += message.len() as u64;
            if place < end {
                let goes_on = number + 1 < self.messages.len();
                return Located { part: Part::Message(number as u32 + 1), goes_on };
            }
        }
        Located { part: Part::Prompt, goes_on: false }
    }
}

/// Pseudo-random words, the same in every run.
fn words(seed: u64, count: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut word = || format!("{}{} ", ["ka", "lo", "mi", "tu"][rng.usize(..4)], rng.u32(..5000));
    (0..count).map(|_| word()).collect::<Vec<_>>().concat()
}

fn report(history: &PromptHistory) -> StabilityReport {
    history.report()
}

#[test]
fn conversations_with_a_shared_system_prompt_match() {
    let (history, rules) = (PromptHistory::default(), words(1, 200));
    let mut said: Vec<String> = Vec::new();
    for turn in 0..40 {
        said.push(words(100 + turn, 60));
        let turns: Vec<&str> = said.iter().map(String::as_str).collect();
        assert_eq!(Made::new(&rules, &turns).see(&history), None);
        assert_eq!(Made::new(&rules, &[&words(1000 + turn, 60)]).see(&history), None);
    }
    let report = report(&history);
    assert_eq!((report.requests, report.departed, report.new, report.alike), (80, 0, 1, 79));
    assert_eq!((report.departures, report.advice), (vec![], None));
}

#[test]
fn a_date_before_the_rules_is_located() {
    let (history, rules) = (PromptHistory::default(), words(1, 300));
    for at in 0..50 {
        let head = format!("Now it is 2026-11-22 10:{at:02}. {rules}");
        let departed = Made::new(&head, &[&words(1000 + at, 30)]).see(&history);
        assert_eq!(departed, (at > 0).then_some(Part::System), "{at}");
    }
    let report = report(&history);
    assert_eq!((report.requests, report.departed, report.new), (50, 49, 1));
    let [departures] = &report.departures[..] else { panic!("{report:?}") };
    assert_eq!((departures.r#where, departures.from_byte, departures.to_byte), ("system", 0, 64));
    assert!(departures.share > 0.97 && report.lost_bytes > 49 * 1500, "{report:?}");
    let advice = report.advice.expect("advice");
    assert!(advice.starts_with("98 % of prompts change at bytes 0 to 64, in the system prompt. A value"), "{advice}");
}

#[test]
fn a_value_in_the_middle_of_the_head_is_located() {
    let (history, rules, more) = (PromptHistory::default(), words(1, 150), words(2, 150));
    for at in 0..20 {
        let head = format!("{rules}Ticket {at:04}. {more}");
        Made::new(&head, &[]).see(&history);
    }
    let [departures] = &report(&history).departures[..] else { panic!() };
    // `Ticket 00` is the same in all; the following digits differ.
    let place = rules.len() as u64 + 9;
    assert!(departures.from_byte <= place + 1 && place < departures.to_byte, "{place} {departures:?}");
}

#[test]
fn applications_that_share_a_key_are_distinguished() {
    let history = PromptHistory::default();
    for round in 0..30 {
        for app in 0..4 {
            assert_eq!(Made::new(&words(app, 100), &[&words(1000 + round, 30)]).see(&history), None);
        }
        // A forgotten application would be new each time, which is not a divergence either.
        assert_eq!(Made::new(&words(900 + round, 100), &["x"]).see(&history), None);
    }
    assert_eq!(report(&history).new, 4 + 30);
}

#[test]
fn an_application_that_changes_is_found_among_busier_ones() {
    let (history, busy, rules) = (PromptHistory::default(), words(1, 100), words(2, 100));
    let mut found = 0;
    for round in 0..10 {
        for turn in 0..40 {
            assert_eq!(Made::new(&busy, &[&words(round * 40 + turn, 30)]).see(&history), None);
        }
        found += u32::from(Made::new(&format!("{round} is the round. {rules}"), &["x"]).see(&history).is_some());
    }
    assert_eq!(found, 9);
}

#[test]
fn a_rewritten_message_is_located_in_a_named_conversation() {
    let rules = words(1, 50);
    let turns: Vec<String> = (0..6).map(|turn| words(10 + turn, 60)).collect();
    let said = |upto: usize| turns[..upto].iter().map(String::as_str).collect::<Vec<_>>();
    let changed = words(99, 60);
    let rewritten = {
        let mut said = said(5);
        said[1] = &changed;
        said
    };
    for named in [false, true] {
        let history = PromptHistory::default();
        let made = |said: &[&str]| if named { Made::new(&rules, said).of(7) } else { Made::new(&rules, said) };
        assert_eq!(made(&said(3)).see(&history), None);
        assert_eq!(made(&said(5)).see(&history), None);
        assert_eq!(made(&rewritten).see(&history), named.then_some(Part::Message(2)));
        // Only the last message differs: it was asked again.
        let mut again = said(5);
        again[4] = &changed;
        made(&said(5)).see(&history);
        assert_eq!(made(&again).see(&history), None);
    }
}

#[test]
fn moving_breakpoints_match_and_a_changed_one_diverges() {
    let (history, rules) = (PromptHistory::default(), words(1, 100));
    let mark = r#""cache_control":{}"#;
    // The breakpoint is at the end of the prompt and moves with it.
    for turn in 1..8 {
        let said = words(5, turn * 40);
        assert_eq!(Made::new(&format!("{rules}{said}"), &[mark]).marked().of(3).see(&history), None, "{turn}");
    }
    let history = PromptHistory::default();
    for at in 0..20 {
        Made::new(&format!("User {at}. {rules}"), &[mark, "hi"]).marked().see(&history);
    }
    let report = report(&history);
    assert_eq!((report.departed, report.departures[0].before_breakpoint), (19, 19));
    assert!(report.advice.expect("advice").contains("precede the first cache_control"));
}

#[test]
fn without_a_system_prompt_only_early_divergences_count() {
    let rules = words(1, 200);
    let (first, last) = (PromptHistory::default(), PromptHistory::default());
    for at in 0..20 {
        let question = words(500 + at, 10);
        Made::new(&format!("{question}{rules}"), &[]).unmarked().see(&first);
        Made::new(&format!("{rules}{question}"), &[]).unmarked().see(&last);
    }
    assert_eq!((report(&first).departed, report(&last).departed), (19, 0));
}

#[test]
fn engines_without_expected_cache_hits_are_reported() {
    let say = |hits: &[(u64, u64, u64)]| {
        let history = PromptHistory::default();
        for &(prompt, predicted, reported) in hits {
            history.answered(CacheReport { prompt, predicted, reported });
        }
        let report = history.report();
        (report.predicted_cached_share, report.reported_cached_share, report.advice)
    };
    assert_eq!(say(&[]), (None, None, None));
    assert_eq!(say(&[(20_000, 16_000, 15_000)]), (Some(0.8), Some(0.75), None));
    assert_eq!(say(&[(10, 8, 1)]).2, None);
    let advice = say(&[(15_000, 12_000, 1_000), (5_000, 4_000, 1_000)]).2.expect("advice");
    assert!(advice.contains("80 %") && advice.contains("10 %"), "{advice}");
    // Old answers no longer count.
    let now = [(100_000, 100_000, 0)].into_iter().chain([(100, 80, 80); LATELY]).collect::<Vec<_>>();
    assert_eq!(say(&now), (Some(0.8), Some(0.8), None));
}

#[test]
fn variants_of_a_system_prompt_are_all_remembered() {
    for variants in [8, MOST_LIKE as u64] {
        let (history, rules) = (PromptHistory::default(), words(1, 200));
        let mut rng = fastrand::Rng::with_seed(variants);
        for number in 0..400 {
            let variant = if number < 200 { number % variants } else { rng.u64(..variants) };
            let head = format!("You serve customer {variant:03}. {rules}");
            Made::new(&head, &[&words(1000 + number, 30)]).see(&history);
            Made::new(&head, &[&words(1000 + number, 30), "yes", "and?"]).see(&history);
            assert_eq!(report(&history).advice, None);
        }
        let report = report(&history);
        assert_eq!((report.requests, report.departed), (800, variants - 1), "{variants}");
    }
}

#[test]
fn no_advice_is_given_where_engines_hit_their_caches() {
    let (history, rules) = (PromptHistory::default(), words(1, 200));
    for at in 0..40 {
        Made::new(&format!("You serve customer {at:03}. {rules}"), &["hi"]).see(&history);
    }
    assert!(report(&history).advice.is_some());
    history.answered(CacheReport { prompt: 1000, predicted: 100, reported: 900 });
    assert_eq!((report(&history).departed, report(&history).advice), (39, None));
}

#[test]
fn text_is_read_without_holding_the_lock() {
    struct Reads<'a>(&'a PromptHistory, &'a Made);
    impl LazyPrompt for Reads<'_> {
        fn sketch(&self) -> Sketch {
            drop(self.0.0.try_lock().expect("nobody has it"));
            self.1.sketch()
        }
        fn locate(&self, place: u64) -> Located {
            drop(self.0.0.try_lock().expect("nobody has it"));
            self.1.locate(place)
        }
    }
    let (history, rules) = (PromptHistory::default(), words(1, 200));
    for at in 0..4 {
        let made = Made::new(&format!("Now it is {at:03}. {rules}"), &["hi"]);
        let seen = made.see_by(&history, &Reads(&history, &made));
        assert_eq!((seen, made.sketched.get()), ((at > 0).then_some(Part::System), 1));
    }
}

#[test]
fn memory_is_bounded_and_text_is_read_only_for_new_heads() {
    let (history, rules) = (PromptHistory::default(), words(1, 6000));
    let mut sketched = 0;
    for turn in 0..2000 {
        let made = Made::new(&rules, &[&words(turn, 20)]);
        made.see(&history);
        sketched += made.sketched.get();
    }
    assert_eq!((sketched, report(&history).lately), (1, LATELY));
    assert!(history.0.lock().known.len() <= MOST_OF_HEAD);
    for turn in 0..100 {
        Made::new(&words(5000 + turn, 50), &[]).see(&history);
    }
    for turn in 0..20 {
        Made::new(&words(5000 + turn, 30_000), &[]).see(&history);
    }
    (0..2000).for_each(|_| history.answered(CacheReport::default()));
    let state = history.0.lock();
    assert_eq!(state.known.len(), MOST_PROMPTS);
    let blocks: usize = state.known.iter().map(|known| known.blocks.capacity() * size_of::<u32>()).sum();
    let all = blocks + state.known.capacity() * size_of::<Known>() + state.tally.bytes() + size_of::<PromptHistory>();
    assert!(all <= 52 << 10, "{all}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// A prompt diverges at or before the block in which it first differs from every earlier prompt, and the same
    /// prompt again never diverges.
    #[test]
    fn a_divergence_is_where_prompts_differ(heads in prop::collection::vec((0..3_u64, 0..400_usize, 0..4_u64), 1..40)) {
        let history = PromptHistory::default();
        let mut before: Vec<String> = Vec::new();
        for (app, at, value) in heads {
            let text = words(app, 80);
            let place = text.char_indices().map(|(place, _)| place).nth(at).unwrap_or(0);
            let head = format!("{}[{value}]{}", &text[..place], &text[place..]);
            let departed = Made::new(&head, &[]).see(&history);
            let shared = before.iter().map(|other| other.bytes().zip(head.bytes()).take_while(|(a, b)| a == b).count()).max();
            if departed.is_some() {
                prop_assert!(history.0.lock().tally.last_from().unwrap() <= shared.unwrap_or(0) as u64);
            }
            prop_assert_eq!(Made::new(&head, &[]).see(&history), None);
            before.push(head);
        }
    }
}
