//! Bottleneck of a pool, as a label and as a sentence for operators: from how its answers' time is spent, what waits
//! for it, and its engines' gauges.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::signs::{EngineQueue, Stalls, Tail};

/// Usage from which on a KV cache has no room for the next prompt.
const FULL: f64 = 0.9;
/// Seconds from which on a wait means a lack of room, not only waiting for a turn.
const WAITS: f64 = 1.0;
/// Share of an answer's time before the first token above which prefill dominates, and below which decoding does.
const PREFILL: f64 = 0.5;
const DECODE: f64 = 0.2;
/// Network round trip, in seconds and as a share of the time to first token, from which on it is worth shortening.
const FAR: f64 = 0.05;
const FAR_SHARE: f64 = 0.2;

/// The least number and share of a minute's streams that stall.
const STALLED: u64 = 5;
const STALLED_SHARE: f64 = 0.1;
/// Answers of five minutes from which on their 99th percentile says something.
const TAIL: u64 = 50;
/// Growth of the 99th percentile, and of the median, against those of the hour.
const TAIL_GROWTH: f64 = 2.0;
const MEDIAN_GROWTH: f64 = 1.25;
/// Share of time on prompts from which on they delay the tokens of others.
const BUSY: f64 = 0.5;

/// State of a pool at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct PoolHealth {
    /// Mean seconds to the first token and to the end, over the last minute; `None` without streamed answers.
    pub latencies: Option<(f64, f64)>,
    /// Requests that wait for room in the pool.
    pub queue_depth: u64,
    /// Of these, the requests that are held although there is room, because prompts wait for each other on the engines.
    pub queue_held: u64,
    /// Wait of the oldest queued request, in seconds.
    pub queue_oldest: f64,
    /// Usage of the fullest KV cache among the pool's engines, 0 to 1, where they report it.
    pub kv_usage: Option<f64>,
    /// Mean share of time that the pool's engines spend on prompts, 0 to 1.
    pub utilisation: f64,
    /// Share of the concurrency limits of the pool's engines in use, where they have any.
    pub filled: Option<f64>,
    /// True if requests were meant for the pool lately, and none of its backends is usable.
    pub unserved: bool,
    /// Mean round trip to the pool's engines in seconds, over those where it is known.
    pub round_trip: Option<f64>,
    /// Requests on its engines, where they report them.
    pub engine_queue: Option<EngineQueue>,
    /// Streams of the last minute that stalled, if any did.
    pub stalls: Option<Stalls>,
    /// Times to the first token now and over the hour.
    pub tail: Option<Tail>,
}

/// Bottleneck of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnosis {
    /// One of [`STATES`].
    pub state: Cow<'static, str>,
    /// Explanation for operators, with a remedy.
    pub words: String,
}

/// All states, from no load to the worst.
pub const STATES: [&str; 8] =
    ["idle", "balanced", "decode-bound", "prefill-bound", "network-bound", "kv-bound", "capacity-bound", "unserved"];

impl PoolHealth {
    /// Share of an answer's time that passes before its first token, 0 to 1.
    pub(crate) fn prefill_share(&self) -> Option<f64> {
        let (first, whole) = self.latencies?;
        (whole > 0.0).then(|| (first / whole).clamp(0.0, 1.0))
    }

    /// Used share of its engines' capacity, 0 to 1; 1 as soon as a request waits here, or several in an engine, or finds no
    /// usable backend. An input for autoscaling.
    pub fn saturation(&self) -> f64 {
        if self.queue_depth > 0 || self.unserved || self.engine_queue.is_some_and(|queue| queue.is_long()) {
            return 1.0;
        }
        let used = [Some(self.utilisation), self.kv_usage, self.filled];
        used.into_iter().flatten().fold(0.0, f64::max).clamp(0.0, 1.0)
    }

