//! The predictors against simulated engines: each request is predicted from the state at its dispatch and compared with its outcome. The engines'
//! model differs from the predictor's: it has steps, chunks and limits.
#![allow(clippy::print_stderr, reason = "the table of errors is for whoever reads the test's output")]

use std::{collections::HashMap, fs::File, io::BufReader, time::Duration};

use flate2::read::GzDecoder;
use signalbox::{
    measure::{Rate, RateSpan},
    schedule::predict::{BackendPredictor, Batch, Features, PoolPredictor, Prediction},
    sim::{
        Engine, Event, Job, JobId, Profile,
        trace::{Arrival, azure, excerpt},
    },
    types::Moment,
};

use crate::support::{data_dir, untried};

const ENGINES: usize = 8;
/// First requests, from which the predictors learn and which are not evaluated.
const WARM_UP: usize = 200;

/// A request as its ticket would have it.
struct Request {
    dispatched: Moment,
    features: Features,
    ttft: Prediction,
    /// The 90th percentile as predicted by two baselines.
    baselines: [f64; 2],
    batch: Batch,
    tpot: Prediction,
    first: Option<Moment>,
    output: u32,
    emitted: u32,
}

/// One engine with a gateway's counters of it.
struct Backend {
    engine: Engine,
    predictor: BackendPredictor,
    requests: HashMap<JobId, Request>,
    last_first: Moment,
    average: Average,
    /// Prompt tokens dispatched, for their rate.
    arrived: Rate,
}

/// Moving averages of TTFT: mean plus deviations, and mean times its own 90th percentile of ratios.
#[derive(Default)]
struct Average {
    mean: f64,
    deviation: f64,
    ratios: Vec<f64>,
}

/// Results, in seconds or shares.
#[derive(Debug, Default)]
struct Found {
    judged: usize,
    covered: usize,
    pinball: f64,
    baselines: [f64; 2],
    errors: Vec<f64>,
    tpot_errors: Vec<f64>,
    tpot_coverage: f64,
    tpot_loss: f64,
}

#[test]
fn an_excerpt_is_predicted_better_than_by_moving_averages() {
    let mut found = replay("excerpt", excerpt(7, 2_500, 8.0), &[Profile::small(); ENGINES]);
    found.hold(0.5);
}

#[test]
fn engines_that_are_not_alike_are_predicted_too() {
    let mut found = replay("excerpt, ±50 %", excerpt(8, 2_500, 6.0), &unlike(5));
    found.hold(0.5);
}

#[test]
fn recorded_conversations_are_predicted_better_than_by_moving_averages() {
    let alike = [Profile::small(); ENGINES];
    for (trace, speed, name, profiles) in [
        ("azure_conv", 1.5, "conversation", alike),
        ("azure_conv", 1.2, "conversation, ±50 %", unlike(5)),
        ("azure_code", 0.6, "code", alike),
    ] {
        let path = data_dir().join(format!("traces/{trace}.csv.gz"));
        let Ok(file) = File::open(&path) else {
            untried(&format!("not tried: there is no {} (say where with SIGNALBOX_DATA)", path.display()));
            return;
        };
        let rows = azure(BufReader::new(GzDecoder::new(file))).map(|row| row.expect("a trace that can be read"));
        let faster = rows.map(|arrival| Arrival { at: arrival.at.div_f64(speed), ..arrival });
        replay(name, faster.take(recorded()), &profiles).hold(0.5);
    }
}

