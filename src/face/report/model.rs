//! What a report says: its rows, what needs the user, and what is wrong with the histories; also its JSON.

use serde::{Deserialize, Serialize, Serializer};

use super::foreign::{bounded, cost, gap_reason, kind, lenient, outcome, plain, run_state, spans};
use super::recent::ITEMS_MAX;
use super::text::Text;
use crate::board::bands::{Band, BandSpan};
use crate::event::IterationOutcome;
use crate::timestamp::Timestamp;

/// The version of the report's JSON.
pub(crate) const SCHEMA: u32 = 1;

/// The most rows, and the most runs, of another host that a report has: more than any board has.
const ROWS_MAX: usize = 10_000;

/// The columns of the names beside the bands on a terminal.
pub(super) const COLUMN: usize = 20;

/// A name of a closed set. An alias, because serde takes a reference for one into what it reads.
type Name = &'static str;

/// A report of a span of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub schema: u32,
    pub since: Timestamp,
    pub until: Timestamp,
    /// True if texts are left out.
    pub metadata_only: bool,
    /// The ids of the rows that need the user at the end of the span, the most urgent first.
    #[serde(skip_deserializing)]
    pub needs_you: Vec<String>,
    #[serde(skip_deserializing)]
    pub totals: Totals,
    /// The rows that were there within the span, those that need the user first.
    #[serde(deserialize_with = "bounded::<_, _, ROWS_MAX>")]
    pub rows: Vec<RowReport>,
    /// The histories of the span.
    #[serde(deserialize_with = "bounded::<_, _, ROWS_MAX>")]
    pub runs: Vec<RunReport>,
    /// What could not be read at all.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub problems: Vec<Text>,
    /// The hosts, if others than this one were asked.
    #[serde(skip_deserializing)]
    pub hosts: Vec<ReportedHost>,
}

/// A host whose report was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ReportedHost {
    /// Its name, or `local`; a number if texts are left out.
    pub name: String,
    /// False if its report is not here. The problems say why.
    pub is_read: bool,
}

impl Report {
    /// Returns true if nothing was observed, and nothing is wrong.
    pub fn is_empty(&self) -> bool {
        let is_fine = self.runs.iter().all(|run| !run.is_worth_a_word());
        let are_read = self.hosts.iter().all(|host| host.is_read);
        self.rows.is_empty() && is_fine && are_read && self.problems.is_empty()
    }
}

/// The figures of all rows together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub rows: u64,
    pub needs_you: u64,
    pub turns: u64,
    pub questions: u64,
    pub unanswered: u64,
    pub tool_calls: u64,
    pub tools_failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
    pub jobs: u64,
    pub jobs_failed: u64,
    pub errors: u64,
    pub gaps: u64,
    pub lost_lines: u64,
    pub dropped_events: u64,
    pub missing_events: u64,
}

/// What a row did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RowReport {
    /// The host, if it is another one; a number if texts are left out.
    #[serde(skip_deserializing)]
    pub host: Option<String>,
    /// The id of the row, as `status --json` has it; a number if texts are left out.
    #[serde(deserialize_with = "plain")]
    pub id: String,
    /// The id of the run; a number if texts are left out.
    #[serde(deserialize_with = "plain")]
    pub execution_id: String,
    pub name: Option<Text>,
    /// The name, with what tells it apart from others of the report.
    #[serde(skip)]
    pub title: Option<Text>,
    /// The same in [`COLUMN`] columns of a terminal.
    #[serde(skip)]
    pub column: Option<Text>,
    pub label: Option<Text>,
    pub pane: Option<Text>,
    #[serde(deserialize_with = "kind")]
    pub kind: Name,
    pub agent: Option<Text>,
    /// The band at the end of the span.
    #[serde(deserialize_with = "lenient")]
    pub state: Band,
    pub needs_you: bool,
    /// True if lists leave it out, because another row tells it: of the pane in which a command ran, or of the agent in a
    /// pane. Totals leave it out, too.
    pub told_elsewhere: bool,
    /// The part of the span in which it was known.
    pub from: Timestamp,
    pub until: Timestamp,
    pub end: End,
    #[serde(serialize_with = "bands", deserialize_with = "spans")]
    pub bands: Vec<BandSpan>,
    pub times_ms: Times,
    pub questions: Questions,
    pub turns: Turns,
    pub tools: Tools,
    pub tokens: Option<Tokens>,
    #[serde(deserialize_with = "cost")]
    pub cost_usd: Option<f64>,
    /// What an agent writes of its work itself.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub summaries: Vec<Said>,
    pub checks: Checks,
    pub jobs: Jobs,
    pub errors: Errors,
    pub gaps: Gaps,
    pub transcript: Option<Transcript>,
}

