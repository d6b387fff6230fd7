//! A shared connection for all commands. It is given up as soon as it no longer answers, and replaced by the session
//! that maintains it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use super::{Connection, connection};
use signalbox_types::RedisServer;

/// Consecutive late answers after which the connection is given up.
const LATE: u32 = 3;

/// A connection cannot be prepared. Names the address without its password.
#[derive(Debug, thiserror::Error)]
#[error("{server}: {cause}")]
pub struct LinkError {
    server: Box<RedisServer>,
    cause: RedisError,
}

/// Reason why a Redis command got no reply.
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
    server: RedisServer,
    connection: ArcSwapOption<Connection>,
    /// True if the link was connected since [`clear_connection`](Self::clear_connection) was last called.
    was_up: AtomicBool,
    late: AtomicU32,
    lost: Notify,
    /// Wakes the session to find out if the server still takes what it is sent.
    doubted: Notify,
    /// The reason why the last session ended, until the next one has begun.
    reason: Mutex<Option<String>>,
}

impl Link {
    /// A link to `server`, not connected yet. Reads its certificates, to report those that cannot be used.
    ///
    /// # Errors
    /// [`LinkError`] if no connection can be prepared.
    pub fn new(server: &RedisServer) -> Result<Self, LinkError> {
        connection::check(server).map_err(|cause| LinkError { server: Box::new(server.clone()), cause })?;
        Ok(Self {
            server: server.clone(),
            connection: ArcSwapOption::empty(),
            was_up: AtomicBool::new(false),
            late: AtomicU32::new(0),
            lost: Notify::new(),
            doubted: Notify::new(),
            reason: Mutex::default(),
        })
    }

    /// The server.
    pub const fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Opens a new connection whose answers may take `answer`.
    ///
    /// # Errors
    /// Any error of the system, the Sentinels or the server.
    pub async fn connect(&self, answer: Duration) -> Result<Connection, RedisError> {
        connection::open(&self.server, answer).await
    }

    /// Uses `connection` for commands from now on.
    pub fn set_connection(&self, connection: Connection) {
        // A notification about the previous connection does not concern this one.
        let _ = self.lost.notified().now_or_never();
        self.late.store(0, Relaxed);
        *self.reason.lock() = None;
        self.connection.store(Some(Arc::new(connection)));
        self.was_up.store(true, Relaxed);
    }

    /// Stops sending commands; returns true if it was connected since the last call.
    pub fn clear_connection(&self) -> bool {
        self.connection.store(None);
        self.was_up.swap(false, Relaxed)
    }

    /// Sets the reason why no commands are sent.
    pub(super) fn set_reason(&self, reason: String) {
        *self.reason.lock() = Some(reason);
    }

    /// The reason why no commands are sent; `None` while they are.
    pub fn problem(&self) -> Option<String> {
        if self.is_up() {
            return None;
        }
        Some(self.reason.lock().clone().unwrap_or_else(|| "it is not connected yet".to_owned()))
    }

    /// True if commands are sent.
    pub fn is_up(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Waits until a failed command has given up the connection.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Waits until the server has refused a command.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Sends a command and waits for its answer, no longer than `limit`.
    ///
    /// # Errors
    /// [`Unavailable`] if there is no answer in time. Returns at once without a connection.
    pub async fn query<T: FromRedisValue>(&self, question: &Cmd, limit: Duration) -> Result<T, Unavailable> {
        let asked = self.connection.load_full().ok_or(Unavailable::Down)?;
        let mut connection = (*asked).clone();
        match timeout(limit, question.query_async(&mut connection)).await {
            Ok(Ok(answer)) => {
                self.late.store(0, Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => {
                // A master that a Sentinel has replaced stays reachable, as a replica.
                let is_replaced = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
                if is_replaced || error.is_unrecoverable_error() || error.is_timeout() {
                    self.give_up(&asked);
                } else {
                    self.doubted.notify_one();
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
    fn give_up(&self, asked: &Arc<Connection>) {
        let before = self.connection.compare_and_swap(asked, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, asked)) {
            self.lost.notify_one();
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("server", &self.server).field("up", &self.is_up()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_fail_at_once_without_a_connection() {
        // Nothing listens on this port, or at least no Redis server.
        let link = Link::new(&RedisServer::parse("redis://127.0.0.1:1").unwrap()).unwrap();
        assert!(link.connect(Duration::from_secs(1)).await.is_err());
        let asked = link.query::<String>(&::redis::cmd("PING"), Duration::from_mins(1)).await;
        assert_eq!((asked, link.is_up()), (Err(Unavailable::Down), false));
    }
}
