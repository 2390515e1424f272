//! Enum-like fields: a value that this version knows, or the text of a value from another version.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::borrowed_text::BorrowedText;

/// An enum whose values appear as names in events; see [`EnumOrUnknown`].
///
/// Only the enums of this crate implement it: no other crate can name it.
pub trait NamedValue: Copy + Eq + fmt::Debug {
    /// Returns the name that events contain.
    fn name(self) -> &'static str;

    /// Returns the value with this name, if there is one.
    fn from_name(name: &str) -> Option<Self>;

    /// The value of a field that is absent from an event, if the field is optional.
    const ABSENT: Option<Self> = None;

    /// True if a text search of an event includes the name.
    const IS_SEARCHED: bool = true;

    /// The names, each with the lines of its documentation.
    const DOCUMENTED: &'static [(&'static str, &'static [&'static str])];
}

/// A value of `T`, or the text of a value that this version does not know.
///
/// Later versions may add values. A reader keeps such an event, and writes the text back unchanged.
///
/// ```
/// use td_observe::{EnumOrUnknown, GapReason};
/// let reason = EnumOrUnknown::from(GapReason::Cleared);
/// assert_eq!(reason, GapReason::Cleared);
/// assert_eq!(reason.as_str(), "cleared");
/// let later = EnumOrUnknown::<GapReason>::from("eclipsed");
/// assert_eq!((later.known(), later.as_str()), (None, "eclipsed"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EnumOrUnknown<T> {
    /// A value that this version knows.
    Known(T),
    /// The text of a value that this version does not know.
    Unknown(UnknownName),
}

/// The text of a value that this version does not know; see [`EnumOrUnknown`].
///
/// It never equals the name of a known value, because only [`EnumOrUnknown`] creates it.
// Boxed twice: the field takes 16 bytes instead of 24, and unknown values are rare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownName(Box<Box<str>>);

impl UnknownName {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Box<str>>() + self.0.len()
    }
}

impl<T: NamedValue> EnumOrUnknown<T> {
    /// Returns the value's name as events contain it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(value) => value.name(),
            Self::Unknown(name) => name.as_str(),
        }
    }

    /// Returns the value, if this version knows it.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }

    /// Visits the text of an unknown value; the visitor may change it. Known names are constants of the wire
    /// contract and contain nothing to redact.
    pub(crate) fn visit_unknown(&mut self, visit: &mut dyn FnMut(&mut String)) {
        if let Self::Unknown(name) = self {
            let mut text = name.as_str().to_owned();
            visit(&mut text);
            *self = Self::from(text.as_str());
        }
    }
}

impl<T: NamedValue> From<T> for EnumOrUnknown<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: NamedValue> From<&str> for EnumOrUnknown<T> {
    fn from(text: &str) -> Self {
        match T::from_name(text) {
            Some(value) => Self::Known(value),
            None => Self::Unknown(UnknownName(Box::new(text.into()))),
        }
    }
}

impl<T: NamedValue> PartialEq<T> for EnumOrUnknown<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(*other)
    }
}

impl<T: NamedValue> fmt::Display for EnumOrUnknown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T: NamedValue> Serialize for EnumOrUnknown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: NamedValue> Deserialize<'de> for EnumOrUnknown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BorrowedText(name) = Deserialize::deserialize(deserializer)?;
        Ok((&*name).into())
    }
}

/// Declares enums whose values have names in events.
macro_rules! named_values {
    ($(
        $(#[$meta:meta])*
        $enum:ident $( ( $($const:ident: $type:ty = $constant:expr),+ ) )? {
            $( $(#[doc = $doc:literal])* $value:ident = $name:literal, )+
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $enum {
            $( $(#[doc = $doc])* $value, )+
        }

        impl $enum {
            /// All values that this version knows.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the value with this name, if this version knows it.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$value), )+
                    _ => None,
                }
            }

            /// Returns the name that events contain.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$value => $name, )+
                }
            }
        }

        impl $crate::event::open_enum::NamedValue for $enum {
            $( $( const $const: $type = $constant; )+ )?

            const DOCUMENTED: &'static [(&'static str, &'static [&'static str])] =
                &[$( ($name, &[$($doc),*]) ),+];

            fn name(self) -> &'static str {
                self.as_str()
            }

            fn from_name(name: &str) -> Option<Self> {
                Self::from_name(name)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    )+ };
}
pub(super) use named_values;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::names::{
        AgentState, CompletionReason, GapEvidence, GapReason, OutputStream, PaneCloseReason,
        SessionEndReason, StateEvidence, StateSource, TurnEvidence,
    };
    use super::*;

    /// Reads the JSON of a text as a value of `T`, checks the value, and writes it back.
    fn round_trip<T: NamedValue>(text: &str) -> String {
        let json = serde_json::to_string(text).unwrap();
        let value: EnumOrUnknown<T> = serde_json::from_str(&json).unwrap();
        assert_eq!(value.as_str(), text);
        assert_eq!(value.known(), T::from_name(text));
        assert_eq!(value, EnumOrUnknown::from(text));
        serde_json::to_string(&value).unwrap()
    }

    fn in_every_enum(text: &str) -> [String; 10] {
        [
            round_trip::<AgentState>(text),
            round_trip::<CompletionReason>(text),
            round_trip::<GapEvidence>(text),
            round_trip::<GapReason>(text),
            round_trip::<OutputStream>(text),
            round_trip::<PaneCloseReason>(text),
            round_trip::<SessionEndReason>(text),
            round_trip::<StateEvidence>(text),
            round_trip::<StateSource>(text),
            round_trip::<TurnEvidence>(text),
        ]
    }

    fn names<T: NamedValue>(all: &[T]) -> Vec<&'static str> {
        all.iter()
            .map(|value| {
                assert_eq!(T::from_name(value.name()), Some(*value));
                assert_eq!(EnumOrUnknown::from(value.name()), *value);
                value.name()
            })
            .collect()
    }

    #[test]
    fn every_known_name_is_written_back() {
        let all = [
            names(&AgentState::ALL),
            names(&CompletionReason::ALL),
            names(&GapEvidence::ALL),
            names(&GapReason::ALL),
            names(&OutputStream::ALL),
            names(&PaneCloseReason::ALL),
            names(&SessionEndReason::ALL),
            names(&StateEvidence::ALL),
            names(&StateSource::ALL),
            names(&TurnEvidence::ALL),
        ];
        for name in all.concat() {
            let json = serde_json::to_string(name).unwrap();
            assert!(in_every_enum(name).iter().all(|written| *written == json));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_back(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            for written in in_every_enum(&text) {
                prop_assert_eq!(&written, &json);
            }
        }
    }

    #[test]
    fn a_field_takes_less_memory_than_a_string() {
        assert_eq!(size_of::<EnumOrUnknown<GapReason>>(), 16);
        assert_eq!(size_of::<Option<EnumOrUnknown<GapReason>>>(), 16);
    }
}
