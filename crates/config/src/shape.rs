//! Generic shapes of values: with position, mappings by name, short or long form, any value.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::Spanned;

use super::{
    mistake::At,
    scalar::{Field, Scalar},
};

/// A value and its position.
#[derive(Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its position.
    pub at: At,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { at: At::from(&spanned), value: spanned.value })
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A mapping from names that the user chooses, in the order of the file.
#[derive(Debug)]
pub struct Named<T> {
    /// Names and values.
    pub entries: Vec<(Field<String>, T)>,
    /// The position of the mapping.
    pub at: At,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Located { value: Entries(entries), at } = Located::deserialize(deserializer)?;
        Ok(Self { entries, at })
    }
}

struct Entries<T>(Vec<(Field<String>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<T>() })
    }
}

/// A description of the accepted shapes, for error messages.
pub trait Shapes {
    /// Completes "expected …".
    const EXPECTED: &'static str;

    /// The short form of a boolean: YAML reads `off` as false.
    fn word(_value: bool) -> Option<&'static str> {
        None
    }
}

/// A value in short form, as one scalar, or in long form, as a mapping.
#[derive(Debug)]
pub enum Either<S, L> {
    /// The short form.
    Short(Field<S>),
    /// The long form and its position.
    Long(L, At),
}

impl<S, L> Either<S, L> {
    /// Its position.
    pub fn at(&self) -> At {
        match self {
            Self::Short(field) => field.at(),
            Self::Long(_, at) => *at,
        }
    }
}

impl<'de, S, L: Deserialize<'de> + Shapes> Deserialize<'de> for Either<S, L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Located { value, at } = Located::deserialize(deserializer)?;
        Ok(match value {
            Form::Short(text) => Self::Short(Field::new(text, at)),
            Form::Long(long) => Self::Long(long, at),
        })
    }
}

enum Form<L> {
    Short(String),
    Long(L),
}

impl<'de, L: Deserialize<'de> + Shapes> Deserialize<'de> for Form<L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormVisitor<L>(PhantomData<L>);

        impl<'de, L: Deserialize<'de> + Shapes> Visitor<'de> for FormVisitor<L> {
            type Value = Form<L>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(L::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Form::Short(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
                let word = L::word(value).ok_or_else(|| E::invalid_type(Unexpected::Bool(value), &self))?;
                Ok(Form::Short(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                L::deserialize(MapAccessDeserializer::new(map)).map(Form::Long)
            }
        }

        deserializer.deserialize_any(FormVisitor(PhantomData))
    }
}

impl<S: Scalar, L: JsonSchema> JsonSchema for Either<S, L> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Either{}", L::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [S::schema(), generator.subschema_for::<L>()] })
    }
}

/// Any value, as JSON.
#[derive(Debug)]
pub struct Open {
    /// The value.
    pub value: serde_json::Value,
    /// Its position.
    pub at: At,
}

impl<'de> Deserialize<'de> for Open {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Located { value, at } = Located::deserialize(deserializer)?;
        Ok(Self { value, at })
    }
}

impl JsonSchema for Open {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Open".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}
