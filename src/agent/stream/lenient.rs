//! Fields of records that other programs define. A field of an unexpected type counts as absent (pure).
//!
//! None of these formats is a documented contract, so an unexpected field must not discard its record.
//! Texts without escapes borrow from the line, and undeclared fields are skipped without allocation.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::super::summary::TextPrefix;
use crate::timestamp::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Implements `expecting`, and returns `$value` for the listed kinds of JSON values.
macro_rules! default_visits {
    ($value:expr; $($kind:ident)*) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("any value")
        }
        $( default_visits!(@ $kind $value); )*
    };
    (@ bool $value:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok($value) }
    };
    (@ number $value:expr) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok($value) }
    };
    (@ text $value:expr) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok($value) }
    };
    (@ null $value:expr) => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> { Ok($value) }
    };
    (@ list $value:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@ map $value:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}
pub(super) use default_visits;

/// Declares the token counts of a format by the names of its fields.
macro_rules! token_counts {
    ($name:ident, $input:literal, $output:literal) => {
        #[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct $name {
            #[serde(rename = $input)]
            input: $crate::agent::stream::Count,
            #[serde(rename = $output)]
            output: $crate::agent::stream::Count,
        }

        impl $name {
            fn usage(self) -> $crate::agent::stream::TokenUsage {
                $crate::agent::stream::TokenUsage {
                    input_tokens: self.input.0.unwrap_or(0),
                    output_tokens: self.output.0.unwrap_or(0),
                }
            }
        }
    };
}
pub(super) use token_counts;

/// A scalar. Null, lists and objects count as absent.
enum Scalar<'a> {
    Absent,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;
            default_visits!(Scalar::Absent; null list map);
            fn visit_bool<E: Error>(self, flag: bool) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Bool(flag))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Unsigned(number))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Signed(number))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Float(number))
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// A text field.
#[derive(Clone, Debug, Default)]
pub(super) struct Str<'a>(Option<Cow<'a, str>>);

impl<'a> Str<'a> {
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the text, or an empty text if it is absent.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn into_inner(self) -> Option<Cow<'a, str>> {
        self.0
    }

    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Some(text),
            _ => None,
        }))
    }
}

/// A count, which is absent if negative.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count(pub Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Unsigned(number) => Some(number),
            Scalar::Signed(number) => u64::try_from(number).ok(),
            // The cast saturates; NaN fails the comparison.
            Scalar::Float(number) => (number >= 0.0).then_some(number as u64),
            _ => None,
        }))
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(count) => count.fmt(f),
            None => f.write_str("?"),
        }
    }
}

/// A signed number, such as an exit code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Int(pub Option<i64>);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Unsigned(number) => i64::try_from(number).ok(),
            Scalar::Signed(number) => Some(number),
            // The cast saturates.
            Scalar::Float(number) => Some(number as i64),
            _ => None,
        }))
    }
}

/// A boolean field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flag(pub Option<bool>);

impl Flag {
    pub fn is_set(self) -> bool {
        self.0 == Some(true)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Bool(flag) => Some(flag),
            _ => None,
        }))
    }
}

/// An API's error object.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ErrorBody<'a> {
    #[serde(rename = "type")]
    pub kind: Str<'a>,
    pub message: Str<'a>,
}

/// An object field.
#[derive(Clone, Debug)]
pub(super) struct Maybe<T>(pub Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Maybe<T>;
            default_visits!(Maybe(None); bool number text null list);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Maybe<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
            }
        }
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

/// The objects of a list field.
#[derive(Clone, Debug)]
pub(super) struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            default_visits!(List(Vec::new()); bool number text null map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element::<Maybe<T>>()? {
                    items.extend(item.0);
                }
                Ok(List(items))
            }
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// The timestamp of a record, parsed on demand.
#[derive(Clone, Debug, Default)]
pub(super) enum Time<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Epoch(f64),
}

impl Time<'_> {
    /// Parses the time: RFC 3339, or seconds, milliseconds or microseconds since the Unix epoch,
    /// depending on which lies in this century.
    pub fn read(&self) -> Option<Timestamp> {
        /// The year 2200 in seconds.
        const SECONDS_MAX: f64 = 7_258_118_400.0;
        match self {
            Self::Absent => None,
            Self::Text(text) => text.parse().ok(),
            Self::Epoch(number) => {
                let factor = match *number {
                    number if number <= 0.0 || !number.is_finite() => return None,
                    number if number < SECONDS_MAX => 1e6,
                    number if number < SECONDS_MAX * 1e3 => 1e3,
                    _ => 1.0,
                };
                // The cast saturates.
                Some(Timestamp::from_micros((number * factor).round() as i64))
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Time<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Self::Text(text),
            Scalar::Unsigned(number) => Self::Epoch(number as f64),
            Scalar::Signed(number) => Self::Epoch(number as f64),
            Scalar::Float(number) => Self::Epoch(number),
            Scalar::Absent | Scalar::Bool(_) => Self::Absent,
        })
    }
}

