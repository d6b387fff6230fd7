//! The address of a metrics exporter.

use super::{
    mistake::Mistake,
    scalar::{Scalar, Url},
};

/// The address of an exporter's metrics; `/metrics` if the address has no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter(pub String);

impl Scalar for Exporter {
    fn read(text: &str) -> Result<Self, Mistake> {
        let has_credentials = text.split('/').nth(2).is_some_and(|authority| authority.contains('@'));
        let help = if has_credentials {
            "exporters with credentials are not supported: let this one answer the gateway without them"
        } else {
            "write the address of its metrics, over http or https, such as `http://g1:9400/metrics`"
        };
        let Url(url) = Url::read(text).map_err(|_| Mistake::new("not the address of an exporter").help(help))?;
        let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        Ok(Self(if has_path { url } else { format!("{url}/metrics") }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_addresses_are_completed() {
        let read = |text| Exporter::read(text).map(|Exporter(url)| url);
        assert_eq!(read("http://G1:9400").unwrap(), "http://g1:9400/metrics");
        assert_eq!(read("http://g1:9400/gpus").unwrap(), "http://g1:9400/gpus");
        for text in ["g1:9400", "ftp://g1/metrics"] {
            assert!(read(text).unwrap_err().help.unwrap().contains("9400/metrics"));
        }
        assert!(read("http://me:secret@g1:9400").unwrap_err().help.unwrap().contains("not supported"));
    }
}
