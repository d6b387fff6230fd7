//! The address of a Redis or Valkey server, of a server that Sentinels watch, or of a cluster, and the credentials for it.

use std::{fmt, net::IpAddr, path::PathBuf, sync::Arc};

use url::Url;

/// The beginning of the names of keys, unless the policy sets another.
const PREFIX: &str = "signalbox";
/// Port of a Sentinel whose address has none.
const SENTINEL_PORT: u16 = 26379;

/// The text is not an address. Never contains the text, which may hold a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RedisAddressError {
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

impl RedisAddressError {
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
pub enum RedisTopology {
    /// One server.
    Single,
    /// Sentinels that know the current master of this name. Its database has this number.
    Sentinel {
        /// Name of the group.
        master: Box<str>,
        /// Number of the database.
        database: i64,
    },
    /// Some nodes of a cluster, which know the others.
    Cluster,
}

/// Certificates of a connection with TLS, as paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The roots that sign the server's certificate; without it those of the operating system.
    pub roots: Option<PathBuf>,
    /// This gateway's certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Credentials for Sentinels.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisLogin {
    /// The user, if it is not the default one.
    pub user: Option<Arc<str>>,
    /// The password.
    pub password: Arc<str>,
}

/// A server, or several, and the credentials for it.
#[derive(Clone)]
pub struct RedisServer {
    text: Arc<str>,
    shown: Arc<str>,
    /// The user beside the address.
    user: Option<Arc<str>>,
    /// The password beside the address.
    password: Option<Arc<str>>,
    /// The beginning of the names of all keys.
    prefix: Arc<str>,
    hosts: Vec<Url>,
    topology: RedisTopology,
    tls: Option<ClientTls>,
    sentinel_login: Option<RedisLogin>,
}

impl RedisServer {
    /// Parses `redis://`, `rediss://`, `redis+sentinel://` and `redis+cluster://` addresses; `valkey` may stand for
    /// `redis`. `USER:PASSWORD@` before the first host is for the servers, not for their Sentinels.
    ///
    /// # Errors
    /// [`RedisAddressError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, RedisAddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(RedisAddressError::Scheme)?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !["redis", "rediss", "valkey", "valkeys"].contains(&base) {
            return Err(RedisAddressError::Scheme);
        }
        if text.contains('#') {
            return Err(RedisAddressError::Fragment);
        }
        let (login, at) = rest.rsplit_once('@').map_or(("", rest), |(login, at)| (login, at));
        let shown = format!("{scheme}://{at}").into();
        let (hosts, path) = at.split_once('/').unwrap_or((at, ""));
        let (topology, database, port) = match kind {
            "" => (RedisTopology::Single, path, None),
            "sentinel" => {
                let (master, number) = path.split_once('/').unwrap_or((path, ""));
                let database = if number.is_empty() { Ok(0) } else { number.parse() };
                let database = database.map_err(|_| RedisAddressError::Host("invalid database number".to_owned()))?;
                if master.is_empty() {
                    return Err(RedisAddressError::Master);
                }
                (RedisTopology::Sentinel { master: master.into(), database }, "", Some(SENTINEL_PORT))
            }
            "cluster" if path.is_empty() => (RedisTopology::Cluster, "", None),
            "cluster" => return Err(RedisAddressError::Database),
            _ => return Err(RedisAddressError::Scheme),
        };
        let at_sign = if login.is_empty() { "" } else { "@" };
        let parse = |host: &str| {
            let is_bare = !host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = port.filter(|_| is_bare).map_or_else(String::new, |port| format!(":{port}"));
            let url = format!("{base}://{login}{at_sign}{host}{port}/{database}");
            let invalid = |why: &str| RedisAddressError::Host(why.to_owned());
            let url = Url::parse(&url).map_err(|error| invalid(&error.to_string()))?;
            let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("no host"))?;
            let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            if address.is_ok_and(|address| address.is_unspecified()) {
                return Err(invalid("the address of all interfaces"));
            }
            let database = url.path().trim_matches('/');
            if !database.is_empty() && database.parse::<i64>().is_err() {
                return Err(invalid("invalid database number"));
            }
            Ok(url)
        };
        let hosts = match topology {
            RedisTopology::Single => vec![parse(hosts)?],
            _ => hosts.split(',').map(parse).collect::<Result<_, _>>()?,
        };
        Ok(Self {
            text: text.into(),
            shown,
            user: None,
            password: None,
            prefix: PREFIX.into(),
            hosts,
            topology,
            tls: None,
            sentinel_login: None,
        })
    }

    /// Sets the password of the servers, if there is one beside the address. It takes the place of one within.
    #[must_use]
    pub fn with_password(self, password: Option<Arc<str>>) -> Self {
        Self { password: password.or(self.password), ..self }
    }

    /// Sets the user beside the address, if there is one.
    #[must_use]
    pub fn with_user(self, user: Option<Arc<str>>) -> Self {
        Self { user: user.or(self.user), ..self }
    }

    /// The user beside the address.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// True if the address names a user.
    pub fn names_user(&self) -> bool {
        self.hosts.iter().any(|host| !host.username().is_empty())
    }

    /// Sets the beginning of the names of all keys.
    #[must_use]
    pub fn with_prefix(self, prefix: Option<Arc<str>>) -> Self {
        Self { prefix: prefix.unwrap_or(self.prefix), ..self }
    }

    /// The beginning of the names of all keys: gateways with different ones share nothing.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The password beside the address.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// True if it has a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || self.hosts.iter().any(|host| host.password().is_some())
    }

    /// Addresses of the hosts, at least one, with the credentials that the address contains.
    pub fn hosts(&self) -> &[Url] {
        &self.hosts
    }

    /// The role of these hosts.
    pub const fn topology(&self) -> &RedisTopology {
        &self.topology
    }

    /// Certificates of a connection with TLS.
    pub const fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Credentials for Sentinels.
    pub const fn sentinel_login(&self) -> Option<&RedisLogin> {
        self.sentinel_login.as_ref()
    }

    /// Sets the certificates of a connection with TLS.
    #[must_use]
    pub fn with_tls(self, tls: Option<ClientTls>) -> Self {
        Self { tls, ..self }
    }

    /// Sets the credentials for Sentinels.
    #[must_use]
    pub fn with_sentinel_login(self, sentinel_login: Option<RedisLogin>) -> Self {
        Self { sentinel_login, ..self }
    }

    /// True if connections use TLS.
    pub fn is_secured(&self) -> bool {
        self.shown.starts_with("rediss") || self.shown.starts_with("valkeys")
    }

    /// True if Sentinels are asked for the master.
    pub const fn has_sentinels(&self) -> bool {
        matches!(self.topology, RedisTopology::Sentinel { .. })
    }
}

