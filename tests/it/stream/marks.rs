//! What shells say of their commands (OSC 133) becomes events of their panes.

use std::fs;

use td_observe::TdEvent;

use super::streamed;
use crate::support::TmuxServer;

#[test]
fn the_commands_of_a_shell_are_told_with_their_ends() {
    let server = TmuxServer::new();
    // As a shell with integration prints it: prompt, command, output, end.
    let said = "\x1b]133;A\x1b\\$ \x1b]133;B\x1b\\make test\r\n\x1b]133;C\x1b\\compiling\r\n\x1b]133;D;2\x1b\\\
                \x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07files\r\n\x1b]133;D;0\x07\x1b]133;A\x07$ \x1b]133;B\x07";
    fs::write(server.directory().join("said"), said).unwrap();
    let program = format!(
        "cd '{}'; tmux wait-for go; cat said; tmux wait-for -S said; exec cat",
        server.directory().display()
    );
    let pane = server.new_session("shell", 80, 24, &program);
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until("both ends", |seen| {
        let ends = |event: &TdEvent| matches!(event, TdEvent::ExecutionCompleted { .. });
        seen.iter().filter(|envelope| ends(&envelope.event)).count() == 2
    });
    observed.stop();
    let told: Vec<String> = observed
        .seen
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::ExecutionStarted {
                command,
                cwd,
                pane: of,
                ..
            } => {
                assert_eq!(of.as_ref().unwrap(), pane.as_str());
                assert_eq!(
                    std::path::Path::new(cwd),
                    server.directory().canonicalize().unwrap()
                );
                Some(format!("started {command}"))
            }
            TdEvent::ExecutionCompleted {
                exit_code,
                pane: of,
                ..
            } => {
                assert_eq!(of.as_ref().unwrap(), pane.as_str());
                Some(format!("completed {exit_code:?}"))
            }
            TdEvent::OutputUpdate { chunk, .. } => Some(format!("said {chunk:?}")),
            _ => None,
        })
        .collect();
    let order = [
        "started make test",
        "completed Some(2)",
        "started ls",
        "completed Some(0)",
    ];
    let events: Vec<&str> = told
        .iter()
        .map(String::as_str)
        .filter(|told| !told.starts_with("said"))
        .collect();
    assert_eq!(events, order, "{told:#?}");
    let replay = observed.replay(&pane);
    assert_eq!(replay.text(), "$ make test\ncompiling\n$ ls\nfiles\n$");
}
