//! Events of an execution, for tests.

use crate::event::TdEvent;

pub(super) fn started(command: &str) -> TdEvent {
    TdEvent::ExecutionStarted {
        execution_id: "make@17".into(),
        command: command.into(),
        cwd: "/".into(),
        pane: None,
        pid: None,
    }
}

pub(super) fn output(stream: &str, text: &str) -> TdEvent {
    TdEvent::ExecutionOutput {
        execution_id: "make@17".into(),
        stream: stream.into(),
        text: text.into(),
    }
}

pub(super) fn completed(exit_code: Option<i32>, signal: Option<i32>) -> TdEvent {
    TdEvent::ExecutionCompleted {
        execution_id: "make@17".into(),
        exit_code,
        signal,
        duration_ms: 1_500,
        pane: None,
        pid: None,
    }
}

pub(super) fn check(line: &str, is_stderr: bool) -> TdEvent {
    TdEvent::ValidationOutput {
        execution_id: "make@17".into(),
        iteration: 1,
        line: line.into(),
        is_stderr,
    }
}

pub(super) fn checked(exit_code: i32) -> TdEvent {
    TdEvent::ValidationCompleted {
        execution_id: "make@17".into(),
        iteration: 1,
        exit_code,
        duration_ms: 300,
    }
}
