//! Networks of addresses, and the addresses at which no engine can be.

use std::net::IpAddr;

use schemars::Schema;

use super::{mistake::Mistake, patterns::text_schema, scalar::Scalar};

/// A network such as `10.0.0.0/8`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// True if `ip` is an address of this network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                own.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                own.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl Scalar for Network {
    fn read(text: &str) -> Result<Self, Mistake> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let read = || {
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
            Some(Self { address, bits })
        };
        read().ok_or_else(|| Mistake::new("not a network").help("write it like `10.0.0.0/8`, `fd00::/8` or `10.0.0.9`"))
    }

    fn schema() -> Schema {
        text_schema(r"[0-9.]+(?:/[0-9]{1,2})?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:/[0-9]{1,3})?", &["10.0.0.0/8"])
    }
}

/// True for an address at which no engine can be: unspecified, link-local (where clouds keep the credentials of
/// machines), multicast and broadcast addresses.
pub fn is_no_engine(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_unspecified() || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_unicast_link_local() || ip.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let contains = |network: &str, ip: &str| Network::read(network).unwrap().contains(ip.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1") && contains("10.0.0.0/8", "::ffff:10.1.1.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1") && !contains("10.0.0.0/8", "fd00::1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && contains("::/0", "fd00::1") && contains("fd00::/8", "fdab::1"));
        assert!(contains("10.0.0.9", "10.0.0.9") && !contains("10.0.0.9", "10.0.0.8"));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "host/8", "10.0.0.0/"] {
            assert!(Network::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_engine_is_at_an_address_of_the_link() {
        let refused = |text: &str| is_no_engine(text.parse().unwrap());
        for ip in [
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:169.254.169.254",
        ] {
            assert!(refused(ip), "{ip}");
        }
        assert!(!refused("127.0.0.1") && !refused("10.0.0.1") && !refused("fd00::1") && !refused("8.8.8.8"));
    }
}
