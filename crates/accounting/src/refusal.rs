//! Errors for callers that exceed a limit or a budget, in the words of OpenAI's servers.

use std::time::Duration;

use http::StatusCode;

use super::limit_headers::format_duration;
use signalbox_quota::{Amount, BudgetExceeded, BudgetOwner, Exceeded, Kind, calendar};
use signalbox_types::{Fault, Name};

/// `Retry-After` where the time cannot be computed.
const SOON: Duration = Duration::from_secs(1);

/// Kind of the fault of a caller whose budget does not suffice.
pub const OVER_BUDGET: &str = "over_budget";

/// The error for the key `id`, which would exceed one of its limits. A fault of the gateway rather than of the client, since the same request
/// is valid for another caller.
pub(super) fn rate_limited(id: &Name, exceeded: &Exceeded) -> Fault {
    let &Exceeded { kind, limit, remaining, asked, after } = exceeded;
    let (class, what) = match kind {
        Kind::Requests => ("requests", "requests per min (RPM)"),
        Kind::Tokens => ("tokens", "tokens per min (TPM)"),
        Kind::Concurrency => ("requests", "concurrent requests"),
    };
    let message = match (kind, after) {
        (Kind::Concurrency, _) => format!(
            "Rate limit reached for the key '{id}' on {what}: Limit {limit}. Wait for one of them to end, and try again."
        ),
        (_, Some(after)) => format!(
            "Rate limit reached for the key '{id}' on {what}: Limit {limit}, Remaining {remaining}, Requested {asked}. \
             Please try again in {}.",
            format_duration(after)
        ),
        (_, None) => format!(
            "Request too large for the key '{id}' on {what}: Limit {limit}, Requested {asked}. \
             The input or max_tokens must be reduced in order to run successfully."
        ),
    };
    let after = match kind {
        Kind::Concurrency => Some(SOON),
        _ => after.map(whole_seconds),
    };
    let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
    Fault { retry_after: after, ..fault.with_class(class).with_code("rate_limit_exceeded") }
}

/// The error for the key `id` if the budget of `owner`, the key or its team, is spent or reserved.
pub(super) fn over_budget(id: &Name, owner: &BudgetOwner, exceeded: &BudgetExceeded, unix: i64) -> Fault {
    let BudgetExceeded { budget, renewed, under_way } = exceeded;
    let owner = match owner {
        BudgetOwner::Team(_) => format!("{owner} (key '{id}')"),
        BudgetOwner::Key(_) => owner.to_string(),
    };
    let amount = match budget.amount {
        Amount::Usd(usd) => format!("{usd} USD"),
        Amount::Tokens(tokens) => format!("{tokens} tokens"),
    };
    if *under_way {
        let message = format!(
            "What is left of the budget of {amount} per {} of {owner} is reserved for requests that are under way. \
             Wait for one of them to end, and try again; with a smaller max_tokens, each reserves less.",
            budget.per.name()
        );
        let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, OVER_BUDGET, message);
        let fault = fault.with_class("tokens").with_code("rate_limit_exceeded");
        return Fault { retry_after: Some(SOON), ..fault };
    }
    let message = format!(
        "You exceeded your current quota: what is left of the budget of {amount} per {} of {owner} does not \
         suffice for this request. It is renewed at {}.",
        budget.per.name(),
        calendar::written(*renewed)
    );
    let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, OVER_BUDGET, message);
    let after = Duration::from_secs(u64::try_from(renewed - unix).unwrap_or(1).max(1));
    Fault { retry_after: Some(after), ..fault.with_class("insufficient_quota").with_code("insufficient_quota") }
}

/// Rounds up to whole seconds, as `Retry-After` needs them: a client that returned earlier would be refused again.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_states_the_limit_and_the_time_to_retry() {
        let exceeded = |kind, after| Exceeded { kind, limit: 600, remaining: 2, asked: 40, after };
        let refusal = |kind, after| {
            let fault = rate_limited(&"web".into(), &exceeded(kind, after));
            assert_eq!((fault.status.as_u16(), fault.code), (429, Some("rate_limit_exceeded")));
            (fault.class, fault.retry_after.map(|after| after.as_secs()), fault.message.into_owned())
        };
        let (class, after, message) = refusal(Kind::Tokens, Some(Duration::from_millis(3_800)));
        assert_eq!((class, after), ("tokens", Some(4)));
        assert_eq!(
            message,
            "Rate limit reached for the key 'web' on tokens per min (TPM): Limit 600, Remaining 2, Requested 40. \
             Please try again in 3.8s."
        );
        assert_eq!(refusal(Kind::Tokens, None).1, None, "no retry can succeed");
        assert_eq!(refusal(Kind::Concurrency, None).1, Some(1));
    }
}
