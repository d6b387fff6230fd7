//! Compiles the aim of a route's tiers: one of four, with the prices it needs.

use super::reader::Reader;
use crate::{Pool, Target};
use signalbox_config::{Field, Problem, Share, raw};
use signalbox_types::{Aim, aim::MOST_TIERS};

/// Rounding tolerance of the sum of shares.
const ROUNDING: f64 = 1e-6;

impl Reader<'_> {
    /// Checks that all tiers have prices if the aim weighs money: without them every tier would seem free.
    pub(super) fn prices(&mut self, raw: &raw::Complexity, aim: &Aim, tiers: &[Target], pools: &[Pool]) {
        if !matches!(aim, Aim::ValuePerPoint { .. } | Aim::MaxSpendPerHour(_)) {
            return;
        }
        let named = raw.tiers.value.iter().zip(tiers);
        for (field, _) in named.filter(|(_, tier)| pools[tier.pool].price.is_none()) {
            self.report(
                Problem::at(
                    field.at(),
                    format!("pool `{}` has no price for tokens, which this aim weighs", field.text()),
                )
                .help("give the pool one, in US dollars per million tokens: `price: { input: 0.05, output: 0.10 }`"),
            );
        }
    }

    /// The aim of a rule.
    pub(super) fn aim(&mut self, raw: &raw::Complexity) -> Option<Aim> {
        let tiers = raw.tiers.value.len();
        if tiers < 2 {
            self.report(
                Problem::at(raw.tiers.at, "tiers that leave no choice")
                    .help("name two pools at least, the cheapest first: `tiers: [small, large]`"),
            );
        }
        if tiers > MOST_TIERS {
            self.report(
                Problem::at(raw.tiers.at, format!("more than {MOST_TIERS} tiers"))
                    .help("put models of one kind into one pool"),
            );
        }
        if let (Some(second), None) = (&raw.value_per_second, &raw.value_per_quality_point) {
            self.report(
                Problem::at(second.at(), "a value of time without one of quality")
                    .help("it is weighed against `value_per_quality_point`: add that, or remove this"),
            );
        }
        let given = [
            raw.shares.as_ref().map(|field| field.at),
            raw.min_quality.as_ref().map(Field::at),
            raw.value_per_quality_point.as_ref().map(Field::at),
            raw.max_spend_per_hour.as_ref().map(Field::at),
        ];
        let mut given = given.into_iter().flatten();
        let help = "set one of `shares: [75%, 25%]`, `min_quality: 80%`, `value_per_quality_point: 0.002` and \
                    `max_spend_per_hour: 12`";
        match (given.next(), given.next()) {
            (None, _) => {
                self.report(Problem::at(raw.tiers.at, "tiers without an aim to choose between them").help(help));
                return None;
            }
            (_, Some(second)) => {
                self.report(Problem::at(second, "a second aim for the same tiers").help(help));
                return None;
            }
            _ => {}
        }
        if let Some(shares) = &raw.shares {
            let read: Vec<f64> = shares.value.iter().filter_map(|f| self.read(f)).map(|Share(share)| share).collect();
            if shares.value.len() != tiers {
                self.report(
                    Problem::at(shares.at, format!("{} for {tiers} tiers", counted(shares.value.len())))
                        .help("give each tier its share, in the same order"),
                );
            } else if read.len() == tiers && (read.iter().sum::<f64>() - 1.0).abs() > ROUNDING {
                let sum = read.iter().sum::<f64>() * 100.0;
                self.report(
                    Problem::at(shares.at, format!("shares that add up to {sum:.4} %").replace(".0000", ""))
                        .help("let them add up to 100 %"),
                );
            }
            return Some(Aim::Shares(read));
        }
        if let Some(quality) = &raw.min_quality {
            return self.read(quality).map(|Share(quality)| Aim::MinQuality(quality));
        }
        if let Some(value) = &raw.value_per_quality_point {
            let second = self.optional(raw.value_per_second.as_ref()).unwrap_or(0.0);
            return self.read(value).map(|usd| Aim::ValuePerPoint { usd, second_usd: second });
        }
        self.optional(raw.max_spend_per_hour.as_ref()).map(Aim::MaxSpendPerHour)
    }
}

fn counted(shares: usize) -> String {
    if shares == 1 { "1 share".to_owned() } else { format!("{shares} shares") }
}