    /// Determines the bottleneck. Causes that keep requests out come before those that slow them down.
    pub fn diagnose(&self) -> Diagnosis {
        let diagnosis = |state: &'static str, words| Diagnosis { state: state.into(), words };
        if self.unserved {
            let words = "requests came in the last minute, and no backend is usable: start engines, or repair those that are down";
            return diagnosis("unserved", words.to_owned());
        }
        if self.queue_depth > 0 && self.queue_oldest >= WAITS {
            if self.queue_held == self.queue_depth {
                let words = format!("{}: more engines, or shorter or cached prompts, would help", self.held());
                return diagnosis("prefill-bound", words);
            }
            let words = format!(
                "{} for room, the first for {:.0} s: more engines, or higher limits where they have any, would help",
                waiting(self.queue_depth),
                self.queue_oldest
            );
            return diagnosis("capacity-bound", words);
        }
        if let Some(usage) = self.kv_usage.filter(|usage| *usage >= FULL) {
            let words = format!(
                "a KV cache is {:.0} % full: shorter prompts and answers, or more memory, would help",
                usage * 100.0
            );
            return diagnosis("kv-bound", words);
        }
        if let Some(queue) = self.engine_queue.filter(EngineQueue::is_long) {
            let words = format!("{}: more engines would help", queue.words());
            return diagnosis("capacity-bound", words);
        }
        let (Some(share), Some((first, whole))) = (self.prefill_share(), self.latencies) else {
            return diagnosis("idle", "no streamed answer in the last minute".to_owned());
        };
        if let Some(way) = self.round_trip.filter(|way| *way > FAR && *way > first * FAR_SHARE) {
            let words = format!(
                "the network takes {:.0} ms to its engines and back, {:.0} % of the time to a first token ({first:.2} s): engines \
                 nearer to the gateway would help",
                way * 1e3,
                (way / first).min(1.0) * 100.0
            );
            return diagnosis("network-bound", words);
        }
        let spent = format!(
            "{:.0} % of an answer's time is before its first token ({first:.2} of {whole:.2} s)",
            share * 100.0
        );
        match share {
            _ if share > PREFILL => diagnosis(
                "prefill-bound",
                format!("{spent}: shorter or cached prompts, or engines for prompts alone, would help"),
            ),
            _ if share < DECODE => diagnosis(
                "decode-bound",
                format!("{spent}: a smaller or faster model, or fewer requests at once, would help"),
            ),
            _ => diagnosis("balanced", spent),
        }
    }
}

impl PoolHealth {
    /// Explanation of the held requests, for operators.
    fn held(&self) -> String {
        let (count, oldest) = (self.queue_held, self.queue_oldest);
        let prompts = if count == 1 { "1 prompt waits".to_owned() } else { format!("{count} prompts wait") };
        format!(
            "held: {prompts} here, the first for {oldest:.0} s, while its engines compute half a second of others (first tokens \
             there come later the more prompts are under way); shorter ones go first"
        )
    }
}

fn waiting(count: u64) -> String {
    if count == 1 { "1 request waits".to_owned() } else { format!("{count} requests wait") }
}

impl PoolHealth {
    /// Signs of trouble, in words.
    pub fn signs(&self) -> Vec<String> {
        let queue = self.engine_queue.filter(EngineQueue::is_long).map(|queue| {
            format!(
                "{}: more engines, or a `max_concurrency` that lets them wait in the gateway, where short ones go first, would help",
                queue.words()
            )
        });
        [queue, self.stutter(), self.growing_tail()].into_iter().flatten().collect()
    }

    fn stutter(&self) -> Option<String> {
        let Stalls { streams, stalled, largest } = self.stalls?;
        let many = stalled >= STALLED && stalled as f64 >= STALLED_SHARE * streams as f64;
        many.then(|| {
            let cause = self.cause_of_stalls();
            format!("{stalled} of {streams} streams of the last minute stalled, for up to {largest:.1} s: {cause}")
        })
    }

    fn cause_of_stalls(&self) -> String {
        if let Some(usage) = self.kv_usage.filter(|usage| *usage >= FULL) {
            return format!("a KV cache is {:.0} % full, and its engine interrupts answers", usage * 100.0);
        }
        if self.engine_queue.is_some_and(|queue| queue.is_long()) || self.utilisation >= BUSY {
            return "their engines compute prompts between the tokens: smaller chunks of prompts, or engines for prompts alone, would help".to_owned();
        }
        match self.round_trip.filter(|way| *way > FAR) {
            Some(way) => format!("the network takes {:.0} ms to the engines and back", way * 1e3),
            None => "the engines' load does not explain it: look at the engines themselves, and for proxies on the way that collect chunks".to_owned(),
        }
    }

