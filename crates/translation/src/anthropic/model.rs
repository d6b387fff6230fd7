//! The version of a Claude model, on which the form of some request members depends.

/// A model, by its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// A model of another vendor behind the Messages API.
    Other,
    /// A Claude model with its major and minor version. A name without a version counts as the newest.
    Claude(Family, u16, u16),
}

/// A family of Claude models.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Its newer models can leave thinking before the answer out.
    Sonnet,
    /// Its newer models can disable thinking.
    Haiku,
    /// Its newer models always think.
    Rest,
}

/// The way to turn thinking off.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Off {
    /// It is off unless requested.
    Default,
    /// `thinking: {"type": "disabled"}`.
    Disabled,
    /// `thinking: {"type": "between_tools"}`.
    BetweenTools,
    /// There is none.
    Impossible,
}

impl Model {
    /// The model with a name such as `claude-opus-4-8`, `claude-3-7-sonnet-20250219` or `anthropic/claude-haiku-4.5`.
    pub(super) fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let Some((_, rest)) = name.split_once("claude") else { return Self::Other };
        let family = match rest {
            rest if rest.contains("sonnet") => Family::Sonnet,
            rest if rest.contains("haiku") => Family::Haiku,
            _ => Family::Rest,
        };
        let mut parts = rest.split(['-', '.', '@', ':', '_']).skip_while(|part| version_part(part).is_none());
        let Some(major) = parts.next().and_then(version_part) else { return Self::Claude(family, u16::MAX, 0) };
        let minor = parts.next().and_then(version_part).unwrap_or(0);
        // The first models of these families already had the rules of 5.1.
        let early = rest.contains("fable") || rest.contains("mythos");
        Self::Claude(family, major, if early && major == 5 { minor.max(1) } else { minor })
    }

    /// True if it takes `thinking: {"type": "adaptive"}` and `output_config.effort`. Older models, and those of other
    /// vendors, take a token budget.
    pub(super) fn thinks_adaptively(self) -> bool {
        self.is_at_least(4, 6)
    }

    /// True if it accepts messages of the role `system` after a user turn.
    pub(super) fn takes_later_system(self) -> bool {
        self.is_at_least(4, 8)
    }

    /// True if it takes the effort level `xhigh`.
    pub(super) fn takes_xhigh(self) -> bool {
        self.is_at_least(4, 7)
    }

    /// True if it takes either a temperature or a `top_p`.
    pub(super) fn takes_one_sampler(self) -> bool {
        self.is_at_least(4, 1)
    }

    /// True if it rejects sampling parameters.
    pub(super) fn samples_by_itself(self) -> bool {
        self.is_at_least(4, 7)
    }

    /// True if it continues an assistant's turn at the end of a conversation.
    pub(super) fn takes_prefill(self) -> bool {
        !self.is_at_least(4, 6)
    }

    /// The most tokens that it answers with, where a higher limit is known to be rejected.
    pub(super) fn most_tokens(self) -> Option<u64> {
        match self {
            Self::Claude(_, 3, 0) => Some(4096),
            Self::Claude(_, 3, 5) => Some(8192),
            Self::Claude(Family::Rest, 4, 0 | 1) => Some(32_000),
            Self::Claude(_, 3, 7) | Self::Claude(_, 4, 0..=5) => Some(64_000),
            Self::Claude(..) | Self::Other => None,
        }
    }

    /// True if thinking without a signature is sent back to it. Claude rejects that; others give none, and some need
    /// their thinking between calls.
    pub(super) fn takes_unsigned_thinking(self) -> bool {
        self == Self::Other
    }

    /// The way to turn its thinking off.
    pub(super) fn off(self) -> Off {
        match self {
            Self::Claude(..) if !self.is_at_least(5, 0) => Off::Default,
            Self::Claude(Family::Sonnet, ..) if self.is_at_least(5, 1) => Off::BetweenTools,
            Self::Claude(Family::Rest, ..) if self.is_at_least(5, 1) => Off::Impossible,
            Self::Claude(..) | Self::Other => Off::Disabled,
        }
    }

    fn is_at_least(self, major: u16, minor: u16) -> bool {
        matches!(self, Self::Claude(_, a, b) if (a, b) >= (major, minor))
    }
}

/// A part of a version: one or two digits. Longer numbers are dates.
fn version_part(part: &str) -> Option<u16> {
    part.parse().ok().filter(|_| part.len() <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        for (name, want) in [
            ("claude-opus-4-8", Model::Claude(Family::Rest, 4, 8)),
            ("claude-sonnet-4-20250514", Model::Claude(Family::Sonnet, 4, 0)),
            ("claude-3-7-sonnet-20250219", Model::Claude(Family::Sonnet, 3, 7)),
            ("anthropic/claude-haiku-4.5", Model::Claude(Family::Haiku, 4, 5)),
            ("us.anthropic.claude-opus-4-6-v1:0", Model::Claude(Family::Rest, 4, 6)),
            ("claude-opus-4-1@20250805", Model::Claude(Family::Rest, 4, 1)),
            ("claude-fable-5", Model::Claude(Family::Rest, 5, 1)),
            ("claude-4.7-opus", Model::Claude(Family::Rest, 4, 7)),
            ("claude-opus-5", Model::Claude(Family::Rest, 5, 0)),
            ("Claude-Sonnet-Latest", Model::Claude(Family::Sonnet, u16::MAX, 0)),
            ("glm-5.1", Model::Other),
        ] {
            assert_eq!(Model::named(name), want, "{name}");
        }
    }
}
