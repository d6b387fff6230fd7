use proptest::prelude::*;

use super::*;
use crate::{
    EmbedError, Embedder, ExactKey, Kept, Keys, Origin, Record,
    confidence::{Prior, Shift},
    guard::{Guard, Traits},
    key::{KeyParts, ScopeId},
};
use signalbox_policy::{IndexKind, Scope};
use signalbox_protocol::{Canonical, RequestBody, Transcript};
use signalbox_types::Endpoint;

const HOUR: Duration = Duration::from_hours(1);

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

fn scope() -> ScopeId {
    Keys::new([0; 32]).scope(Scope::Shared, None, None).unwrap()
}

/// Key of requests to one model.
fn key(model: u8) -> CompatKey {
    let body = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#.to_vec();
    let form = Canonical::of(Endpoint::Chat, &RequestBody::json(Endpoint::Chat, body.into()).unwrap()).unwrap();
    let asked = KeyParts { scope: scope(), model: &model.to_string(), namespace: "", headers: b"", form: &form };
    Keys::new([0; 32]).compat(&asked, "e", 0).unwrap()
}

fn new(text: u64, origin: u64, answer: &str) -> NewEntry {
    let answer = if answer.is_empty() { "any" } else { answer };
    let body = format!(r#"{{"choices":[{{"index":0,"message":{{"content":"{answer}"}},"finish_reason":"stop"}}]}}"#);
    let record = Record {
        transcript: Transcript::of_whole(Endpoint::Chat, body.as_bytes(), 1 << 20).unwrap(),
        scope: scope(),
        caller: None,
        route: "r".into(),
        pool: "p".into(),
        origin: Origin(origin),
        cost_usd: None,
        seconds: 1.0,
    };
    let angle = text as f32;
    let vector: Box<[f32]> = [angle.cos(), angle.sin()].into();
    NewEntry {
        text,
        traits: Arc::new(Traits::of("a text")),
        vector,
        record: Arc::new(record),
        exact: ExactKey::from_bytes([text as u8; 32]),
        kept: None,
    }
}

fn spacious() -> Semantic {
    let entries = Semantic::default();
    entries.set_capacity(usize::MAX);
    entries
}

fn found(entries: &Semantic, text: u64, origin: u64, max_age: Option<u64>, now: Moment) -> Vec<Arc<Entry>> {
    let acceptable = [Origin(origin)];
    let wanted = Wanted { acceptable: &acceptable, max_age: max_age.map(Duration::from_secs) };
    entries.find(&key(0), &new(text, origin, "").vector, wanted, now)
}

/// Checks that nothing is left but what the counts say.
fn check(entries: &Semantic) {
    let spaces = entries.spaces.read();
    let all: Vec<_> =
        spaces.values().flat_map(|space| space.read().entries.values().cloned().collect::<Vec<_>>()).collect();
    let graphs: usize = spaces.values().map(|space| space.read().graph_bytes()).sum();
    assert_eq!(entries.bytes(), all.iter().map(|entry| entry.bytes).sum::<usize>() + spaces.len() * SPACE + graphs);
    assert!(spaces.values().all(|space| space.read().len() > 0), "an empty index stays");
    drop(spaces);
    assert_eq!(entries.len(), all.len());
}

#[test]
fn a_newer_answer_to_a_text_replaces_the_older() {
    let entries = spacious();
    entries.insert(key(0), new(1, 1, "old"), HOUR, at(0)).unwrap();
    entries.insert(key(0), new(1, 2, "by another backend"), HOUR, at(1)).unwrap();
    let newer = entries.insert(key(0), new(1, 1, "newer"), HOUR, at(2)).unwrap();
    let left = found(&entries, 1, 1, None, at(3));
    assert_eq!(left.iter().map(|entry| entry.number).collect::<Vec<_>>(), [newer.number]);
    assert_eq!((found(&entries, 1, 2, None, at(3)).len(), entries.evicted(Removal::Replaced)), (1, 1));
    check(&entries);
    assert!(entries.remove(&key(0), newer.number) && found(&entries, 1, 1, None, at(3)).is_empty());
    entries.insert(key(0), new(1, 1, "again"), HOUR, at(4)).unwrap();
    assert_eq!(found(&entries, 1, 1, None, at(5)).len(), 1);
    check(&entries);
}

#[test]
fn an_answer_keeps_its_age_under_a_second_text() {
    let entries = spacious();
    let alias = NewEntry { kept: Some(Kept::since(at(10))), ..new(1, 1, "a") };
    entries.insert(key(0), alias, HOUR, at(100)).unwrap();
    assert_eq!(found(&entries, 1, 1, Some(90), at(100)).len(), 1);
    assert!(found(&entries, 1, 1, Some(89), at(100)).is_empty());
}

#[test]
fn restored_entries_keep_their_age_and_replace_nothing() {
    let entries = spacious();
    let old = |answer| NewEntry { kept: Some(Kept::aged(at(100), Duration::from_secs(50))), ..new(1, 1, answer) };
    let restored = entries.restore(key(0), old("a"), Duration::from_mins(1), at(100)).unwrap();
    assert_eq!((restored.kept.age(at(110)).as_secs(), restored.left(at(110)).as_secs()), (60, 50));
    assert_eq!(
        (found(&entries, 1, 1, Some(60), at(110)).len(), found(&entries, 1, 1, Some(59), at(110)).len()),
        (1, 0)
    );
    let newer = entries.insert(key(0), new(1, 1, "newer"), HOUR, at(111)).unwrap();
    assert!(entries.restore(key(0), old("a"), HOUR, at(112)).is_none());
    assert_eq!(found(&entries, 1, 1, None, at(113))[0].number, newer.number);
    check(&entries);
}

#[test]
fn no_index_outlives_its_entries() {
    let entries = spacious();
    for model in 0..20 {
        entries.insert(key(model), new(1, 1, "a"), HOUR, at(0)).unwrap();
    }
    assert_eq!(entries.purge(&Purge::default()), 20);
    check(&entries);
    for model in 0..20 {
        entries.insert(key(model), new(1, 1, "a"), HOUR, at(0)).unwrap();
    }
    // Another thread uses one of them while its entry is removed.
    let held = entries.space(&key(3)).unwrap();
    assert_eq!(entries.expire(100, at(3601)), 20);
    assert_eq!((entries.spaces.read().len(), entries.evicted(Removal::Expired)), (1, 20));
    drop(held);
    entries.maintain();
    check(&entries);
}

#[test]
fn a_graph_is_built_where_the_policy_wants_one_and_counts_as_memory() {
    let entries = spacious();
    for text in 0..1_000 {
        entries.insert(key(0), new(text, 1, "a"), HOUR, at(0)).unwrap();
    }
    let flat = entries.bytes();
    assert_eq!(entries.rebuild(), 0, "flat is the default for so few");
    entries.set_index(IndexKind::Hnsw);
    assert_eq!((entries.rebuild(), entries.rebuild()), (1, 0));
    assert!(entries.bytes() > flat + 1_000_000, "{} after {flat}", entries.bytes());
    check(&entries);
    assert_eq!(found(&entries, 7, 1, None, at(1))[0].text, 7);
    entries.set_index(IndexKind::Flat);
    assert_eq!((entries.rebuild(), entries.bytes()), (1, flat));
    assert_eq!(found(&entries, 7, 1, None, at(1))[0].text, 7);
    entries.set_index(IndexKind::Hnsw);
    entries.rebuild();
    assert_eq!(entries.purge(&Purge::default()), 1_000);
    entries.maintain();
    assert_eq!(entries.bytes(), 0);
}

#[test]
fn counts_hold_under_concurrent_changes() {
    let entries = spacious();
    std::thread::scope(|threads| {
        for thread in 0..3u64 {
            let entries = &entries;
            threads.spawn(move || {
                for number in 0..500 {
                    let text = (number * 7 + thread) % 40;
                    entries.insert(key((text % 4) as u8), new(text, 1, "a"), HOUR, at(0));
                    assert!(entries.bytes() < usize::MAX / 2, "fewer than none");
                }
            });
        }
        threads.spawn(|| (0..200).for_each(|_| _ = entries.purge(&Purge::default())));
        threads.spawn(|| (0..200).for_each(|_| entries.maintain()));
    });
    entries.maintain();
    check(&entries);
}

/// Knows all words but those that contain `zz`.
#[derive(Debug)]
struct Vocabulary;

impl Embedder for Vocabulary {
    fn id(&self) -> &'static str {
        "test"
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn max_tokens(&self) -> usize {
        9
    }

    fn knows(&self, word: &str) -> bool {
        !word.contains("zz")
    }

    fn embed(&self, _: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_misspelt_word_is_the_one_that_was_meant() {
    let judged = |asked: &str, stored: &str| {
        let new = NewEntry { traits: Arc::new(Traits::of(stored)), ..new(1, 1, "a") };
        let entry = spacious().insert(key(0), new, HOUR, at(0)).unwrap();
        let traits = Traits::of(asked);
        let weighed = Weighed {
            traits: &traits,
            vocabulary: &Vocabulary,
            prior: Prior::of("minilm-l6-w8"),
            scope: Shift::scope(),
            budget: 0.01,
        };
        judge(&weighed, &entry.vector.clone(), &[entry]).unwrap()
    };
    assert!(matches!(judged("how do I pay the invzice?", "How do I pay the invoice?"), Verdict::Guarded(..)));
    assert!(
        matches!(judged("how do I pay the invzzice?", "How do I pay the invoice?"), Verdict::Guarded(..)),
        "two letters"
    );
    assert!(matches!(judged("how do I pay the invoizze?", "How do I pay the invoizce?"), Verdict::Serve(_)));
    let guarded = judged("How do I pay 3 invoices?", "How do I pay 2 invoices?");
    let Verdict::Guarded(Guard::Numbers, near) = guarded else { panic!("{guarded:?}") };
    assert!(near.similarity > 0.99 && near.probability.is_none());
}

proptest! {
    #[test]
    fn counts_match_the_entries(steps in prop::collection::vec((0u8..6, 0u8..4, 0u64..8), 0..60), room in 0usize..9) {
        let entries = Semantic::default();
        let most = room * 4000;
        entries.set_capacity(most);
        for (second, (step, model, text)) in (0..).zip(steps) {
            match step {
                0 => _ = entries.purge(&Purge { entry: Some(new(text, 1, "").exact), ..Purge::default() }),
                1 => _ = entries.expire(2, at(second)),
                2 => entries.maintain(),
                _ => drop(entries.insert(key(model), new(text, 1, "a"), Duration::from_secs(text), at(second))),
            }
            entries.maintain();
            check(&entries);
            prop_assert!(entries.bytes() <= most);
        }
    }
}
