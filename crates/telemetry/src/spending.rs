//! Cost of answers: by their tokens, or by the hours of the engines that generated them.

use std::iter::Sum;

/// Seconds in an hour.
const HOUR: f64 = 3600.0;

/// Cost over the last minute, and the tokens generated for it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Spending {
    /// US dollars per second.
    pub usd_per_s: f64,
    /// The part of the spending that is for engine hours, in US dollars per second.
    pub gpu_usd_per_s: f64,
    /// Output tokens per second, counted at the end of their answers.
    pub output_per_s: f64,
    /// True if any tokens or engines have a price.
    pub is_known: bool,
}

/// A backend's part in its engine's cost.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Rented {
    /// Index of its engine.
    pub engine: usize,
    /// Hourly price of that engine in US dollars, where it has one.
    pub hourly: Option<f64>,
    /// Token cost and output of the backend.
    pub spending: Spending,
}

impl Spending {
    /// US dollars per hour; `None` without a price.
    pub fn per_hour(&self) -> Option<f64> {
        self.is_known.then_some(self.usd_per_s * HOUR)
    }

    /// US dollars per million output tokens; `None` without a price or output.
    pub fn per_million_output(&self) -> Option<f64> {
        (self.is_known && self.output_per_s > 0.0).then(|| self.usd_per_s / self.output_per_s * 1e6)
    }

    /// Cost of each of `backends`: its part of its engine's hour where that has a price, otherwise its tokens. Backends
    /// on one engine share its hour in proportion to their output tokens, and evenly without any, so that the parts
    /// always add up to the engine.
    pub fn of(backends: &[Rented]) -> Vec<Self> {
        let on = |engine| backends.iter().filter(move |it| it.engine == engine);
        let part = |it: &Rented| {
            let all: f64 = on(it.engine).map(|it| it.spending.output_per_s).sum();
            if all > 0.0 { it.spending.output_per_s / all } else { 1.0 / on(it.engine).count().max(1) as f64 }
        };
        let own = |it: &Rented| match it.hourly {
            None => it.spending,
            Some(usd) => {
                let usd_per_s = usd / HOUR * part(it);
                Self { usd_per_s, gpu_usd_per_s: usd_per_s, is_known: true, ..it.spending }
            }
        };
        backends.iter().map(own).collect()
    }
}

impl Sum for Spending {
    /// Sums only priced parts: unpriced tokens would make the rest look cheap.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.filter(|it| it.is_known).fold(Self::default(), |sum, it| Self {
            usd_per_s: sum.usd_per_s + it.usd_per_s,
            gpu_usd_per_s: sum.gpu_usd_per_s + it.gpu_usd_per_s,
            output_per_s: sum.output_per_s + it.output_per_s,
            is_known: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rented(engine: usize, hourly: Option<f64>, usd_per_s: f64, output_per_s: f64) -> Rented {
        let spending = Spending { usd_per_s, output_per_s, is_known: usd_per_s > 0.0, ..Spending::default() };
        Rented { engine, hourly, spending }
    }

    #[test]
    fn an_engine_hour_is_shared_by_output_tokens() {
        let of = Spending::of(&[
            rented(0, Some(3.6), 0.0, 300.0),
            rented(0, Some(3.6), 0.5, 100.0),
            rented(1, None, 0.002, 10.0),
            rented(2, Some(7.2), 0.0, 0.0),
            rented(2, Some(7.2), 0.0, 0.0),
            rented(3, None, 0.0, 5000.0),
        ]);
        let per_s: Vec<f64> = of.iter().map(|it| it.usd_per_s).collect();
        let want = [0.000_75, 0.000_25, 0.002, 0.001, 0.001, 0.0];
        assert!(per_s.iter().zip(want).all(|(is, want)| (is - want).abs() < 1e-12), "{per_s:?}");
        let whole: Spending = of.iter().copied().sum();
        assert!((whole.gpu_usd_per_s - 0.003).abs() < 1e-12, "two engines: {whole:?}");
        assert!((whole.per_hour().unwrap() - 18.0).abs() < 1e-9, "{whole:?}");
        assert!((whole.output_per_s - 410.0).abs() < 1e-9, "what has no price does not count: {whole:?}");
        let million = of[0].per_million_output().unwrap();
        assert!((million - 2.5).abs() < 1e-9 && of[1].per_million_output() == Some(million), "one engine, one price");
        assert_eq!((of[3].per_million_output(), of[5].per_hour()), (None, None));
    }
}
