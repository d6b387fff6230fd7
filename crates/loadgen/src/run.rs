//! Run loop: sends requests at their planned times and collects the outcomes.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use super::{Answer, Ask, Failure, Plan, Tally};

/// Receiver of requests.
pub trait Target: Send + Sync + 'static {
    /// Sends a request and reads the answer to its end.
    fn ask(&self, ask: &Ask) -> impl Future<Output = Answer> + Send;
}

/// Parameters of a run.
#[derive(Debug)]
pub struct Load {
    /// The plan.
    pub plan: Plan,
    /// Most concurrent requests: the width of a closed loop. In an open loop, requests beyond it wait and are late.
    pub at_once: usize,
    /// Time limit of an answer.
    pub timeout: Duration,
}

/// Progress of a run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Requests that ended.
    pub ended: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests in progress.
    pub open: usize,
}

/// Capacity of the channel of ended requests.
const CHANNEL: usize = 1024;
/// Interval of progress reports.
const TICK: Duration = Duration::from_millis(200);

/// A request that has ended.
struct Ended {
    at: Duration,
    whole: bool,
    answer: Answer,
}

/// Runs `load` against `target` and calls `watch` regularly. Ends when all requests have, or when `stop` completes: then nothing more is
/// sent, and requests in progress are dropped and counted as unfinished.
pub async fn run<T: Target>(
    target: Arc<T>,
    load: Load,
    mut watch: impl FnMut(Progress),
    stop: impl Future<Output = ()>,
) -> Tally {
    let Load { plan, at_once, timeout } = load;
    let (outcomes, mut ended_requests) = mpsc::channel(CHANNEL);
    let permits = Arc::new(Semaphore::new(at_once));
    let start = Instant::now();
    let mut tally = Tally::new(start, plan.limits());
    let mut feeding = JoinSet::new();
    feeding.spawn(feed(target, plan, start, permits.clone(), timeout, outcomes));
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    let mut progress = Progress::default();
    loop {
        tokio::select! {
            ended = ended_requests.recv() => {
                let Some(Ended { at, whole, answer }) = ended else { break };
                progress.ended += 1;
                progress.failed += u64::from(answer.failure.is_some());
                tally.add(at, whole, &answer);
            }
            _ = tick.tick() => {
                let open = at_once - permits.available_permits();
                watch(Progress { elapsed: start.elapsed(), open, ..progress });
            }
            () = &mut stop => {
                tally.unfinished = (at_once - permits.available_permits()) as u64;
                break;
            }
        }
    }
    tally
}

