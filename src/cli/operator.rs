//! Client of a running gateway's admin API, for commands.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::output;
use crate::upstream::{Client, client::Outgoing};

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// Address and credential of a running gateway.
#[derive(Debug, clap::Args)]
pub(super) struct Gateway {
    /// URL of the gateway's admin listener
    #[arg(long, default_value = "http://127.0.0.1:4101")]
    admin: String,
    /// Operators' token, if the gateway requires one [default: `SIGNALBOX_ADMIN_TOKEN`]
    #[arg(long)]
    token: Option<String>,
}

/// Operators' token from the environment.
pub(super) fn token_from_env() -> Option<String> {
    std::env::var("SIGNALBOX_ADMIN_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

impl Gateway {
    /// Base URL, without a trailing slash.
    pub(super) fn base(&self) -> &str {
        self.admin.trim_end_matches('/')
    }

    /// Operators' token from the command line or the environment.
    pub(super) fn token(&self) -> Option<String> {
        self.token.clone().filter(|token| !token.is_empty()).or_else(token_from_env)
    }

    /// Sends a request to `path`. If the gateway refuses, prints the reason and returns `None`.
    pub(super) fn ask(&self, method: Method, path: &str, query: &[(&str, &str)]) -> io::Result<Option<Bytes>> {
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.request(method, format!("{}{path}?{}", self.base(), query.join("&")), Bytes::new())
    }

    /// Sends `body` as JSON to `path`, like [`ask`](Self::ask).
    pub(super) fn send(&self, method: Method, path: &str, body: &Value) -> io::Result<Option<Bytes>> {
        self.request(method, format!("{}{path}", self.base()), body.to_string().into())
    }

    fn request(&self, method: Method, url: String, body: Bytes) -> io::Result<Option<Bytes>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (status, body) = runtime.block_on(send(method, url, self.token(), body))?;
        if status.is_success() {
            return Ok(Some(body));
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
        output::complain(&format!("signalbox: the gateway answered {}: {message}\n", status.as_u16()));
        Ok(None)
    }
}

async fn send(
    method: Method,
    url: String,
    token: Option<String>,
    body: Bytes,
) -> io::Result<(http::StatusCode, Bytes)> {
    let client = Client::new(CONNECT).map_err(io::Error::other)?;
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(io::Error::other)?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let asked = Outgoing { method, url, headers, body };
    let (head, body) = client.send(asked).await.map_err(io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    Ok((head.status, body.to_bytes()))
}

/// Percent-encodes a value for a query or a path.
pub(super) fn encoded(value: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_percent_encoded() {
        assert_eq!(super::encoded("web-1"), "web-1");
        assert_eq!(super::encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
