//! Polling tasks of all engines, one per engine and kind of information.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use tokio::{sync::Notify, task::JoinHandle};

use super::{about::About, apis, dcgm, distance, health, lists, outage::Outage};
use crate::{Client, EngineAccess, client::FetchError};
use signalbox_engines::read_engine_signals;
use signalbox_fleet::Engine;
use signalbox_policy::Health;
use signalbox_types::{Clock, EngineId};

/// Longest pause after a failed reading, or without metrics.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(15);
/// Timeout of a reading.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Least pause as a multiple of a reading's duration, for engines that are polled more often than usual.
const SLOW_FACTOR: u32 = 20;
/// Largest metrics page, in bytes.
const MAX_METRICS_BYTES: usize = 8 << 20;

/// An engine to be polled.
#[derive(Clone)]
pub struct Source {
    /// The engine, which stores the readings.
    pub engine: Arc<Engine>,
    /// Credentials and headers of requests to it.
    pub access: EngineAccess,
    /// Interval while it answers and has no other clients; `None` if it is not polled.
    pub every: Option<Duration>,
    /// URLs at which its metrics page may be, in the order in which they are tried.
    pub metrics: Vec<String>,
    /// URL of the metrics of its GPUs, if any.
    pub gpus: Option<String>,
    /// Active health check, if any.
    pub health: Option<Health>,
    /// True if its list of models is followed.
    pub follows: bool,
    /// True if it is probed for the paths that it serves.
    pub probed: bool,
}

/// Polling tasks of all engines of the policy in force.
pub struct Scrapers {
    client: Client,
    clock: Clock,
    tasks: Mutex<HashMap<EngineId, Reader>>,
    /// Set when an engine lists other models.
    models_changed: Arc<Notify>,
}

struct Reader {
    source: Source,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Scrapers {
    /// Creates a set without tasks.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, tasks: Mutex::default(), models_changed: Arc::default() }
    }

    /// Polls exactly these engines from now on.
    pub fn set_sources(&self, sources: Vec<Source>) {
        let mut tasks = self.tasks.lock();
        let same = |one: &Source, other: &Source| {
            Arc::ptr_eq(&one.engine, &other.engine)
                && (&one.access, one.every, &one.metrics, &one.gpus, &one.health, one.follows, one.probed)
                    == (
                        &other.access,
                        other.every,
                        &other.metrics,
                        &other.gpus,
                        &other.health,
                        other.follows,
                        other.probed,
                    )
        };
        tasks.retain(|_, reader| sources.iter().any(|source| same(source, &reader.source)));
        for source in sources {
            tasks.entry(source.engine.id.clone()).or_insert_with(|| Reader { tasks: self.tasks(&source), source });
        }
    }

    /// Waits until an engine lists other models.
    pub async fn models_changed(&self) {
        self.models_changed.notified().await;
    }

    fn tasks(&self, source: &Source) -> Vec<JoinHandle<()>> {
        let Source { engine, access, every, metrics, gpus, health, follows, probed } = source.clone();
        let mut tasks = Vec::new();
        if probed {
            let client = self.client.clone();
            tasks.push(tokio::spawn(apis::follow(engine.clone(), access.clone(), every, client, self.clock)));
        }
        if follows {
            let (client, changed) = (self.client.clone(), self.models_changed.clone());
            tasks.push(tokio::spawn(lists::follow(engine.clone(), access.clone(), every, client, changed)));
        }
        if let Some(every) = every {
            tasks.push(tokio::spawn(poll(
                engine.clone(),
                access.clone(),
                (metrics, every),
                self.client.clone(),
                self.clock,
            )));
            tasks.push(tokio::spawn(distance::poll(engine.clone(), self.clock)));
            tasks.push(tokio::spawn(lists::loaded(engine.clone(), access.clone(), every, self.client.clone())));
        }
        if let Some(spec) = health {
            tasks.push(tokio::spawn(health::poll(engine.clone(), access, spec, self.client.clone(), self.clock)));
        }
        if let Some(url) = gpus {
            tasks.push(tokio::spawn(dcgm::poll(engine, url, self.client.clone(), self.clock)));
        }
        tasks
    }
}

/// Moves to the next place at which the metrics may be; false after the last, with the first one to follow.
fn next(place: &mut usize, urls: &[String]) -> bool {
    *place = (*place + 1) % urls.len();
    *place > 0
}

/// Polls one engine until the task is aborted.
async fn poll(
    engine: Arc<Engine>,
    access: EngineAccess,
    (urls, every): (Vec<String>, Duration),
    client: Client,
    clock: Clock,
) {
    let mut place = 0;
    let mut pause = every;
    let (mut about, mut outage) = (About::default(), Outage::default());
    loop {
        let asked = clock.now();
        pause = match client.fetch(&urls[place], &access, TIMEOUT, MAX_METRICS_BYTES).await {
            Ok(page) => {
                engine.set_reachable(true);
                let signals = lists::read(page.body, |page| read_engine_signals(&String::from_utf8_lossy(page))).await;
                if let Some(signals) = signals {
                    let (kind, now) = (signals.kind, clock.now());
                    engine.record_reading(signals, now);
                    outage.end(&engine, now);
                    about.ask(&engine, Some(kind), (&client, &access), now).await;
                    // An engine with slow metrics is not kept busy with them.
                    engine.poll_interval(every, now).max((now.since(asked) * SLOW_FACTOR).min(every))
                } else if next(&mut place, &urls) {
                    continue;
                } else {
                    outage.fail(&engine, "its page has no known metrics", clock.now());
                    MAX_RETRY_PAUSE
                }
            }
            Err(FetchError::Refused(_)) if next(&mut place, &urls) => continue,
            // Reachable, but without metrics.
            Err(error @ (FetchError::Refused(_) | FetchError::Broken)) => {
                engine.set_reachable(true);
                outage.fail(&engine, &error.to_string(), clock.now());
                about.ask(&engine, None, (&client, &access), clock.now()).await;
                (pause * 2).min(MAX_RETRY_PAUSE)
            }
            Err(FetchError::Unreachable) => {
                engine.set_reachable(false);
                every
            }
        };
        // Jitter, so that many engines are not polled at the same moment.
        tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}
