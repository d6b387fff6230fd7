//! Stand-ins for backends that are discovered at run time, for commands that need no network.

use std::path::Path;

use signalbox_config::{At, Config, Either, EndpointsError, Field, Problem, Problems, Url, endpoints};
use signalbox_policy::{AddressSource, FoundAddress, Policy};

/// Simulated engines for a name that cannot be resolved.
const SIMULATED: usize = 2;

/// Endpoints of the file at `path`; none if it does not exist.
fn listed(path: &Path) -> Result<Vec<FoundAddress>, EndpointsError> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| "[]".to_owned());
    Ok(endpoints(&text)?.into_iter().map(FoundAddress::from).collect())
}

/// Checks the files of endpoints that exist.
pub(super) fn check(config: &Config, policy: &Policy) -> Result<(), Problems> {
    let sources = policy.pools.iter().flat_map(|pool| &pool.sources);
    let problems: Vec<_> = sources
        .filter_map(|source| {
            let AddressSource::File(path) = &source.from else { return None };
            let error = listed(path).err()?;
            let problem = Problem::at(source.at, format!("this file of endpoints cannot be used: {error}"));
            Some(match error.help {
                Some(help) => problem.help(help),
                None => problem,
            })
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(config.problems(problems)) }
}

/// Checks that no backend is the gateway itself.
pub(super) fn check_own_address(config: &Config, policy: &Policy) -> Result<(), Problems> {
    let Some((url, key)) = policy.own_address() else { return Ok(()) };
    let document = config.document();
    let pools = document.pools.iter().flat_map(|named| &named.entries);
    let backends = pools.flat_map(|(_, pool)| &pool.backends.value).filter_map(|backend| match backend {
        Either::Short(url) => Some(url),
        Either::Long(long, _) => long.url.as_ref(),
    });
    let engines = document.engines.iter().flat_map(|named| &named.entries).map(|(_, engine)| &engine.url);
    let mut urls = backends.chain(engines);
    let at = urls.find(|field| config.read(field).is_ok_and(|Url(it)| it == url)).map_or_else(At::default, Field::at);
    let help = format!("name the address of an engine, or set `{key}` to another address");
    let problem = format!("this is the gateway's own address (`{key}`): every request would come back to it");
    Err(config.problems(vec![Problem::at(at, problem).help(help)]))
}

/// `policy` for an explanation: the endpoints of files as they are, and one backend for a DNS name.
pub(super) fn explained(policy: &Policy) -> Policy {
    policy.with_stand_ins(|from| match from {
        AddressSource::File(path) => listed(path).unwrap_or_default(),
        AddressSource::Dns(dns) => vec![FoundAddress::at(undotted(&dns.name).to_owned())],
    })
}

/// `policy` for a simulation: the endpoints of files as they are, and two engines for a DNS name.
pub(super) fn simulated(policy: &Policy) -> Policy {
    policy.with_stand_ins(|from| match from {
        AddressSource::File(path) => listed(path).unwrap_or_default(),
        AddressSource::Dns(dns) => numbered(undotted(&dns.name)),
    })
}

/// `policy` for a replay: as for a simulation, but a DNS name has the addresses with its port that the journal names.
pub(super) fn replayed<'a>(policy: &Policy, recorded: &(impl Iterator<Item = &'a str> + Clone)) -> Policy {
    policy.with_stand_ins(|from| match from {
        AddressSource::File(path) => listed(path).unwrap_or_default(),
        AddressSource::Dns(dns) => {
            let mut found: Vec<_> = recorded
                .clone()
                // A backend with a model's name behind it is one of several on its engine.
                .filter_map(|name| name.split('/').next()?.parse::<std::net::SocketAddr>().ok())
                .filter(|at| dns.port == 0 || at.port() == dns.port)
                .map(|at| FoundAddress::at(at.to_string()))
                .collect();
            found.sort();
            found.dedup();
            if found.is_empty() { numbered(undotted(&dns.name)) } else { found }
        }
    })
}

fn numbered(name: &str) -> Vec<FoundAddress> {
    (1..=SIMULATED).map(|number| FoundAddress::at(format!("{name}-{number}"))).collect()
}

fn undotted(name: &str) -> &str {
    name.trim_end_matches('.')
}
