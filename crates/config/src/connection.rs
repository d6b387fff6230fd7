//! Connections as written in the file: certificates of both sides, and proxies.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::plain_schema,
    proxies,
    scalar::{Field, Scalar},
};

/// The gateway's own certificate. Its files are checked every half minute, so that a renewed certificate is used
/// without a restart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the certificate, followed by its intermediate certificates.
    pub certificate: Field<String>,
    /// PEM file of its private key.
    pub key: Field<String>,
    /// PEM file of root certificates. If set, only clients with a certificate signed by one of them are admitted.
    pub client_roots: Option<Field<String>>,
}

/// Certificates of a connection to a server with TLS.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// A PEM file with the roots that sign the server's certificate. Default: those of the operating system. Relative to
    /// this file's folder, like the other two.
    pub roots: Option<Field<String>>,
    /// A PEM file with this gateway's certificate, where the server requires one.
    pub certificate: Option<Field<String>>,
    /// A PEM file with its private key.
    pub key: Option<Field<String>>,
}

/// The way to a server, in place of the proxies of the environment.
#[derive(Clone, PartialEq, Eq)]
pub enum Proxy {
    /// No proxy.
    Direct,
    /// The proxy at this address, which may have credentials.
    At(String),
}

/// The word for no proxy.
const DIRECT: &str = "none";

impl Scalar for Proxy {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == DIRECT {
            return Ok(Self::Direct);
        }
        proxies::address(text).map(Self::At).map_err(|why| {
            Mistake::new(format!("this proxy {why}"))
                .help("write it like `http://proxy:3128` or `socks5://proxy:1080`, or `none` to use no proxy")
        })
    }

    fn schema() -> Schema {
        plain_schema("[!-~]+")
    }
}

// It may have credentials.
impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Direct { DIRECT } else { "[proxy]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_address_or_none() {
        assert_eq!(Proxy::read("none").unwrap(), Proxy::Direct);
        for (text, url) in [("proxy:3128", "http://proxy:3128"), ("socks5h://me:pw@p:1", "socks5h://me:pw@p:1")] {
            assert_eq!(Proxy::read(text).unwrap(), Proxy::At(url.to_owned()), "{text}");
        }
        for text in ["", "ftp://p:1", "http://"] {
            assert!(Proxy::read(text).unwrap_err().help.unwrap().contains("socks5://"), "{text}");
        }
        assert_eq!(format!("{:?}", Proxy::read("http://me:secret@p:1").unwrap()), "[proxy]");
    }
}
