//! Parser of the Prometheus text format, and of OpenMetrics, which is similar enough. Tolerant: invalid lines are
//! skipped, so that one odd metric does not hide the others.

use std::borrow::Cow;

/// One line with a value.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Metric name, including any `_total`, `_sum` or `_bucket`.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value; may be NaN or infinite.
    pub value: f64,
}

/// Samples of `text`, in order. Skips comments, `# EOF`, timestamps and exemplars. Allocates nothing.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => {
            let end = end_of_labels(rest)?;
            (&rest[..end], &rest[end + 1..])
        }
        None => ("", rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels: Labels { raw: labels }, value })
}

/// Index of the brace that closes the labels: the first one outside quotes.
fn end_of_labels(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    text.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'}' => return !quoted,
            _ => {}
        }
        false
    })
}

/// Labels of a sample, parsed on demand.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Labels<'a> {
    raw: &'a str,
}

impl<'a> Labels<'a> {
    /// Names and values in the order written; omits everything after a malformed label. Allocates only values with
    /// escapes.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let (name, after) = rest.trim_start_matches([',', ' ', '\t']).split_once('=')?;
            let quoted = after.trim_start().strip_prefix('"')?;
            let end = end_of_value(quoted)?;
            rest = &quoted[end + 1..];
            let name = name.trim_end();
            (!name.contains([',', '"'])).then(|| (name, unescaped(&quoted[..end])))
        })
    }

    /// Value of the label `name`.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.iter().find(|(label, _)| *label == name).map(|(_, value)| value)
    }
}

/// Index of the quote that ends a label's value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// A label's value with `\\`, `\"` and `\n` resolved; other escapes stay as they are.
fn unescaped(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => value.push('\n'),
            Some(c @ ('\\' | '"')) => value.push(c),
            Some(c) => value.extend(['\\', c]),
            None => value.push('\\'),
        }
    }
    Cow::Owned(value)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    type Pairs = Vec<(String, String)>;

    fn only(text: &str) -> Option<(String, Pairs, f64)> {
        let mut all = samples(text);
        let sample = all.next()?;
        assert!(all.next().is_none(), "{text:?} has one sample");
        let labels = sample.labels.iter().map(|(name, value)| (name.to_owned(), value.into_owned()));
        Some((sample.name.to_owned(), labels.collect(), sample.value))
    }

    fn owned(labels: &[(&str, &str)]) -> Pairs {
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn lines_of_every_shape_are_read() {
        for (line, name, labels, value) in [
            ("up 1", "up", &[][..], 1.0),
            ("up{} 1", "up", &[], 1.0),
            ("  vllm:running\t2.5 1700000000000 \r", "vllm:running", &[], 2.5),
            ("a {x=\"1\"} 3", "a", &[("x", "1")], 3.0),
            ("a{x=\"1\",y=\"two\",} 1e3", "a", &[("x", "1"), ("y", "two")], 1000.0),
            ("a{ x = \"1\" , y=\"\" } -4", "a", &[("x", "1"), ("y", "")], -4.0),
            (r#"a{x="}\"\\\n,y=\d"} 5"#, "a", &[("x", "}\"\\\n,y=\\d")], 5.0),
            ("a_total{x=\"é\"} 6 # {trace=\"}\"} 0.5 123", "a_total", &[("x", "é")], 6.0),
            ("a +Inf", "a", &[], f64::INFINITY),
            ("a -Inf", "a", &[], f64::NEG_INFINITY),
        ] {
            assert_eq!(only(line), Some((name.to_owned(), owned(labels), value)), "{line}");
        }
        assert!(only("a NaN").is_some_and(|(_, _, value)| value.is_nan()));
    }

    #[test]
    fn invalid_lines_are_skipped() {
        for line in
            ["", "   ", "# HELP a 1", "# EOF", "a", "a{", "a{x=\"1\" 2", "a{x=\"1}", "{x=\"1\"} 2", "a b", "a {} "]
        {
            assert_eq!(only(line), None, "{line:?}");
        }
        let text = "a 1\n<html> }{ \"\n# TYPE b gauge\nb 2\n# EOF";
        assert_eq!(samples(text).map(|sample| sample.name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_malformed_label_ends_the_labels() {
        assert_eq!(only("a{x=\"1\",y,z=\"3\"} 1").unwrap().1, owned(&[("x", "1")]));
        assert_eq!(only("a{x=1} 2").unwrap().1, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn labels_read_back(values in prop::collection::vec("[a-z\\\\\"\n,{}= é]{0,12}", 1..5), value in -1e9..1e9_f64) {
            let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels: Vec<_> = values.iter().enumerate().map(|(n, v)| format!("l{n}=\"{}\"", escaped(v))).collect();
            let line = format!("m{{{}}} {value}", labels.join(","));
            let (_, read, number) = only(&line).unwrap();
            prop_assert_eq!(read.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values);
            prop_assert!((number - value).abs() < 1e-9);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = String::from_utf8_lossy(&bytes);
            samples(&text).for_each(|sample| assert!(sample.labels.iter().count() <= bytes.len()));
        }

        #[test]
        fn text_that_is_nearly_right_never_panics(text in "((vllm:|sglang:|# )?[a-z_]{0,4}[{}=\",\\\\é \n0-9.#+-]{0,8}){0,20}") {
            samples(&text).for_each(|sample| assert!(sample.labels.iter().count() <= text.len()));
        }
    }
}
