//! Checks answers with embeddings: one vector for each input, which callers pair by position and store.
//!
//! A missing vector, two of one index or one of another width is found by no caller until a search returns wrong texts, so
//! such an answer is none, although its status says that it is.

use std::borrow::Cow;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, general_purpose},
};
use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{RequestBody, json, walk::elements};

/// Base64 with or without padding.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, general_purpose::PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// The parts of a request for embeddings that its answer is compared with.
#[derive(Clone, Debug)]
pub struct EmbeddingsRequest {
    input: Option<Bytes>,
    /// The vectors are asked for as base64 of 32-bit floats.
    packs_floats: bool,
    /// One vector may be of all inputs.
    may_join: bool,
}

impl EmbeddingsRequest {
    /// Takes them from the body of a request. Nothing is read yet.
    ///
    /// Some engines join the texts of a list in one vector, and say it nowhere. It is taken where they
    /// `may_join`: no other backend is left to ask.
    pub fn of(body: &RequestBody, may_join: bool) -> Self {
        let other_type = ["output_dtype", "embed_dtype", "endianness", "embedding_types"];
        Self {
            input: body.member("input").map(|input| body.bytes().slice_ref(input)),
            packs_floats: body.member("encoding_format") == Some(b"\"base64\"")
                && other_type.into_iter().all(|name| body.member(name).is_none()),
            may_join,
        }
    }

    /// Bytes of the input, which is read to check an answer.
    pub fn input_bytes(&self) -> usize {
        self.input.as_ref().map_or(0, Bytes::len)
    }

    /// The number of vectors that the input asks for; `None` if that depends on the engine.
    fn vectors(&self) -> Option<usize> {
        let input = self.input.as_deref()?;
        match input.first()? {
            b'"' => Some(1),
            b'[' => match elements(input).next().and_then(|first| first.first()) {
                // The tokens of one text.
                Some(b'0'..=b'9') => Some(1),
                // Engines may join parts of several kinds in one vector.
                Some(b'{') => None,
                _ => Some(elements(input).count()),
            },
            _ => None,
        }
    }

    /// The reason why `answer`, a JSON document, is no answer to the request, in words that follow "the backend answered
    /// with".
    pub fn fault(&self, answer: &[u8]) -> Option<Cow<'static, str>> {
        if answer.trim_ascii_start().starts_with(b"[") {
            // An API of its own.
            return None;
        }
        let read = self.compare(answer).or_else(|error| match json::repaired(answer) {
            Some(repaired) => self.compare(&repaired),
            None => Err(error),
        });
        read.unwrap_or(Some("vectors that are not finite numbers".into()))
    }

    fn compare(&self, answer: &[u8]) -> serde_json::Result<Option<Cow<'static, str>>> {
        let Answer { data, embeddings } = serde_json::from_slice(answer)?;
        Ok(match data {
            Some(data) => self.mismatch(&data),
            None => embeddings.is_none().then_some("no vectors".into()),
        })
    }

    fn mismatch(&self, data: &[Option<Item<'_>>]) -> Option<Cow<'static, str>> {
        let (asked, given) = (self.vectors(), data.len());
        let joined = self.may_join && given == 1;
        if asked.is_some_and(|asked| asked != given) && !joined {
            return Some(format!("{given} vectors for {} inputs", asked.unwrap_or(0)).into());
        }
        let mut indices = vec![false; given];
        let mut width = None;
        for (place, item) in data.iter().enumerate() {
            let Some(item) = item else { return Some("null in place of a vector".into()) };
            let index = item.index.map_or(Some(place), |index| usize::try_from(index).ok());
            match index.and_then(|index| indices.get_mut(index)) {
                Some(seen) if !*seen => *seen = true,
                _ => return Some("vectors whose indices are not those of the inputs".into()),
            }
            let own = match (&item.embedding, &item.embeddings) {
                (Some(vector), _) => vector.width(self.packs_floats),
                (None, Some(_)) => Ok(None),
                (None, None) => Err("an item without a vector"),
            };
            match own {
                Err(fault) => return Some(fault.into()),
                Ok(own) if *width.get_or_insert(own) != own => return Some("vectors of different lengths".into()),
                Ok(_) => {}
            }
        }
        None
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Option<Vec<Option<Item<'a>>>>,
    /// The vectors in the APIs of other providers.
    embeddings: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Item<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    embedding: Option<Vector<'a>>,
    /// Several vectors of one text.
    embeddings: Option<IgnoredAny>,
}

/// A vector, in one of its forms.
enum Vector<'a> {
    Numbers(usize),
    /// A vector for each token.
    Nested(usize),
    Packed(Cow<'a, str>),
    /// An object by types.
    Other,
}

impl Vector<'_> {
    /// Its form and length, which is the same for all vectors of an answer; `None` if it need not be.
    fn width(&self, packs_floats: bool) -> Result<Option<(bool, usize)>, &'static str> {
        match self {
            Self::Numbers(0) | Self::Nested(0) => Err("an empty vector"),
            Self::Packed(text) if text.is_empty() => Err("an empty vector"),
            Self::Numbers(length) => Ok(Some((false, *length))),
            Self::Packed(text) if packs_floats => match BASE64.decode(&**text) {
                Ok(bytes) if is_finite(&bytes) => Ok(Some((true, bytes.len()))),
                _ => Err("a vector that is not base64 of finite numbers"),
            },
            Self::Packed(text) => Ok(Some((true, text.len()))),
            Self::Nested(_) | Self::Other => Ok(None),
        }
    }
}

