//! Per-minute and concurrency limits of one caller, with its current usage.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::Bucket;
use signalbox_types::Moment;

/// Limits of a caller, or of an account at a provider; `None` for no limit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute, prompts and answers.
    pub tpm: Option<u64>,
    /// Concurrent requests.
    pub concurrency: Option<u64>,
}

/// The quantity that a limit applies to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Concurrent requests.
    Concurrency,
}

/// A limit that a request would have exceeded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The quantity that the limit applies to.
    pub kind: Kind,
    /// The limit.
    pub limit: u64,
    /// The remaining amount.
    pub remaining: u64,
    /// The amount that the request asked for.
    pub asked: u64,
    /// The time until enough remains; `None` if that never happens or cannot be known.
    pub after: Option<Duration>,
}

/// The status of one limit, as reported to its caller.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LimitStatus {
    /// The limit.
    pub limit: u64,
    /// The remaining amount.
    pub remaining: u64,
    /// The time until the whole limit is available again.
    #[serde(skip)]
    pub reset: Duration,
}

/// A caller's usage of its limits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// Requests per minute, where limited.
    pub requests: Option<LimitStatus>,
    /// Tokens per minute, where limited.
    pub tokens: Option<LimitStatus>,
    /// Requests in flight.
    pub in_flight: u64,
}

/// The limits of one caller and its usage of them.
#[derive(Debug)]
pub struct Allowance(Mutex<State>);

#[derive(Debug)]
struct State {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    concurrency: Option<u64>,
    in_flight: u64,
}

/// A slot for a request in flight; dropping it frees the slot.
#[derive(Debug)]
pub struct ConcurrencyPermit(Arc<Allowance>);

/// Tokens reserved for a request; dropping the reservation returns all of them.
#[derive(Debug)]
pub struct TokenReservation {
    allowance: Arc<Allowance>,
    tokens: u64,
}

impl Allowance {
    /// An unused allowance.
    pub fn new(limits: RateLimits, now: Moment) -> Self {
        let bucket = |limit: Option<u64>| limit.map(|limit| Bucket::new(limit, now));
        let (requests, tokens) = (bucket(limits.rpm), bucket(limits.tpm));
        Self(Mutex::new(State { requests, tokens, concurrency: limits.concurrency, in_flight: 0 }))
    }

    /// Replaces the limits; recorded usage is kept.
    pub fn set_limits(&self, limits: RateLimits, now: Moment) {
        let mut state = self.0.lock();
        let State { requests, tokens, concurrency, .. } = &mut *state;
        *concurrency = limits.concurrency;
        for (bucket, limit) in [(requests, limits.rpm), (tokens, limits.tpm)] {
            match (bucket.as_mut(), limit) {
                (Some(bucket), Some(limit)) if bucket.per_minute() == limit => {}
                (Some(bucket), Some(limit)) => bucket.set_limit(limit, now),
                (_, limit) => *bucket = limit.map(|limit| Bucket::new(limit, now)),
            }
        }
    }

    /// Admits one request.
    ///
    /// # Errors
    /// The per-minute or concurrency limit that it would exceed; nothing is taken then.
    pub fn enter(self: &Arc<Self>, now: Moment) -> Result<ConcurrencyPermit, Exceeded> {
        let mut state = self.0.lock();
        if let Some(most) = state.concurrency.filter(|most| state.in_flight >= *most) {
            return Err(Exceeded { kind: Kind::Concurrency, limit: most, remaining: 0, asked: 1, after: None });
        }
        if let Some(bucket) = &mut state.requests {
            take(bucket, Kind::Requests, 1, now)?;
        }
        state.in_flight += 1;
        Ok(ConcurrencyPermit(self.clone()))
    }

    /// Reserves the `expected` tokens of a request. If more are expected than the limit allows per minute, only the
    /// `certain` ones among them can make the request too large.
    ///
    /// # Errors
    /// The token limit that it would exceed; nothing is taken then.
    pub fn reserve(self: &Arc<Self>, certain: u64, expected: u64, now: Moment) -> Result<TokenReservation, Exceeded> {
        let mut tokens = expected;
        if let Some(bucket) = &mut self.0.lock().tokens {
            tokens = within(bucket.per_minute(), certain, expected);
            take(bucket, Kind::Tokens, tokens, now)?;
        }
        Ok(TokenReservation { allowance: self.clone(), tokens })
    }

    /// True if a request of `tokens` tokens can be admitted now. A request larger than the limit per minute is admitted
    /// when nothing else is used: the number is an estimate, and the provider decides.
    pub fn has_room(&self, tokens: u64, now: Moment) -> bool {
        self.0.lock().has_room(tokens, now)
    }

