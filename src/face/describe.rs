//! Describes events in words for console, tree, terminal UI, recordings and text exports (pure).
//!
//! The output of programs is not described; the faces show it unchanged.

use super::sanitize::Tone;
use crate::event::{
    AgentState, Background, Dialogue, EnumOrUnknown, GapEvidence, GapReason, IterationOutcome,
    PaneCloseReason, PaneViewer, SessionEndReason, StateSource, TdEvent, TurnEvidence,
};
use crate::observe::PIPE_CONTEXT;
use crate::track::ProcessExit;

/// Describes an event; returns `None` for text, and for events without a description. `is_verbose` adds the
/// evidence for an agent's state.
pub(super) fn describe(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    describe_agent(event, is_verbose)
        .or_else(|| describe_job(event))
        .or_else(|| describe_source(event))
}

// The description of an event, and how a face writes it (pure).

/// The beginning of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With a label: `[tool] Bash`.
    Labelled(&'static str),
    /// A statement without a label: `[turn completed]`.
    Statement,
    /// Reports missing text: `… 3 lines lost`.
    Missing,
}

/// An event in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub form: Form,
    pub tone: Tone,
    pub text: String,
    /// The number of a kernel's cell.
    cell: Option<u32>,
    duration_ms: Option<u64>,
    /// True if only verbose output shows the description.
    pub is_detail: bool,
}

impl Description {
    pub fn labelled(label: &'static str, tone: Tone, text: String) -> Self {
        Self::new(Form::Labelled(label), tone, text)
    }

    pub fn statement(tone: Tone, text: String) -> Self {
        Self::new(Form::Statement, tone, text)
    }

    pub fn missing(text: String) -> Self {
        Self::new(Form::Missing, Tone::Caution, text)
    }

    fn new(form: Form, tone: Tone, text: String) -> Self {
        Self {
            form,
            tone,
            text,
            cell: None,
            duration_ms: None,
            is_detail: false,
        }
    }

    fn after(mut self, duration_ms: u64) -> Self {
        self.duration_ms = Some(duration_ms);
        self
    }

    fn of_cell(mut self, cell: Option<u32>) -> Self {
        self.cell = cell;
        self
    }

    fn detail_if(mut self, is_detail: bool) -> Self {
        self.is_detail = is_detail;
        self
    }

    /// Returns the label before the text, for faces that set it apart; `None` for a statement.
    pub fn label(&self) -> Option<&'static str> {
        match self.form {
            Form::Labelled(label) => Some(label),
            Form::Statement => None,
            Form::Missing => Some("missing"),
        }
    }

    /// Returns the label of a labelled description, with the number of its cell: `code 2`.
    pub fn numbered_label(&self) -> Option<String> {
        let label = self.label()?;
        Some(match self.cell {
            None => label.to_owned(),
            Some(cell) => format!("{label} {cell}"),
        })
    }

    pub fn text_with_duration(&self) -> String {
        match self.duration_ms {
            None => self.text.clone(),
            Some(ms) => format!("{} after {}", self.text, duration(ms)),
        }
    }

    /// Returns the text with its mark: `[tool] Bash`, `[turn completed]`, `… 3 lines lost`.
    pub fn marked(&self) -> String {
        let text = self.text_with_duration();
        match (self.form, self.numbered_label()) {
            (Form::Missing, _) => format!("… {text}"),
            (_, Some(label)) => format!("[{label}] {text}"),
            (_, None) => format!("[{text}]"),
        }
    }

    /// Returns the text without marks, for titles and markers.
    pub fn plain(&self) -> String {
        let text = self.text_with_duration();
        match self.numbered_label().filter(|_| self.form != Form::Missing) {
            Some(label) => format!("{label} {text}"),
            None => text,
        }
    }
}

/// Returns `subject: text`, with at most the beginning of a long text; `subject` alone if the text is empty.
fn with_text(subject: &str, text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return subject.to_owned();
    }
    // The event has all of it.
    format!("{subject}: {}", beginning(text, 300))
}

/// Returns at most `chars_max` characters of a text, with an ellipsis if it is cut.
pub(super) fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

// Phrases that several descriptions share: outcomes, durations, counts (pure).

/// Returns how a program ended: `exit code 7`, `signal 9 (KILL)`.
pub(super) fn end_in_words(exit_code: Option<i32>, signal: Option<i32>) -> String {
    match (signal, exit_code) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "unknown end".to_owned(),
    }
}

