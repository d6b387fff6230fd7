//! OpenMetrics page while it is written: one metric after the other, each with its series.

use std::{collections::HashMap, fmt, sync::Arc};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::counter::Counter,
    registry::Unit,
};

use super::{backend::BackendMetrics, series::Series, shared::BackendKey, table::Def};
use signalbox_types::Name;

/// The page being written.
pub(super) struct Page<'a> {
    pub(super) encoder: DescriptorEncoder<'a>,
    /// Replacements for names of backends and engines.
    pub(super) labels: Arc<HashMap<Name, Name>>,
}

impl Page<'_> {
    /// Writes a metric with its series, each with values for the labels of `def`.
    pub(super) fn family<const N: usize, L: AsRef<str>, M: EncodeMetric>(
        &mut self,
        def: &Def,
        series: impl IntoIterator<Item = ([L; N], M)>,
    ) -> fmt::Result {
        debug_assert_eq!(def.labels.len(), N, "{}", def.name);
        let shown = self.labels.clone();
        let mut series = series.into_iter().filter(|(_, series)| !series.is_empty()).peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let unit = (!def.unit.is_empty()).then(|| Unit::Other(def.unit.to_owned()));
        let kind = def.kind.metric_type();
        let mut metric = self.encoder.encode_descriptor(def.stem(), def.help, unit.as_ref(), kind)?;
        for (values, series) in series {
            if N == 0 {
                // A metric without labels is a single series; written as a family it would get empty braces.
                return series.encode(metric);
            }
            let named = def.labels.iter().copied().zip(values.iter().map(AsRef::as_ref));
            let shown = named.map(|(label, value)| match label {
                "backend" | "engine" => (label, shown.get(value).map_or(value, |shown| &**shown)),
                _ => (label, value),
            });
            let labels: Vec<_> = shown.collect();
            series.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes a metric with one series for each model at a backend.
    pub(super) fn each<T, M: EncodeMetric>(
        &mut self,
        def: &Def,
        all: &[(BackendKey, Arc<T>)],
        metric: impl Fn(&T) -> M,
    ) -> fmt::Result {
        let row = |((pool, backend, model), metrics): &(BackendKey, Arc<T>)| {
            ([pool.clone(), backend.clone(), model.clone()], metric(metrics))
        };
        self.family(def, all.iter().map(row))
    }

    /// Writes a counter with series for each model at a backend and each value of one more label.
    pub(super) fn split(
        &mut self,
        def: &Def,
        all: &[(BackendKey, Arc<BackendMetrics>)],
        counters: impl Fn(&BackendMetrics) -> &Series<&'static str, Counter>,
    ) -> fmt::Result {
        let rows = all.iter().flat_map(|((pool, backend, model), metrics)| {
            let series = counters(metrics).list().into_iter();
            series.map(|(label, counter)| ([pool.clone(), backend.clone(), model.clone(), label.into()], counter))
        });
        self.family(def, rows)
    }
}
