//! Compiles the operators' listener, the accepted host names and the allowed web origins.

use std::net::SocketAddr;

use super::reader::Reader;
use crate::{
    access::{AdminAccess, CREDENTIAL_HELP},
    defaults::ADMIN,
};
use signalbox_config::{
    Admin, At, Either, Field, Problem,
    access::{AdminListener, Host, Origin},
    raw,
};
use signalbox_types::Name;

impl Reader<'_> {
    /// The operators' address and their credentials.
    pub(super) fn admin(&mut self, document: &raw::Document) -> (Option<SocketAddr>, AdminAccess) {
        match &document.admin {
            None => (Some(ADMIN), AdminAccess::default()),
            Some(Either::Short(field)) => {
                let Admin(address) = self.or(Some(field), Admin(Some(ADMIN)));
                if address.is_some_and(|address| !address.ip().is_loopback()) {
                    self.report(unguarded(field.at()));
                }
                (address, AdminAccess::default())
            }
            Some(Either::Long(raw, at)) => self.admin_listener(raw, *at, document.tls.is_some()),
        }
    }

    fn admin_listener(&mut self, raw: &AdminListener, at: At, has_tls: bool) -> (Option<SocketAddr>, AdminAccess) {
        let address = self.or(raw.listen.as_ref(), ADMIN);
        let client_roots = raw.mtls.as_ref().and_then(|mtls| {
            if !has_tls {
                self.report(
                    Problem::at(mtls.client_roots.at(), "operators' certificates without one of the gateway's own")
                        .help("add it: `tls: { certificate: …, key: … }`"),
                );
            }
            self.config.path(&mtls.client_roots).map_err(|problem| self.report(problem)).ok()
        });
        let access = AdminAccess {
            token: raw.token.as_ref().and_then(|source| self.secret(source)),
            read_token: raw.read_token.as_ref().and_then(|source| self.secret(source)),
            add_backends: raw
                .add_backends
                .as_ref()
                .map(|all| all.iter().filter_map(|field| self.read(field)).collect()),
            client_roots,
            hosts: self.hosts(raw.hosts.as_deref().unwrap_or_default()),
        };
        if raw.read_token.is_some() && raw.token.is_none() {
            self.report(
                Problem::at(at, "`read_token` without `token`, so that everything else would need none")
                    .help("add it: `token: \"${SIGNALBOX_ADMIN_TOKEN}\"`, or remove `read_token`"),
            );
        }
        if !address.ip().is_loopback() && raw.token.is_none() && raw.mtls.is_none() {
            self.report(unguarded(raw.listen.as_ref().map_or(at, Field::at)));
        }
        (Some(address), access)
    }

    pub(super) fn hosts(&mut self, raw: &[Field<Host>]) -> Vec<Name> {
        raw.iter().filter_map(|field| self.read(field)).map(|Host(name)| name.into()).collect()
    }

    pub(super) fn origins(&mut self, document: &raw::Document) -> Vec<Name> {
        let Some(cors) = &document.cors else { return Vec::new() };
        if cors.origins.value.is_empty() {
            self.report(
                Problem::at(cors.origins.at, "an empty list of sites")
                    .help("name some, such as `[https://chat.example.com]`, or leave `cors` out"),
            );
        }
        cors.origins.value.iter().filter_map(|field| self.read(field)).map(|Origin(site)| site.into()).collect()
    }
}

/// The problem of an operators' address that the network can reach without a credential.
fn unguarded(at: At) -> Problem {
    Problem::at(at, "operators could come in from the network without a credential").help(CREDENTIAL_HELP)
}
