//! Purges as the server keeps and tells them: with its own clock, so that gateways need not agree on the time.

use ::redis::{Cmd, cmd};
use serde::{Deserialize, Serialize};

use super::{circle::Circle, purges::Stamp, seal::Letter};
use crate::{
    cache::{ExactKey, Purge, Tags},
    policy,
};

/// Most purges that the server keeps. One more, and it keeps that everything was.
const MOST: usize = 10_000;
/// Notes a purge under its pattern with the server's time, wakes those who read the stream, and deletes what can be named.
const SCRIPT: &str = "
local time = redis.call('TIME')
local stamp = string.format('%.0f', time[1] * 1000000 + time[2])
for at = 3, #KEYS do redis.call('UNLINK', KEYS[at]) end
if ARGV[6] == 'all' then redis.call('XTRIM', KEYS[2], 'MAXLEN', 0) end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
    redis.call('UNLINK', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[4], stamp .. ':' .. ARGV[5])
end
redis.call('HSET', KEYS[1], ARGV[1], stamp .. ':' .. ARGV[2])
redis.call('XADD', KEYS[2], '*', 'p', stamp)
return stamp
";

/// What a purge says, as others read it.
#[derive(Serialize, Deserialize)]
struct Written {
    caller: Option<String>,
    route: Option<String>,
    entry: Option<[u8; 32]>,
}

impl Circle {
    /// Tells the server of a purge; the answer is its stamp.
    pub(super) fn telling(&self, pattern: &Tags, purge: &Purge) -> Cmd {
        let deleted = match purge {
            Purge { caller: None, route: None, entry: Some(entry) } => vec![self.record_at(entry)],
            _ => Vec::new(),
        };
        let everything = if *purge == Purge::default() { "all" } else { "" };
        let mut command = cmd("EVAL");
        command.arg(SCRIPT).arg(2 + deleted.len()).arg(self.purges_at()).arg(self.stream()).arg(deleted);
        command.arg(pattern.as_bytes()).arg(self.written(purge)).arg(MOST);
        command.arg(&[0_u8; 32]).arg(self.written(&Purge::default())).arg(everything);
        command
    }

    fn written(&self, purge: &Purge) -> Vec<u8> {
        let Purge { caller, route, entry } = purge.clone();
        let written = Written { caller, route, entry: entry.map(|entry| *entry.as_bytes()) };
        let payload = serde_json::to_vec(&written).unwrap_or_default();
        let tags = Tags::meant(&self.keys, purge);
        self.seal.close(&self.purges_at(), &Letter { written: 0, expires: 0, after: 0, tags, payload: &payload })
    }

    /// A purge as the server has it. One that no gateway of ours has sealed still makes what it means to be believed in no more; but nothing
    /// is forgotten here for it.
    pub(super) fn listed(&self, pattern: &[u8], value: &[u8]) -> Option<(Tags, Stamp, Option<Purge>)> {
        let pattern = Tags::from_bytes(pattern.try_into().ok()?);
        let colon = memchr::memchr(b':', value)?;
        let stamp = std::str::from_utf8(&value[..colon]).ok()?.parse().ok()?;
        let read = |letter: Letter<'_>| {
            let Written { caller, route, entry } = serde_json::from_slice(letter.payload).ok()?;
            Some(Purge { caller, route, entry: entry.map(ExactKey::from_bytes) })
        };
        let letter = self.seal.open(&self.purges_at(), &value[colon + 1..]).filter(|letter| letter.tags == pattern);
        Some((pattern, stamp, letter.and_then(read)))
    }
}

/// Reads any bytes as what a server may hold: an answer, an entry, a purge, as they are and sealed. An entry for fuzzers, which must never
/// panic.
///
/// # Panics
/// Where what was sealed is not read.
pub fn fuzz_shared(bytes: &[u8]) {
    let secret = |text: &str| policy::Secret(text.into());
    let spec = policy::Shared {
        url: secret("redis://localhost"),
        key: secret("what is fuzzed"),
        timeout: std::time::Duration::ZERO,
    };
    let Ok((circle, _)) = Circle::new(spec, &policy::Caching::default()) else { return };
    let place = circle.purges_at();
    let _ = circle.letter(&place, bytes);
    let pattern = Tags::from_bytes([1; 32]);
    let _ = circle.listed(bytes, bytes);
    let _ = circle.listed(pattern.as_bytes(), bytes);
    let letter = Letter { written: 0, expires: u64::MAX, after: 0, tags: pattern, payload: bytes };
    let sealed = circle.seal.close(&place, &letter);
    assert!(circle.letter(&place, &sealed).is_some(), "what was sealed is not read");
    let _ = circle.listed(pattern.as_bytes(), &[b"12:", &sealed[..]].concat());
}
