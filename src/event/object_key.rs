//! Keys of JSON objects, borrowed from the input where possible.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A JSON object key, borrowed from the input where possible.
pub(super) struct ObjectKey<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for ObjectKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> de::Visitor<'de> for KeyVisitor {
            type Value = ObjectKey<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
