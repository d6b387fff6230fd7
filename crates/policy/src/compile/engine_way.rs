//! Compiles the way to an engine: headers, query, certificates and proxy.

use std::sync::Arc;

use url::form_urlencoded::Serializer;

use super::reader::Reader;
use crate::{Connection, Engine, EngineWay, Secret};
use signalbox_config::{
    At, Base, Field, Named, Problem, authority,
    connection::{ClientTls as RawTls, Proxy},
    engines as typed,
    otel::HeaderText,
};
use signalbox_types::{ClientTls, Name};

/// Headers that say where a body ends or who is asked: they belong to the connection.
const FRAMING: [&str; 8] =
    ["content-length", "transfer-encoding", "connection", "host", "upgrade", "te", "trailer", "expect"];

impl Reader<'_> {
    pub(super) fn engine_way(&mut self, raw: &typed::Engine) -> EngineWay {
        let headers = raw.headers.iter().flat_map(|named| &named.entries);
        let headers: Arc<[_]> = headers.filter_map(|(name, value)| self.engine_header(name, value)).collect();
        EngineWay {
            is_exact: self.or(raw.base.as_ref(), Base::Auto) == Base::Exact,
            query: raw.query.as_ref().and_then(|query| self.query(query)),
            headers,
            connection: Connection {
                tls: raw.tls.as_ref().map(|tls| self.engine_tls(raw.url.at(), raw.url.text(), tls)),
                proxy: self.optional::<Proxy>(raw.proxy.as_ref()),
            },
        }
    }

    fn engine_header(&mut self, name: &Field<String>, value: &Field<HeaderText>) -> Option<(Name, Secret)> {
        if FRAMING.contains(&&*name.text().to_ascii_lowercase()) {
            self.report(
                Problem::at(name.at(), format!("`{}` belongs to the connection", name.text()))
                    .help("remove it: the gateway sets it for each request"),
            );
            return None;
        }
        self.header(name, value)
    }

    fn query(&mut self, raw: &Named<Field<HeaderText>>) -> Option<Secret> {
        let mut query = Serializer::new(String::new());
        for (name, value) in &raw.entries {
            if let Some(HeaderText(value)) = self.read(value) {
                query.append_pair(name.text(), &value);
            }
        }
        Some(query.finish()).filter(|query| !query.is_empty()).map(|query| Secret(query.into()))
    }

    fn engine_tls(&mut self, at: At, url: &str, raw: &RawTls) -> ClientTls {
        if url.starts_with("http://") {
            self.report(
                Problem::at(at, "certificates in `tls` beside an address without TLS")
                    .help("write the address with `https`, or remove `tls`"),
            );
        }
        self.client_tls(at, raw)
    }

    /// The files of certificates, relative to the policy's folder. `at` is the server's address.
    pub(super) fn client_tls(&mut self, at: At, raw: &RawTls) -> ClientTls {
        let mut path = |field: &Field<String>| self.config.path(field).map_err(|problem| self.report(problem)).ok();
        let roots = raw.roots.as_ref().map(&mut path);
        let identity = match (&raw.certificate, &raw.key) {
            (Some(certificate), Some(key)) => path(certificate).zip(path(key)),
            (None, None) => None,
            (certificate, key) => {
                let at = certificate.as_ref().or(key.as_ref()).map_or(at, Field::at);
                self.report(
                    Problem::at(at, "a certificate needs its private key, and a key its certificate")
                        .help("write both: `tls: { certificate: gateway.pem, key: gateway-key.pem }`"),
                );
                None
            }
        };
        ClientTls { roots: roots.flatten(), identity }
    }

    /// Reports an engine whose connections are made otherwise than those of another engine at its host: connections are
    /// shared by all requests to a host.
    pub(super) fn check_connection(&mut self, at: At, engine: &Engine, others: &[Engine]) {
        let place = |engine: &Engine| (engine.url.starts_with("https:"), authority(&engine.url).to_owned());
        let differs = |other: &&Engine| place(other) == place(engine) && other.way.connection != engine.way.connection;
        if let Some(other) = others.iter().find(differs) {
            self.report(
                Problem::at(
                    at,
                    format!("the host of engine `{}`, with other certificates or another proxy", other.name),
                )
                .help("engines of one host share its connections: give them the same `tls` and `proxy`"),
            );
        }
    }
}
