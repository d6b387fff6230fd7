//! Service-level objectives of pools and routes, and the decision whether one request met them.

use std::{sync::Arc, time::Duration};

use signalbox_config::Prompts;
use signalbox_types::{Gaps, Name};

/// The least target that placement steers by: nine requests in ten.
const STEERING: f64 = 0.9;

/// Objectives with distinct names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives(Arc<[Objective]>);

/// One objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Its name in metrics and on the status page: `ttft_p95`, `e2e_p95_under_512`, `availability`.
    pub name: Name,
    /// Its measure.
    pub measure: Measure,
    /// The prompts whose requests it covers.
    pub prompts: Prompts,
    /// The share of requests that must meet it, between 0 and 1.
    pub target: f64,
}

/// The measure of an objective.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The first token comes within this time.
    Ttft(Duration),
    /// Further tokens come within this time each.
    Tpot(Duration),
    /// All of the answer comes within this time.
    E2e(Duration),
    /// No gap between two chunks is longer than this.
    Gap(Duration),
    /// Readers notice no gap between two chunks: counted by gaps, not by requests.
    Stutter,
    /// The answer is complete.
    Availability,
}

/// The result of a request, as objectives judge it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct RequestResult {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// True if the answer was requested as a stream.
    pub streamed: bool,
    /// The end of the request.
    pub end: RequestEnd,
    /// Milliseconds from arrival to the end.
    pub e2e_ms: f64,
    /// Milliseconds until the request's first token was delivered, if any was.
    pub ttft_ms: Option<f64>,
    /// Milliseconds per further token, if there were any.
    pub tpot_ms: Option<f64>,
    /// Gaps between the chunks of a stream, if there were any.
    pub gaps: Option<Gaps>,
}

/// Events of a request that an objective counts: the request itself, or the gaps of its answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Events that missed the objective.
    pub bad: u64,
    /// All events.
    pub total: u64,
}

/// The way a request ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// With a complete answer.
    Complete,
    /// Without a complete answer, and not by the client's fault.
    Failed,
    /// The client disconnected.
    Left,
}

impl Objectives {
    /// The objectives in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Objective> {
        self.0.iter()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limit of the time to the first token that placement steers by; `None` if there is none. Objectives for some
    /// prompts only, or with a target below nine in ten, are observed but do not steer.
    pub fn ttft(&self) -> Option<Duration> {
        self.tightest(|measure| if let Measure::Ttft(within) = measure { Some(within) } else { None })
    }

    /// The limit of the time per further token that placement steers by.
    pub fn tpot(&self) -> Option<Duration> {
        self.tightest(|measure| if let Measure::Tpot(within) = measure { Some(within) } else { None })
    }

    fn tightest(&self, within: impl Fn(Measure) -> Option<Duration>) -> Option<Duration> {
        let steering = self.iter().filter(|it| it.target >= STEERING && it.prompts == Prompts::default());
        steering.filter_map(|it| within(it.measure)).min()
    }
}

