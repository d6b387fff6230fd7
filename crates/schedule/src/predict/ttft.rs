//! Time to first token, as a linear function of the work ahead of it.

/// Work of an engine before a request's first token, as known at dispatch.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// Tokens of this request's prompt that are not in the engine's prefix cache.
    pub uncached: u64,
    /// Uncached prompt tokens dispatched to the engine earlier that have not led to a first token yet, external ones
    /// included as far as known.
    pub queued: u64,
    /// Tokens of this request's prompt, cached or not.
    pub prompt: u64,
    /// Requests that are decoding.
    pub decoding: u32,
    /// Tokens by which the KV cache is too small for all that is promised, this request included; 0 where it suffices.
    pub overflow: u64,
    /// Seconds since the engine could start on the oldest queued request: since its last first token, or since the
    /// dispatch of the oldest queued request, whichever is later. 0 where unknown or nothing is queued.
    pub progress: f64,
    /// Seconds until one of the engine's slots is free, if requests occupy slots for as long as is usual in the pool; 0
    /// where one is free or the number is unknown. Each backend learns a factor on it.
    pub slots: f64,
    /// Seconds until the engine has loaded the model; 0 if it is loaded. Not a term of the model: it is learned for each
    /// model by itself, and first tokens that waited for it teach nothing else.
    pub load: f64,
}

/// Coefficients of the model.
pub(super) const TERMS: usize = 8;
/// Seconds: per request; per 1000 uncached tokens; per 1000 queued tokens; per decoding request; per 1000 tokens of
/// overflow; per 10 million token positions; per second of progress (subtracted); per second until a slot is free.
/// Typical for most engines.
pub(super) const PRIOR: [f64; TERMS] = [0.03, 0.3, 0.3, 0.0003, 0.1, 0.02, 1.0, 1.0];
/// Spread of engines around these values.
pub(super) const SPREAD: [f64; TERMS] = [0.03, 0.3, 0.3, 0.003, 0.5, 0.2, 1.0, 0.2];
/// Least prediction in seconds to which speeds apply: shorter ones consist mostly of other delays.
pub(super) const LEAST_SECONDS: f64 = 0.1;
/// Residuals are separate for requests that find nothing to wait for, which are predicted well, and for those that do.
pub(super) const CLASSES: usize = 2;

/// Longest wait for a slot, in seconds.
const LONGEST_WAIT: f64 = 3600.0;

const OVERFLOW: usize = 4;
const QUEUED: usize = 2;
const PROGRESS: usize = 6;
pub(super) const SLOTS: usize = 7;

impl Features {
    /// The same features with `times` the expected wait for a slot.
    pub(super) fn with_slot_wait(&self, times: f64) -> Self {
        Self { slots: self.slots * times, ..*self }
    }

    pub(super) fn class(&self) -> usize {
        usize::from(self.queued > 0 || self.slots > 0.0)
    }

    /// Factors of the `coefficients`.
    ///
    /// The cost of a prompt token grows with its position, since it attends to all tokens before it; the uncached
    /// tokens are at the prompt's end. Without `progress` the prompt being computed would count in full until its first
    /// token, and the model could only learn the mean of its rest. Progress reduces the waiting at most to zero: a
    /// stalled engine does not come nearer to its end.
    pub(super) fn terms(&self, coefficients: &[f64; TERMS]) -> [f64; TERMS] {
        let (uncached, queued, overflow) = (thousands(self.uncached), thousands(self.queued), thousands(self.overflow));
        let prompt = thousands(self.prompt).max(uncached);
        let position = prompt - uncached / 2.0;
        // A value that is not a number counts as no wait.
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

/// Seconds of these `terms` that are spent waiting, before the prompt itself is started.
pub(super) fn waiting(terms: &[f64; TERMS], coefficients: &[f64; TERMS]) -> f64 {
    [QUEUED, OVERFLOW, PROGRESS, SLOTS].iter().map(|&at| terms[at] * coefficients[at]).sum::<f64>().max(0.0)
}

/// Thousands of tokens, capped at a billion tokens.
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
    fn the_prior_is_typical_of_engines() {
        assert!((prior(Features::default()) - 0.03).abs() < 1e-9);
        let prompt = Features { uncached: 1_000, prompt: 1_000, ..Features::default() };
        assert!((prior(prompt) - 0.331).abs() < 1e-9);
        assert!(prior(Features { queued: 2_000, ..prompt }) > 0.9);
    }

    #[test]
    fn queued_work_is_waiting_and_the_prompt_itself_is_not() {
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
    fn progress_reduces_only_the_waiting() {
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
    fn only_the_remaining_wait_for_a_slot_counts() {
        let prompt = Features { uncached: 100, prompt: 100, ..Features::default() };
        assert!((prior(Features { slots: 0.5, ..prompt }) - prior(prompt) - 0.5).abs() < 1e-9);
        let halfway = Features { slots: 0.5, progress: 0.2, ..prompt };
        assert!((prior(halfway) - prior(prompt) - 0.3).abs() < 1e-9, "the time that passed counts there too");
        assert!((prior(Features { slots: f64::NAN, ..prompt }) - prior(prompt)).abs() < 1e-9);
    }

    #[test]
    fn cached_tokens_cost_only_attention() {
        let cached = Features { uncached: 1_000, prompt: 20_000, ..Features::default() };
        let fresh = Features { prompt: 1_000, ..cached };
        assert!(prior(cached) > prior(fresh));
        assert!(prior(cached) < prior(Features { uncached: 20_000, ..cached }) / 5.0);
    }
}
