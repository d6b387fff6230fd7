//! Maps a part of a value to its position in the file, where the value may be quoted.

use std::ops::Range;

/// The range in `raw`, a scalar as written in the file, of the bytes `range` of its value `text`. `None` if the two do
/// not match character by character: for folded paragraphs, and for escapes other than those of quotes and backslashes.
pub(super) fn part(raw: &str, text: &str, range: &Range<usize>) -> Option<Range<usize>> {
    let quote = raw.chars().next().filter(|c| matches!(c, '"' | '\'') && raw.len() > 1 && raw.ends_with(*c));
    let body = if quote.is_some() { &raw[1..raw.len() - 1] } else { raw };
    let (mut at, mut start, mut end) = (0, None, None);
    for (place, c) in text.char_indices() {
        let twice = match quote {
            Some('\'') if c == '\'' => "'",
            Some('"') if matches!(c, '"' | '\\') => "\\",
            _ => "",
        };
        start = start.or((place >= range.start).then_some(at));
        end = end.or((place >= range.end).then_some(at));
        let rest = &body[at..];
        let rest = match rest.strip_prefix(['\n', '\r']).filter(|_| matches!(c, ' ' | '\n')) {
            // A line ends, folded or not, and the next one is indented.
            Some(next) => next.trim_start_matches(['\n', ' ']),
            None => rest.strip_prefix(twice)?.strip_prefix(c)?,
        };
        at = body.len() - rest.len();
    }
    // Only white space may follow, otherwise the two do not match.
    if !body[at..].trim().is_empty() {
        return None;
    }
    let open = raw.len().min(usize::from(quote.is_some()));
    Some(open + start.unwrap_or(at)..open + end.unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_found_in_plain_and_quoted_values() {
        for (raw, text, wanted, found) in [
            ("a > b", "a > b", "b", "b"),
            ("\"a == \\\"x\\\" && b\"", "a == \"x\" && b", "\"x\"", "\\\"x\\\""),
            ("\"a == \\\"x\\\" && b\"", "a == \"x\" && b", "b", "b"),
            ("'a == ''x'' && b'", "a == 'x' && b", "b", "b"),
            ("'é == \"x\"'", "é == \"x\"", "\"x\"", "\"x\""),
        ] {
            let start = text.find(wanted).unwrap();
            let range = part(raw, text, &(start..start + wanted.len())).unwrap();
            assert_eq!(&raw[range], found, "{raw}");
        }
        // A block scalar, from its first line on.
        assert_eq!(part("a &&\n    b\n", "a &&\nb\n", &(5..6)), Some(9..10));
        assert_eq!(part("a &&\n    b\n", "a && b\n", &(5..6)), Some(9..10));
        assert_eq!(part("\"a\\tb\"", "a\tb", &(2..3)), None);
        assert_eq!(part("|\n  a\n  b\n", "a\nb\n", &(0..1)), None);
        assert_eq!(part("****", "abcd", &(0..1)), None);
        assert_eq!(part("", "", &(0..0)), Some(0..0));
    }
}
