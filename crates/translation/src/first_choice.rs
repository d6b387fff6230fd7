//! The first choice of a chat answer: the other APIs have one answer, so the others are ignored.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};

/// A choice that knows its place.
pub(super) trait Choice {
    /// True for the choice with the index 0, or none.
    fn is_first(&self) -> bool;
}

/// The first of a list of choices, read without keeping the list.
pub(super) struct First<T>(pub(super) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de> + Choice> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Choices(PhantomData))
    }
}

struct Choices<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Choice> Visitor<'de> for Choices<T> {
    type Value = First<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(First(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while let Some(choice) = seq.next_element::<T>()? {
            if choice.is_first() {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(First(Some(choice)));
            }
        }
        Ok(First(None))
    }
}
