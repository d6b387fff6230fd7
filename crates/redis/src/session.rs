//! Maintains the connection to a server: connects, runs a session until it breaks, and reconnects with growing pauses.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use ::redis::{Cmd, FromRedisValue, RedisError};
use tokio::time::timeout;

use super::{Connection, Link};

/// The first pause before reconnecting.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// The longest that a server may take for a command that no request waits for.
pub const ANSWER: Duration = Duration::from_secs(2);

/// The reason why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection broke, or the server returned an error.
    #[error(transparent)]
    Server(#[from] RedisError),
    /// The server did not answer in time.
    #[error("it no longer answers")]
    Silent,
}

/// The work done while a server is connected.
pub trait Session: Send {
    /// The log message when the server is lost.
    const LOST_MESSAGE: &'static str;

    /// The connection.
    fn link(&self) -> &Link;

    /// Connects, [publishes](Link::set_connection) the connection when it is ready for commands, and runs until it breaks.
    fn run(&mut self) -> impl Future<Output = Result<Infallible, SessionError>> + Send;
}

/// Runs sessions one after the other. Ends only by being aborted.
pub async fn maintain<S: Session>(mut session: S) {
    let (mut pause, mut reported) = (FIRST_PAUSE, false);
    loop {
        let began = Instant::now();
        let Err(broken) = session.run().await;
        session.link().set_reason(broken.to_string());
        reported &= !session.link().clear_connection();
        if !reported {
            reported = true;
            tracing::warn!(server = %session.link().server(), error = %broken, "{}", S::LOST_MESSAGE);
        }
        if began.elapsed() > MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        // Jitter: gateways that lost the server together do not reconnect together.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Runs a command on a session's own connection.
///
/// # Errors
/// [`SessionError`] if there is no answer within `limit`.
pub async fn query_within<T: FromRedisValue>(
    question: &Cmd,
    connection: &mut Connection,
    limit: Duration,
) -> Result<T, SessionError> {
    timeout(limit, question.query_async(connection))
        .await
        .map_err(|_| SessionError::Silent)?
        .map_err(SessionError::from)
}