// Text in any form: a string, a list of texts, or an object that contains one (pure).

/// The text of a tool or a user: a string, a list of texts, or an object that contains a text.
#[derive(Clone, Debug, Default)]
pub(super) struct AnyText {
    pub text: TextPrefix,
    /// True if the object is an error, with an `error_code`.
    pub is_error: bool,
}

/// The fields of an object that may contain its text.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct TextFields {
    text: TextPrefix,
    content: TextPrefix,
    output: TextPrefix,
    error_code: Option<IgnoredAny>,
}

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyTextVisitor;
        impl<'de> Visitor<'de> for AnyTextVisitor {
            type Value = AnyText;
            default_visits!(AnyText::default(); bool number null);
            fn visit_str<E: Error>(self, text: &str) -> Result<AnyText, E> {
                let mut any = AnyText::default();
                any.text.push(text);
                Ok(any)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AnyText, A::Error> {
                let mut any = AnyText::default();
                while let Some(part) = list.next_element::<AnyText>()? {
                    if !any.text.is_empty() && !part.text.is_empty() {
                        any.text.push("\n");
                    }
                    any.text.push(part.text.as_str());
                }
                Ok(any)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AnyText, A::Error> {
                let part = TextFields::deserialize(MapAccessDeserializer::new(map))?;
                let is_error = part.error_code.is_some();
                let texts = [part.text, part.content, part.output];
                let text = texts.into_iter().find(|text| !text.is_empty());
                Ok(AnyText {
                    text: text.unwrap_or_default(),
                    is_error,
                })
            }
        }
        deserializer.deserialize_any(AnyTextVisitor)
    }
}

impl<'de> Deserialize<'de> for TextPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextPrefixVisitor;
        impl<'de> Visitor<'de> for TextPrefixVisitor {
            type Value = TextPrefix;
            default_visits!(TextPrefix::default(); bool number null list map);
            fn visit_str<E: Error>(self, text: &str) -> Result<TextPrefix, E> {
                let mut beginning = TextPrefix::default();
                beginning.push(text);
                Ok(beginning)
            }
        }
        deserializer.deserialize_any(TextPrefixVisitor)
    }
}

/// An error object whose message may have any form.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ErrorText {
    pub message: AnyText,
}

#[cfg(test)]
mod tests {
    mod lenient {

        use super::super::*;
        use serde::Deserialize;

        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Record<'a> {
            #[serde(borrow)]
            text: Str<'a>,
            count: Count,
            flag: Flag,
            inner: Maybe<Box<Record<'a>>>,
            list: List<Record<'a>>,
            any: super::super::AnyText,
        }

        #[test]
        fn a_field_of_an_unexpected_type_is_absent() {
            for value in ["null", "true", "1", "-1.5", "\"x\"", "[1,{}]", "{\"a\":[]}"] {
                let line = format!(
                    r#"{{"text":{value},"count":{value},"flag":{value},"inner":{value},"list":{value},"any":{value},"more":{value}}}"#
                );
                let record: Record<'_> = serde_json::from_str(&line).unwrap();
                assert_eq!(record.text.get().is_some(), value == "\"x\"");
                assert_eq!(record.count.0, (value == "1").then_some(1));
                assert_eq!(record.flag.0, (value == "true").then_some(true));
                assert_eq!(record.inner.0.is_some(), value == "{\"a\":[]}");
                assert_eq!(record.list.0.len(), usize::from(value == "[1,{}]"));
            }
        }

        #[test]
        fn only_objects_are_records() {
            let list: Maybe<Record<'_>> = serde_json::from_str(r#"["text",1,true]"#).unwrap();
            assert!(list.0.is_none());
        }

        #[test]
        fn times_of_any_kind() {
            for json in [
                "\"2026-01-21T10:00:01.500Z\"",
                "1768989601.5",
                "1768989601500",
                "1768989601500000",
            ] {
                let time: Time<'_> = serde_json::from_str(json).unwrap();
                let micros = time.read().map(Timestamp::micros);
                assert_eq!(micros, Some(1_768_989_601_500_000), "{json}");
            }
            for json in ["\"yesterday\"", "null", "-5", "{}"] {
                let time: Time<'_> = serde_json::from_str(json).unwrap();
                assert!(time.read().is_none(), "{json}");
            }
        }
    }

    mod any_text {

        use super::super::*;

        #[test]
        fn text_is_found_in_any_shape() {
            for (json, text, is_error) in [
                (r#""one\ntwo""#, "one\ntwo", false),
                (
                    r#"[{"type":"text","text":"one"},{"text":"two"}]"#,
                    "one\ntwo",
                    false,
                ),
                (r#"["one",{"text":"two"}]"#, "one\ntwo", false),
                (r#"{"output":"done"}"#, "done", false),
                (r#"{"type":"x_error","error_code":"unavailable"}"#, "", true),
                ("17", "", false),
            ] {
                let any: AnyText = serde_json::from_str(json).unwrap();
                assert_eq!((any.text.as_str(), any.is_error), (text, is_error));
            }
        }
    }
}
