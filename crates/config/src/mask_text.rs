//! Masks secrets in text that is not valid YAML: finds them by the names before them, line by line, at any length.

/// A run of letters and digits of this length may be a key, wherever it appears.
const SUSPICIOUS: usize = 20;

/// Names of secret values, without dashes and underscores.
const SECRET: [&str; 13] = [
    "webhook",
    "key",
    "keys",
    "hash",
    "token",
    "apikey",
    "apikeys",
    "secret",
    "password",
    "passwd",
    "authorization",
    "bearer",
    "credential",
];
/// Suffixes of such names: `provider_api_key`, `client_secret`.
const ENDINGS: [&str; 6] = ["apikey", "accesskey", "secretkey", "secret", "password", "token"];
/// Similar names whose values are not secret.
const HARMLESS: [&str; 2] = ["firsttoken", "tokens"];
/// Names beside the secret in a caller's key or in a key file entry.
const BESIDE: [&str; 12] =
    ["id", "file", "team", "tags", "models", "endpoints", "limits", "priority", "allow", "cache", "keys", "hash"];

/// True if the value of this name is a secret, even if the name is misspelt.
pub(super) fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if name.is_empty() || HARMLESS.contains(&&*name) {
        return false;
    }
    let near = |secret: &&str| strsim::damerau_levenshtein(&name, secret) <= usize::from(name.len() > 2);
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || SECRET.iter().any(near)
}

/// True if the value of this name is a secret, in a mapping where a secret is expected.
pub(super) fn is_secret_within(name: &str) -> bool {
    !BESIDE.contains(&name) || is_secret(name)
}

/// Masks a secret except for the variables in it: `${NAME}` is shown, its default is not.
pub(super) fn cover_value(bytes: &mut [u8]) {
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'' | b' ' | b'\n' | b'\r');
    let is_bare = matches!(bytes.iter().position(|byte| !quotes(byte)), Some(start) if variable(&bytes[start..])
        .is_some_and(|(kept, len)| kept + 1 == len && bytes[start + len..].iter().all(quotes)));
    if is_bare {
        return;
    }
    let mut at = 0;
    while at < bytes.len() {
        if let Some((kept, len)) = variable(&bytes[at..]) {
            fill(&mut bytes[at + kept..at + len - 1]);
            at += len;
        } else {
            fill(&mut bytes[at..=at]);
            at += 1;
        }
    }
}

/// The length that may be shown of a variable at the start of `bytes`, apart from the closing brace, and its whole
/// length.
fn variable(bytes: &[u8]) -> Option<(usize, usize)> {
    let inner = bytes.strip_prefix(b"${")?;
    let end = inner.iter().position(|byte| matches!(byte, b'}' | b'\n'))?;
    let name = inner.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    match inner.get(name..end).filter(|_| inner[end] == b'}')? {
        [] if name > 0 => Some((end + 2, end + 3)),
        [b':', b'-', ..] if name > 0 => Some((name + 4, end + 3)),
        _ => None,
    }
}

/// Masks everything but line ends.
pub(super) fn fill(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b'*');
}

/// The context of the lines after the name of a secret that are indented deeper.
#[derive(Copy, Clone)]
struct Below {
    indent: usize,
    /// A block scalar: all of it is masked.
    block: bool,
    /// A mapping of headers: the value of every name is secret.
    headers: bool,
}

/// Masks the secrets and possible secrets in `bytes`.
pub(super) fn cover_text(bytes: &mut [u8]) {
    cover_named(bytes);
    cover_suspicious(bytes);
}

/// Masks the values of names of secrets.
pub(super) fn cover_named(bytes: &mut [u8]) {
    let (mut below, mut quote) = (None, None);
    for line in bytes.split_inclusive_mut(|byte| *byte == b'\n') {
        quote = match quote {
            Some(quote) => cover_quoted(line, quote),
            None => cover_line(line, &mut below),
        };
    }
}

/// Masks the rest of a quoted secret; returns the quote if it does not end here either.
fn cover_quoted(line: &mut [u8], quote: u8) -> Option<u8> {
    let end = closing(line, quote);
    let len = line.len();
    fill(&mut line[..end.map_or(len, |end| end + 1)]);
    end.is_none().then_some(quote)
}

