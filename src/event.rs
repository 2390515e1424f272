//! What happened, and how it is written: the event types, their ids and the envelope (wire schema 1).
//!
//! One table, [`event_table!`], lists every event with its fields; the enum, its reading and
//! writing, the kinds and the emitter's convenience methods all come from it. Field names and type
//! tags are promises: add, never rename.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{self, IgnoredAny, IntoDeserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::stamp::Timestamp;

/// The version of the wire format, as the header line of each log file says it.
pub const SCHEMA: u32 = 1;

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<&$name> for $name {
            fn from(id: &$name) -> Self {
                id.clone()
            }
        }
        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id! {
    /// Names one observed thing: a tmux session, a child process, a loop, an agent. Cheap to clone.
    ExecutionId
}
string_id! {
    /// Names one pane of a tmux server, as tmux does: `%7`. Cheap to clone.
    PaneId
}

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

/// A process's exit status, where it is known.
pub type ExitStatus = Option<i32>;
/// A number of lines, where it is known.
pub type LineCount = Option<u64>;
/// Text that may be absent.
pub type MaybeText = Option<String>;
/// A pane that may be absent.
pub type MaybePane = Option<PaneId>;
/// The panes of a session.
pub type PaneIds = Vec<PaneId>;
/// The changed rows of a screen.
pub type ScreenRows = Vec<ScreenRow>;

/// Hands the table of all events to a macro: documentation, type tag, method of the emitter, class
/// (`text` may be merged and dropped under load, `life` never is), fields.
macro_rules! event_table {
    ($callback:ident) => {
        $callback! {
            /// An agentic loop begins.
            LoopStarted loop_started life { loop_type: String, task_description | "task": String }
            /// A phase of a loop begins; phases are counted from 0.
            PhaseStarted phase_started life { phase_index: usize, phase_name: String, total_phases: usize }
            /// An iteration of a loop begins; iterations are counted from 1.
            IterationStarted iteration_started life { iteration: u32 }
            /// An iteration is over.
            IterationCompleted iteration_completed life { iteration: u32, outcome: IterationOutcome }
            /// A loop is over.
            LoopCompleted loop_completed life { success: bool, total_iterations: u32 }
            /// A prompt went to the model.
            PromptSent prompt_sent life { iteration: u32, prompt_summary: String, token_count: u64 }
            /// A piece of the model's answer.
            TokenReceived token_received text { iteration: u32, token: String }
            /// The model's answer is complete.
            ResponseCompleted response_completed life {
                iteration: u32, response_summary: String, input_tokens: u64, output_tokens: u64,
                has_tool_calls: bool
            }
            /// A tool begins.
            ToolCallStarted tool_call_started life {
                iteration: u32, tool_name: String, tool_args_summary: String
            }
            /// A tool has answered.
            ToolCallCompleted tool_call_completed life {
                iteration: u32, tool_name: String, success: bool, result_summary: String,
                duration_ms: u64
            }
            /// The check of a loop begins.
            ValidationStarted validation_started life { iteration: u32, command: String }
            /// The check printed a line.
            ValidationOutput validation_output text { iteration: u32, line: String, is_stderr: bool }
            /// The check is over.
            ValidationCompleted validation_completed life {
                iteration: u32, exit_code: i32, duration_ms: u64
            }
            /// Something failed.
            Error error life { context: String, message: String }
            /// Something is not as it should be, and work goes on.
            Warning warning life { context: String, message: String }
            /// A tmux session comes under observation: what its panes print from here on is seen.
            SessionStarted session_started life { session: String, panes: PaneIds }
            /// A tmux session has another name.
            SessionRenamed session_renamed life { from: String, to: String }
            /// A tmux session is gone (`closed`, `server_gone`) or no longer observed (`detached`).
            SessionEnded session_ended life { session: String, reason: String, exit_status: ExitStatus }
            /// A pane comes under observation.
            PaneOpened pane_opened life { pane: PaneId, width: u32, height: u32, command: String }
            /// A pane has another size, in character cells.
            PaneResized pane_resized life { pane: PaneId, width: u32, height: u32 }
            /// A pane is gone, or its program has ended.
            PaneClosed pane_closed life { pane: PaneId, reason: String, exit_status: ExitStatus }
            /// Settled lines of a pane: whole lines, each ended by `\n`; `first_line` numbers the first.
            OutputUpdate output_update text {
                pane: PaneId, first_line: i64, chunk: String, is_complete: bool, reason: MaybeText,
                exit_status: ExitStatus
            }
            /// A line that is still on the screen reads differently now.
            OutputRevised output_revised text { pane: PaneId, line: i64, text: String }
            /// The alternate screen of a full-screen program: the rows that changed.
            ScreenUpdate screen_update text {
                pane: PaneId, width: u32, height: u32, cursor: Cursor, rows: ScreenRows
            }
            /// Lines of a pane that were printed and could not be observed, and why.
            OutputGap output_gap life {
                pane: PaneId, first_line: i64, lost_lines: LineCount, reason: String
            }
            /// Events that the log had to drop, first and last number included.
            LogGap log_gap life { first_seq: u64, last_seq: u64 }
            /// A child process begins.
            ExecutionStarted execution_started life { command: String, cwd: String }
            /// A child process printed something.
            ExecutionOutput execution_output text { stream: String, text: String }
            /// A child process is over.
            ExecutionCompleted execution_completed life {
                exit_code: ExitStatus, signal: ExitStatus, duration_ms: u64
            }
            /// An agent finished its turn.
            TurnCompleted turn_completed life { marker: String, summary: String }
            /// A background agent comes under observation.
            AgentRegistered agent_registered life { agent_id: String, output_file: String }
            /// A background agent has finished its work.
            AgentCompleted agent_completed life { agent_id: String, result: String, evidence: String }
            /// A background agent has failed.
            AgentFailed agent_failed life { agent_id: String, error: String, evidence: String }
            /// An agent's state has changed.
            AgentState agent_state life {
                agent_id: MaybeText, pane: MaybePane, state: String, evidence: String
            }
            /// A source crashed and is back.
            PollerRestarted poller_restarted life { source: String, cause: String }
            /// The header of a log file; not part of the stream, never live.
            LogOpened log_opened life {
                schema: u32, version: String, host: String, pid: u32, first_seq: u64
            }
        }
    };
}
pub(crate) use event_table;

