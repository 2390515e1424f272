//! The states, reasons and kinds of evidence in events: a value that this version knows, or the text of a
//! value from another version.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::json::BorrowedText;

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
/// use td_observe::event::{EnumOrUnknown, GapReason};
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

        impl $crate::event::names::NamedValue for $enum {
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

// The states, reasons and kinds of evidence that appear in events.

named_values! {
    /// The reason why a session is no longer observed, in [`TdEvent::SessionEnded`](super::TdEvent::SessionEnded).
    SessionEndReason {
        /// The session has closed.
        Closed = "closed",
        /// The session's tmux server has ended.
        ServerGone = "server_gone",
        /// The observer has stopped; the session continues.
        Detached = "detached",
    }

    /// The reason why a pane is no longer observed, in [`TdEvent::PaneClosed`](super::TdEvent::PaneClosed).
    PaneCloseReason {
        /// The pane has closed, or its program has ended.
        Closed = "closed",
        /// The pane now belongs to another session.
        Moved = "moved",
    }

    /// The verdict on code before it runs, in [`TdEvent::ExecutionStarted`](super::TdEvent::ExecutionStarted).
    Verification {
        /// The code is complete.
        Correct = "correct",
        /// The code is invalid or incomplete.
        Incorrect = "incorrect",
    }

    /// The viewer of a pane, in [`TdEvent::PaneSeen`](super::TdEvent::PaneSeen) and
    /// [`TdEvent::RowDismissed`](super::TdEvent::RowDismissed).
    PaneViewer {
        /// A client of the tmux server, whose current window contains the pane.
        Client = "client",
        /// A face of this program, which showed the pane's output.
        Face = "face",
    }

    /// The reason why a pane's output is complete up to here, in
    /// [`TdEvent::OutputUpdate`](super::TdEvent::OutputUpdate).
    CompletionReason {
        /// The pane's program has ended.
        Exit = "exit",
        /// An agent has printed the marker of a turn's end.
        Turn = "turn",
        /// An agent's turn seems to have ended: its screen no longer changes, and no marker was printed.
        Inferred = "inferred",
    }

    /// The reason why printed lines could not be observed, in
    /// [`TdEvent::OutputGap`](super::TdEvent::OutputGap).
    GapReason {
        /// tmux removed the lines from a full history before they were captured.
        HistoryTrimmed = "history_trimmed",
        /// The capture fits several explanations; lines may be missing.
        Ambiguous = "ambiguous",
        /// The pane closed, and its last output was perhaps not read. The end of a shell at its prompt is
        /// `ambiguous`.
        Closed = "closed",
        /// The lines arrived faster than they could be processed, and were only counted.
        Dropped = "dropped",
        /// The pane was not captured in time.
        Timeout = "timeout",
        /// The screen or the history was erased, perhaps with lines that were not captured.
        Cleared = "cleared",
        /// The pane's width has changed, and its text no longer matches the previous capture.
        Resized = "resized",
        /// The lines exceed the size of one capture.
        Truncated = "truncated",
        /// No observer ran.
        ObserverAbsent = "observer_absent",
    }

    /// The certainty that lines are missing at an [`TdEvent::OutputGap`](super::TdEvent::OutputGap).
    GapEvidence(IS_SEARCHED: bool = false, ABSENT: Option<Self> = Some(Self::Possible)) {
        /// Bytes or lines are unaccounted for.
        Confirmed = "confirmed",
        /// A loss cannot be excluded, although nothing indicates one. Also the value for logs written before
        /// this field existed.
        Possible = "possible",
    }

    /// The stream to which a child process printed, in
    /// [`TdEvent::ExecutionOutput`](super::TdEvent::ExecutionOutput).
    OutputStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }

    /// The evidence for the end of a turn, in [`TdEvent::TurnCompleted`](super::TdEvent::TurnCompleted).
    TurnEvidence {
        /// The agent printed a marker; events leave the field out instead.
        Marker = "marker",
        /// The agent's own transcript ends the turn.
        Transcript = "transcript",
        /// The agent's status file reports the end.
        Status = "status",
        /// The agent's screen shows the end.
        Screen = "screen",
        /// The agent is inactive, and no source states that the turn has ended.
        Inferred = "inferred",
    }

    /// The state of an agent, in [`TdEvent::AgentState`](super::TdEvent::AgentState).
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    AgentState {
        /// The agent works.
        Working = "working",
        /// The agent asks a human for permission, an answer, or a decision on a plan.
        Waiting = "waiting",
        /// The agent accepts input, and no work of it was observed.
        Idle = "idle",
        /// The screen shows that a turn has ended.
        Done = "done",
        /// The turn has ended in an error.
        Error = "error",
        /// A usage limit is reached.
        Limited = "limited",
        /// The agent is stopped, as by Ctrl-Z, and a shell has the terminal.
        Suspended = "suspended",
        /// An agent runs, and nothing shows what it does.
        Unknown = "unknown",
    }

    /// The certainty of an agent's state, in [`TdEvent::AgentState`](super::TdEvent::AgentState).
    StateEvidence {
        /// The source states the state explicitly.
        Confirmed = "confirmed",
        /// The state is inferred from the source's content.
        Inferred = "inferred",
    }

    /// The source of an agent's state, in [`TdEvent::AgentState`](super::TdEvent::AgentState); the
    /// first has the highest authority.
    #[derive(PartialOrd, Ord)]
    StateSource {
        /// The agent's process: it is suspended, or has ended.
        Process = "process",
        /// The agent's status file.
        StatusFile = "status_file",
        /// What the program reports of its status through its terminal (`OSC 7501`).
        Report = "report",
        /// The agent's transcript of the conversation.
        Transcript = "transcript",
        /// The title that the agent gives its pane.
        Title = "title",
        /// A desktop notification that the agent sends through its terminal.
        Notification = "notification",
        /// A hook that the agent runs.
        Hook = "hook",
        /// The agent's screen, read by rules.
        Screen = "screen",
    }
}

/// The end of a loop or of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The loop reached its goal, or the tool succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

/// The tools that a model's answer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCalls {
    /// The answer requests tools.
    Requested,
    /// The answer requests no tools.
    Absent,
}

#[cfg(test)]
mod tests {

    use super::*;
    use proptest::prelude::*;

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
