//! Parallel map over the processors.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Applies `work` to every one of `jobs`, on one thread per processor, and calls `done` after each. Results are in the order of the jobs.
pub fn parallel_map<J: Sync, R: Send>(jobs: &[J], done: impl Fn() + Sync, work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut results = Vec::new();
        while let Some((at, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, jobs.get(at)?)))
        {
            results.push((at, work(job)));
            done();
        }
        results
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_unstable_by_key(|result| result.0);
    results.into_iter().map(|result| result.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let done = AtomicUsize::new(0);
        let results = parallel_map(&jobs, || _ = done.fetch_add(1, Ordering::Relaxed), |job| job * 2);
        assert_eq!(results, (0..100).map(|job| job * 2).collect::<Vec<_>>());
        assert_eq!(done.into_inner(), 100);
    }
}
