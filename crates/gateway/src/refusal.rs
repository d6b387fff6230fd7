//! Faults of refusals by their verdicts: whose fault it is, whether another backend may help, and what the caller reads.

use std::borrow::Cow;

use http::StatusCode;

use signalbox_engines::{Verdict, verdict_of_message};
use signalbox_protocol::EngineError;
use signalbox_types::{
    Blame, Fault, Retry,
    fault::{ACCOUNT, DENIED, FULL, LIMITED, NOT_READY, UNSUPPORTED},
};

/// Builds the fault for an error that the upstream reported with a success status: in place of a whole answer, or in an
/// event of a stream.
pub(crate) fn reported(error: &EngineError) -> Fault {
    let status = error.status.and_then(|status| StatusCode::from_u16(status).ok()).filter(|it| it.as_u16() >= 400);
    match verdict_of_message(status.map(|status| status.as_u16()), &error.message) {
        Verdict::Operator => of_account(status, "the key of this backend"),
        verdict => {
            let message = format!("the backend reported an error with the status 200: {}", error.message);
            of_verdict(verdict, status, message)
        }
    }
}

/// Builds the fault of a verdict. `status` is the upstream's, if it gave one.
pub(crate) fn of_verdict(verdict: Verdict, status: Option<StatusCode>, message: impl Into<Cow<'static, str>>) -> Fault {
    const REFUSED: StatusCode = StatusCode::BAD_REQUEST;
    let client = |status: Option<StatusCode>| status.filter(StatusCode::is_client_error).unwrap_or(REFUSED);
    let server =
        |status: Option<StatusCode>| status.filter(StatusCode::is_server_error).unwrap_or(StatusCode::BAD_GATEWAY);
    let (status, kind) = match verdict {
        Verdict::TooLong => {
            let fault = Fault::upstream(client(status), "context_length_exceeded", message);
            return Fault { blame: Blame::Client, retry: Retry::LongerContext, ..fault };
        }
        Verdict::Request => return refused(client(status), message),
        Verdict::Incapable => {
            // The request cannot be served there, whatever status says so.
            let status = status.filter(|status| *status != StatusCode::INTERNAL_SERVER_ERROR).unwrap_or(REFUSED);
            (status, UNSUPPORTED)
        }
        Verdict::Full => (StatusCode::SERVICE_UNAVAILABLE, FULL),
        Verdict::RateLimited => (status.unwrap_or(StatusCode::TOO_MANY_REQUESTS), LIMITED),
        Verdict::Operator => (StatusCode::BAD_GATEWAY, ACCOUNT),
        Verdict::NotHere if status == Some(StatusCode::NOT_FOUND) => {
            let fault = Fault::upstream(StatusCode::NOT_FOUND, "upstream_not_found", message);
            return Fault { retry: Retry::Never, ..fault };
        }
        Verdict::NotHere if status == Some(StatusCode::METHOD_NOT_ALLOWED) => {
            return refused(StatusCode::METHOD_NOT_ALLOWED, message);
        }
        Verdict::NotHere => {
            // Clients try again after these; a 400 would be final.
            let is_retried = |status: &StatusCode| !matches!(status.as_u16(), 400 | 422);
            (status.filter(is_retried).unwrap_or(StatusCode::SERVICE_UNAVAILABLE), NOT_READY)
        }
        Verdict::Broken if status == Some(StatusCode::REQUEST_TIMEOUT) => {
            (StatusCode::REQUEST_TIMEOUT, "upstream_timeout")
        }
        Verdict::Broken => (server(status), "upstream_error"),
    };
    Fault::upstream(status, kind, message)
}

fn refused(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Fault {
    let fault = Fault::upstream(status, "upstream_refused", message);
    Fault { blame: Blame::Client, retry: Retry::Never, ..fault }
}

/// Builds the fault of a refusal that only the gateway's operator can change. `payer` names the owner of the key.
pub(crate) fn of_account(status: Option<StatusCode>, payer: &str) -> Fault {
    let number = status.map(|status| format!(" ({})", status.as_u16())).unwrap_or_default();
    let is_key = matches!(status, Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN));
    let (kind, what) = if is_key { (DENIED, payer.to_owned()) } else { (ACCOUNT, format!("a request with {payer}")) };
    let message = format!(
        "{what} is refused by its provider{number}: this is for the gateway's operator to fix, not for the caller"
    );
    Fault::upstream(StatusCode::BAD_GATEWAY, kind, message)
}
