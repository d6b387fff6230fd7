//! Engine addresses, validated and normalised so that one server has one address.

use schemars::Schema;

use super::{mistake::Mistake, patterns::text_schema};

const EXAMPLE: &str = "write the API's base address, such as `http://10.0.0.1:8000/v1`";

/// Ends of addresses that were copied with the path of a request.
const ENDPOINTS: [&[&str]; 5] =
    [&["chat", "completions"], &["completions"], &["embeddings"], &["responses"], &["messages"]];

/// The address in `text`: host in lower case, without default port, empty segments and trailing slash.
pub fn read(text: &str) -> Result<String, Mistake> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Mistake::new("an address without `http://` or `https://`").help(EXAMPLE));
    };
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match &*scheme {
        "http" => ":80",
        "https" => ":443",
        "dns+http" | "dns+https" => {
            return Err(Mistake::new("`dns+` addresses are not supported yet by this version")
                .help("name each server as a backend of its own"));
        }
        _ => return Err(Mistake::new("an engine is reached over http or https only").help(EXAMPLE)),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(Mistake::new("an address with credentials in it")
            .help("put the key beside it: `{ url: …, key: \"${KEY}\" }`"));
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(Mistake::new("an address without a host").help(EXAMPLE));
    }
    if path.contains(['?', '#']) {
        return Err(Mistake::new("an address with a query or a fragment").help(
            "write the address alone; an engine under `engines` takes parameters of its query: `query: { api-version: \"1\" }`",
        ));
    }
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if let Some(end) = ENDPOINTS.iter().find(|end| segments.ends_with(end)) {
        let base = &segments[..segments.len() - end.len()];
        let base: String = base.iter().flat_map(|segment| ["/", segment]).collect();
        return Err(Mistake::new("an address with an endpoint at its end")
            .help(format!("the gateway adds the endpoint: write `{scheme}://{authority}{base}`")));
    }
    let path: String = segments.iter().flat_map(|segment| ["/", segment]).collect();
    let authority = authority.to_ascii_lowercase();
    let authority = authority.strip_suffix(default_port).unwrap_or(&authority);
    let url = format!("{scheme}://{authority}{path}");
    let valid = url.parse::<http::Uri>().is_ok_and(|uri| {
        // `http::Uri` reads a port lazily: one beyond 65535 or without digits shows only here.
        uri.authority().is_some_and(|it| it.host().len() == it.as_str().len() || it.port_u16().is_some())
    });
    if valid { Ok(url) } else { Err(Mistake::new("not a valid address").help(EXAMPLE)) }
}

/// The JSON schema of an address.
pub(super) fn schema() -> Schema {
    text_schema(
        r"[hH][tT][tT][pP][sS]?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(?::[0-9]{1,5})?(?:/[^\s?#]*)?",
        &["http://10.0.0.1:8000/v1"],
    )
}

/// Host and port of an address that [`read`] returned.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// True if the path of an address has a version, such as `/v1` or `/v1beta/openai`: then it is the base of the API's
/// paths. Elsewhere the API is at `/v1` below it.
pub fn has_version(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    path.split('/').any(is_version)
}

/// True for `v` and a number, with `alpha` or `beta` and another number after it.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) else {
        return false;
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix("alpha").or_else(|| rest.strip_prefix("beta")).unwrap_or(rest);
    rest.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_normalised() {
        for text in ["http://Host/v1", "http://host:80/v1/", "HTTP://host/v1", "http://host//v1//"] {
            assert_eq!(read(text).unwrap(), "http://host/v1");
        }
        assert_eq!(read("http://[::1]:8000/v1").unwrap(), "http://[::1]:8000/v1");
        assert_eq!(read("https://x.openai.azure.com/").unwrap(), "https://x.openai.azure.com");
        assert_eq!(authority("http://10.0.0.1:8000/v1"), "10.0.0.1:8000");
    }

    #[test]
    fn an_endpoint_is_no_part_of_an_address() {
        let help = |text| read(text).unwrap_err().help.unwrap();
        assert!(help("http://h:1/v1/chat/completions").contains("write `http://h:1/v1`"));
        assert!(help("https://h/v1/messages/").contains("write `https://h/v1`"));
    }

    #[test]
    fn versions_are_found_anywhere_in_the_path() {
        for url in
            ["http://h/v1", "https://h/v1beta/openai", "https://h/api/paas/v4", "https://h/v1/openai", "http://h/v1/"]
        {
            assert!(has_version(url), "{url}");
        }
        for url in [
            "http://h",
            "http://v1",
            "http://h/openai",
            "http://h/vllm",
            "http://h/v",
            "http://h/v1x",
            "http://h/v1gamma",
        ] {
            assert!(!has_version(url), "{url}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in [
            "",
            "http://h/v1/chat/completions",
            "http://h/v1/embeddings/",
            "10.0.0.1:8000",
            "ftp://h/",
            "http://",
            "http://:80/",
            "http:///v1",
            "http://h:99999/v1",
            "http://h:x/v1",
            "http://a b/v1",
            "http://u:p@h/v1",
            "http://h/v1?x=1",
            "dns+http://h:8000/v1",
            "http://h:/v1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
