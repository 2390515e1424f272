//! Fields of records that others define: a field of another type than expected is as good as absent (pure).
//!
//! None of these formats is documented for good, so a surprise in one field must not cost a record.
//! Texts are borrowed from the line where they have no escapes, and what is not named is skipped
//! without being built.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::agent::summary::TextPrefix;
use crate::timestamp::Timestamp;

/// What a visitor returns for the kinds of values that it does not look for.
macro_rules! otherwise {
    ($value:expr; $($kind:ident)*) => { $( otherwise!(@ $kind $value); )* };
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

macro_rules! visitor {
    ($expecting:literal) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($expecting)
        }
    };
}

/// Text, where the value is text.
#[derive(Clone, Debug, Default)]
pub(super) struct Str<'a>(Option<Cow<'a, str>>);

impl<'a> Str<'a> {
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text, or nothing where there is none.
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
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Str<'de>;
            visitor!("anything");
            otherwise!(Str(None); bool number null list map);
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Str<'de>, E> {
                Ok(Str(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Str<'de>, E> {
                Ok(Str(Some(Cow::Owned(text.to_owned()))))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

/// A count, where the value is a number that can be one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count(pub Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counts;
        impl<'de> Visitor<'de> for Counts {
            type Value = Count;
            visitor!("anything");
            otherwise!(Count(None); bool text null list map);
            fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(Some(number)))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(number).ok()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
                // Saturates, and nothing that is no number is above 0.
                Ok(Count((number >= 0.0).then_some(number as u64)))
            }
        }
        deserializer.deserialize_any(Counts)
    }
}

/// A number with a sign: exit codes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Int(pub Option<i64>);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ints;
        impl<'de> Visitor<'de> for Ints {
            type Value = Int;
            visitor!("anything");
            otherwise!(Int(None); bool text null list map);
            fn visit_u64<E: Error>(self, number: u64) -> Result<Int, E> {
                Ok(Int(i64::try_from(number).ok()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Int, E> {
                Ok(Int(Some(number)))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Int, E> {
                // Saturates.
                Ok(Int(Some(number as i64)))
            }
        }
        deserializer.deserialize_any(Ints)
    }
}

/// Yes or no, where the value says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flag(pub Option<bool>);

impl Flag {
    pub fn is_set(self) -> bool {
        self.0 == Some(true)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flags;
        impl<'de> Visitor<'de> for Flags {
            type Value = Flag;
            visitor!("anything");
            otherwise!(Flag(None); number text null list map);
            fn visit_bool<E: Error>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(Some(flag)))
            }
        }
        deserializer.deserialize_any(Flags)
    }
}

/// An object, where the value is one.
#[derive(Clone, Debug)]
pub(super) struct Maybe<T>(pub Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Maybe<T>;
            visitor!("anything");
            otherwise!(Maybe(None); bool number text null list);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Maybe<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
            }
        }
        deserializer.deserialize_any(Objects(PhantomData))
    }
}

/// The objects of a list, where the value is one.
#[derive(Clone, Debug)]
pub(super) struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Lists<T> {
            type Value = List<T>;
            visitor!("anything");
            otherwise!(List(Vec::new()); bool number text null map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element::<Maybe<T>>()? {
                    items.extend(item.0);
                }
                Ok(List(items))
            }
        }
        deserializer.deserialize_any(Lists(PhantomData))
    }
}

/// What a tool or a human says, in whatever shape: a text, a list of texts, an object with one.
#[derive(Clone, Debug, Default)]
pub(super) struct AnyText {
    pub text: TextPrefix,
    /// The object is an error: it has an `error_code`.
    pub is_error: bool,
}

/// An object that may have text in it.
#[derive(Default, serde::Deserialize)]
struct TextFields {
    #[serde(default)]
    text: TextPrefix,
    #[serde(default)]
    content: TextPrefix,
    #[serde(default)]
    output: TextPrefix,
    #[serde(default)]
    error_code: Option<IgnoredAny>,
}

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyTexts;
        impl<'de> Visitor<'de> for AnyTexts {
            type Value = AnyText;
            visitor!("anything");
            otherwise!(AnyText::default(); bool number null);
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
        deserializer.deserialize_any(AnyTexts)
    }
}

impl<'de> Deserialize<'de> for TextPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Beginnings;
        impl<'de> Visitor<'de> for Beginnings {
            type Value = TextPrefix;
            visitor!("anything");
            otherwise!(TextPrefix::default(); bool number null list map);
            fn visit_str<E: Error>(self, text: &str) -> Result<TextPrefix, E> {
                let mut beginning = TextPrefix::default();
                beginning.push(text);
                Ok(beginning)
            }
        }
        deserializer.deserialize_any(Beginnings)
    }
}

/// A record's own time, read only when it is asked for.
#[derive(Clone, Debug, Default)]
pub(super) enum Time<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Epoch(f64),
}

impl Time<'_> {
    /// The time: RFC 3339, or since the epoch in seconds, milliseconds or microseconds, whichever
    /// lies in this century.
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
                // Saturates.
                Some(Timestamp::from_micros((number * factor).round() as i64))
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Time<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Times;
        impl<'de> Visitor<'de> for Times {
            type Value = Time<'de>;
            visitor!("anything");
            otherwise!(Time::Absent; bool null list map);
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Time<'de>, E> {
                Ok(Time::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Time<'de>, E> {
                Ok(Time::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Time<'de>, E> {
                Ok(Time::Epoch(number as f64))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Time<'de>, E> {
                Ok(Time::Epoch(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Time<'de>, E> {
                Ok(Time::Epoch(number))
            }
        }
        deserializer.deserialize_any(Times)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Record<'a> {
        #[serde(borrow)]
        text: Str<'a>,
        count: Count,
        flag: Flag,
        inner: Maybe<Box<Record<'a>>>,
        list: List<Record<'a>>,
        any: AnyText,
    }

    #[test]
    fn a_field_of_another_type_is_absent() {
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
    fn what_is_no_object_is_no_record() {
        let list: Maybe<Record<'_>> = serde_json::from_str(r#"["text",1,true]"#).unwrap();
        assert!(list.0.is_none());
    }

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
