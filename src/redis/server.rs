//! The address of a Redis or Valkey server, of a server that Sentinels watch, or of a cluster, and the credentials for it.

use std::{fmt, path::PathBuf, sync::Arc};

use ::redis::{ConnectionInfo, IntoConnectionInfo};

/// Port of a Sentinel whose address has none.
const SENTINEL_PORT: u16 = 26379;

/// The text is not an address. Never contains the text, which may hold a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// Another scheme, or none.
    #[error("not the address of a Redis or Valkey server")]
    Scheme,
    /// A host, a port, a database number or an escape that cannot be parsed.
    #[error("not the address of a Redis or Valkey server: {0}")]
    Host(String),
    /// Sentinels watch several groups by name.
    #[error("an address of Sentinels without the name of their master")]
    Master,
    /// A database of a cluster.
    #[error("a cluster has no numbered databases")]
    Database,
    /// A `#`, which begins a fragment.
    #[error("an address with a `#`")]
    Fragment,
}

impl AddressError {
    /// The way to write it.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Scheme | Self::Host(_) => {
                "write `redis://host:6379`, with TLS `rediss://host:6379`, with Sentinels \
                 `redis+sentinel://host:26379/master-name`, with a cluster `redis+cluster://host:6379`; a password goes \
                 into `password` beside the address"
            }
            Self::Master => {
                "end it with the name, as `sentinel monitor NAME …` has it: `redis+sentinel://host:26379/NAME`"
            }
            Self::Database => "remove the path: `redis+cluster://host:6379,host2:6379`",
            Self::Fragment => {
                "certificates are always verified: name their root in `tls: { roots: … }`; a password with `#` goes into \
                 `password` beside the address"
            }
        }
    }
}

/// The role of the hosts in an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// One server.
    Single,
    /// Sentinels that know the current master of this name. Its database has this number.
    Sentinel { master: Box<str>, database: i64 },
    /// Some nodes of a cluster, which know the others.
    Cluster,
}

/// Certificates of a connection with TLS, as paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The roots that sign the server's certificate; without it those of the operating system.
    pub roots: Option<PathBuf>,
    /// This gateway's certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Credentials for Sentinels.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user, if it is not the default one.
    pub user: Option<Arc<str>>,
    /// The password.
    pub password: Arc<str>,
}

/// A server, or several, and the credentials for it.
#[derive(Clone)]
pub struct Server {
    text: Arc<str>,
    shown: Arc<str>,
    /// The password beside the address.
    password: Option<Arc<str>>,
    pub(super) hosts: Vec<ConnectionInfo>,
    pub(super) topology: Topology,
    pub(super) tls: Option<Tls>,
    pub(super) sentinel_login: Option<Login>,
}

impl Server {
    /// Parses `redis://`, `rediss://`, `redis+sentinel://` and `redis+cluster://` addresses; `valkey` may stand for
    /// `redis`. `USER:PASSWORD@` before the first host is for the servers, not for their Sentinels.
    ///
    /// # Errors
    /// [`AddressError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !["redis", "rediss", "valkey", "valkeys"].contains(&base) {
            return Err(AddressError::Scheme);
        }
        if text.contains('#') {
            return Err(AddressError::Fragment);
        }
        let (login, at) = rest.rsplit_once('@').map_or(("", rest), |(login, at)| (login, at));
        let shown = format!("{scheme}://{at}").into();
        let (hosts, path) = at.split_once('/').unwrap_or((at, ""));
        let (topology, database, port) = match kind {
            "" => (Topology::Single, path, None),
            "sentinel" => {
                let (master, number) = path.split_once('/').unwrap_or((path, ""));
                let database = if number.is_empty() { Ok(0) } else { number.parse() };
                let database = database.map_err(|_| AddressError::Host("invalid database number".to_owned()))?;
                if master.is_empty() {
                    return Err(AddressError::Master);
                }
                (Topology::Sentinel { master: master.into(), database }, "", Some(SENTINEL_PORT))
            }
            "cluster" if path.is_empty() => (Topology::Cluster, "", None),
            "cluster" => return Err(AddressError::Database),
            _ => return Err(AddressError::Scheme),
        };
        let at_sign = if login.is_empty() { "" } else { "@" };
        let parse = |host: &str| {
            let is_bare = !host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = port.filter(|_| is_bare).map_or_else(String::new, |port| format!(":{port}"));
            let url = format!("{base}://{login}{at_sign}{host}{port}/{database}");
            url.as_str().into_connection_info().map_err(|error| AddressError::Host(error.to_string()))
        };
        let hosts = match topology {
            Topology::Single => vec![parse(hosts)?],
            _ => hosts.split(',').map(parse).collect::<Result<_, _>>()?,
        };
        Ok(Self { text: text.into(), shown, password: None, hosts, topology, tls: None, sentinel_login: None })
    }

    /// Sets the password of the servers, if there is one beside the address.
    #[must_use]
    pub fn with_password(self, password: Option<Arc<str>>) -> Self {
        let Some(password) = password else { return self };
        let with = |host: ConnectionInfo| {
            let settings = host.redis_settings().clone().set_password(&password);
            host.set_redis_settings(settings)
        };
        Self { hosts: self.hosts.into_iter().map(with).collect(), password: Some(password), ..self }
    }

    /// True if it has a password.
    pub fn has_password(&self) -> bool {
        self.hosts.iter().any(|host| host.redis_settings().password().is_some())
    }

    /// Sets the certificates of a connection with TLS.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// Sets the credentials for Sentinels.
    #[must_use]
    pub fn with_sentinel_login(self, sentinel_login: Option<Login>) -> Self {
        Self { sentinel_login, ..self }
    }

    /// True if connections use TLS.
    pub fn is_secured(&self) -> bool {
        self.shown.starts_with("rediss") || self.shown.starts_with("valkeys")
    }

    /// True if Sentinels are asked for the master.
    pub const fn has_sentinels(&self) -> bool {
        matches!(self.topology, Topology::Sentinel { .. })
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.password, &self.tls, &self.sentinel_login)
            == (&other.text, &other.password, &other.tls, &other.sentinel_login)
    }
}

