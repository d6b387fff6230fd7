//! Where a field of a multipart form stands, so that a model can be read and renamed without taking the form apart (RFC 7578).

use std::ops::Range;

use memchr::memmem;

/// The boundary in a `multipart/form-data` content type.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })
}

/// Where the content of the first field called `name` stands in `form`.
pub fn field(form: &[u8], boundary: &str, name: &str) -> Option<Range<usize>> {
    let delimiter = format!("--{boundary}");
    let wanted = format!("name=\"{name}\"");
    let mut starts = memmem::find_iter(form, delimiter.as_bytes()).map(|at| at + delimiter.len()).peekable();
    while let Some(start) = starts.next() {
        let end = starts.peek().map_or(form.len(), |next| next - delimiter.len());
        let part = &form[start..end];
        let Some(head) = memmem::find(part, b"\r\n\r\n") else { continue };
        let is_wanted = part[..head].split(|byte| *byte == b'\n').any(|line| {
            let line = String::from_utf8_lossy(line);
            line.get(..20).is_some_and(|name| name.eq_ignore_ascii_case("content-disposition:"))
                && line.split(';').any(|parameter| parameter.trim() == wanted)
        });
        if is_wanted {
            let content = head + 4;
            let length = part[content..].strip_suffix(b"\r\n").map_or(part.len() - content, <[u8]>::len);
            return Some(start + content..start + content + length);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\nContent-Type: x\r\n\r\nname=\"model\"\r\n--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm1\r\n--b--\r\n";

    #[test]
    fn the_field_is_found_by_its_own_name() {
        let at = field(FORM, "b", "model").unwrap();
        assert_eq!(&FORM[at], b"m1");
        assert_eq!(field(FORM, "b", "language"), None);
        assert_eq!(field(b"--b", "b", "model"), None);
    }

    #[test]
    fn the_boundary_is_found() {
        assert_eq!(boundary("multipart/form-data; charset=x; Boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary("application/json; boundary=x"), None);
    }
}