/// Sends all requests, each in its own task. Dropping it cancels them.
async fn feed<T: Target>(
    target: Arc<T>,
    mut plan: Plan,
    start: Instant,
    permits: Arc<Semaphore>,
    limit: Duration,
    outcomes: mpsc::Sender<Ended>,
) {
    let mut tasks = JoinSet::new();
    let open = plan.is_open();
    loop {
        // In a closed loop a request is due when there is a permit; in an open one by the plan.
        let permit = if open { None } else { permits.clone().acquire_owned().await.ok() };
        let Some(ask) = plan.next(start.elapsed()) else { break };
        let Some(due) = start.checked_add(ask.at) else { break };
        // Do not sleep for what is due: a timer's resolution is a millisecond.
        if due > Instant::now() {
            sleep_until(due).await;
        }
        let permit = match permit {
            Some(permit) => Some(permit),
            None => permits.clone().acquire_owned().await.ok(),
        };
        let (target, outcomes) = (target.clone(), outcomes.clone());
        tasks.spawn(async move {
            let begun = Instant::now();
            let answered = timeout(limit, target.ask(&ask)).await;
            let answer = answered.unwrap_or_else(|_| Answer::new(begun).ended(Some(Failure::Timeout(limit))));
            let _ = outcomes.send(Ended { at: ask.at, whole: ask.whole, answer }).await;
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::time::sleep;

    use super::*;
    use crate::{Arrivals, Figures, Limits, Shape, Slo};

    /// A server that answers in a millisecond, but stalls between the first and the second second.
    struct Pausing {
        start: Instant,
        open: AtomicUsize,
        most: AtomicUsize,
    }

    impl Pausing {
        fn new() -> Arc<Self> {
            Arc::new(Self { start: Instant::now(), open: AtomicUsize::new(0), most: AtomicUsize::new(0) })
        }
    }

    impl Target for Pausing {
        async fn ask(&self, _: &Ask) -> Answer {
            let mut answer = Answer::new(Instant::now());
            self.most.fetch_max(self.open.fetch_add(1, Relaxed) + 1, Relaxed);
            if (1.0..2.0).contains(&self.start.elapsed().as_secs_f64()) {
                sleep_until(self.start + Duration::from_secs(2)).await;
            }
            sleep(Duration::from_millis(1)).await;
            answer.token(Instant::now());
            self.open.fetch_sub(1, Relaxed);
            answer.ended(None)
        }
    }

    fn load(per_second: f64, at_once: usize, limits: Limits) -> Load {
        let length = "8".parse().unwrap();
        let shape = Shape::Rate { per_second, arrivals: Arrivals::Constant, prompt: length, output: length };
        Load { plan: Plan::new(shape, limits, None, 1), at_once, timeout: Duration::from_mins(1) }
    }

    fn four_seconds() -> Limits {
        Limits { duration: Some(Duration::from_secs(4)), ..Limits::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_shows_in_all_requests_that_were_meant_to_be_sent_meanwhile() {
        // One connection: while it waits the client cannot send, so most requests never wait at the server.
        let tally = run(Pausing::new(), load(100.0, 1, four_seconds()), |_| {}, std::future::pending()).await;
        let figures = Figures::of(tally, Slo::default());
        assert_eq!((figures.requests, figures.failed), (399, 0));
        let (meant, sent) = (&figures.ttft, &figures.ttft_from_sending);
        assert!(sent.p95 < 0.005 && sent.max > 0.9, "one request in four hundred: {sent:?}");
        assert!(meant.p90 > 0.5 && meant.p95 > 0.7, "a quarter of them waited: {meant:?}");
        assert!(figures.late.p90 > 0.5, "and the client says that it was late: {:?}", figures.late);
    }

    #[tokio::test(start_paused = true)]
    async fn with_enough_connections_nothing_is_late_and_the_pause_shows_all_the_same() {
        let server = Pausing::new();
        let tally = run(server.clone(), load(100.0, 1_000, four_seconds()), |_| {}, std::future::pending()).await;
        let figures = Figures::of(tally, Slo::default());
        assert!(figures.late.max < 0.002, "{:?}", figures.late);
        assert!(figures.ttft_from_sending.p90 > 0.5, "{:?}", figures.ttft_from_sending);
        assert!(server.most.load(Relaxed) >= 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_keeps_its_width_and_asks_a_slow_server_less() {
        let server = Pausing::new();
        let length = "8".parse().unwrap();
        let plan = Plan::new(Shape::Closed { prompt: length, output: length }, four_seconds(), None, 1);
        let load = Load { plan, at_once: 3, timeout: Duration::from_mins(1) };
        let tally = run(server.clone(), load, |_| {}, std::future::pending()).await;
        let figures = Figures::of(tally, Slo::default());
        assert_eq!(server.most.load(Relaxed), 3);
        assert!(figures.ttft.p99 < 0.005 && figures.late.max < 0.001, "{figures:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_is_a_failure_and_a_stopped_request_is_unfinished() {
        let limits = Limits { requests: Some(150), ..Limits::default() };
        let slow = Load { timeout: Duration::from_millis(500), ..load(100.0, 1_000, limits) };
        let tally = run(Pausing::new(), slow, |_| {}, std::future::pending()).await;
        assert_eq!(tally.failures["timeout"].count, 51);
        let mut last = Progress::default();
        let stop = sleep(Duration::from_millis(1_500));
        let tally = run(Pausing::new(), load(100.0, 1_000, four_seconds()), |progress| last = progress, stop).await;
        assert!((49..=52).contains(&tally.unfinished), "{}", tally.unfinished);
        assert!(last.open >= 39 && last.ended == 99, "{last:?}");
    }
}
