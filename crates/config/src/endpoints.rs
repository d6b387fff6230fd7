//! Files of endpoints: a list of addresses, or target groups as Prometheus' `file_sd` writes them, in YAML or JSON.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::{MessageFormatter, Spanned, UserMessageFormatter};

use super::{discovery::Scheme, mistake::Mistake, scalar::Scalar, units, url, yaml::options};

/// The largest file of endpoints.
pub const MAX_ENDPOINTS_BYTES: usize = 1 << 20;
/// The most endpoints of one file.
const MAX_ENDPOINTS: usize = 10_000;
/// The label of Prometheus that sets the scheme of a target.
const SCHEME: &str = "__scheme__";

/// An address from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEndpoint {
    /// Its scheme, if the file sets one.
    pub scheme: Option<Scheme>,
    /// Host and port, such as `10.0.0.1:8000`.
    pub authority: String,
    /// The path of its API, if the file sets one.
    pub path: Option<String>,
    /// Most concurrent requests, if the file sets them.
    pub max_concurrency: Option<u32>,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct EndpointsError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1.
    pub column: usize,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl EndpointsError {
    fn at((line, column): (u64, u64), message: impl Into<String>) -> Self {
        let count = |number| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Self { line: count(line), column: count(column), message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// An item of the file.
enum Item {
    Address(String),
    Long(LongItem),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongItem {
    url: Option<Spanned<String>>,
    max_concurrency: Option<Spanned<String>>,
    targets: Option<Vec<Spanned<String>>>,
    labels: Option<std::collections::BTreeMap<String, Spanned<String>>>,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;

        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as `http://10.0.0.1:8000/v1`, `{ url: … }`, or `{ targets: […] }`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Address(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                LongItem::deserialize(MapAccessDeserializer::new(map)).map(Item::Long)
            }
        }

        deserializer.deserialize_any(ItemVisitor)
    }
}

/// Reads a file of endpoints. An explicit empty list is valid; a file without content is not, since it may be half
/// written. Duplicates count once.
pub fn endpoints(text: &str) -> Result<Vec<ListedEndpoint>, EndpointsError> {
    if text.len() > MAX_ENDPOINTS_BYTES {
        return Err(EndpointsError::at((1, 1), "larger than 1 MiB: this is no file of endpoints"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let items =
        serde_saphyr::from_str_with_options::<Option<Vec<Spanned<Item>>>>(text, options()).map_err(|error| {
            let at = error.location().map_or((1, 1), |location| (location.line(), location.column()));
            EndpointsError::at(at, UserMessageFormatter.format_message(error.without_snippet()).into_owned())
                .help("the file is a list: `- http://10.0.0.1:8000/v1`, or `- targets: [\"10.0.0.1:8000\"]`")
        })?;
    let items = items.ok_or_else(|| {
        EndpointsError::at((1, 1), "the file is empty")
            .help("write `[]` for no endpoints; an empty file may be half written")
    })?;
    let mut found = Vec::new();
    for item in &items {
        read(item, &mut found)?;
        if found.len() > MAX_ENDPOINTS {
            return Err(EndpointsError::at(place(item), format!("more than {MAX_ENDPOINTS} endpoints")));
        }
    }
    let mut seen = HashSet::new();
    found.retain(|endpoint: &ListedEndpoint| {
        seen.insert((endpoint.scheme, endpoint.authority.clone(), endpoint.path.clone()))
    });
    Ok(found)
}

fn place<T>(spanned: &Spanned<T>) -> (u64, u64) {
    (spanned.referenced.line(), spanned.referenced.column())
}

fn read(item: &Spanned<Item>, found: &mut Vec<ListedEndpoint>) -> Result<(), EndpointsError> {
    match &item.value {
        Item::Address(text) => found.push(address(text, place(item))?),
        Item::Long(LongItem { url: Some(url), max_concurrency, targets: None, labels: None }) => {
            let most = max_concurrency.as_ref().map(|most| {
                let size = units::size(&most.value).map_err(|it| mistake(place(most), it))?;
                Ok(u32::try_from(size).unwrap_or(u32::MAX))
            });
            found.push(ListedEndpoint { max_concurrency: most.transpose()?, ..address(&url.value, place(url))? });
        }
        Item::Long(LongItem { url: None, max_concurrency: None, targets: Some(targets), labels }) => {
            let scheme = labels.as_ref().and_then(|labels| labels.get(SCHEME));
            let scheme =
                scheme.map(|text| Scheme::read(&text.value).map_err(|it| mistake(place(text), it))).transpose()?;
            for target in targets {
                let endpoint = address(&target.value, place(target))?;
                found.push(ListedEndpoint { scheme: endpoint.scheme.or(scheme), ..endpoint });
            }
        }
        Item::Long(_) => {
            return Err(EndpointsError::at(place(item), "neither an address nor a target group")
                .help("write `{ url: http://10.0.0.1:8000/v1, max_concurrency: 32 }`, or `{ targets: [\"10.0.0.1:8000\"], labels: {} }`"));
        }
    }
    Ok(())
}

fn mistake(at: (u64, u64), mistake: Mistake) -> EndpointsError {
    EndpointsError { help: mistake.help.map(Into::into), ..EndpointsError::at(at, mistake.message) }
}

/// Reads a whole URL, or a host and port.
fn address(text: &str, at: (u64, u64)) -> Result<ListedEndpoint, EndpointsError> {
    let is_whole = text.contains("://");
    let whole = if is_whole { text.to_owned() } else { format!("http://{text}") };
    let normal = url::read(&whole).map_err(|it| mistake(at, it))?;
    let (scheme, rest) = normal.split_once("://").unwrap_or(("http", &normal));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !is_whole && (!path.is_empty() || !has_port(text)) {
        return Err(EndpointsError::at(at, "not a host and port")
            .help("write `10.0.0.1:8000`, or a whole address such as `http://10.0.0.1:8000/v1`"));
    }
    let own = |part: &str| is_whole.then(|| part.to_owned());
    Ok(ListedEndpoint {
        scheme: is_whole.then(|| if scheme == "https" { Scheme::Https } else { Scheme::Http }),
        // The default port was removed from `host:80`, which the pool's scheme may make wrong.
        authority: if is_whole { authority.to_owned() } else { text.to_ascii_lowercase() },
        path: own(path),
        max_concurrency: None,
    })
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(host, port)| {
        // An IPv6 address needs brackets: `1:0:80` without its default port would be another host and port.
        let is_host = !host.is_empty() && (host.ends_with(']') || !host.contains(':'));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Reads arbitrary bytes as a file of endpoints. An entry point for fuzzers, which must never panic.
///
/// # Panics
///
/// If an accepted endpoint is not a valid address.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_endpoints(bytes: &[u8]) {
    let Ok(found) = endpoints(&String::from_utf8_lossy(bytes)) else { return };
    for ListedEndpoint { scheme, authority, path, .. } in found {
        let scheme = scheme.unwrap_or_default().name();
        let whole = format!("{scheme}://{authority}{}", path.as_deref().unwrap_or("/v1"));
        assert!(url::read(&whole).is_ok(), "{whole} was accepted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |it: ListedEndpoint| {
            let scheme = it.scheme.map_or("?", Scheme::name);
            format!("{scheme} {} {} {:?}", it.authority, it.path.as_deref().unwrap_or("?"), it.max_concurrency)
        };
        endpoints(text).unwrap().into_iter().map(show).collect()
    }

    #[test]
    fn own_lists_and_target_groups_are_read() {
        let own = "# fleet\n- http://10.0.0.1:8000/v1\n- 10.0.0.2:8000\n- { url: \"https://Gpu:443/v1/\", max_concurrency: 32 }\n- 10.0.0.2:8000\n";
        assert_eq!(shown(own), ["http 10.0.0.1:8000 /v1 None", "? 10.0.0.2:8000 ? None", "https gpu /v1 Some(32)"]);
        let groups = r#"[{"targets": ["10.0.0.1:8000", "[::1]:80"], "labels": {"__scheme__": "https", "job": "vllm"}}, {"targets": []}]"#;
        assert_eq!(shown(groups), ["https 10.0.0.1:8000 ? None", "https [::1]:80 ? None"]);
        assert!(shown("[]").is_empty());
    }

    #[test]
    fn mistakes_have_a_position_and_a_remedy() {
        for (text, place, message) in [
            ("", (1, 1), "empty"),
            ("# nothing\n", (1, 1), "empty"),
            ("- 10.0.0.1\n", (1, 3), "host and port"),
            ("- http://a:1/v1\n- ftp://b\n", (2, 3), "http or https"),
            ("- url: x\n", (1, 8), "host and port"),
            ("- 1:0:80\n", (1, 3), "host and port"),
            ("- { url: \"http://a\", targets: [] }\n", (1, 3), "neither"),
            ("- { targets: [a:1], labels: { __scheme__: ftp } }\n", (1, 43), "possible"),
            ("- { target: [a] }\n", (1, 5), "target"),
            ("a: b\n", (1, 1), ""),
            ("- [a]\n", (1, 3), ""),
        ] {
            let error = endpoints(text).unwrap_err();
            assert_eq!((error.line, error.column), place, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
            assert!(error.help.is_some(), "{text}: {error}");
        }
    }
}
