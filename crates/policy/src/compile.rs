//! Compiles a policy file to a [`Policy`]: resolves every name, fills in every default, and reports all problems at
//! once.

mod access;
mod added;
mod background;
mod caching;
mod cascade;
mod conditions;
mod discovery;
mod embedder;
mod engine_way;
mod engines;
mod keys;
mod managed_keys;
mod models;
mod notifications;
mod objectives;
mod otel;
mod pools;
mod prices;
mod reader;
mod redis;
mod responses;
mod routes;
mod strips;
mod teams;
mod tiers;

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    path::PathBuf,
};

pub use self::{
    added::{compile_added, has_variable},
    managed_keys::compile_managed_keys,
};
use self::{engines::Engines, reader::Reader, routes::RouteContext};
use super::{
    AccessFormat, AccessLog, Journal, Labels, Learning, Limits, Policy, Timeouts, Tls,
    condition::Names,
    defaults::{JOURNAL_KEEP, JOURNAL_SIZE, LISTEN},
    implicit_models,
};
use signalbox_config::{
    Config, Either, Field, Pause, Predicted, Problem, Problems, Switch, Total, access::Keys,
    access_log::AccessLog as AccessLogRaw, raw,
};

/// Compiles `config`.
///
/// # Errors
/// All problems of the file.
pub fn compile(config: &Config) -> Result<Policy, Problems> {
    let mut reader = Reader { config, problems: Vec::new(), route_names: HashSet::new() };
    let policy = reader.policy(config.document());
    config.all_problems(reader.problems).map_or(Ok(policy), Err)
}

