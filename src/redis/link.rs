//! A shared connection for all commands. It is given up as soon as it no longer answers, and replaced by the session
//! that maintains it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, IntoConnectionInfo, RedisError, aio::MultiplexedConnection,
};
use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use tokio::{sync::Notify, time::timeout};

/// The longest that connecting may take.
const CONNECT: Duration = Duration::from_secs(2);
/// Consecutive late answers after which the connection is given up.
const LATE: u32 = 3;

/// Not the address of a Redis server.
#[derive(Debug, thiserror::Error)]
#[error("not the address of a Redis server: {0}")]
pub struct LinkError(String);

/// The reason for a missing answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// There is no connection: nothing was sent.
    Down,
    /// The answer was late.
    Late,
    /// The connection broke, or the server returned an error.
    Failed,
}

impl Unavailable {
    /// A low-cardinality word for metric labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Late => "late",
            Self::Failed => "failed",
        }
    }
}

/// A server that may be connected or not. Shared by reference between tasks.
pub struct Link {
    client: Client,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// True if it was connected since [`clear_connection`](Self::clear_connection) was last called.
    was_up: AtomicBool,
    late: AtomicU32,
    lost: Notify,
}

impl Link {
    /// A link to the server at `url`, not connected yet.
    ///
    /// # Errors
    /// [`LinkError`] if `url` is not an address.
    pub fn new(url: &str) -> Result<Self, LinkError> {
        let wrong = |error: RedisError| LinkError(error.to_string());
        let client = Client::open(url.into_connection_info().map_err(wrong)?).map_err(wrong)?;
        let (connection, lost) = (ArcSwapOption::empty(), Notify::new());
        Ok(Self { client, connection, was_up: AtomicBool::new(false), late: AtomicU32::new(0), lost })
    }

    /// Opens a new connection whose answers may take `answer`; `None` for no limit.
    ///
    /// # Errors
    /// Any error of the system or the server.
    pub async fn connect(&self, answer: Option<Duration>) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(answer);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Uses `connection` for commands from now on.
    pub fn set_connection(&self, connection: MultiplexedConnection) {
        // A notification about the previous connection does not concern this one.
        let _ = self.lost.notified().now_or_never();
        self.late.store(0, Relaxed);
        self.connection.store(Some(Arc::new(connection)));
        self.was_up.store(true, Relaxed);
    }

    /// Stops sending commands; returns true if it was connected since the last call.
    pub fn clear_connection(&self) -> bool {
        self.connection.store(None);
        self.was_up.swap(false, Relaxed)
    }

    /// True if commands are sent.
    pub fn is_up(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Waits until a failed command has given up the connection.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Sends a command and waits for its answer, no longer than `patience`.
    ///
    /// # Errors
    /// [`Unavailable`] if there is no answer in time. Returns at once without a connection.
    pub async fn query<T: FromRedisValue>(&self, question: &Cmd, patience: Duration) -> Result<T, Unavailable> {
        let asked = self.connection.load_full().ok_or(Unavailable::Down)?;
        let mut connection = (*asked).clone();
        match timeout(patience, question.query_async(&mut connection)).await {
            Ok(Ok(answer)) => {
                self.late.store(0, Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => {
                if error.is_unrecoverable_error() || error.is_timeout() {
                    self.give_up(&asked);
                }
                Err(Unavailable::Failed)
            }
            Err(_) => {
                if self.late.fetch_add(1, Relaxed) + 1 >= LATE {
                    self.give_up(&asked);
                }
                Err(Unavailable::Late)
            }
        }
    }

    /// Stops using this connection; another one may have replaced it already.
    fn give_up(&self, asked: &Arc<MultiplexedConnection>) {
        let before = self.connection.compare_and_swap(asked, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, asked)) {
            self.lost.notify_one();
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("up", &self.is_up()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_accepted() {
        assert!(Link::new("redis://127.0.0.1:6379/2").is_ok());
        assert!(Link::new("redis://:secret@host").is_ok());
        for odd in ["", "host:6379", "http://host", "redis://host:port"] {
            let error = Link::new(odd).unwrap_err().to_string();
            assert!(error.starts_with("not the address"), "{error}");
        }
    }

    #[tokio::test]
    async fn commands_fail_at_once_without_a_connection() {
        // Nothing listens on this port, or at least no Redis server.
        let link = Link::new("redis://127.0.0.1:1").unwrap();
        assert!(link.connect(None).await.is_err());
        let asked = link.query::<String>(&::redis::cmd("PING"), Duration::from_mins(1)).await;
        assert_eq!((asked, link.is_up()), (Err(Unavailable::Down), false));
    }
}
