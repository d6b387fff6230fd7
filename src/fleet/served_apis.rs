//! Paths that an engine serves, as learned from probes and answers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::types::{EngineApi, Presence};

/// Two bits for each path: absent, present, or neither while unknown.
#[derive(Debug, Default)]
pub struct ServedApis(AtomicU32);

const ABSENT: u32 = 1;
const PRESENT: u32 = 2;
const BOTH: u32 = 3;

impl ServedApis {
    /// State of one path.
    pub fn presence(&self, api: EngineApi) -> Presence {
        match self.0.load(Relaxed) >> shift(api) & BOTH {
            ABSENT => Presence::Absent,
            PRESENT => Presence::Present,
            _ => Presence::Unknown,
        }
    }

    /// Records what a probe or an answer says. `Unknown` changes nothing: an engine that asks for a key, or is
    /// starting, keeps what was known.
    pub fn set(&self, api: EngineApi, presence: Presence) {
        let bits = match presence {
            Presence::Unknown => return,
            Presence::Absent => ABSENT,
            Presence::Present => PRESENT,
        };
        // Answers report the same again and again: memory that is only read stays in all processors' caches.
        if self.presence(api) != presence {
            let with = |all: u32| Some(all & !(BOTH << shift(api)) | bits << shift(api));
            let _ = self.0.fetch_update(Relaxed, Relaxed, with);
        }
    }

    /// Paths that it serves; `None` while nothing is known.
    pub fn served(&self) -> Option<Vec<EngineApi>> {
        let is = |api: &EngineApi| self.presence(*api) == Presence::Present;
        (self.0.load(Relaxed) != 0).then(|| EngineApi::ALL.into_iter().filter(is).collect())
    }
}

const fn shift(api: EngineApi) -> u32 {
    api as u32 * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_own_state() {
        let apis = ServedApis::default();
        assert_eq!(apis.served(), None);
        apis.set(EngineApi::Messages, Presence::Present);
        apis.set(EngineApi::Responses, Presence::Absent);
        apis.set(EngineApi::Messages, Presence::Unknown);
        assert_eq!(apis.served(), Some(vec![EngineApi::Messages]));
        assert_eq!(
            EngineApi::ALL.map(|api| apis.presence(api)),
            [
                Presence::Unknown,
                Presence::Unknown,
                Presence::Unknown,
                Presence::Absent,
                Presence::Present,
                Presence::Unknown
            ]
        );
        apis.set(EngineApi::Messages, Presence::Absent);
        assert_eq!(apis.served(), Some(Vec::new()));
    }
}
