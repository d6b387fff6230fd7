//! Rate-limit headers of answers, as OpenAI's servers send them (<https://platform.openai.com/docs/guides/rate-limits>, "Rate limits in
//! headers").

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use signalbox_quota::{LimitStatus, Standing};

const REQUESTS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
const TOKENS: [&str; 3] = ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];

/// Inserts the headers into an answer to a caller with limits. They replace the provider's headers, which describe the operator's account.
pub(super) fn insert(headers: &mut HeaderMap, standing: &Standing) {
    if standing.requests.is_none() && standing.tokens.is_none() {
        return;
    }
    for (names, figures) in [(REQUESTS, standing.requests), (TOKENS, standing.tokens)] {
        for name in names {
            headers.remove(name);
        }
        let Some(LimitStatus { limit, remaining, reset }) = figures else { continue };
        let [limit_name, remaining_name, reset_name] = names.map(HeaderName::from_static);
        headers.insert(limit_name, limit.into());
        headers.insert(remaining_name, remaining.into());
        if let Ok(value) = HeaderValue::from_str(&format_duration(reset)) {
            headers.insert(reset_name, value);
        }
    }
}

/// Formats a duration as these headers do: `120ms`, `8.64s`, `6m0s`.
pub(super) fn format_duration(time: Duration) -> String {
    let millis = time.as_nanos().div_ceil(1_000_000);
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_by_openai() {
        let of = |millis| format_duration(Duration::from_millis(millis));
        assert_eq!([of(0), of(17), of(1000), of(8640)], ["0ms", "17ms", "1s", "8.64s"]);
        assert_eq!([of(360_000), of(61_500), of(3_600_000), of(10_000)], ["6m0s", "1m1.5s", "1h0m0s", "10s"]);
        assert_eq!(
            format_duration(Duration::from_nanos(1)),
            "1ms",
            "rounded up, so that a client that waits so long is not early"
        );
    }

    #[test]
    fn the_providers_headers_are_replaced() {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining-tokens", 9.into());
        insert(&mut headers, &Standing::default());
        assert_eq!(headers.len(), 1, "without limits of the gateway nothing changes");
        let requests = Some(LimitStatus { limit: 60, remaining: 59, reset: Duration::from_secs(1) });
        insert(&mut headers, &Standing { requests, ..Standing::default() });
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["x-ratelimit-remaining-requests"], "59");
        assert_eq!(headers["x-ratelimit-reset-requests"], "1s");
    }
}
