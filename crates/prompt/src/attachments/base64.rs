//! Reads some bytes of a base64 text as it stands in JSON: in either alphabet, with line breaks and escapes.

/// The text that is decoded as a whole if it has line breaks or escapes: enough for the head of any picture.
const BROKEN: usize = 96 << 10;
/// The beginning that tells if a text has line breaks or escapes.
const SAMPLE: usize = 256;

/// A base64 text, decoded where it is read.
pub(super) struct Base64<'a> {
    raw: &'a [u8],
    /// The decoded beginning of a text with line breaks or escapes, whose bytes are at no fixed places.
    begun: Option<Vec<u8>>,
}

impl<'a> Base64<'a> {
    pub(super) fn new(raw: &'a str) -> Self {
        let raw = raw.as_bytes();
        let is_broken = raw[..raw.len().min(SAMPLE)].iter().any(|byte| *byte == b'\\' || byte.is_ascii_whitespace());
        let begun = is_broken.then(|| decoded(&raw[..raw.len().min(BROKEN)]));
        Self { raw, begun }
    }

    /// The number of bytes that the text stands for, about.
    pub(super) const fn len(&self) -> u64 {
        self.raw.len() as u64 / 4 * 3
    }

    /// The bytes from `at` on, at most `most`.
    pub(super) fn read(&self, at: usize, most: usize) -> Vec<u8> {
        if let Some(begun) = &self.begun {
            let rest = begun.get(at..).unwrap_or_default();
            return rest[..rest.len().min(most)].to_vec();
        }
        // Four characters are three bytes.
        let start = (at / 3 * 4).min(self.raw.len());
        let end = ((at + most).div_ceil(3) * 4).min(self.raw.len());
        let mut bytes = decoded(self.raw.get(start..end).unwrap_or_default());
        bytes.drain(..(at % 3).min(bytes.len()));
        bytes.truncate(most);
        bytes
    }

    /// The last bytes, at most `most`.
    pub(super) fn tail(&self, most: usize) -> Vec<u8> {
        match &self.begun {
            Some(begun) => begun[begun.len().saturating_sub(most)..].to_vec(),
            None => self.read((self.len() as usize).saturating_sub(most), most + 3),
        }
    }
}

/// The bytes of a text of base64. What is neither a digit nor an escape of one is passed over.
fn decoded(mut raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    while let Some((first, rest)) = raw.split_first() {
        raw = rest;
        let character = if *first == b'\\' { escape(&mut raw) } else { *first };
        let Some(digit) = digit(character) else { continue };
        bits = bits << 6 | digit;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// The character of an escape, of which `raw` begins after the backslash.
fn escape(raw: &mut &[u8]) -> u8 {
    match raw {
        [b'u', a, b, c, d, rest @ ..] => {
            let code =
                [*a, *b, *c, *d].iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?));
            *raw = rest;
            code.and_then(|code| u8::try_from(code).ok()).unwrap_or(0)
        }
        [b'/', rest @ ..] => {
            *raw = rest;
            b'/'
        }
        [_, rest @ ..] => {
            *raw = rest;
            0
        }
        [] => 0,
    }
}

fn digit(character: u8) -> Option<u32> {
    let digit = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(u32::from(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_at_any_place_in_either_alphabet() {
        let all: Vec<u8> = (0..=255).collect();
        let plain = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn-AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq-wsbKztLW2t7i5uru8vb6_wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX2Nna29zd3t_g4eLj5OXm5-jp6uvs7e7v8PHy8_T19vf4-fr7_P3-_w";
        let other = plain.replace('-', "+").replace('_', "\\/");
        let lines = other.replace("AAEC", "AAEC\\r\\n").replace('+', "\\u002b");
        for text in [plain, &other, &lines] {
            let base64 = Base64::new(text);
            for at in 0..250 {
                assert_eq!(base64.read(at, 5), all[at..at + 5], "{at} of {text}");
            }
            assert!(base64.read(300, 5).is_empty());
            assert!(base64.tail(9).ends_with(&[253, 254, 255]));
        }
        assert_eq!((Base64::new("").read(0, 9), Base64::new("=").tail(4)), (vec![], vec![]));
    }
}
