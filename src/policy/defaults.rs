//! What holds where the policy says nothing.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{AdminAccess, Labels, Learning, Limits, ModelTable, Policy, Timeouts};

/// Where clients connect.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4100);
/// Where operators connect.
pub(super) const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4101);
/// Size at which the journal is rotated.
pub(super) const JOURNAL_SIZE: u64 = 64 << 20;
/// How many rotated journals are kept.
pub(super) const JOURNAL_KEEP: u32 = 5;

/// Most bytes of kept answers on disk.
pub(super) const PERSIST_SIZE: u64 = 1 << 30;
/// For how long they stay there.
pub(super) const PERSIST_RETENTION: Duration = Duration::from_hours(7 * 24);

/// How long a request waits for an answer that another gateway may have.
pub(super) const SHARED_TIMEOUT: Duration = Duration::from_millis(20);
/// How long a request waits to hear whether limits that gateways share leave room.
pub(super) const SHARED_LIMITS_TIMEOUT: Duration = Duration::from_millis(50);

/// How long days of usage are remembered: the month that is charged for, and the one before it.
pub const USAGE_RETENTION: Duration = Duration::from_hours(62 * 24);

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            bodies: 1 << 30,
            in_flight: 10_000,
            header: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            lame_duck: Duration::ZERO,
            queue_length: 1_000,
            queue_wait: Duration::from_secs(30),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), first_token: None, idle: Duration::from_mins(1), total: None }
    }
}

/// A policy that serves nothing.
impl Default for Policy {
    fn default() -> Self {
        Self {
            listen: LISTEN,
            admin: Some(ADMIN),
            admin_access: AdminAccess::default(),
            hosts: None,
            origins: Vec::new(),
            tls: None,
            keys: Vec::new(),
            keys_none: false,
            teams: Vec::new(),
            shared_limits: None,
            usage: None,
            allows_unknown_objects: false,
            accounts: Vec::new(),
            engines: Vec::new(),
            pools: Vec::new(),
            models: ModelTable::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            journal: None,
            access_log: None,
            otel: None,
            observed: None,
            caching: None,
            learning: Learning::default(),
            background: None,
            labels: Labels::default(),
            simulated: false,
            hash: String::new(),
        }
    }
}
