//! Cache keys: identify equal requests, and the scope that may share their answers.
//!
//! A key is a keyed BLAKE3 hash over everything that may change an answer, each part preceded by its length. The secret
//! is never disclosed, so that nobody can derive a request from its key or construct two requests with the same key.

use std::fmt;

use signalbox_policy::Scope;
use signalbox_protocol::Canonical;

/// Makes keys with a secret.
#[derive(Clone)]
pub struct Keys {
    secret: [u8; 32],
}

/// Scope that shares an answer: a hash over the caller's key, its end user, or nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId([u8; 16]);

/// Key of identical requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExactKey([u8; 32]);

/// Key of requests that differ only in the last user text.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompatKey([u8; 32]);

/// Separates keys of different kinds.
#[derive(Copy, Clone)]
enum Kind {
    Scope = 1,
    Exact = 2,
    Compat = 3,
    Fingerprint = 4,
    Tag = 5,
    Entry = 6,
}

/// Parts of a request that determine its key.
#[derive(Copy, Clone, Debug)]
pub struct KeyParts<'a> {
    /// Scope that may share the answer.
    pub scope: ScopeId,
    /// Model as the client named it.
    pub model: &'a str,
    /// Namespace chosen by the caller; usually empty.
    pub namespace: &'a str,
    /// Forwarded headers that may change the answer, in one spelling; usually empty.
    pub headers: &'a [u8],
    /// The body.
    pub form: &'a Canonical,
}

impl Keys {
    /// Creates keys with this secret: a new one per process, unless a later process should find stored answers.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// Scope of a request of `caller`, the name of its API key where keys are required, for the end user `user`. `None`
    /// where answers are shared per user and the request names none.
    pub fn scope(&self, scope: Scope, caller: Option<&str>, user: Option<&[u8]>) -> Option<ScopeId> {
        let caller = caller.unwrap_or_default().as_bytes();
        let parts: [&[u8]; 3] = match scope {
            Scope::Shared => [b"shared", b"", b""],
            Scope::Key => [b"key", caller, b""],
            Scope::User => [b"user", caller, user.filter(|user| !user.is_empty())?],
        };
        let mut id = [0; 16];
        id.copy_from_slice(&self.hash(Kind::Scope, &parts)[..16]);
        Some(ScopeId(id))
    }

    /// Key of all identical requests.
    pub fn exact(&self, parts: &KeyParts<'_>) -> ExactKey {
        let KeyParts { scope, model, namespace, headers, form } = parts;
        ExactKey(self.hash(Kind::Exact, &[&scope.0, model.as_bytes(), namespace.as_bytes(), headers, form.bytes()]))
    }

    /// Key of all requests that differ only in the last user text, for `embedder` and the policy's `epoch`; `None`
    /// without such a text.
    pub fn compat(&self, parts: &KeyParts<'_>, embedder: &str, epoch: u64) -> Option<CompatKey> {
        let KeyParts { scope, model, namespace, headers, form } = parts;
        let [before, after] = form.around_last_user_text()?;
        let parts = [
            &scope.0,
            model.as_bytes(),
            namespace.as_bytes(),
            headers,
            embedder.as_bytes(),
            &epoch.to_le_bytes(),
            before,
            after,
        ];
        Some(CompatKey(self.hash(Kind::Compat, &parts)))
    }

    /// Identifies the secret without disclosing it.
    pub fn fingerprint(&self) -> [u8; 8] {
        eight(self.hash(Kind::Fingerprint, &[]))
    }

    /// Short hash of a name, for deleting entries stored elsewhere; never zero. `kind` separates names of different
    /// kinds.
    pub fn tag(&self, kind: &str, name: Option<&str>) -> [u8; 8] {
        let known = [u8::from(name.is_some())];
        let mut tag = eight(self.hash(Kind::Tag, &[kind.as_bytes(), &known, name.unwrap_or_default().as_bytes()]));
        tag[0] |= 1;
        tag
    }

    /// Name of an answer stored under a text, from the text's hash and the answer's origin.
    pub fn entry(&self, exact: &ExactKey, text: u64, origin: u64) -> [u8; 32] {
        self.hash(Kind::Entry, &[&exact.0, &text.to_le_bytes(), &origin.to_le_bytes()])
    }

