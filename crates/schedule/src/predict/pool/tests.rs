//! A pool and its backends together: cold start, slow backends, stalls and nonsense.

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;

fn at(seconds: f64) -> Moment {
    Moment::from_nanos((seconds * 1e9) as u64)
}

fn prompt(tokens: u64) -> Features {
    Features { uncached: tokens, prompt: tokens, ..Features::default() }
}

/// Requests of 500 to 2500 tokens, one each 0.2 s, to all backends in turn, of which each takes `times` as long as the
/// first.
struct Traffic {
    pool: PoolPredictor,
    backends: Vec<BackendPredictor>,
    dice: fastrand::Rng,
    seconds: f64,
}

impl Traffic {
    fn new(backends: usize) -> Self {
        let backends = (0..backends).map(|_| BackendPredictor::new()).collect();
        Self { pool: PoolPredictor::new(), backends, dice: fastrand::Rng::with_seed(1), seconds: 0.0 }
    }

    fn flow(&mut self, rounds: usize, times: &[f64]) {
        for _ in 0..rounds {
            self.seconds += 0.2;
            for (backend, times) in self.backends.iter().zip(times) {
                let features = prompt(self.dice.u64(500..2_500));
                let prediction = self.pool.model().ttft(backend, &features, None, at(self.seconds));
                let seconds = times * (0.05 + 0.0005 * features.uncached as f64) * (0.8 + 0.4 * self.dice.f64());
                self.pool.observe_ttft(backend, &features, &prediction, seconds, at(self.seconds));
            }
        }
    }

    fn predict(&self, backend: usize) -> Prediction {
        self.pool.model().ttft(&self.backends[backend], &prompt(1_000), None, at(self.seconds))
    }
}

#[test]
fn slot_waits_are_learned_per_backend() {
    let (pool, mut dice) = (PoolPredictor::new(), fastrand::Rng::with_seed(1));
    let backends = [BackendPredictor::new(), BackendPredictor::new()];
    for turn in 0..200 {
        for (backend, times) in backends.iter().zip([1.0, 6.0]) {
            let slots = if turn % 3 == 0 { 0.1 + 0.2 * dice.f64() } else { 0.0 };
            let features = Features { slots, ..prompt(dice.u64(50..1_500)) };
            let prediction = pool.model().ttft(backend, &features, None, at(f64::from(turn)));
            let seconds = 0.02 + 0.000_1 * features.uncached as f64 + times * slots * (0.5 + dice.f64());
            pool.observe_ttft(backend, &features, &prediction, seconds, at(f64::from(turn)));
        }
    }
    let waits = backends.map(|backend| {
        let wait =
            |slots| pool.model().ttft(&backend, &Features { slots, queued: 1, ..prompt(500) }, None, at(200.0)).seconds;
        (wait(0.2) - wait(0.0)) / 0.2
    });
    assert!((0.5..1.7).contains(&waits[0]) && (4.0..8.0).contains(&waits[1]), "{waits:?}");
}

#[test]
fn threads_may_share_them() {
    fn shared<T: Send + Sync>() {}
    shared::<PoolPredictor>();
    shared::<BackendPredictor>();
    shared::<Model>();
}

#[test]
fn a_cold_pool_predicts_at_once_and_learns_within_a_dozen_requests() {
    let mut traffic = Traffic::new(1);
    let cold = traffic.predict(0);
    assert!((0.2..0.5).contains(&cold.seconds) && cold.p90 > 1.5 * cold.seconds, "{cold:?}");
    assert!((0.3..0.8).contains(&traffic.pool.model().ttft_within(cold.seconds, &cold)));
    traffic.flow(12, &[1.0]);
    let warm = traffic.predict(0);
    assert!((0.45..0.65).contains(&warm.seconds), "{warm:?}");
    traffic.flow(500, &[1.0]);
    let known = traffic.predict(0);
    assert!((0.52..0.58).contains(&known.seconds) && (1.05..1.3).contains(&(known.p90 / known.seconds)), "{known:?}");
    let accuracy = traffic.pool.ttft_accuracy().unwrap();
    assert!((0.85..0.95).contains(&accuracy.coverage) && accuracy.relative_error < 0.15, "{accuracy:?}");
    assert!(accuracy.pinball < 0.5 * accuracy.baseline_pinball, "{accuracy:?}");
}

