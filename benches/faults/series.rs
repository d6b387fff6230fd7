//! Series of hundreds of requests during a fault.

use std::{
    io,
    sync::{Arc, Mutex},
};

use crate::{
    mock::Plan,
    peer::{Access, Kind},
    provider::{Pace, Prefill},
    script::{BACKUP, PRIMARY},
    site::{Asked, Log, Pool, Script, Site, Topology},
    worker::Processes,
};

pub(crate) const PACE: Pace = Pace::millis(30, 10);
/// API keys of caller A, whose requests are faulty, and of caller B.
pub(crate) const CALLERS: [&str; 2] = ["sb-caller-of-faulty-requests", "sb-caller-of-sound-requests"];
/// Attempts allowed while every backend fails: for each request, and in addition to that.
pub(crate) const FOR_EACH: f64 = 1.2;
pub(crate) const CONSTANT: f64 = 50.0;

/// A series with its engines running.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) topology: Topology,
    pub(crate) engines: Engines,
    pub(crate) play: Play,
    /// Requests per second, which bound the number of concurrent series.
    pub(crate) weight: u32,
}

/// Engines of a series.
pub(crate) enum Engines {
    Scripted(Site),
    Processes(Arc<Processes>),
}

/// Course of a series.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Play {
    /// Requests at a fixed rate.
    Steady { count: usize, rate: f64, stream: bool, aim: Aim },
    /// Requests at a fixed rate from each of two callers, one of which sends faulty ones.
    Callers { count: usize, rate: f64 },
    /// About `open` streams on each engine, of which `killed` are then killed.
    Kill { open: usize, killed: usize },
    /// Concurrent requests while an engine hangs; with a warm-up, it is an engine that served before and is stopped.
    Hung { count: usize, warm: usize, stream: bool },
}

/// Criterion of a steady series.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    NoneFails,
    /// Engines see few more attempts than there are requests; all of these fail.
    FewAttempts,
}

impl Engines {
    pub(crate) fn log(&self) -> &Log {
        match self {
            Self::Scripted(site) => &site.log,
            Self::Processes(processes) => &processes.log,
        }
    }
}

/// The series whose names contain `only`.
pub(crate) async fn all(peer: Kind, only: &str, quick: bool) -> io::Result<Vec<Series>> {
    let mut plan = Planned { only, quick, series: Vec::new() };
    plan.flaky().await;
    plan.constant().await;
    plan.failing().await;
    plan.callers(peer).await;
    plan.hung().await?;
    plan.killed().await?;
    Ok(plan.series)
}

struct Planned<'a> {
    only: &'a str,
    quick: bool,
    series: Vec<Series>,
}

/// A kind of permanent failure, and its name.
type Always = (&'static str, fn() -> Plan);

/// Position of the fallback.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Place {
    OwnPool,
    SamePool,
    SameUrl,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::OwnPool => "fallback in its own pool",
            Self::SamePool => "fallback in the same pool",
            Self::SameUrl => "fallback at the same URL",
        }
    }

    fn places(self) -> usize {
        if self == Self::SameUrl { 1 } else { 2 }
    }

    fn pools(self, urls: &[String]) -> Vec<Pool> {
        let pool = |model, urls: &[String]| Pool { model, urls: urls.to_vec() };
        match self {
            Self::OwnPool => vec![pool(PRIMARY, &urls[..1]), pool(BACKUP, &urls[1..])],
            Self::SamePool => vec![pool(PRIMARY, urls)],
            Self::SameUrl => vec![pool(PRIMARY, urls), pool(BACKUP, urls)],
        }
    }

    /// True for a request to the primary.
    fn at_primary(self, asked: &Asked) -> bool {
        if self == Self::SamePool { asked.place == 0 } else { asked.ask.model == PRIMARY }
    }
}