/// Rows of each recorded trace: enough for the test, or all with `SIGNALBOX_TRACE_ROWS`.
fn recorded() -> usize {
    std::env::var("SIGNALBOX_TRACE_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(3_000)
}

/// Small engines, each of whose speeds deviates by up to half.
fn unlike(seed: u64) -> [Profile; ENGINES] {
    let mut dice = fastrand::Rng::with_seed(seed);
    [Profile::small(); ENGINES].map(|profile| {
        let mut off = |value: f64| value * (0.5 + dice.f64());
        Profile {
            step_ms: off(profile.step_ms),
            sequence_ms: off(profile.sequence_ms),
            context_ms_per_1k: off(profile.context_ms_per_1k),
            prompt_ms: off(profile.prompt_ms),
            prefill_ms: off(profile.prefill_ms),
            ..profile
        }
    })
}

/// Dispatches the `arrivals` in turn, and observes each event before the next dispatch.
fn replay(name: &str, arrivals: impl Iterator<Item = Arrival>, profiles: &[Profile; ENGINES]) -> Found {
    let pool = PoolPredictor::new();
    let mut backends: Vec<Backend> =
        profiles.iter().zip(1..).map(|(profile, seed)| Backend::new(*profile, seed)).collect();
    let mut found = Found::default();
    for (turn, arrival) in arrivals.enumerate() {
        let now = Moment::default().plus(arrival.at);
        advance(&mut backends, now, &pool, &mut found);
        backends[turn % ENGINES].dispatch(&arrival, &pool, now);
    }
    advance(&mut backends, Moment::from_nanos(u64::MAX / 2), &pool, &mut found);
    if let Some(accuracy) = pool.tpot_accuracy() {
        found.tpot_coverage = accuracy.coverage;
        found.tpot_loss = accuracy.pinball / accuracy.baseline_pinball;
    }
    found.print(name);
    found
}

/// Advances all engines to `now`; observes their events in order of time.
fn advance(backends: &mut [Backend], now: Moment, pool: &PoolPredictor, found: &mut Found) {
    let mut events = Vec::new();
    let mut ordered: Vec<(Moment, usize, Event)> = Vec::new();
    for (index, backend) in backends.iter_mut().enumerate() {
        backend.engine.advance(now, &mut events);
        ordered.extend(events.drain(..).map(|event| (event.at(), index, event)));
    }
    ordered.sort_by_key(|(at, index, _)| (*at, *index));
    for (_, index, event) in ordered {
        backends[index].observe(event, pool, found);
    }
}

impl Backend {
    fn new(profile: Profile, seed: u64) -> Self {
        Self {
            engine: Engine::new(profile, seed),
            predictor: BackendPredictor::new(),
            requests: HashMap::new(),
            last_first: Moment::default(),
            average: Average::default(),
            arrived: Rate::new(),
        }
    }

    fn dispatch(&mut self, arrival: &Arrival, pool: &PoolPredictor, now: Moment) {
        let waiting = || self.requests.values().filter(|request| request.first.is_none());
        let decoding = || self.requests.values().filter(|request| request.first.is_some());
        let oldest = waiting().map(|request| request.dispatched).min();
        let prompt = u64::from(arrival.prompt_tokens);
        let features = Features {
            uncached: prompt,
            queued: waiting().map(|request| request.features.uncached).sum(),
            prompt,
            decoding: decoding().count() as u32,
            overflow: 0,
            progress: oldest.map_or(0.0, |oldest| now.since(oldest.max(self.last_first)).as_secs_f64()),
            slots: 0.0,
            load: 0.0,
        };
        let batch = Batch {
            decoding: features.decoding,
            context: decoding().map(|request| request.features.prompt + u64::from(request.emitted)).sum(),
            prompt,
            arriving: self.arrived.per_second(RateSpan::TenSeconds, now),
        };
        self.arrived.record(prompt, now);
        let model = pool.model();
        let request = Request {
            dispatched: now,
            features,
            ttft: model.ttft(&self.predictor, &features, None, now),
            baselines: self.average.p90(),
            batch,
            tpot: model.tpot(&self.predictor, &batch, now),
            first: None,
            output: arrival.output_tokens,
            emitted: 0,
        };
        let job = Job { prompt_tokens: arrival.prompt_tokens, output_tokens: arrival.output_tokens, ..Job::default() };
        if let Ok(id) = self.engine.submit(now, job) {
            self.requests.insert(id, request);
        }
    }

    fn observe(&mut self, event: Event, pool: &PoolPredictor, found: &mut Found) {
        let now = event.at();
        let Some(request) = self.requests.get_mut(&event.job()) else { return };
        match event {
            Event::Token { index: 0, .. } => {
                request.first = Some(now);
                self.last_first = now;
                let seconds = now.since(request.dispatched).as_secs_f64();
                found.judge(seconds, request);
                self.average.observe(seconds);
                pool.observe_ttft(&self.predictor, &request.features, &request.ttft, seconds, now);
            }
            Event::Token { .. } => request.emitted += 1,
            Event::Finished { .. } => {
                let gaps = f64::from(request.output.max(2) - 1);
                let seconds = request.first.map_or(Duration::ZERO, |first| now.since(first)).as_secs_f64() / gaps;
                if found.judged > WARM_UP && request.output > 4 {
                    found.tpot_errors.push((request.tpot.seconds / seconds - 1.0).abs());
                }
                let measured = (seconds, u64::from(request.output));
                pool.observe_tpot(&self.predictor, &request.batch, &request.tpot, measured, now);
                self.requests.remove(&event.job());
            }
            Event::Preempted { .. } => {}
        }
    }
}

impl Average {
    fn observe(&mut self, seconds: f64) {
        if self.ratios.is_empty() {
            self.mean = seconds;
        }
        self.ratios.push(seconds / self.mean);
        self.deviation += 0.1 * ((seconds - self.mean).abs() - self.deviation);
        self.mean += 0.1 * (seconds - self.mean);
    }

    fn p90(&self) -> [f64; 2] {
        let mut last: Vec<f64> = self.ratios.iter().rev().take(256).copied().collect();
        [self.mean + 1.6 * self.deviation, self.mean * quantile(&mut last, 0.9)]
    }
}

impl Found {
    fn judge(&mut self, seconds: f64, request: &Request) {
        self.judged += 1;
        if self.judged <= WARM_UP {
            return;
        }
        self.covered += usize::from(seconds <= request.ttft.p90);
        self.pinball += pinball(seconds, request.ttft.p90);
        for (sum, p90) in self.baselines.iter_mut().zip(request.baselines) {
            *sum += pinball(seconds, p90);
        }
        self.errors.push((request.ttft.seconds / seconds - 1.0).abs());
    }

    fn coverage(&self) -> f64 {
        self.covered as f64 / self.errors.len() as f64
    }

    /// Pinball loss of the predicted 90th percentile relative to the better baseline.
    fn loss(&self) -> f64 {
        self.pinball / self.baselines[0].min(self.baselines[1])
    }

    fn print(&mut self, name: &str) {
        let count = self.errors.len() as f64;
        eprintln!(
            "{name:20} {count:6} judged: coverage {:.3}, pinball {:.4} s against {:.4} and {:.4} ({:.2} of the better), \
             relative error p50 {:.3} p90 {:.3}; TPOT: coverage {:.3}, {:.2} of the baseline, relative error p50 {:.3}",
            self.coverage(),
            self.pinball / count,
            self.baselines[0] / count,
            self.baselines[1] / count,
            self.loss(),
            quantile(&mut self.errors, 0.5),
            quantile(&mut self.errors, 0.9),
            self.tpot_coverage,
            self.tpot_loss,
            quantile(&mut self.tpot_errors, 0.5),
        );
    }

    fn hold(&mut self, loss: f64) {
        assert!(self.errors.len() > 1_000);
        assert!((0.85..=0.95).contains(&self.coverage()), "{}", self.coverage());
        assert!(self.loss() <= loss, "{}", self.loss());
        assert!(quantile(&mut self.errors, 0.5) < 0.1, "{:?}", quantile(&mut self.errors, 0.5));
        assert!((0.85..=0.95).contains(&self.tpot_coverage), "{}", self.tpot_coverage);
    }
}

fn pinball(seen: f64, p90: f64) -> f64 {
    (0.9 * (seen - p90)).max(0.1 * (p90 - seen))
}

fn quantile(values: &mut [f64], level: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((level * values.len() as f64) as usize).copied().unwrap_or_default()
}
