//! Verdict on a refusal: what the gateway does about it.

use super::{PROFILES, Refusal, error_words::ErrorWords, general, phrases::Phrases};

/// Meaning of a refusal for the request, the backend and its operator.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The prompt does not fit the model's context. A backend with a longer context may answer.
    TooLong,
    /// The engine has no room now. Nothing is broken: the request waits or goes to another backend.
    Full,
    /// The provider limits the rate of the account. Another account or backend may answer at once.
    RateLimited,
    /// The operator's account, key, credits or choice of model is at fault. Other requests fail there too.
    Operator,
    /// The model or the endpoint is not there at present: loading, asleep, restarting. It may be back in seconds.
    NotHere,
    /// This model or engine cannot do what the request asks for. Another one may.
    Incapable,
    /// The engine failed.
    Broken,
    /// The request itself is at fault and fails everywhere.
    Request,
}

impl Verdict {
    /// All verdicts, in the order of the documents.
    pub const ALL: [Self; 8] = [
        Self::TooLong,
        Self::Full,
        Self::RateLimited,
        Self::Operator,
        Self::NotHere,
        Self::Incapable,
        Self::Broken,
        Self::Request,
    ];

    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too long",
            Self::Full => "full",
            Self::RateLimited => "rate-limited",
            Self::Operator => "the operator's",
            Self::NotHere => "not here now",
            Self::Incapable => "this model cannot",
            Self::Broken => "broken",
            Self::Request => "the request's",
        }
    }
}

/// Judges a refusal by its HTTP status and its body.
///
/// `status` is `None` for an error within an answer that began with success: the error itself may give one. A success
/// status counts as none.
pub fn verdict(status: Option<u16>, body: &[u8]) -> Verdict {
    judge(status, &ErrorWords::of(body))
}

/// Judges an error of which only the message and perhaps a status are known, such as an event of a stream.
pub fn verdict_of_message(status: Option<u16>, message: &str) -> Verdict {
    judge(status, &ErrorWords::of_message(message))
}

fn judge(status: Option<u16>, words: &ErrorWords) -> Verdict {
    let status = status.filter(|status| !(100..400).contains(status)).or(words.status);
    let error = Error::of(status, words);
    let own = || PROFILES.iter().flat_map(|profile| profile.refusals).find(|refusal| error.is(refusal));
    own()
        .map(|refusal| refusal.verdict)
        .or_else(|| general::by_words(&error))
        .unwrap_or_else(|| general::by_status(&error))
}

/// An error as the rules see it.
pub(crate) struct Error<'a> {
    /// Its status: of the answer, else the one that the body gives.
    pub(crate) status: Option<u16>,
    /// Its texts.
    texts: Vec<Phrases>,
    codes: &'a [String],
    /// True if the body is a page for people.
    pub(crate) is_page: bool,
}

impl<'a> Error<'a> {
    fn of(status: Option<u16>, words: &'a ErrorWords) -> Self {
        let texts = words.texts.iter().map(|text| Phrases::of(text)).collect();
        Self { status, texts, codes: &words.codes, is_page: words.is_page }
    }

    fn is(&self, refusal: &Refusal) -> bool {
        let is_status = refusal.statuses.is_empty() || self.status.is_some_and(|it| refusal.statuses.contains(&it));
        is_status
            && (refusal.codes.is_empty() || self.has_code(refusal.codes))
            && (refusal.words.is_empty() || self.says(refusal.words))
    }

    /// True if one of its texts has `pattern`.
    pub(crate) fn says(&self, pattern: &str) -> bool {
        self.texts.iter().any(|text| text.say(pattern))
    }

    /// True if one of its texts has `pattern` and nothing of `but`.
    pub(crate) fn says_without(&self, pattern: &str, but: &str) -> bool {
        self.texts.iter().any(|text| text.say(pattern) && !text.say(but))
    }

    /// True if it has one of `codes`, which `|` separates.
    pub(crate) fn has_code(&self, codes: &str) -> bool {
        codes.split('|').any(|code| self.codes.iter().any(|own| own == code))
    }

    /// True if its status is one of `statuses`, or none is known.
    pub(crate) fn may_be(&self, statuses: &[u16]) -> bool {
        self.status.is_none_or(|status| statuses.contains(&status))
    }
}

/// Fuzz target: reads any bytes as an error body, with and without a status.
///
/// # Panics
/// If the verdict on a page or an empty body depends on more than the status.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_refusal(bytes: &[u8]) {
    let (status, body) = bytes.split_at(bytes.len().min(2));
    let status = status.try_into().map(u16::from_le_bytes).ok();
    verdict(status, body);
    verdict(None, body);
    verdict_of_message(status, &String::from_utf8_lossy(body));
    if ErrorWords::of(body).is_page {
        assert_eq!(verdict(status, body), verdict(status, b"<html>"));
    }
}
