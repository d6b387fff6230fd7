//! Plan of a run: requests generated at a rate, or recorded in a trace.

use std::{str::FromStr, sync::Arc, time::Duration};

use signalbox_sim::trace::Arrival;

/// Most requests of a plan; each takes about 50 bytes.
pub const MOST_REQUESTS: u64 = 1_000_000;

/// A planned request.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Intended time of sending, from the start.
    pub at: Duration,
    /// Index in the plan.
    pub number: u64,
    /// Tokens of the request's prompt.
    pub prompt_tokens: u32,
    /// Tokens that the request's answer should have.
    pub output_tokens: u32,
    /// True if the request asks for an unstreamed answer.
    pub whole: bool,
    /// Ids of the blocks of its prompt: equal ids from the start give an equal prefix. Empty for a unique prompt.
    pub blocks: Arc<[u64]>,
    /// Tokens per block.
    pub block_tokens: u32,
}

/// Number of tokens: fixed, such as `512`, or uniform over a range, such as `100..2000`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    low: u32,
    high: u32,
}

/// Most tokens of a prompt or an answer.
const MAX_TOKENS: u32 = 4_000_000;

impl FromStr for Lengths {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| {
            let number = text.trim().parse().ok().filter(|tokens| (1..=MAX_TOKENS).contains(tokens));
            number.ok_or("write a number of tokens from 1 to 4000000, such as `512`, or a range, such as `100..2000`")
        };
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (number(low)?, number(high)?);
        if low > high { Err("a range goes from the lower number to the higher one") } else { Ok(Self { low, high }) }
    }
}

impl std::fmt::Display for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.low == self.high { write!(f, "{}", self.low) } else { write!(f, "{} to {}", self.low, self.high) }
    }
}

/// Distribution of arrivals.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Poisson: independent arrivals with exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// Shape of the load.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Open loop at a rate.
    Rate {
        /// Requests per second.
        per_second: f64,
        /// Distribution of arrivals.
        arrivals: Arrivals,
        /// Tokens of prompts.
        prompt: Lengths,
        /// Tokens of answers.
        output: Lengths,
    },
    /// Closed loop: each request is sent when another is done.
    Closed {
        /// Tokens of prompts.
        prompt: Lengths,
        /// Tokens of answers.
        output: Lengths,
    },
    /// Replay of a trace.
    Trace {
        /// Arrivals, in order.
        arrivals: Arc<[Arrival]>,
        /// Speed relative to the recording.
        speed: f64,
        /// Tokens per block of the trace.
        block_tokens: u32,
    },
}

/// Bounds of a plan.
#[derive(Copy, Clone, Debug, Default)]
pub struct Limits {
    /// Warm-up: requests before this time are sent but not counted.
    pub warmup: Duration,
    /// Duration after the warm-up.
    pub duration: Option<Duration>,
    /// Most requests after the warm-up.
    pub requests: Option<u64>,
}

impl Limits {
    /// Latest time of a request.
    pub fn end(&self) -> Duration {
        self.duration.map_or(Duration::MAX, |duration| self.warmup.saturating_add(duration))
    }

    /// True if a request at this time counts.
    pub fn counts(&self, at: Duration) -> bool {
        at >= self.warmup
    }
}

/// Sequence of planned requests. Deterministic by seed.
#[derive(Debug)]
pub struct Plan {
    shape: Shape,
    limits: Limits,
    whole: Option<bool>,
    dice: fastrand::Rng,
    /// Time of the next arrival, in seconds from the start.
    next: f64,
    number: u64,
    counted: u64,
}

impl Plan {
    /// A plan of `shape` within `limits`. `whole` turns streaming off or on; `None`: as recorded, else streamed.
    pub fn new(shape: Shape, limits: Limits, whole: Option<bool>, seed: u64) -> Self {
        let mut plan =
            Self { shape, limits, whole, dice: fastrand::Rng::with_seed(seed), next: 0.0, number: 0, counted: 0 };
        plan.next = plan.gap();
        plan
    }

    /// Bounds of the plan.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// True for an open loop, in which the times of requests are known beforehand.
    pub fn is_open(&self) -> bool {
        !matches!(self.shape, Shape::Closed { .. })
    }

    /// Time to the next arrival, in seconds.
    fn gap(&mut self) -> f64 {
        match self.shape {
            Shape::Rate { per_second, arrivals: Arrivals::Constant, .. } => 1.0 / per_second,
            Shape::Rate { per_second, .. } => -(1.0 - self.dice.f64()).ln() / per_second,
            Shape::Closed { .. } | Shape::Trace { .. } => 0.0,
        }
    }

