//! Looks up a profile by what is known of a server.

use super::{MetricsPage, Profile, metrics::read_signals, profiles::PROFILES};
use signalbox_types::{EngineKind, EngineSignals};

impl Profile {
    /// Its name in letters and digits, for names of backends.
    pub fn short_name(&self) -> String {
        self.name.to_lowercase().replace(|it: char| !it.is_ascii_alphanumeric(), "")
    }

    /// The provider at `authority`, a host perhaps with a port: OpenTelemetry's name of it.
    pub fn provider_at(authority: &str) -> Option<&'static str> {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let is = |known: &str| {
            let rest = host.strip_suffix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-']))
        };
        let mut hosts = PROFILES.iter().flat_map(|profile| profile.signs.hosts);
        hosts.find(|(known, _)| is(known)).map(|(_, name)| *name)
    }

    /// The engine whose lists of models have this `owned_by`.
    pub fn of_owner(owner: &str) -> Option<&'static Self> {
        PROFILES.iter().copied().find(|profile| profile.signs.owners.contains(&owner))
    }

    /// The engine of a kind.
    pub fn of_kind(kind: EngineKind) -> Option<&'static Self> {
        PROFILES.iter().copied().find(|profile| profile.metrics.is_some_and(|page| page.kind == kind))
    }

    /// The engine whose answers have one of these headers. `header` reads one by its name.
    pub fn of_headers<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<&'static Self> {
        let has =
            |(name, value): &(&str, &str)| header(name).is_some_and(|it| value.is_empty() || it.starts_with(value));
        PROFILES.iter().copied().find(|profile| profile.signs.headers.iter().any(has))
    }
}

/// Reads an engine's metrics. `None` for a page without metrics of a known engine.
pub fn read_engine_signals(text: &str) -> Option<EngineSignals> {
    read_signals(&pages().collect::<Vec<_>>(), text)
}

/// Paths at which engines have their metrics, the usual one first.
pub fn metrics_paths() -> Vec<&'static str> {
    let mut paths = Vec::new();
    for page in pages() {
        if !paths.contains(&page.path) {
            paths.push(page.path);
        }
    }
    paths
}

fn pages() -> impl Iterator<Item = &'static MetricsPage> {
    PROFILES.iter().filter_map(|profile| profile.metrics.as_ref())
}
