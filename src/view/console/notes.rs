//! What the console says of events that are not lines: a tone and a text, or nothing (pure).

use crate::event::{EventKind, GapEvidence, TdEvent};
use crate::source::PIPE_CONTEXT;
use crate::view::tone::Tone;
use crate::view::words::{HUNG_UP, with_status};

/// What is said of an event besides lines.
pub(super) fn note(event: &TdEvent, is_verbose: bool) -> Option<(Tone, String)> {
    let verbose = |text: String| is_verbose.then_some((Tone::Dim, text));
    match event {
        TdEvent::OutputUpdate {
            is_complete: true,
            exit_status: Some(status @ 1..),
            ..
        } if *status != HUNG_UP => Some((Tone::Caution, format!("[exit status {status}]"))),
        TdEvent::OutputUpdate { .. } => None,
        TdEvent::OutputGap {
            lost_lines,
            reason,
            evidence,
            ..
        } => {
            let text = match (lost_lines, evidence) {
                (Some(1), _) => format!("… 1 line lost ({reason})"),
                (Some(lost), _) => format!("… {lost} lines lost ({reason})"),
                (None, GapEvidence::Confirmed) => format!("… lines lost ({reason})"),
                (None, GapEvidence::Possible) if is_verbose => {
                    format!("… lines may be missing ({reason})")
                }
                (None, GapEvidence::Possible) => return None,
            };
            Some((Tone::Caution, text))
        }
        TdEvent::TurnCompleted { evidence, .. } => Some((
            Tone::Good,
            match evidence {
                // What the agent itself reports needs no proof.
                Some(evidence) if evidence == "transcript" || evidence == "status" => {
                    "[turn completed]".to_owned()
                }
                Some(evidence) => format!("[turn completed ({evidence})]"),
                None => "[turn completed]".to_owned(),
            },
        )),
        TdEvent::AgentState {
            state,
            agent,
            evidence,
            source,
            asks,
            detail,
            ..
        } => {
            // That it works is seen by what it prints.
            let (tone, is_news) = match state.as_str() {
                "waiting" => (Tone::Caution, true),
                "error" | "limited" => (Tone::Alarm, true),
                "done" => (Tone::Good, true),
                _ => (Tone::Dim, is_verbose),
            };
            let Some(agent) = agent else {
                // As logs of earlier versions have it.
                return is_news.then(|| (tone, format!("[agent {state}: {evidence}]")));
            };
            let is_source = |name| source.as_deref().is_some_and(|source| *source == name);
            if state == "idle" && is_source("transcript") && !is_verbose {
                // Of a turn that a human has stopped there is no other end.
                return Some((Tone::Dim, format!("[{agent} interrupted]")));
            }
            let why = asks
                .as_ref()
                .or(detail.as_ref().filter(|_| state != "done"));
            let why = why.map(
                |why| match is_source("screen") && !is_verbose && asks.is_none() {
                    // The rule that has read it is for those who write rules.
                    true => why
                        .split_once(": ")
                        .map_or(why.as_str(), |(_, row)| row)
                        .trim(),
                    false => why,
                },
            );
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            let how = match (is_verbose, source) {
                (true, Some(source)) => format!(" ({source}, {evidence})"),
                _ => String::new(),
            };
            let word = match state.as_str() {
                "waiting" => "waits for you",
                other => other,
            };
            // The end of a turn and an error of its transcript are events of their own.
            let has_event =
                is_source("transcript") && matches!(state.as_str(), "done" | "error" | "limited");
            let is_said = has_event && !is_verbose;
            (is_news && !is_said).then(|| (tone, format!("[{agent} {word}{how}{why}]")))
        }
        TdEvent::SessionStarted { panes, .. } => {
            let panes = panes.len();
            let s = if panes == 1 { "" } else { "s" };
            Some((Tone::Dim, format!("[watching {panes} pane{s}]")))
        }
        TdEvent::SessionRenamed { from, .. } => Some((Tone::Dim, format!("[was called {from}]"))),
        TdEvent::SessionEnded {
            reason,
            exit_status,
            ..
        } => {
            let status = with_status(*exit_status);
            let tone = match status.is_empty() {
                true => Tone::Dim,
                false => Tone::Alarm,
            };
            Some((tone, format!("[ended: {reason}{status}]")))
        }
        TdEvent::PaneOpened {
            pane,
            width,
            height,
            command,
            ..
        } => verbose(format!("[pane {pane} opened: {command}, {width}x{height}]")),
        TdEvent::PaneResized {
            pane,
            width,
            height,
            ..
        } => verbose(format!("[pane {pane} is {width}x{height} now]")),
        TdEvent::PaneClosed {
            pane,
            reason,
            exit_status,
            ..
        } => verbose(format!(
            "[pane {pane} {reason}{}]",
            with_status(*exit_status)
        )),
        TdEvent::LogGap {
            first_seq,
            last_seq,
            ..
        } => Some((
            Tone::Caution,
            format!("… events {first_seq} to {last_seq} are not in the log"),
        )),
        TdEvent::ScreenSnapshot { .. } => None,
        TdEvent::PollerRestarted { source, cause, .. } => Some((
            Tone::Alarm,
            format!("[{source} crashed and is back: {cause}]"),
        )),
        TdEvent::Warning { context, .. } if context == PIPE_CONTEXT && !is_verbose => None,
        TdEvent::Warning {
            context, message, ..
        } => Some((Tone::Caution, format!("[warning, {context}: {message}]"))),
        TdEvent::Error {
            context, message, ..
        } => Some((
            Tone::Alarm,
            format!("[error, {context}: {}]", in_one_row(message)),
        )),
        other if other.kind() == EventKind::LogOpened => None,
        other => Some((Tone::Dim, format!("[{}]", other.type_name()))),
    }
}

/// A text of several rows in one.
fn in_one_row(text: &str) -> String {
    let rows = text.lines().map(str::trim);
    let rows: Vec<&str> = rows.filter(|row| !row.is_empty()).collect();
    rows.join(" · ")
}
