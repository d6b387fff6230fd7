//! Detection of requests that come back to the gateway that sent them.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The gateways that a request passed, by the identifiers of their processes.
const PASSED: HeaderName = HeaderName::from_static("x-signalbox-passed");
/// The most gateways in a row. More are a loop through gateways that restart, or a mistake.
const MOST: usize = 8;

/// The mark that a gateway leaves on its requests.
#[derive(Clone, Debug)]
pub struct LoopGuard {
    id: HeaderValue,
}

impl LoopGuard {
    /// Creates a guard with an identifier of its own.
    pub(super) fn new() -> Self {
        let id = HeaderValue::try_from(format!("{:016x}", fastrand::u64(..)));
        Self { id: id.unwrap_or(HeaderValue::from_static("signalbox")) }
    }

    /// True if a request with `headers` passed this gateway already, or too many others.
    pub fn is_loop(&self, headers: &HeaderMap) -> bool {
        headers.get_all(PASSED).iter().any(|id| id == self.id) || headers.get_all(PASSED).iter().count() >= MOST
    }

    /// Marks `sent`, a request on behalf of one with the headers `received`.
    pub fn mark(&self, received: &HeaderMap, sent: &mut HeaderMap) {
        sent.remove(PASSED);
        for id in received.get_all(PASSED).iter().take(MOST) {
            sent.append(PASSED, id.clone());
        }
        sent.append(PASSED, self.id.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_returns_is_a_loop() {
        let (one, other) = (LoopGuard::new(), LoopGuard::new());
        let (client, mut first, mut second) = (HeaderMap::new(), HeaderMap::new(), HeaderMap::new());
        assert!(!one.is_loop(&client));
        one.mark(&client, &mut first);
        assert!(one.is_loop(&first) && !other.is_loop(&first));
        other.mark(&first, &mut second);
        assert!(one.is_loop(&second) && other.is_loop(&second) && !LoopGuard::new().is_loop(&second));
        let mut long = second;
        for _ in 0..8 {
            let before = long.clone();
            LoopGuard::new().mark(&before, &mut long);
        }
        assert!(LoopGuard::new().is_loop(&long));
    }
}
