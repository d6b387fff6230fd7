//! Tests the index against its rules, a naive model, an engine that holds half of what is assumed, and its memory cap.

use std::collections::HashMap;

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;
use signalbox_types::Layout;

const MEGABYTE: usize = 1 << 20;

/// Equal block sizes keep the arithmetic of tests simple.
const BLOCK: u64 = 100;
const LAYOUT: Layout = Layout::Fixed(BLOCK as u32);

/// Chained hashes of a prompt whose blocks have these contents.
fn chain(words: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut hash = 0;
    let mut next = |word: u64| {
        hash = xxhash_rust::xxh3::xxh3_64_with_seed(&word.to_le_bytes(), hash);
        hash
    };
    words.into_iter().map(&mut next).collect()
}

fn prompt(blocks: &[u64]) -> Prompt<'_> {
    Prompt { bytes: BLOCK * blocks.len() as u64, blocks, layout: LAYOUT, ..Prompt::default() }
}

fn depth(index: &PrefixIndex, holder: HolderId, blocks: &[u64]) -> u32 {
    let mut matched = [u32::MAX];
    index.matched(prompt(blocks), &[holder], &mut matched);
    matched[0]
}

fn send(index: &PrefixIndex, holder: HolderId, blocks: &[u64]) -> Reuse {
    let reuse = index.insert(holder, prompt(blocks));
    index.confirm(prompt(blocks), &reuse);
    reuse
}

#[test]
fn each_holder_matches_as_deep_as_it_was_sent() {
    let index = PrefixIndex::new(MEGABYTE);
    let long = chain(0..50);
    let holders: Vec<HolderId> = (0..200).map(|_| index.join(u64::MAX)).collect();
    for (place, &holder) in holders.iter().enumerate() {
        index.insert(holder, prompt(&long[..place % 51]));
    }
    let mut matched = vec![7; holders.len()];
    index.matched(prompt(&long), &holders, &mut matched);
    assert!(matched.iter().enumerate().all(|(place, &depth)| depth as usize == place % 51), "{matched:?}");
    let parted = chain((0..20).chain([99]).chain(21..50));
    index.matched(prompt(&parted), &holders, &mut matched);
    assert!(matched.iter().enumerate().all(|(place, &depth)| depth as usize == (place % 51).min(20)), "{matched:?}");
    index.matched(Prompt::default(), &holders, &mut matched);
    assert!(matched.iter().all(|&depth| depth == 0));
}

#[test]
fn the_deepest_blocks_of_the_oldest_prompt_are_evicted_first() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(10 * BLOCK);
    let (one, other, third) = (chain(0..6), chain(10..14), chain(20..23));
    send(&index, holder, &one);
    send(&index, holder, &other);
    assert_eq!((depth(&index, holder, &one), depth(&index, holder, &other)), (6, 4));
    send(&index, holder, &one[..2]);
    send(&index, holder, &third);
    assert_eq!(depth(&index, holder, &one), 3, "what follows the part that was used again is older than that part");
    send(&index, holder, &chain(30..33));
    assert_eq!((depth(&index, holder, &one), depth(&index, holder, &other)), (2, 2));
    index.set_capacity(holder, 4 * BLOCK);
    assert_eq!((depth(&index, holder, &one), depth(&index, holder, &third), index.len()), (0, 1, 4));
    send(&index, holder, &one);
    assert_eq!((depth(&index, holder, &one), index.len()), (4, 4), "of too long a prompt, the beginning is held");
}

#[test]
fn a_withdrawn_request_removes_only_its_own_tentative_blocks() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(u64::MAX);
    let long = chain(0..9);
    let (six, four) = (prompt(&long[..6]), prompt(&long[..4]));
    let first = index.insert(holder, six);
    let second = index.insert(holder, four);
    let third = index.insert(holder, prompt(&long));
    index.withdraw(prompt(&long), &third);
    assert_eq!(depth(&index, holder, &long), 6, "others wait for these");
    index.confirm(four, &second);
    index.withdraw(six, &first);
    assert_eq!(depth(&index, holder, &long), 4, "these were computed");
    let fourth = index.insert(holder, four);
    index.withdraw(four, &fourth);
    assert_eq!(depth(&index, holder, &long), 4);
}

