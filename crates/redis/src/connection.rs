//! Opens connections to a single server, to the master that Sentinels name, or to a cluster.

use std::{path::Path, time::Duration};

use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisError, RedisFuture, TlsCertificates, TlsMode, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use tokio::time::timeout;
use url::Url;

use signalbox_types::{ClientTls, RedisServer, RedisTopology};

/// The longest that a connection to one host may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The longest that connecting may take where several hosts are asked.
const CONNECT_SEVERAL: Duration = Duration::from_secs(5);
/// Repetitions of a command that a cluster redirects or that meets a broken node. Callers wait a few milliseconds.
const CLUSTER_RETRIES: u32 = 3;

/// An open connection. Its clones share it.
#[derive(Clone)]
pub enum Connection {
    /// To one server.
    Server(MultiplexedConnection),
    /// To a cluster.
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

/// Prepares a connection to `server` without opening it.
pub(super) fn check(server: &RedisServer) -> Result<(), RedisError> {
    let certificates = certificates(server)?;
    match server.topology() {
        RedisTopology::Single => single(server, certificates).map(drop),
        RedisTopology::Sentinel { .. } => sentinels(server, certificates).map(drop),
        RedisTopology::Cluster => cluster(server, certificates, CONNECT).map(drop),
    }
}

/// Opens a connection whose answers may take `answer`. Reads the certificates again, since they may have been renewed.
pub(super) async fn open(server: &RedisServer, answer: Duration) -> Result<Connection, RedisError> {
    let owned = server.clone();
    let certificates = tokio::task::spawn_blocking(move || certificates(&owned)).await.unwrap_or(Ok(None))?;
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(answer));
    let opening = async {
        Ok(match server.topology() {
            RedisTopology::Single => {
                let client = single(server, certificates)?;
                Connection::Server(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            RedisTopology::Sentinel { .. } => {
                let mut client = sentinels(server, certificates)?;
                Connection::Server(client.get_async_connection_with_config(&config).await?)
            }
            RedisTopology::Cluster => {
                Connection::Cluster(cluster(server, certificates, answer)?.get_async_connection().await?)
            }
        })
    };
    let late = |_| RedisError::from((ErrorKind::Io, "no connection in time"));
    timeout(CONNECT_SEVERAL, opening).await.map_err(late)?
}

/// The hosts as the client library wants them, with the user and the password beside the address.
fn hosts(server: &RedisServer) -> Result<Vec<ConnectionInfo>, RedisError> {
    let host = |url: &Url| {
        let host = url.clone().into_connection_info()?;
        let mut settings = host.redis_settings().clone();
        if let Some(user) = server.user() {
            settings = settings.set_username(user);
        }
        if let Some(password) = server.password() {
            settings = settings.set_password(password);
        }
        Ok(host.set_redis_settings(settings))
    };
    server.hosts().iter().map(host).collect()
}

fn first(server: &RedisServer) -> Result<ConnectionInfo, RedisError> {
    let no_host = || RedisError::from((ErrorKind::InvalidClientConfig, "no host"));
    hosts(server)?.into_iter().next().ok_or_else(no_host)
}

fn single(server: &RedisServer, certificates: Option<TlsCertificates>) -> Result<Client, RedisError> {
    let host = first(server)?;
    match certificates {
        Some(certificates) => Client::build_with_tls(host, certificates),
        None => Client::open(host),
    }
}

fn sentinels(server: &RedisServer, certificates: Option<TlsCertificates>) -> Result<SentinelClient, RedisError> {
    let RedisTopology::Sentinel { master, database } = server.topology() else {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "no address of Sentinels")));
    };
    let hosts = hosts(server)?.into_iter().map(|host| host.addr().clone());
    let mut builder =
        SentinelClientBuilder::new(hosts, master, SentinelServerType::Master)?.set_client_to_redis_db(*database);
    let first = first(server)?;
    let settings = first.redis_settings();
    if let Some(user) = settings.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(login) = server.sentinel_login() {
        builder = builder.set_client_to_sentinel_password(&login.password);
        if let Some(user) = &login.user {
            builder = builder.set_client_to_sentinel_username(user);
        }
    }
    if server.is_secured() {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder.set_client_to_redis_certificates(certificates.clone());
        builder = builder.set_client_to_sentinel_certificates(certificates);
    }
    builder.build()
}

fn cluster(
    server: &RedisServer,
    certificates: Option<TlsCertificates>,
    answer: Duration,
) -> Result<ClusterClient, RedisError> {
    let mut builder = ClusterClientBuilder::new(hosts(server)?)
        .retries(CLUSTER_RETRIES)
        .connection_timeout(CONNECT)
        .response_timeout(answer);
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    builder.build()
}

/// Reads the certificates. Blocks on the disk.
fn certificates(server: &RedisServer) -> Result<Option<TlsCertificates>, RedisError> {
    if server.is_secured() {
        // The error means that it was installed before.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let Some(ClientTls { roots, identity }) = server.tls() else { return Ok(None) };
    let client_tls = match identity {
        Some((certificate, key)) => Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? }),
        None => None,
    };
    Ok(Some(TlsCertificates { client_tls, root_cert: roots.as_deref().map(read).transpose()? }))
}

fn read(file: &Path) -> Result<Vec<u8>, RedisError> {
    std::fs::read(file).map_err(|error| {
        RedisError::from((ErrorKind::Io, "a certificate cannot be read", format!("{}: {error}", file.display())))
    })
}
