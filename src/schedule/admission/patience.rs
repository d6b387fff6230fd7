//! Longest wait of a request for room.

use std::time::Duration;

/// Part of a route's remaining time for the whole answer for which a held request waits.
const KEPT: u32 = 4;

/// Limit on a request's wait.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest wait.
    pub time: Duration,
    /// True if an answer after it is useless, because its first token would be late.
    pub ends_late: bool,
}

/// Limit on the wait in a queue that allows `queue`. `left` is the route's remaining time for the whole answer, `bound`
/// that for the first token. A request that is only `kept` although there is room must keep time for its answer too.
pub fn patience(queue: Duration, left: Option<Duration>, bound: Option<Duration>, kept: bool) -> Patience {
    let left = left.map(|left| if kept { left / KEPT } else { left });
    let time = [left, bound].into_iter().flatten().fold(queue, Duration::min);
    Patience { time, ends_late: bound == Some(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_ends_it_and_one_that_is_kept_leaves_time_for_its_answer() {
        let s = Duration::from_secs;
        let of = |left: Option<u64>, bound: Option<u64>, kept| patience(s(30), left.map(s), bound.map(s), kept);
        let ends = |seconds, ends_late| Patience { time: s(seconds), ends_late };
        assert_eq!(of(None, None, true), ends(30, false));
        assert_eq!((of(Some(40), None, false), of(Some(40), None, true)), (ends(30, false), ends(10, false)));
        assert_eq!((of(Some(8), Some(5), false), of(Some(8), Some(5), true)), (ends(5, true), ends(2, false)));
        assert_eq!(of(None, Some(0), false), ends(0, true));
    }
}