/// How a row ended, or what it does at the end of the span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    #[serde(deserialize_with = "lenient")]
    pub reason: Reason,
    /// In words, without what programs print.
    #[serde(deserialize_with = "plain")]
    pub words: String,
    /// What the program says of it.
    pub detail: Option<Text>,
    /// Since when it is so.
    pub at: Timestamp,
    /// The exit status, or `128 + n` for a signal.
    pub exit_status: Option<i32>,
    /// When the limit ends.
    pub limit_until: Option<Timestamp>,
    /// The last lines before a failure.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub lines: Vec<Text>,
}

/// Why a row ended, or what holds it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    Waiting,
    Error,
    Limited,
    Suspended,
    Working,
    Idle,
    Done,
    Completed,
    Failed,
    Killed,
    TimedOut,
    #[default]
    Ended,
    ServerGone,
    ObserverStopped,
    CutOff,
}

impl Reason {
    pub const ALL: [Self; 15] = [
        Self::Waiting,
        Self::Error,
        Self::Limited,
        Self::Suspended,
        Self::Working,
        Self::Idle,
        Self::Done,
        Self::Completed,
        Self::Failed,
        Self::Killed,
        Self::TimedOut,
        Self::Ended,
        Self::ServerGone,
        Self::ObserverStopped,
        Self::CutOff,
    ];
}

/// The time in each band within the span, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub waiting: u64,
    pub error: u64,
    pub limited: u64,
    pub suspended: u64,
    pub done: u64,
    pub working: u64,
    pub running: u64,
    pub unknown: u64,
    pub idle: u64,
    pub not_observed: u64,
}

impl Times {
    /// Adds the time of an activity, in milliseconds.
    pub fn add(&mut self, band: Band, ms: u64) {
        let time = match band {
            Band::Waiting => &mut self.waiting,
            Band::Error => &mut self.error,
            Band::Limited => &mut self.limited,
            Band::Suspended => &mut self.suspended,
            Band::Done => &mut self.done,
            Band::Working => &mut self.working,
            Band::Running => &mut self.running,
            Band::Unknown => &mut self.unknown,
            Band::Idle => &mut self.idle,
            Band::NotObserved => &mut self.not_observed,
            Band::Ended => return,
        };
        *time += ms;
    }

    /// Returns the time at work.
    pub fn at_work(&self) -> u64 {
        self.working.saturating_add(self.running)
    }

    /// Returns the time at rest.
    pub fn at_rest(&self) -> u64 {
        self.idle.saturating_add(self.done)
    }
}

/// The questions of a row within the span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Questions {
    pub count: u64,
    /// How many of them stayed open: until the end of the span, of the row, or of its observation.
    pub unanswered: u64,
    /// The longest wait within the span, in milliseconds.
    pub longest_wait_ms: u64,
    /// The last ones.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub items: Vec<Question>,
}

/// A question of an agent or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub from: Timestamp,
    /// The end of the wait; `None` while it is open.
    pub until: Option<Timestamp>,
    pub answered: bool,
    pub asks: Option<Text>,
    pub question_id: Option<Text>,
}

/// The turns that ended within the span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Turns {
    pub count: u64,
    /// The prompts within the span.
    pub prompts: u64,
    /// The last turns.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub items: Vec<Turn>,
}

/// A turn of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub began: Option<Timestamp>,
    pub ended: Timestamp,
    pub summary: Option<Text>,
    pub tool_calls: u64,
    pub tools_failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub source: Source,
}

/// Where a statement is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The log of td-observe.
    #[default]
    Log,
    /// The agent's own file.
    Transcript,
}

/// The tools that ended within the span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tools {
    pub calls: u64,
    pub failed: u64,
    /// By name, the most called first; empty if texts are left out.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub by_name: Vec<Tool>,
}

/// The calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub name: Text,
    pub calls: u64,
    pub failed: u64,
    pub duration_ms: u64,
}

/// The tokens that records state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    pub input: u64,
    pub output: u64,
}

impl Tokens {
    pub fn is_stated(self) -> bool {
        self != Self::default()
    }
}

/// A text with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub at: Option<Timestamp>,
    pub text: Text,
    #[serde(deserialize_with = "lenient")]
    pub source: Source,
}

/// The checks of a loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checks {
    pub passed: u64,
    pub failed: u64,
    /// The iterations that ended within the span.
    pub iterations: u64,
    /// The last outcomes.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub outcomes: Vec<Outcome>,
}

/// The outcome of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub at: Timestamp,
    pub iteration: u32,
    #[serde(deserialize_with = "outcome")]
    pub outcome: Name,
    pub exit_code: Option<i32>,
    pub detail: Option<Text>,
}

impl Outcome {
    /// Returns the name of an outcome.
    pub fn name(outcome: &IterationOutcome) -> &'static str {
        match outcome {
            IterationOutcome::ValidationPassed => "validation_passed",
            IterationOutcome::ValidationFailed { .. } => "validation_failed",
            IterationOutcome::MaxTurnsReached => "max_turns_reached",
            IterationOutcome::ToolError { .. } => "tool_error",
            IterationOutcome::LlmError { .. } => "llm_error",
        }
    }
}

