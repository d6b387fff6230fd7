//! Metrics of callers' times.

use std::fmt;

use super::{Scrape, table};
use crate::page::Page;

impl Scrape {
    pub(super) fn callers(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.shared.callers.list();
        let rows = || all.iter().map(|((route, source), it)| ([route.to_string(), source.label().to_owned()], it));
        page.family(&table::CALLER_TTFT, rows().map(|(labels, it)| (labels, it.ttft_seconds.clone())))?;
        page.family(&table::CALLER_E2E, rows().map(|(labels, it)| (labels, it.e2e_seconds.clone())))
    }
}