#[test]
fn a_request_settles_only_what_it_put_there() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(u64::MAX);
    let long = chain(0..9);
    let first = index.insert(holder, prompt(&long[..6]));
    index.clear(holder);
    index.insert(holder, prompt(&long));
    index.withdraw(prompt(&long[..6]), &first);
    assert_eq!((depth(&index, holder, &long), index.len()), (9, 9));
}

#[test]
fn a_removed_holder_leaves_nothing() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(u64::MAX);
    let empty = index.bytes();
    let long = chain(0..1_000);
    send(&index, holder, &long);
    assert!(index.len() == 1_000 && index.bytes() > empty + 64_000);
    index.clear(holder);
    assert!(index.is_empty() && index.bytes() == empty, "a restarted engine is cold");
    let reuse = send(&index, holder, &long);
    index.leave(holder);
    assert!(index.is_empty());
    let next = index.join(u64::MAX);
    assert_ne!(holder, next);
    assert_eq!(index.bytes() - empty, size_of::<u32>() * 4, "the list of vacant slots");
    send(&index, holder, &long);
    index.leave(holder);
    index.correct(prompt(&long), &reuse, 0);
    assert!(index.is_empty(), "the old id is not its successor's");
    send(&index, next, &long);
    assert_eq!((depth(&index, holder, &long), depth(&index, next, &long)), (0, 1_000));
}

#[test]
fn a_panic_elsewhere_does_not_end_it() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(u64::MAX);
    let panicked = std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let _held = index.ledger.lock();
            panic!("on purpose");
        });
        held.join().is_err()
    });
    send(&index, holder, &chain(0..3));
    assert!(panicked && depth(&index, holder, &chain(0..3)) == 3);
}

#[test]
fn an_engine_without_a_cache_is_detected() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(1_000 * BLOCK);
    let long = chain(0..100);
    for _ in 0..20 {
        let reuse = send(&index, holder, &long);
        index.correct(prompt(&long), &reuse, 0);
    }
    assert!(depth(&index, holder, &long) <= 2, "{}", depth(&index, holder, &long));
    for _ in 0..40 {
        let reuse = send(&index, holder, &long);
        index.correct(prompt(&long), &reuse, u32::MAX);
    }
    assert!(depth(&index, holder, &long) >= 80, "and when it does again, that too: {}", depth(&index, holder, &long));
}

#[test]
fn tentative_blocks_that_were_missing_prove_nothing() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(1_000 * BLOCK);
    let (other, long) = (chain(200..300), chain(0..100));
    send(&index, holder, &other);
    for _ in 0..20 {
        let reuse = index.insert(holder, prompt(&long));
        index.correct(prompt(&long), &reuse, 0);
    }
    assert_eq!((depth(&index, holder, &long), depth(&index, holder, &other)), (100, 100));
}

#[test]
fn concurrent_siblings_prove_no_more_than_the_first_request() {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(1_000 * BLOCK);
    let (stale, other) = (chain(0..100), chain(200..300));
    send(&index, holder, &stale);
    send(&index, holder, &other);
    let burst: Vec<Reuse> = (0..20).map(|_| index.insert(holder, prompt(&stale))).collect();
    for reuse in &burst {
        index.confirm(prompt(&stale), reuse);
        index.correct(prompt(&stale), reuse, 0);
    }
    assert_eq!(index.len(), 150, "one report moved the limit halfway from the 200 held to the 100 used since");
}

/// An exact LRU cache of blocks.
struct Engine {
    capacity: usize,
    /// Oldest first.
    blocks: Vec<u64>,
}

impl Engine {
    /// Number of cached blocks of a prompt. Caches all of them.
    fn serve(&mut self, prompt: &[u64]) -> u32 {
        let cached = prompt.iter().take_while(|block| self.blocks.contains(block)).count();
        self.blocks.retain(|block| !prompt.contains(block));
        self.blocks.extend(prompt.iter().rev());
        let over = self.blocks.len().saturating_sub(self.capacity);
        self.blocks.drain(..over);
        cached as u32
    }
}

