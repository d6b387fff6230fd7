//! Verdict on a refusal: what the gateway does about it.

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
