//! Compiles connections to Redis or Valkey servers, and the sharing of placement through one.

use super::reader::Reader;
use crate::{Secret, SharedPlacement};
use signalbox_config::{
    Field, KeySource, Problem, Token,
    connection::ClientTls,
    placement::SharedPlacement as RawPlacement,
    raw::Document,
    redis::{self as raw, KeyPrefix},
};
use signalbox_types::{RedisLogin, RedisServer};

/// The shortest secret of gateways that share something.
const LEAST_KEY: usize = 16;

/// The fields of a connection.
pub(super) struct ServerFields<'a> {
    pub(super) url: &'a Field<Token>,
    pub(super) user: &'a Option<Field<String>>,
    pub(super) password: &'a Option<KeySource>,
    pub(super) tls: &'a Option<ClientTls>,
    pub(super) sentinel: &'a Option<raw::SentinelLogin>,
    pub(super) prefix: &'a Option<Field<KeyPrefix>>,
}

impl Reader<'_> {
    pub(super) fn shared_placement(&mut self, document: &Document) -> Option<SharedPlacement> {
        let raw = document.placement.as_ref()?.shared.as_ref()?;
        let RawPlacement { url, user, password, tls, sentinel, prefix, .. } = raw;
        let server = self.redis(&ServerFields { url, user, password, tls, sentinel, prefix });
        let key = self.group_secret(&raw.key, url);
        Some(SharedPlacement { server: server?, key: key? })
    }

    /// The secret of a group of gateways that share something through the server at `url`.
    pub(super) fn group_secret(&mut self, raw: &KeySource, url: &Field<Token>) -> Option<Secret> {
        let key = self.secret(raw);
        if key.as_ref().is_some_and(|key| key.0.len() < LEAST_KEY) {
            self.report(
                Problem::at(url.at(), "the `key` beside this address can be guessed").help(
                    "give all gateways that share one of 16 characters at least: `openssl rand -hex 32` makes one",
                ),
            );
        }
        key
    }

    /// The server at an address, with certificates and credentials.
    pub(super) fn redis(&mut self, fields: &ServerFields<'_>) -> Option<RedisServer> {
        let ServerFields { url: field, user, password, tls, sentinel: login, prefix } = *fields;
        let (tls, login) = (tls.as_ref(), login.as_ref());
        let Token(url) = self.read(field)?;
        let server = match RedisServer::parse(&url) {
            Ok(server) => server,
            Err(error) => {
                self.report(Problem::at(field.at(), error.to_string()).help(error.help()));
                return None;
            }
        };
        let password = match password.as_ref() {
            Some(password) if server.has_password() => {
                self.report(
                    Problem::at(field.at(), "a password in the address and one in `password`")
                        .help("remove one of the two"),
                );
                self.secret(password)
            }
            Some(password) => Some(self.secret(password)?),
            None => None,
        };
        let user = user.as_ref().and_then(|user| Some((user.at(), self.read(user)?)));
        if let Some((at, _)) = &user {
            if server.names_user() {
                let problem = Problem::at(*at, "a user in the address and one in `user`");
                self.report(problem.help("remove one of the two"));
            } else if password.is_none() && !server.has_password() {
                self.report(Problem::at(*at, "a user without a password").help("add `password` beside it"));
            }
        }
        if tls.is_some() && !server.is_secured() {
            self.report(
                Problem::at(field.at(), "certificates in `tls` beside an address without TLS")
                    .help("write the address with `rediss` instead of `redis`, or remove `tls`"),
            );
        }
        if login.is_some() && !server.has_sentinels() {
            self.report(
                Problem::at(field.at(), "a password for Sentinels beside an address without Sentinels")
                    .help("write `redis+sentinel://host:26379/master-name`, or remove `sentinel`"),
            );
        }
        let tls = tls.map(|tls| self.client_tls(field.at(), tls));
        let login = match login {
            Some(login) => {
                let user = login.user.as_ref().and_then(|user| self.read(user));
                Some(RedisLogin { user: user.map(Into::into), password: self.secret(&login.password)?.0 })
            }
            None => None,
        };
        let password = password.map(|password| password.0);
        let prefix = self.optional(prefix.as_ref()).map(|KeyPrefix(prefix)| prefix.into());
        let server = server.with_user(user.map(|(_, user)| user.into())).with_password(password).with_prefix(prefix);
        Some(server.with_tls(tls).with_sentinel_login(login))
    }
}
