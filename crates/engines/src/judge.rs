//! Reads the verdict on a refusal: by the profiles' wordings, then by general rules, then by the status.

use super::{Verdict, error_words::ErrorWords, general, profiles::PROFILES, refused::Error};

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
