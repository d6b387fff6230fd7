//! Addresses of a DNS name, for backends that are discovered.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig},
    lookup::Lookup,
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::{RData, RecordType, rdata::SRV},
};

use signalbox_config::{discovery::RecordKind, is_no_engine};
use signalbox_policy::{DnsName, FoundAddress, MOST_ADDRESSES};
use signalbox_types::Name;

/// Timeout of one query. A query is sent twice at most.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most targets of SRV records that are resolved.
const MOST_TARGETS: usize = 1_000;

/// Answer to a resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The addresses, sorted, each once.
    pub addresses: Vec<FoundAddress>,
    /// The time for which the answer is valid.
    pub ttl: Duration,
    /// True if a part of the question was not answered, so that addresses may be missing.
    pub is_partial: bool,
    /// The first address that was left out because no engine can be there.
    pub refused: Option<IpAddr>,
}

/// The name could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No resolver could be set up.
    #[error("the DNS configuration of this system cannot be read: {0}")]
    SetUp(NetError),
    /// No server gave an answer.
    #[error("{0}")]
    Query(NetError),
}

/// Resolves `dns`. A name without records is an empty answer, not an error.
pub async fn resolve(dns: &DnsName) -> Result<Resolved, ResolveError> {
    let resolver = resolver(dns.server)?;
    match dns.kind {
        RecordKind::Address => {
            let found = addresses(&resolver, &dns.name).await?;
            let host = Some(dns.host.clone().unwrap_or_else(|| undotted(&dns.name)));
            Ok(found.at(dns.port, host.as_ref()))
        }
        RecordKind::Service => services(&resolver, dns).await,
    }
}

/// A resolver without memory: it reads the configuration of the system as it is now.
fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, ResolveError> {
    let mut builder = match server {
        Some(at) => {
            let on = |mut connection: ConnectionConfig| {
                connection.port = at.port();
                connection
            };
            let connections = vec![on(ConnectionConfig::udp()), on(ConnectionConfig::tcp())];
            let server = NameServerConfig::new(at.ip(), true, connections);
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
        None => TokioResolver::builder_tokio().map_err(ResolveError::SetUp)?,
    };
    let options = builder.options_mut();
    options.cache_size = 0;
    options.timeout = TIMEOUT;
    options.attempts = 1;
    builder.build().map_err(ResolveError::SetUp)
}

/// Addresses of a host.
#[derive(Default)]
struct Addresses {
    ips: BTreeSet<IpAddr>,
    ttl: Duration,
    is_partial: bool,
    refused: Option<IpAddr>,
}

impl Addresses {
    fn at(self, port: u16, host: Option<&Name>) -> Resolved {
        let place =
            |ip| FoundAddress { host: host.cloned(), ..FoundAddress::at(SocketAddr::new(ip, port).to_string()) };
        let Self { ips, ttl, is_partial, refused } = self;
        Resolved { addresses: ips.into_iter().map(place).collect(), ttl, is_partial, refused }
    }
}

/// Asks for A and AAAA records. If only one of the two is answered, the result is partial.
async fn addresses(resolver: &TokioResolver, name: &str) -> Result<Addresses, ResolveError> {
    let (v4, v6) = tokio::join!(query(resolver, name, RecordType::A), query(resolver, name, RecordType::AAAA));
    let is_partial = v4.is_err() || v6.is_err();
    let (v4, v6) = match (v4, v6) {
        (Err(error), Err(_)) => return Err(error),
        (v4, v6) => (v4.ok().flatten(), v6.ok().flatten()),
    };
    let mut found = Addresses { is_partial, ..Addresses::default() };
    let answers: Vec<Lookup> = v4.into_iter().chain(v6).collect();
    for record in answers.iter().flat_map(Lookup::answers) {
        let ip = match &record.data {
            RData::A(ip) => IpAddr::V4(ip.0),
            RData::AAAA(ip) => IpAddr::V6(ip.0),
            // An alias on the way.
            _ => continue,
        };
        if is_no_engine(ip) {
            found.refused = Some(ip);
        } else {
            found.ips.insert(ip);
        }
    }
    found.ttl = answers.iter().map(ttl).min().unwrap_or_default();
    Ok(found)
}

/// Asks for SRV records, and for the addresses of the hosts that they name. Only the records with the lowest priority
/// number count, as RFC 2782 demands while those hosts can be reached. Weights do not count: the balancer sees load.
async fn services(resolver: &TokioResolver, dns: &DnsName) -> Result<Resolved, ResolveError> {
    let Some(answer) = query(resolver, &dns.name, RecordType::SRV).await? else { return Ok(Resolved::default()) };
    let records: Vec<&SRV> = answer
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            // The root as a target says that there is no such service.
            RData::SRV(service) if !service.target.is_root() => Some(service),
            _ => None,
        })
        .collect();
    let first = records.iter().map(|service| service.priority).min();
    let mut found = Resolved { ttl: ttl(&answer), ..Resolved::default() };
    for service in records.iter().filter(|service| Some(service.priority) == first).take(MOST_TARGETS) {
        let target = service.target.to_ascii().to_ascii_lowercase();
        let Ok(of_target) = addresses(resolver, &target).await else {
            found.is_partial = true;
            continue;
        };
        let host = dns.host.clone().unwrap_or_else(|| undotted(&target));
        found.is_partial |= of_target.is_partial;
        found.refused = found.refused.or(of_target.refused);
        found.ttl = if of_target.ips.is_empty() { found.ttl } else { found.ttl.min(of_target.ttl) };
        found.addresses.extend(of_target.at(service.port, Some(&host)).addresses);
        if found.addresses.len() > MOST_ADDRESSES {
            break;
        }
    }
    if found.addresses.is_empty() && found.is_partial {
        return Err(ResolveError::Query(NetError::Message("the hosts of its SRV records cannot be resolved")));
    }
    found.addresses.sort();
    found.addresses.dedup_by(|a, b| a.authority == b.authority);
    Ok(found)
}

/// `None` if the name has no such records.
async fn query(resolver: &TokioResolver, name: &str, kind: RecordType) -> Result<Option<Lookup>, ResolveError> {
    match resolver.lookup(name, kind).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_no_records_found() => Ok(None),
        Err(error) => Err(ResolveError::Query(error)),
    }
}

fn ttl(answer: &Lookup) -> Duration {
    answer.valid_until().saturating_duration_since(Instant::now())
}

fn undotted(name: &str) -> Name {
    name.trim_end_matches('.').into()
}
