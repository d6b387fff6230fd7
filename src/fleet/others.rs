//! Prompts that others have queued on an engine: what it has begun to compute for anybody, less what we sent it.
//!
//! Engines say how many requests they have, and not how long these are; a gateway that counts requests of its peers takes one of 20 000
//! tokens for one of 20. But an engine that counts prompt tokens as it begins with them, and those it had cached, tells how much work came to
//! it since it was last asked. What is not ours of that is theirs, and it runs down at the pace that our own prompts have there. The
//! oftener an engine is asked, the less of it is over before it is known.

use crate::types::Moment;

/// Tokens a second that an engine is taken to compute before any of ours was sent there.
const USUAL_PACE: f64 = 3_000.0;
/// Tokens of a prompt of others on the mean, at least: ours may be short.
const USUAL_PROMPT: f64 = 2_000.0;
/// No more than so many prompts of the mean size are taken to wait for each request of theirs: engines count a prompt that finds no memory
/// again and again.
const LONGEST_PROMPT: f64 = 8.0;

/// What others have queued on an engine, as far as it can be told.
#[derive(Debug, Default)]
pub(super) struct Others {
    last: Option<Seen>,
    /// Tokens of ours that the engine had not begun with then.
    unbegun: f64,
    /// Tokens of theirs that were still to be computed then.
    queued: f64,
}

/// An engine at one reading.
#[derive(Copy, Clone, Debug)]
struct Seen {
    begun: f64,
    sent: u64,
    at: Moment,
}

/// Our own part in an engine's work.
#[derive(Copy, Clone, Debug)]
pub(super) struct Ours {
    /// Tokens sent there to be computed, ever.
    pub(super) sent: u64,
    /// Those of them that are taken to wait still.
    pub(super) queued: u64,
    /// Those of them that are not known to have led to a first token.
    pub(super) unseen: u64,
    /// Tokens a second that our prompts have there of late, where any were sent that tell it.
    pub(super) pace: Option<f64>,
    /// Tokens of such a prompt, on average.
    pub(super) prompt: Option<f64>,
}

impl Ours {
    /// Tokens a second, ours and theirs.
    pub(super) fn pace(&self) -> f64 {
        self.pace.unwrap_or(USUAL_PACE)
    }
}

impl Others {
    /// Learns that at `now` the engine had begun with `begun` uncached prompt tokens in its life, and had `requests` of others. Returns how
    /// many tokens of theirs that makes since the last time.
    pub(super) fn read(&mut self, begun: Option<f64>, requests: f64, ours: &Ours, now: Moment) -> f64 {
        let Some(begun) = begun else { return 0.0 };
        let seen = Seen { begun, sent: ours.sent, at: now };
        let before = self.last.replace(seen).filter(|before| before.begun <= begun);
        let Some(before) = before else {
            // It was not listened to before, or started anew.
            (self.unbegun, self.queued) = (ours.unseen as f64, 0.0);
            return 0.0;
        };
        let left = drained(self.queued, before.at, ours, now);
        let sent = (ours.sent - before.sent) as f64;
        let unbegun = self.unbegun + sent - (begun - before.begun);
        // What has a first token was begun, however much we thought that it would be; but for what came after the engine said this.
        self.unbegun = unbegun.clamp(0.0, ours.unseen as f64 + sent);
        let theirs = -unbegun.min(0.0);
        let most = requests * LONGEST_PROMPT * ours.prompt.unwrap_or_default().max(USUAL_PROMPT);
        self.queued = (left + theirs).min(most);
        (self.queued - left).max(0.0)
    }

    /// Tokens of theirs that are still to be computed at `now`.
    pub(super) fn queued(&self, ours: impl FnOnce() -> Ours, now: Moment) -> u64 {
        match self.last {
            // Most engines are nobody else's.
            Some(last) if self.queued > 0.0 => drained(self.queued, last.at, &ours(), now) as u64,
            _ => 0,
        }
    }
}

