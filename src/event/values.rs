//! The values of event fields.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::end_evidence::EndEvidence;
use super::ids::{ExecutionId, PaneId};
use super::json::push_string;
use super::open_enum::{EnumOrUnknown, NamedValue};
use super::scan::Scan;
use super::styles::{Style, Styles};

/// The outcome of one iteration of an agentic loop, serialized as serde does for an enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IterationOutcome {
    /// The check passed.
    ValidationPassed,
    /// The check ran and failed.
    ValidationFailed {
        /// The exit code of the check.
        exit_code: i32,
    },
    /// The agent used up its turns.
    MaxTurnsReached,
    /// A tool of the agent failed permanently.
    ToolError {
        /// The tool's name.
        tool: String,
        /// The tool's error message.
        error: String,
    },
    /// The model could not be reached, or refused the request.
    LlmError {
        /// The error message.
        error: String,
    },
}

/// The position of a screen's cursor, in character cells from 0 at the top left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The column.
    pub x: u32,
    /// The row.
    pub y: u32,
}

/// One row of a full-screen program's screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRow {
    /// The row's number, from 0 at the top.
    pub row: u32,
    /// The row's text, without trailing blanks.
    pub text: String,
}

/// A value of an event field.
pub(super) trait EventField: Serialize + DeserializeOwned {
    /// Returns the value of a field that is absent from the input, if the field is optional.
    fn absent() -> Option<Self> {
        None
    }
    /// Returns true if the field is omitted from the output.
    fn is_absent(&self) -> bool {
        false
    }
    /// Returns the heap memory of the value in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }
    /// Appends the value as JSON, byte for byte as serde writes it.
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(out, self)
    }
    /// Reads the value from a line, if it has the format in which this crate writes it.
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        scan.by_serde()
    }
}

impl EventField for Cursor {}
impl EventField for bool {
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        let is_true = scan.skip("true").is_some();
        if !is_true {
            scan.skip("false")?;
        }
        Some(is_true)
    }
}
/// Implements [`EventField`] for whole numbers.
macro_rules! number_field {
    ($($type:ident by $method:ident),*) => { $(
        impl EventField for $type {
            fn scan(scan: &mut Scan<'_>) -> Option<Self> {
                Self::try_from(scan.$method()?).ok()
            }
        }
    )* };
}
number_field!(i32 by signed, i64 by signed, u32 by number, u64 by number, usize by number);
impl<T: NamedValue> EventField for EnumOrUnknown<T> {
    fn absent() -> Option<Self> {
        T::ABSENT.map(Self::Known)
    }
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Known(_) => 0,
            Self::Unknown(name) => name.heap_bytes(),
        }
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        push_string(out, self.as_str());
        Ok(())
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        Some(scan.text()?.into())
    }
}
impl EventField for IterationOutcome {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::ToolError { tool, error } => tool.len() + error.len(),
            Self::LlmError { error } => error.len(),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => 0,
        }
    }
}
/// Implements [`EventField`] for text.
macro_rules! text_field {
    ($($type:ident by $scan:expr),*) => { $(
        impl EventField for $type {
            fn heap_bytes(&self) -> usize {
                self.len()
            }
            fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                push_string(out, self);
                Ok(())
            }
            fn scan(scan: &mut Scan<'_>) -> Option<Self> {
                $scan(scan)
            }
        }
    )* };
}
text_field!(
    String by |scan: &mut Scan<'_>| scan.text().map(str::to_owned),
    EndEvidence by |scan: &mut Scan<'_>| scan.text().map(Self::from),
    PaneId by Scan::pane,
    ExecutionId by Scan::execution
);
impl EventField for Box<String> {
    fn heap_bytes(&self) -> usize {
        size_of::<String>() + self.len()
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        push_string(out, self);
        Ok(())
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        String::scan(scan).map(Box::new)
    }
}
impl EventField for ScreenRow {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        scan.skip(r#"{"row":"#)?;
        let row = EventField::scan(scan)?;
        scan.skip(r#","text":"#)?;
        let text = EventField::scan(scan)?;
        scan.skip("}")?;
        Some(Self { row, text })
    }
}
impl EventField for Styles {
    fn absent() -> Option<Self> {
        Some(Self::default())
    }
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn heap_bytes(&self) -> usize {
        let styles = self.as_slice().iter();
        styles
            .map(|style| size_of::<Style>() + style.sgr.len())
            .sum()
    }
}
impl<T: EventField> EventField for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.iter().map(EventField::heap_bytes).sum()
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        scan.skip("[")?;
        let mut values = Self::new();
        if scan.skip("]").is_some() {
            return Some(values);
        }
        loop {
            values.push(T::scan(scan)?);
            if scan.skip(",").is_none() {
                scan.skip("]")?;
                return Some(values);
            }
        }
    }
}
impl<T: EventField> EventField for Option<T> {
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, EventField::heap_bytes)
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Some(value) => value.push_json(out),
            None => serde_json::to_writer(out, self),
        }
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        T::scan(scan).map(Some)
    }
}
