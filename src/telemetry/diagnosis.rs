//! What bounds a pool, in a word for machines and in words for people: from how its answers' time is spent, what waits for it, and what its
//! engines say of themselves.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A KV cache this full leaves no room for the next prompt.
const FULL: f64 = 0.9;
/// Who waits for longer, in seconds, waits for room and not for a turn.
const WAITS: f64 = 1.0;
/// Above this share of an answer's time prompts are what takes long; below the other one, tokens are.
const PREFILL: f64 = 0.5;
const DECODE: f64 = 0.2;
/// A way to the engines that takes longer, in seconds, and more of the time to the first token than this share, is worth making shorter.
const FAR: f64 = 0.05;
const FAR_SHARE: f64 = 0.2;

/// What is known of a pool at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// Seconds to the first token and to the end, means over the last minute; `None` where nothing streamed.
    pub latencies: Option<(f64, f64)>,
    /// Requests that wait for room in it.
    pub queue_depth: u64,
    /// How long the first of them has waited, in seconds.
    pub queue_oldest: f64,
    /// How full the fullest KV cache of its engines is, 0 to 1, where they say so.
    pub kv_usage: Option<f64>,
    /// The share of their time that its engines spend on prompts, a mean, 0 to 1.
    pub utilisation: f64,
    /// The share of the places on its engines that are taken, where they are limited.
    pub filled: Option<f64>,
    /// Seconds to its engines and back, a mean over those where that is known.
    pub round_trip: Option<f64>,
}

/// What bounds a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnosis {
    /// One of [`STATES`].
    pub state: Cow<'static, str>,
    /// The same for people, with what to do about it.
    pub words: String,
}

/// Every state, from nothing to do to what is worst.
pub const STATES: [&str; 7] =
    ["idle", "balanced", "decode-bound", "prefill-bound", "network-bound", "kv-bound", "capacity-bound"];

impl Vitals {
    /// The share of an answer's time that passes before its first token, 0 to 1.
    pub fn prefill_share(&self) -> Option<f64> {
        let (first, whole) = self.latencies?;
        (whole > 0.0).then(|| (first / whole).clamp(0.0, 1.0))
    }

    /// How much of what its engines can do is used, 0 to 1; 1 as soon as anybody waits. To scale by.
    pub fn saturation(&self) -> f64 {
        if self.queue_depth > 0 {
            return 1.0;
        }
        let used = [Some(self.utilisation), self.kv_usage, self.filled];
        used.into_iter().flatten().fold(0.0, f64::max).clamp(0.0, 1.0)
    }

    /// What bounds it: what keeps requests out goes before what makes them slow.
    pub fn diagnose(&self) -> Diagnosis {
        let told = |state: &'static str, words| Diagnosis { state: state.into(), words };
        if self.queue_depth > 0 && self.queue_oldest >= WAITS {
            let words = format!(
                "{} for room, the first for {:.0} s: more engines, or higher limits where they have any, would help",
                waiting(self.queue_depth),
                self.queue_oldest
            );
            return told("capacity-bound", words);
        }
        if let Some(usage) = self.kv_usage.filter(|usage| *usage >= FULL) {
            let words = format!(
                "a KV cache is {:.0} % full: shorter prompts and answers, or more memory, would help",
                usage * 100.0
            );
            return told("kv-bound", words);
        }
        let (Some(share), Some((first, whole))) = (self.prefill_share(), self.latencies) else {
            return told("idle", "no streamed answer in the last minute".to_owned());
        };
        if let Some(way) = self.round_trip.filter(|way| *way > FAR && *way > first * FAR_SHARE) {
            let words = format!(
                "the network takes {:.0} ms to its engines and back, {:.0} % of the time to a first token ({first:.2} s): engines \
                 nearer to the gateway would help",
                way * 1e3,
                (way / first).min(1.0) * 100.0
            );
            return told("network-bound", words);
        }
        let spent = format!(
            "{:.0} % of an answer's time is before its first token ({first:.2} of {whole:.2} s)",
            share * 100.0
        );
        match share {
            _ if share > PREFILL => told(
                "prefill-bound",
                format!("{spent}: shorter or cached prompts, or engines for prompts alone, would help"),
            ),
            _ if share < DECODE => told(
                "decode-bound",
                format!("{spent}: a smaller or faster model, or fewer requests at once, would help"),
            ),
            _ => told("balanced", spent),
        }
    }
}

fn waiting(count: u64) -> String {
    if count == 1 { "1 request waits".to_owned() } else { format!("{count} requests wait") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_requests_out_goes_before_what_makes_them_slow() {
        let mut vitals = Vitals { latencies: Some((0.6, 1.0)), utilisation: 0.4, ..Vitals::default() };
        assert_eq!(vitals.diagnose().state, "prefill-bound");
        assert!(vitals.diagnose().words.starts_with("60 % of an answer's time"));
        assert!((vitals.saturation() - 0.4).abs() < 1e-12);
        vitals.kv_usage = Some(0.95);
        assert_eq!(vitals.diagnose().state, "kv-bound");
        (vitals.queue_depth, vitals.queue_oldest) = (1, 0.2);
        assert_eq!((&*vitals.diagnose().state, vitals.saturation()), ("kv-bound", 1.0));
        vitals.queue_oldest = 3.0;
        let Diagnosis { state, words } = vitals.diagnose();
        assert_eq!(state, "capacity-bound");
        assert!(words.starts_with("1 request waits for room, the first for 3 s"), "{words}");
        assert_eq!(Vitals::default().diagnose().state, "idle");
        for (round_trip, first, state) in
            [(0.08, 0.2, "network-bound"), (0.08, 0.6, "prefill-bound"), (0.04, 0.05, "decode-bound")]
        {
            let vitals = Vitals { latencies: Some((first, 1.0)), round_trip: Some(round_trip), ..Vitals::default() };
            assert_eq!(vitals.diagnose().state, state);
        }
        let far = Vitals { latencies: Some((0.2, 1.0)), round_trip: Some(0.08), ..Vitals::default() };
        assert!(far.diagnose().words.starts_with("the network takes 80 ms"), "{far:?}");
        for (first, state) in [(0.1, "decode-bound"), (0.3, "balanced"), (0.9, "prefill-bound")] {
            let vitals = Vitals { latencies: Some((first, 1.0)), ..Vitals::default() };
            assert_eq!(vitals.diagnose().state, state);
            assert!(STATES.contains(&state));
        }
    }
}
