//! Being there: a server is connected to, attended until that breaks, and tried again after pauses that grow.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use ::redis::{Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::Link;

/// The first pause before the next try.
const SHORTEST: Duration = Duration::from_millis(100);
/// And the longest.
const LONGEST: Duration = Duration::from_secs(5);
/// How long a server may take to answer what nobody waits for.
pub const ANSWER: Duration = Duration::from_secs(2);

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The connection broke, or the server refused.
    #[error(transparent)]
    Server(#[from] RedisError),
    /// It takes too long.
    #[error("it answers no more")]
    Silent,
}

/// What is done while a server is there.
pub trait Session: Send {
    /// What log lines say when it is lost.
    const LOST: &'static str;

    /// The server.
    fn link(&self) -> &Link;

    /// Connects, [raises](Link::raise) the connection when it is ready for questions, and goes on until that breaks.
    fn run(&mut self) -> impl Future<Output = Result<Infallible, Broken>> + Send;
}

/// Is there for as long as the server is wanted: ends by being aborted.
pub async fn attend<S: Session>(mut session: S) {
    let (mut pause, mut told) = (SHORTEST, false);
    loop {
        let began = Instant::now();
        let Err(broken) = session.run().await;
        told &= !session.link().lower();
        if !told {
            told = true;
            tracing::warn!(error = %broken, "{}", S::LOST);
        }
        if began.elapsed() > LONGEST {
            pause = SHORTEST;
        }
        // Gateways that lost it together do not come back together.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Asks on a connection of a session's own.
///
/// # Errors
/// [`Broken`] where there is no answer within `patience`.
pub async fn answered<T: FromRedisValue>(
    question: &Cmd,
    connection: &mut MultiplexedConnection,
    patience: Duration,
) -> Result<T, Broken> {
    timeout(patience, question.query_async(connection)).await.map_err(|_| Broken::Silent)?.map_err(Broken::from)
}
