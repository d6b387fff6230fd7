//! Compiles the OpenTelemetry export.

use super::reader::Reader;
use crate::{CaptureContent, Otel, Redactor, Secret};
use signalbox_config::{Field, Problem, Share, Url, otel as raw};
use signalbox_types::Name;

/// Default of the most bytes of a prompt or an answer in a span, and the highest setting.
const CONTENT_BYTES: u64 = 8 << 10;
const MOST_CONTENT: usize = 256 << 10;

impl Reader<'_> {
    pub(super) fn otel(&mut self, raw: &raw::Otel) -> Option<Otel> {
        if !cfg!(feature = "otel") {
            self.report(
                Problem::whole("this build has no OpenTelemetry")
                    .help("build it with the feature `otel`, which is on by default, or leave `otel` out"),
            );
            return None;
        }
        let endpoint = self.optional(raw.endpoint.as_ref()).map(|Url(url)| url);
        if let Some((written, url)) = raw.endpoint.as_ref().zip(endpoint.as_ref())
            && (url.ends_with("/v1/traces") || url.ends_with("/v1/metrics"))
        {
            let base = url.rsplit_once("/v1/").map_or(&**url, |(base, _)| base);
            self.report(
                Problem::at(written.at(), "the path is added to this address")
                    .help(format!("write the collector's base address: `{base}`")),
            );
        }
        let headers = raw.headers.iter().flat_map(|headers| &headers.entries);
        let headers = headers.filter_map(|(name, value)| self.header(name, value)).collect();
        Some(Otel {
            endpoint,
            headers,
            sample: self.optional(raw.sample.as_ref()).map(|Share(share)| share),
            service: self.word(raw.service.as_ref()),
            instance: self.word(raw.instance.as_ref()),
            interval: self.optional(raw.interval.as_ref()),
            content: raw.content.as_ref().map(|raw| self.content(raw)),
        })
    }

    fn content(&mut self, raw: &raw::Content) -> CaptureContent {
        let most = self.or(raw.max_bytes.as_ref(), CONTENT_BYTES);
        let own = raw.redact.iter().filter_map(|pattern| self.read(pattern)).map(|raw::Pattern(pattern)| pattern);
        let redactor = Redactor::new(own.collect());
        CaptureContent { most: usize::try_from(most).unwrap_or(MOST_CONTENT).min(MOST_CONTENT), redactor }
    }

    /// A header of every request to a server.
    pub(super) fn header(&mut self, name: &Field<String>, value: &Field<raw::HeaderText>) -> Option<(Name, Secret)> {
        let raw::HeaderText(value) = self.read(value)?;
        let Ok(name) = http::HeaderName::try_from(name.text()) else {
            self.report(
                Problem::at(name.at(), "not the name of a header").help("write it like `authorization` or `x-api-key`"),
            );
            return None;
        };
        Some((name.as_str().into(), Secret(value.into())))
    }
}
