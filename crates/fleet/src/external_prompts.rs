//! Prompt tokens of other clients that are queued on an engine: the tokens it began to compute, less those we sent.
//!
//! Engines report how many requests they have, but not how long these are: counting requests alone, a prompt of 20,000
//! tokens would weigh as much as one of 20. An engine that counts prompt tokens as it starts on them, and cached ones,
//! shows how much work arrived since the last poll. The part that is not ours is external, and it runs down at the
//! speed measured for our own prompts there. The more often an engine is polled, the less of that work ends unseen.

use signalbox_types::Moment;

/// Assumed prompt tokens a second before any of our prompts was measured.
const DEFAULT_PACE: f64 = 3_000.0;
/// Lower bound of the assumed mean length of external prompts: ours may be short.
const LEAST_MEAN_PROMPT: f64 = 2_000.0;
/// Bound on queued tokens, in mean prompts per external request: engines count a prompt again each time it finds no
/// memory.
const MOST_PROMPTS_PER_REQUEST: f64 = 8.0;

/// Estimate of the prompt tokens that other clients have queued on an engine.
#[derive(Debug, Default)]
pub(super) struct ExternalPrompts {
    last: Option<Counters>,
    /// Our tokens that the engine had not started on at the last reading.
    unstarted: f64,
    /// External tokens that were still to be computed at the last reading.
    queued: f64,
}

/// Counters of an engine at one reading.
#[derive(Copy, Clone, Debug)]
struct Counters {
    started: f64,
    sent: u64,
    at: Moment,
}

/// The gateway's own share of an engine's work.
#[derive(Copy, Clone, Debug)]
pub(super) struct OwnWork {
    /// Tokens sent to be computed, in total.
    pub(super) sent: u64,
    /// Tokens that are assumed to be waiting still.
    pub(super) queued: u64,
    /// Tokens that are not known to have led to a first token.
    pub(super) unseen: u64,
    /// Recent tokens a second of our prompts, where enough were sent to measure it.
    pub(super) pace: Option<f64>,
    /// Mean tokens of these prompts.
    pub(super) prompt: Option<f64>,
}

impl OwnWork {
    /// With tokens that other gateways report as sent and as queued: they are as well known as ours.
    pub(super) const fn with(mut self, sent: u64, queued: u64) -> Self {
        self.sent = self.sent.saturating_add(sent);
        self.queued = self.queued.saturating_add(queued);
        self.unseen = self.unseen.saturating_add(queued);
        self
    }

    /// Tokens a second, ours and external.
    pub(super) fn pace(&self) -> f64 {
        self.pace.unwrap_or(DEFAULT_PACE)
    }
}

impl ExternalPrompts {
    /// Records that at `now` the engine had started on `started` uncached prompt tokens in its life and had `requests`
    /// external requests. Returns the external tokens that arrived since the last reading.
    pub(super) fn record(&mut self, started: Option<f64>, requests: f64, ours: &OwnWork, now: Moment) -> f64 {
        let Some(started) = started else { return 0.0 };
        let seen = Counters { started, sent: ours.sent, at: now };
        let before = self.last.replace(seen).filter(|before| before.started <= started);
        let Some(before) = before else {
            // First reading, or the engine restarted.
            (self.unstarted, self.queued) = (ours.unseen as f64, 0.0);
            return 0.0;
        };
        let left = drained(self.queued, before.at, ours, now);
        let sent = ours.sent.saturating_sub(before.sent) as f64;
        let unstarted = self.unstarted + sent - (started - before.started);
        // A prompt with a first token was started, however long it was expected to be. Excludes tokens sent after the
        // engine reported this.
        self.unstarted = unstarted.clamp(0.0, ours.unseen as f64 + sent);
        let external = -unstarted.min(0.0);
        let most = requests * MOST_PROMPTS_PER_REQUEST * ours.prompt.unwrap_or_default().max(LEAST_MEAN_PROMPT);
        self.queued = (left + external).min(most);
        (self.queued - left).max(0.0)
    }

    /// External tokens that are still to be computed at `now`.
    pub(super) fn queued(&self, ours: impl FnOnce() -> OwnWork, now: Moment) -> u64 {
        match self.last {
            // Most engines have no other clients.
            Some(last) if self.queued > 0.0 => drained(self.queued, last.at, &ours(), now) as u64,
            _ => 0,
        }
    }
}

