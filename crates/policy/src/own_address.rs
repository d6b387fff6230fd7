//! Engines at the gateway's own addresses, which would send every request in a circle.

use std::net::{IpAddr, SocketAddr};

use super::Policy;
use signalbox_config::authority;

impl Policy {
    /// URL of the first engine at one of the gateway's own addresses, with the key of that address.
    pub fn own_address(&self) -> Option<(&str, &'static str)> {
        let own = [Some((self.listen, "listen")), self.admin.map(|admin| (admin, "admin"))];
        let leads_to = |url: &str, address: SocketAddr| {
            let secured = url.starts_with("https://");
            let (host, port) = match authority(url).rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or_default()),
                _ => (authority(url), if secured { 443 } else { 80 }),
            };
            port == address.port() && port != 0 && is_host(host, address.ip())
        };
        let mut engines = self.engines.iter();
        engines.find_map(|engine| {
            let key = own.iter().flatten().find(|(address, _)| leads_to(&engine.url, *address))?.1;
            Some((&*engine.url, key))
        })
    }
}

/// True if `host` leads to a listener at `ip`.
fn is_host(host: &str, ip: IpAddr) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_any = ip.is_unspecified();
    match host.parse::<IpAddr>() {
        Ok(other) => other == ip || is_any && (other.is_loopback() || other.is_unspecified()),
        Err(_) => host.eq_ignore_ascii_case("localhost") && (is_any || ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use crate::compile;
    use signalbox_config::Config;

    #[test]
    fn engines_at_own_addresses_are_found() {
        let own = |url: &str, more: &str| {
            let text = format!("{more}pools: {{ a: {{ backends: [\"{url}\", http://x:4100/v1] }} }}\n");
            let policy = compile(&text.parse::<Config>().unwrap()).unwrap();
            policy.own_address().map(|(_, key)| key)
        };
        assert_eq!(own("http://127.0.0.1:4100/v1", ""), Some("listen"));
        assert_eq!(own("http://localhost:4101", ""), Some("admin"));
        assert_eq!(own("http://127.0.0.1:4100/v1", "listen: 127.0.0.1:5000\n"), None);
        assert_eq!(own("http://127.0.0.1/v1", "listen: 0.0.0.0:80\nkeys: none\n"), Some("listen"));
        assert_eq!(own("http://[::1]:80/v1", "listen: \"[::]:80\"\nkeys: none\n"), Some("listen"));
        assert_eq!(own("http://10.0.0.1:4100/v1", ""), None);
    }
}