    /// Admits a request of `tokens` tokens if the per-minute limits have room for it. Takes no concurrency slot.
    pub fn admit(self: &Arc<Self>, tokens: u64, now: Moment) -> Option<TokenReservation> {
        let mut state = self.0.lock();
        if !state.has_room(tokens, now) {
            return None;
        }
        for (bucket, count) in state.buckets(tokens) {
            bucket.take(count);
        }
        Some(TokenReservation { allowance: self.clone(), tokens })
    }

    /// The current usage.
    pub fn standing(&self, now: Moment) -> Standing {
        let mut state = self.0.lock();
        let figures = |bucket: &mut Option<Bucket>| bucket.as_mut().map(|bucket| LimitStatus::of(bucket, now));
        let (requests, tokens) = (figures(&mut state.requests), figures(&mut state.tokens));
        Standing { requests, tokens, in_flight: state.in_flight }
    }

    /// Replaces the `before` tokens taken earlier with the `used` ones.
    fn correct(&self, before: u64, used: u64) {
        if let Some(bucket) = &mut self.0.lock().tokens {
            bucket.give_back(before.saturating_sub(used));
            bucket.take(used.saturating_sub(before));
        }
    }
}

impl State {
    /// The per-minute limits, each with the amount that a request of `tokens` tokens takes.
    fn buckets(&mut self, tokens: u64) -> impl Iterator<Item = (&mut Bucket, u64)> {
        let requests = self.requests.iter_mut().map(|bucket| (bucket, 1));
        requests.chain(self.tokens.iter_mut().map(move |bucket| (bucket, tokens)))
    }

    fn has_room(&mut self, tokens: u64, now: Moment) -> bool {
        self.buckets(tokens).all(|(bucket, count)| {
            let most = bucket.per_minute();
            bucket.wait(count.min(most), now) == Some(Duration::ZERO)
        })
    }
}

/// The number of `expected` tokens to request from a limit: at most all of it, as long as the `certain` ones among them
/// fit.
pub fn within(limit: u64, certain: u64, expected: u64) -> u64 {
    expected.min(limit.max(certain))
}

fn take(bucket: &mut Bucket, kind: Kind, count: u64, now: Moment) -> Result<(), Exceeded> {
    if bucket.wait(count, now) == Some(Duration::ZERO) {
        bucket.take(count);
        return Ok(());
    }
    Err(Exceeded::of(kind, bucket, count, now))
}

impl Exceeded {
    /// The error for a `bucket` that does not hold `asked` units of `kind`.
    pub fn of(kind: Kind, bucket: &mut Bucket, asked: u64, now: Moment) -> Self {
        let (limit, remaining) = (bucket.per_minute(), bucket.remaining(now));
        Self { kind, limit, remaining, asked, after: bucket.wait(asked, now) }
    }
}

impl LimitStatus {
    /// The status of `bucket`.
    pub fn of(bucket: &mut Bucket, now: Moment) -> Self {
        Self { limit: bucket.per_minute(), remaining: bucket.remaining(now), reset: bucket.reset(now) }
    }
}

impl TokenReservation {
    /// Number of reserved tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Ends the request, which has used `used` tokens. Unused tokens are returned; missing ones become a debt.
    pub fn settle(mut self, used: u64) {
        let before = std::mem::replace(&mut self.tokens, 0);
        self.allowance.correct(before, used);
    }
}

impl Drop for TokenReservation {
    fn drop(&mut self) {
        if self.tokens > 0 {
            self.allowance.correct(self.tokens, 0);
        }
    }
}

