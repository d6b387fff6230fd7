//! Compiles accounts and engines. An engine is one server with one payer: the same address and the same keys always mean
//! the same engine, another account at that address is another engine.

use std::{sync::Arc, time::Duration};

use super::reader::Reader;
use crate::{Account, Dialect, Engine, Health, MetricsPlace, Secret, implicit_models::free};
use signalbox_config::{
    At, Exporter, Field, HeaderWord, Hourly, KeySource, Problem, Scrape, Token, Url, Word, authority, discovery::Port,
    engines as typed, raw,
};
use signalbox_quota::RateLimits;
use signalbox_types::{Name, Payer};

/// The engines found so far: those named in the file, followed by those known by their address.
pub(super) struct Engines {
    pub(super) list: Vec<Engine>,
    /// Number of named engines.
    pub(super) declared: usize,
}

impl Reader<'_> {
    pub(super) fn accounts(&mut self, document: &raw::Document) -> Vec<Account> {
        let mut accounts = Vec::new();
        for (key, raw) in document.accounts.iter().flat_map(|named| &named.entries) {
            let name = self.name(key);
            if raw.keys.value.is_empty() {
                self.report(Problem::at(raw.keys.at, "an account without keys").help("add one: `keys: [\"${KEY}\"]`"));
            }
            let keys = raw.keys.value.iter().filter_map(|source| self.secret(source)).collect();
            let limits = raw.limits.as_ref();
            let limits = RateLimits {
                rpm: self.optional(limits.and_then(|limits| limits.rpm.as_ref())),
                tpm: self.optional(limits.and_then(|limits| limits.tpm.as_ref())),
                concurrency: None,
            };
            accounts.push(Account { name, keys, limits });
        }
        accounts
    }

    pub(super) fn secret(&mut self, source: &KeySource) -> Option<Secret> {
        match self.config.secret(source) {
            Ok(Token(key)) => Some(Secret(key.into())),
            Err(problem) => {
                self.report(problem);
                None
            }
        }
    }

    fn engine(&mut self, key: &Field<String>, raw: &typed::Engine, accounts: &[Account]) -> Engine {
        let name = self.name(key);
        let url = self.read(&raw.url).map(|Url(url)| url).unwrap_or_default();
        let version = self.word(raw.api_version.as_ref());
        let dialect = match self.optional(raw.dialect.as_ref()) {
            Some(signalbox_config::Dialect::Azure) => {
                if raw.api_version.is_none() {
                    let at = raw.dialect.as_ref().map_or(key.at(), Field::at);
                    self.report(
                        Problem::at(at, "an Azure engine without `api_version`")
                            .help("add the version its API is called with, such as `api_version: \"2024-10-21\"`"),
                    );
                }
                Dialect::Azure { api_version: version.as_deref().unwrap_or_default().to_owned() }
            }
            dialect => {
                // An invalid dialect has been reported already.
                if let Some(field) = &raw.api_version
                    && (dialect.is_some() || raw.dialect.is_none())
                {
                    self.report(
                        Problem::at(field.at(), "`api_version` is for Azure only")
                            .help("add `dialect: azure`, or remove `api_version`"),
                    );
                }
                match dialect {
                    Some(signalbox_config::Dialect::Anthropic) => Dialect::Anthropic,
                    // Its native API has features that its OpenAI-compatible one lacks.
                    None if raw.dialect.is_none() && is_anthropic(&url) => Dialect::Anthropic,
                    _ => Dialect::OpenAi,
                }
            }
        };
        let account = raw
            .account
            .as_ref()
            .and_then(|field| self.find("account", field, accounts.iter().map(|account| &*account.name)));
        let usual = if raw.metrics.is_some() { Scrape::USUAL } else { scraped(&url, &dialect) };
        let Scrape(scrape) = self.or(raw.scrape.as_ref(), usual);
        let most = self.optional(raw.max_concurrency.as_ref());
        Engine {
            name,
            url,
            host: None,
            dialect,
            tool_call_ids: self.optional(raw.tool_call_ids.as_ref()),
            keys: account.map(|at| accounts[at].keys.as_slice().into()).unwrap_or_default(),
            account,
            payer: account.map_or(Payer::Own, |at| Payer::Account(accounts[at].name.clone())),
            scrape,
            metrics: raw.metrics.as_ref().map(|raw| self.metrics(raw, scrape)).unwrap_or_default(),
            probe: self.optional(raw.probe.as_ref()),
            max_concurrency: most.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            kv_tokens: self.optional(raw.kv_tokens.as_ref()),
            gpu_hour: self.optional(raw.gpu_hour.as_ref()).map(|Hourly(usd)| usd),
            dcgm: self.optional(raw.dcgm.as_ref()).map(|Exporter(url)| url),
            health: raw.health.as_ref().and_then(|raw| self.health(raw)),
            way: self.engine_way(raw),
            forward_headers: self.header_names(raw.forward_headers.as_ref()),
        }
    }

    /// The place of a metrics page that is read every `scrape`.
    pub(super) fn metrics(&mut self, raw: &typed::Metrics, scrape: Option<Duration>) -> MetricsPlace {
        if let Some(at) = raw.at().filter(|_| scrape.is_none()) {
            self.report(
                Problem::at(at, "the place of a metrics page that is never read")
                    .help("remove `metrics`, or `scrape: false`"),
            );
        }
        let path = raw.path.as_ref().and_then(|path| self.server_path(path, "/prometheus/metrics"));
        MetricsPlace { path, port: self.optional(raw.port.as_ref()).map(|Port(port)| port) }
    }

    fn server_path(&mut self, field: &Field<Word>, example: &str) -> Option<Name> {
        let path = self.word(Some(field))?;
        if !path.starts_with('/') {
            self.report(Problem::at(field.at(), "not a path").help(format!("start it with a slash: `{example}`")));
        }
        Some(path)
    }

    pub(super) fn health(&mut self, raw: &typed::Health) -> Option<Health> {
        let path = self.server_path(&raw.path, "/health")?;
        let every = self.or(raw.every.as_ref(), Duration::from_secs(5));
        Some(Health { path, every, timeout: self.or(raw.timeout.as_ref(), Duration::from_secs(2)) })
    }
}