/// Returns `success`, or `failure` with its reason.
pub(super) fn verdict(
    (exit_code, signal): (Option<i32>, Option<i32>),
    (success, failure): (&str, &str),
) -> (Tone, String) {
    if (exit_code, signal) == (Some(0), None) {
        return (Tone::Good, success.to_owned());
    }
    let why = end_in_words(exit_code, signal);
    (Tone::Alarm, format!("{failure}: {why}"))
}

/// Returns the name of a signal that has the same number on every system, because a log may come from another
/// one.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        5 => "TRAP",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        _ => return None,
    })
}

/// Formats a duration: `0.03 s`, `1.5 s`, `2 min 5 s`, `1 h 3 min`.
pub(crate) fn duration(ms: u64) -> String {
    // Rounded before the unit is chosen, so that no unit overflows (`60.0 s`).
    let rounded = |unit: u64| ms.saturating_add(unit / 2) / unit;
    let (hundredths, tenths, seconds, minutes) =
        (rounded(10), rounded(100), rounded(1000), rounded(60_000));
    if hundredths < 100 {
        format!("0.{hundredths:02} s")
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if seconds < 3600 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

/// Formats a count: `1 line`, `2 lines`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Reports the events that a slow subscriber missed.
pub(super) fn lagged(missed: u64) -> String {
    let verb = if missed == 1 { "was" } else { "were" };
    let events = count(missed, "event");
    format!("{events} {verb} not shown: reading was too slow")
}

/// The exit status of a program whose pane was killed (128 + SIGHUP), which is not a failure.
pub(super) const HUNG_UP: i32 = ProcessExit::HUNG_UP;

/// Returns the exit status as text to append, if it is a failure.
fn failed_status(exit_status: Option<i32>) -> Option<String> {
    let status = exit_status.filter(|status| !matches!(*status, 0 | HUNG_UP))?;
    Some(format!(", exit status {status}"))
}

// Describes commands, checks and the progress of loops (pure).

fn describe_job(event: &TdEvent) -> Option<Description> {
    let labelled = Description::labelled;
    Some(match event {
        TdEvent::ExecutionStarted { command, cell, .. } => match cell {
            Some(_) => {
                let mut lines = command.lines().skip_while(|line| line.trim().is_empty());
                let first = lines.next().unwrap_or_default().trim_end();
                let more = match lines.count() {
                    0 => String::new(),
                    more => format!(" (and {})", count(more as u64, "more line")),
                };
                labelled("code", Tone::Plain, format!("{first}{more}")).of_cell(*cell)
            }
            None => labelled("command", Tone::Plain, command.clone()),
        },
        TdEvent::ExecutionCompleted {
            exit_code,
            signal,
            duration_ms,
            cell,
            ..
        } => {
            let (tone, verdict) = verdict((*exit_code, *signal), ("SUCCESS", "FAILURE"));
            labelled("execution_status", tone, verdict)
                .of_cell(*cell)
                .after(*duration_ms)
        }
        TdEvent::ValidationStarted { command, .. } => {
            labelled("validation", Tone::Plain, command.clone())
        }
        TdEvent::ValidationCompleted {
            exit_code,
            duration_ms,
            ..
        } => {
            let (tone, verdict) = verdict((Some(*exit_code), None), ("PASSED", "FAILED"));
            labelled("validation", tone, verdict).after(*duration_ms)
        }
        TdEvent::LoopStarted {
            task_description,
            phases,
            ..
        } => {
            let task = first_line(task_description);
            let text = match phases.as_deref() {
                Some(phases @ [_, _, ..]) => format!("{task} ({})", phases_ahead(phases)),
                _ => task,
            };
            labelled("loop", Tone::Plain, text)
        }
        TdEvent::PhaseStarted {
            phase_index,
            phase_name,
            total_phases,
            ..
        } => {
            let number = phase_index.saturating_add(1);
            let text = format!("{number} of {total_phases}: {phase_name}");
            labelled("phase", Tone::Plain, text)
        }
        TdEvent::IterationStarted { iteration, .. } => {
            labelled("iteration", Tone::Plain, format!("{iteration} begins"))
        }
        TdEvent::IterationCompleted {
            iteration, outcome, ..
        } => {
            use IterationOutcome::{
                LlmError, MaxTurnsReached, ToolError, ValidationFailed, ValidationPassed,
            };
            let (tone, reason) = match outcome {
                ValidationPassed => (Tone::Good, "the check passed".to_owned()),
                ValidationFailed { exit_code } => {
                    let text = format!("not done: the check failed with exit code {exit_code}");
                    (Tone::Caution, text)
                }
                MaxTurnsReached => {
                    let text = "not done: the agent used up its turns".to_owned();
                    (Tone::Caution, text)
                }
                ToolError { tool, error } => {
                    (Tone::Alarm, format!("the tool {tool} failed: {error}"))
                }
                LlmError { error } => (Tone::Alarm, format!("no answer: {error}")),
            };
            labelled("iteration", tone, format!("{iteration}: {reason}"))
        }
        TdEvent::LoopCompleted {
            success,
            total_iterations,
            ..
        } => {
            let (tone, word) = if *success {
                (Tone::Good, "SUCCEEDED")
            } else {
                (Tone::Alarm, "FAILED")
            };
            let iterations = count(u64::from(*total_iterations), "iteration");
            labelled("loop", tone, format!("{word} after {iterations}"))
        }
        _ => return None,
    })
}

/// Returns the phases ahead of a loop in their order: `Form → Session`.
pub(super) fn phases_ahead(phases: &[String]) -> String {
    phases.join(" → ")
}

/// Returns the first line of a task, with an ellipsis if more follows.
fn first_line(task: &str) -> String {
    let task = task.trim();
    let line = task.lines().next().unwrap_or_default();
    let shown = beginning(line, 200);
    if line.len() < task.len() && shown.len() == line.len() {
        shown + "…"
    } else {
        shown
    }
}

// Describes sessions, panes, gaps, warnings and errors (pure).

fn describe_source(event: &TdEvent) -> Option<Description> {
    let (labelled, statement) = (Description::labelled, Description::statement);
    let detail = |text: String| Description::statement(Tone::Dim, text).detail_if(true);
    Some(match event {
        TdEvent::OutputUpdate {
            is_complete: true,
            exit_status: Some(status @ 1..),
            ..
        } if *status != HUNG_UP => statement(Tone::Caution, format!("exit status {status}")),
        TdEvent::OutputGap {
            lost_lines,
            reason,
            evidence,
            ..
        } => {
            let is_possible = lost_lines.is_none() && *evidence != GapEvidence::Confirmed;
            if is_possible && *reason == GapReason::Closed {
                let text =
                    "possibly the last lines are missing: the pane closed before they were read";
                return Some(Description::missing(text.to_owned()));
            }
            // A count confirms the gap: gaps of older logs have no evidence.
            let lost = match (lost_lines, evidence.known()) {
                (Some(lost), _) => format!("{} lost", count(*lost, "line")),
                (None, Some(GapEvidence::Confirmed)) => "lines lost".to_owned(),
                (None, Some(GapEvidence::Possible) | None) => "lines may be missing".to_owned(),
            };
            Description::missing(format!("{lost} ({reason})")).detail_if(is_possible)
        }
        TdEvent::LogGap {
            first_seq,
            last_seq,
            ..
        } => {
            let text = format!("events {first_seq} to {last_seq} are not in the log");
            Description::missing(text)
        }
        TdEvent::SessionStarted { panes, .. } => {
            let panes = count(panes.len() as u64, "pane");
            statement(Tone::Dim, format!("watching {panes}"))
        }
        TdEvent::SessionRenamed { from, .. } => statement(Tone::Dim, format!("was called {from}")),
        TdEvent::SessionEnded {
            reason,
            exit_status,
            ..
        } => {
            let why = match reason.known() {
                Some(SessionEndReason::Closed) => "the session was closed",
                Some(SessionEndReason::ServerGone) => "the tmux server has gone",
                Some(SessionEndReason::Detached) => "it is no longer observed",
                None => reason.as_str(),
            };
            match failed_status(*exit_status) {
                None => statement(Tone::Dim, format!("ended: {why}")),
                Some(status) => statement(Tone::Alarm, format!("ended: {why}{status}")),
            }
        }
        TdEvent::PaneOpened {
            pane,
            width,
            height,
            command,
            ..
        } => detail(format!("pane {pane} opened: {command}, {width}x{height}")),
        TdEvent::PaneResized {
            pane,
            width,
            height,
            ..
        } => detail(format!("pane {pane} is {width}x{height} now")),
        TdEvent::BackgroundWork { shells, agents, .. } => {
            let (shells, agents) = (*shells, *agents);
            let running = Background { shells, agents }.to_string();
            let text = if running.is_empty() {
                "nothing runs in the background any more"
            } else {
                &running
            };
            detail(text.to_owned())
        }
        TdEvent::ProgressReported {
            progress, children, ..
        } => {
            let progress = progress.map_or_else(|| "none".to_owned(), |done| format!("{done}%"));
            let children = match children.len() {
                0 => String::new(),
                1 => ", 1 child".to_owned(),
                count => format!(", {count} children"),
            };
            detail(format!("reported progress: {progress}{children}"))
        }
        TdEvent::ConversationFound {
            agent,
            file,
            answer,
            turn_began,
            turn_ended,
            ..
        } => {
            let agent = agent.as_deref().map_or("an agent", String::as_str);
            let when = match (turn_ended, turn_began) {
                (Some(at), _) => format!(", done since {at}"),
                (None, Some(at)) => format!(", at work since {at}"),
                (None, None) => String::new(),
            };
            let last = answer.as_ref().and_then(|answer| answer.lines().last());
            let said = last.map(|line| format!(": {line}"));
            let said = said.unwrap_or_default();
            let what = match (said.is_empty() && when.is_empty(), file) {
                (true, Some(file)) => format!("writes {file}"),
                _ => "was there before".to_owned(),
            };
            detail(format!("{agent} {what}{when}{said}"))
        }
        TdEvent::RowRenamed {
            pane,
            agent_id,
            name,
            ..
        } => {
            let part = pane
                .as_ref()
                .map(|pane| pane.as_str())
                .or(agent_id.as_deref());
            detail(format!("{} is named {name:?}", part.unwrap_or("the row")))
        }
        TdEvent::PaneSeen { pane, by, .. } => {
            let place = match by.known() {
                Some(PaneViewer::Client) => "in tmux",
                Some(PaneViewer::Face) => "here",
                None => by.as_str(),
            };
            detail(format!("pane {pane} was looked at {place}"))
        }
        TdEvent::RowDismissed {
            pane,
            agent_id,
            dismissed,
            ..
        } => {
            let part = pane
                .as_ref()
                .map(|pane| pane.as_str())
                .or(agent_id.as_deref());
            let place = part.map(|part| format!(" of {part}")).unwrap_or_default();
            let words = if *dismissed {
                "dismissed"
            } else {
                "brought back"
            };
            detail(format!("the row{place} was {words}"))
        }
        TdEvent::PaneClosed {
            pane,
            reason,
            exit_status,
            ..
        } => {
            let status = failed_status(*exit_status).unwrap_or_default();
            let why = match reason.known() {
                Some(PaneCloseReason::Closed) => "was closed",
                Some(PaneCloseReason::Moved) => "has moved to another session",
                None => reason.as_str(),
            };
            detail(format!("pane {pane} {why}{status}"))
        }
        TdEvent::PollerRestarted { source, cause, .. } => statement(
            Tone::Alarm,
            format!("{source} crashed and is back: {cause}"),
        ),
        TdEvent::Warning {
            context, message, ..
        } => labelled("warning", Tone::Caution, format!("{context}: {message}"))
            .detail_if(context == PIPE_CONTEXT),
        TdEvent::Error {
            context, message, ..
        } => {
            let rows = message.lines().map(str::trim).filter(|row| !row.is_empty());
            let message = rows.collect::<Vec<_>>().join(" · ");
            labelled("error", Tone::Alarm, format!("{context}: {message}"))
        }
        TdEvent::Unknown(_) => statement(Tone::Dim, event.type_name().to_owned()),
        _ => return None,
    })
}

// Descriptions of agents: prompts, tools, turns, states (pure).

fn describe_agent(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    let labelled = Description::labelled;
    Some(match event {
        TdEvent::PromptSent { prompt_summary, .. } => {
            labelled("prompt", Tone::Plain, prompt_summary.clone())
        }
        TdEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        } => {
            let text = match (input_tokens, output_tokens) {
                // Agents that print plain text do not report counts.
                (0, 0) => "complete".to_owned(),
                _ => format!("{input_tokens} tokens read, {output_tokens} written"),
            };
            labelled("response", Tone::Dim, text)
        }
        TdEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
            ..
        } => labelled("tool", Tone::Plain, with_text(tool_name, tool_args_summary)),
        TdEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
            ..
        } => {
            let (tone, text) = tool_result(tool_name, *success, *duration_ms);
            labelled("tool", tone, with_text(&text, result_summary))
        }
        TdEvent::TurnCompleted {
            marker,
            pane: None,
            agent_id,
            ..
        } => {
            let agent = agent_id.as_deref().map(|id| format!("{id} "));
            let text = format!("{}ended: {marker}", agent.unwrap_or_default());
            labelled("turn", Tone::Good, text)
        }
        TdEvent::TurnCompleted { evidence, .. } => {
            // A report by the agent itself needs no evidence.
            let is_report = |evidence: &&EnumOrUnknown<TurnEvidence>| {
                **evidence == TurnEvidence::Transcript || **evidence == TurnEvidence::Status
            };
            let evidence = evidence.as_ref().filter(|evidence| !is_report(evidence));
            let evidence = evidence.map(|evidence| format!(" ({evidence})"));
            let text = format!("turn completed{}", evidence.unwrap_or_default());
            Description::statement(Tone::Good, text)
        }
        TdEvent::AgentRegistered {
            agent_id,
            output_file,
            ..
        } => {
            // An agent without a file has an empty one.
            let text = match output_file.as_str() {
                "" => agent_id.to_string(),
                file => format!("{agent_id}: {file}"),
            };
            labelled("agent", Tone::Dim, text)
        }
        TdEvent::AgentCompleted {
            agent_id,
            result,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} COMPLETED ({evidence})");
            labelled("agent", Tone::Good, with_text(&text, result))
        }
        TdEvent::AgentFailed {
            agent_id,
            error,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} FAILED ({evidence})");
            labelled("agent", Tone::Alarm, with_text(&text, error))
        }
        TdEvent::AgentState { .. } => describe_state(event, is_verbose)?,
        _ => return None,
    })
}

