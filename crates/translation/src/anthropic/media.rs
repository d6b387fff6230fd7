//! Images and documents of messages, in the forms that Messages accepts.
//!
//! Messages rejects what other upstreams forgive: a media type in another spelling, one that differs from the bytes, and
//! base64 with line breaks, in the alphabet of URLs or without padding. So the first bytes decide on the type, and the base64
//! is written anew where it is not in the standard form.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    base64::{self, Kind},
    content::Part,
    raw,
};
use crate::{
    Dropped, Unsupported,
    json::{self, Str},
    unsupported,
};

#[derive(Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: &'a RawValue,
    #[serde(borrow)]
    detail: Option<Str<'a>>,
}

/// The place of an image or a document.
enum Source<'a> {
    Url(&'a str),
    /// Base64 and its declared media type, in lower case; empty if there is none.
    Data {
        declared: String,
        data: &'a str,
    },
}

/// Appends the block of an image or a file to `out`. `path` is the part's.
pub(super) fn block(
    part: &Part<'_>,
    cache: Option<&RawValue>,
    path: &str,
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Result<(), Unsupported> {
    match &*part.r#type.0 {
        "image_url" | "input_image" => image(part, path, out, dropped)?,
        "file" | "input_file" => document(part, path, out)?,
        "input_audio" | "audio" => {
            return Err(unsupported(format!("{path}.type"), "the upstream takes no audio: send a transcript as text"));
        }
        "text" => return Err(unsupported(format!("{path}.text"), "a text part needs a `text`")),
        other => {
            let message = format!("the upstream takes no part of type `{other}`: send text, image_url or file");
            return Err(unsupported(format!("{path}.type"), message));
        }
    }
    raw::member(out, "cache_control", cache);
    out.push(b'}');
    Ok(())
}

/// Appends the block of an image part, without its closing brace. `path` is the part's.
fn image(part: &Part<'_>, path: &str, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let path = format!("{path}.image_url");
    let invalid = || unsupported(path.clone(), "an image_url part needs `{\"url\": …}`");
    let value = part.image_url.ok_or_else(invalid)?;
    let url = if raw::is_object(value) {
        let image: ImageUrl<'_> = json::read(value).map_err(|_| invalid())?;
        if image.detail.is_some_and(|detail| detail.0 != "auto") {
            dropped.add("messages[].content[].image_url.detail");
        }
        image.url
    } else {
        value
    };
    let url = json::text(url).ok_or_else(invalid)?;
    match Source::of(&url) {
        Some(Source::Url(url)) => from_url(out, "image", url),
        Some(Source::Data { declared, data }) => encoded(out, &declared, data, None, &path)?,
        // Clients of other APIs send the bare base64.
        None if base64::kind(&url).is_some() => encoded(out, "", &url, None, &path)?,
        None => return Err(unsupported(path, "the upstream takes images as https URLs or as base64 data URLs")),
    }
    Ok(())
}

/// Appends the block of a file part, without its closing brace. `path` is the part's.
fn document(part: &Part<'_>, path: &str, out: &mut Vec<u8>) -> Result<(), Unsupported> {
    let path = format!("{path}.file");
    let invalid = || unsupported(path.clone(), "a file part needs `file_data` with a base64 data URL");
    let file = part.file.as_ref().ok_or_else(invalid)?;
    let given = file.data.or(file.id).ok_or_else(invalid)?;
    let text = json::text(given).ok_or_else(invalid)?;
    let title = file.filename.filter(|title| !raw::is_blank(title));
    let named_pdf = || title.and_then(json::text).is_some_and(|name| name.to_ascii_lowercase().ends_with(".pdf"));
    match Source::of(&text) {
        Some(Source::Url(url)) => {
            from_url(out, "document", url);
            raw::member(out, "title", title);
        }
        Some(Source::Data { declared, data }) => {
            let declared = if declared.is_empty() && named_pdf() { base64::PDF.to_owned() } else { declared };
            encoded(out, &declared, data, title, &format!("{path}.file_data"))?;
        }
        // `file_data` may be bare base64, whose type its bytes or the file's name say.
        None if file.data.is_some() && (named_pdf() || base64::kind(&text).is_some()) => {
            let declared = if named_pdf() { base64::PDF } else { "" };
            encoded(out, declared, &text, title, &format!("{path}.file_data"))?;
        }
        None => {
            let message = "the upstream has no file of this id or type: send a PDF as a base64 data URL in `file_data`";
            return Err(unsupported(path, message));
        }
    }
    Ok(())
}