impl Reader<'_> {
    /// Names of headers.
    pub(super) fn header_names(&mut self, raw: Option<&Vec<Field<HeaderWord>>>) -> Arc<[Name]> {
        let names = raw.into_iter().flatten().filter_map(|field| self.read(field));
        names.map(|HeaderWord(name)| name.as_str().into()).collect()
    }
}

fn is_anthropic(url: &str) -> bool {
    signalbox_engines::Profile::provider_at(authority(url)) == Some("anthropic")
}

/// The default scrape interval: self-hosted engines are reached over plain http, hosted ones are not.
fn scraped(url: &str, dialect: &Dialect) -> Scrape {
    let own = *dialect == Dialect::OpenAi && url.starts_with("http://");
    if own { Scrape::USUAL } else { Scrape(None) }
}

impl Engines {
    /// The engines that the file names.
    pub(super) fn declared(reader: &mut Reader<'_>, document: &raw::Document, accounts: &[Account]) -> Self {
        let mut list: Vec<Engine> = Vec::new();
        for (key, raw) in document.engines.iter().flat_map(|named| &named.entries) {
            let engine = reader.engine(key, raw, accounts);
            if let Some(same) = list.iter().find(|other| other.id() == engine.id() && !engine.url.is_empty()) {
                let help = match &engine.payer {
                    Payer::Account(account) => format!(
                        "one address and one account are one engine: use `engine: {}` in its place, or another account than `{account}`",
                        same.name
                    ),
                    _ => format!(
                        "one server is one engine: use `engine: {}` in its place; for two accounts at one provider, give each of the two engines its `account`",
                        same.name
                    ),
                };
                reader.report(
                    Problem::at(raw.url.at(), format!("the address of engine `{}` once more", same.name)).help(help),
                );
            }
            reader.check_connection(raw.url.at(), &engine, &list);
            list.push(engine);
        }
        Self { declared: list.len(), list }
    }

