//! Text in any form: a string, a list of texts, or an object that contains one (pure).

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::lenient::default_visits;
use crate::agent::summary::TextPrefix;

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
    use super::*;

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
