//! The connection: one for all questions, given up as soon as it answers no more, and made anew by whoever keeps it.

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

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(2);
/// Questions in a row that were answered too late, until the connection is given up.
const LATE: u32 = 3;

/// An address that leads to no server of this kind.
#[derive(Debug, thiserror::Error)]
#[error("not an address of a Redis: {0}")]
pub struct LinkError(String);

/// Why there is no answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// There is no connection: nothing was asked.
    Down,
    /// It took too long.
    Late,
    /// The connection broke, or the server refused.
    Failed,
}

impl Absent {
    /// A word of low cardinality, for metric labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Late => "late",
            Self::Failed => "failed",
        }
    }
}

/// A server, while it is there. Shared by reference between tasks.
pub struct Link {
    client: Client,
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Whether there was one since that was last asked.
    was_up: AtomicBool,
    late: AtomicU32,
    lost: Notify,
}

impl Link {
    /// To the server at `url`, without a connection yet.
    ///
    /// # Errors
    /// [`LinkError`] where `url` is no address.
    pub fn new(url: &str) -> Result<Self, LinkError> {
        let wrong = |error: RedisError| LinkError(error.to_string());
        let client = Client::open(url.into_connection_info().map_err(wrong)?).map_err(wrong)?;
        let (connection, lost) = (ArcSwapOption::empty(), Notify::new());
        Ok(Self { client, connection, was_up: AtomicBool::new(false), late: AtomicU32::new(0), lost })
    }

    /// A new connection, on which an answer may take so long; `None` for as long as it takes.
    ///
    /// # Errors
    /// What the system or the server says.
    pub async fn connect(&self, answer: Option<Duration>) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(answer);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Questions go this way from now on.
    pub fn raise(&self, connection: MultiplexedConnection) {
        // What was told of the one before says nothing of this.
        let _ = self.lost.notified().now_or_never();
        self.late.store(0, Relaxed);
        self.connection.store(Some(Arc::new(connection)));
        self.was_up.store(true, Relaxed);
    }

    /// No question is asked from now on; whether any was since the last time.
    pub fn lower(&self) -> bool {
        self.connection.store(None);
        self.was_up.swap(false, Relaxed)
    }

    /// Whether questions are asked.
    pub fn is_up(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Waits until the connection was given up by those who asked.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Asks, and waits no longer than `patience`.
    ///
    /// # Errors
    /// [`Absent`] where there is no answer in time. Nobody waits while there is no connection.
    pub async fn ask<T: FromRedisValue>(&self, question: &Cmd, patience: Duration) -> Result<T, Absent> {
        let asked = self.connection.load_full().ok_or(Absent::Down)?;
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
                Err(Absent::Failed)
            }
            Err(_) => {
                if self.late.fetch_add(1, Relaxed) + 1 >= LATE {
                    self.give_up(&asked);
                }
                Err(Absent::Late)
            }
        }
    }

    /// Asks no more on this connection; there may be another by now.
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
    fn only_addresses_are_taken() {
        assert!(Link::new("redis://127.0.0.1:6379/2").is_ok());
        assert!(Link::new("redis://:secret@host").is_ok());
        for odd in ["", "host:6379", "http://host", "redis://host:port"] {
            let error = Link::new(odd).unwrap_err().to_string();
            assert!(error.starts_with("not an address"), "{error}");
        }
    }

    #[tokio::test]
    async fn nobody_waits_where_nobody_is() {
        // Nothing listens on this port, or whoever does is no Redis that we could have connected to.
        let link = Link::new("redis://127.0.0.1:1").unwrap();
        assert!(link.connect(None).await.is_err());
        let asked = link.ask::<String>(&::redis::cmd("PING"), Duration::from_mins(1)).await;
        assert_eq!((asked, link.is_up()), (Err(Absent::Down), false));
    }
}
