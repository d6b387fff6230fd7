//! Reader for files of prompts: one per line, as text or JSON.

use std::{
    io::{self, Read},
    path::Path,
};

use bytes::Bytes;
use serde_json::Value;

use signalbox_config::{Problem, plain};
use signalbox_protocol::RequestBody;
use signalbox_sim::gzip;
use signalbox_types::{Endpoint, Outline};

/// Most bytes of a file after decompression.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Byte order mark that some editors write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Format of a JSON line.
const FORM: &str = "a line that begins with `{` is JSON: `{\"prompt\": …}`, or a whole request with `messages` or `input`; \
    write text that begins so as a JSON string";

/// Applies `each` to the outline of every prompt in the file at `path`; `-` is standard input.
pub(super) fn open<T>(path: &Path, each: impl Fn(&Outline) -> T) -> Result<Vec<T>, Problem> {
    let opened = if path == Path::new("-") { gzip::reader(io::stdin()) } else { gzip::open(path) };
    opened.map_err(|error| unread(&error)).and_then(|file| read(file, MAX_FILE_BYTES, each))
}

/// Reads `file` of at most `largest` bytes.
fn read<T>(file: impl Read, largest: u64, each: impl Fn(&Outline) -> T) -> Result<Vec<T>, Problem> {
    let mut bytes = Vec::new();
    file.take(largest + 1).read_to_end(&mut bytes).map_err(|error| unread(&error))?;
    if bytes.len() as u64 > largest {
        let message = format!("larger than {} MB, which is as much as is read (unpacked)", largest >> 20);
        return Err(
            Problem::whole(message).help("take a part of its lines, drawn at random: some ten thousand will do")
        );
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let mut prompts = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |(message, help)| Problem::whole(format!("line {}: {message}", at + 1)).help(help);
        let line = std::str::from_utf8(line)
            .map_err(|_| wrong(("not UTF-8 text".to_owned(), "prompts must be UTF-8: save the file as that")))?
            .trim();
        if !line.is_empty() {
            prompts.push(each(&outline(line).map_err(|message| wrong((message, FORM)))?));
        }
    }
    if prompts.is_empty() {
        return Err(Problem::whole("there are no prompts in it").help("write one a line: text, or JSON"));
    }
    Ok(prompts)
}

fn unread(error: &io::Error) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            "it begins as gzip does: see whether it is whole"
        }
        _ => "check the path; `-` is the standard input",
    };
    Problem::whole(format!("cannot be read: {}", plain(error))).help(help)
}

/// Parses a line: a request, `{"prompt": …}`, a JSON string, or plain text. A line that begins with `{` has to be an object.
fn outline(line: &str) -> Result<Outline, String> {
    if !line.starts_with('{') {
        let text = serde_json::from_str::<String>(line);
        return Ok(Outline::of_text(text.as_deref().unwrap_or(line)));
    }
    let mut object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("not a JSON object".to_owned()),
        // The caller names the line already.
        Err(error) => return Err(format!("not JSON: {error}").replace(" at line 1 column", " at column")),
    };
    let known = [("messages", Endpoint::Chat), ("prompt", Endpoint::Completions), ("input", Endpoint::Responses)];
    let Some((_, endpoint)) = known.into_iter().find(|(name, _)| object.contains_key(*name)) else {
        return Err("it has no `prompt`, `messages` or `input`".to_owned());
    };
    // The model does not affect the outline.
    object.insert("model".to_owned(), "any".into());
    let body = Bytes::from(Value::Object(object).to_string());
    let body = RequestBody::json(endpoint, body).map_err(|fault| fault.message.to_string())?;
    let mut outline = Outline::default();
    body.outline(&mut outline);
    if outline.text_bytes == 0 && outline.images + outline.audio + outline.files == 0 {
        return Err("it has no text of a user where one is looked for".to_owned());
    }
    Ok(outline)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;

    use super::*;

    /// Texts of a file's prompts, or its problem with the help.
    fn texts(file: &[u8]) -> Result<Vec<String>, (String, String)> {
        let unpacked = gzip::reader(io::Cursor::new(file.to_vec())).unwrap();
        read(unpacked, 1 << 20, |outline| outline.text.clone())
            .map_err(|problem| (problem.message.into_owned(), problem.help.unwrap_or_default().into_owned()))
    }

    #[test]
    fn every_form_of_a_prompt_is_read() {
        let text = "Why is the sky {blue}?";
        let messages = json!([{ "role": "user", "content": text }]);
        let parts = json!([{ "role": "user", "content": [{ "type": "input_text", "text": text }] }]);
        for line in [
            text.to_owned(),
            json!(text).to_string(),
            json!({ "prompt": text, "model": null }).to_string(),
            json!({ "model": "m", "messages": messages }).to_string(),
            json!({ "model": "m", "input": text }).to_string(),
            json!({ "instructions": "Be brief.", "input": messages }).to_string(),
            json!({ "input": parts }).to_string(),
        ] {
            assert_eq!(outline(&line).map(|outline| outline.text).as_deref(), Ok(text), "{line}");
        }
        let image = json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }).to_string();
        assert_eq!(outline(&image).map(|outline| outline.images), Ok(1), "what has no text to show is asked for too");
    }

    #[test]
    fn lines_that_begin_as_an_object_are_not_taken_for_text() {
        for (line, expected) in [
            (r#"{"prompt": "half"#, "not JSON: EOF while parsing a string at column 16"),
            ("{name}, hello", "not JSON: key must be a string at column 2"),
            (r#"{"question": "Why?"}"#, "it has no `prompt`, `messages` or `input`"),
            (r#"{"prompt": [1, 2]}"#, "it has no text of a user"),
            (r#"{"messages": [{"role": "system", "content": "Be brief."}]}"#, "it has no text of a user"),
            (r#"{"messages": "Why?"}"#, "'messages' must be"),
        ] {
            let (message, help) = texts(format!("fine\r\n\n \t{line}").as_bytes()).unwrap_err();
            assert!(message.starts_with(&format!("line 3: {expected}")), "{message}");
            assert_eq!(help, FORM);
        }
    }

    #[test]
    fn files_are_read_packed_and_with_a_byte_order_mark() {
        let text = "\u{FEFF}{\"prompt\": \"one\"}\r\ntwo\n";
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        for file in [text.as_bytes(), &packed] {
            assert_eq!(texts(file), Ok(vec!["one".to_owned(), "two".to_owned()]));
        }
        let (message, help) = texts(&packed[..packed.len() - 9]).unwrap_err();
        assert!(message.starts_with("cannot be read: ") && help.contains("whole"), "{message}: {help}");
    }

    #[test]
    fn binary_and_oversized_files_are_refused() {
        let (message, help) = texts(b"one\ntwo \xFF\n").unwrap_err();
        assert!(message == "line 2: not UTF-8 text" && help.contains("must be UTF-8"), "{message}: {help}");
        let large = "a".repeat((1 << 20) + 1);
        assert_eq!(texts(&large.as_bytes()[1..]).map(|prompts| prompts.len()), Ok(1));
        let (message, _) = texts(large.as_bytes()).unwrap_err();
        assert_eq!(message, "larger than 1 MB, which is as much as is read (unpacked)");
        assert_eq!(texts(b"\n \n").unwrap_err().0, "there are no prompts in it");
    }
}
