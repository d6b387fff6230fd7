//! Keys that are revoked, on one gateway for all: the last word on a key counts, and one that nobody has spoken on there is told by who knows
//! it to be revoked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use ::redis::{aio::MultiplexedConnection, cmd};

use super::names::ROOT;
use crate::{
    measure::lock,
    redis::{ANSWER, SessionError, query_within},
    types::{Name, wall_clock},
};

/// Notes a word on a key, unless there is a later one, or one of the same time.
const SCRIPT: &str = "
local before = redis.call('HGET', KEYS[1], ARGV[1])
local at = before and tonumber(string.match(before, '^%d:(%d+):'))
if at and at >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[4])
return 1
";

/// A word on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Whether it is revoked.
    pub(crate) revoked: bool,
    /// Its id.
    pub(crate) id: Name,
    /// When that was said, in milliseconds since 1970.
    at: u64,
}

/// What was said here, by the key's hash, and the server has not been told.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Words>);

impl Changes {
    /// A key was revoked here, or let in again.
    pub(crate) fn note(&self, hash: [u8; 32], id: Name, revoked: bool) {
        lock(&self.0).insert(hash, Word { revoked, id, at: wall_clock::now() });
    }

    /// Whether the server is to be told of this key.
    pub(crate) fn has(&self, hash: &[u8; 32]) -> bool {
        lock(&self.0).contains_key(hash)
    }

    fn next(&self) -> Option<([u8; 32], Word)> {
        lock(&self.0).first_key_value().map(|(hash, word)| (*hash, word.clone()))
    }

    /// The server was told, unless there was another word meanwhile.
    fn told(&self, hash: &[u8; 32], word: &Word) {
        let mut changes = lock(&self.0);
        if changes.get(hash) == Some(word) {
            changes.remove(hash);
        }
    }
}

/// What is said of keys, by their hashes.
pub(crate) type Words = BTreeMap<[u8; 32], Word>;

/// Tells what was revoked here, and learns what was elsewhere: `hear` is told of it, and gives the keys that are revoked and that nobody has
/// spoken on there.
pub(super) async fn tell_and_hear(
    changes: &Changes,
    hear: impl Fn(&Words) -> Vec<([u8; 32], Name)>,
    own: &mut MultiplexedConnection,
) -> Result<(), SessionError> {
    while let Some((hash, word)) = changes.next() {
        tell(&hash, &word, own).await?;
        changes.told(&hash, &word);
    }
    let listed: HashMap<String, String> = query_within(cmd("HGETALL").arg(place()), own, ANSWER).await?;
    let words = listed.iter().filter_map(|(hash, word)| read(hash, word)).collect();
    for (hash, id) in hear(&words) {
        // Any other word is later.
        tell(&hash, &Word { revoked: true, id, at: 0 }, own).await?;
    }
    Ok(())
}

async fn tell(hash: &[u8; 32], word: &Word, own: &mut MultiplexedConnection) -> Result<(), SessionError> {
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(place()).arg(blake3::Hash::from_bytes(*hash).to_hex().as_str());
    command.arg(u8::from(word.revoked)).arg(word.at).arg(&*word.id);
    let _: u64 = query_within(&command, own, ANSWER).await?;
    Ok(())
}

fn place() -> String {
    format!("{ROOT}revoked")
}

fn read(hash: &str, word: &str) -> Option<([u8; 32], Word)> {
    let hash = *blake3::Hash::from_hex(hash).ok()?.as_bytes();
    let mut parts = word.splitn(3, ':');
    let revoked = match parts.next()? {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    let at = parts.next()?.parse().ok()?;
    Some((hash, Word { revoked, id: parts.next()?.into(), at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let hash = blake3::hash(b"web");
        let read = |word: &str| read(hash.to_hex().as_str(), word).map(|(_, word)| (word.revoked, word.at, word.id));
        assert_eq!(read("1:17:web:eu"), Some((true, 17, "web:eu".into())));
        assert_eq!(read("0:0:a"), Some((false, 0, "a".into())));
        for odd in ["", "1", "1:x:a", "2:1:a", "1:1"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert!(super::read("no hash", "1:17:web").is_none());
    }

    #[test]
    fn a_word_that_was_told_makes_way_for_a_later_one_only() {
        let changes = Changes::default();
        changes.note([1; 32], "a".into(), true);
        let (hash, word) = changes.next().unwrap();
        changes.note([1; 32], "a".into(), false);
        changes.told(&hash, &word);
        assert!(changes.has(&hash) && !changes.next().unwrap().1.revoked);
    }
}
