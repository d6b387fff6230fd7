//! Compiles connections to Redis or Valkey servers, and the sharing of placement through one.

use super::reader::Reader;
use crate::{Secret, SharedPlacement};
use signalbox_config::{Field, KeySource, Problem, Token, connection::ClientTls, raw::Document, redis as raw};
use signalbox_types::{RedisLogin, RedisServer};

/// The shortest secret of gateways that share something.
const LEAST_KEY: usize = 16;

impl Reader<'_> {
    pub(super) fn shared_placement(&mut self, document: &Document) -> Option<SharedPlacement> {
        let raw = document.placement.as_ref()?.shared.as_ref()?;
        let server = self.redis(&raw.url, raw.password.as_ref(), raw.tls.as_ref(), raw.sentinel.as_ref());
        let key = self.group_secret(&raw.key, &raw.url);
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
    pub(super) fn redis(
        &mut self,
        field: &Field<Token>,
        password: Option<&KeySource>,
        tls: Option<&ClientTls>,
        login: Option<&raw::SentinelLogin>,
    ) -> Option<RedisServer> {
        let Token(url) = self.read(field)?;
        let server = match RedisServer::parse(&url) {
            Ok(server) => server,
            Err(error) => {
                self.report(Problem::at(field.at(), error.to_string()).help(error.help()));
                return None;
            }
        };
        let password = match password {
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
        Some(server.with_password(password).with_tls(tls).with_sentinel_login(login))
    }
}
