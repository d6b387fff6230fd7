//! Writes server-sent events of the Responses API.

use crate::json::{number, put};

/// Numbers and frames the events of one answer.
#[derive(Debug)]
pub(super) struct Events {
    sequence: u64,
    /// True for a whole answer, which has no events.
    pub(super) quiet: bool,
    /// The response's id without its prefix: items are named after it.
    suffix: Box<str>,
}

impl Events {
    pub(super) fn new(id: &str) -> Self {
        let plain: String =
            id.chars().filter(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_')).collect();
        Self { sequence: 0, quiet: false, suffix: plain.strip_prefix("resp_").unwrap_or(&plain).into() }
    }

    /// Appends one event. `name` is given in parts; `body` writes its members after `type` and `sequence_number`.
    pub(super) fn send(&mut self, out: &mut Vec<u8>, name: [&str; 2], body: impl FnOnce(&Self, &mut Vec<u8>)) {
        if self.quiet {
            return;
        }
        let [start, end] = name;
        put(out, &["event: ", start, end, "\ndata: "]);
        let at = out.len();
        put(out, &["{\"type\":\"", start, end, "\",\"sequence_number\":"]);
        number(out, self.sequence);
        out.push(b',');
        body(self, out);
        one_line(&mut out[at..]);
        put(out, &["}\n\n"]);
        self.sequence += 1;
    }

    /// Appends the id of the item at `index`, such as `msg_…00`, without quotes.
    pub(super) fn id(&self, out: &mut Vec<u8>, prefix: &str, index: usize) {
        put(out, &[prefix, &self.suffix, if index < 10 { "0" } else { "" }]);
        number(out, index as u64);
    }

    /// Appends the members that name an item.
    pub(super) fn place(&self, out: &mut Vec<u8>, prefix: &str, index: usize) {
        put(out, &[r#""item_id":""#]);
        self.id(out, prefix, index);
        put(out, &[r#"","output_index":"#]);
        number(out, index as u64);
    }

    /// Appends `response.output_item.added` or `.done`.
    pub(super) fn item(&mut self, out: &mut Vec<u8>, step: &str, index: usize, item: &[u8]) {
        self.send(out, ["response.output_item.", step], |_, out| {
            put(out, &[r#""output_index":"#]);
            number(out, index as u64);
            put(out, &[r#","item":"#]);
            out.extend_from_slice(item);
        });
    }
}

/// Replaces line breaks between values, which would end the data. JSON strings have none.
fn one_line(mut json: &mut [u8]) {
    while let Some(at) = memchr::memchr2(b'\n', b'\r', json) {
        json[at] = b' ';
        json = &mut json[at + 1..];
    }
}
