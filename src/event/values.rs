//! What stands in the fields of events (pure).

use serde::{Deserialize, Serialize};

use super::ids::{ExecutionId, PaneId};
use super::json::push_string;
use super::styles::{Style, Styles};

/// How one iteration of an agentic loop ended; written as serde writes an enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IterationOutcome {
    /// The check passed.
    ValidationPassed,
    /// The check ran and failed.
    ValidationFailed {
        /// What the check exited with.
        exit_code: i32,
    },
    /// The agent used up its turns.
    MaxTurnsReached,
    /// A tool of the agent failed for good.
    ToolError {
        /// The tool's name.
        tool: String,
        /// What it said.
        error: String,
    },
    /// The model could not be asked.
    LlmError {
        /// What was answered instead.
        error: String,
    },
}

/// Where the cursor of a screen stands, counted from 0 at the top left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Column.
    pub x: u32,
    /// Row.
    pub y: u32,
}

/// One row of a full-screen program's screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRow {
    /// Counted from 0 at the top.
    pub row: u32,
    /// Its text, without trailing blanks.
    pub text: String,
}

/// How certain it is that lines are missing where an `OutputGap` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GapEvidence {
    /// Bytes or lines are unaccounted for.
    Confirmed,
    /// Nothing points to a loss, but it cannot be excluded. Also what a log says that was written
    /// before gaps had evidence.
    #[serde(other)]
    Possible,
}

impl GapEvidence {
    /// The evidence as the wire contract writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Possible => "possible",
        }
    }
}

/// A process's exit status, where it is known.
pub type ExitStatus = Option<i32>;
/// A number of lines, where it is known.
pub type LineCount = Option<u64>;
/// Text that may be absent.
pub type MaybeText = Option<String>;
/// The same for fields of which an event has several: all events have the size of the largest.
pub type MaybeLong = Option<Box<String>>;
/// A pane that may be absent.
pub type MaybePane = Option<PaneId>;
/// A process that may be absent.
pub type MaybePid = Option<u32>;
/// The panes of a session.
pub type PaneIds = Vec<PaneId>;
/// The changed rows of a screen.
pub type ScreenRows = Vec<ScreenRow>;

/// A value that can stand in an event's field.
pub(super) trait Field: Serialize + Sized {
    /// What stands for a field that is not in the text, if anything may.
    fn absent() -> Option<Self> {
        None
    }
    /// Whether the field is left out of the text.
    fn is_absent(&self) -> bool {
        false
    }
    /// Bytes held beyond the event itself.
    fn heap_bytes(&self) -> usize {
        0
    }
    /// Appends the value as JSON, byte for byte as serde writes it.
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(out, self)
    }
}

impl Field for bool {}
impl Field for i32 {}
impl Field for u32 {}
impl Field for i64 {}
impl Field for u64 {}
impl Field for usize {}
impl Field for Cursor {}
impl Field for GapEvidence {
    fn absent() -> Option<Self> {
        Some(Self::Possible)
    }
}
impl Field for IterationOutcome {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::ToolError { tool, error } => tool.len() + error.len(),
            Self::LlmError { error } => error.len(),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => 0,
        }
    }
}
/// Text in one form or another.
macro_rules! text_field {
    ($($type:ident),*) => { $(
        impl Field for $type {
            fn heap_bytes(&self) -> usize {
                self.len()
            }
            fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                push_string(out, self);
                Ok(())
            }
        }
    )* };
}
text_field!(String, PaneId, ExecutionId);
impl Field for Box<String> {
    fn heap_bytes(&self) -> usize {
        size_of::<String>() + self.len()
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        push_string(out, self);
        Ok(())
    }
}
impl Field for ScreenRow {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}
impl Field for Styles {
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
impl<T: Field> Field for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.iter().map(Field::heap_bytes).sum()
    }
}
impl<T: Field> Field for Option<T> {
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Field::heap_bytes)
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Some(value) => value.push_json(out),
            None => serde_json::to_writer(out, self),
        }
    }
}