/// The jobs of a pane's shell that ended within the span, or the cells of a kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Jobs {
    pub count: u64,
    pub failed: u64,
    /// The last ones that failed.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub items: Vec<Job>,
}

/// A job that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub at: Timestamp,
    pub command: Option<Text>,
    pub exit_status: Option<i32>,
    pub duration_ms: u64,
    /// The last lines that it printed.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub lines: Vec<Text>,
}

/// The errors within the span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Errors {
    pub count: u64,
    /// The last ones.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub items: Vec<ErrorReport>,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorReport {
    pub at: Timestamp,
    #[serde(deserialize_with = "lenient")]
    pub kind: ErrorKind,
    pub text: Option<Text>,
}

/// What an error is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    /// An operation failed: the event `Error`.
    #[default]
    Error,
    /// A background agent failed: `AgentFailed`.
    AgentFailed,
    /// An agent entered the state `error`.
    AgentError,
    /// An agent entered the state `limited`.
    Limit,
}

impl ErrorKind {
    pub const ALL: [Self; 4] = [
        Self::Error,
        Self::AgentFailed,
        Self::AgentError,
        Self::Limit,
    ];
}

/// What could not be observed within the span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Gaps {
    /// The confirmed gaps.
    pub count: u64,
    /// The gaps that are possible.
    pub possible: u64,
    /// The lines that were lost in confirmed gaps, where their number is known.
    pub lost_lines: u64,
    /// The last confirmed ones.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub items: Vec<Gap>,
}

/// A gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gap {
    pub at: Timestamp,
    pub lost_lines: Option<u64>,
    #[serde(deserialize_with = "gap_reason")]
    pub reason: Name,
}

/// What the agent's own files say beyond the log: of the times in which nothing observed them, of sub-agents, and what no
/// event has. The figures of the row have it, too, but for the last two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transcript {
    pub file: Option<Text>,
    pub turns: u64,
    pub prompts: u64,
    pub tool_calls: u64,
    pub tools_failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Tokens that were read from a cache or written to it, where the agent counts them apart; of all of the span.
    pub cached_input_tokens: u64,
    /// Tokens of thoughts, where the agent counts them apart; of all of the span.
    pub thought_tokens: u64,
}

impl Transcript {
    /// Returns the figures of two files.
    pub fn plus(self, other: Self) -> Self {
        Self {
            file: other.file.or(self.file),
            turns: self.turns + other.turns,
            prompts: self.prompts + other.prompts,
            tool_calls: self.tool_calls + other.tool_calls,
            tools_failed: self.tools_failed + other.tools_failed,
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input_tokens: (self.cached_input_tokens)
                .saturating_add(other.cached_input_tokens),
            thought_tokens: self.thought_tokens.saturating_add(other.thought_tokens),
        }
    }
}

/// The history of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunReport {
    /// The host, if it is another one; a number if texts are left out.
    #[serde(skip_deserializing)]
    pub host: Option<String>,
    #[serde(deserialize_with = "plain")]
    pub execution_id: String,
    /// `running`, `cut off`, `completed`, `failed`, `detached`; `unknown` for the log of another program.
    #[serde(deserialize_with = "run_state")]
    pub state: Name,
    /// True for the log of another program, or of another format.
    pub foreign: bool,
    /// True for a tmux session, which processes observe one after the other.
    #[serde(skip)]
    pub is_observed: bool,
    pub started: Timestamp,
    pub last_event: Timestamp,
    /// How many processes have written the log within the span beyond the first one.
    pub restarts: u64,
    /// Events that the log had to drop.
    pub dropped_events: u64,
    /// Events that were logged and are no longer there, as far as numbers show it.
    pub missing_events: u64,
    /// Lines that are no events.
    pub damaged_lines: u64,
    /// Files whose last line is incomplete.
    pub torn_files: u64,
    /// Parts that could not be read, and damage.
    #[serde(deserialize_with = "bounded::<_, _, ITEMS_MAX>")]
    pub problems: Vec<Text>,
}

impl RunReport {
    /// Returns true if the report says more of the run than its rows do.
    pub fn is_worth_a_word(&self) -> bool {
        self.is_damaged() || self.foreign || self.state == "cut off" || self.restarts > 0
    }

    /// Returns true if the log lacks something.
    pub fn is_damaged(&self) -> bool {
        let lacks = [
            self.dropped_events,
            self.missing_events,
            self.damaged_lines,
            self.torn_files,
        ];
        lacks.iter().any(|count| *count > 0) || !self.problems.is_empty()
    }
}

fn bands<S: Serializer>(bands: &[BandSpan], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize, Deserialize)]
    struct Span {
        state: Band,
        from: Timestamp,
        until: Timestamp,
    }
    serializer.collect_seq(bands.iter().map(|span| Span {
        state: span.band,
        from: span.from,
        until: span.until,
    }))
}