/// Rest at `now` of `queued` tokens at `then`, while the engine computes ours too.
fn drained(queued: f64, then: Moment, ours: &OwnWork, now: Moment) -> f64 {
    if queued <= 0.0 {
        return 0.0;
    }
    let share = queued / (queued + ours.queued as f64);
    (queued - share * ours.pace() * now.seconds_since(then)).max(0.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::default().plus(Duration::from_millis(millis))
    }

    /// So many tokens sent and queued, at a thousand tokens a second and three thousand a prompt.
    fn ours(sent: u64, queued: u64) -> OwnWork {
        OwnWork { sent, queued, unseen: queued, pace: Some(1_000.0), prompt: Some(3_000.0) }
    }

    #[test]
    fn started_tokens_beyond_ours_are_external_and_run_down() {
        let mut others = ExternalPrompts::default();
        assert_eq!(others.record(Some(70_000.0), 3.0, &ours(0, 0), at(0)) as u64, 0, "nobody knows when that came");
        assert_eq!(others.queued(|| ours(0, 0), at(0)), 0);
        assert_eq!(others.record(Some(75_000.0), 3.0, &ours(2_000, 0), at(100)) as u64, 3_000);
        assert_eq!(others.queued(|| ours(2_000, 0), at(100)), 3_000);
        assert_eq!(others.queued(|| ours(2_000, 0), at(1_100)), 2_000);
        assert_eq!(others.queued(|| ours(5_000, 3_000), at(1_100)), 2_500, "the engine computes ours as well");
        assert_eq!(others.queued(|| ours(2_000, 0), at(60_000)), 0);
    }

    #[test]
    fn our_unstarted_tokens_never_count_as_external() {
        let mut others = ExternalPrompts::default();
        others.record(Some(0.0), 1.0, &ours(0, 0), at(0));
        assert_eq!(others.record(Some(0.0), 1.0, &ours(4_000, 4_000), at(100)) as u64, 0);
        assert_eq!(others.record(Some(4_000.0), 1.0, &ours(4_000, 4_000), at(200)) as u64, 0);
        // What was found in its cache, against our expectation, is never started with.
        assert_eq!(others.record(Some(4_000.0), 1.0, &ours(9_000, 5_000), at(300)) as u64, 0);
        assert_eq!(others.record(Some(5_000.0), 1.0, &ours(9_000, 0), at(400)) as u64, 0);
        assert_eq!(others.record(Some(6_000.0), 1.0, &ours(9_000, 0), at(500)) as u64, 1_000);
    }

    #[test]
    fn tokens_sent_around_a_reading_count_as_ours() {
        let mut others = ExternalPrompts::default();
        others.record(Some(0.0), 1.0, &ours(7_000, 7_000), at(0));
        assert_eq!(others.record(Some(7_000.0), 1.0, &ours(7_000, 0), at(100)) as u64, 0);
        // Sent and answered while the page was under way.
        assert_eq!(others.record(Some(7_000.0), 1.0, &ours(7_500, 0), at(200)) as u64, 0);
        assert_eq!(others.record(Some(7_500.0), 1.0, &ours(7_500, 0), at(300)) as u64, 0);
    }

    #[test]
    fn a_restart_clears_external_tokens() {
        let mut others = ExternalPrompts::default();
        others.record(Some(9_000.0), 2.0, &ours(0, 0), at(0));
        others.record(Some(12_000.0), 2.0, &ours(0, 0), at(10));
        assert!(others.queued(|| ours(0, 0), at(10)) > 0);
        others.record(Some(100.0), 2.0, &ours(0, 0), at(20));
        assert_eq!(others.queued(|| ours(0, 0), at(20)), 0);
        others.record(None, 2.0, &ours(0, 0), at(30));
        assert_eq!(others.record(Some(400.0), 2.0, &ours(0, 0), at(40)) as u64, 300);
    }

    #[test]
    fn recounted_prompts_are_bounded() {
        let (mut others, mut sum) = (ExternalPrompts::default(), 0.0);
        for step in 0..100_u32 {
            sum += others.record(Some(f64::from(step) * 200_000.0), 2.0, &ours(0, 0), at(u64::from(step) * 20));
        }
        assert_eq!(others.queued(|| ours(0, 0), at(99 * 20)), 2 * 8 * 3_000);
        assert!(
            sum <= f64::from(2 * 8 * 3_000 + 2_000),
            "{sum} tokens of work, where the engine can do a thousand a second"
        );
        others.record(Some(100.0 * 200_000.0), 0.0, &ours(0, 0), at(2_000));
        assert_eq!(others.queued(|| ours(0, 0), at(2_000)), 0, "nobody is there");
    }

    proptest! {
        #[test]
        fn the_estimate_stays_finite_and_bounded(
            steps in proptest::collection::vec((any::<f64>(), any::<f64>(), 0..1_u64 << 40, 0..1_u64 << 40, any::<f64>()), 1..40),
        ) {
            let mut others = ExternalPrompts::default();
            let mut sent = 0;
            for (step, (started, requests, more, queued, pace)) in steps.into_iter().enumerate() {
                sent += more;
                let pace = Some(pace.abs()).filter(|pace| *pace > 0.0);
                let ours = OwnWork { sent, queued, unseen: queued, pace, prompt: None };
                let requests = if requests.is_finite() { requests.abs().min(1e6) } else { 0.0 };
                let started = Some(started.abs()).filter(|started| started.is_finite());
                let external = others.record(started, requests, &ours, at(step as u64));
                prop_assert!(external >= 0.0 && external.is_finite());
                prop_assert!(others.queued(|| ours, at(step as u64)) as f64 <= 8.0 * LEAST_MEAN_PROMPT * 1e6);
            }
        }
    }
}
