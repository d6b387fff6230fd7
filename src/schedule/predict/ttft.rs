//! The time to the first token as a linear function of the work ahead of it.

/// What a backend's engine has to do before the first token, known when the request is dispatched.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// Tokens of this request's prompt that the engine does not hold in its prefix cache.
    pub uncached: u64,
    /// Uncached prompt tokens dispatched to the engine before, that have not led to a first token yet; with others', as far as they
    /// are known.
    pub queued: u64,
    /// Tokens of this request's prompt, cached or not.
    pub prompt: u64,
    /// Requests that are being answered token by token.
    pub decoding: u32,
    /// Tokens by which the KV cache will be too small for all that was promised, this request included; 0 where it suffices.
    pub overflow: u64,
    /// Seconds since the engine could begin with the first of what is queued: since the last first token it sent, or since the
    /// oldest queued request was dispatched, whichever came later. 0 where that is not known or nothing is queued.
    pub progress: f64,
    /// Seconds until one of the engine's slots is free, if those who have them stay as long as the pool's requests usually do; 0 where
    /// one is free, or their number is not known. How much longer they stay on a backend is learned there.
    pub slots: f64,
}

/// Coefficients of the model.
pub(super) const TERMS: usize = 8;
/// Seconds: for any request; per 1000 uncached tokens; per 1000 queued tokens; per decoding request; per 1000 tokens of
/// overflow; per 10 million token positions; per second of progress (to be subtracted); per second that slots should take to
/// become free. What most engines come near to, to start from.
pub(super) const PRIOR: [f64; TERMS] = [0.03, 0.3, 0.3, 0.0003, 0.1, 0.02, 1.0, 1.0];
/// How far engines stray from that.
pub(super) const SPREAD: [f64; TERMS] = [0.03, 0.3, 0.3, 0.003, 0.5, 0.2, 1.0, 0.2];
/// Speeds apply from this many seconds on: shorter ones are made of what is not the engine's speed.
pub(super) const LEAST_SECONDS: f64 = 0.1;
/// Residuals are kept apart for requests that find nothing to wait for, which are predicted well, and for those that do.
pub(super) const CLASSES: usize = 2;

/// Nobody waits for longer, in seconds.
const LONGEST_WAIT: f64 = 3600.0;

const OVERFLOW: usize = 4;
const QUEUED: usize = 2;
const PROGRESS: usize = 6;
pub(super) const SLOTS: usize = 7;

impl Features {
    /// The same where requests stay in slots for so many times as long as expected.
    pub(super) fn staying(&self, times: f64) -> Self {
        Self { slots: self.slots * times, ..*self }
    }

    pub(super) fn class(&self) -> usize {
        usize::from(self.queued > 0 || self.slots > 0.0)
    }

    /// What the `coefficients` are multiplied with.
    ///
    /// The cost of a prompt token grows with its position, for it attends to all before it; the mean position of the
    /// uncached tokens is in the prompt's end. Without `progress` the prompt at work would count in full until its first
    /// token, and the model could only learn the mean of what is left of it. Progress takes off the waiting at most:
    /// an engine that stalls does not thereby come nearer to its end.
    pub(super) fn terms(&self, coefficients: &[f64; TERMS]) -> [f64; TERMS] {
        let (uncached, queued, overflow) = (thousands(self.uncached), thousands(self.queued), thousands(self.overflow));
        let prompt = thousands(self.prompt).max(uncached);
        let position = prompt - uncached / 2.0;
        // What is not a number is no wait.
        let slots = if self.slots > 0.0 { self.slots.min(LONGEST_WAIT) } else { 0.0 };
        let waiting = coefficients[QUEUED] * queued + coefficients[OVERFLOW] * overflow + coefficients[SLOTS] * slots;
        let progress = if self.progress > 0.0 && coefficients[PROGRESS] > 0.0 {
            self.progress.min(waiting / coefficients[PROGRESS])
        } else {
            0.0
        };
        [1.0, uncached, queued, f64::from(self.decoding), overflow, uncached * position * 0.1, -progress, slots]
    }
}

/// Of these `terms`, the seconds that are spent waiting, before the prompt itself is begun with.
pub(super) fn waiting(terms: &[f64; TERMS], coefficients: &[f64; TERMS]) -> f64 {
    [QUEUED, OVERFLOW, PROGRESS, SLOTS].iter().map(|&at| terms[at] * coefficients[at]).sum::<f64>().max(0.0)
}

/// Thousands of tokens; beyond a billion tokens it is not a count.
fn thousands(tokens: u64) -> f64 {
    tokens.min(1_000_000_000) as f64 * 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(features: Features) -> f64 {
        features.terms(&PRIOR).iter().zip(PRIOR).map(|(x, coefficient)| x * coefficient).sum()
    }

    #[test]
    fn a_cold_model_says_what_engines_mostly_do() {
        assert!((prior(Features::default()) - 0.03).abs() < 1e-9);
        let prompt = Features { uncached: 1_000, prompt: 1_000, ..Features::default() };
        assert!((prior(prompt) - 0.331).abs() < 1e-9);
        assert!(prior(Features { queued: 2_000, ..prompt }) > 0.9);
    }

    #[test]
    fn what_is_before_a_prompt_is_waited_for_and_the_prompt_is_not() {
        let wait = |features: Features| waiting(&features.terms(&PRIOR), &PRIOR);
        let queued = Features { uncached: 9_000, prompt: 9_000, queued: 2_000, ..Features::default() };
        assert!((wait(queued) - 0.6).abs() < 1e-9);
        assert!((wait(Features { progress: 0.2, ..queued }) - 0.4).abs() < 1e-9);
        assert!((wait(Features { slots: 1.0, ..queued }) - 1.6).abs() < 1e-9);
        for progress in [f64::NAN, 1.0, 1e9] {
            assert!((0.0..=0.6).contains(&wait(Features { progress, ..queued })), "{progress}");
        }
        assert!(wait(Features { queued: 0, ..queued }).abs() < 1e-9);
    }

    #[test]
    fn progress_takes_off_the_waiting_and_no_more() {
        let queued = Features { uncached: 100, prompt: 100, queued: 2_000, ..Features::default() };
        let half = Features { progress: 0.3, ..queued };
        assert!((prior(queued) - prior(half) - 0.3).abs() < 1e-9);
        let alone = Features { queued: 0, ..queued };
        for progress in [1.0, 1e9, f64::INFINITY] {
            assert!((prior(Features { progress, ..queued }) - prior(alone)).abs() < 1e-9);
        }
        for progress in [f64::NAN, -1.0] {
            assert!((prior(Features { progress, ..queued }) - prior(queued)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_wait_for_a_slot_counts_and_what_has_passed_of_it_does_not() {
        let prompt = Features { uncached: 100, prompt: 100, ..Features::default() };
        assert!((prior(Features { slots: 0.5, ..prompt }) - prior(prompt) - 0.5).abs() < 1e-9);
        let halfway = Features { slots: 0.5, progress: 0.2, ..prompt };
        assert!((prior(halfway) - prior(prompt) - 0.3).abs() < 1e-9, "the time that passed counts there too");
        assert!((prior(Features { slots: f64::NAN, ..prompt }) - prior(prompt)).abs() < 1e-9);
    }

    #[test]
    fn what_is_cached_costs_nothing_but_lies_before_what_is_not() {
        let cached = Features { uncached: 1_000, prompt: 20_000, ..Features::default() };
        let fresh = Features { prompt: 1_000, ..cached };
        assert!(prior(cached) > prior(fresh));
        assert!(prior(cached) < prior(Features { uncached: 20_000, ..cached }) / 5.0);
    }
}