/// A value that can stand in an event's field.
trait Field: Sized {
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
}

impl Field for bool {}
impl Field for i32 {}
impl Field for u32 {}
impl Field for i64 {}
impl Field for u64 {}
impl Field for usize {}
impl Field for Cursor {}
impl Field for IterationOutcome {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::ToolError { tool, error } => tool.len() + error.len(),
            Self::LlmError { error } => error.len(),
            Self::ValidationPassed | Self::ValidationFailed { .. } | Self::MaxTurnsReached => 0,
        }
    }
}
impl Field for String {
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}
impl Field for PaneId {
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}
impl Field for ScreenRow {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
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
}

/// An object's key, borrowed from the input where that is possible.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> de::Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

macro_rules! define_events {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($field:ident $(| $alias:literal)? : $type:ident),* $(,)?
        }
    )*) => {
        /// What happened. Every event belongs to one execution.
        ///
        /// Written as an object with the variant's name as its `type`; fields that are `None` are
        /// left out. Types that this version does not know are kept as [`TdEvent::Unknown`].
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the fields are described by the wire contract in README")]
        pub enum TdEvent {
            $( $(#[$doc])* $variant { execution_id: ExecutionId, $($field: $type),* }, )*
            /// An event of a type that this version does not know, kept as it was read.
            Unknown(UnknownEvent),
        }

        /// The type of an event, as data: for filters, counts and tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $( $(#[$doc])* $variant, )*
            /// A type that this version does not know.
            Unknown,
        }

        impl EventKind {
            /// Every kind that this version knows, in the order of the wire contract.
            pub const ALL: &[EventKind] = &[$(EventKind::$variant),*];

            /// The type tag, as it is written.
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => stringify!($variant), )*
                    Self::Unknown => "Unknown",
                }
            }

            /// The kind with this type tag.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( stringify!($variant) => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        impl TdEvent {
            /// The execution that the event belongs to.
            pub fn execution_id(&self) -> &str {
                match self {
                    $( Self::$variant { execution_id, .. } => execution_id, )*
                    Self::Unknown(event) => event.execution_id(),
                }
            }

            /// The execution's id, shared; `None` for an unknown event.
            pub(crate) fn execution(&self) -> Option<&ExecutionId> {
                match self {
                    $( Self::$variant { execution_id, .. } => Some(execution_id), )*
                    Self::Unknown(_) => None,
                }
            }

            /// Gives the event to another execution.
            pub(crate) fn set_execution_id(&mut self, id: &ExecutionId) {
                match self {
                    $( Self::$variant { execution_id, .. } => *execution_id = id.clone(), )*
                    Self::Unknown(event) => {
                        event.fields.insert("execution_id".to_owned(), id.as_str().into());
                    }
                }
            }

            /// The type of the event.
            pub fn kind(&self) -> EventKind {
                match self {
                    $( Self::$variant { .. } => EventKind::$variant, )*
                    Self::Unknown(_) => EventKind::Unknown,
                }
            }

            /// The type tag, as it is written.
            pub fn type_name(&self) -> &str {
                match self {
                    Self::Unknown(event) => &event.type_name,
                    known => known.kind().name(),
                }
            }

            /// Whether this is output text, which may be merged for viewers and dropped (and
            /// counted) when the log has no room. All else is life cycle: never merged, and the
            /// last to be refused. The end of a pane's output is life cycle, whatever text it has.
            pub fn is_text(&self) -> bool {
                match self {
                    Self::OutputUpdate { is_complete: true, .. } => false,
                    $( Self::$variant { .. } => class!($class), )*
                    Self::Unknown(_) => false,
                }
            }

            /// How many bytes of memory the event takes, near enough to bound a queue by.
            pub fn memory_bytes(&self) -> usize {
                size_of::<Self>() + match self {
                    $( Self::$variant { $($field,)* .. } => 0 $(+ $field.heap_bytes())*, )*
                    // A guess at what a parsed object costs against its text.
                    Self::Unknown(event) => 32 + event.fields.len() * 128,
                }
            }

            /// Reads the fields that follow the type tag; what is not known goes to `extra`.
            fn read_fields<'de, A: MapAccess<'de>>(
                type_name: &str,
                mut map: A,
                extra: &mut Map<String, Value>,
            ) -> Result<Self, A::Error> {
                match type_name {
                    $( stringify!($variant) => {
                        let mut execution_id: Option<ExecutionId> = None;
                        $( let mut $field: Option<$type> = None; )*
                        while let Some(Key(key)) = map.next_key()? {
                            match &*key {
                                "execution_id" => execution_id = Some(map.next_value()?),
                                $( stringify!($field) $(| $alias)? => {
                                    $field = Some(map.next_value()?);
                                } )*
                                "type" => { map.next_value::<IgnoredAny>()?; }
                                _ => { extra.insert(key.into_owned(), map.next_value()?); }
                            }
                        }
                        Ok(Self::$variant {
                            execution_id: execution_id
                                .ok_or_else(|| de::Error::missing_field("execution_id"))?,
                            $( $field: $field
                                .or_else(<$type as Field>::absent)
                                .ok_or_else(|| de::Error::missing_field(stringify!($field)))?, )*
                        })
                    } )*
                    unknown => {
                        let mut fields = Map::new();
                        while let Some((key, value)) = map.next_entry::<String, Value>()? {
                            fields.insert(key, value);
                        }
                        Ok(Self::Unknown(UnknownEvent { type_name: unknown.to_owned(), fields }))
                    }
                }
            }

            /// Writes the event with `extra` fields behind its own.
            fn write<S: Serializer>(
                &self,
                serializer: S,
                extra: &Map<String, Value>,
            ) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", self.type_name())?;
                match self {
                    $( Self::$variant { execution_id, $($field),* } => {
                        map.serialize_entry("execution_id", execution_id)?;
                        $( if !$field.is_absent() {
                            map.serialize_entry(stringify!($field), $field)?;
                        } )*
                    } )*
                    Self::Unknown(event) => {
                        for (key, value) in &event.fields {
                            map.serialize_entry(key, value)?;
                        }
                    }
                }
                for (key, value) in extra {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    };
}

