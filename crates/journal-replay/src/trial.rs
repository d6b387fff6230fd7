//! Plays recorded requests on one simulated engine at their recorded times, and measures the deviation.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::observe::Seen;
use signalbox_sim::{Engine, Event, Job, JobId, Profile};
use signalbox_types::Moment;

/// Added to both times, in seconds, so that differences far below it do not count.
const NOISE: f64 = 0.002;
/// Cap on the deviation of a request, as a logarithm: the model does not explain stalls of minutes.
const MAX_LOG_DEVIATION: f64 = 1.0;
/// Time that the engine may take after the last arrival.
const MAX_OVERTIME: Duration = Duration::from_hours(1);

/// Simulated times of a request, in seconds.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Made {
    pub(super) first: Option<f64>,
    pub(super) last: f64,
    pub(super) tokens: u32,
}

impl Made {
    fn tpot(&self, least: u32) -> Option<f64> {
        (self.tokens >= least.max(2)).then_some(())?;
        Some((self.last - self.first?) / f64::from(self.tokens - 1))
    }
}

/// Fewest tokens of an answer for a mean TPOT.
const FEWEST_TOKENS: u32 = 5;

/// Plays `seen`, in order of dispatch, on an engine with `profile`; `usual` replaces unknown answer lengths.
pub(super) fn play(profile: &Profile, seen: &[Seen], usual: u32) -> Vec<Made> {
    let mut engine = Engine::new(Profile { jitter: 0.0, kv_tokens: u32::MAX, context_tokens: u32::MAX, ..*profile }, 1);
    let mut made = vec![Made::default(); seen.len()];
    let mut jobs: std::collections::HashMap<JobId, usize> = std::collections::HashMap::new();
    let mut leaving: BinaryHeap<Reverse<(Moment, JobId)>> = BinaryHeap::new();
    let mut events = Vec::new();
    let origin = seen.first().map_or(0.0, |first| first.at);
    let moment =
        |seconds: f64| Moment::default().plus(Duration::try_from_secs_f64(seconds - origin).unwrap_or_default());
    let mut pass = |engine: &mut Engine, jobs: &std::collections::HashMap<JobId, usize>, until: Moment| {
        engine.advance(until, &mut events);
        for event in events.drain(..) {
            let Some(&place) = jobs.get(&event.job()) else { continue };
            let at = event.at().seconds_since(Moment::default()) + origin;
            let made = &mut made[place];
            match event {
                Event::Token { .. } => {
                    made.first.get_or_insert(at);
                    made.last = at;
                    made.tokens += 1;
                }
                Event::Finished { .. } => made.last = at,
                Event::Preempted { .. } => {}
            }
        }
    };
    for (place, request) in seen.iter().enumerate() {
        let now = moment(request.at);
        while let Some(&Reverse((at, job))) = leaving.peek()
            && at <= now
        {
            leaving.pop();
            pass(&mut engine, &jobs, at);
            engine.cancel(job);
        }
        pass(&mut engine, &jobs, now);
        let job = Job {
            prompt_tokens: request.prompt_tokens,
            warm_tokens: request.cached_tokens,
            output_tokens: request.output_tokens.unwrap_or(usual.saturating_mul(4)),
            ..Job::default()
        };
        if let Ok(job) = engine.submit(now, job) {
            jobs.insert(job, place);
            if request.output_tokens.is_none() {
                leaving.push(Reverse((moment(request.end), job)));
            }
        }
    }
    while let Some(Reverse((at, job))) = leaving.pop() {
        pass(&mut engine, &jobs, at);
        engine.cancel(job);
    }
    let end = moment(seen.last().map_or(0.0, |last| last.at)).plus(MAX_OVERTIME);
    pass(&mut engine, &jobs, end);
    made
}

/// Deviation of one request: logarithms of simulated over recorded times.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) ttft: Option<f64>,
    pub(super) tpot: Option<f64>,
    /// Time from dispatch to end, for answers without streaming.
    pub(super) whole: Option<f64>,
}

/// Deviation of `made` from `seen`.
pub(super) fn difference(seen: &Seen, made: &Made) -> Difference {
    let ratio = |made: f64, seen: f64| ((made + NOISE) / (seen + NOISE)).max(f64::MIN_POSITIVE).ln();
    let ttft = seen.ttft.map(|ttft| made.first.map_or(MAX_LOG_DEVIATION, |first| ratio(first - seen.at, ttft)));
    let least = seen.output_tokens.map_or(u32::MAX, |_| FEWEST_TOKENS);
    let tpot = seen.tpot.zip(made.tpot(least)).map(|(tpot, made)| ratio(made, tpot));
    let whole = (seen.ttft.is_none() && seen.output_tokens.is_some())
        .then(|| ratio(made.last.max(seen.at) - seen.at, seen.end - seen.at));
    Difference { ttft, tpot, whole }
}

/// Loss of `profile`: the mean capped absolute deviation over `seen`.
pub(super) fn loss(profile: &Profile, seen: &[Seen], usual: u32) -> f64 {
    let made = play(profile, seen, usual);
    let (mut sum, mut count) = (0.0, 0.0);
    for (seen, made) in seen.iter().zip(&made) {
        let Difference { ttft, tpot, whole } = difference(seen, made);
        for difference in [ttft, tpot, whole].into_iter().flatten() {
            sum += difference.abs().min(MAX_LOG_DEVIATION);
            count += 1.0;
        }
    }
    if count > 0.0 { sum / count } else { f64::INFINITY }
}