    /// The engine at the address `field` of the backend `raw`; added if it is new.
    pub(super) fn at_url(
        &mut self,
        reader: &mut Reader<'_>,
        field: &Field<Url>,
        raw: &raw::LongBackend,
    ) -> Option<usize> {
        let url = reader.read(field);
        let key = raw.key.as_ref();
        let keys: Arc<[_]> = key.and_then(|source| reader.secret(source)).into_iter().collect();
        let gpu_hour = reader.optional(raw.gpu_hour.as_ref()).map(|Hourly(usd)| usd);
        let dcgm = reader.optional(raw.dcgm.as_ref()).map(|Exporter(url)| url);
        let Url(url) = url?;
        if let Some(at) = self.known(reader, field, &url, key.map(|key| (key, &keys))) {
            let known = &self.list[at];
            if let Some(field) = &raw.gpu_hour
                && gpu_hour.is_some()
                && known.gpu_hour != gpu_hour
            {
                reader.report(other(field.at(), "gpu_hour"));
            }
            if let Some(field) = &raw.dcgm
                && dcgm.is_some()
                && known.dcgm != dcgm
            {
                reader.report(other(field.at(), "dcgm"));
            }
            return Some(at);
        }
        let is_further = self.list.iter().any(|engine| engine.url == url);
        let wanted = match key.filter(|_| is_further).and_then(source) {
            Some(source) => format!("{}@{source}", authority(&url)),
            None => authority(&url).to_owned(),
        };
        let name = free(&wanted, |name| self.list.iter().any(|engine| &*engine.name == name));
        let payer = if is_further { Payer::Key(name.clone()) } else { Payer::Own };
        let Scrape(scrape) = scraped(&url, &Dialect::OpenAi);
        self.list.push(Engine { keys, payer, scrape, gpu_hour, dcgm, ..Engine::at(name, url) });
        Some(self.list.len() - 1)
    }

    /// The engine at `url` with this key, if it is known. A backend without a key refers to the only engine there.
    fn known(
        &self,
        reader: &mut Reader<'_>,
        field: &Field<Url>,
        url: &str,
        key: Option<(&KeySource, &Arc<[Secret]>)>,
    ) -> Option<usize> {
        let mut there = self.list.iter().enumerate().filter(|(_, engine)| engine.url == url);
        let Some((key, keys)) = key else {
            let (at, first) = there.next()?;
            if first.keys.is_empty() || there.next().is_none() {
                return Some(at);
            }
            reader.report(
                Problem::at(field.at(), "this address is called with several keys, and none is given here")
                    .help("add the `key` that pays, or name the engine under `engines` and refer to it"),
            );
            return Some(at);
        };
        if let Some((at, _)) = there.clone().find(|(_, engine)| engine.keys == *keys) {
            return Some(at);
        }
        // A key that could not be read has been reported.
        let same = |engine: &Engine| engine.keys.is_empty() || keys.iter().any(|key| engine.keys.contains(key));
        let (at, _) = there.find(|(_, engine)| same(engine))?;
        if !keys.is_empty() {
            reader.report(other_key(key.at()));
        }
        Some(at)
    }

    /// The engine at the same address as the engine `at`, but paid by the account `payer`; added if it is new.
    pub(super) fn paid_by(&mut self, at: usize, payer: usize, accounts: &[Account]) -> usize {
        let Account { name: account, keys, .. } = &accounts[payer];
        let engine = Engine {
            keys: keys.as_slice().into(),
            account: Some(payer),
            payer: Payer::Account(account.clone()),
            ..self.list[at].clone()
        };
        if let Some(known) = self.list.iter().position(|known| known.id() == engine.id()) {
            return known;
        }
        let name = format!("{}@{account}", engine.name);
        let name = free(&name, |name| self.list.iter().any(|engine| &*engine.name == name));
        self.list.push(Engine { name, ..engine });
        self.list.len() - 1
    }

    /// The engine with the name in `field`.
    pub(super) fn named(&self, reader: &mut Reader<'_>, field: &Field<Word>) -> Option<usize> {
        reader.find("engine", field, self.list[..self.declared].iter().map(|engine| &*engine.name))
    }
}

fn other(at: At, what: &str) -> Problem {
    Problem::at(at, format!("this address is named elsewhere with another `{what}`, or with none"))
        .help(format!("one server is one engine: name it in `engines`, with its `{what}`, and refer to it"))
}

fn other_key(at: At) -> Problem {
    Problem::at(at, "this address is named elsewhere without a key, or with an account that has this key")
        .help("one server with one set of keys is one engine: give the same `key` everywhere, or name it in `engines` and refer to it")
}

/// The name of a key's source: its variable or its file.
fn source(key: &KeySource) -> Option<&str> {
    let name = match key {
        KeySource::Short(field) => field.text().strip_prefix("${")?.strip_suffix('}')?,
        KeySource::Long(key, _) => {
            let file = key.file.text().rsplit(['/', '\\']).next()?;
            file.split_once('.').map_or(file, |(stem, _)| stem)
        }
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(name)
}
