//! One simulated engine under the very requests that a real one got, at the times it got them: how far it is from what was seen.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::observe::Seen;
use crate::{
    sim::{Engine, Event, Job, JobId, Profile},
    types::Moment,
};

/// Times are compared as ratios; below this many seconds, differences are noise.
const NOISE: f64 = 0.002;
/// No request counts for more than this, in logarithms: a stall of minutes is not the model's to explain.
const MOST: f64 = 1.0;
/// How long an engine is let go on after the last request came.
const PATIENCE: Duration = Duration::from_hours(1);

/// What a simulated engine made of a request, in seconds.
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

/// Answers of fewer tokens have too few gaps for a mean.
const FEWEST_TOKENS: u32 = 5;

/// Plays `seen`, in the order of its dispatch, on an engine of this `profile`; `usual` stands for the lengths of answers that nobody knows.
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
    let end = moment(seen.last().map_or(0.0, |last| last.at)).plus(PATIENCE);
    pass(&mut engine, &jobs, end);
    made
}

/// How one request's times differ, as logarithms of ratios, simulated over seen.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    pub(super) ttft: Option<f64>,
    pub(super) tpot: Option<f64>,
    /// From the dispatch to the end, of answers that came whole.
    pub(super) whole: Option<f64>,
}

/// How `made` differs from what was `seen`.
pub(super) fn difference(seen: &Seen, made: &Made) -> Difference {
    let ratio = |made: f64, seen: f64| ((made + NOISE) / (seen + NOISE)).max(f64::MIN_POSITIVE).ln();
    let ttft = seen.ttft.map(|ttft| made.first.map_or(MOST, |first| ratio(first - seen.at, ttft)));
    let least = seen.output_tokens.map_or(u32::MAX, |_| FEWEST_TOKENS);
    let tpot = seen.tpot.zip(made.tpot(least)).map(|(tpot, made)| ratio(made, tpot));
    let whole = (seen.ttft.is_none() && seen.output_tokens.is_some())
        .then(|| ratio(made.last.max(seen.at) - seen.at, seen.end - seen.at));
    Difference { ttft, tpot, whole }
}

/// How far `profile` is from all that was seen: the mean of differences without their signs, none of which counts for much.
pub(super) fn loss(profile: &Profile, seen: &[Seen], usual: u32) -> f64 {
    let made = play(profile, seen, usual);
    let (mut sum, mut count) = (0.0, 0.0);
    for (seen, made) in seen.iter().zip(&made) {
        let Difference { ttft, tpot, whole } = difference(seen, made);
        for difference in [ttft, tpot, whole].into_iter().flatten() {
            sum += difference.abs().min(MOST);
            count += 1.0;
        }
    }
    if count > 0.0 { sum / count } else { f64::INFINITY }
}