impl Planned<'_> {
    /// Number of requests of a series; a fifth in a quick run.
    fn count(&self, count: usize) -> usize {
        if self.quick { count / 5 } else { count }
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(self.only)
    }

    async fn scripted(&mut self, name: String, place: Place, play: Play, weight: u32, script: Script) {
        if !self.wants(&name) {
            return;
        }
        let site = Site::start(place.places(), script).await;
        let topology = Topology::new(&slug(&name), place.pools(&site.urls()));
        self.series.push(Series { name, topology, engines: Engines::Scripted(site), play, weight });
    }

    /// A primary that answers 503 to a share of its requests.
    async fn flaky(&mut self) {
        for share in [20, 30, 45] {
            for place in [Place::OwnPool, Place::SamePool, Place::SameUrl] {
                for stream in [true, false] {
                    let how = if stream { "streamed" } else { "whole" };
                    let name = format!("503 to {share} %, {}, {how}", place.name());
                    let lots = Mutex::new(fastrand::Rng::with_seed(share));
                    let fails = move || lots.lock().expect("the lots' lock").u64(..100) < share;
                    let script: Script = Arc::new(move |asked| {
                        if place.at_primary(asked) && fails() {
                            return Plan::error(503, "overloaded");
                        }
                        asked.ask.answer(PACE, Prefill::Native)
                    });
                    let play = Play::Steady { count: self.count(500), rate: 15.0, stream, aim: Aim::NoneFails };
                    self.scripted(name, place, play, 15, script).await;
                }
            }
        }
    }

    /// A primary that always fails, by one kind of failure.
    async fn constant(&mut self) {
        let kinds: [Always; 6] = [
            ("500", || Plan::error(500, "broken")),
            ("429", || Plan::error(429, "slow down")),
            ("503", || Plan::error(503, "overloaded")),
            ("502 with an HTML page", || Plan::text(502, "text/html", HTML)),
            ("200 with an HTML page", || Plan::text(200, "text/html", HTML)),
            ("200 with garbage", || {
                Plan::text(200, "application/json", "{\"id\": \"chatcmpl-1\", \"choices\": [{\"in\u{1}")
            }),
        ];
        for (kind, plan) in kinds {
            for stream in [true, false] {
                let how = if stream { "streamed" } else { "whole" };
                let name = format!("always {kind}, {}, {how}", Place::SameUrl.name());
                let script: Script =
                    Arc::new(
                        move |asked| {
                            if asked.ask.model == PRIMARY { plan() } else { asked.ask.answer(PACE, Prefill::Native) }
                        },
                    );
                let play = Play::Steady { count: self.count(240), rate: 4.0, stream, aim: Aim::NoneFails };
                self.scripted(name, Place::SameUrl, play, 4, script).await;
            }
        }
    }

    /// Every backend fails.
    async fn failing(&mut self) {
        let fast = [
            ("503", Place::OwnPool),
            ("503", Place::SamePool),
            ("503", Place::SameUrl),
            ("500", Place::OwnPool),
            ("429", Place::OwnPool),
            ("a cut after 10 tokens", Place::OwnPool),
        ];
        let fast = fast.map(|(kind, place)| (kind, place, self.count(500), 15_u32, ""));
        let slow = ("503", Place::OwnPool, self.count(100), 1, ", one request a second");
        for (kind, place, count, rate, how) in fast.into_iter().chain([slow]) {
            let script: Script = Arc::new(move |asked| match kind.parse() {
                Ok(status) => Plan::error(status, "broken"),
                Err(_) => asked.ask.beginning(10, PACE).cut(),
            });
            let name = format!("every backend fails with {kind}, {}{how}", place.name());
            let play = Play::Steady { count, rate: f64::from(rate), stream: true, aim: Aim::FewAttempts };
            self.scripted(name, place, play, rate, script).await;
        }
    }

    /// One caller's requests make engines fail, the other's do not.
    async fn callers(&mut self, peer: Kind) {
        // With a flaky primary, B needs retries of its own.
        for (what, place, share) in [
            ("one pool of two", Place::SamePool, 0),
            ("a fallback", Place::OwnPool, 0),
            ("a fallback, 503 to 20 %", Place::OwnPool, 20),
        ] {
            let name = format!("faulty requests of A beside those of B, {what}");
            let lots = Mutex::new(fastrand::Rng::with_seed(share));
            let fails = move || lots.lock().expect("the lots' lock").u64(..100) < share;
            let script: Script = Arc::new(move |asked| {
                if asked.ask.path.contains("/embeddings") {
                    Plan::error(501, "this server does not support embeddings; start it with `--embeddings`")
                } else if asked.ask.malformed {
                    Plan::error(500, "the chat template failed: a message has no `role`")
                } else if place.at_primary(asked) && fails() {
                    Plan::error(503, "overloaded")
                } else {
                    asked.ask.answer(PACE, Prefill::Native)
                }
            });
            let play = Play::Callers { count: self.count(250), rate: 10.0 };
            self.scripted(name.clone(), place, play, 20, script).await;
            if let Some(series) = self.series.last_mut().filter(|series| series.name == name) {
                series.topology.callers = if peer == Kind::Signalbox { CALLERS.to_vec() } else { Vec::new() };
            }
        }
    }

    /// An engine that accepts requests and never answers, beside an idle one.
    async fn hung(&mut self) -> io::Result<()> {
        let count = self.count(100).max(50);
        for (place, stream) in
            [(Place::OwnPool, true), (Place::OwnPool, false), (Place::SamePool, true), (Place::SameUrl, true)]
        {
            let how = if stream { "streamed" } else { "whole" };
            let name = format!("an engine hangs from the first request on, {}, {how}", place.name());
            let script: Script = Arc::new(move |asked| {
                if place.at_primary(asked) { Plan::silence() } else { asked.ask.answer(PACE, Prefill::Native) }
            });
            self.scripted(name, place, Play::Hung { count, warm: 0, stream }, 8, script).await;
        }
        for place in [Place::OwnPool, Place::SamePool] {
            let name = format!("an engine is stopped after it served, {}", place.name());
            if self.wants(&name) {
                let processes = Processes::start(2).await?;
                let topology = Topology::new(&slug(&name), place.pools(&processes.urls()));
                let play = Play::Hung { count, warm: 30, stream: true };
                self.series.push(Series { name, topology, engines: Engines::Processes(processes), play, weight: 8 });
            }
        }
        Ok(())
    }

    /// Engines that are killed with streams open.
    async fn killed(&mut self) -> io::Result<()> {
        for (open, killed) in [(30, 1), (100, 1), (30, 2)] {
            let name = format!("kill -9 of {killed} of 3 engines, each with about {open} streams");
            if self.wants(&name) && !(self.quick && open > 30) {
                let processes = Processes::start(3).await?;
                let pools = vec![Pool { model: PRIMARY, urls: processes.urls() }];
                let topology = Topology::new(&slug(&name), pools);
                let play = Play::Kill { open, killed };
                self.series.push(Series {
                    name,
                    topology,
                    engines: Engines::Processes(processes),
                    play,
                    weight: u32::MAX,
                });
            }
        }
        Ok(())
    }
}

const HTML: &str =
    "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>";

/// A name for files and configurations.
fn slug(name: &str) -> String {
    let letters =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    let text: String = letters.collect();
    let parts: Vec<_> = text.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// API key of caller number `at`, if callers authenticate.
pub(crate) fn key(access: &Access, at: usize) -> Option<&'static str> {
    access.keys.then_some(CALLERS[at])
}