impl FromIterator<Objective> for Objectives {
    fn from_iter<I: IntoIterator<Item = Objective>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl Objective {
    /// True if the request by itself met the objective; `None` if the objective does not apply to it.
    pub fn is_met(&self, request: &RequestResult) -> Option<bool> {
        let Judged { bad, total } = self.judge(request)?;
        Some(match self.measure {
            Measure::Stutter => bad as f64 <= (1.0 - self.target) * total as f64,
            _ => bad == 0,
        })
    }

    /// The events of the request that the objective counts; `None` if it does not apply. Latencies count if they were
    /// measured, however the request ended. A stream that failed before its first token missed the limit of that, and an
    /// answer that failed missed the limit of its end, as did those whose client left after the limit.
    pub fn judge(&self, request: &RequestResult) -> Option<Judged> {
        if self.measure == Measure::Stutter {
            let gaps = request.gaps.filter(|_| self.prompts.contain(request.prompt_tokens))?;
            return Some(Judged { bad: gaps.long, total: gaps.count });
        }
        self.is_good(request).map(|good| Judged { bad: u64::from(!good), total: 1 })
    }

    fn is_good(&self, request: &RequestResult) -> Option<bool> {
        let RequestResult { prompt_tokens, streamed, end, e2e_ms, ttft_ms, tpot_ms, gaps } = *request;
        if !self.prompts.contain(prompt_tokens) {
            return None;
        }
        let within = |took: f64, most: Duration| took <= most.as_secs_f64() * 1e3;
        match self.measure {
            Measure::Ttft(most) => match (ttft_ms, end) {
                (Some(took), _) => Some(within(took, most)),
                (None, RequestEnd::Failed) if streamed => Some(false),
                (None, RequestEnd::Left) if streamed && !within(e2e_ms, most) => Some(false),
                _ => None,
            },
            Measure::Tpot(most) => tpot_ms.map(|took| within(took, most)),
            Measure::E2e(most) => match end {
                RequestEnd::Complete => Some(within(e2e_ms, most)),
                RequestEnd::Failed => Some(false),
                RequestEnd::Left => (!within(e2e_ms, most)).then_some(false),
            },
            Measure::Gap(most) => gaps.map(|gaps| within(gaps.largest_ms, most)),
            Measure::Stutter => None,
            Measure::Availability => match end {
                RequestEnd::Complete => Some(true),
                RequestEnd::Failed => Some(false),
                RequestEnd::Left => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective(measure: Measure, target: f64, prompts: Prompts) -> Objective {
        Objective { name: "it".into(), measure, prompts, target }
    }

    #[test]
    fn requests_meet_or_miss_objectives() {
        let [second, token] = [Duration::from_secs(1), Duration::from_millis(50)];
        let all = Prompts::default();
        let [ttft, tpot, availability] =
            [Measure::Ttft(second), Measure::Tpot(token), Measure::Availability].map(|it| objective(it, 0.95, all));
        let judged = |request: &RequestResult| [&ttft, &tpot, &availability].map(|it| it.is_met(request));
        let streamed = RequestResult {
            prompt_tokens: 10,
            streamed: true,
            end: RequestEnd::Complete,
            e2e_ms: 3000.0,
            ttft_ms: Some(1000.0),
            tpot_ms: Some(50.1),
            gaps: None,
        };
        assert_eq!(judged(&streamed), [Some(true), Some(false), Some(true)]);
        let none = RequestResult { ttft_ms: None, tpot_ms: None, ..streamed };
        let whole = RequestResult { streamed: false, ..none };
        assert_eq!(judged(&whole), [None, None, Some(true)], "an answer that comes whole has no first token");
        assert_eq!(judged(&RequestResult { end: RequestEnd::Failed, ..whole }), [None, None, Some(false)]);
        assert_eq!(judged(&RequestResult { end: RequestEnd::Failed, ..none }), [Some(false), None, Some(false)]);
        let cut = RequestResult { end: RequestEnd::Failed, tpot_ms: Some(20.0), ..streamed };
        assert_eq!(judged(&cut), [Some(true), Some(true), Some(false)], "its first token came in time");
        let left = RequestResult { end: RequestEnd::Left, ..none };
        assert_eq!(judged(&left), [Some(false), None, None], "it had waited for longer than that");
        assert_eq!(judged(&RequestResult { e2e_ms: 900.0, ..left }), [None; 3], "nobody knows");
        assert_eq!(judged(&RequestResult { streamed: false, ..left }), [None; 3]);
        let short = objective(ttft.measure, 0.95, Prompts { from: 0, under: Some(10) });
        assert_eq!(short.is_met(&streamed), None);
    }

    #[test]
    fn whole_answers_and_gaps_are_judged_too() {
        let [second, half] = [Duration::from_secs(1), Duration::from_millis(500)];
        let all = Prompts::default();
        let e2e = objective(Measure::E2e(second), 0.95, all);
        let whole = RequestResult {
            prompt_tokens: 10,
            streamed: false,
            end: RequestEnd::Complete,
            e2e_ms: 5900.0,
            ttft_ms: None,
            tpot_ms: None,
            gaps: None,
        };
        let ended = |end, e2e_ms| e2e.is_met(&RequestResult { end, e2e_ms, ..whole });
        assert_eq!(
            [ended(RequestEnd::Complete, 5900.0), ended(RequestEnd::Complete, 1000.0)],
            [Some(false), Some(true)]
        );
        assert_eq!(ended(RequestEnd::Failed, 3.0), Some(false), "it never ended as it should");
        assert_eq!([ended(RequestEnd::Left, 900.0), ended(RequestEnd::Left, 1100.0)], [None, Some(false)]);

        let [gap, stutter] = [Measure::Gap(half), Measure::Stutter].map(|it| objective(it, 0.95, all));
        assert_eq!([gap.judge(&whole), stutter.judge(&whole)], [None; 2], "an answer that comes whole has no gaps");
        let gaps = Gaps { count: 40, long: 2, largest_ms: 500.5 };
        let stalled = RequestResult { streamed: true, gaps: Some(gaps), ..whole };
        assert_eq!(gap.is_met(&stalled), Some(false));
        assert_eq!(stutter.judge(&stalled), Some(Judged { bad: 2, total: 40 }));
        assert_eq!(stutter.is_met(&stalled), Some(true), "two of forty");
        let worse = RequestResult { gaps: Some(Gaps { long: 3, ..gaps }), ..stalled };
        assert_eq!(stutter.is_met(&worse), Some(false));
        let short = objective(Measure::Stutter, 0.95, Prompts { from: 0, under: Some(10) });
        assert_eq!(short.judge(&stalled), None);
    }

    #[test]
    fn only_objectives_for_nearly_all_requests_steer() {
        let [fast, slow] = [Duration::from_millis(300), Duration::from_secs(3)];
        let (all, short) = (Prompts::default(), Prompts { from: 0, under: Some(512) });
        let objectives: Objectives = [
            objective(Measure::Ttft(fast), 0.5, all),
            objective(Measure::Ttft(fast), 0.95, short),
            objective(Measure::Ttft(slow), 0.95, all),
            objective(Measure::Ttft(2 * slow), 0.99, all),
            objective(Measure::Availability, 0.995, all),
        ]
        .into_iter()
        .collect();
        assert_eq!((objectives.ttft(), objectives.tpot()), (Some(slow), None));
    }
}
