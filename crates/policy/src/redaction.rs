//! Redaction of captured content: credentials and personal data that are found by their form, and what the policy names.

use regex::{Captures, Regex};

/// Replaces secrets in texts.
#[derive(Clone, Debug)]
pub struct Redactor {
    built_in: Vec<Detector>,
    /// Patterns of the policy.
    own: Vec<Regex>,
}

/// One kind of secret. The first group of its pattern is the secret, without what shows where it begins.
#[derive(Clone, Debug)]
struct Detector {
    pattern: Regex,
    /// False for ordinary text of the same form.
    is_secret: Test,
    /// True where a secret may begin within a match that is none.
    overlaps: bool,
}

/// False for ordinary text.
type Test = fn(&str) -> bool;

/// The beginning of a key: not within a word, but after the escape of a line break, since texts may be JSON within JSON.
const LEFT: &str = r"(?:^|[^A-Za-z0-9]|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})";
/// Keys with a prefix that ordinary text does not have; most of them are among gitleaks' rules.
const KEYS: &str = r"(?x:
    (?:sk|pk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}        # Stripe
    | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{16,}
    | gl(?:pat|ptt|dt|rt|rtr|cbt|soat|agent|ft|imt|oas|ffct)-[\w-]{16,}(?:\.[\w.-]+)?
    | (?:hf_|api_org_|npm_|gsk_|r8_|whsec_|ntn_|lin_api_|figd_|fw_)[A-Za-z0-9]{20,}
    | xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{16,}
    | hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{16,}
    | discord(?:app)?\.com/api/webhooks/[0-9]+/[\w-]{20,}
    | [0-9]{8,10}:AA[\w-]{30,}                              # Telegram
    | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}
    | AIza[\w-]{20,} | ya29\.[\w.-]{20,} | GOCSPX-[\w-]{16,}
    | ey[JA][\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)*               # JSON Web Tokens, also those that are cut
    | pypi-[\w-]{40,} | dckr_(?:pat|oat)_[\w-]{16,} | SG\.[\w-]{16,}\.[\w-]{16,}
    | dapi[0-9a-f]{32} | do[opr]_v1_[0-9a-f]{32,} | shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}
    | hv[sbr]\.[\w-]{20,} | lsv2_(?:pt|sk)_\w{20,} | SK[0-9a-f]{32} | AGE-SECRET-KEY-1[A-Z0-9]{40,}
)";
/// Keys whose prefix is also that of names, such as those of style sheets.
const LOOSE_KEYS: &str = "(?:sk|pk|rk|csk|xai|pplx|tvly|nvapi|tgp)[-_][A-Za-z0-9_-]{16,}";
/// A private key in PEM, to its end or as far as it goes.
const PEM: &str = r"(?x)(
    -----BEGIN\ [A-Z0-9\ ]{0,24}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?: \s | \\[nr] | [A-Z][A-Za-z-]{2,12}:\ [^\n\\]{0,100} | [A-Za-z0-9+/=]{16,} )*
    (?: [A-Za-z0-9+/=]{0,76} (?: (?:\s|\\[nr])* -----END\ [A-Z0-9\ ]{0,24}PRIVATE\ KEY(?:\ BLOCK)?----- | $ ) )?
)";
/// A header or a parameter that carries a credential.
const NAMED: &str = r#"(?ix)(?:
    (?: authorization | (?:x-)?api-key | x-goog-api-key | x-auth-token | private-token )
        ["'\\]*\s*[:=]\s*["'\\]*(?:(?:bearer|basic|token|apikey|negotiate)\s+)?
    | [?&](?: (?:api[-_]?)?key | (?:access_|auth_|private_)?token | sig | signature | secret | password )=
)([^\s"'\\,;<>{}$&\#]{6,})"#;
/// Name and password before the host of an address.
const ADDRESS: &str = r#"://([^\s/:@"'<>\\]*:[^\s/"'<>\\]+)@"#;
/// A token after its scheme, in text that is no header.
const SCHEME: &str = r"(?i)(?:^|[^A-Za-z0-9]|\\[bfnrt])(?:bearer|basic)\s+([-._~+/A-Za-z0-9]{12,}=*)";
const MAIL: &str = r"([\p{L}\p{M}\p{N}._%+-]+@[\p{L}\p{M}\p{N}.-]+\.(?:xn--[A-Za-z0-9-]+|[\p{L}\p{M}]{2,}))";
/// 13 to 19 digits, as cards and accounts have, and not those of a fraction.
const DIGITS: &str = r"(?:^|[^A-Za-z0-9.]|(?:^|[^0-9])\.|\\[bfnrt])([0-9](?:[ -]?[0-9]){12,18})(?-u:\b)";

impl Redactor {
    const MARK: &str = "[redacted]";

    /// Creates a redactor that also replaces what the patterns `own` match.
    pub fn new(own: Vec<Regex>) -> Self {
        let keys = [KEYS, LOOSE_KEYS].map(|keys| format!("{LEFT}({})", ascii(keys)));
        let [keys, loose] = keys.each_ref().map(|keys| &**keys);
        // Names and passwords before mail, which would take the end of a password for a name.
        let all: [(&str, Test, bool); 8] = [
            (PEM, |_| true, false),
            (keys, |_| true, false),
            (loose, is_random, false),
            (ADDRESS, |_| true, false),
            (NAMED, is_credential, false),
            (SCHEME, is_token, false),
            (MAIL, |_| true, false),
            (DIGITS, is_row, true),
        ];
        let built_in = all.into_iter().filter_map(|(pattern, is_secret, overlaps)| {
            Some(Detector { pattern: Regex::new(pattern).ok()?, is_secret, overlaps })
        });
        Self { built_in: built_in.collect(), own }
    }

    /// Puts a mark in the place of each secret.
    pub fn redact(&self, text: &mut String) {
        for detector in &self.built_in {
            if let Some(redacted) = detector.redacted(text) {
                *text = redacted;
            }
        }
        for pattern in &self.own {
            if pattern.is_match(text) {
                *text = pattern.replace_all(text, Self::MARK).into_owned();
            }
        }
    }
}

/// Compares the policy's patterns; the others are always the same.
impl PartialEq for Redactor {
    fn eq(&self, other: &Self) -> bool {
        self.own.iter().map(Regex::as_str).eq(other.own.iter().map(Regex::as_str))
    }
}

impl Detector {
    /// The text with a mark in place of each secret; `None` if it has none.
    fn redacted(&self, text: &str) -> Option<String> {
        let mut redacted = String::new();
        let (mut at, mut kept) = (0, 0);
        while let Some(secret) = self.next(text, at) {
            if (self.is_secret)(secret.as_str()) {
                redacted.push_str(&text[kept..secret.start()]);
                redacted.push_str(Redactor::MARK);
                (at, kept) = (secret.end(), secret.end());
            } else if self.overlaps {
                at = secret.start() + secret.as_str().find([' ', '-']).unwrap_or(secret.len());
            } else {
                at = secret.end();
            }
        }
        (kept > 0).then(|| redacted + &text[kept..])
    }

    fn next<'a>(&self, text: &'a str, at: usize) -> Option<regex::Match<'a>> {
        let found: Captures<'a> = self.pattern.captures_at(text, at)?;
        found.get(1)
    }
}

