//! The text formats of metrics, and which of them a scraper reads.

use std::{borrow::Cow, collections::HashSet};

/// A text format of metrics.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// `OpenMetrics` 1.0.0, with units and exemplars.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which every scraper reads.
    Text,
}

impl MetricsFormat {
    /// The format that an `Accept` header prefers, as Prometheus' own libraries choose: `OpenMetrics` only for those that
    /// ask for it.
    pub fn of(accept: &str) -> Self {
        let quality = |kind| quality(accept, kind).unwrap_or(0.0);
        let asked = quality("application/openmetrics-text");
        if asked > 0.0 && asked >= quality("text/plain") { Self::OpenMetrics } else { Self::Text }
    }

    /// The content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// A page of [`Metrics::encode`](super::Metrics::encode) in this format.
    pub fn written(self, page: String) -> String {
        match self {
            Self::OpenMetrics => page,
            Self::Text => plain(&page),
        }
    }
}

/// True if an `Accept-Encoding` header wants gzip: by name or by `*`, and no less than the page as it is.
pub fn accepts_gzip(accepted: &str) -> bool {
    let named = quality(accepted, "gzip").or_else(|| quality(accepted, "x-gzip"));
    let gzip = named.or_else(|| quality(accepted, "*")).unwrap_or(0.0);
    gzip > 0.0 && gzip >= quality(accepted, "identity").unwrap_or(0.0)
}

/// The weight of `name` in a header that lists what is accepted; `None` where it is not listed.
fn quality(accepted: &str, name: &str) -> Option<f64> {
    let of = |item: &str| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(name));
        let weight = |parameter: &str| {
            let (name, weight) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| weight.trim().parse().unwrap_or(0.0))
        };
        is_named.then(|| parts.find_map(weight).unwrap_or(1.0))
    };
    accepted.split(',').filter_map(of).reduce(f64::max)
}

/// `OpenMetrics` in the older format: there a counter's family has the name of its samples, and there are no units, no
/// exemplars and no end.
fn plain(page: &str) -> String {
    let counters: HashSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(page.len());
    for line in page.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        text.push_str(&plain_line(line, &counters));
        text.push('\n');
    }
    text
}

fn plain_line<'a>(line: &'a str, counters: &HashSet<&str>) -> Cow<'a, str> {
    let Some(comment) = line.strip_prefix("# ") else { return without_exemplar(line).into() };
    let mut words = comment.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
            format!("# {kind} {name}_total {rest}").into()
        }
        (Some("TYPE"), Some(name), Some("unknown")) => format!("# TYPE {name} untyped").into(),
        _ => line.into(),
    }
}

/// A sample without what follows its value after ` # `. Labels may contain that in quotes.
fn without_exemplar(line: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scrapers_that_ask_for_openmetrics_get_it() {
        for (accept, want) in [
            ("", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("text/plain;version=0.0.4", MetricsFormat::Text),
            ("text/plain", MetricsFormat::Text),
            ("application/openmetrics-text", MetricsFormat::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", MetricsFormat::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                MetricsFormat::OpenMetrics,
            ),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.2", MetricsFormat::Text),
            ("application/openmetrics-text;q=0", MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::of(accept), want, "{accept}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_want_it() {
        for wanted in [
            "gzip",
            "GZIP",
            "deflate, gzip;q=1.0, *;q=0.5",
            "*",
            "gzip;q=0.1",
            "x-gzip",
            "br, gzip ; q=0.8",
            "identity;q=0.5, gzip",
        ] {
            assert!(accepts_gzip(wanted), "{wanted}");
        }
        for refused in [
            "",
            "identity",
            "gzip;q=0",
            "gzip;q=0.000, *",
            "br",
            "*;q=0",
            "gzip; Q=0",
            "identity;q=1, gzip;q=0.5",
            "gzip;q=a",
        ] {
            assert!(!accepts_gzip(refused), "{refused}");
        }
    }

    #[test]
    fn the_older_format_has_neither_exemplars_nor_units() {
        let page = "# HELP a Some.\n# TYPE a counter\n# UNIT a seconds\na_total{x=\"1 # \\\" #\"} 2 # {id=\"i\"} 1.0 2.0\n\
                    # TYPE b histogram\nb_bucket{le=\"1.0\"} 3 # {id=\"#\"} 0.5\n# TYPE c unknown\nc 1\n# EOF\n";
        let want = "# HELP a_total Some.\n# TYPE a_total counter\na_total{x=\"1 # \\\" #\"} 2\n\
                    # TYPE b histogram\nb_bucket{le=\"1.0\"} 3\n# TYPE c untyped\nc 1\n";
        assert_eq!(MetricsFormat::Text.written(page.to_owned()), want);
        assert_eq!(MetricsFormat::OpenMetrics.written(page.to_owned()), page);
    }
}