impl PartialEq for RedisServer {
    fn eq(&self, other: &Self) -> bool {
        let key =
            |server: &Self| (server.text.clone(), server.user.clone(), server.password.clone(), server.prefix.clone());
        key(self) == key(other) && (&self.tls, &self.sentinel_login) == (&other.tls, &other.sentinel_login)
    }
}

impl Eq for RedisServer {}

/// The address without credentials.
impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisServer").field(&self.shown).field(&self.tls).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Vec<String>, RedisTopology) {
        let server = RedisServer::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let show = |host: &Url| {
            let login = host.username().to_owned() + host.password().unwrap_or("-");
            let port = host.port().map_or_else(String::new, |port| format!(":{port}"));
            format!("{}{port} {login} {}", host.host_str().unwrap_or("?"), host.path())
        };
        assert!(!format!("{server} {server:?}").contains("secret"), "{server:?}");
        (server.hosts.iter().map(show).collect(), server.topology)
    }

    #[test]
    fn servers_sentinels_and_clusters_are_parsed() {
        let single = |text: &str| (vec![text.to_owned()], RedisTopology::Single);
        assert_eq!(parse("redis://127.0.0.1:6379/2"), single("127.0.0.1:6379 - /2"));
        assert_eq!(parse("redis://:secret@host"), single("host secret /"));
        assert_eq!(parse("rediss://me:secret%23@host:7"), single("host:7 mesecret%23 /"));
        let sentinel = RedisTopology::Sentinel { master: "main".into(), database: 3 };
        let hosts = ["a:26379 secret /", "[::1]:26379 secret /", "c:7 secret /"].map(ToOwned::to_owned).to_vec();
        assert_eq!(parse("redis+sentinel://:secret@a,[::1],c:7/main/3"), (hosts, sentinel));
        let hosts = ["a - /", "b:7 - /"].map(ToOwned::to_owned).to_vec();
        assert_eq!(parse("valkeys+cluster://a,b:7"), (hosts, RedisTopology::Cluster));
        assert_eq!(
            RedisServer::parse("redis+sentinel://u:p@a:1,b:2/m").unwrap().to_string(),
            "redis+sentinel://a:1,b:2/m"
        );
    }

    #[test]
    fn a_password_beside_the_address_may_have_any_characters() {
        let bare = || RedisServer::parse("redis+sentinel://me@a,b/main").unwrap();
        let with = |password: &str| bare().with_password(Some(password.into()));
        let server = with("p@ss/w#rd");
        assert_eq!((server.password(), server.hosts()[0].username()), (Some("p@ss/w#rd"), "me"));
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
            ("redis://:secret@", "not the address"),
            ("redis://:secret@0.0.0.0", "not the address"),
            ("redis+cluster://:secret@[::]:1", "not the address"),
            ("redis+sentinel://:secret@host", "an address of Sentinels without"),
            ("redis+sentinel://:secret@host/main/x", "not the address"),
            ("redis+sentinel://:secret@host,,b/main", "not the address"),
            ("redis+cluster://:secret@host/1", "a cluster has no numbered"),
            ("rediss://:secret@host#insecure", "an address with a `#`"),
        ] {
            let error = RedisServer::parse(text).unwrap_err();
            let shown = format!("{error} {error:?} {}", error.help());
            assert!(shown.starts_with(start) && !shown.contains("secret"), "{text}: {shown}");
        }
    }
}
