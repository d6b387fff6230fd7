//! Tests of the detection of diverging prompts.

use std::cell::Cell;

use proptest::{prelude::*, test_runner::RngSeed};

use super::{tally::LATELY, *};
use crate::{prompt::BlockHasher, types::Located};

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

    fn untold(self) -> Self {
        Self { end: HeadEnd::Unmarked, ..self }
    }

    fn marked(self) -> Self {
        Self { end: HeadEnd::Breakpoint, ..self }
    }

    fn see(&self, habits: &Habits) -> Option<Part> {
        self.see_by(habits, self)
    }

    fn see_by(&self, habits: &Habits, look: &impl Look) -> Option<Part> {
        let mut hasher = BlockHasher::new(b"");
        hasher.push(self.head.as_bytes());
        self.messages.iter().for_each(|message| hasher.push(message.as_bytes()));
        let blocks = hasher.finish();
        let head = Head { bytes: self.head.len() as u64, end: self.end };
        habits.see(&Begun { prompt: blocks.prompt(), head, session: self.session }, look)
    }
}

impl Look for Made {
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

fn told(habits: &Habits) -> Habit {
    habits.told()
}

#[test]
fn conversations_and_what_shares_a_system_prompt_begin_alike() {
    let (habits, rules) = (Habits::default(), words(1, 200));
    let mut said: Vec<String> = Vec::new();
    for turn in 0..40 {
        said.push(words(100 + turn, 60));
        let turns: Vec<&str> = said.iter().map(String::as_str).collect();
        assert_eq!(Made::new(&rules, &turns).see(&habits), None);
        assert_eq!(Made::new(&rules, &[&words(1000 + turn, 60)]).see(&habits), None);
    }
    let habit = told(&habits);
    assert_eq!((habit.requests, habit.departed, habit.new, habit.alike), (80, 0, 1, 79));
    assert_eq!((habit.departures, habit.advice), (vec![], None));
}

#[test]
fn a_date_before_the_rules_is_found_and_where() {
    let (habits, rules) = (Habits::default(), words(1, 300));
    for at in 0..50 {
        let head = format!("Now it is 2026-11-22 10:{at:02}. {rules}");
        let departed = Made::new(&head, &[&words(1000 + at, 30)]).see(&habits);
        assert_eq!(departed, (at > 0).then_some(Part::System), "{at}");
    }
    let habit = told(&habits);
    assert_eq!((habit.requests, habit.departed, habit.new), (50, 49, 1));
    let [departures] = &habit.departures[..] else { panic!("{habit:?}") };
    assert_eq!((departures.r#where, departures.from_byte, departures.to_byte), ("system", 0, 64));
    assert!(departures.share > 0.97 && habit.lost_bytes > 49 * 1500, "{habit:?}");
    let advice = habit.advice.expect("advice");
    assert!(advice.starts_with("98 % of prompts change at bytes 0 to 64, in the system prompt. A value"), "{advice}");
}

#[test]
fn a_value_in_the_middle_of_the_head_departs_there() {
    let (habits, rules, more) = (Habits::default(), words(1, 150), words(2, 150));
    for at in 0..20 {
        let head = format!("{rules}Ticket {at:04}. {more}");
        Made::new(&head, &[]).see(&habits);
    }
    let [departures] = &told(&habits).departures[..] else { panic!() };
    // `Ticket 00` is the same in all; the following digits differ.
    let place = rules.len() as u64 + 9;
    assert!(departures.from_byte <= place + 1 && place < departures.to_byte, "{place} {departures:?}");
}

#[test]
fn applications_that_share_a_key_are_told_apart() {
    let habits = Habits::default();
    for round in 0..30 {
        for app in 0..4 {
            assert_eq!(Made::new(&words(app, 100), &[&words(1000 + round, 30)]).see(&habits), None);
        }
        // A forgotten application would be new each time, which is not a divergence either.
        assert_eq!(Made::new(&words(900 + round, 100), &["x"]).see(&habits), None);
    }
    assert_eq!(told(&habits).new, 4 + 30);
}

#[test]
fn an_application_that_changes_is_found_among_busier_ones() {
    let (habits, busy, rules) = (Habits::default(), words(1, 100), words(2, 100));
    let mut found = 0;
    for round in 0..10 {
        for turn in 0..40 {
            assert_eq!(Made::new(&busy, &[&words(round * 40 + turn, 30)]).see(&habits), None);
        }
        found += u32::from(Made::new(&format!("{round} is the round. {rules}"), &["x"]).see(&habits).is_some());
    }
    assert_eq!(found, 9);
}

#[test]
fn a_message_that_is_sent_differently_is_found_where_the_conversation_has_a_name() {
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
        let habits = Habits::default();
        let made = |said: &[&str]| if named { Made::new(&rules, said).of(7) } else { Made::new(&rules, said) };
        assert_eq!(made(&said(3)).see(&habits), None);
        assert_eq!(made(&said(5)).see(&habits), None);
        assert_eq!(made(&rewritten).see(&habits), named.then_some(Part::Message(2)));
        // Only the last message differs: it was asked again.
        let mut again = said(5);
        again[4] = &changed;
        made(&said(5)).see(&habits);
        assert_eq!(made(&again).see(&habits), None);
    }
}

#[test]
fn breakpoints_that_move_on_are_no_departures_and_a_changed_one_is() {
    let (habits, rules) = (Habits::default(), words(1, 100));
    let mark = r#""cache_control":{}"#;
    // The breakpoint is at the end of the prompt and moves with it.
    for turn in 1..8 {
        let said = words(5, turn * 40);
        assert_eq!(Made::new(&format!("{rules}{said}"), &[mark]).marked().of(3).see(&habits), None, "{turn}");
    }
    let habits = Habits::default();
    for at in 0..20 {
        Made::new(&format!("User {at}. {rules}"), &[mark, "hi"]).marked().see(&habits);
    }
    let habit = told(&habits);
    assert_eq!((habit.departed, habit.departures[0].before_breakpoint), (19, 19));
    assert!(habit.advice.expect("advice").contains("precede the first cache_control"));
}

#[test]
fn of_a_prompt_without_a_system_prompt_only_what_stands_behind_counts() {
    let rules = words(1, 200);
    let (first, last) = (Habits::default(), Habits::default());
    for at in 0..20 {
        let question = words(500 + at, 10);
        Made::new(&format!("{question}{rules}"), &[]).untold().see(&first);
        Made::new(&format!("{rules}{question}"), &[]).untold().see(&last);
    }
    assert_eq!((told(&first).departed, told(&last).departed), (19, 0));
}

#[test]
fn engines_that_do_not_find_what_is_the_same_are_told_of() {
    let say = |hits: &[(u64, u64, u64)]| {
        let habits = Habits::default();
        for &(prompt, predicted, reported) in hits {
            habits.answered(Hits { prompt, predicted, reported });
        }
        let habit = habits.told();
        (habit.predicted_cached_share, habit.reported_cached_share, habit.advice)
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
fn variants_of_a_system_prompt_are_all_known() {
    for variants in [8, MOST_LIKE as u64] {
        let (habits, rules) = (Habits::default(), words(1, 200));
        let mut rng = fastrand::Rng::with_seed(variants);
        for number in 0..400 {
            let variant = if number < 200 { number % variants } else { rng.u64(..variants) };
            let head = format!("You serve customer {variant:03}. {rules}");
            Made::new(&head, &[&words(1000 + number, 30)]).see(&habits);
            Made::new(&head, &[&words(1000 + number, 30), "yes", "and?"]).see(&habits);
            assert_eq!(told(&habits).advice, None);
        }
        let habit = told(&habits);
        assert_eq!((habit.requests, habit.departed), (800, variants - 1), "{variants}");
    }
}

#[test]
fn where_engines_have_the_prompts_nothing_is_advised() {
    let (habits, rules) = (Habits::default(), words(1, 200));
    for at in 0..40 {
        Made::new(&format!("You serve customer {at:03}. {rules}"), &["hi"]).see(&habits);
    }
    assert!(told(&habits).advice.is_some());
    habits.answered(Hits { prompt: 1000, predicted: 100, reported: 900 });
    assert_eq!((told(&habits).departed, told(&habits).advice), (39, None));
}

#[test]
fn no_text_is_read_while_others_wait() {
    struct Reads<'a>(&'a Habits, &'a Made);
    impl Look for Reads<'_> {
        fn sketch(&self) -> Sketch {
            drop(self.0.0.try_lock().expect("nobody has it"));
            self.1.sketch()
        }
        fn locate(&self, place: u64) -> Located {
            drop(self.0.0.try_lock().expect("nobody has it"));
            self.1.locate(place)
        }
    }
    let (habits, rules) = (Habits::default(), words(1, 200));
    for at in 0..4 {
        let made = Made::new(&format!("Now it is {at:03}. {rules}"), &["hi"]);
        let seen = made.see_by(&habits, &Reads(&habits, &made));
        assert_eq!((seen, made.sketched.get()), ((at > 0).then_some(Part::System), 1));
    }
}

#[test]
fn nothing_grows_and_words_are_read_only_where_a_head_is_unknown() {
    let (habits, rules) = (Habits::default(), words(1, 6000));
    let mut sketched = 0;
    for turn in 0..2000 {
        let made = Made::new(&rules, &[&words(turn, 20)]);
        made.see(&habits);
        sketched += made.sketched.get();
    }
    assert_eq!((sketched, told(&habits).lately), (1, LATELY));
    assert!(lock(&habits.0).known.len() <= MOST_OF_HEAD);
    for turn in 0..100 {
        Made::new(&words(5000 + turn, 50), &[]).see(&habits);
    }
    for turn in 0..20 {
        Made::new(&words(5000 + turn, 30_000), &[]).see(&habits);
    }
    (0..2000).for_each(|_| habits.answered(Hits::default()));
    let state = lock(&habits.0);
    assert_eq!(state.known.len(), MOST_PROMPTS);
    let blocks: usize = state.known.iter().map(|known| known.blocks.capacity() * size_of::<u32>()).sum();
    let all = blocks + state.known.capacity() * size_of::<Known>() + state.tally.bytes() + size_of::<Habits>();
    assert!(all <= 52 << 10, "{all}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// A prompt diverges at or before the block in which it first differs from every earlier prompt, and the same
    /// prompt again never diverges.
    #[test]
    fn a_departure_is_where_prompts_part(heads in prop::collection::vec((0..3_u64, 0..400_usize, 0..4_u64), 1..40)) {
        let habits = Habits::default();
        let mut before: Vec<String> = Vec::new();
        for (app, at, value) in heads {
            let text = words(app, 80);
            let place = text.char_indices().map(|(place, _)| place).nth(at).unwrap_or(0);
            let head = format!("{}[{value}]{}", &text[..place], &text[place..]);
            let departed = Made::new(&head, &[]).see(&habits);
            let shared = before.iter().map(|other| other.bytes().zip(head.bytes()).take_while(|(a, b)| a == b).count()).max();
            if departed.is_some() {
                prop_assert!(lock(&habits.0).tally.last_from().unwrap() <= shared.unwrap_or(0) as u64);
            }
            prop_assert_eq!(Made::new(&head, &[]).see(&habits), None);
            before.push(head);
        }
    }
}
