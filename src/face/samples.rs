//! Sample events for the tests of faces.

use crate::event::{Envelope, GapEvidence, PaneId, ScreenRow, Style, Styles, TdEvent};
use crate::timestamp::Timestamp;

/// The execution of the samples with panes; their pane is `%1`.
const SESSION: &str = "x";

/// The execution of the samples with commands and checks.
const COMMAND: &str = "make@17";

pub(super) fn envelope(micros: i64, event: TdEvent) -> Envelope {
    Envelope::new(Some(1), Timestamp::from_micros(micros), event)
}

/// Returns a log of these events, a tenth of a second apart.
pub(super) fn log(events: impl IntoIterator<Item = TdEvent>) -> Vec<Envelope> {
    let begin = 1_700_000_000_000_000;
    (1..)
        .zip(events)
        .map(|(seq, event)| {
            let ts = Timestamp::from_micros(begin + seq as i64 * 100_003);
            Envelope::new(Some(seq), ts, event)
        })
        .collect()
}

pub(super) fn session_started(session: &str, panes: &[&str]) -> TdEvent {
    TdEvent::SessionStarted {
        execution_id: SESSION.into(),
        session: session.into(),
        panes: panes.iter().map(|pane| PaneId::from(*pane)).collect(),
    }
}

pub(super) fn session_ended(session: &str) -> TdEvent {
    TdEvent::SessionEnded {
        execution_id: SESSION.into(),
        session: session.into(),
        reason: "closed".into(),
        exit_status: None,
    }
}

pub(super) fn opened(pane: &str, width: u32, height: u32) -> TdEvent {
    opened_with(pane, width, height, "sh")
}

pub(super) fn opened_with(pane: &str, width: u32, height: u32, command: &str) -> TdEvent {
    TdEvent::PaneOpened {
        execution_id: SESSION.into(),
        pane: pane.into(),
        width,
        height,
        command: command.into(),
        is_new: None,
    }
}

pub(super) fn resized(width: u32, height: u32) -> TdEvent {
    TdEvent::PaneResized {
        execution_id: SESSION.into(),
        pane: "%1".into(),
        width,
        height,
    }
}

pub(super) fn closed(exit_status: Option<i32>) -> TdEvent {
    TdEvent::PaneClosed {
        execution_id: SESSION.into(),
        pane: "%1".into(),
        reason: "exited".into(),
        exit_status,
    }
}

pub(super) fn update(first_line: i64, chunk: &str) -> TdEvent {
    update_of("%1", first_line, chunk, Vec::new())
}

pub(super) fn update_of(pane: &str, first_line: i64, chunk: &str, styles: Vec<Style>) -> TdEvent {
    TdEvent::OutputUpdate {
        execution_id: SESSION.into(),
        pane: pane.into(),
        first_line,
        chunk: chunk.into(),
        is_complete: false,
        reason: None,
        exit_status: None,
        styles: Styles::new(styles),
        links: Default::default(),
    }
}

pub(super) fn revised(line: i64, text: &str) -> TdEvent {
    revised_with(line, text, Vec::new())
}

pub(super) fn revised_with(line: i64, text: &str, styles: Vec<Style>) -> TdEvent {
    TdEvent::OutputRevised {
        execution_id: SESSION.into(),
        pane: "%1".into(),
        line,
        text: text.into(),
        styles: Styles::new(styles),
    }
}

pub(super) fn screen(width: u32, height: u32, rows: &[(u32, &str)]) -> TdEvent {
    let row = |(row, text): &(u32, &str)| ScreenRow {
        row: *row,
        text: (*text).into(),
    };
    TdEvent::ScreenUpdate {
        execution_id: SESSION.into(),
        pane: "%1".into(),
        width,
        height,
        cursor: crate::event::Cursor { x: 1, y: 0 },
        rows: rows.iter().map(row).collect(),
    }
}

pub(super) fn gap(first_line: i64, lost_lines: Option<u64>, reason: &str) -> TdEvent {
    TdEvent::OutputGap {
        execution_id: SESSION.into(),
        pane: "%1".into(),
        first_line,
        lost_lines,
        reason: reason.into(),
        evidence: GapEvidence::Confirmed.into(),
    }
}

/// Returns an agent's state as in logs of earlier versions.
pub(super) fn agent_state(state: &str, evidence: &str) -> TdEvent {
    TdEvent::AgentState {
        execution_id: SESSION.into(),
        agent_id: None,
        pane: Some("%1".into()),
        state: state.into(),
        evidence: evidence.into(),
        agent: None,
        source: None,
        asks: None,
        detail: None,
        question_id: None,
        dialogue: None,
    }
}

pub(super) fn started(command: &str) -> TdEvent {
    TdEvent::ExecutionStarted {
        execution_id: COMMAND.into(),
        command: command.into(),
        cwd: "/".into(),
        pane: None,
        pid: None,
        cell: None,
        verification: None,
    }
}

pub(super) fn output(stream: &str, text: &str) -> TdEvent {
    TdEvent::ExecutionOutput {
        execution_id: COMMAND.into(),
        stream: stream.into(),
        text: text.into(),
    }
}

pub(super) fn completed(exit_code: Option<i32>, signal: Option<i32>) -> TdEvent {
    TdEvent::ExecutionCompleted {
        execution_id: COMMAND.into(),
        exit_code,
        signal,
        duration_ms: 1_500,
        pane: None,
        pid: None,
        cell: None,
    }
}

pub(super) fn token(token: &str) -> TdEvent {
    TdEvent::TokenReceived {
        execution_id: COMMAND.into(),
        iteration: 1,
        token: token.into(),
        pane: None,
    }
}

pub(super) fn check(line: &str, is_stderr: bool) -> TdEvent {
    TdEvent::ValidationOutput {
        execution_id: COMMAND.into(),
        iteration: 1,
        line: line.into(),
        is_stderr,
    }
}

pub(super) fn checked(exit_code: i32, duration_ms: u64) -> TdEvent {
    TdEvent::ValidationCompleted {
        execution_id: COMMAND.into(),
        iteration: 1,
        exit_code,
        duration_ms,
    }
}
