//! Compiles the prices of pools, per token and per hour of their engines.

use super::{engines::Engines, reader::Reader};
use crate::{BackendSource, Pool};
use signalbox_config::{Field, Hourly, Located, Price as Raw, Problem, raw};
use signalbox_types::Price;

impl Reader<'_> {
    /// The price of a pool's tokens; `None` if only hours have a price.
    pub(super) fn token_price(&mut self, raw: &Located<Raw>) -> Option<Price> {
        let Raw { input, cached_input, cache_write, output, gpu_hour } = &raw.value;
        let of_tokens = [input, cached_input, cache_write, output].into_iter().any(Option::is_some);
        if of_tokens || gpu_hour.is_none() {
            for (field, name) in [(input, "input"), (output, "output")] {
                if field.is_none() {
                    self.report(
                        Problem::at(raw.at, format!("a price without `{name}`")).help(
                            "set the price of a million tokens, `{ input: 0.05, output: 0.10 }`, or that of an hour of each engine, \
                             `{ gpu_hour: 3.00 }`",
                        ),
                    );
                }
            }
        }
        let (input, output) = (self.optional(input.as_ref()), self.optional(output.as_ref()));
        let cached = self.optional(cached_input.as_ref());
        let input = input?;
        let written = self.optional(cache_write.as_ref());
        let (cached_input, cache_write) = (cached.unwrap_or(input), written.unwrap_or(input));
        Some(Price { input, cached_input, cache_write, output: output? })
    }

    /// Sets the hourly price of engines that a pool's sources may bring.
    pub(super) fn source_hours(&mut self, raw: &raw::Pool, sources: &mut [BackendSource]) {
        let hours = raw.price.as_ref().and_then(|price| price.value.gpu_hour.as_ref());
        // An unreadable price was reported with the pool's.
        let Some(Hourly(usd)) = hours.and_then(|field| self.config.read(field).ok()) else { return };
        for source in sources {
            source.engine.gpu_hour = source.engine.gpu_hour.or(Some(usd));
        }
    }

    /// Sets the hourly price of each pool's engines. An engine's own price takes precedence.
    pub(super) fn hours<'p>(&mut self, pools: impl Iterator<Item = (&'p raw::Pool, &'p Pool)>, engines: &mut Engines) {
        let mut given: Vec<Option<f64>> = vec![None; engines.list.len()];
        for (raw, pool) in pools {
            let Some(field) = raw.price.as_ref().and_then(|price| price.value.gpu_hour.as_ref()) else { continue };
            let Some(Hourly(usd)) = self.read(field) else { continue };
            for backend in &pool.backends {
                let (engine, given) = (&engines.list[backend.engine], &mut given[backend.engine]);
                match given {
                    _ if engine.gpu_hour.is_some() => {}
                    Some(other) if (*other - usd).abs() > f64::EPSILON => {
                        self.report(contradiction(field, &engine.name));
                    }
                    _ => *given = Some(usd),
                }
            }
        }
        for (engine, given) in engines.list.iter_mut().zip(given) {
            engine.gpu_hour = engine.gpu_hour.or(given);
        }
    }
}

fn contradiction(field: &Field<Hourly>, engine: &str) -> Problem {
    Problem::at(field.at(), format!("another pool has another price for an hour of engine `{engine}`"))
        .help("one server has one price: set it once, as the engine's own `gpu_hour`")
}
