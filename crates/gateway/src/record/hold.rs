//! Translated answers: the request is settled, its attempt judged, and the answer stored, only once it is known to be one.

use super::progress::Progress;
use signalbox_types::{Fault, Outcome};

/// Counts an attempt by the result of its answer's translation: the fault, if it failed.
pub(crate) type Verdict = Box<dyn FnOnce(&mut Progress, Option<&Fault>) + Send>;

/// Stores an answer.
pub(crate) type Store = Box<dyn FnOnce() + Send>;

/// State of an answer's storing.
#[derive(Default)]
pub(super) enum Storing {
    #[default]
    Allowed,
    /// It is still to be translated; with the work to do then.
    Awaits(Option<Store>),
    /// It could not be translated, or nobody read it to its end.
    Refused,
}

impl Storing {
    /// Offers the work of storing the answer. Gives it back if it is to be done now.
    pub(super) fn offer(&mut self, store: Store) -> Option<Store> {
        match self {
            Self::Allowed => return Some(store),
            Self::Awaits(waiting) => *waiting = Some(store),
            Self::Refused => {}
        }
        None
    }

    /// Allows storing, unless it was refused. Returns the work that waited for it.
    pub(super) fn allow(&mut self) -> Option<Store> {
        let Self::Awaits(waiting) = self else { return None };
        let waiting = waiting.take();
        *self = Self::Allowed;
        waiting
    }

    /// Refuses storing, unless it was allowed.
    pub(super) fn refuse(&mut self) {
        if !matches!(self, Self::Allowed) {
            *self = Self::Refused;
        }
    }
}

/// State of a request's settling while its answer is translated.
#[derive(Default)]
pub(super) enum Hold {
    #[default]
    None,
    /// The end of the backend's answer is not the caller's yet; with its outcome and the verdict on its attempt, once
    /// they are known.
    Held(Option<(Outcome, Option<Verdict>)>),
    /// The answer could not be translated.
    Spoilt(Box<Fault>),
}

impl Hold {
    /// The fault of the translation, if it failed.
    pub(super) fn fault(&self) -> Option<&Fault> {
        if let Self::Spoilt(fault) = self { Some(fault) } else { None }
    }

    /// True if the answer is still to be translated, or could not be.
    pub(super) fn awaits_translation(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Keeps the end of the backend's answer while its translation is not over. Gives it back otherwise; of several ends
    /// the first counts.
    pub(super) fn keep(&mut self, outcome: Outcome, verdict: Option<Verdict>) -> Result<(), Option<Verdict>> {
        match self {
            Self::Held(None) => {
                *self = Self::Held(Some((outcome, verdict)));
                Ok(())
            }
            Self::Held(Some(_)) => Ok(()),
            _ => Err(verdict),
        }
    }

    /// Notes that the answer could not be translated. Returns the verdict that waited for it.
    pub(super) fn spoil(&mut self, fault: &Fault) -> Option<Verdict> {
        match std::mem::replace(self, Self::Spoilt(fault.clone().into())) {
            Self::Held(Some((_, verdict))) => verdict,
            _ => None,
        }
    }

    /// Ends the hold. Returns the end of the backend's answer, if that is over.
    pub(super) fn release(&mut self) -> Option<(Outcome, Option<Verdict>)> {
        let Self::Held(ended) = self else { return None };
        let ended = ended.take();
        *self = Self::None;
        ended
    }
}
