//! The built-in table of prices and context sizes of well-known hosted models.

use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::Deserialize;

use super::{Backend, Engine, Pool};
use signalbox_config::authority;
use signalbox_types::Price;

/// The table.
static TABLE: LazyLock<PriceTable> = LazyLock::new(|| {
    let mut table: PriceTable =
        serde_json::from_str(include_str!("prices.json")).expect("the built-in table has this shape");
    for provider in &mut table.providers {
        provider.models.values_mut().for_each(|it| it.price.cache_write = it.price.input * provider.cache_write);
    }
    table
});

/// Prices and context sizes, as of one date.
#[derive(Debug, Deserialize)]
pub struct PriceTable {
    /// The date on which they were read.
    pub date: String,
    /// The source.
    pub source: String,
    /// The providers.
    pub providers: Vec<Provider>,
}

/// The models of one provider.
#[derive(Debug, Deserialize)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// The page with its prices.
    pub page: String,
    /// The hosts of its API; `*.` stands for any names before the rest.
    pub hosts: Vec<String>,
    /// True if other providers serve models of the same names, at other prices.
    open_weights: bool,
    /// Price of a prompt token that is written to the prefix cache, as a factor of `input`.
    #[serde(default = "one")]
    cache_write: f64,
    /// The models by their names upstream.
    pub models: IndexMap<String, Listed>,
}

const fn one() -> f64 {
    1.0
}

/// A listed model.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "(f64, Option<f64>, f64, Option<u64>)")]
pub struct Listed {
    /// The price of its tokens.
    pub price: Price,
    /// Its context size in tokens, if known.
    pub context: Option<u64>,
}

impl From<(f64, Option<f64>, f64, Option<u64>)> for Listed {
    fn from((input, cached, output, context): (f64, Option<f64>, f64, Option<u64>)) -> Self {
        Self { price: Price { input, cached_input: cached.unwrap_or(input), cache_write: input, output }, context }
    }
}

/// The built-in table.
pub fn builtin() -> &'static PriceTable {
    &TABLE
}

impl PriceTable {
    /// The entry of the model `name` at the address `url`. Names of models with open weights count at their provider
    /// only: elsewhere the same model has another price.
    pub fn find(&self, url: &str, name: &str) -> Option<&Listed> {
        let host = authority(url).split(':').next().unwrap_or_default();
        let at_host = self.providers.iter().find(|provider| provider.is_at(host));
        let elsewhere = self.providers.iter().filter(|provider| !provider.open_weights);
        at_host.into_iter().chain(elsewhere.filter(|_| at_host.is_none())).find_map(|provider| provider.find(name))
    }

    /// The entry that all backends of a pool share: their price if it is the same for all, and the smallest context.
    pub fn of_pool(&self, pool: &Pool, engines: &[Engine]) -> Option<(Option<Price>, Option<u64>)> {
        let find = |backend: &Backend| {
            let name = backend.model.as_ref().or(backend.deployment.as_ref())?;
            self.find(&engines.get(backend.engine)?.url, name).copied()
        };
        let listed = pool.backends.iter().map(find).collect::<Option<Vec<Listed>>>()?;
        let first = listed.first()?;
        let price = listed.iter().all(|it| it.price == first.price).then_some(first.price);
        Some((price, listed.iter().map(|it| it.context).min().flatten()))
    }
}

impl Provider {
    fn is_at(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| match own.strip_prefix('*') {
            Some(ending) => host.len() > ending.len() && host.ends_with(ending),
            None => own == host,
        })
    }

    /// The model of this name, or of the name without its date.
    fn find(&self, name: &str) -> Option<&Listed> {
        self.models.get(name).or_else(|| self.models.get(undated(name)?))
    }
}

/// `name` without a date at its end: `-2024-08-06` or `-20251001`.
fn undated(name: &str) -> Option<&str> {
    let is_date = |end: &str| {
        let parts: Vec<_> = end.split('-').collect();
        let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
        (lengths == [0, 4, 2, 2] || lengths == [0, 8])
            && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    [11, 9].into_iter().find_map(|length| {
        let (base, end) = name.split_at_checked(name.len().checked_sub(length)?)?;
        (!base.is_empty() && is_date(end)).then_some(base)
    })
}

/// Sets the price and the context size of every pool that gives none. `given`: for each pool, its own price and context
/// size are set.
pub(super) fn fill(given: impl Iterator<Item = (bool, bool)>, pools: &mut [Pool], engines: &[Engine]) {
    for ((has_price, has_context), pool) in given.zip(pools) {
        let Some((price, context)) = TABLE.of_pool(pool, engines) else { continue };
        if !has_price {
            pool.price = price;
        }
        if !has_context {
            pool.context = context;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_plausible_figures() {
        let table = builtin();
        assert!(table.date.len() == 10 && !table.source.is_empty());
        let models = table.providers.iter().flat_map(|provider| &provider.models);
        assert!(models.clone().count() >= 60);
        for (name, listed) in models {
            let Listed { price, context } = listed;
            assert!(price.input > 0.0 && price.input < 100.0, "{name}");
            assert!(price.cached_input <= price.input && price.output < 1000.0, "{name}");
            assert!(context.is_some_and(|tokens| (1_000..=10_000_000).contains(&tokens)), "{name}");
        }
    }

    #[test]
    fn models_are_found_by_name_and_host() {
        let find = |url, name| builtin().find(url, name).map(|listed| listed.price.input);
        let gpt_4o = find("https://api.openai.com/v1", "gpt-4o");
        assert_eq!(gpt_4o, Some(2.5));
        assert_eq!(find("https://api.openai.com/v1", "gpt-4o-2024-08-06"), gpt_4o);
        assert_eq!(find("https://acme.openai.azure.com", "gpt-4o"), gpt_4o);
        assert_eq!(find("http://proxy:8080/v1", "gpt-4o"), gpt_4o, "a model that only its owner serves");
        assert_eq!(find("https://api.anthropic.com/v1", "claude-haiku-4-5-20251001"), Some(1.0));
        assert!(find("https://api.groq.com/openai/v1", "openai/gpt-oss-120b").is_some());
        assert_eq!(find("http://10.0.0.1:8000/v1", "openai/gpt-oss-120b"), None, "open weights on an own engine");
        assert_eq!(find("https://api.groq.com/openai/v1", "gpt-4o"), None);
        assert_eq!(find("https://api.openai.com/v1", "gpt-nonsense"), None);
    }

    #[test]
    fn dates_end_a_name() {
        for (name, base) in [
            ("gpt-4o-2024-08-06", Some("gpt-4o")),
            ("claude-haiku-4-5-20251001", Some("claude-haiku-4-5")),
            ("o3-2025-04-16", Some("o3")),
            ("gpt-4o", None),
            ("20251001", None),
            ("-20251001", None),
            ("é-1", None),
            ("", None),
        ] {
            assert_eq!(undated(name), base, "{name}");
        }
    }
}
