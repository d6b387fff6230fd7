//! Looks at a source again and again: resolves a name by its TTL, and reads a file once a second.

use std::{io, path::Path, time::Duration};

use tokio::task::AbortHandle;

use signalbox_config::{MAX_ENDPOINTS_BYTES, endpoints, plain, read_limited};
use signalbox_policy::{AddressSource, DnsName, FoundAddress};
use signalbox_upstream::resolve::{Resolved, resolve};

/// Time between two looks at a file.
const FILE: Duration = Duration::from_secs(1);
/// Time after which a changed file is read again, since it may be half written.
const SETTLE: Duration = Duration::from_millis(100);
/// The shortest time between two resolutions, unless the policy asks for a shorter one; also after a failure.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Outcome of a look at a source.
#[derive(Debug)]
pub(super) enum Look {
    /// The addresses now. Without those of an earlier answer that it may only have missed, if it is partial.
    Found { addresses: Vec<FoundAddress>, is_partial: bool },
    /// Nothing can be said of the addresses.
    Failed(String),
}

/// Starts to watch `from`; the task ends when it is aborted.
pub(super) fn start(from: AddressSource, report: impl Fn(Look) + Send + Sync + 'static) -> AbortHandle {
    let task = async move {
        match &from {
            AddressSource::Dns(dns) => names(dns, report).await,
            AddressSource::File(path) => file(path, report).await,
        }
    };
    tokio::spawn(task).abort_handle()
}

async fn names(dns: &DnsName, report: impl Fn(Look)) {
    let mut refused_before = None;
    loop {
        let pause = match resolve(dns).await {
            Ok(Resolved { addresses, ttl, is_partial, refused }) => {
                if let Some(ip) = refused.filter(|ip| refused_before.replace(*ip) != Some(*ip)) {
                    let name = &dns.name;
                    tracing::warn!(%name, %ip, "discovery: '{name}' has the address {ip}, which is not used: no engine can be there");
                }
                let ttl = if addresses.is_empty() || is_partial { Duration::ZERO } else { ttl };
                report(Look::Found { addresses, is_partial });
                ttl.max(MIN_INTERVAL)
            }
            Err(error) => {
                report(Look::Failed(error.to_string()));
                MIN_INTERVAL
            }
        };
        tokio::time::sleep(pause.min(dns.every)).await;
    }
}

async fn file(path: &Path, report: impl Fn(Look)) {
    let mut seen: Option<Result<String, String>> = None;
    loop {
        let mut now = read(path).await;
        if seen.as_ref() != Some(&now) {
            // At the start nothing is compared, and requests may wait.
            while seen.is_some() {
                tokio::time::sleep(SETTLE).await;
                let again = read(path).await;
                if std::mem::replace(&mut now, again) == now {
                    break;
                }
            }
            report(look(&now));
            seen = Some(now);
        } else if let Ok(text) = &now
            && endpoints(text).is_ok()
        {
            report(look(&now));
        }
        tokio::time::sleep(FILE).await;
    }
}

async fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: &io::Error| format!("the file cannot be read: {}", plain(error));
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_limited(&path, MAX_ENDPOINTS_BYTES)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| unreadable(&error))
}

fn look(content: &Result<String, String>) -> Look {
    let found =
        content.as_ref().map_err(Clone::clone).and_then(|text| endpoints(text).map_err(|error| error.to_string()));
    match found {
        Ok(listed) => {
            Look::Found { addresses: listed.into_iter().map(FoundAddress::from).collect(), is_partial: false }
        }
        Err(error) => Look::Failed(error),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pipe_in_the_place_of_the_file_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(read(&path).await.unwrap_err().contains("no regular file"));
    }
}
