//! How long a request waits for room.

use std::time::Duration;

/// A request is kept for one part in so many of the time that its route leaves it for the whole answer.
const KEPT: u32 = 4;

/// How long a request waits, and what it means that this is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest wait.
    pub time: Duration,
    /// Whether an answer is of no use after it: its first token would be late.
    pub ends_late: bool,
}

/// How long a request waits in a queue that gives it `queue`, where its route leaves it so much for the whole answer (`left`) and for the
/// first token (`bound`). One that is only `kept`, though there is room, needs time for its answer too.
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