macro_rules! class {
    (text) => {
        true
    };
    (life) => {
        false
    };
}

event_table!(define_events);

/// An event of a type that this version does not know: kept, passed on, written back.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownEvent {
    type_name: String,
    fields: Map<String, Value>,
}

impl UnknownEvent {
    /// The event's type tag.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// All fields but the type.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    fn execution_id(&self) -> &str {
        self.fields.get("execution_id").and_then(Value::as_str).unwrap_or_default()
    }
}

impl TdEvent {
    /// The pane that the event is about, if it is about one.
    pub fn pane(&self) -> Option<&PaneId> {
        match self {
            Self::PaneOpened { pane, .. }
            | Self::PaneResized { pane, .. }
            | Self::PaneClosed { pane, .. }
            | Self::OutputUpdate { pane, .. }
            | Self::OutputRevised { pane, .. }
            | Self::ScreenUpdate { pane, .. }
            | Self::OutputGap { pane, .. } => Some(pane),
            Self::AgentState { pane, .. } => pane.as_ref(),
            _ => None,
        }
    }
}

/// Reads an event and keeps its unknown fields in the map.
struct EventSeed<'a>(&'a mut Map<String, Value>);

impl<'de> de::DeserializeSeed<'de> for EventSeed<'_> {
    type Value = TdEvent;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TdEvent, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for EventSeed<'_> {
    type Value = TdEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event: an object with a type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TdEvent, A::Error> {
        let Some(Key(first)) = map.next_key()? else {
            return Err(de::Error::missing_field("type"));
        };
        if first == "type" {
            let Key(type_name) = map.next_value()?;
            return TdEvent::read_fields(&type_name, map, self.0);
        }
        // Another writer put the type elsewhere: read all of it first.
        let mut fields = Map::new();
        fields.insert(first.into_owned(), map.next_value()?);
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            fields.insert(key, value);
        }
        let type_name = match fields.remove("type") {
            Some(Value::String(name)) => name,
            _ => return Err(de::Error::missing_field("type")),
        };
        let fields = de::value::MapDeserializer::new(
            fields.into_iter().map(|(key, value)| (key, value.into_deserializer())),
        );
        TdEvent::read_fields(&type_name, fields, self.0)
            .map_err(|error: serde_json::Error| de::Error::custom(error))
    }
}

