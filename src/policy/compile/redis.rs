//! Compiles the connection to a Redis or Valkey server.

use super::reader::Reader;
use crate::{
    config::{Field, KeySource, Problem, Token, redis as raw},
    redis::{Login, Server, Tls},
};

impl Reader<'_> {
    /// The server at an address, with certificates and credentials.
    pub(super) fn redis(
        &mut self,
        field: &Field<Token>,
        password: Option<&KeySource>,
        tls: Option<&raw::RedisTls>,
        login: Option<&raw::SentinelLogin>,
    ) -> Option<Server> {
        let Token(url) = self.read(field)?;
        let server = match Server::parse(&url) {
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
        let tls = tls.map(|tls| self.redis_tls(field, tls));
        let login = match login {
            Some(login) => {
                let user = login.user.as_ref().and_then(|user| self.read(user));
                Some(Login { user: user.map(Into::into), password: self.secret(&login.password)?.0 })
            }
            None => None,
        };
        let password = password.map(|password| password.0);
        Some(server.with_password(password).with_tls(tls).with_sentinel_login(login))
    }

    fn redis_tls(&mut self, url: &Field<Token>, raw: &raw::RedisTls) -> Tls {
        let mut path = |field: &Field<String>| self.config.path(field).map_err(|problem| self.report(problem)).ok();
        let roots = raw.roots.as_ref().map(&mut path);
        let identity = match (&raw.certificate, &raw.key) {
            (Some(certificate), Some(key)) => path(certificate).zip(path(key)),
            (None, None) => None,
            (certificate, key) => {
                let at = certificate.as_ref().or(key.as_ref()).map_or_else(|| url.at(), Field::at);
                self.report(
                    Problem::at(at, "a certificate needs its private key, and a key its certificate")
                        .help("write both: `tls: { certificate: gateway.pem, key: gateway-key.pem }`"),
                );
                None
            }
        };
        Tls { roots: roots.flatten(), identity }
    }
}
