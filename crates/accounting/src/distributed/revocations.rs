//! Revocations of keys, shared by all gateways: the latest change of a key counts. A key that the server does not list yet is reported by
//! each gateway on which it is revoked.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use ::redis::cmd;

use signalbox_redis::{ANSWER, Connection, SessionError, query_within};
use signalbox_types::{Name, wall_clock};

/// Stores a change of a key, unless the server has one of the same time or later.
const SCRIPT: &str = "
local before = redis.call('HGET', KEYS[1], ARGV[1])
local at = before and tonumber(string.match(before, '^%d:(%d+):'))
if at and at >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[4])
return 1
";

/// A change of a key: revoked or restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revocation {
    /// True if the key is revoked.
    pub(crate) revoked: bool,
    /// The key's id.
    pub(crate) id: Name,
    /// Time of the change, in milliseconds since 1970.
    at: u64,
}

/// Changes by the key's hash.
pub(crate) type Revocations = BTreeMap<[u8; 32], Revocation>;

/// Changes made on this gateway that the server does not have yet.
#[derive(Debug, Default)]
pub(crate) struct PendingRevocations(Mutex<Revocations>);

impl PendingRevocations {
    /// Records that a key was revoked or restored here.
    pub(crate) fn record(&self, hash: [u8; 32], id: Name, revoked: bool) {
        self.0.lock().insert(hash, Revocation { revoked, id, at: wall_clock::now() });
    }

    /// True if a change of this key is pending.
    pub(crate) fn contains(&self, hash: &[u8; 32]) -> bool {
        self.0.lock().contains_key(hash)
    }

    fn next(&self) -> Option<([u8; 32], Revocation)> {
        self.0.lock().first_key_value().map(|(hash, change)| (*hash, change.clone()))
    }

    /// Removes a change that the server has now, unless a newer one has replaced it.
    fn sent(&self, hash: &[u8; 32], change: &Revocation) {
        let mut pending = self.0.lock();
        if pending.get(hash) == Some(change) {
            pending.remove(hash);
        }
    }
}

/// Sends pending changes and fetches those of other gateways. `apply` applies them and returns the keys that are revoked here and that the
/// server does not list.
pub(super) async fn exchange(
    key: &str,
    pending: &PendingRevocations,
    apply: impl Fn(&Revocations) -> Vec<([u8; 32], Name)>,
    connection: &mut Connection,
) -> Result<(), SessionError> {
    while let Some((hash, change)) = pending.next() {
        send(key, &hash, &change, connection).await?;
        pending.sent(&hash, &change);
    }
    let listed: HashMap<String, String> = query_within(cmd("HGETALL").arg(key), connection, ANSWER).await?;
    let listed = listed.iter().filter_map(|(hash, change)| read(hash, change)).collect();
    for (hash, id) in apply(&listed) {
        // Time zero: any other change of the key is later.
        send(key, &hash, &Revocation { revoked: true, id, at: 0 }, connection).await?;
    }
    Ok(())
}

async fn send(
    key: &str,
    hash: &[u8; 32],
    change: &Revocation,
    connection: &mut Connection,
) -> Result<(), SessionError> {
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(key).arg(blake3::Hash::from_bytes(*hash).to_hex().as_str());
    command.arg(u8::from(change.revoked)).arg(change.at).arg(&*change.id);
    let _: u64 = query_within(&command, connection, ANSWER).await?;
    Ok(())
}

/// The server's hash of changes.
pub(super) fn key(prefix: &str) -> String {
    format!("{prefix}revoked")
}

/// Parses `revoked:milliseconds:id`.
fn read(hash: &str, change: &str) -> Option<([u8; 32], Revocation)> {
    let hash = *blake3::Hash::from_hex(hash).ok()?.as_bytes();
    let mut parts = change.splitn(3, ':');
    let revoked = match parts.next()? {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    let at = parts.next()?.parse().ok()?;
    Some((hash, Revocation { revoked, id: parts.next()?.into(), at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_parsed() {
        let hash = blake3::hash(b"web");
        let read = |text: &str| read(hash.to_hex().as_str(), text).map(|(_, it)| (it.revoked, it.at, it.id));
        assert_eq!(read("1:17:web:eu"), Some((true, 17, "web:eu".into())));
        assert_eq!(read("0:0:a"), Some((false, 0, "a".into())));
        for odd in ["", "1", "1:x:a", "2:1:a", "1:1"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert!(super::read("no hash", "1:17:web").is_none());
    }

    #[test]
    fn a_newer_change_stays_pending() {
        let pending = PendingRevocations::default();
        pending.record([1; 32], "a".into(), true);
        let (hash, change) = pending.next().unwrap();
        pending.record([1; 32], "a".into(), false);
        pending.sent(&hash, &change);
        assert!(pending.contains(&hash) && !pending.next().unwrap().1.revoked);
    }
}
