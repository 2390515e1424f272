//! JSON of records that other programs define: a field of an unexpected type counts as absent (pure).
//!
//! None of these formats is a documented contract, so an unexpected field must not discard its record.
//! Texts without escapes borrow from the line.

use std::borrow::Cow;
use std::ops::Index;

use super::super::summary::TextPrefix;
use crate::timestamp::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;

/// A value. `value["name"]` is the field of an object, and null if there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Json<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Index<&str> for Json<'a> {
    type Output = Json<'a>;

    fn index(&self, name: &str) -> &Self {
        let Self::Object(fields) = self else {
            return &Self::Null;
        };
        // Of repeated fields, the last one counts.
        let field = fields.iter().rev().find(|(known, _)| known == name);
        field.map_or(&Self::Null, |(_, value)| value)
    }
}

impl Json<'_> {
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text, or an empty text if it is absent.
    pub fn text(&self) -> &str {
        self.as_str().unwrap_or_default()
    }

    /// Returns a count, which is absent if negative.
    pub fn as_u64(&self) -> Option<u64> {
        let Self::Number(number) = self else {
            return None;
        };
        // The cast saturates; NaN fails the comparison.
        let rounded = || number.as_f64().filter(|count| *count >= 0.0);
        number.as_u64().or_else(|| Some(rounded()? as u64))
    }

    pub fn as_f64(&self) -> Option<f64> {
        let Self::Number(number) = self else {
            return None;
        };
        number.as_f64()
    }

    pub fn as_i64(&self) -> Option<i64> {
        let Self::Number(number) = self else {
            return None;
        };
        number.as_i64()
    }

    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(values) => values,
            _ => &[],
        }
    }

    /// Returns the time: RFC 3339, or seconds, milliseconds or microseconds since the Unix epoch,
    /// depending on which lies in this century.
    pub fn time(&self) -> Option<Timestamp> {
        /// The year 2200 in seconds.
        const SECONDS_MAX: f64 = 7_258_118_400.0;
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => {
                let number = number.as_f64()?;
                let factor = match number {
                    _ if number <= 0.0 => return None,
                    _ if number < SECONDS_MAX => 1e6,
                    _ if number < SECONDS_MAX * 1e3 => 1e3,
                    _ => 1.0,
                };
                // The cast saturates.
                Some(Timestamp::from_micros((number * factor).round() as i64))
            }
            _ => None,
        }
    }

    /// Returns the beginning of the text of a tool or a user: a string, a list of texts, or an object
    /// that contains a text.
    pub fn any_text(&self) -> TextPrefix {
        let mut text = TextPrefix::default();
        match self {
            Self::Text(whole) => text.push(whole),
            Self::List(parts) => {
                for part in parts {
                    let part = part.any_text();
                    if !text.is_empty() && !part.is_empty() {
                        text.push("\n");
                    }
                    text.push(part.as_str());
                }
            }
            Self::Object(_) => {
                let texts = ["text", "content", "output"].map(|field| self[field].text());
                text.push(first(texts));
            }
            _ => {}
        }
        text
    }

    /// Returns the value as text: a string as it is, any other value as JSON, and nothing for null.
    pub fn arguments(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::default(),
            Self::Text(text) => Cow::Borrowed(text),
            _ => serde_json::to_string(self).unwrap_or_default().into(),
        }
    }
}

/// Returns the first text that is not empty.
pub(super) fn first<const N: usize>(texts: [&str; N]) -> &str {
    let found = texts.into_iter().find(|text| !text.trim().is_empty());
    found.unwrap_or_default()
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Json<'de>, E> {
                Ok(Json::Bool(value))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Json<'de>, E> {
                Ok(Json::Number(number.into()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Json<'de>, E> {
                Ok(Json::Number(number.into()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Json<'de>, E> {
                Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
                Ok(Json::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
                Ok(Json::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Json::List(values))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
                // Most objects have few fields, so that the list need not grow.
                let mut fields = Vec::with_capacity(8);
                while let Some((name, value)) = map.next_entry::<Json<'de>, Json<'de>>()? {
                    if let Json::Text(name) = name {
                        fields.push((name, value));
                    }
                }
                Ok(Json::Object(fields))
            }
        }
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => serializer.collect_seq(values),
            Self::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn json(text: &str) -> Json<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_field_of_an_unexpected_type_is_absent() {
        for value in ["null", "true", "1", "-1.5", "\"x\"", "[1,{}]", "{\"a\":[]}"] {
            let line = format!(r#"{{"more":0,"field":{value}}}"#);
            let record = json(&line);
            let field = &record["field"];
            assert_eq!(field.as_str().is_some(), value == "\"x\"");
            assert_eq!(field.as_u64(), (value == "1").then_some(1));
            assert_eq!(field.as_bool(), (value == "true").then_some(true));
            assert_eq!(field.is_object(), value == "{\"a\":[]}");
            assert_eq!(field.list().len(), if value == "[1,{}]" { 2 } else { 0 });
            assert!(record["other"].is_null() && field["b"]["c"].is_null());
            assert_eq!(serde_json::to_string(&record).unwrap(), line);
        }
    }

    #[test]
    fn times_of_any_kind() {
        for text in [
            "\"2026-01-21T10:00:01.500Z\"",
            "1768989601.5",
            "1768989601500",
            "1768989601500000",
        ] {
            let micros = json(text).time().map(Timestamp::micros);
            assert_eq!(micros, Some(1_768_989_601_500_000), "{text}");
        }
        for text in ["\"yesterday\"", "null", "-5", "{}"] {
            assert!(json(text).time().is_none(), "{text}");
        }
    }

    #[test]
    fn text_is_found_in_any_shape() {
        for (text, expected) in [
            (r#""one\ntwo""#, "one\ntwo"),
            (
                r#"[{"type":"text","text":"one"},{"text":"two"}]"#,
                "one\ntwo",
            ),
            (r#"["one",{"text":"two"}]"#, "one\ntwo"),
            (r#"{"output":"done"}"#, "done"),
            ("17", ""),
        ] {
            assert_eq!(json(text).any_text().as_str(), expected);
        }
    }
}
