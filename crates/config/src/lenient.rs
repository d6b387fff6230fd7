//! A deserializer that leaves out entries found to be invalid before, and notes the entry in which the next error occurs.

use std::{cell::RefCell, fmt, mem};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The name under which the YAML library asks for a value together with its position.
const SPANNED: &str = "__yaml_spanned";
/// Number of the value among the entries of the mapping that it makes up: a marker, the value, and two positions.
const SPANNED_VALUE: usize = 1;

/// A step from a mapping or a list to one of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Number of the entry.
    pub(super) index: usize,
    /// Its key; empty in lists.
    pub(super) key: String,
}

/// The entries to leave out, and the way to the entry that failed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Entries to leave out, as numbers from the root on.
    pub(super) left_out: Vec<Vec<usize>>,
    way: RefCell<Vec<Step>>,
    key: RefCell<String>,
    failed: RefCell<Option<Vec<Step>>>,
}

impl Watch {
    /// Deserializes a value from `inner`.
    pub(super) fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(&self, inner: D) -> Result<T, D::Error> {
        T::deserialize(Watched { inner, watch: self, mode: Mode::Value })
    }

    /// The way to the innermost entry that failed; empty for the root. Resets it.
    pub(super) fn failed(&self) -> Vec<Step> {
        self.failed.take().unwrap_or_default()
    }

    fn leaves_out(&self, index: usize) -> bool {
        let way = self.way.borrow();
        let same = |path: &[usize]| path.iter().eq(way.iter().map(|step| &step.index).chain([&index]));
        self.left_out.iter().any(|path| same(path))
    }

    fn within<T, E>(&self, step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.way.borrow_mut().push(step);
        let result = read();
        if result.is_err() && self.failed.borrow().is_none() {
            let mut way = self.way.borrow().clone();
            if let Some(last) = way.last_mut().filter(|last| last.key.is_empty()) {
                last.key = self.key.take();
            }
            self.failed.replace(Some(way));
        }
        self.way.borrow_mut().pop();
        result
    }
}

/// The part of the document that is read.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Mode {
    /// A value.
    Value,
    /// The key of a mapping.
    Key,
    /// The mapping of a value and its positions, which the YAML library makes up.
    Spanned,
    /// The same for a key.
    SpannedKey,
}

impl Mode {
    /// The mode of a value that is read together with its position.
    fn spanned(self) -> Self {
        if self == Self::Key { Self::SpannedKey } else { Self::Spanned }
    }

    fn is_spanned(self) -> bool {
        matches!(self, Self::Spanned | Self::SpannedKey)
    }
}

/// A deserializer, visitor, or access with its watch.
struct Watched<'w, T> {
    inner: T,
    watch: &'w Watch,
    mode: Mode,
}

macro_rules! forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(Watched { inner: visitor, watch: self.watch, mode: self.mode })
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Watched<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, Watched { inner: visitor, watch: self.watch, mode: self.mode })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let mode = if name == SPANNED { self.mode.spanned() } else { self.mode };
        self.inner.deserialize_newtype_struct(name, Watched { inner: visitor, watch: self.watch, mode })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(len, Watched { inner: visitor, watch: self.watch, mode: self.mode })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, len, Watched { inner: visitor, watch: self.watch, mode: self.mode })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Watched { inner: visitor, watch: self.watch, mode: self.mode })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, Watched { inner: visitor, watch: self.watch, mode: self.mode })
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool: bool, visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128, visit_f64: f64,
        visit_char: char, visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.note(text);
        self.inner.visit_str(text)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.note(text);
        self.inner.visit_borrowed_str(text)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        self.note(&text);
        self.inner.visit_string(text)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Watched { inner, watch: self.watch, mode: self.mode })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Watched { inner, watch: self.watch, mode: self.mode })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Entries { inner, watch: self.watch, mode: self.mode, next: 0, key: String::new() })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Entries { inner, watch: self.watch, mode: self.mode, next: 0, key: String::new() })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(inner)
    }
}

impl<V> Watched<'_, V> {
    fn note(&self, text: &str) {
        if self.mode == Mode::Key {
            text.clone_into(&mut self.watch.key.borrow_mut());
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Watched<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Watched { inner, watch: self.watch, mode: self.mode })
    }
}

/// The entries of a mapping or a list.
struct Entries<'w, A> {
    inner: A,
    watch: &'w Watch,
    mode: Mode,
    /// Number of the next entry.
    next: usize,
    /// Key of the entry under way.
    key: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if self.mode.is_spanned() {
            self.next += 1;
            return self.inner.next_key_seed(seed);
        }
        while self.watch.leaves_out(self.next) {
            self.next += 1;
            if self.inner.next_entry::<IgnoredAny, IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let step = Step { index: self.next, key: String::new() };
        self.next += 1;
        self.watch.key.take();
        let seed = Watched { inner: seed, watch: self.watch, mode: Mode::Key };
        let key = self.watch.within(step, || self.inner.next_key_seed(seed));
        self.key = self.watch.key.take();
        key
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let mode = if self.mode == Mode::SpannedKey { Mode::Key } else { Mode::Value };
        let watched = Watched { inner: seed, watch: self.watch, mode };
        match self.mode {
            Mode::Spanned | Mode::SpannedKey if self.next - 1 == SPANNED_VALUE => {
                return self.inner.next_value_seed(watched);
            }
            Mode::Spanned | Mode::SpannedKey => return self.inner.next_value_seed(watched.inner),
            Mode::Value | Mode::Key => {}
        }
        let step = Step { index: self.next - 1, key: mem::take(&mut self.key) };
        self.watch.within(step, || self.inner.next_value_seed(watched))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while self.watch.leaves_out(self.next) {
            self.next += 1;
            if self.inner.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let step = Step { index: self.next, key: String::new() };
        self.next += 1;
        self.watch.key.take();
        let seed = Watched { inner: seed, watch: self.watch, mode: Mode::Value };
        self.watch.within(step, || self.inner.next_element_seed(seed))
    }
}
