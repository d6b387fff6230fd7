//! Backends that operators drained. They are found by engine and model: a name changes with the other backends of a policy.

use serde::{Deserialize, Serialize};

use super::{Backend, Engine, Policy};
use signalbox_types::Name;

/// A backend that gets no new requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct DrainedBackend {
    /// Its pool.
    pub pool: Name,
    /// Its name when it was last seen.
    pub id: Name,
    /// Its engine and model; `None` if only its name is known.
    #[serde(flatten)]
    pub identity: Option<BackendIdentity>,
}

/// Engine and model of a backend: no two backends of a pool share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendIdentity {
    /// Address of the engine.
    pub url: String,
    /// Owner of the keys that the engine is called with.
    pub account: Name,
    /// The model there.
    pub model: Option<Name>,
    /// The model's own name (`as`).
    pub serves: Option<Name>,
}

/// A drained backend in a file. Earlier versions wrote pool and name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Named(Name, Name),
    Known {
        pool: Name,
        id: Name,
        #[serde(flatten)]
        identity: Option<BackendIdentity>,
    },
}

impl From<Stored> for DrainedBackend {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Named(pool, id) => Self { pool, id, identity: None },
            Stored::Known { pool, id, identity } => Self { pool, id, identity },
        }
    }
}

impl BackendIdentity {
    /// The identity of `backend`, whose engine is one of `engines`.
    pub fn of(engines: &[Engine], backend: &Backend) -> Self {
        let id = engines[backend.engine].id();
        let account = id.account();
        Self { url: id.url, account, model: backend.model.clone(), serves: backend.serves.clone() }
    }
}

impl DrainedBackend {
    /// Finds the backend among those of its pool, by its name only if none has its engine and model.
    pub(super) fn find<'a>(&self, engines: &[Engine], backends: &'a [Backend]) -> Option<&'a Backend> {
        let is_same = |backend: &&Backend| self.identity.as_ref() == Some(&BackendIdentity::of(engines, backend));
        backends.iter().find(is_same).or_else(|| backends.iter().find(|backend| backend.name == self.id))
    }

    /// Takes name and identity from the backend that `policy` drains for it. Returns false if it drains none.
    pub fn follow(&mut self, policy: &Policy) -> bool {
        let pool = policy.pools.iter().find(|pool| pool.name == self.pool);
        let Some(backend) = pool.and_then(|pool| self.find(&policy.engines, &pool.drained)) else { return false };
        self.id = backend.name.clone();
        self.identity = Some(BackendIdentity::of(&policy.engines, backend));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LiveFleet, compile};
    use signalbox_config::Config;

    fn policy(text: &str) -> Policy {
        compile(&text.parse::<Config>().unwrap()).unwrap()
    }

    fn names(backends: &[Backend]) -> Vec<&str> {
        backends.iter().map(|backend| &*backend.name).collect()
    }

    #[test]
    fn a_drain_outlives_the_name_of_its_backend() {
        const ALONE: &str = "pools:\n  a: { model: m, backends: [http://x:1/v1, http://x:2/v1] }\n";
        let mut drained = DrainedBackend { pool: "a".into(), id: "x:1".into(), identity: None };
        let with = |text: &str, drained: &DrainedBackend| {
            policy(text).with_fleet(&LiveFleet { drained: vec![drained.clone()], ..LiveFleet::default() })
        };
        let before = with(ALONE, &drained);
        assert_eq!((names(&before.pools[0].drained), names(&before.pools[0].backends)), (vec!["x:1"], vec!["x:2"]));
        assert!(drained.follow(&before));
        // Another pool that names the engine changes the name of its backend in this one.
        let after = with(&format!("{ALONE}  b: {{ model: n, backends: [http://x:1/v1] }}\n"), &drained);
        assert_eq!((names(&after.pools[0].drained), names(&after.pools[1].backends)), (vec!["x:1/m"], vec!["x:1/n"]));
        assert!(drained.follow(&after) && *drained.id == *"x:1/m");
        let gone = with("pools:\n  a: { model: m, backends: [http://x:2/v1] }\n", &drained);
        assert!(gone.pools[0].drained.is_empty() && !drained.follow(&gone));
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let read = |text: &str| serde_json::from_str::<DrainedBackend>(text).unwrap();
        let named = read(r#"["a", "x:1"]"#);
        assert_eq!(named, DrainedBackend { pool: "a".into(), id: "x:1".into(), identity: None });
        let identity = BackendIdentity { url: "http://x".into(), account: "x".into(), model: None, serves: None };
        let known = DrainedBackend { identity: Some(identity), ..named.clone() };
        assert_eq!(read(&serde_json::to_string(&known).unwrap()), known);
        assert_eq!(read(&serde_json::to_string(&named).unwrap()), named);
    }
}
