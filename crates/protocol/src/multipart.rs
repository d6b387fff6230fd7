//! Parses a multipart form (RFC 7578) strictly, so that its model can be read and replaced without rebuilding the form.
//!
//! Servers differ in how they read malformed forms: which of two boundaries or of two fields counts, whether a line
//! feed ends a line, how a backslash is read. Everything that two of them could read differently is rejected here.

use std::ops::Range;

use http::StatusCode;
use memchr::memmem;

use signalbox_types::Fault;

/// The fields of interest in a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The range of the content of the field `model`.
    pub model: Option<Range<usize>>,
    /// True if the field `stream` is `true`.
    pub stream: bool,
    /// True if another field may name a model, such as `models`.
    pub names_more: bool,
    /// True if there was a field `stream`.
    has_stream: bool,
}

/// The boundary of a form, if `content_type` is that of a form; `None` for another type.
///
/// # Errors
/// If the type is ambiguous, or a multipart type other than a form.
pub fn boundary(content_type: &str) -> Result<Option<String>, Fault> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let kind = kind.trim();
    if kind.is_empty() && parameters.is_empty() {
        return Ok(None);
    }
    if !kind.split_once('/').is_some_and(|(kind, of)| is_token(kind) && is_token(of)) {
        return Err(odd_type("is not a single type with parameters"));
    }
    if kind == "application/json" && parameters.is_empty() {
        return Ok(None);
    }
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        let all = content_type.to_ascii_lowercase();
        let hidden = all.contains("multipart") || all.contains("boundary");
        return if hidden { Err(odd_type("mentions a form but is not 'multipart/form-data'")) } else { Ok(None) };
    }
    let mut boundary = None;
    for parameter in read_parameters(parameters).ok_or_else(|| odd_type("has parameters that cannot be read"))? {
        match parameter {
            (name, value) if name.eq_ignore_ascii_case("boundary") => {
                if boundary.replace(value).is_some() {
                    return Err(odd_type("has two boundaries"));
                }
            }
            (name, value) if name.eq_ignore_ascii_case("charset") && is_utf8(value) => {}
            _ => return Err(odd_type("has a parameter other than 'boundary'")),
        }
    }
    match boundary {
        Some(boundary) if is_boundary(boundary) => Ok(Some(boundary.to_owned())),
        _ => Err(odd_type("has no boundary of 1 to 70 letters, digits and marks")),
    }
}

impl Form {
    /// Reads the form in `bytes`.
    ///
    /// # Errors
    /// If it is not a form of plainly named fields, or has a second `model`.
    pub fn read(bytes: &[u8], boundary: &str) -> Result<Self, Fault> {
        let delimiter = format!("--{boundary}");
        let finder = memmem::Finder::new(&delimiter);
        if !bytes.starts_with(delimiter.as_bytes()) {
            return Err(odd("it does not begin with its boundary"));
        }
        let mut form = Self::default();
        let mut at = delimiter.len();
        loop {
            let rest = &bytes[at..];
            match rest.strip_prefix(b"--") {
                // Some clients end with two line breaks.
                Some(rest) if rest.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => return Ok(form),
                Some(_) => return Err(odd("something follows its last boundary")),
                None if rest.starts_with(b"\r\n") => at += 2,
                None => return Err(odd("a boundary is not alone on its line")),
            }
            // A boundary anywhere must be a delimiter: some servers also recognise it within a line.
            let end = at + finder.find(&bytes[at..]).ok_or_else(|| odd("it has no last boundary"))?;
            let part =
                bytes[at..end].strip_suffix(b"\r\n").ok_or_else(|| odd("a boundary is not alone on its line"))?;
            form.part(part, at)?;
            at = end + delimiter.len();
        }
    }

    /// Records a part, which starts at `start`.
    fn part(&mut self, part: &[u8], start: usize) -> Result<(), Fault> {
        let head = memmem::find(part, b"\r\n\r\n").ok_or_else(|| odd("a part has no head"))?;
        let content = start + head + 4..start + part.len();
        let Head { name, is_file, is_text } = Head::read(&String::from_utf8_lossy(&part[..head]))?;
        let lower = name.to_ascii_lowercase();
        match lower.split(['[', '.']).next().unwrap_or_default() {
            "model" => {
                if self.model.is_some() {
                    return Err(twice("model"));
                }
                if name != "model" || is_file || !is_text {
                    return Err(Fault::field(name, "the model's name is a plain form field: name=\"model\", no file"));
                }
                self.model = Some(content);
            }
            "stream" => {
                if std::mem::replace(&mut self.has_stream, true) {
                    return Err(twice("stream"));
                }
                self.stream = &part[head + 4..] == b"true";
            }
            "_charset_" => return Err(odd("it sets a character set")),
            _ => self.names_more |= names_models(lower.as_bytes()),
        }
        Ok(())
    }
}