impl<'de> Deserialize<'de> for TdEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventSeed(&mut Map::new()))
    }
}

impl Serialize for TdEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(serializer, &Map::new())
    }
}

/// Fields that this version does not know, kept so that reading and writing loses nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// Beside `seq`, `ts` and `event`.
    pub envelope: Map<String, Value>,
    /// Inside the event.
    pub event: Map<String, Value>,
}

/// An event as it travels and is stored: numbered and dated.
///
/// ```
/// use td_observe::{Envelope, TdEvent};
/// let line = r#"{"seq":42,"ts":"2026-01-21T10:00:01.123456Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#;
/// let envelope: Envelope = serde_json::from_str(line).unwrap();
/// assert_eq!(envelope.seq, Some(42));
/// assert!(matches!(envelope.event, TdEvent::IterationStarted { iteration: 1, .. }));
/// assert_eq!(serde_json::to_string(&envelope).unwrap(), line);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The event's number in its run, from 1; `None` for what is shown live and never logged
    /// (passing states of a line between two that are kept) and for logs older than numbers.
    pub seq: Option<u64>,
    /// When it was emitted.
    pub ts: Timestamp,
    /// How many events this one stands for: more than 1 where a viewer's lane merged text.
    pub n: u64,
    /// What happened.
    pub event: TdEvent,
    /// Unknown fields, if there were any.
    pub extra: Option<Box<Extra>>,
}

impl Envelope {
    /// An envelope for one event.
    pub fn new(seq: Option<u64>, ts: Timestamp, event: TdEvent) -> Self {
        Self { seq, ts, n: 1, event, extra: None }
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct EventWithExtra<'a>(&'a TdEvent, &'a Map<String, Value>);
        impl Serialize for EventWithExtra<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.write(serializer, self.1)
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("ts", &self.ts)?;
        if self.n != 1 {
            map.serialize_entry("n", &self.n)?;
        }
        match &self.extra {
            None => map.serialize_entry("event", &self.event)?,
            Some(extra) => {
                map.serialize_entry("event", &EventWithExtra(&self.event, &extra.event))?;
                for (key, value) in &extra.envelope {
                    map.serialize_entry(key, value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> de::Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an envelope: an object with ts and event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
                let (mut seq, mut ts, mut n, mut event) = (None, None, 1, None);
                let mut extra = Extra::default();
                while let Some(Key(key)) = map.next_key()? {
                    match &*key {
                        "seq" => seq = map.next_value()?,
                        "ts" => ts = Some(map.next_value()?),
                        "n" => n = map.next_value()?,
                        "event" => event = Some(map.next_value_seed(EventSeed(&mut extra.event))?),
                        _ => {
                            extra.envelope.insert(key.into_owned(), map.next_value()?);
                        }
                    }
                }
                let known = extra.envelope.is_empty() && extra.event.is_empty();
                Ok(Envelope {
                    seq,
                    ts: ts.ok_or_else(|| de::Error::missing_field("ts"))?,
                    n,
                    event: event.ok_or_else(|| de::Error::missing_field("event"))?,
                    extra: (!known).then(|| Box::new(extra)),
                })
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}
