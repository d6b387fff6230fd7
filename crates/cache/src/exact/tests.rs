use proptest::prelude::*;

use super::*;
use crate::{Keys, Origin};
use signalbox_policy::Scope;
use signalbox_protocol::Transcript;
use signalbox_types::Endpoint;

const HOUR: Duration = Duration::from_hours(1);

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

/// A key of the shard `shard`.
fn key(shard: u8, number: u16) -> ExactKey {
    let mut bytes = [0; 32];
    bytes[0] = shard;
    bytes[1..3].copy_from_slice(&number.to_le_bytes());
    ExactKey::from_bytes(bytes)
}

fn scope(name: &str) -> ScopeId {
    Keys::new([0; 32]).scope(Scope::Key, Some(name), None).unwrap()
}

fn record(caller: &str, length: usize, cost: f64) -> Arc<Record> {
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"content":"{}"}},"finish_reason":"stop"}}]}}"#,
        "a".repeat(length.max(1))
    );
    Arc::new(Record {
        transcript: Transcript::of_whole(Endpoint::Chat, body.as_bytes(), 1 << 20).unwrap(),
        scope: scope(caller),
        caller: Some(caller.into()),
        route: "r".into(),
        pool: "p".into(),
        origin: Origin(1),
        cost_usd: Some(cost),
        seconds: 1.0,
    })
}

fn cache(bytes: usize) -> ExactCache {
    let cache = ExactCache::default();
    cache.set_capacity(bytes * SHARDS);
    cache
}

/// Size of one entry with 1000 bytes of text.
fn one() -> usize {
    record("a", 1000, 0.0).bytes() + ENTRY
}

#[test]
fn entries_are_found_until_they_expire() {
    let cache = cache(100 * one());
    let get = |now, max_age, origin| {
        let found = cache.get(&key(0, 1), max_age, |record| record.may_serve(&[Origin(origin)]), at(now));
        found.map(|found| (found.age.as_secs(), found.left.as_secs()))
    };
    assert_eq!(get(0, None, 1), Err(Missing::Absent));
    assert!(cache.insert(key(0, 1), record("a", 10, 0.1), HOUR, at(100)));
    assert_eq!(get(130, None, 1), Ok((30, 3570)));
    assert_eq!(get(130, Some(Duration::from_secs(30)), 1), Ok((30, 3570)));
    assert_eq!(get(131, Some(Duration::from_secs(30)), 1), Err(Missing::TooOld));
    assert_eq!(get(131, None, 2), Err(Missing::Origin));
    assert_eq!(get(3700, None, 1), Err(Missing::Expired));
    assert_eq!((get(3700, None, 1), cache.len(), cache.bytes()), (Err(Missing::Absent), 0, 0));
    assert_eq!(cache.evicted(Eviction::Expired), 1);
}

#[test]
fn restored_entries_keep_their_age_and_replace_nothing() {
    let cache = cache(100 * one());
    let get = |now, most| {
        let found = cache.get(&key(0, 1), Some(Duration::from_secs(most)), |_| true, at(now));
        found.map(|found| (found.age.as_secs(), found.left.as_secs(), found.record.route.to_string()))
    };
    let restore = |route: &str, now| {
        let record = Record { route: route.into(), ..(*record("a", 10, 0.1)).clone() };
        let kept = Kept::aged(at(now), Duration::from_secs(50));
        cache.restore(key(0, 1), Arc::new(record), kept, Duration::from_mins(1), at(now))
    };
    assert!(restore("first", 100));
    assert_eq!(get(102, 60), Ok((52, 58, "first".to_owned())));
    assert_eq!(get(102, 51), Err(Missing::TooOld));
    assert!(!restore("second", 110), "there is one");
    assert_eq!(get(111, 99).unwrap().2, "first");
    assert_eq!(get(160, 999), Err(Missing::Expired));
}

#[test]
fn entries_stored_together_expire_at_different_times() {
    let cache = cache(100 * one());
    let mut late = [0xFF; 32];
    late[0] = 0;
    for key in [key(0, 1), ExactKey::from_bytes(late)] {
        cache.insert(key, record("a", 10, 0.1), HOUR, at(0));
    }
    let left = |key| cache.get(&key, None, |_| true, at(0)).unwrap().left.as_secs();
    assert_eq!((left(key(0, 1)), left(ExactKey::from_bytes(late))), (3600, 3240));
}