    fn growing_tail(&self) -> Option<String> {
        let Tail { recent, usual } = self.tail?;
        let enough = recent.count >= TAIL && usual.count >= 2 * recent.count;
        let grows = recent.p99 > TAIL_GROWTH * usual.p99 && recent.p50 < MEDIAN_GROWTH * usual.p50;
        (enough && grows).then(|| {
            format!(
                "one first token in a hundred takes {:.1} s or more, {:.1} times as long as over the hour, while half of them come \
                 within {:.2} s as always: a few long prompts, or one slow engine of several",
                recent.p99,
                recent.p99 / usual.p99,
                recent.p50
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_measure::Summary;

    #[test]
    fn causes_that_block_requests_come_before_causes_that_slow_them() {
        let mut health = PoolHealth { latencies: Some((0.6, 1.0)), utilisation: 0.4, ..PoolHealth::default() };
        assert_eq!(health.diagnose().state, "prefill-bound");
        assert!(health.diagnose().words.starts_with("60 % of an answer's time"));
        assert!((health.saturation() - 0.4).abs() < 1e-12);
        health.kv_usage = Some(0.95);
        assert_eq!(health.diagnose().state, "kv-bound");
        (health.queue_depth, health.queue_oldest) = (1, 0.2);
        assert_eq!((&*health.diagnose().state, health.saturation()), ("kv-bound", 1.0));
        health.queue_oldest = 3.0;
        let Diagnosis { state, words } = health.diagnose();
        assert_eq!(state, "capacity-bound");
        assert!(words.starts_with("1 request waits for room, the first for 3 s"), "{words}");
        health.queue_held = 1;
        let Diagnosis { state, words } = health.diagnose();
        assert_eq!(state, "prefill-bound");
        assert!(words.starts_with("held: 1 prompt waits here, the first for 3 s"), "{words}");
        assert_eq!(PoolHealth::default().diagnose().state, "idle");
        let dead = PoolHealth { unserved: true, ..health };
        assert_eq!((&*dead.diagnose().state, dead.saturation()), ("unserved", 1.0));
        for (round_trip, first, state) in
            [(0.08, 0.2, "network-bound"), (0.08, 0.6, "prefill-bound"), (0.04, 0.05, "decode-bound")]
        {
            let health =
                PoolHealth { latencies: Some((first, 1.0)), round_trip: Some(round_trip), ..PoolHealth::default() };
            assert_eq!(health.diagnose().state, state);
        }
        let far = PoolHealth { latencies: Some((0.2, 1.0)), round_trip: Some(0.08), ..PoolHealth::default() };
        assert!(far.diagnose().words.starts_with("the network takes 80 ms"), "{far:?}");
        for (first, state) in [(0.1, "decode-bound"), (0.3, "balanced"), (0.9, "prefill-bound")] {
            let health = PoolHealth { latencies: Some((first, 1.0)), ..PoolHealth::default() };
            assert_eq!(health.diagnose().state, state);
            assert!(STATES.contains(&state));
        }
    }

    #[test]
    fn a_queue_in_an_engine_is_a_sign_and_no_balance() {
        let queue = EngineQueue { waiting: 50.0, longest: 50.0, running: 4.0 };
        let health = PoolHealth { latencies: Some((0.3, 1.0)), engine_queue: Some(queue), ..PoolHealth::default() };
        let diagnosis = health.diagnose();
        assert_eq!((&*diagnosis.state, health.saturation()), ("capacity-bound", 1.0));
        assert!(
            diagnosis.words.starts_with("50 requests wait in its engines' own queues, 50 where 4 run"),
            "{diagnosis:?}"
        );
        assert!(health.signs()[0].contains("max_concurrency"));
        for queue in [EngineQueue { longest: 3.0, ..queue }, EngineQueue { longest: 20.0, running: 256.0, ..queue }] {
            let health = PoolHealth { engine_queue: Some(queue), ..health };
            assert_eq!((&*health.diagnose().state, health.signs().len()), ("balanced", 0), "{queue:?}");
        }
    }

    #[test]
    fn streams_that_stall_have_a_cause() {
        let stalls = Stalls { streams: 40, stalled: 20, largest: 0.5 };
        let health = PoolHealth { stalls: Some(stalls), ..PoolHealth::default() };
        let said = |health: PoolHealth| health.signs().concat();
        assert!(
            said(health).starts_with("20 of 40 streams of the last minute stalled, for up to 0.5 s: the engines' load")
        );
        assert!(said(PoolHealth { round_trip: Some(0.08), ..health }).contains("the network takes 80 ms"));
        assert!(said(PoolHealth { utilisation: 0.7, round_trip: Some(0.08), ..health }).contains("compute prompts"));
        assert!(said(PoolHealth { kv_usage: Some(0.96), utilisation: 0.7, ..health }).contains("96 % full"));
        let few = [Stalls { stalled: 4, ..stalls }, Stalls { streams: 400, ..stalls }];
        assert!(few.into_iter().all(|stalls| said(PoolHealth { stalls: Some(stalls), ..health }).is_empty()));
    }

    #[test]
    fn a_tail_grows_while_the_middle_stays() {
        let usual = Summary { count: 1000, mean: 0.3, p50: 0.3, p90: 0.5, p95: 0.6, p99: 0.9 };
        let recent = Summary { count: 100, p99: 2.7, p50: 0.32, ..usual };
        let said = |recent| PoolHealth { tail: Some(Tail { recent, usual }), ..PoolHealth::default() }.signs().concat();
        assert!(said(recent).contains("takes 2.7 s or more, 3.0 times as long as over the hour"), "{}", said(recent));
        for other in [Summary { p50: 0.6, ..recent }, Summary { p99: 1.7, ..recent }, Summary { count: 40, ..recent }] {
            assert_eq!(said(other), "");
        }
        assert_eq!(said(Summary { count: 501, ..recent }), "", "the hour is hardly longer");
    }
}