fn describe_state(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    let TdEvent::AgentState {
        state,
        agent,
        evidence,
        source,
        asks,
        detail,
        dialogue,
        ..
    } = event
    else {
        return None;
    };
    let known = state.known();
    let tone = match known {
        Some(AgentState::Waiting) => Tone::Caution,
        Some(AgentState::Error | AgentState::Limited) => Tone::Alarm,
        Some(AgentState::Done) => Tone::Good,
        // Other states are visible in the agent's output.
        _ => Tone::Dim,
    };
    let is_source = |by: StateSource| source.as_ref().is_some_and(|source| *source == by);
    let is_killed = is_source(StateSource::Process) && known == Some(AgentState::Error);
    // For the ends and errors of turns in a transcript, there are separate events.
    let has_own_event = is_source(StateSource::Transcript)
        && matches!(
            known,
            Some(AgentState::Done | AgentState::Error | AgentState::Limited)
        );
    // An interrupted turn has no other end.
    let is_interrupted = known == Some(AgentState::Idle)
        && agent.is_some()
        && is_source(StateSource::Transcript)
        && !is_verbose;
    let text = match agent {
        // Logs of earlier versions name the agent in the evidence.
        None => format!("agent {state}: {evidence}"),
        Some(agent) => {
            if let Some(words) = asks.as_deref().filter(|_| is_killed) {
                // The words name the agent and its end.
                return Some(Description::statement(tone, words.clone()));
            }
            let reason = asks
                .as_ref()
                .or(detail.as_ref().filter(|_| known != Some(AgentState::Done)));
            let reason = reason.map(|reason| match reason.split_once(": ") {
                // The name of the rule that matched the screen matters only to authors of rules.
                Some((_, row))
                    if is_source(StateSource::Screen) && !is_verbose && asks.is_none() =>
                {
                    row.trim()
                }
                _ => reason.as_str(),
            });
            let reason = reason.filter(|_| !is_interrupted);
            let reason = reason.map(|reason| format!(": {reason}"));
            let source = source.as_ref().filter(|_| is_verbose);
            let evidence = source.map(|source| format!(" ({source}, {evidence})"));
            let phrase = if is_interrupted {
                "interrupted"
            } else {
                agent_phrase(known).unwrap_or(state.as_str())
            };
            let evidence = evidence.unwrap_or_default();
            format!("{agent} {phrase}{evidence}{}", reason.unwrap_or_default())
        }
    };
    let is_again = Dialogue::is_again(dialogue.as_deref());
    let is_detail = (tone == Tone::Dim || has_own_event || is_again) && !is_interrupted;
    Some(Description::statement(tone, text).detail_if(is_detail))
}

