//! Receivers of notifications, and the events that are sent.

pub use signalbox_config::notifications::{Format, Topic};

use super::Secret;

/// Notifications of budgets and objectives.
#[derive(Clone, Debug, PartialEq)]
pub struct Notifications {
    /// The receivers.
    pub receivers: Vec<Receiver>,
    /// The shares of a budget at which an event is sent, above 0, in ascending order.
    pub thresholds: Vec<f64>,
}

/// A receiver of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its URL, which may be a secret as a whole.
    pub url: Secret,
    /// The form of the body.
    pub format: Format,
    /// The secret that signs events.
    pub secret: Option<Secret>,
    /// The events that it receives.
    pub topics: Vec<Topic>,
}

impl Receiver {
    /// Scheme and host of its URL, for logs: the rest may be a secret.
    pub fn host(&self) -> &str {
        let url = self.url.expose();
        let start = url.find("://").map_or(0, |at| at + 3);
        let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
        let host = &url[start..end];
        host.rsplit_once('@').map_or(host, |(_, host)| host)
    }
}