    fn hash(&self, kind: Kind, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&[kind as u8]);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

fn eight(hash: [u8; 32]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    bytes
}

impl ScopeId {
    /// Restores a scope from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl ExactKey {
    /// Restores a key from its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// Hexadecimal form.
impl fmt::Display for ExactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl CompatKey {
    /// Restores a key from its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use signalbox_protocol::RequestBody;
    use signalbox_types::Endpoint;

    fn form(said: &str, more: &str) -> Canonical {
        let said = serde_json::Value::from(said);
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{"role":"user","content":{said}}}]{more}}}"#
        );
        Canonical::of(Endpoint::Chat, &RequestBody::json(Endpoint::Chat, body.into()).unwrap()).unwrap()
    }

    fn keys() -> Keys {
        Keys::new([7; 32])
    }

    fn parts<'a>(scope: ScopeId, model: &'a str, form: &'a Canonical) -> KeyParts<'a> {
        KeyParts { scope, model, namespace: "", headers: b"", form }
    }

    #[test]
    fn scopes_are_separate() {
        let scope = |scope, key, user: Option<&str>| keys().scope(scope, key, user.map(str::as_bytes));
        let all = [
            scope(Scope::Shared, Some("a"), Some("u")),
            scope(Scope::Key, None, None),
            scope(Scope::Key, Some("a"), Some("u")),
            scope(Scope::Key, Some("b"), None),
            scope(Scope::User, Some("a"), Some("u")),
            scope(Scope::User, Some("a"), Some("v")),
            scope(Scope::User, Some("au"), Some("")).or(scope(Scope::User, Some("b"), Some("u"))),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.is_some() && !all[..at].contains(one), "{at}");
        }
        assert_eq!(scope(Scope::Key, Some("a"), Some("v")), all[2], "users of a key share, unless told otherwise");
        assert_eq!(scope(Scope::Shared, Some("b"), None), all[0]);
        assert_eq!(scope(Scope::User, Some("a"), None), None);
    }

    #[test]
    fn every_part_of_a_request_is_in_its_key() {
        let (one, other) = (form("hi", ""), form("hi", r#","seed":1"#));
        let scope = |name| keys().scope(Scope::Key, Some(name), None).unwrap();
        let first = parts(scope("a"), "m", &one);
        let exact = [
            first,
            parts(scope("b"), "m", &one),
            parts(scope("a"), "m2", &one),
            KeyParts { namespace: "n", ..first },
            KeyParts { headers: b"n", ..first },
            KeyParts { model: "mn", ..first },
            parts(scope("a"), "m", &other),
        ]
        .map(|parts| keys().exact(&parts));
        for (at, key) in exact.iter().enumerate() {
            assert!(!exact[..at].contains(key), "{at}");
            assert_eq!(ExactKey::from_hex(&key.to_string()), Some(*key));
        }
        assert_eq!(keys().exact(&first), exact[0]);
        assert_ne!(Keys::new([8; 32]).exact(&first), exact[0], "without the secret no key can be made");
        let compat = |parts: &KeyParts<'_>, embedder, epoch| keys().compat(parts, embedder, epoch).unwrap();
        let all = [
            compat(&first, "e", 1),
            compat(&first, "f", 1),
            compat(&first, "e", 2),
            compat(&parts(scope("b"), "m", &one), "e", 1),
            compat(&parts(scope("a"), "m", &other), "e", 1),
            compat(&KeyParts { headers: b"n", ..first }, "e", 1),
        ];
        for (at, key) in all.iter().enumerate() {
            assert!(!all[..at].contains(key), "{at}");
        }
    }

    proptest! {
        #[test]
        fn requests_that_differ_in_the_last_text_alone_are_compatible(one in ".{0,8}", other in ".{0,8}", more in "x[a-z]{1,3}") {
            let scope = keys().scope(Scope::Shared, None, None).unwrap();
            let compat = |form: &Canonical| keys().compat(&parts(scope, "m", form), "e", 1);
            let exact = |form: &Canonical| keys().exact(&parts(scope, "m", form));
            let (first, second) = (form(&one, ""), form(&other, ""));
            prop_assert_eq!(compat(&first), compat(&second));
            prop_assert_eq!(exact(&first) == exact(&second), one == other);
            prop_assert_eq!(first.last_user_text(), Some(&*one));
            prop_assert_ne!(compat(&form(&one, &format!(r#","{more}":1"#))), compat(&first));
        }
    }
}