/// Returns the phrase for a state in which an agent needs its user.
pub(super) fn agent_phrase(state: Option<AgentState>) -> Option<&'static str> {
    Some(match state? {
        AgentState::Waiting => "waits for you",
        AgentState::Error => "stopped with an error",
        AgentState::Limited => "reached a limit",
        AgentState::Suspended => "is suspended",
        AgentState::Working | AgentState::Idle | AgentState::Done | AgentState::Unknown => {
            return None;
        }
    })
}

/// Returns the agent of an `AgentState`, and its question or the evidence for the state. Logs of earlier
/// versions have both in the evidence: `claude choice (confirmed): 1. Yes`.
pub(super) fn agent_and_detail(event: &TdEvent) -> (&str, &str) {
    let TdEvent::AgentState {
        evidence,
        agent,
        asks,
        detail,
        ..
    } = event
    else {
        return ("", "");
    };
    match agent {
        Some(agent) => {
            let detail = asks.as_ref().or(detail.as_ref());
            (agent, detail.map_or("", |detail| detail.as_str()))
        }
        None => {
            let evidence = evidence.as_str();
            let agent = evidence.split(' ').next().unwrap_or_default();
            let detail = evidence.split_once("): ").map(|(_, detail)| detail);
            (agent, detail.unwrap_or(evidence))
        }
    }
}

