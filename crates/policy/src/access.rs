//! Access control: operators' credentials, the host names that listeners accept, and the protections that a reload must
//! not remove by accident.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use super::{Policy, Secret, Tls};
use signalbox_config::{Network, is_no_engine};
use signalbox_types::Name;

/// The credentials of operators, and the host names of their listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// The secret that operators send.
    pub token: Option<Secret>,
    /// The secret that reads metrics and the state, and nothing else.
    pub read_token: Option<Secret>,
    /// The networks in which backends may be added; `None` for any.
    pub add_backends: Option<Vec<Network>>,
    /// PEM file of root certificates for operators' certificates.
    pub client_roots: Option<PathBuf>,
    /// Host names of the listener besides its address and `localhost`.
    pub hosts: Vec<Name>,
}

impl AdminAccess {
    /// Checks that a backend at `url` may be added over the admin API.
    ///
    /// # Errors
    /// The reason why not, with its remedy.
    pub(crate) fn may_add(&self, url: &str) -> Result<(), String> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let dots = |part: &str| matches!(&*part.to_ascii_lowercase().replace("%2e", "."), "." | "..");
        if path.split(['/', '\\']).any(dots) {
            return Err("a path with `..` or `.`: write the path that is meant".to_owned());
        }
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let ip = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((host, _)) => host.parse::<IpAddr>().ok(),
            None => host.split(':').next().unwrap_or_default().parse().ok(),
        };
        if let Some(ip) = ip.filter(|ip| is_no_engine(*ip)) {
            return Err(format!("no engine can be at {ip}: write the engine's own address"));
        }
        let Some(networks) = &self.add_backends else { return Ok(()) };
        if ip.is_some_and(|ip| networks.iter().any(|network| network.contains(ip))) {
            return Ok(());
        }
        Err(match ip {
            _ if networks.is_empty() => {
                "no backends may be added here: write it into the policy (`admin.add_backends`)".to_owned()
            }
            Some(ip) => format!("{ip} is in none of the networks of `admin.add_backends` in the policy"),
            None => "with `admin.add_backends` in the policy, a backend is added by its IP address".to_owned(),
        })
    }

    /// True if operators need a credential.
    pub fn asks(&self) -> bool {
        self.token.is_some() || self.client_roots.is_some()
    }

    /// True if a running listener with this access may switch to `next`. It cannot start or stop asking for
    /// certificates, and must not stop asking for credentials altogether.
    pub fn may_become(&self, next: &Self) -> bool {
        self.client_roots.is_some() == next.client_roots.is_some() && (next.asks() || !self.asks())
    }
}

/// The remedy for an operators' address that the network can reach without a credential.
pub const CREDENTIAL_HELP: &str = "ask for one, `admin: { listen: 0.0.0.0:4101, token: \"${SIGNALBOX_ADMIN_TOKEN}\" }` \
     (or `mtls: { client_roots: … }`), or listen on this machine alone: `admin: 127.0.0.1:4101`";

impl Policy {
    /// The TLS settings of the operators' listener, whose credentials are `access`.
    pub fn admin_tls(&self, access: &AdminAccess) -> Option<Tls> {
        let tls = self.tls.clone()?;
        let client_roots = access.client_roots.clone().or(tls.client_roots);
        Some(Tls { client_roots, ..tls })
    }

    /// The operators' address, if the network can reach it without a credential.
    pub fn unguarded_admin(&self) -> Option<SocketAddr> {
        self.admin.filter(|admin| !admin.ip().is_loopback() && !self.admin_access.asks())
    }

    /// The protection that would be lost if `next` replaced this policy, and how to state that this is intended. A
    /// half-written or empty file must not open the gateway.
    pub fn opened_by(&self, next: &Self) -> Option<&'static str> {
        let asks_certificates = |policy: &Self| policy.tls.as_ref().is_some_and(|tls| tls.client_roots.is_some());
        if self.asks_keys() && !next.asks_keys() && !next.keys_none {
            return Some(
                "it has no `keys`, which would let in everyone who can connect: if that is meant, write `keys: none`",
            );
        }
        if self.admin_access.asks() && next.admin.is_some() && !next.admin_access.asks() {
            return Some("`admin` would ask for no credential any more: if that is meant, restart the gateway");
        }
        if asks_certificates(self) && !asks_certificates(next) {
            return Some(
                "`tls.client_roots` is gone, so that clients would need no certificate any more: if that is meant, restart the gateway",
            );
        }
        if self.hosts.is_some() && next.hosts.is_none() {
            return Some("`hosts` is gone, so that any name would be answered: if that is meant, restart the gateway");
        }
        None
    }

    /// Warnings about listeners that are more open than operators may think.
    pub fn exposures(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.asks_keys() && !self.listen.ip().is_loopback() {
            warnings.push(format!(
                "{} is open to the network and no keys are asked for; `signalbox key new` makes one",
                self.listen
            ));
        }
        let admin = self.admin.filter(|admin| !admin.ip().is_loopback() && self.tls.is_none());
        if let (Some(admin), Some(_)) = (admin, &self.admin_access.token) {
            warnings.push(format!("operators send their token to {admin} in the clear; `tls` secures it"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use signalbox_config::Config;

    fn policy(more: &str) -> Policy {
        let text = format!("pools: {{ p: {{ backends: [http://h/v1] }} }}\n{more}");
        compile(&text.parse::<Config>().unwrap()).unwrap()
    }

    #[test]
    fn a_reload_cannot_remove_protections() {
        let hash = "blake3:0000000000000000000000000000000000000000000000000000000000000000";
        let keys = format!("keys: [{{ id: a, hash: \"{hash}\" }}]\n");
        let restricted = format!("keys: [{{ id: a, hash: \"{hash}\", models: [auto] }}]\n");
        let tls = "tls: { certificate: c, key: k }\n";
        for (before, next, opens) in [
            (&*keys, "", true),
            (&keys, "keys: none\n", false),
            (&restricted, &keys, false),
            ("", "", false),
            ("", &keys, false),
            ("admin: { token: t }\n", "", true),
            ("admin: { token: t }\n", "admin: 127.0.0.1:4101\n", true),
            ("admin: { token: t }\n", "admin: { token: u }\n", false),
            ("admin: { token: t }\n", "admin: off\n", false),
            ("tls: { certificate: c, key: k, client_roots: r }\n", tls, true),
            (tls, "", false),
            ("hosts: [a]\n", "", true),
            ("hosts: [a]\n", "hosts: [b]\n", false),
        ] {
            assert_eq!(policy(before).opened_by(&policy(next)).is_some(), opens, "{before} → {next}");
        }
    }
}