/// Share of wrongly predicted blocks in each quarter of 4,000 requests to an engine of 300 blocks.
fn errors(believed: u64, corrected: bool, restarted: bool) -> [f64; 4] {
    let index = PrefixIndex::new(MEGABYTE);
    let holder = index.join(believed * BLOCK);
    let mut engine = Engine { capacity: 300, blocks: Vec::new() };
    let mut random = fastrand::Rng::with_seed(7);
    [0, 1, 2, 3].map(|quarter| {
        if restarted && quarter == 1 {
            engine.blocks.clear();
        }
        let (mut wrong, mut sent) = (0, 0);
        for _ in 0..1_000 {
            // Forty sessions with a common beginning; some are more active.
            let who = (random.f64() * random.f64() * 40.0) as u64;
            let blocks = chain((0..4).chain((0..10 + who % 12).map(|block| 1_000 * (who + 1) + block)));
            let reuse = send(&index, holder, &blocks);
            let reported = engine.serve(&blocks);
            if corrected {
                index.correct(prompt(&blocks), &reuse, reported);
            }
            wrong += reuse.blocks().abs_diff(reported);
            sent += blocks.len();
        }
        f64::from(wrong) / sent as f64
    })
}

#[test]
fn the_capacity_is_learned_from_reports() {
    let (left_alone, corrected, exact) =
        (errors(600, false, false), errors(600, true, false), errors(300, true, false));
    assert!(left_alone[3] > 0.15, "{left_alone:?}");
    assert!(corrected[1..].iter().all(|&error| error < 0.01), "{corrected:?}");
    assert!(exact.iter().all(|&error| error < 0.001), "{exact:?}");
}

#[test]
fn an_undetected_restart_is_corrected() {
    let errors = errors(300, true, true);
    assert!(errors[2..].iter().all(|&error| error < 0.01), "{errors:?}");
}

#[test]
fn its_memory_stays_below_the_cap() {
    let cap = MEGABYTE;
    let index = PrefixIndex::new(cap);
    let holders: Vec<HolderId> = (0..70).map(|_| index.join(u64::MAX)).collect();
    let mut random = fastrand::Rng::with_seed(3);
    let mut most = 0;
    for _ in 0..1_000_000 {
        let blocks = [random.u64(..1_000), random.u64(..), random.u64(..)];
        index.insert(holders[random.usize(..holders.len())], prompt(&blocks));
        let bytes = index.bytes();
        assert!(bytes <= cap, "{bytes}");
        most = most.max(bytes);
    }
    assert!(most > cap / 10 * 9 && index.len() * 64 > cap / 4 * 3, "the cap is used: {most}, {}", index.len());
    for holder in holders {
        index.leave(holder);
    }
    assert!(index.is_empty() && index.bytes() < cap / 8, "{}", index.bytes());
}

#[test]
fn a_cap_too_low_for_anything_holds_nothing() {
    let index = PrefixIndex::new(0);
    let holder = index.join(u64::MAX);
    assert_eq!((send(&index, holder, &chain(0..9)).blocks(), index.len()), (0, 0));
}

/// A block in the naive model.
#[derive(Default)]
struct NaiveBlock {
    /// Request of its last use, and its depth in that request's prompt.
    used: (usize, std::cmp::Reverse<usize>),
    waiting: Vec<usize>,
    confirmed: bool,
}

/// A holder in the naive model.
#[derive(Default)]
struct Naive {
    capacity: usize,
    blocks: HashMap<u64, NaiveBlock>,
}

impl Naive {
    fn depth(&self, prompt: &[u64]) -> usize {
        prompt.iter().take_while(|block| self.blocks.contains_key(block)).count()
    }