impl ConcurrencyPermit {
    /// Gives the request back to the limit per minute, as if it had never been admitted.
    pub fn cancel(self) {
        if let Some(bucket) = &mut self.0.0.lock().requests {
            bucket.give_back(1);
        }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        self.0.0.lock().in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    fn allowance(rpm: u64, tpm: u64, concurrency: u64) -> Arc<Allowance> {
        let limits = RateLimits { rpm: Some(rpm), tpm: Some(tpm), concurrency: Some(concurrency) };
        Arc::new(Allowance::new(limits, at(0)))
    }

    fn left(allowance: &Allowance, now: Moment) -> (u64, u64) {
        let standing = allowance.standing(now);
        (standing.requests.unwrap().remaining, standing.tokens.unwrap().remaining)
    }

    #[test]
    fn a_request_counts_against_rate_and_concurrency() {
        let allowance = allowance(3, 100, 2);
        let first = allowance.enter(at(0)).unwrap();
        let second = allowance.enter(at(0)).unwrap();
        assert_eq!(allowance.enter(at(0)).unwrap_err().kind, Kind::Concurrency);
        assert_eq!(left(&allowance, at(0)), (1, 100), "what is refused takes nothing");
        drop(first);
        let _third = allowance.enter(at(0)).unwrap();
        drop(second);
        let refused = allowance.enter(at(0)).unwrap_err();
        let want =
            Exceeded { kind: Kind::Requests, limit: 3, remaining: 0, asked: 1, after: Some(Duration::from_secs(20)) };
        assert_eq!(refused, want);
        let fourth = allowance.enter(at(20)).unwrap();
        fourth.cancel();
        assert_eq!((left(&allowance, at(20)).0, allowance.standing(at(20)).in_flight), (1, 1), "as if it had not come");
    }

    #[test]
    fn tokens_are_settled_by_what_was_used() {
        let allowance = allowance(10, 100, 10);
        allowance.reserve(80, 80, at(0)).unwrap().settle(30);
        assert_eq!(left(&allowance, at(0)).1, 70);
        allowance.reserve(10, 10, at(0)).unwrap().settle(90);
        assert_eq!(allowance.reserve(5, 5, at(0)).unwrap_err().after, Some(Duration::from_secs(15)), "20 are owed");
        drop(allowance.reserve(50, 50, at(60)).unwrap());
        assert_eq!(left(&allowance, at(60)).1, 80, "what is not settled comes back");
        assert_eq!(allowance.reserve(101, 101, at(600)).unwrap_err().after, None);
    }

    #[test]
    fn expected_tokens_alone_never_make_a_request_too_large() {
        let allowance = allowance(10, 100, 10);
        assert_eq!(allowance.reserve(101, 300, at(0)).unwrap_err().after, None);
        let reserved = allowance.reserve(10, 300, at(0)).unwrap();
        assert_eq!((reserved.tokens(), left(&allowance, at(0)).1), (100, 0));
        assert_eq!(allowance.reserve(10, 300, at(0)).unwrap_err().after, Some(Duration::from_mins(1)));
        reserved.settle(30);
        assert_eq!(left(&allowance, at(0)).1, 70);
    }

    #[test]
    fn an_account_lets_in_what_it_has_room_for() {
        let account = allowance(2, 100, 1);
        let first = account.admit(60, at(0)).unwrap();
        assert!(account.admit(60, at(0)).is_none() && account.has_room(40, at(0)));
        first.settle(20);
        let second = account.admit(60, at(0)).unwrap();
        assert!(!account.has_room(1, at(0)), "two requests were sent");
        drop(second);
        assert!(account.has_room(500, at(60)), "what is larger than all goes when nothing else is used");
        assert!(account.admit(500, at(60)).is_some());
    }

    #[test]
    fn new_limits_hold_at_once_and_keep_usage() {
        let allowance = allowance(10, 100, 1);
        let _under_way = allowance.enter(at(0)).unwrap();
        allowance.set_limits(RateLimits { rpm: Some(5), tpm: None, concurrency: Some(2) }, at(0));
        let standing = allowance.standing(at(0));
        assert_eq!((standing.requests.unwrap().remaining, standing.tokens, standing.in_flight), (4, None, 1));
        assert!(allowance.enter(at(0)).is_ok());
    }

    proptest! {
        #[test]
        fn no_tokens_are_lost_on_drop_or_settle(
            steps in prop::collection::vec((1_u64..500, prop::option::of(0_u64..500)), 0..50),
        ) {
            let allowance = allowance(1_000_000, 1_000_000, 100);
            let (mut held, mut used) = (Vec::new(), 0);
            for (tokens, actual) in steps {
                let stay = allowance.enter(at(0)).unwrap();
                let reserved = allowance.reserve(tokens, tokens, at(0)).unwrap();
                match actual {
                    None => held.push((stay, reserved)),
                    Some(actual) => {
                        reserved.settle(actual);
                        used += actual;
                    }
                }
            }
            let reserved: u64 = held.iter().map(|(_, reserved)| reserved.tokens()).sum();
            prop_assert_eq!(left(&allowance, at(0)).1, 1_000_000 - used - reserved);
            prop_assert_eq!(allowance.standing(at(0)).in_flight, held.len() as u64);
            held.clear();
            prop_assert_eq!(left(&allowance, at(0)).1, 1_000_000 - used);
            prop_assert_eq!(allowance.standing(at(0)).in_flight, 0);
        }
    }
}
