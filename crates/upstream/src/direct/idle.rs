//! Connections without a request.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// Idle connections to all engines.
#[derive(Debug)]
pub(super) struct Idle {
    kept: Mutex<Kept>,
    /// Time for which they are kept.
    time: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    /// The latest at the end.
    by_authority: HashMap<Arc<str>, Vec<(Instant, Box<Connection>)>>,
    /// True while a task drops those kept for too long.
    swept: bool,
}

impl Idle {
    pub(super) fn new(time: Duration) -> Self {
        Self { kept: Mutex::default(), time }
    }

    /// The latest idle connection that is still open.
    pub(super) fn take(&self, authority: &str) -> Option<(Arc<str>, Box<Connection>)> {
        loop {
            let (authority, mut connection) = {
                let mut kept = self.kept.lock();
                let (name, connections) = kept.by_authority.get_key_value(authority)?;
                let name = name.clone();
                debug_assert!(!connections.is_empty(), "places without connections are removed");
                let connections = kept.by_authority.get_mut(authority)?;
                let (since, connection) = connections.pop()?;
                if connections.is_empty() {
                    kept.by_authority.remove(authority);
                }
                if since.elapsed() > self.time {
                    // Those before it were kept for longer.
                    kept.by_authority.remove(authority);
                    return None;
                }
                (name, connection)
            };
            if connection.is_open() {
                return Some((authority, connection));
            }
        }
    }

    pub(super) fn keep(self: &Arc<Self>, authority: Arc<str>, mut connection: Box<Connection>) {
        connection.rest();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut kept = self.kept.lock();
        kept.by_authority.entry(authority).or_default().push((Instant::now(), connection));
        if !std::mem::replace(&mut kept.swept, true) {
            runtime.spawn(sweep(Arc::downgrade(self), self.time));
        }
    }
}

/// Drops connections that were kept for `time`, until there are none.
async fn sweep(idle: Weak<Idle>, time: Duration) {
    loop {
        tokio::time::sleep(time / 2).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut kept = idle.kept.lock();
        kept.by_authority.retain(|_, connections| {
            let late = connections.partition_point(|(since, _)| since.elapsed() > time);
            connections.drain(..late);
            !connections.is_empty()
        });
        if kept.by_authority.is_empty() {
            kept.swept = false;
            return;
        }
    }
}