impl Eq for Server {}

/// The address without credentials.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.shown).field(&self.tls).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Vec<String>, Topology) {
        let server = Server::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let show = |host: &ConnectionInfo| {
            let settings = host.redis_settings();
            let login =
                settings.username().map_or_else(String::new, ToOwned::to_owned) + settings.password().unwrap_or("-");
            format!("{} {login} {}", host.addr(), settings.db())
        };
        assert!(!format!("{server} {server:?}").contains("secret"), "{server:?}");
        (server.hosts.iter().map(show).collect(), server.topology)
    }

    #[test]
    fn servers_sentinels_and_clusters_are_parsed() {
        let single = |text: &str| (vec![text.to_owned()], Topology::Single);
        assert_eq!(parse("redis://127.0.0.1:6379/2"), single("127.0.0.1:6379 - 2"));
        assert_eq!(parse("redis://:secret@host"), single("host:6379 secret 0"));
        assert_eq!(parse("rediss://me:secret%23@host:7"), single("host:7 mesecret# 0"));
        let sentinel = Topology::Sentinel { master: "main".into(), database: 3 };
        let hosts = ["a:26379 secret 0", "::1:26379 secret 0", "c:7 secret 0"].map(ToOwned::to_owned).to_vec();
        assert_eq!(parse("redis+sentinel://:secret@a,[::1],c:7/main/3"), (hosts, sentinel));
        let hosts = ["a:6379 - 0", "b:7 - 0"].map(ToOwned::to_owned).to_vec();
        assert_eq!(parse("valkeys+cluster://a,b:7"), (hosts, Topology::Cluster));
        assert_eq!(Server::parse("redis+sentinel://u:p@a:1,b:2/m").unwrap().to_string(), "redis+sentinel://a:1,b:2/m");
    }

    #[test]
    fn a_password_beside_the_address_may_have_any_characters() {
        let bare = || Server::parse("redis+sentinel://me@a,b/main").unwrap();
        let with = |password: &str| bare().with_password(Some(password.into()));
        let server = with("p@ss/w#rd");
        let passwords: Vec<_> = server.hosts.iter().map(|host| host.redis_settings().password()).collect();
        assert_eq!(passwords, [Some("p@ss/w#rd"); 2]);
        assert_eq!(server.hosts[0].redis_settings().username(), Some("me"));
        assert!(server.has_password() && !bare().has_password() && server != with("other"));
        assert!(!format!("{server} {server:?}").contains("ss/w"), "{server:?}");
    }

    #[test]
    fn other_texts_are_refused_without_their_password() {
        for (text, start) in [
            ("", "not the address"),
            ("host:6379", "not the address"),
            ("http://:secret@host", "not the address"),
            ("redis+ssh://:secret@host", "not the address"),
            ("redis://:secret@host:port", "not the address"),
            ("redis://:secret@host/one", "not the address"),
            ("redis+sentinel://:secret@host", "an address of Sentinels without"),
            ("redis+sentinel://:secret@host/main/x", "not the address"),
            ("redis+sentinel://:secret@host,,b/main", "not the address"),
            ("redis+cluster://:secret@host/1", "a cluster has no numbered"),
            ("rediss://:secret@host#insecure", "an address with a `#`"),
        ] {
            let error = Server::parse(text).unwrap_err();
            let shown = format!("{error} {error:?} {}", error.help());
            assert!(shown.starts_with(start) && !shown.contains("secret"), "{text}: {shown}");
        }
    }
}
