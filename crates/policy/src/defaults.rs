//! Defaults of the policy.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use super::{AdminAccess, Labels, Learning, Limits, ModelTable, Policy, StoredResponses, Timeouts};

/// The address for clients.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4100);
/// The address for operators.
pub(super) const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4101);
/// The size at which the journal is rotated.
pub(super) const JOURNAL_SIZE: u64 = 64 << 20;
/// The number of rotated journals that are kept.
pub(super) const JOURNAL_KEEP: u32 = 5;

/// The most disk space for cached answers.
pub(super) const PERSIST_SIZE: u64 = 1 << 30;
/// The longest that an answer is stored on disk.
pub(super) const PERSIST_RETENTION: Duration = Duration::from_hours(7 * 24);

/// The longest that a request waits for answers shared by other gateways.
pub(super) const SHARED_TIMEOUT: Duration = Duration::from_millis(20);
/// The longest that a request waits for limits shared with other gateways.
pub(super) const SHARED_LIMITS_TIMEOUT: Duration = Duration::from_millis(50);

/// The time that daily usage is kept in memory: the month being charged and the one before.
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
        Self {
            connect: Duration::from_secs(5),
            first_token: None,
            idle: Duration::from_mins(1),
            // Models that think without showing it are silent for minutes, and their providers send pings.
            content: Duration::from_mins(10),
            total: None,
        }
    }
}

/// A policy without pools.
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
            managed_keys: None,
            teams: Vec::new(),
            paying_teams: Vec::new(),
            shared_limits: None,
            shared_placement: None,
            usage: None,
            allows_unknown_objects: false,
            accounts: Vec::new(),
            engines: Vec::new(),
            named_engines: 0,
            pools: Vec::new(),
            backend_origins: HashMap::new(),
            kept: Vec::new(),
            fleet_state: None,
            models: ModelTable::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            journal: None,
            access_log: None,
            otel: None,
            observed: None,
            caching: None,
            responses: StoredResponses::default(),
            notifications: None,
            error_budgets: signalbox_measure::BurnRules::default(),
            learning: Learning::default(),
            background: None,
            labels: Labels::default(),
            answer_model: signalbox_types::AnswerModel::default(),
            simulated: false,
            builtin_prices: false,
            demo_hashes: Vec::new(),
            secret_files: Vec::new(),
            hash: String::new(),
            text: Arc::default(),
        }
    }
}