impl Reader<'_> {
    fn policy(&mut self, document: &raw::Document) -> Policy {
        let listen = self.or(document.listen.as_ref(), LISTEN);
        let (admin, admin_access) = self.admin(document);
        self.check_addresses(document, listen, admin);
        let timeouts = document.timeouts.as_ref().map_or_else(Timeouts::default, |raw| self.timeouts(raw));
        let accounts = self.accounts(document);
        let mut engines = Engines::declared(self, document, &accounts);
        let mut pools = self.pools(document, &mut engines);
        self.strips(document, &mut pools);
        let paying_teams = self.team_accounts(document, &accounts, &mut engines, &mut pools);
        let (declared, engines) = (engines.declared, engines.list);
        implicit_models::name_backends(&engines, &mut pools);
        let key_list = document.keys.as_ref().and_then(Keys::list);
        let keys = self.keys(key_list);
        let asks_keys = key_list.is_some() || document.managed_keys.is_some();
        let names = Names {
            pools: pools.iter().map(|pool| pool.name.clone()).collect(),
            routes: self.names_of_routes(document),
            // Conditions may name keys that do not exist yet.
            keys: keys.iter().map(|key| key.id.clone()).filter(|_| document.managed_keys.is_none()).collect(),
        };
        let models = self.models(document, &RouteContext { pools: &pools, names, timeouts });
        self.check_key_models(key_list, &models, &pools);
        let background = document.background.as_ref().and_then(|raw| self.background(raw, &pools));
        let labels = Labels::new(&engines, declared, &pools);
        Policy {
            listen,
            admin,
            admin_access,
            hosts: document.hosts.as_ref().map(|hosts| self.hosts(hosts)),
            origins: self.origins(document),
            tls: document.tls.as_ref().and_then(|raw| self.tls(raw)),
            keys,
            keys_none: matches!(document.keys, Some(Keys::None(_))),
            managed_keys: document.managed_keys.as_ref().and_then(|raw| self.managed_keys(raw, document)),
            teams: self.teams(document),
            paying_teams,
            shared_limits: self.shared_limits(document),
            accounts,
            usage: document.usage.as_ref().and_then(|raw| self.usage(raw)),
            allows_unknown_objects: self.allows_unknown_objects(document.objects.as_ref()),
            models,
            engines,
            named_engines: declared,
            pools,
            backend_origins: HashMap::new(),
            kept: Vec::new(),
            fleet_state: self.fleet_state(document.discovery.as_ref()),
            limits: document.limits.as_ref().map_or_else(Limits::default, |raw| self.limits(raw)),
            timeouts,
            journal: document.journal.as_ref().and_then(|raw| self.journal(raw)),
            access_log: document.access_log.as_ref().map(|raw| self.access_log(raw)),
            observed: None,
            otel: document.otel.as_ref().and_then(|raw| self.otel(raw)),
            caching: self.caching(document.cache.as_ref(), asks_keys),
            responses: self.responses(document.responses.as_ref()),
            shared_placement: self.shared_placement(document),
            notifications: document.notifications.as_ref().map(|raw| self.notifications(raw)),
            error_budgets: self.error_budgets(document.error_budgets.as_ref()),
            learning: document.learning.as_ref().map_or_else(Learning::default, |raw| self.learning(raw)),
            background,
            labels,
            answer_model: self.or(document.answer_model.as_ref(), signalbox_types::AnswerModel::default()),
            simulated: false,
            builtin_prices: document.prices.as_ref().is_some_and(|field| field.text() == "builtin"),
            demo_hashes: Vec::new(),
            secret_files: self.config.secret_files(),
            hash: self.config.hash().to_owned(),
            text: self.config.text().clone(),
        }
    }

    /// Reports listeners for clients and operators at one address.
    fn check_addresses(&mut self, document: &raw::Document, listen: SocketAddr, admin: Option<SocketAddr>) {
        if let Some(admin) = admin
            && admin.port() == listen.port()
            && listen.port() != 0
            && (admin.ip() == listen.ip() || admin.ip().is_unspecified() || listen.ip().is_unspecified())
        {
            let at = document.admin.as_ref().map(Either::at).or(document.listen.as_ref().map(Field::at));
            self.report(
                Problem::at(at.unwrap_or_default(), "clients and operators would connect at the same address")
                    .help("give `admin` a port of its own, or write `admin: off`"),
            );
        }
    }

    fn tls(&mut self, raw: &signalbox_config::connection::Tls) -> Option<Tls> {
        let mut path = |field| self.config.path(field).map_err(|problem| self.report(problem)).ok();
        let (certificate, key) = (path(&raw.certificate), path(&raw.key));
        let client_roots = raw.client_roots.as_ref().and_then(path);
        Some(Tls { certificate: certificate?, key: key?, client_roots })
    }

    fn limits(&mut self, raw: &signalbox_config::limits::Limits) -> Limits {
        let default = Limits::default();
        let Pause(drain) = self.or(raw.drain.as_ref(), Pause(default.drain));
        let Pause(lame_duck) = self.or(raw.lame_duck.as_ref(), Pause(default.lame_duck));
        let queue = raw.queue.as_ref();
        let Pause(queue_wait) = self.or(queue.and_then(|queue| queue.wait.as_ref()), Pause(default.queue_wait));
        let mut count = |field: Option<&Field<u64>>, default| {
            self.optional(field).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let (body, bodies) = (count(raw.body.as_ref(), default.body), count(raw.bodies.as_ref(), default.bodies));
        if bodies < body
            && let Some(at) = raw.bodies.as_ref().or(raw.body.as_ref()).map(Field::at)
        {
            let message = format!("one body may be larger ({body} bytes) than all of them together ({bodies})");
            self.report(Problem::at(at, message).help("make `bodies` several times `body`"));
        }
        let mut count = |field: Option<&Field<u64>>, default| {
            self.optional(field).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        Limits {
            body,
            bodies,
            in_flight: count(raw.in_flight.as_ref(), default.in_flight),
            queue_length: count(queue.and_then(|queue| queue.length.as_ref()), default.queue_length),
            queue_wait,
            header: self.or(raw.header.as_ref(), default.header),
            drain,
            lame_duck,
        }
    }

    fn timeouts(&mut self, raw: &raw::Timeouts) -> Timeouts {
        let default = Timeouts::default();
        let Total(total) = self.or(raw.total.as_ref(), Total(default.total));
        let Predicted(first_token) = self.or(raw.first_token.as_ref(), Predicted(default.first_token));
        Timeouts {
            connect: self.or(raw.connect.as_ref(), default.connect),
            first_token,
            idle: self.or(raw.idle.as_ref(), default.idle),
            content: self.or(raw.content.as_ref(), default.content),
            total,
        }
    }

    fn journal(&mut self, raw: &raw::Journal) -> Option<Journal> {
        let path = self.read(&raw.path).map(PathBuf::from);
        let max_size = self.or(raw.max_size.as_ref(), JOURNAL_SIZE);
        let keep = self.or(raw.keep.as_ref(), JOURNAL_KEEP);
        let Switch(facts) = self.or(raw.facts.as_ref(), Switch(false));
        Some(Journal { path: path?, max_size, keep, facts })
    }

    fn access_log(&mut self, raw: &AccessLogRaw) -> AccessLog {
        AccessLog {
            format: self.or(raw.format.as_ref(), AccessFormat::Text),
            path: self.optional(raw.path.as_ref()).map(|path: String| PathBuf::from(path)),
            max_size: self.or(raw.max_size.as_ref(), JOURNAL_SIZE),
            keep: self.or(raw.keep.as_ref(), JOURNAL_KEEP),
        }
    }

    fn learning(&mut self, raw: &raw::Learning) -> Learning {
        let Switch(re_ask) = self.or(raw.re_ask.as_ref(), Switch(false));
        Learning { file: self.optional(raw.file.as_ref()).map(|file: String| PathBuf::from(file)), re_ask }
    }
}

#[cfg(test)]
mod tests;
