//! Types that all translators share.

/// A request in the form of another API.
#[derive(Debug)]
pub struct Translated {
    /// The request as JSON.
    pub body: Vec<u8>,
    /// Hints that the other API cannot express, by name, such as `metadata.user_id`.
    pub dropped: Vec<String>,
}

/// A part of a request that the other API cannot express, or that is malformed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unsupported {
    /// The part, as a path such as `tools[0].type`.
    pub param: String,
    /// The problem and its remedy.
    pub message: String,
}

/// The error for the part `param`.
pub(super) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Unsupported {
    Unsupported { param: param.into(), message: message.into() }
}

/// Hints that are dropped, each named once.
#[derive(Debug, Default)]
pub(super) struct Dropped(Vec<String>);

impl Dropped {
    pub(super) fn add(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    /// Adds `name` if `value` is present.
    pub(super) fn note<T>(&mut self, name: &str, value: Option<&T>) {
        if value.is_some() {
            self.add(name);
        }
    }

    /// The names in the order in which they were dropped.
    pub(super) fn into_names(self) -> Vec<String> {
        self.0
    }
}

/// An answer of the upstream that is not valid in its API.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Translates one answer, whole or streamed.
pub trait AnswerTranslator: Send {
    /// Takes the data of one upstream event, without `data:`, and appends zero or more whole server-sent events to `out`. A chat
    /// stream ends with `[DONE]`.
    ///
    /// # Errors
    /// [`Malformed`] if the data is not an event of the upstream's API.
    fn event(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Ends a stream that stopped without its last event: appends the end if the answer is complete, else nothing.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Notes the pool that answers, before the first event or the whole answer.
    fn served_by(&mut self, _pool: &str) {}

    /// Translates a whole answer.
    ///
    /// # Errors
    /// [`Malformed`] if the body is not an answer of the upstream's API.
    fn whole(&mut self, body: &[u8]) -> Result<Vec<u8>, Malformed>;
}
