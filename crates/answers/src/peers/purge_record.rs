//! Purges on the server, stamped by the server's clock, so that the gateways' clocks need not agree.

use ::redis::{Cmd, cmd};
use serde::{Deserialize, Serialize};

use super::{envelope::Envelope, group::PeerGroup, purges::Stamp};
use signalbox_cache::{ExactKey, Purge, Tags};

/// Maximum of purges on the server. One more replaces all of them by a purge of everything.
const MAX_PURGES: usize = 10_000;
/// Stores a purge under its pattern with the server's time, wakes the readers of the stream, and deletes the answers whose keys are known.
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

/// A purge, as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredPurge {
    caller: Option<String>,
    route: Option<String>,
    entry: Option<[u8; 32]>,
}

impl PeerGroup {
    /// The command that stores a purge. Its answer is the purge's stamp.
    pub(super) fn purge_command(&self, pattern: &Tags, purge: &Purge) -> Cmd {
        let deleted = match purge {
            Purge { caller: None, route: None, entry: Some(entry) } => vec![self.record_key(entry)],
            _ => Vec::new(),
        };
        let everything = if *purge == Purge::default() { "all" } else { "" };
        let mut command = cmd("EVAL");
        command.arg(SCRIPT).arg(2 + deleted.len()).arg(self.purges_key()).arg(self.stream_key()).arg(deleted);
        command.arg(pattern.as_bytes()).arg(self.sealed_purge(purge)).arg(MAX_PURGES);
        command.arg(&[0_u8; 32]).arg(self.sealed_purge(&Purge::default())).arg(everything);
        command
    }

    fn sealed_purge(&self, purge: &Purge) -> Vec<u8> {
        let Purge { caller, route, entry } = purge.clone();
        let stored = StoredPurge { caller, route, entry: entry.map(|entry| *entry.as_bytes()) };
        let payload = serde_json::to_vec(&stored).unwrap_or_default();
        let tags = Tags::meant(&self.keys, purge);
        self.sealer.seal(&self.purges_key(), &Envelope { written: 0, expires: 0, after: 0, tags, payload: &payload })
    }

    /// Parses a purge of the server. One that is not authentic still invalidates the shared answers that its pattern matches, but removes
    /// nothing on this gateway: its `Purge` is `None`.
    pub(super) fn read_purge(&self, pattern: &[u8], value: &[u8]) -> Option<(Tags, Stamp, Option<Purge>)> {
        let pattern = Tags::from_bytes(pattern.try_into().ok()?);
        let colon = memchr::memchr(b':', value)?;
        let stamp = std::str::from_utf8(&value[..colon]).ok()?.parse().ok()?;
        let read = |envelope: Envelope<'_>| {
            let StoredPurge { caller, route, entry } = serde_json::from_slice(envelope.payload).ok()?;
            Some(Purge { caller, route, entry: entry.map(ExactKey::from_bytes) })
        };
        let envelope = self.sealer.open(&self.purges_key(), &value[colon + 1..]);
        Some((pattern, stamp, envelope.filter(|envelope| envelope.tags == pattern).and_then(read)))
    }
}

/// Parses any bytes as values of a server: an answer, an entry, a purge, as they are and sealed. The entry point of a fuzzer.
///
/// # Panics
/// If a sealed value cannot be opened.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_shared(bytes: &[u8]) {
    use signalbox_policy as policy;
    use signalbox_types::RedisServer;

    let Ok(server) = RedisServer::parse("redis://localhost") else { return };
    let secret = |text: &str| policy::Secret(text.into());
    let spec = policy::Shared { server, key: secret("fuzz"), timeout: std::time::Duration::ZERO };
    let Ok((group, _)) = PeerGroup::new(spec, &policy::Caching::default()) else { return };
    let key = group.purges_key();
    let _ = group.open(&key, bytes);
    let pattern = Tags::from_bytes([1; 32]);
    let _ = group.read_purge(bytes, bytes);
    let _ = group.read_purge(pattern.as_bytes(), bytes);
    let envelope = Envelope { written: 0, expires: u64::MAX, after: 0, tags: pattern, payload: bytes };
    let sealed = group.sealer.seal(&key, &envelope);
    assert!(group.open(&key, &sealed).is_some(), "a sealed value cannot be opened");
    let _ = group.read_purge(pattern.as_bytes(), &[b"12:", &sealed[..]].concat());
}