/// Returns the result of a tool call with its duration.
pub(super) fn tool_result(name: &str, success: bool, duration_ms: u64) -> (Tone, String) {
    let (tone, word) = if success {
        (Tone::Dim, "done")
    } else {
        (Tone::Caution, "FAILED")
    };
    let text = format!("{name} {word} after {}", duration(duration_ms));
    (tone, text)
}

#[cfg(test)]
mod tests {
    mod phrases {

        use super::super::*;

        #[test]
        fn a_duration_is_rounded_to_a_readable_unit() {
            for (ms, expected) in [
                (0, "0.00 s"),
                (30, "0.03 s"),
                (994, "0.99 s"),
                (995, "1.0 s"),
                (1500, "1.5 s"),
                (59_949, "59.9 s"),
                (59_950, "1 min 0 s"),
                (125_000, "2 min 5 s"),
                (3_599_500, "1 h 0 min"),
                (3_780_000, "1 h 3 min"),
                (u64::MAX, "5124095576030 h 25 min"),
            ] {
                assert_eq!(duration(ms), expected, "{ms} ms");
            }
        }

        #[test]
        fn an_outcome_names_its_code_or_signal() {
            for (exit_code, signal, is_success, words) in [
                (Some(0), None, true, "exit code 0"),
                (Some(7), None, false, "exit code 7"),
                (None, Some(9), false, "signal 9 (KILL)"),
                (None, Some(64), false, "signal 64"),
                (Some(0), Some(15), false, "signal 15 (TERM)"),
                (None, None, false, "unknown end"),
            ] {
                let (tone, _) = verdict((exit_code, signal), ("", ""));
                let is_good = tone == Tone::Good;
                let in_words = end_in_words(exit_code, signal);
                assert_eq!((is_good, in_words.as_str()), (is_success, words));
            }
        }
    }

    mod sources {

        use super::super::*;

        #[test]
        fn reasons_are_described_in_words() {
            let ended = |reason: &str| TdEvent::SessionEnded {
                execution_id: "a".into(),
                session: "a".into(),
                reason: reason.into(),
                exit_status: None,
            };
            let seen = |by: &str| TdEvent::PaneSeen {
                execution_id: "a".into(),
                pane: "%3".into(),
                by: by.into(),
            };
            for (event, words) in [
                (ended("server_gone"), "[ended: the tmux server has gone]"),
                (ended("closed"), "[ended: the session was closed]"),
                (ended("another"), "[ended: another]"),
                (seen("face"), "[pane %3 was looked at here]"),
                (seen("client"), "[pane %3 was looked at in tmux]"),
            ] {
                assert_eq!(describe(&event, false).unwrap().marked(), words);
            }
        }
    }
}