fn closing(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut escaped = false;
    bytes.iter().position(|&byte| {
        let ends = byte == quote && !escaped;
        escaped = quote == b'"' && byte == b'\\' && !escaped;
        ends
    })
}

/// Masks the secrets of a line; returns the quote of one that does not end on it.
fn cover_line(line: &mut [u8], below: &mut Option<Below>) -> Option<u8> {
    cover_credentials(line);
    let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let content = line.trim_ascii();
    if content.is_empty() {
        return None;
    }
    let is_item = content.starts_with(b"- ");
    if below.is_some_and(|below| indent < below.indent || indent == below.indent && !is_item) {
        *below = None;
    }
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'-' | b'{' | b'[')).unwrap_or(line.len());
    if let Some(within) = *below {
        let named = name_at(line, start).filter(|found| !within.block && found.is_entry);
        match named {
            None => return cover_to_end(&mut line[if is_item { indent + 2 } else { indent }..]),
            Some(found) if within.headers || is_secret_within(&found.name) => {
                return cover_to_end(&mut line[found.value..]);
            }
            Some(_) => {}
        }
    }
    let mut at = start;
    while at < line.len() {
        let Some(found) = name_at(line, at) else {
            // Continues with the next word.
            at += line[at..].iter().take_while(|byte| part_of_name(**byte)).count().max(1);
            continue;
        };
        let headers = found.name == "headers";
        if !headers && !is_secret(&found.name) {
            at = found.value;
            continue;
        }
        let said = line[found.value..].trim_ascii();
        if is_hash(said) {
            at = found.value;
            continue;
        }
        *below = Some(Below { indent, block: said.starts_with(b"|") || said.starts_with(b">"), headers });
        return cover_to_end(&mut line[found.value..]);
    }
    None
}

/// Masks the rest of a line; returns the quote that is still open after it.
fn cover_to_end(rest: &mut [u8]) -> Option<u8> {
    let said = rest.trim_ascii();
    if said.is_empty() || is_hash(said) {
        return None;
    }
    let opened = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'[' | b'{')).unwrap_or(0);
    let quote = Some(rest[opened]).filter(|byte| matches!(byte, b'"' | b'\''));
    let open = quote.filter(|quote| closing(&rest[opened + 1..], *quote).is_none());
    cover_value(rest);
    open
}

/// True if a value is the hash of a key, which is not secret.
fn is_hash(said: &[u8]) -> bool {
    said.strip_prefix(b"\"").unwrap_or(said).starts_with(b"blake3:")
}

/// A name within a line.
struct Found {
    name: String,
    /// The start of its value.
    value: usize,
    /// True if the name is the key of an entry in a YAML mapping.
    is_entry: bool,
}

/// The name that begins at `at`, quoted or not.
fn name_at(line: &[u8], at: usize) -> Option<Found> {
    let quote = line.get(at).filter(|byte| matches!(byte, b'"' | b'\''));
    let before = at.checked_sub(1).and_then(|before| line.get(before));
    let rest = &line[at + usize::from(quote.is_some())..];
    let len = rest.iter().take_while(|byte| part_of_name(**byte)).count();
    if len == 0 || before.is_some_and(|byte| part_of_name(*byte)) {
        return None;
    }
    let name = String::from_utf8_lossy(&rest[..len]).into_owned();
    let after = match quote {
        None => &rest[len..],
        Some(quote) => rest[len..].strip_prefix(&[*quote])?,
    };
    let spaces = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let (sign, more) = after[spaces..].split_first()?;
    let ends = more.first().is_none_or(u8::is_ascii_whitespace);
    let (signs, is_entry) = match sign {
        b':' if !more.starts_with(b"//") => (1, ends || quote.is_some()),
        b'=' if more.first() != Some(&b'=') => (1, false),
        // The colon is missing.
        _ if spaces > 0 && *sign != b'#' && SECRET.contains(&&*name) => (0, false),
        _ => return None,
    };
    let value = line.len() - after.len() + spaces + signs;
    let value = value + line[value..].iter().take_while(|byte| **byte == b' ').count();
    Some(Found { name, value, is_entry })
}