/// Makes `\w` one of ASCII, which is what keys consist of.
fn ascii(keys: &str) -> String {
    keys.replace(r"[\w", "[A-Za-z0-9_").replace(r"\w", "[A-Za-z0-9_]")
}

/// False for words and names with dashes.
fn is_random(key: &str) -> bool {
    let has = |of: fn(&u8) -> bool| key.bytes().any(|byte| of(&byte));
    let runs = key.split(|letter: char| !letter.is_ascii_alphanumeric());
    runs.map(str::len).any(|run| run >= 16)
        || key.bytes().filter(u8::is_ascii_digit).count() >= 5
        || has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

/// False for a word, such as `required` after `Authorization:`.
fn is_credential(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ')', ']', ':', '!', '?', '`', '*']);
    let rest = value.get(1..).unwrap_or_default();
    value.len() >= 20 || rest.bytes().any(|byte| !byte.is_ascii_lowercase() && !matches!(byte, b'-' | b'/'))
}

/// False for words after `bearer` and `basic`, which are words as well.
fn is_token(value: &str) -> bool {
    value.ends_with('=') || value.bytes().any(|byte| byte.is_ascii_digit()) && is_random(value)
}

/// True for digits in one, or in groups as on cards; false for dates, lists of numbers and ids with dashes.
fn is_row(row: &str) -> bool {
    let groups: Vec<_> = row.split([' ', '-']).map(str::len).collect();
    let Some((last, others)) = groups.split_last() else { return false };
    others.is_empty() || *last <= 4 && others.iter().all(|group| *group == 4) || groups == [4, 6, 5]
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::TestRunner};

    use super::*;

    /// Redacts texts; its patterns take long to compile.
    fn redactor() -> impl Fn(&str) -> String {
        let redactor = Redactor::new(Vec::new());
        move |text| {
            let mut text = text.to_owned();
            redactor.redact(&mut text);
            text
        }
    }

    /// Put together here, so that scanners of repositories do not find keys.
    fn secrets() -> Vec<String> {
        let letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
        let begin = |prefix: &str, length: usize| format!("{prefix}{}", &letters[..length]);
        vec![
            begin("sk-", 16),
            begin("sk-proj-", 32),
            format!("sk-ant-{}-{}", "api03", "Ab_c-D1e_F-gh2_iJ-k"),
            format!("sk-lf-{}", "1a2b3c4d-12ab-34cd-56ef-1234567890ab"),
            begin("sk_live_", 24),
            begin("ghp_", 36),
            begin("gho_", 36),
            format!("github_pat_11ABCDEFG0_{letters}"),
            begin("glpat-", 20),
            begin("hf_", 34),
            begin("npm_", 36),
            begin("gsk_", 40),
            format!("xox{}-{}-abcdefghijklmnop", "b", "123456789012"),
            format!("AK{}", "IAIOSFODNN7EXAMPLE"),
            begin("AIza", 35),
            ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"].join("."),
            ["eyJhbGciOiJub25lIn0", "eyJzdWIiOiJhIn0", ""].join("."),
            "ada@example.org".to_owned(),
            "jürgen@müller.de".to_owned(),
            "почта@пример.рф".to_owned(),
            "4111 1111 1111 1111".to_owned(),
            "4111-1111-1111-1111".to_owned(),
            "3782 822463 10005".to_owned(),
            "4111111111111111".to_owned(),
        ]
    }

    #[test]
    fn secrets_are_found_wherever_they_begin() {
        let redacted = redactor();
        for secret in secrets() {
            for (before, after) in [
                ("", ""),
                ("the value is ", " and so on"),
                ("密钥", "。"),
                (r#"{\"a\":\"b\n"#, r#"\"}"#),
                ("key=", ","),
            ] {
                let text = redacted(&format!("{before}{secret}{after}"));
                assert!(!text.contains(&secret) && text.contains("[redacted]"), "{text}");
                assert!(text.ends_with(after), "{text}");
            }
        }
        let all = secrets().join(" ");
        assert_eq!(redacted(&all), vec!["[redacted]"; secrets().len()].join(" "));
    }

    #[test]
    fn only_the_credential_of_an_address_or_a_header_is_replaced() {
        let redacted = redactor();
        for (text, want) in [
            ("postgres://ada:s3cret@db.test:5432/x", "postgres://[redacted]@db.test:5432/x"),
            ("redis://:pa@ss@cache.test/0", "redis://[redacted]@cache.test/0"),
            ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
            (r#"{"authorization": "Bearer abc.def"}"#, r#"{"authorization": "Bearer [redacted]"}"#),
            ("curl -H 'X-Api-Key: a1b2c3d4'", "curl -H 'X-Api-Key: [redacted]'"),
            ("bearer abcdefghijklm0123456", "bearer [redacted]"),
            ("https://h.test/v?key=Ab12cd34&alt=sse", "https://h.test/v?key=[redacted]&alt=sse"),
            ("due 2026-11-25 4111 1111 1111 1111 2028", "due 2026-11-25 [redacted] 2028"),
        ] {
            assert_eq!(redacted(text), want);
        }
        for kind in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            for line in ["\n", r"\n", "\r\n"] {
                let lines = ["MIIEpAIBAAKCAQEA0123456789+/abcdefgh"; 3].join(line);
                let key = format!("-----BEGIN {kind}-----{line}{lines}{line}ab=={line}-----END {kind}-----");
                assert_eq!(redacted(&format!("a {key}{line}b")), format!("a [redacted]{line}b"), "{kind}");
                let cut = &key[..key.len() - 60];
                assert_eq!(redacted(cut), "[redacted]", "{kind}");
            }
        }
    }

    #[test]
    fn ordinary_text_stays() {
        let redacted = redactor();
        for text in [
            "a task-manager-for-everyone, at 12:30 on 2026-11-25",
            "skateboarding-championships, skyscrapers_and_bridges, pkcs12certificates",
            "sk-cube-grid-container and sk-learn-based-classifiers",
            "the bearer of bad news has basic understanding of internationalization",
            "Authorization: required for all requests. Authorization: Bearer token",
            "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            "commit 4bf92f3577b34da6a3ce929d0e0e47364bf92f35, 550e8400-e29b-41d4-a716-446655440000",
            "00000000-0000-0000-0000-000000000000, 2026-11-25 2026-11-26 2026-11-27",
            "npm_config_registry hf_transfer hf_hub_download github_pat_ ghp_ glpat- AKIA",
            "see http://example.com:8080/a@b and https://medium.com/@someone",
            "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA0123456789\n-----END CERTIFICATE-----",
            "numbers 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15, 3.14159265358979",
            "eyewitnesses.testimony.example, eyJ.a.b, @decorator, a@b",
            "lodash@4.17.21, x == y ? a : b; dict['key']=value&token=null",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn arbitrary_text_keeps_all_but_its_secrets() {
        let redacted = redactor();
        let mut runner = TestRunner::deterministic();
        let text = "(\\PC|sk-|ghp_|eyJ|://|:|@|[0-9]{4} |Bearer |\\\\n|-----BEGIN PRIVATE KEY-----){0,40}";
        let unchanged = |text: String| {
            let once = redacted(&text);
            prop_assert!(once == text || once.contains(Redactor::MARK));
            Ok(())
        };
        runner.run(&text.prop_map(|text: String| text), unchanged).unwrap();
    }
}