#[test]
fn a_slow_backend_is_distinguished_from_a_slow_pool() {
    let mut traffic = Traffic::new(4);
    traffic.flow(200, &[1.0; 4]);
    traffic.flow(25, &[4.0, 1.0, 1.0, 1.0]);
    let (slow, other) = (traffic.predict(0), traffic.predict(1));
    assert!(slow.speed > 2.5 && slow.seconds / other.seconds > 2.5, "after 5 s: {slow:?} {other:?}");
    assert!((0.4..0.8).contains(&other.seconds), "{other:?}");
    traffic.flow(1_000, &[4.0, 1.0, 1.0, 1.0]);
    let (slow, other) = (traffic.predict(0), traffic.predict(1));
    assert!((3.4..4.6).contains(&(slow.seconds / other.seconds)), "{slow:?} {other:?}");
    assert!((0.9..1.1).contains(&(slow.speed * other.speed.powi(3))), "speeds are about the pool's mean");
    traffic.flow(25, &[1.0; 4]);
    let (back, other) = (traffic.predict(0), traffic.predict(1));
    assert!(back.seconds / other.seconds < 1.4, "5 s after it recovered: {back:?} {other:?}");

    traffic.flow(2_000, &[3.0; 4]);
    let all = traffic.predict(2);
    assert!((1.4..1.9).contains(&all.seconds) && (0.8..1.25).contains(&all.speed), "all slow is normal: {all:?}");
}

#[test]
fn a_stall_shows_before_anything_completes() {
    let mut traffic = Traffic::new(2);
    traffic.flow(200, &[1.0; 2]);
    let (model, now) = (traffic.pool.model(), at(traffic.seconds));
    let ask = |waiting: Option<&Waiting>| model.ttft(&traffic.backends[0], &prompt(1_000), waiting, now);
    let prediction = ask(None);
    let waiting = |age| Waiting { age, prediction };
    assert_eq!(ask(Some(&waiting(prediction.seconds / 2.0))), prediction, "a bound never lowers anything");
    for _ in 0..1_000 {
        let late = ask(Some(&waiting(4.0 * prediction.p90)));
        assert!((late.speed - 4.0).abs() < 1e-6 && (late.seconds / prediction.seconds - 4.0).abs() < 1e-6);
    }
    assert_eq!(ask(None), prediction, "nothing is kept of it");
    for age in [f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(ask(Some(&waiting(age))), prediction);
    }
}

#[test]
fn times_per_token_follow_the_batch() {
    let (pool, backend, mut dice) = (PoolPredictor::new(), BackendPredictor::new(), fastrand::Rng::with_seed(1));
    let cold = pool.model().tpot(&backend, &Batch::default(), at(0.0));
    assert!((0.005..0.05).contains(&cold.seconds));
    for step in 0..2_000 {
        let now = at(f64::from(step) / 5.0);
        let batch = Batch { decoding: dice.u32(0..64), context: dice.u64(0..100_000), prompt: 500, arriving: 0.0 };
        let prediction = pool.model().tpot(&backend, &batch, now);
        let seconds = 0.02 + 0.0005 * f64::from(batch.decoding + 1) + 1e-7 * (batch.context + 500) as f64;
        pool.observe_tpot(&backend, &batch, &prediction, (seconds * (0.9 + 0.2 * dice.f64()), 100), now);
        pool.observe_tpot(&backend, &batch, &prediction, (9.0, 4), now);
    }
    let model = pool.model();
    let full = model.tpot(&backend, &Batch { decoding: 49, context: 49_500, prompt: 500, arriving: 0.0 }, at(400.0));
    assert!((0.047..0.053).contains(&full.seconds), "{full:?}");
    assert!(model.tpot_within(0.06, &full) > 0.95 && model.tpot_within(0.04, &full) < 0.05);
    assert!(pool.tpot_accuracy().unwrap().coverage > 0.85);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn predictions_are_valid_for_any_input(
        samples in prop::collection::vec(
            (any::<(u64, u64, u64, u32, u64)>(), any::<f64>(), any::<f64>(), 0..64_u32, any::<u64>()),
            0..60,
        ),
        limit: f64,
    ) {
        let (pool, backend) = (PoolPredictor::new(), BackendPredictor::new());
        for ((uncached, queued, prompt, decoding, overflow), progress, wild, scale, nanos) in samples {
            let features = Features {
                uncached: uncached >> scale,
                queued: queued >> scale,
                prompt: prompt >> scale,
                decoding,
                overflow: overflow >> scale,
                progress,
                slots: wild,
                load: 0.0,
            };
            let (model, now) = (pool.model(), Moment::from_nanos(nanos));
            let first = model.ttft(&backend, &features, None, now);
            let waiting = Waiting { age: wild, prediction: first };
            for made in [first, model.ttft(&backend, &features, Some(&waiting), now)] {
                prop_assert!(made.seconds > 0.0 && made.seconds <= made.p90 && made.p90.is_finite(), "{made:?}");
                prop_assert!(made.speed > 0.0 && made.speed.is_finite(), "{made:?}");
                prop_assert!((0.0..=1.0).contains(&model.ttft_within(limit, &made)));
                for seconds in [wild, wild.abs() % 100.0] {
                    pool.observe_ttft(&backend, &features, &made, seconds, now);
                }
            }
        }
    }
}