    /// The next request. In a closed loop it is due `now`, counted from the start.
    pub fn next(&mut self, now: Duration) -> Option<Ask> {
        if self.number >= MOST_REQUESTS || self.limits.requests.is_some_and(|most| self.counted >= most) {
            return None;
        }
        let made_up = |at, number, prompt_tokens, output_tokens| Ask {
            at,
            number,
            prompt_tokens,
            output_tokens,
            whole: false,
            blocks: Arc::default(),
            block_tokens: 0,
        };
        let number = self.number;
        let mut ask = match &self.shape {
            Shape::Rate { prompt, output, .. } => {
                let (prompt, output) = (*prompt, *output);
                let at = Duration::try_from_secs_f64(self.next).unwrap_or(Duration::MAX);
                self.next += self.gap();
                made_up(at, number, self.drawn(prompt), self.drawn(output))
            }
            Shape::Closed { prompt, output } => {
                let (prompt, output) = (*prompt, *output);
                made_up(now, number, self.drawn(prompt), self.drawn(output))
            }
            Shape::Trace { arrivals, speed, block_tokens } => {
                let arrival = arrivals.get(usize::try_from(number).ok()?)?;
                Ask {
                    at: Duration::try_from_secs_f64(arrival.at.as_secs_f64() / speed).unwrap_or(Duration::MAX),
                    number,
                    prompt_tokens: arrival.prompt_tokens.max(1),
                    output_tokens: arrival.output_tokens.max(1),
                    whole: arrival.whole,
                    blocks: arrival.blocks.clone(),
                    block_tokens: *block_tokens,
                }
            }
        };
        if ask.at >= self.limits.end() {
            return None;
        }
        ask.whole = self.whole.unwrap_or(ask.whole);
        self.number += 1;
        self.counted += u64::from(self.limits.counts(ask.at));
        Some(ask)
    }

    fn drawn(&mut self, Lengths { low, high }: Lengths) -> u32 {
        self.dice.u32(low..=high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_sim::trace::excerpt;

    fn all(mut plan: Plan) -> Vec<Ask> {
        std::iter::from_fn(|| plan.next(Duration::ZERO)).collect()
    }

    fn rate(per_second: f64, arrivals: Arrivals) -> Shape {
        let length = |text: &str| text.parse().unwrap();
        Shape::Rate { per_second, arrivals, prompt: length("10..20"), output: length("7") }
    }

    fn seconds(warmup: u64, duration: u64) -> Limits {
        let seconds = Duration::from_secs;
        Limits { warmup: seconds(warmup), duration: Some(seconds(duration)), requests: None }
    }

    #[test]
    fn constant_arrivals_come_in_equal_steps() {
        let asks = all(Plan::new(rate(4.0, Arrivals::Constant), seconds(1, 2), None, 1));
        assert_eq!(asks.len(), 11, "the one at 3 s is past the end");
        assert!(asks.windows(2).all(|pair| pair[1].at == pair[0].at + Duration::from_millis(250)));
        assert!(asks.iter().all(|ask| (10..=20).contains(&ask.prompt_tokens) && ask.output_tokens == 7));
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_are_as_irregular_as_they_should_be() {
        let asks = all(Plan::new(rate(50.0, Arrivals::Poisson), seconds(0, 200), None, 7));
        assert!((9_700..10_300).contains(&asks.len()), "{}", asks.len());
        let gaps: Vec<f64> = asks.windows(2).map(|pair| pair[1].at.as_secs_f64() - pair[0].at.as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.05, "exponential: {deviation} beside {mean}");
        assert_eq!(asks, all(Plan::new(rate(50.0, Arrivals::Poisson), seconds(0, 200), None, 7)));
        assert_ne!(asks, all(Plan::new(rate(50.0, Arrivals::Poisson), seconds(0, 200), None, 8)));
    }

    #[test]
    fn requests_are_counted_after_the_warm_up() {
        let limits = Limits { warmup: Duration::from_secs(1), duration: None, requests: Some(5) };
        let asks = all(Plan::new(rate(4.0, Arrivals::Constant), limits, None, 1));
        assert_eq!(asks.iter().filter(|ask| limits.counts(ask.at)).count(), 5);
        assert_eq!(asks.len(), 8);
    }

    #[test]
    fn a_trace_is_played_as_recorded_but_for_its_speed() {
        let arrivals: Arc<[Arrival]> = excerpt(1, 20, 2.0).collect();
        let shape = Shape::Trace { arrivals: arrivals.clone(), speed: 4.0, block_tokens: 16 };
        let asks = all(Plan::new(shape, Limits::default(), Some(true), 1));
        assert_eq!(asks.len(), 20);
        for (ask, arrival) in asks.iter().zip(&*arrivals) {
            assert!((ask.at.as_secs_f64() * 4.0 - arrival.at.as_secs_f64()).abs() < 1e-6);
            assert_eq!((ask.prompt_tokens, ask.output_tokens), (arrival.prompt_tokens, arrival.output_tokens));
            assert!(ask.whole);
        }
    }

    #[test]
    fn lengths_are_numbers_or_ranges() {
        assert_eq!("5".parse(), Ok(Lengths { low: 5, high: 5 }));
        assert_eq!("5..9".parse::<Lengths>().unwrap().to_string(), "5 to 9");
        for wrong in ["", "0", "9..5", "x", "1..", "1..2..3", "-1", "9999999"] {
            assert!(wrong.parse::<Lengths>().is_err(), "{wrong}");
        }
    }
}