#[test]
fn the_least_saving_per_byte_is_evicted_first() {
    let cache = cache(4 * one() + ENTRY);
    let put = |number, length, cost| cache.insert(key(0, number), record("a", length, cost), HOUR, at(0));
    let has = |number| cache.shards[0].lock().entries.contains_key(&key(0, number));
    put(1, 1000, 0.5);
    put(2, 1000, 0.1);
    put(3, 2000, 0.5);
    assert!(put(4, 1000, 0.5));
    assert_eq!([1, 2, 3, 4].map(has), [true, false, true, true], "the cheapest went");
    put(5, 1000, 0.5);
    assert_eq!([1, 3, 4, 5].map(has), [true, false, true, true], "the largest went");
    assert!(cache.get(&key(0, 1), None, |_| true, at(0)).is_ok());
    for number in 6..9 {
        put(number, 1000, 0.5);
    }
    assert!(has(1) && !has(4), "what is asked for stays");
    for number in 10..40 {
        put(number, 1000, 0.5);
    }
    assert!(!has(1), "but not for ever");
    assert!(!put(50, 100_000, 9.0), "what does not fit into a shard is not kept");
    assert!(cache.evicted(Eviction::Space) > 30);
}

#[test]
fn a_flooding_scope_evicts_its_own_entries() {
    let cache = cache(10 * one());
    let put = |number, caller| cache.insert(key(0, number), record(caller, 1000, 0.1), HOUR, at(0));
    for number in 0..10 {
        put(number, "a");
    }
    let held = |caller| cache.shards[0].lock().scopes.get(&scope(caller)).map_or(0, |bytes| bytes / one());
    assert_eq!(held("a"), 10, "alone it may use all");
    for number in 100..200 {
        put(number, "b");
    }
    assert_eq!((held("a"), held("b")), (5, 5));
    assert!(cache.evicted(Eviction::Share) > 90);
}

#[test]
fn purges_remove_only_what_they_select() {
    let cache = cache(100 * one());
    let fill = || {
        for number in 0..4 {
            let mut record = Record::clone(&record(if number < 2 { "a" } else { "b" }, 10, 0.1));
            record.route = if number % 2 == 0 { "r" } else { "s" }.into();
            cache.insert(key(number as u8, number), record.into(), HOUR, at(0));
        }
    };
    for (caller, route, entry, want) in [
        (None, None, None, 4),
        (Some("a"), None, None, 2),
        (Some("a"), Some("s"), None, 1),
        (Some("c"), None, None, 0),
        (None, Some("r"), None, 2),
        (None, None, Some(key(3, 3)), 1),
        (Some("a"), None, Some(key(3, 3)), 0),
    ] {
        fill();
        let purge = Purge { caller: caller.map(ToOwned::to_owned), route: route.map(ToOwned::to_owned), entry };
        assert_eq!((cache.purge(&purge), cache.len()), (want, 4 - want), "{purge:?}");
    }
    fill();
    cache.set_capacity(0);
    assert!(cache.is_empty());
}

proptest! {
    /// After any sequence of inserts, lookups and purges, the limit holds and the accounts match the entries.
    #[test]
    fn the_accounts_match_the_entries(steps in proptest::collection::vec((0..5_u8, 0..12_u16, 0..3_usize, 0..3000_usize, 0..4_u64), 1..120)) {
        let cache = cache(6 * one());
        for ((step, number, caller, length, cost), now) in steps.into_iter().zip(0..) {
            let caller = ["a", "b", "c"][caller];
            match step {
                0..=2 => drop(cache.insert(key(0, number), record(caller, length, cost as f64), Duration::from_secs(40), at(now))),
                3 => drop(cache.get(&key(0, number), None, |_| true, at(now))),
                _ => drop(cache.purge(&Purge { caller: Some(caller.to_owned()), ..Purge::default() })),
            }
            let shard = cache.shards[0].lock();
            prop_assert!(shard.bytes <= 6 * one());
            prop_assert_eq!(shard.bytes, shard.entries.values().map(|entry| entry.bytes).sum::<usize>());
            prop_assert_eq!(shard.bytes, shard.scopes.values().sum::<usize>());
            prop_assert!(shard.order.len() == shard.entries.len() && shard.by_scope.len() == shard.entries.len());
            for (key, entry) in &shard.entries {
                prop_assert!(shard.order.contains(&(entry.rank, *key)));
                prop_assert!(shard.by_scope.contains(&(entry.record.scope, entry.rank, *key)));
            }
        }
    }
}