/// What is left by `now` of `queued` tokens at `then`, while the engine computes ours too.
fn drained(queued: f64, then: Moment, ours: &Ours, now: Moment) -> f64 {
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
    fn ours(sent: u64, queued: u64) -> Ours {
        Ours { sent, queued, unseen: queued, pace: Some(1_000.0), prompt: Some(3_000.0) }
    }

    #[test]
    fn what_an_engine_begins_with_and_we_did_not_send_is_theirs_and_runs_down() {
        let mut others = Others::default();
        assert_eq!(others.read(Some(70_000.0), 3.0, &ours(0, 0), at(0)) as u64, 0, "nobody knows when that came");
        assert_eq!(others.queued(|| ours(0, 0), at(0)), 0);
        assert_eq!(others.read(Some(75_000.0), 3.0, &ours(2_000, 0), at(100)) as u64, 3_000);
        assert_eq!(others.queued(|| ours(2_000, 0), at(100)), 3_000);
        assert_eq!(others.queued(|| ours(2_000, 0), at(1_100)), 2_000);
        assert_eq!(others.queued(|| ours(5_000, 3_000), at(1_100)), 2_500, "the engine computes ours as well");
        assert_eq!(others.queued(|| ours(2_000, 0), at(60_000)), 0);
    }

    #[test]
    fn what_it_has_not_begun_with_is_not_mistaken_for_theirs_later() {
        let mut others = Others::default();
        others.read(Some(0.0), 1.0, &ours(0, 0), at(0));
        assert_eq!(others.read(Some(0.0), 1.0, &ours(4_000, 4_000), at(100)) as u64, 0);
        assert_eq!(others.read(Some(4_000.0), 1.0, &ours(4_000, 4_000), at(200)) as u64, 0);
        // What was found in its cache, against our expectation, is never begun with.
        assert_eq!(others.read(Some(4_000.0), 1.0, &ours(9_000, 5_000), at(300)) as u64, 0);
        assert_eq!(others.read(Some(5_000.0), 1.0, &ours(9_000, 0), at(400)) as u64, 0);
        assert_eq!(others.read(Some(6_000.0), 1.0, &ours(9_000, 0), at(500)) as u64, 1_000);
    }

    #[test]
    fn what_was_sent_before_it_was_listened_to_or_after_it_spoke_is_ours() {
        let mut others = Others::default();
        others.read(Some(0.0), 1.0, &ours(7_000, 7_000), at(0));
        assert_eq!(others.read(Some(7_000.0), 1.0, &ours(7_000, 0), at(100)) as u64, 0);
        // Sent and answered while the page was under way.
        assert_eq!(others.read(Some(7_000.0), 1.0, &ours(7_500, 0), at(200)) as u64, 0);
        assert_eq!(others.read(Some(7_500.0), 1.0, &ours(7_500, 0), at(300)) as u64, 0);
    }

    #[test]
    fn an_engine_that_starts_anew_has_nothing_of_theirs() {
        let mut others = Others::default();
        others.read(Some(9_000.0), 2.0, &ours(0, 0), at(0));
        others.read(Some(12_000.0), 2.0, &ours(0, 0), at(10));
        assert!(others.queued(|| ours(0, 0), at(10)) > 0);
        others.read(Some(100.0), 2.0, &ours(0, 0), at(20));
        assert_eq!(others.queued(|| ours(0, 0), at(20)), 0);
        others.read(None, 2.0, &ours(0, 0), at(30));
        assert_eq!(others.read(Some(400.0), 2.0, &ours(0, 0), at(40)) as u64, 300);
    }

    #[test]
    fn a_prompt_that_is_counted_again_and_again_is_one_prompt() {
        let (mut others, mut sum) = (Others::default(), 0.0);
        for step in 0..100_u32 {
            sum += others.read(Some(f64::from(step) * 200_000.0), 2.0, &ours(0, 0), at(u64::from(step) * 20));
        }
        assert_eq!(others.queued(|| ours(0, 0), at(99 * 20)), 2 * 8 * 3_000);
        assert!(
            sum <= f64::from(2 * 8 * 3_000 + 2_000),
            "{sum} tokens of work, where the engine can do a thousand a second"
        );
        others.read(Some(100.0 * 200_000.0), 0.0, &ours(0, 0), at(2_000));
        assert_eq!(others.queued(|| ours(0, 0), at(2_000)), 0, "nobody is there");
    }

    proptest! {
        #[test]
        fn whatever_engines_say_it_stays_a_number_within_bounds(
            steps in proptest::collection::vec((any::<f64>(), any::<f64>(), 0..1_u64 << 40, 0..1_u64 << 40, any::<f64>()), 1..40),
        ) {
            let mut others = Others::default();
            let mut sent = 0;
            for (step, (begun, requests, more, queued, pace)) in steps.into_iter().enumerate() {
                sent += more;
                let pace = Some(pace.abs()).filter(|pace| *pace > 0.0);
                let ours = Ours { sent, queued, unseen: queued, pace, prompt: None };
                let requests = if requests.is_finite() { requests.abs().min(1e6) } else { 0.0 };
                let begun = Some(begun.abs()).filter(|begun| begun.is_finite());
                let theirs = others.read(begun, requests, &ours, at(step as u64));
                prop_assert!(theirs >= 0.0 && theirs.is_finite());
                prop_assert!(others.queued(|| ours, at(step as u64)) as f64 <= 8.0 * USUAL_PROMPT * 1e6);
            }
        }
    }
}