/// True if a field of this name, other than `model`, may also set the model on some server.
pub(super) fn names_models(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_lowercase();
    name.contains("model") || name.contains("fallback")
}

/// The fault for a field that is given twice, where servers differ in which one they use.
pub(super) fn twice(name: &str) -> Fault {
    let message = format!("'{name}' is given twice: which one counts would be a guess, so send it once");
    Fault::field(name.to_owned(), message).with_code("duplicate_field")
}

/// The head of a part.
struct Head {
    name: String,
    is_file: bool,
    /// True if the part's content is not transcoded by its character set.
    is_text: bool,
}

impl Head {
    fn read(head: &str) -> Result<Self, Fault> {
        let (mut disposition, mut is_text) = (None, true);
        for line in head.split("\r\n") {
            let (name, value) = line.split_once(':').ok_or_else(|| odd("a part's head has a line without a name"))?;
            if !is_token(name) || value.contains(['\r', '\n', '\0']) {
                return Err(odd("a part's head has a line that is continued, or no header"));
            }
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-disposition") {
                if disposition.replace(value).is_some() {
                    return Err(odd("a part has two names"));
                }
            } else if name.eq_ignore_ascii_case("content-transfer-encoding") {
                if !["7bit", "8bit", "binary"].iter().any(|plain| value.eq_ignore_ascii_case(plain)) {
                    return Err(odd("a part is encoded"));
                }
            } else if name.eq_ignore_ascii_case("content-type") {
                is_text &= has_plain_charset(value);
            }
        }
        let (name, is_file) = disposition.and_then(named).ok_or_else(|| {
            odd("a part's name cannot be read: it is of letters, digits and '_-.[]', and there is one of it")
        })?;
        Ok(Self { name: name.to_owned(), is_file, is_text })
    }
}

