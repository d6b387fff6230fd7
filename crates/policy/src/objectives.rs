//! Service-level objectives of pools and routes, and the decision whether one request met them.

use std::{sync::Arc, time::Duration};

use signalbox_config::Prompts;
use signalbox_types::Name;

/// The least target that placement steers by: nine requests in ten.
const STEERING: f64 = 0.9;

/// Objectives with distinct names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives(Arc<[Objective]>);

/// One objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Its name in metrics and on the status page: `ttft_p95`, `ttft_p95_under_512`, `availability`.
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
    /// True if the request met the objective; `None` if the objective does not apply to it. Latencies count if they
    /// were measured, however the request ended. A stream that failed before its first token missed the limit, as did
    /// one whose client left after the limit.
    pub fn is_met(&self, request: &RequestResult) -> Option<bool> {
        let RequestResult { prompt_tokens, streamed, end, e2e_ms, ttft_ms, tpot_ms } = *request;
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
