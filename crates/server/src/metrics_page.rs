//! The page of metrics, in the format and the encoding that its reader asks for.

use std::io::Write as _;

use axum::response::{IntoResponse, Response};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use signalbox_telemetry::{MetricsFormat, accepts_gzip};

/// Writes the page on a blocking thread: with a thousand backends it takes ten milliseconds.
pub(super) async fn metrics_page(headers: &HeaderMap, write: impl FnOnce() -> String + Send + 'static) -> Response {
    let given = |name: HeaderName| {
        let values: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        values.join(",")
    };
    let format = MetricsFormat::of(&given(header::ACCEPT));
    let wants_gzip = accepts_gzip(&given(header::ACCEPT_ENCODING));
    let page = move || {
        let page = format.written(write()).into_bytes();
        let compressed = wants_gzip.then(|| gzip(&page)).flatten();
        let is_compressed = compressed.is_some();
        (compressed.unwrap_or(page), is_compressed)
    };
    let Ok((page, is_compressed)) = tokio::task::spawn_blocking(page).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let described = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept, accept-encoding")];
    let mut response = (described, page).into_response();
    if is_compressed {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The page compressed; `None` if that fails, which writing to memory does not.
fn gzip(page: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(page).ok()?;
    encoder.finish().ok()
}
