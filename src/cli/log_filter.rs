//! The level of the log in `SIGNALBOX_LOG`, as people write it.

use tracing_subscriber::EnvFilter;

use signalbox_config::nearest;

/// The usual level.
const USUAL: &str = "info";
/// Redis connections are logged by their users.
const REDIS: &str = "redis=error";
/// Levels and their spellings.
const LEVELS: [(&str, &[&str]); 6] = [
    ("off", &["off", "none", "quiet", "silent", "0"]),
    ("error", &["error", "errors", "err", "fatal", "critical", "crit", "1"]),
    ("warn", &["warn", "warning", "warnings", "2"]),
    ("info", &["info", "information", "informational", "notice", "normal", "default", "3"]),
    ("debug", &["debug", "dbg", "verbose", "4"]),
    ("trace", &["trace", "all", "5"]),
];

/// Reads the level and the parts with levels of their own. Without a level, other parts keep the usual one.
///
/// # Errors
/// A sentence that names what is neither a level nor a part with one, and the remedy.
pub(super) fn read(text: Option<&str>) -> Result<EnvFilter, String> {
    let text = text.unwrap_or_default().trim().trim_matches(['"', '\'']);
    let (mut usual, mut parts) = (USUAL, Vec::new());
    for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let (part, level) = match directive.rsplit_once('=') {
            Some((part, level)) => (Some(part.trim()), level.trim()),
            None => (None, directive),
        };
        let Some(known) = level_of(level) else { return Err(mistake(text, directive, level)) };
        match part {
            Some(part) if is_part(part) => parts.push(format!("{part}={known}")),
            Some(part) => return Err(mistake(text, directive, part)),
            None => usual = known,
        }
    }
    if usual != "off" {
        parts.insert(0, REDIS.to_owned());
    }
    parts.insert(0, usual.to_owned());
    EnvFilter::builder().parse(parts.join(",")).map_err(|_| mistake(text, text, text))
}

fn level_of(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    LEVELS.iter().find(|(_, spellings)| spellings.contains(&&*text)).map(|(level, _)| *level)
}

/// True for a name of a crate or module, such as `signalbox_upstream`.
fn is_part(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
        name.starts_with(is_first) && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    text.split("::").all(is_name) && level_of(text).is_none()
}

fn mistake(text: &str, directive: &str, what: &str) -> String {
    let spellings = LEVELS.iter().flat_map(|(_, spellings)| spellings.iter().copied());
    let near = nearest(&what.to_ascii_lowercase(), spellings).and_then(level_of);
    let near = near.map_or_else(String::new, |level| format!("did you mean `{level}`? "));
    let at = if directive == text { String::new() } else { format!(" (in `{directive}`)") };
    format!(
        "SIGNALBOX_LOG: `{what}` is no level{at}: {near}write error, warn, info, debug, trace or off, and after a comma other levels \
         for parts, such as `info,signalbox_upstream=debug`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_people_write_them() {
        for (text, filter) in [
            (None, "redis=error,info"),
            (Some(""), "redis=error,info"),
            (Some("WARNING"), "redis=error,warn"),
            (Some(" \"Warn\" "), "redis=error,warn"),
            (Some("verbose"), "redis=error,debug"),
            (Some("err"), "redis=error,error"),
            (Some("off"), "off"),
            (Some("hyper=debug"), "redis=error,hyper=debug,info"),
            (Some("warn, signalbox_upstream::client = DEBUG"), "signalbox_upstream::client=debug,redis=error,warn"),
            (Some("redis=trace"), "redis=trace,info"),
        ] {
            assert_eq!(read(text).unwrap().to_string(), filter, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_level_is_refused_with_a_remedy() {
        for (text, words) in [
            ("wanr", "`wanr` is no level: did you mean `warn`?"),
            ("inof", "did you mean `info`?"),
            ("signalbox", "`signalbox` is no level: write"),
            ("info,hyper=loud", "`loud` is no level (in `info,hyper=loud`".trim_end_matches("info,hyper=loud`")),
            ("info,my part=debug", "`my part` is no level"),
            ("[span]=debug", "`[span]` is no level"),
            ("7", "`7` is no level"),
        ] {
            let error = read(Some(text)).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
