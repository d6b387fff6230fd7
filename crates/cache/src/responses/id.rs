//! Ids of the gateway's responses, conversations and items. Their form tells them from ids of providers, and an item's id
//! says which response or conversation it belongs to.
//!
//! | id | of |
//! |---|---|
//! | `resp_sb` and 30 hex digits | a response |
//! | `conv_sb` and 30 hex digits | a conversation |
//! | `msg_sb`, the same digits, and an index | an item of a response's output |
//! | `msg_sb`, the same digits, `i` and an index | an item of a response's input or of a conversation |

/// First characters of the part that responses, conversations and their items share.
const MARK: &str = "sb";
/// Length of that part, its mark included.
const ROOT: usize = 32;

/// An id in the gateway's form.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StateId<'a> {
    /// Its kind.
    pub kind: IdKind,
    /// The part that a response or a conversation shares with its items.
    pub root: &'a str,
}

/// Kind of an id.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// A response.
    Response,
    /// A conversation.
    Conversation,
    /// An item.
    Item,
}

impl<'a> StateId<'a> {
    /// Text that every id in the gateway's form contains.
    pub const MARK: &'static str = "_sb";

    /// Reads an id; `None` if it has not the gateway's form.
    pub fn read(id: &'a str) -> Option<Self> {
        let (prefix, rest) = id.split_once('_')?;
        let (root, index) = rest.split_at_checked(ROOT)?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !root.strip_prefix(MARK)?.bytes().all(is_hex) {
            return None;
        }
        let digits = index.strip_prefix('i').unwrap_or(index);
        let is_index = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let kind = match (prefix, index.is_empty()) {
            ("resp", true) => IdKind::Response,
            ("conv", true) => IdKind::Conversation,
            (_, false) if is_index => IdKind::Item,
            _ => return None,
        };
        Some(Self { kind, root })
    }

    /// Makes the common part of a new response or conversation from random bytes.
    pub fn new_root(random: [u8; 15]) -> String {
        use std::fmt::Write as _;
        random.iter().fold(MARK.to_owned(), |mut root, byte| {
            // Writing into a string cannot fail.
            let _ = write!(root, "{byte:02x}");
            root
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_what_they_belong_to() {
        let root = StateId::new_root([0xa7; 15]);
        assert_eq!(root.len(), ROOT);
        for (id, kind) in [
            (format!("resp_{root}"), IdKind::Response),
            (format!("conv_{root}"), IdKind::Conversation),
            (format!("msg_{root}00"), IdKind::Item),
            (format!("rs_{root}123"), IdKind::Item),
            (format!("fco_{root}i7"), IdKind::Item),
        ] {
            assert_eq!(StateId::read(&id), Some(StateId { kind, root: &root }), "{id}");
            assert!(id.contains(StateId::MARK));
        }
        let foreign = ["", "resp_", "resp_abc", "resp_60a5c931727d178ee85b47810eeb672404b30b804727e8b0", "msg_é"];
        let near = [format!("msg_{root}"), format!("msg_{root}i"), format!("msg_{root}x1"), format!("resp_{root}é")];
        let upper = format!("resp_{}", root.to_uppercase());
        for id in foreign.into_iter().map(str::to_owned).chain(near).chain([upper]) {
            assert_eq!(StateId::read(&id), None, "{id}");
        }
    }
}