impl<'a> Source<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let url = url.trim();
        let starts = |prefix: &str| url.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        if starts("https://") || starts("http://") {
            return Some(Self::Url(url));
        }
        let (head, data) = url.get(5..).filter(|_| starts("data:"))?.split_once(',')?;
        let mut parts = head.split(';').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let is_marker = |part: &str| part.eq_ignore_ascii_case("base64");
        if is_marker(first) {
            return Some(Self::Data { declared: String::new(), data });
        }
        parts.any(is_marker).then(|| Self::Data { declared: first.to_ascii_lowercase(), data })
    }
}

fn from_url(out: &mut Vec<u8>, block: &str, url: &str) {
    json::put(out, &["{\"type\":\"", block, "\",\"source\":{\"type\":\"url\",\"url\":"]);
    json::string(out, url);
    out.push(b'}');
}

/// Appends the block of encoded data: an image, a PDF, or a text.
fn encoded(
    out: &mut Vec<u8>,
    declared: &str,
    data: &str,
    title: Option<&RawValue>,
    path: &str,
) -> Result<(), Unsupported> {
    let data = base64::standard(data)
        .ok_or_else(|| unsupported(path, "the base64 of the data URL is not valid: encode the file again"))?;
    let kind = match base64::kind(&data) {
        Some(kind) => kind,
        None if is_text(declared) => return plain(out, &data, title, path),
        None => Kind::declared(declared),
    };
    match kind {
        Kind::Image(media_type) => {
            json::put(out, &["{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"", media_type]);
            json::put(out, &["\",\"data\":\"", &data, "\"}"]);
        }
        Kind::Pdf => {
            json::put(out, &["{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":\"", base64::PDF]);
            json::put(out, &["\",\"data\":\"", &data, "\"}"]);
            raw::member(out, "title", title);
        }
        Kind::Other(name) => {
            let name = if name.is_empty() { declared } else { name };
            let name = if name.is_empty() { "a type that its bytes do not say" } else { name };
            let message = format!(
                "the upstream takes JPEG, PNG, GIF and WebP images, PDFs and texts, and this is {name}: convert it"
            );
            return Err(unsupported(path, message));
        }
    }
    Ok(())
}

/// True for media types whose content is text.
fn is_text(media_type: &str) -> bool {
    let application = media_type.strip_prefix("application/");
    media_type.starts_with("text/")
        || application.is_some_and(|kind| matches!(kind, "json" | "xml" | "yaml" | "x-yaml" | "toml" | "javascript"))
}

/// Appends the document of a text file.
fn plain(out: &mut Vec<u8>, data: &str, title: Option<&RawValue>, path: &str) -> Result<(), Unsupported> {
    let text = base64::text(data).filter(|text| !text.trim().is_empty());
    let text =
        text.ok_or_else(|| unsupported(path, "the text of the file is empty or not UTF-8: send it as a text part"))?;
    out.extend_from_slice(
        b"{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":",
    );
    json::string(out, &text);
    out.push(b'}');
    raw::member(out, "title", title);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::request_tests::{rejected, translated, with};

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const JPEG: &str = "/9j/4AAQSkZJRg==";

    fn block(part: &Value) -> Value {
        translated(&with(&json!({"messages": [{"role": "user", "content": [part]}]}))).0["messages"][0]["content"][0]
            .clone()
    }

    fn image(url: &str) -> Value {
        json!({"type": "image_url", "image_url": {"url": url}})
    }

    fn file(data: &str, name: &str) -> Value {
        json!({"type": "file", "file": {"file_data": data, "filename": name}})
    }

    #[test]
    fn an_image_gets_the_type_of_its_bytes() {
        let webp = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4H";
        let gif = "R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
        for (head, data, want) in [
            ("data:image/JPEG;base64,", JPEG, "image/jpeg"),
            ("data:image/pjpeg;base64,", JPEG, "image/jpeg"),
            ("data:image/jpg;base64,", JPEG, "image/jpeg"),
            ("data:image/png;base64,", JPEG, "image/jpeg"),
            ("DATA:image/jpeg;charset=utf-8;BASE64,", PNG, "image/png"),
            ("data:application/octet-stream;base64,", PNG, "image/png"),
            ("data:;base64,", PNG, "image/png"),
            ("data:base64,", PNG, "image/png"),
            ("data: image/x-png ; base64,", PNG, "image/png"),
            ("data:binary/octet-stream;name=a.webp;base64,", webp, "image/webp"),
            ("data:image/*;base64,", gif, "image/gif"),
            ("", PNG, "image/png"),
            // Bytes that say nothing.
            ("data:image/x-png;base64,", "QUJD", "image/png"),
        ] {
            let want = json!({"type": "image", "source": {"type": "base64", "media_type": want, "data": data}});
            assert_eq!(block(&image(&[head, data].concat())), want, "{head}");
        }
    }

    #[test]
    fn base64_is_written_in_the_standard_form() {
        let url = |data: &str| image(&format!("data:image/png;base64,{data}"));
        let wrapped = format!("{}\r\n{} \t{}\n", &PNG[..40], &PNG[40..60], &PNG[60..]);
        for data in [
            wrapped.clone(),
            PNG.replace('+', "-").replace('/', "_"),
            PNG.trim_end_matches('=').to_owned(),
            PNG.replace('+', "%2B").replace('/', "%2f").replace('=', "%3D"),
        ] {
            assert_eq!(block(&url(&data))["source"]["data"], PNG, "{data}");
        }
        for data in ["", "iVBORw0KGgoA*", "iVBOR", "=", "iVBORw0KGgo=iVBORw0KGgo="] {
            let error = rejected(&json!({"messages": [{"role": "user", "content": [url(data)]}]}));
            assert_eq!(error.param, "messages[0].content[0].image_url", "{data}");
        }
    }

    #[test]
    fn images_of_other_kinds_are_rejected_by_name() {
        for (url, want) in [
            ("data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=", "SVG"),
            ("data:image/png;base64,Qk06AAAAAAAAADYAAAA=", "BMP"),
            ("data:image/tiff;base64,SUkqAAgAAAA=", "TIFF"),
            ("data:image/jpeg;base64,AAAAGGZ0eXBoZWljAAAAAG1pZjFoZWlj", "HEIF"),
            ("data:image/avif;base64,AAAAHGZ0eXBhdmlmAAAAAGF2aWZtaWYx", "AVIF"),
            ("data:image/vnd.x;base64,QUJD", "image/vnd.x"),
        ] {
            let error = rejected(&json!({"messages": [{"role": "user", "content": [image(url)]}]}));
            assert!(error.message.contains(&format!("this is {want}")), "{}", error.message);
        }
    }

    #[test]
    fn files_become_documents_or_images() {
        let pdf = "JVBERi0xLjQKJQ==";
        let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}, "title": "a"});
        for head in [
            "data:application/pdf;base64,",
            "data:application/x-pdf;base64,",
            "data:application/octet-stream;base64,",
            "",
        ] {
            assert_eq!(block(&file(&[head, pdf].concat(), "a")), document, "{head}");
            assert_eq!(block(&file(&[head, &pdf[..8], "\n", &pdf[8..14]].concat(), "a")), document, "{head}");
        }
        assert_eq!(block(&file(&format!("data:application/pdf;base64,{PNG}"), "a"))["type"], "image");
        assert_eq!(block(&image(&format!("data:image/png;base64,{pdf}")))["type"], "document");
        let text = json!({"type": "text", "media_type": "text/plain", "data": "a,é\n"});
        assert_eq!(
            block(&file("data:text/csv;base64,YSzDqQo=", "a.csv")),
            json!({"type": "document", "source": text, "title": "a.csv"})
        );
    }
}
