//! The values of event fields.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ids::{EndEvidence, ExecutionId, PaneId};
use super::json::{Scan, push_string};
use super::links::{Link, Links};
use super::names::{AgentState, EnumOrUnknown, NamedValue};
use super::styles::Styles;
use crate::timestamp::Timestamp;

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

/// A question of an agent in full, as its dialogue shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialogue {
    /// The text above the choices, with its warnings, as lines; at most 4 KiB where this crate reads it.
    pub text: String,
    /// The choices, in their order; empty for a question that is answered by text.
    pub choices: Vec<DialogueChoice>,
    /// True in an event if the question was reported before, and only its dialogue is new, or another choice is
    /// selected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

#[cfg(feature = "cli")]
impl Dialogue {
    /// Returns true if an event reports a dialogue whose question was reported before.
    pub(crate) fn is_again(dialogue: Option<&Dialogue>) -> bool {
        dialogue.is_some_and(|dialogue| dialogue.again)
    }
}

/// What an agent has left running in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Background {
    /// The number of shells.
    pub shells: u32,
    /// The number of sub-agents.
    pub agents: u32,
}

impl Background {
    /// Returns true if nothing runs.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Background {
    /// Writes the numbers in words: `1 shell, 2 sub-agents still running`; nothing if nothing runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (count, what) in [(self.shells, "shell"), (self.agents, "sub-agent")] {
            if count > 0 {
                let plural = if count == 1 { "" } else { "s" };
                write!(f, "{separator}{count} {what}{plural}")?;
                separator = ", ";
            }
        }
        f.write_str(if separator.is_empty() {
            ""
        } else {
            " still running"
        })
    }
}

/// What a program reports of one of its children, such as a job or a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedChild {
    /// The id, as the program writes it: names with `/` between them.
    pub id: String,
    /// The state.
    pub state: EnumOrUnknown<AgentState>,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the child asks, or says of its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// The progress in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<u32>,
}

/// One choice of a dialogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogueChoice {
    /// The key that chooses it, as tmux names keys: `1`, `y`, `Enter`; several keys have blanks between them
    /// (`Right Enter`). Empty if no key is known.
    pub key: String,
    /// Its text.
    pub label: String,
    /// True if Enter chooses it.
    pub selected: bool,
}

/// A function that may change each text.
pub(crate) type TextVisitor<'a> = dyn FnMut(&mut String) + 'a;

/// A search: it receives texts until it returns true.
pub(crate) type TextSearch<'a> = dyn FnMut(&str) -> bool + 'a;

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
    /// Visits the texts of the value; ids have none.
    fn for_each_text(&mut self, _visit: &mut TextVisitor<'_>) {}
    /// Returns true if the search matches a text of the value.
    fn any_text(&self, _search: &mut TextSearch<'_>) -> bool {
        false
    }
}

impl EventField for Cursor {}
impl EventField for Timestamp {}
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
            Self::Unknown(name) => size_of::<Box<str>>() + name.as_str().len(),
        }
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        push_string(out, self.as_str());
        Ok(())
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        Some(scan.text()?.into())
    }
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        self.visit_unknown(visit);
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        T::IS_SEARCHED && search(self.as_str())
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
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        match self {
            Self::ToolError { tool, error } => {
                visit(tool);
                visit(error);
            }
            Self::LlmError { error } => visit(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => {}
        }
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        match self {
            Self::ToolError { tool, error } => search(tool) || search(error),
            Self::LlmError { error } => search(error),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => false,
        }
    }
}
/// Returns what an allocation of this size takes, in bytes. Most texts are short, and glibc adds a header of 8 bytes and
/// rounds up to 16, at least to 32.
const fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let chunk = bytes.saturating_add(8).next_multiple_of(16);
    if chunk < 32 { 32 } else { chunk }
}

/// Implements [`EventField`] for text, of which ids are not visited.
macro_rules! text_field {
    ($($type:ident by $scan:expr $(, visited by $visit:expr)?;)*) => { $(
        impl EventField for $type {
            fn heap_bytes(&self) -> usize {
                allocated_bytes(self.len())
            }
            fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                push_string(out, self);
                Ok(())
            }
            fn scan(scan: &mut Scan<'_>) -> Option<Self> {
                $scan(scan)
            }
            $(
                fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
                    $visit(self, visit);
                }
                fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
                    search(self)
                }
            )?
        }
    )* };
}
text_field! {
    String by |scan: &mut Scan<'_>| scan.text().map(str::to_owned),
        visited by |text: &mut Self, visit: &mut TextVisitor<'_>| visit(text);
    EndEvidence by |scan: &mut Scan<'_>| scan.text().map(Self::from),
        visited by |evidence: &mut Self, visit: &mut TextVisitor<'_>| {
            let mut text = evidence.to_string();
            visit(&mut text);
            *evidence = text.into();
        };
    PaneId by Scan::pane;
    ExecutionId by Scan::execution;
}
impl EventField for Box<String> {
    fn heap_bytes(&self) -> usize {
        size_of::<String>() + self.len()
    }
    fn push_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        (**self).push_json(out)
    }
    fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        String::scan(scan).map(Box::new)
    }
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(self);
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(self)
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
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(&mut self.text);
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(&self.text)
    }
}
impl EventField for Box<Dialogue> {
    fn heap_bytes(&self) -> usize {
        let choice = |choice: &DialogueChoice| {
            size_of::<DialogueChoice>() + choice.key.len() + choice.label.len()
        };
        let choices: usize = self.choices.iter().map(choice).sum();
        size_of::<Dialogue>() + self.text.len() + choices
    }
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        visit(&mut self.text);
        for choice in &mut self.choices {
            visit(&mut choice.label);
        }
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        search(&self.text) || self.choices.iter().any(|choice| search(&choice.label))
    }
}
impl EventField for ReportedChild {
    fn heap_bytes(&self) -> usize {
        let texts = self.title.iter().chain(&self.asks).map(String::len);
        size_of::<Self>() + self.id.len() + texts.sum::<usize>()
    }
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        let texts = self.title.iter_mut().chain(&mut self.asks);
        for text in texts.chain([&mut self.id]) {
            visit(text);
        }
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        let mut texts = self.title.iter().chain(&self.asks).chain([&self.id]);
        texts.any(|text| search(text))
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
        size_of_val(self.as_slice())
    }
    // Styles have no text.
    fn for_each_text(&mut self, _visit: &mut TextVisitor<'_>) {}
}
impl EventField for Links {
    fn absent() -> Option<Self> {
        Some(Self::default())
    }
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn heap_bytes(&self) -> usize {
        let links = self.as_slice().iter();
        links.map(|link| size_of::<Link>() + link.url.len()).sum()
    }
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        self.for_each_url(visit);
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        self.as_slice().iter().any(|link| search(&link.url))
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
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        for value in self {
            value.for_each_text(visit);
        }
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        self.iter().any(|value| value.any_text(search))
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
    fn for_each_text(&mut self, visit: &mut TextVisitor<'_>) {
        if let Some(value) = self {
            value.for_each_text(visit);
        }
    }
    fn any_text(&self, search: &mut TextSearch<'_>) -> bool {
        self.as_ref().is_some_and(|value| value.any_text(search))
    }
}