/// The name of a part from its disposition, and whether it is a file.
fn named(disposition: &str) -> Option<(&str, bool)> {
    let (kind, parameters) = disposition.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    let (mut name, mut files) = (None, [false; 2]);
    for (parameter, value) in read_parameters(parameters)? {
        let again = match parameter.to_ascii_lowercase().as_str() {
            "name" => name.replace(value).is_some(),
            "filename" => std::mem::replace(&mut files[0], true),
            // .NET sends both.
            "filename*" => std::mem::replace(&mut files[1], true),
            _ => return None,
        };
        if again {
            return None;
        }
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    let name = name.filter(|name| !name.is_empty() && name.bytes().all(is_plain))?;
    Some((name, files != [false; 2]))
}

/// Parameters, each a name and a value without its quotes; `None` if they are ambiguous.
fn read_parameters(mut text: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    loop {
        text = text.trim_matches([' ', '\t']);
        if text.is_empty() {
            return Some(found);
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
            let (value, rest) = quoted.split_once('"')?;
            // An escaped quote ends the text for some servers but not for others.
            (value, if value.ends_with('\\') { return None } else { rest })
        } else {
            let end = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
            (Some(&rest[..end]).filter(|value| is_token(value))?, &rest[end..])
        };
        if !is_token(name) || value.contains(char::is_control) {
            return None;
        }
        // Parsers that do not know quotes read the text after a semicolon as a parameter.
        if value.split_once(';').is_some_and(|(_, more)| more.contains('=')) {
            return None;
        }
        found.push((name, value));
        let rest = rest.trim_start_matches([' ', '\t']);
        text = if rest.is_empty() { rest } else { rest.strip_prefix(';')? };
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// RFC 2046, section 5.1.1, without the space.
fn is_boundary(text: &str) -> bool {
    let is_mark = |byte: u8| b"'()+_,-./:=?".contains(&byte);
    (1..=70).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// True if the part's character set keeps ASCII bytes as they are.
fn has_plain_charset(content_type: &str) -> bool {
    if !content_type.to_ascii_lowercase().contains("charset") {
        return true;
    }
    let parameters = content_type.split_once(';').and_then(|(_, parameters)| read_parameters(parameters));
    let is_plain = |charset: &str| is_utf8(charset) || charset.eq_ignore_ascii_case("iso-8859-1");
    parameters
        .is_some_and(|all| all.iter().all(|(name, value)| name.eq_ignore_ascii_case("charset") && is_plain(value)))
}

fn is_utf8(charset: &str) -> bool {
    ["utf-8", "utf8", "us-ascii"].iter().any(|plain| charset.eq_ignore_ascii_case(plain))
}

fn odd_type(what: &str) -> Fault {
    let message = format!(
        "the content type {what}: send one 'Content-Type', 'application/json', or 'multipart/form-data; boundary=…' where the API has a form"
    );
    Fault::client(StatusCode::BAD_REQUEST, "bad_content_type", message).with_code("invalid_content_type")
}

fn odd(what: &str) -> Fault {
    let message = format!("the form cannot be read in one way only: {what}");
    Fault::client(StatusCode::BAD_REQUEST, "bad_form", message).with_code("invalid_form")
}

/// Fuzz target: a content type, a line feed, and a form. Fields are found at their true position, and an accepted form
/// has no second interpretation.
///
/// # Panics
/// If a field is found outside of the form, or a lenient parser finds another model.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_form(bytes: &[u8]) {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let (content_type, form) = (String::from_utf8_lossy(&bytes[..end]), &bytes[(end + 1).min(bytes.len())..]);
    let Ok(Some(boundary)) = boundary(&content_type) else { return };
    let Ok(read) = Form::read(form, &boundary) else { return };
    // A lenient parser that accepts the boundary anywhere, any line end, and names without quotes.
    let text = String::from_utf8_lossy(form).replace("\r\n", "\n");
    let delimiter = format!("--{boundary}");
    let parts = text.split(&delimiter).filter_map(|part| part.trim_start().split_once("\n\n"));
    let is_model = |head: &&str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        let line = lines.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
        let mut parameters = line.into_iter().flat_map(|(_, value)| value.split(';'));
        parameters.any(|it| it.trim().replace('"', "").eq_ignore_ascii_case("name=model"))
    };
    let models: Vec<_> = parts.filter(|(head, _)| is_model(head)).map(|(_, content)| content.to_owned()).collect();
    match (&read.model, &models[..]) {
        (None, []) => {}
        (Some(at), [only]) => {
            let found = String::from_utf8_lossy(&form[at.clone()]).replace("\r\n", "\n");
            assert_eq!(found, only.strip_suffix('\n').unwrap_or(only), "another model");
        }
        (read, models) => panic!("{read:?} is the only model, but {models:?} are there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\nContent-Type: x\r\n\r\nname=\"model\"\r\n--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm1\r\n--b--\r\n";

    fn part(head: &str) -> String {
        format!("--b\r\n{head}\r\n\r\nm2\r\n{FORM}")
    }

    #[test]
    fn the_field_is_found_by_its_own_name() {
        let form = Form::read(FORM.as_bytes(), "b").unwrap();
        assert_eq!(form.model.map(|at| &FORM[at]), Some("m1"));
        assert!(!form.stream && !form.names_more);
        let more = part("Content-Disposition: form-data; name=fallback_models").replace("m2", "true");
        assert!(Form::read(more.as_bytes(), "b").unwrap().names_more);
        let streamed = part("Content-Disposition: form-data; name=\"stream\"").replace("m2", "true");
        assert!(Form::read(streamed.as_bytes(), "b").unwrap().stream);
    }

    #[test]
    fn usual_clients_are_read() {
        for head in [
            "Content-Disposition: form-data; name=\"timestamp_granularities[]\"",
            "Content-Disposition: form-data; name=file; filename=a.wav; filename*=utf-8''a.wav",
            "Content-Disposition: form-data; name=\"file\"; filename=\"C:\\x ä.wav\"\r\nContent-Type: audio/wav",
            "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=\"language\"\r\nContent-Length: 2",
        ] {
            assert!(Form::read(part(head).as_bytes(), "b").is_ok(), "{head}");
        }
    }

    #[test]
    fn a_second_model_is_rejected() {
        for head in [
            "Content-Disposition: form-data; name=\"model\"",
            "Content-Disposition: form-data; name=\"Model\"",
            "Content-Disposition: form-data; name=model",
            "content-disposition:form-data;name=MODEL",
            "Content-Disposition: form-data; name='model'",
            "Content-Disposition: form-data; name=\"model[]\"",
            "Content-Disposition: form-data; name=\"model[0]\"",
            "Content-Disposition: form-data; name=\"mo\\del\"",
            "Content-Disposition: form-data; name=\"%6dodel\"",
            "Content-Disposition: form-data; name=\" model\"",
            "Content-Disposition: form-data; name=\"model\"; name=\"x\"",
            "Content-Disposition: form-data; name=\"x\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"; NAME=model",
            "Content-Disposition: form-data; name*=utf-8''model",
            "Content-Disposition: form-data; name=\"x\"; name*=utf-8''model",
            "Content-Disposition: form-data; name*0=mo; name*1=del",
            "Content-Disposition: form-data; filename=\"a\\\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a;name=model\"",
            "Content-Disposition: form-data; name=\"x\"; filename=\"a\"; filename=\"b\"",
            "Content-Disposition: form-data; name=\"model\"; filename=\"a\"",
            "Content-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\nContent-Disposition: form-data; name=\"model\"",
            "Content-Disposition: form-data;\r\n name=\"model\"",
            "Content-Disposition : form-data; name=\"model\"",
            "Content-Disposition: attachment; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\r\nContent-Transfer-Encoding: base64",
            "Content-Disposition: form-data; name=\"_charset_\"",
            "X: y",
        ] {
            assert!(Form::read(part(head).as_bytes(), "b").is_err(), "{head}");
        }
        let twice = Form::read(part("Content-Disposition: form-data; name=\"model\"").as_bytes(), "b").unwrap_err();
        assert_eq!(twice.code, Some("duplicate_field"));
        let typed = FORM
            .replace("name=\"model\"\r\n\r\nm1", "name=\"model\"\r\nContent-Type: text/plain; charset=utf-7\r\n\r\nm1");
        assert!(Form::read(typed.as_bytes(), "b").is_err());
        assert!(Form::read(typed.replace("utf-7", "ISO-8859-1").as_bytes(), "b").is_ok());
        assert!(Form::read(format!("{FORM}\r\n").as_bytes(), "b").is_ok());
    }

    #[test]
    fn the_boundary_delimits_wherever_it_stands() {
        for form in [
            format!("x\r\n{FORM}"),
            format!("\r\n{FORM}"),
            format!("{{\"model\":\"m\"}}\r\n{FORM}"),
            format!("{FORM}x"),
            FORM.replace("--b--\r\n", ""),
            FORM.replace("m1", "m1--b\r\n"),
            FORM.replace("m1", "m1\n--b\nContent-Disposition: form-data; name=\"model\"\n\nm2"),
            FORM.replace("m1", "m1\r\n--bx\r\nm2"),
            FORM.replace("--b\r\ncontent", "--b \r\ncontent"),
            FORM.replace("\r\n\r\nm1", "\r\nm1"),
            FORM.replace("\r\n", "\n"),
            String::new(),
        ] {
            assert!(Form::read(form.as_bytes(), "b").is_err(), "{form}");
            fuzz_form(format!("multipart/form-data; boundary=b\n{form}").as_bytes());
        }
    }

    #[test]
    fn the_boundary_is_found_where_there_is_one() {
        for (text, want) in [
            ("multipart/form-data; charset=UTF-8; Boundary=\"a:b\"", Some("a:b")),
            ("Multipart/Form-Data;boundary=----WebKitFormBoundaryx", Some("----WebKitFormBoundaryx")),
            ("application/json; charset=utf-8", None),
            ("text/plain;", None),
            ("", None),
        ] {
            assert_eq!(boundary(text).unwrap().as_deref(), want, "{text}");
        }
        for text in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=a; boundary=b",
            "multipart/form-data; boundary=a; Boundary=a",
            "multipart/form-data; boundary=\"a\\\"; boundary=b",
            "multipart/form-data; boundary*=utf-8''b; boundary=a",
            "multipart/form-data; boundary*0=a; boundary*1=b",
            "multipart/form-data; boundary=a, multipart/form-data; boundary=b",
            "multipart/form-data; boundary=a b",
            "multipart/form-data; boundary=\"a b\"",
            "multipart/form-data; boundary=a; charset=utf-16",
            "multipart/form-data; boundary=a x",
            "multipart/mixed; boundary=a",
            "application/json, multipart/form-data; boundary=a",
            "application/json; multipart/form-data; boundary=a",
            "application/json; boundary=a",
            "json",
            "multipart/form-data; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert!(boundary(text).is_err(), "{text}");
        }
    }
}