/// True if `bytes` are 32-bit floats, each a finite one.
fn is_finite(bytes: &[u8]) -> bool {
    let (floats, rest) = bytes.as_chunks::<4>();
    rest.is_empty() && floats.iter().all(|float| f32::from_le_bytes(*float).is_finite())
}

impl<'de: 'a, 'a> Deserialize<'de> for Vector<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Vector<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a vector")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Vector::Packed(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Vector::Packed(text.to_owned().into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let (mut length, mut nested) = (0, false);
                while let Some(element) = sequence.next_element()? {
                    length += 1;
                    nested |= matches!(element, Element::Vector);
                }
                Ok(if nested { Vector::Nested(length) } else { Vector::Numbers(length) })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Vector::Other)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// An element of a vector. Null is none: engines write it for what is not a number.
enum Element {
    Number,
    Vector,
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Element;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a number")
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Element, E> {
                Ok(Element::Number)
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Element, E> {
                Ok(Element::Number)
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Element, E> {
                Ok(Element::Number)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Element, A::Error> {
                while sequence.next_element::<Self::Value>()?.is_some() {}
                Ok(Element::Vector)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Endpoint;

    fn fault(request: &str, answer: &str) -> Option<String> {
        fault_if(request, answer, false)
    }

    fn fault_if(request: &str, answer: &str, may_join: bool) -> Option<String> {
        let body = format!(r#"{{"model":"m",{request}}}"#);
        let body = RequestBody::json(Endpoint::Embeddings, body.into()).unwrap();
        EmbeddingsRequest::of(&body, may_join).fault(answer.as_bytes()).map(Cow::into_owned)
    }

    fn item(index: usize, embedding: &str) -> String {
        format!(r#"{{"object":"embedding","index":{index},"embedding":{embedding}}}"#)
    }

    fn data(items: &[String]) -> String {
        format!(r#"{{"object":"list","data":[{}],"usage":{{"prompt_tokens":1}}}}"#, items.join(","))
    }

    fn vectors(count: usize) -> String {
        data(&(0..count).map(|index| item(index, "[0.5, -1e-3,2]")).collect::<Vec<_>>())
    }

    #[test]
    fn an_answer_has_one_vector_for_each_input() {
        for (input, count) in [
            (r#""one text""#, 1),
            (r#"["one text"]"#, 1),
            (r#"["a","b, \"c\"","[d]"]"#, 3),
            ("[1, 2, 3]", 1),
            ("[[1,2],[3]]", 2),
        ] {
            let request = format!(r#""input":{input}"#);
            assert_eq!(fault(&request, &vectors(count)), None, "{input}");
            for other in [0, count + 1, count - 1] {
                assert!(other == count || fault(&request, &vectors(other)).is_some(), "{input}: {other}");
            }
        }
        for request in [r#""input":[{"text":"a"},{"image":"b"}]"#, r#""messages":[{"role":"user","content":"a"}]"#] {
            assert_eq!(fault(request, &vectors(1)), None, "{request}");
        }
    }

    #[test]
    fn one_vector_for_a_list_is_taken_where_nobody_else_is_left() {
        let request = r#""input":["a","b","c"]"#;
        let faults = |count| [false, true].map(|may_join| fault_if(request, &vectors(count), may_join).is_some());
        assert_eq!([0, 1, 2, 3, 4].map(faults), [[true; 2], [true, false], [true; 2], [false; 2], [true; 2]]);
    }

    #[test]
    fn vectors_belong_to_their_inputs() {
        let request = r#""input":["a","b"]"#;
        let answer = |first: usize, second: usize| data(&[item(first, "[1]"), item(second, "[2]")]);
        assert_eq!(fault(request, &answer(1, 0)), None, "in any order");
        for (first, second) in [(0, 0), (1, 1), (1, 2), (0, 2)] {
            assert!(fault(request, &answer(first, second)).is_some(), "{first} {second}");
        }
        let without = data(&[r#"{"embedding":[1]}"#.to_owned(), r#"{"embedding":[2]}"#.to_owned()]);
        assert_eq!(fault(request, &without), None, "without indices, the places count");
    }

    #[test]
    fn vectors_are_finite_numbers_of_one_length() {
        let request = r#""input":["a","b"]"#;
        let answer = |vector: &str| data(&[item(0, "[1,2.5]"), item(1, vector)]);
        for vector in ["[3,-4]", "[1e-9 , 0]"] {
            assert_eq!(fault(request, &answer(vector)), None, "{vector}");
        }
        let broken =
            ["null", "[]", "[1]", "[1,2,3]", "[1,null]", "[null,null]", "[1,NaN]", "[-Infinity,1]", "[1,1e999]"];
        for vector in broken.into_iter().chain(["\"AACAPwAAgD8=\"", "\"\"", "[1,\"2\"]", "[true,false]"]) {
            assert!(fault(request, &answer(vector)).is_some(), "{vector}");
        }
        let nested = |first: &str, second: &str| data(&[item(0, first), item(1, second)]);
        assert_eq!(fault(request, &nested("[[1],[2]]", "[[3]]")), None, "a vector for each token");
        assert!(fault(request, &nested("[[1],[2]]", "[[null]]")).is_some());
        for answer in [r#"{"object":"list"}"#, r#"{"data":null}"#, r#"{"data":[null,null]}"#, r#"{"data":[{},{}]}"#] {
            assert!(fault(request, answer).is_some(), "{answer}");
        }
        assert_eq!(fault(request, "[[1],[2]]").or(fault(request, r#"{"embeddings":[[1],[2]]}"#)), None, "other APIs");
        assert_eq!(fault(request, &format!("\u{feff}{}", answer("[3,4]"))), None, "a byte order mark");
    }

    #[test]
    fn packed_vectors_are_read() {
        let request = r#""input":["a","b"],"encoding_format":"base64""#;
        let pack = |floats: &[f32]| {
            format!("{:?}", BASE64.encode(floats.iter().flat_map(|float| float.to_le_bytes()).collect::<Vec<_>>()))
        };
        let answer = |second: &str| data(&[item(0, &pack(&[1.0, 2.0])), item(1, second)]);
        assert_eq!(fault(request, &answer(&pack(&[3.0, -4.0]))), None);
        assert_eq!(fault(request, &answer(&pack(&[3.0, -4.0]).replace('=', ""))), None, "without padding");
        for broken in [pack(&[1.0, f32::NAN]), pack(&[1.0]), pack(&[]), r#""???""#.to_owned(), r#""AAAA""#.to_owned()] {
            assert!(fault(request, &answer(&broken)).is_some(), "{broken}");
        }
        let plain = data(&[item(0, "[1,2]"), item(1, "[3,4]")]);
        assert_eq!(fault(request, &plain), None, "an engine that knows only numbers");
        let bits = r#""input":["a","b"],"encoding_format":"base64","output_dtype":"ubinary""#;
        assert_eq!(fault(bits, &data(&[item(0, r#""AAAA""#), item(1, r#""AAAB""#)])), None);
    }
}
