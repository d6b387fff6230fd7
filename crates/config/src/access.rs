//! Access control as written in the file: callers' keys, operators' credentials, host names and allowed web origins.

use std::{fmt, marker::PhantomData, net::SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use super::{
    key_source::KeySource,
    keys::Key,
    mistake::{At, Mistake},
    network::Network,
    patterns::{plain_schema, text_schema},
    scalar::{Field, Scalar},
    shape::{Located, Shapes},
};

/// The keys that may call, or `none`.
#[derive(Debug)]
pub enum Keys {
    /// `none`: keys are deliberately not required, and everyone who can connect may call.
    None(At),
    /// The keys.
    List(Located<Vec<Key>>),
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form(PhantomData<Key>);

        impl<'de> Visitor<'de> for Form {
            type Value = Option<Vec<Key>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of keys, or `none` to let in everyone who can connect")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "none" {
                    Ok(None)
                } else {
                    Err(E::invalid_type(serde::de::Unexpected::Other("text"), &self))
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Some)
            }
        }

        struct Listed(Option<Vec<Key>>);

        impl<'de> Deserialize<'de> for Listed {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Form(PhantomData)).map(Listed)
            }
        }

        let Located { value: Listed(keys), at } = Located::deserialize(deserializer)?;
        Ok(match keys {
            None => Self::None(at),
            Some(value) => Self::List(Located { value, at }),
        })
    }
}

impl Keys {
    /// The listed keys, if any.
    pub fn list(&self) -> Option<&Located<Vec<Key>>> {
        match self {
            Self::List(keys) => Some(keys),
            Self::None(_) => None,
        }
    }

    /// Reads `keys` if the file has it. An empty value is an error and never lets everyone in.
    pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }
}

impl JsonSchema for Keys {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Keys".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, { "type": "array", "items": generator.subschema_for::<Key>(), "minItems": 1 }] })
    }
}

/// The address for operators and their credentials. Without `token` or `mtls` only a loopback address is accepted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdminListener {
    /// The address. Default: `127.0.0.1:4101`.
    pub listen: Option<Field<SocketAddr>>,
    /// The secret that operators send: `"${SIGNALBOX_ADMIN_TOKEN}"` or `{ file: path }`. Browsers ask for it as a
    /// password, with any user name.
    pub token: Option<KeySource>,
    /// A second secret, for monitoring: it reads `/metrics`, `/admin/state` and `/admin/history`, and nothing else. Requires `token`.
    pub read_token: Option<KeySource>,
    /// The networks in which backends may be added over the admin API, such as `[10.0.0.0/8]`; `[]` for none. Host names
    /// are rejected then, since they may lead anywhere. Default: any address but those of the link.
    pub add_backends: Option<Vec<Field<Network>>>,
    /// Client certificates of operators. Requires `tls`.
    pub mtls: Option<Mtls>,
    /// Host names under which it may be addressed, besides its address and `localhost`, such as `[signalbox.internal]`.
    pub hosts: Option<Vec<Field<Host>>>,
}

impl Shapes for AdminListener {
    const EXPECTED: &'static str =
        "an address such as `127.0.0.1:4101`, `off`, or a mapping with `listen`, and `token` or `mtls`";

    fn word(value: bool) -> Option<&'static str> {
        (!value).then_some("off")
    }
}

/// Client certificates of operators.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mtls {
    /// PEM file of root certificates: only operators with a certificate signed by one of them are admitted.
    pub client_roots: Field<String>,
}

/// Web pages of other sites that may call from browsers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// The origins, such as `[https://chat.example.com]`.
    pub origins: Located<Vec<Field<Origin>>>,
}

/// A host name or address under which a listener is addressed, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(pub String);

impl Scalar for Host {
    fn read(text: &str) -> Result<Self, Mistake> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let is_address = bare.parse::<std::net::IpAddr>().is_ok();
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if !is_address && (bare.is_empty() || !bare.bytes().all(of_name)) {
            return Err(Mistake::new("not the name of a host")
                .help("write it like `signalbox.internal`, without `http://` and without a port"));
        }
        Ok(Self(bare.to_ascii_lowercase()))
    }

    fn schema() -> Schema {
        plain_schema(r"\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?|[A-Za-z0-9._-]+")
    }
}

/// A web origin, as browsers send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub String);

impl Scalar for Origin {
    fn read(text: &str) -> Result<Self, Mistake> {
        let help = "write it like `https://chat.example.com`: `http` or `https`, the host, and its port where it is not the usual one";
        if text == "*" {
            return Err(Mistake::new("every site's pages would be let in").help("name the sites one by one"));
        }
        let wrong = || Mistake::new("not a site as browsers name it").help(help);
        let url = super::url::read(text).map_err(|_| wrong())?;
        let is_bare = url.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
        if is_bare && !text.ends_with('/') { Ok(Self(url)) } else { Err(wrong()) }
    }

    fn schema() -> Schema {
        text_schema(
            r"[hH][tT][tT][pP][sS]?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(?::[0-9]{1,5})?",
            &["https://chat.example.com"],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_are_normalised() {
        assert_eq!(Host::read("Signalbox.Internal"), Ok(Host("signalbox.internal".into())));
        assert_eq!(Host::read("[::1]"), Ok(Host("::1".into())));
        for wrong in ["", "http://h", "h:80", "a b", "*", "*.h", "u@h"] {
            assert!(Host::read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Origin::read("https://Chat.example:443"), Ok(Origin("https://chat.example".into())));
        assert_eq!(Origin::read("http://localhost:3000"), Ok(Origin("http://localhost:3000".into())));
        for wrong in ["", "*", "null", "chat.example", "https://h/", "https://h/x", "ftp://h", "https://u@h"] {
            assert!(Origin::read(wrong).is_err(), "{wrong}");
        }
    }
}
