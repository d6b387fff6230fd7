//! Compiles backends that are discovered at run time, and settings of an engine that stand with its backend.

use std::{path::PathBuf, time::Duration};

use super::{engines::Engines, reader::Reader};
use crate::{AddressSource, BackendSource, DnsName, Engine};
use signalbox_config::{
    At, Either, Field, Hourly, Pause, Problem, Scrape,
    discovery::{BasePath, Discovery, Dns, DnsServer, HostName, Port, RecordKind, Scheme},
    engines::Metrics,
    raw,
};
use signalbox_types::Name;

/// The longest time between two resolutions, by default.
const EVERY: Duration = Duration::from_secs(10);
/// The time for which answers must stay empty, by default.
const EMPTY_AFTER: Duration = Duration::from_secs(30);
/// The path of engines' APIs.
const PATH: &str = "/v1";

impl Reader<'_> {
    /// The file that keeps changes of operators.
    pub(super) fn fleet_state(&mut self, raw: Option<&Discovery>) -> Option<PathBuf> {
        self.optional(raw?.state.as_ref()).map(|path: String| PathBuf::from(path))
    }

    /// True if the backend `raw` stands for a set of backends.
    pub(super) fn is_source(raw: &raw::Backend) -> bool {
        matches!(raw, Either::Long(long, _) if long.dns.is_some() || long.file.is_some())
    }

    /// The sources among the backends of a pool.
    pub(super) fn sources(&mut self, raw: &raw::Pool, model: Option<&Name>, engines: &Engines) -> Vec<BackendSource> {
        let mut sources: Vec<BackendSource> = Vec::new();
        for raw in raw.backends.value.iter().filter(|raw| Self::is_source(raw)) {
            let Either::Long(long, at) = raw else { continue };
            let Some(source) = self.source(long, *at, model, engines) else { continue };
            let is_same = |other: &BackendSource| {
                other.from == source.from
                    && (&other.backend.model, &other.backend.serves) == (&source.backend.model, &source.backend.serves)
            };
            if sources.iter().any(is_same) {
                self.report(Problem::at(*at, "this source is in the pool already").help("remove one of the two"));
            }
            sources.push(source);
        }
        sources
    }

    fn source(
        &mut self,
        raw: &raw::LongBackend,
        at: At,
        model: Option<&Name>,
        engines: &Engines,
    ) -> Option<BackendSource> {
        let ways = [
            raw.url.as_ref().map(|field| (field.at(), "url")),
            raw.engine.as_ref().map(|field| (field.at(), "engine")),
            raw.file.as_ref().filter(|_| raw.dns.is_some()).map(|field| (field.at(), "file")),
        ];
        for (at, other) in ways.into_iter().flatten() {
            let one = if raw.dns.is_some() { "dns" } else { "file" };
            self.report(
                Problem::at(at, format!("a backend with both `{one}` and `{other}`"))
                    .help("keep one of the two; another list item may have the other"),
            );
        }
        if let Some(field) = &raw.weight {
            self.report(
                Problem::at(field.at(), "a fixed share for backends whose number changes")
                    .help("give the other backends a `weight`: those without one take what is left"),
            );
        }
        if let Some(field) = &raw.dcgm {
            self.report(
                Problem::at(field.at(), "one exporter for several engines")
                    .help("remove `dcgm`: GPU metrics are read for engines that the policy names"),
            );
        }
        let scheme = self.optional(raw.scheme.as_ref()).unwrap_or_default();
        let path = self.optional(raw.path.as_ref()).map_or_else(|| PATH.to_owned(), |BasePath(path)| path);
        let mut engine = Engine::at("".into(), String::new());
        engine.keys = raw.key.as_ref().and_then(|source| self.secret(source)).into_iter().collect();
        engine.gpu_hour = self.optional(raw.gpu_hour.as_ref()).map(|Hourly(usd)| usd);
        engine.scrape = if scheme == Scheme::Http { Scrape::USUAL.0 } else { None };
        self.capacity(raw, &mut engine, true);
        let backend = self.on_engine(raw, at, usize::MAX, model, engines);
        let from = match (&raw.dns, &raw.file) {
            (Some(dns), _) => AddressSource::Dns(self.dns(dns, scheme)?),
            (None, Some(file)) => {
                AddressSource::File(self.config.path(file).map_err(|problem| self.report(problem)).ok()?)
            }
            (None, None) => return None,
        };
        Some(BackendSource { from, scheme, path, engine, backend, at: raw.file.as_ref().map_or(at, Field::at) })
    }

    fn dns(&mut self, raw: &Dns, scheme: Scheme) -> Option<DnsName> {
        let name = self.read(&raw.name);
        let kind = self.optional(raw.kind.as_ref()).unwrap_or_default();
        let port = self.optional(raw.port.as_ref());
        match (kind, &raw.port) {
            (RecordKind::Address, None) => self.report(
                Problem::at(raw.name.at(), "A records without `port`")
                    .help("add the port of the engines, such as `port: 8000`, or write `kind: SRV`"),
            ),
            (RecordKind::Service, Some(field)) => self.report(
                Problem::at(field.at(), "SRV records bring their ports").help("remove `port`, or write `kind: A`"),
            ),
            _ => {}
        }
        if let Some(field) = raw.host.as_ref().filter(|_| scheme == Scheme::Http) {
            self.report(
                Problem::at(field.at(), "`host` is for https only")
                    .help("add `scheme: https` to the backend, or remove `host`"),
            );
        }
        let own = |HostName(name): HostName| Name::from(name.trim_end_matches('.'));
        let host = self.optional(raw.host.as_ref()).map(own);
        let every = self.or(raw.every.as_ref(), EVERY);
        let Pause(empty_after) = self.or(raw.empty_after.as_ref(), Pause(EMPTY_AFTER));
        let server = self.optional(raw.server.as_ref()).map(|DnsServer(address)| address);
        let HostName(name) = name?;
        Some(DnsName {
            name: name.into(),
            kind,
            port: port.map_or(0, |Port(port)| port),
            every,
            empty_after,
            server,
            host,
        })
    }

    /// Reports the keys that only discovered backends have.
    pub(super) fn only_discovered(&mut self, raw: &raw::LongBackend) {
        let own = [(raw.scheme.as_ref().map(Field::at), "scheme"), (raw.path.as_ref().map(Field::at), "path")];
        for (at, what) in own.into_iter().filter_map(|(at, what)| Some((at?, what))) {
            self.report(
                Problem::at(at, format!("`{what}` goes with `dns` or `file`"))
                    .help("write it into the address: `url: https://host:8000/v1`"),
            );
        }
        if raw.engine.is_some() {
            for (at, what) in own_settings(raw) {
                self.report(
                    Problem::at(at, format!("`{what}` goes with `url`; a named engine has its own"))
                        .help(format!("move `{what}` to the engine, under `engines`")),
                );
            }
        }
    }

    /// Sets what the backend `raw` says of its engine. One that was known before must not differ.
    pub(super) fn capacity(&mut self, raw: &raw::LongBackend, engine: &mut Engine, is_new: bool) {
        let before = engine.clone();
        if let Some(Scrape(every)) = self.optional(raw.scrape.as_ref()) {
            engine.scrape = every;
        }
        if let Some(raw) = &raw.metrics {
            engine.metrics = self.metrics(raw, engine.scrape);
        }
        if let Some(health) = raw.health.as_ref().and_then(|raw| self.health(raw)) {
            engine.health = Some(health);
        }
        if let Some(most) = self.optional(raw.max_concurrency.as_ref()) {
            engine.max_concurrency = Some(u32::try_from(most).unwrap_or(u32::MAX));
        }
        if let Some(tokens) = self.optional(raw.kv_tokens.as_ref()) {
            engine.kv_tokens = Some(tokens);
        }
        if !is_new && *engine != before {
            let (at, what) = own_settings(raw).next().unwrap_or_default();
            self.report(
                Problem::at(at, format!("this address is named elsewhere with another `{what}`, or with none")).help(
                    format!("one server is one engine: name it in `engines`, with its `{what}`, and refer to it"),
                ),
            );
            *engine = before;
        }
    }
}

/// Positions and names of the settings of an engine beside those of earlier versions.
fn own_settings(raw: &raw::LongBackend) -> impl Iterator<Item = (At, &'static str)> {
    let own = [
        (raw.scrape.as_ref().map(Field::at), "scrape"),
        (raw.metrics.as_ref().and_then(Metrics::at), "metrics"),
        (raw.health.as_ref().map(|health| health.path.at()), "health"),
        (raw.max_concurrency.as_ref().map(Field::at), "max_concurrency"),
        (raw.kv_tokens.as_ref().map(Field::at), "kv_tokens"),
    ];
    own.into_iter().filter_map(|(at, what)| Some((at?, what)))
}
