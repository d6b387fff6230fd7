//! Scripted engines of one scenario, the attempts that reach them, and the topology that a proxy has to serve.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    mock::{Fate, Mock, Plan},
    provider::Ask,
};

/// One attempt, as an engine saw it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) at: Instant,
    pub(crate) model: String,
    pub(crate) case: String,
}

/// All attempts at the engines of one scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Attempt>>>);

impl Log {
    pub(crate) fn add(&self, model: &str, case: &str) {
        let attempt = Attempt { at: Instant::now(), model: model.to_owned(), case: case.to_owned() };
        self.0.lock().expect("the log's lock").push(attempt);
    }

    pub(crate) fn all(&self) -> Vec<Attempt> {
        self.0.lock().expect("the log's lock").clone()
    }

    /// The attempts on behalf of one request, at one model or at any.
    pub(crate) fn of(&self, case: &str, model: Option<&str>) -> Vec<Attempt> {
        let all = self.all().into_iter().filter(|attempt| attempt.case == case);
        all.filter(|attempt| model.is_none_or(|model| attempt.model == model)).collect()
    }
}

/// A request at an engine: the number of that engine, and the count of earlier requests for this model there.
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) place: usize,
    pub(crate) number: usize,
}

pub(crate) type Script = Arc<dyn Fn(&Asked) -> Plan + Send + Sync>;

/// Scripted engines, one at each place.
pub(crate) struct Site {
    pub(crate) mocks: Vec<Mock>,
    pub(crate) log: Log,
}

impl Site {
    pub(crate) async fn start(places: usize, script: Script) -> Self {
        let log = Log::default();
        let mut mocks = Vec::new();
        for place in 0..places {
            let (log, script, numbers) = (log.clone(), script.clone(), Mutex::new(Vec::<String>::new()));
            let decide = move |seen: &crate::mock::Seen| {
                let ask = Ask::of(seen);
                log.add(&ask.model, &ask.case);
                let mut before = numbers.lock().expect("the lock of the models asked");
                let number = before.iter().filter(|model| **model == ask.model).count();
                before.push(ask.model.clone());
                drop(before);
                script(&Asked { ask, place, number })
            };
            mocks.push(Mock::start(decide).await);
        }
        Self { mocks, log }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.mocks.iter().map(Mock::url).collect()
    }

    /// Waits up to `time` until no attempt at `model` is open any more; false where one still is.
    pub(crate) async fn let_go(&self, model: &str, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let held = |mock: &Mock| mock.seen().iter().any(|seen| seen.model() == model && seen.fate == Fate::Open);
            if !self.mocks.iter().any(held) {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Topology to configure in a proxy: pools in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Letters, digits and dashes.
    pub(crate) id: String,
    pub(crate) pools: Vec<Pool>,
    /// True to hold back the first tokens, where the proxy supports that.
    pub(crate) hold_back: bool,
    /// API keys of callers, where the proxy supports them without a database.
    pub(crate) callers: Vec<&'static str>,
}

/// Backends of one model.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) model: &'static str,
    pub(crate) urls: Vec<String>,
}

impl Topology {
    pub(crate) fn new(id: &str, pools: Vec<Pool>) -> Self {
        Self { id: id.to_owned(), pools, hold_back: false, callers: Vec::new() }
    }
}
