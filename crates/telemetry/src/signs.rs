//! Signs that come before a pool misses its objectives, in words for operators: queues in its engines, streams that stall,
//! and a tail that grows while the middle stays.

use super::diagnosis::{FAR, FULL, PoolHealth};
use signalbox_measure::Summary;

/// Requests from which on an engine's own queue is long, and their least share of those that run there.
const QUEUE: f64 = 5.0;
const QUEUE_SHARE: f64 = 0.1;
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

/// Requests on engines, as these report them.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct EngineQueue {
    /// Requests in the queues of the pool's engines.
    pub waiting: f64,
    /// Those in the longest queue, and the requests that run on that engine.
    pub longest: f64,
    /// Requests that run on the engine with the longest queue.
    pub running: f64,
}

/// Streams of the last minute that stalled.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Stalls {
    /// All streams that ended.
    pub streams: u64,
    /// Those that stalled.
    pub stalled: u64,
    /// The 99th percentile of their largest gaps, in seconds.
    pub largest: f64,
}

/// Times to the first token.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Tail {
    /// Over the last five minutes.
    pub recent: Summary,
    /// Over the last hour.
    pub usual: Summary,
}

impl EngineQueue {
    /// True if more wait than an engine takes up at once.
    pub(super) fn is_long(&self) -> bool {
        self.longest >= QUEUE && self.longest >= QUEUE_SHARE * self.running
    }

    /// The queue in words.
    pub(super) fn words(&self) -> String {
        format!(
            "{:.0} requests wait in its engines' own queues, {:.0} where {:.0} run",
            self.waiting, self.longest, self.running
        )
    }
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