/// Masks the credentials before the `@` of an address.
pub(super) fn cover_credentials(line: &mut [u8]) {
    let Some(start) = memchr::memmem::find(line, b"://").map(|at| at + 3) else { return };
    if let Some(end) = line[start..].iter().rposition(|byte| *byte == b'@') {
        cover_value(&mut line[start..start + end]);
    }
}

fn cover_suspicious(bytes: &mut [u8]) {
    for run in bytes.chunk_by_mut(|a, b| part_of_name(*a) && part_of_name(*b)) {
        if run.len() >= SUSPICIOUS {
            run.fill(b'*');
        }
    }
}

fn part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        cover_text(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn ordinary_settings_are_not_masked() {
        let secrets = ["key", "keys", "hash", "token", "read_token", "api_key", "password", "secret", "webhook"];
        let schema: serde_json::Value = serde_json::from_str(&crate::schema()).unwrap();
        let mut objects = vec![&schema];
        while let Some(value) = objects.pop() {
            for name in value["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
                assert_eq!(is_secret(name), secrets.contains(&&**name), "{name}");
            }
            objects.extend(value.as_object().into_iter().flatten().map(|(_, value)| value));
            objects.extend(value.as_array().into_iter().flatten());
        }
    }

    #[test]
    fn a_secret_is_covered_at_any_length() {
        for (text, shown) in [
            ("a: { key: x", "a: { key: *"),
            ("a: { key: sk-1, url: http://h", "a: { key: *******************"),
            ("\"api_key\":\"s\"\n}", "\"api_key\":***\n}"),
            ("kye: s1\n]", "kye: **\n]"),
            ("key s1\n]", "key **\n]"),
            ("key=s1\n]", "key=**\n]"),
            ("token: \"a\n b\"\nlisten: 1", "token: **\n***\nlisten: 1"),
            ("keys:\n  - s1\n  - s2\nlisten: [", "keys:\n  - **\n  - **\nlisten: ["),
            ("keys:\n- s1\nlisten: [", "keys:\n- **\nlisten: ["),
            ("keys:\n  - { id: web, hash: plain", "keys:\n  - { id: web, hash: *****"),
            ("keys:\n  - { id: web, hash: \"blake3:ab\" ", "keys:\n  - { id: web, hash: \"blake3:ab\" "),
            ("keys:\n  web: s1\n]", "keys:\n  web: **\n]"),
            ("key: |\n  a: b\nx: [", "key: *\n  ****\nx: ["),
            ("headers:\n  x-a: s1\nx: [", "headers:\n  x-a: **\nx: ["),
            ("url: redis://:pw@h:1\n]", "url: redis://***@h:1\n]"),
            ("key: \"${K}\" ]", "key: ********"),
            ("key: \"${K}\"\n]", "key: \"${K}\"\n]"),
            ("key: ${K:-s1}\n]", "key: ${K:-**}\n]"),
            ("timeouts: { first_token: 5s", "timeouts: { first_token: 5s"),
            ("budget: { tokens: 10M", "budget: { tokens: 10M"),
            ("name: abcdefghijklmnopqrstu\n]", "name: *********************\n]"),
        ] {
            let got = covered(text);
            if text == "key: \"${K}\" ]" {
                assert!(got.starts_with("key: *${K}*"), "{got}");
                continue;
            }
            assert_eq!(got, shown, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_part_of_a_secret_is_left(
            secret in "[!-#%-~]{1,12}",
            form in proptest::sample::select(vec![
                "a: [\nkey: {}\n", "a: [\n\"token\": \"{}\"\n", "a: [\nx: { url: h, api_key: {} }\n", "a: [\npassword: '{}'\n",
                "a: [\nkeys:\n  - {}\nb: 1\n", "a: [\naccounts: { a: { keys: [ {}\n", "a: [\nkey: >\n  {}\n", "a: [\nclient_secret = {}\n",
            ]),
        ) {
            proptest::prop_assume!(!secret.starts_with(['#', '=']) && !secret.ends_with(':') && !secret.contains("blake3:"));
            let text = form.replace("{}", &secret);
            let shown = covered(&text);
            proptest::prop_assert_eq!(shown.len(), text.len());
            let at = form.find("{}").unwrap();
            proptest::prop_assert_eq!(&shown[at..at + secret.len()], "*".repeat(secret.len()), "{}", text);
        }
    }
}