    fn insert(&mut self, request: usize, prompt: &[u64]) {
        for (place, block) in prompt.iter().enumerate() {
            let state = self.blocks.entry(*block).or_default();
            state.used = (request, std::cmp::Reverse(place));
            state.waiting.push(request);
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.blocks.len() > self.capacity {
            let oldest = *self.blocks.iter().min_by_key(|(_, state)| state.used).unwrap().0;
            self.blocks.remove(&oldest);
        }
    }

    fn settle(&mut self, request: usize, computed: bool) {
        for state in self.blocks.values_mut() {
            let waited = state.waiting.len();
            state.waiting.retain(|waiting| *waiting != request);
            state.confirmed |= computed && state.waiting.len() < waited;
        }
        self.blocks.retain(|_, state| state.confirmed || !state.waiting.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert,
    /// Settles one of the open requests; the flag is true if it was computed.
    Settle(bool, usize),
    Clear,
    Resize(usize),
    Replace,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Insert),
        8 => (any::<bool>(), any::<usize>()).prop_map(|(computed, which)| Step::Settle(computed, which)),
        1 => Just(Step::Clear),
        1 => (0..30_usize).prop_map(Step::Resize),
        1 => Just(Step::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_a_naive_model(
        steps in prop::collection::vec((step(), 0..3_usize, prop::collection::vec(0..2_u64, 0..9)), 0..80),
    ) {
        let index = PrefixIndex::new(MEGABYTE);
        let mut holders: Vec<HolderId> = (0..3).map(|_| index.join(20 * BLOCK)).collect();
        let mut naive: Vec<Naive> = (0..3).map(|_| Naive { capacity: 20, ..Naive::default() }).collect();
        let mut open = Vec::new();
        for (request, (step, who, words)) in steps.into_iter().enumerate() {
            let blocks = chain(words);
            match step {
                Step::Insert => {
                    let reuse = index.insert(holders[who], prompt(&blocks));
                    prop_assert_eq!(reuse.blocks() as usize, naive[who].depth(&blocks));
                    naive[who].insert(request, &blocks);
                    open.push((request, who, blocks.clone(), reuse));
                }
                Step::Settle(computed, which) if !open.is_empty() => {
                    let (request, who, blocks, reuse) = open.swap_remove(which % open.len());
                    if computed {
                        index.confirm(prompt(&blocks), &reuse);
                    } else {
                        index.withdraw(prompt(&blocks), &reuse);
                    }
                    naive[who].settle(request, computed);
                }
                Step::Settle(..) => {}
                Step::Clear => {
                    index.clear(holders[who]);
                    naive[who].blocks.clear();
                }
                Step::Resize(capacity) => {
                    index.set_capacity(holders[who], capacity as u64 * BLOCK);
                    naive[who].capacity = capacity;
                    naive[who].trim();
                }
                Step::Replace => {
                    index.leave(holders[who]);
                    holders[who] = index.join(20 * BLOCK);
                    naive[who] = Naive { capacity: 20, ..Naive::default() };
                }
            }
            let mut matched = [0; 3];
            index.matched(prompt(&blocks), &holders, &mut matched);
            for (naive, matched) in naive.iter().zip(matched) {
                prop_assert_eq!(naive.depth(&blocks), matched as usize);
            }
            prop_assert_eq!(index.len(), naive.iter().map(|naive| naive.blocks.len()).sum::<usize>());
        }
    }

    #[test]
    fn hashes_that_are_no_chain_do_no_harm(
        prompts in prop::collection::vec((0..3_usize, prop::collection::vec(0..6_u64, 0..12), 0..20_u32), 0..60),
    ) {
        let index = PrefixIndex::new(MEGABYTE);
        let holders: Vec<HolderId> = (0..3).map(|_| index.join(15 * BLOCK)).collect();
        for (who, blocks, reported) in prompts {
            let reuse = index.insert(holders[who], prompt(&blocks));
            if reported % 3 == 0 {
                index.withdraw(prompt(&blocks), &reuse);
            } else {
                index.confirm(prompt(&blocks), &reuse);
                index.correct(prompt(&blocks), &reuse, reported);
            }
            prop_assert!(depth(&index, holders[who], &blocks) as usize <= blocks.len());
            prop_assert!(index.len() <= 45);
        }
        for holder in holders {
            index.leave(holder);
        }
        prop_assert!(index.is_empty());
    }
}
