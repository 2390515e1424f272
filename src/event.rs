//! What happened, and how it is written: the event types, their ids and the envelope (wire schema 1).
//!
//! One table, [`event_table!`], lists every event with its fields; the enum, its reading and
//! writing, the kinds and the emitter's convenience methods all come from it. Field names and type
//! tags are promises: add, never rename.

mod envelope;
mod ids;
mod json;
mod lines;
mod log_gap;
mod styles;
mod text;
mod values;

use serde::Serializer;
use serde::de::{self, IgnoredAny, MapAccess};
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use envelope::Key;
pub use envelope::{Envelope, Extra};
pub use ids::{ExecutionId, PaneId};
pub(crate) use lines::lines_in;
pub(crate) use log_gap::{LogGapRange, LogGaps};
pub(crate) use styles::STYLES_MAX;
pub use styles::{Style, Styles};
pub(crate) use text::each_text_in;
use values::Field;
pub use values::{
    Cursor, ExitStatus, GapEvidence, IterationOutcome, LineCount, MaybeLong, MaybePane, MaybePid,
    MaybeText, PaneIds, ScreenRow, ScreenRows,
};

/// The version of the wire format, as the header line of each log file says it.
pub const SCHEMA: u32 = 1;

/// Hands the table of all events to a macro: documentation, type tag, method of the emitter, class
/// (`text` may be merged and dropped under load, `life` never is), fields. Those behind the semicolon are
/// no arguments of the method, which leaves them out.
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
            PromptSent prompt_sent life {
                iteration: u32, prompt_summary: String, token_count: u64; pane: MaybePane
            }
            /// A piece of the model's answer.
            TokenReceived token_received text { iteration: u32, token: String; pane: MaybePane }
            /// The model's answer is complete.
            ResponseCompleted response_completed life {
                iteration: u32, response_summary: String, input_tokens: u64, output_tokens: u64,
                has_tool_calls: bool; pane: MaybePane
            }
            /// A tool begins.
            ToolCallStarted tool_call_started life {
                iteration: u32, tool_name: String, tool_args_summary: String; pane: MaybePane
            }
            /// A tool has answered.
            ToolCallCompleted tool_call_completed life {
                iteration: u32, tool_name: String, success: bool, result_summary: String,
                duration_ms: u64; pane: MaybePane
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
            /// `styles` has the program's own colours, where the pane is streamed.
            OutputUpdate output_update text {
                pane: PaneId, first_line: i64, chunk: String, is_complete: bool, reason: MaybeText,
                exit_status: ExitStatus, styles: Styles
            }
            /// A line that is still on the screen reads differently now.
            OutputRevised output_revised text {
                pane: PaneId, line: i64, text: String, styles: Styles
            }
            /// The alternate screen of a full-screen program: the rows that changed.
            ScreenUpdate screen_update text {
                pane: PaneId, width: u32, height: u32, cursor: Cursor, rows: ScreenRows
            }
            /// Lines of a pane that were printed and could not be observed, why, and how certain that is.
            OutputGap output_gap life {
                pane: PaneId, first_line: i64, lost_lines: LineCount, reason: String,
                evidence: GapEvidence
            }
            /// Events that the log had to drop, first and last number included.
            LogGap log_gap life { first_seq: u64, last_seq: u64 }
            /// A child process begins; with a pane, a job in it: what its shell has started in the
            /// foreground, as the kernel or the shell itself (OSC 133) tells.
            ExecutionStarted execution_started life {
                command: String, cwd: String, pane: MaybePane, pid: MaybePid
            }
            /// A child process printed something.
            ExecutionOutput execution_output text { stream: String, text: String }
            /// It is over.
            ExecutionCompleted execution_completed life {
                exit_code: ExitStatus, signal: ExitStatus, duration_ms: u64, pane: MaybePane,
                pid: MaybePid
            }
            /// An agent finished its turn.
            TurnCompleted turn_completed life {
                marker: String, summary: String, pane: MaybePane, evidence: MaybeText;
                agent_id: MaybeLong
            }
            /// A background agent comes under observation.
            AgentRegistered agent_registered life { agent_id: String, output_file: String; pane: MaybePane }
            /// A background agent has finished its work.
            AgentCompleted agent_completed life {
                agent_id: String, result: String, evidence: String; pane: MaybePane
            }
            /// A background agent has failed.
            AgentFailed agent_failed life {
                agent_id: String, error: String, evidence: String; pane: MaybePane
            }
            /// An agent's state has changed, or what it asks for.
            AgentState agent_state life {
                agent_id: MaybeText, pane: MaybePane, state: String, evidence: String;
                agent: MaybeLong, source: MaybeLong, asks: MaybeLong, detail: MaybeLong
            }
            /// The screen of an agent in a pane, as text: when its state changes, and now and then.
            ScreenSnapshot screen_snapshot text {
                pane: PaneId, width: u32, height: u32, rows: ScreenRows
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

macro_rules! define_events {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $($field:ident $(| $alias:literal)? : $type:ident),*
            $(; $($more:ident : $more_type:ident),+)? $(,)?
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
            $( $(#[$doc])* $variant {
                execution_id: ExecutionId, $($field: $type,)* $($($more: $more_type),+)?
            }, )*
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
                    $( Self::$variant { $($field,)* $($($more,)+)? .. } => {
                        0 $(+ $field.heap_bytes())* $($(+ $more.heap_bytes())+)?
                    } )*
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
                        $($( let mut $more: Option<$more_type> = None; )+)?
                        while let Some(Key(key)) = map.next_key()? {
                            match &*key {
                                "execution_id" => execution_id = Some(map.next_value()?),
                                $( stringify!($field) $(| $alias)? => {
                                    $field = Some(map.next_value()?);
                                } )*
                                $($( stringify!($more) => $more = Some(map.next_value()?), )+)?
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
                            $($( $more: $more.unwrap_or_default(), )+)?
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

            /// Appends the event as JSON, byte for byte as serde writes it. The log writes every
            /// event this way: names of fields are ready-made text here, and known to need no
            /// escapes.
            ///
            /// # Errors
            /// What the serialiser says; `out` may then have a part of the event.
            pub(crate) fn write_json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                match self {
                    $( Self::$variant { execution_id, $($field,)* $($($more),+)? } => {
                        out.extend_from_slice(
                            concat!(r#"{"type":""#, stringify!($variant), r#"","execution_id":"#)
                                .as_bytes(),
                        );
                        execution_id.push_json(out)?;
                        $( if !$field.is_absent() {
                            out.extend_from_slice(
                                concat!(r#",""#, stringify!($field), r#"":"#).as_bytes(),
                            );
                            $field.push_json(out)?;
                        } )*
                        $($( if !$more.is_absent() {
                            out.extend_from_slice(
                                concat!(r#",""#, stringify!($more), r#"":"#).as_bytes(),
                            );
                            $more.push_json(out)?;
                        } )+)?
                        out.push(b'}');
                        Ok(())
                    } )*
                    Self::Unknown(_) => serde_json::to_writer(out, self),
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
                    $( Self::$variant { execution_id, $($field,)* $($($more),+)? } => {
                        map.serialize_entry("execution_id", execution_id)?;
                        $( if !$field.is_absent() {
                            map.serialize_entry(stringify!($field), $field)?;
                        } )*
                        $($( if !$more.is_absent() {
                            map.serialize_entry(stringify!($more), $more)?;
                        } )+)?
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
        self.fields
            .get("execution_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
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
            | Self::ScreenSnapshot { pane, .. }
            | Self::OutputGap { pane, .. } => Some(pane),
            Self::PromptSent { pane, .. }
            | Self::TokenReceived { pane, .. }
            | Self::ResponseCompleted { pane, .. }
            | Self::ToolCallStarted { pane, .. }
            | Self::ToolCallCompleted { pane, .. }
            | Self::AgentRegistered { pane, .. }
            | Self::AgentCompleted { pane, .. }
            | Self::AgentFailed { pane, .. }
            | Self::AgentState { pane, .. }
            | Self::TurnCompleted { pane, .. }
            | Self::ExecutionStarted { pane, .. }
            | Self::ExecutionCompleted { pane, .. } => pane.as_ref(),
            _ => None,
        }
    }
}
