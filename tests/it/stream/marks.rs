//! Marks of shells for their commands (OSC 133) become events of their panes.

use std::fs;

use td_observe::TdEvent;

use super::streamed;
use crate::support::TmuxServer;

#[test]
fn the_commands_of_a_shell_are_reported_with_their_ends() {
    let server = TmuxServer::new();
    // The output of a shell with integration: prompt, command, output, end.
    let first = "\x1b]133;A\x1b\\$ \x1b]133;B\x1b\\make test\r\n\x1b]133;C\x1b\\compiling\r\n";
    let second = "\x1b]133;D;2\x1b\\\x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07files\r\n\
                  \x1b]133;D;0\x07\x1b]133;A\x07$ \x1b]133;B\x07";
    fs::write(server.directory().join("first"), first).unwrap();
    fs::write(server.directory().join("second"), second).unwrap();
    let program = format!(
        "cd '{}'; tmux wait-for go; cat first; sleep 0.8; cat second; exec cat",
        server.directory().display()
    );
    let pane = server.new_session("shell", 80, 24, &program);
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("files");
    observed.stop();
    let reports: Vec<String> = observed
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
    // A command that ends within half a second is no execution.
    let order = ["started make test", "completed Some(2)"];
    let events: Vec<&str> = reports
        .iter()
        .map(String::as_str)
        .filter(|reports| !reports.starts_with("said"))
        .collect();
    assert_eq!(events, order, "{reports:#?}");
    let replay = observed.replay(&pane);
    assert_eq!(replay.text(), "$ make test\ncompiling\n$ ls\nfiles\n$");
}
