//! The definition of a metric.

use prometheus_client::metrics::MetricType;

/// Type of a metric.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases, and starts at 0 with the process (or with the engine, for re-exported values).
    Counter,
    /// Increases and decreases.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

impl Kind {
    pub(super) const fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// One metric.
#[derive(Copy, Clone, Debug)]
pub struct Def {
    /// Name as used in queries.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit, which is also part of the name; empty for plain counts.
    pub unit: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

impl Def {
    /// The name without the suffixes that the encoder adds: the unit's and the counter's.
    pub(super) fn stem(&self) -> &'static str {
        let stem = self.name.strip_suffix("_total").unwrap_or(self.name);
        match stem.strip_suffix(self.unit) {
            Some(stem) if !self.unit.is_empty() => stem.trim_end_matches('_'),
            _ => stem,
        }
    }
}

/// Declares the metrics of a table, and a list of them.
macro_rules! table {
    ($($id:ident: $kind:ident $unit:literal $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            pub(super) const $id: Def =
                Def { name: $name, kind: Kind::$kind, unit: $unit, labels: &[$($label),*], help: $help };
        )*
        /// All metrics, in the order of `/metrics`.
        pub const ALL: &[&Def] = &[$(&$id),*];
    };
}
pub(super) use table;
