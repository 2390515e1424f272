//! A polled pane of a server that gets little of the processors: its own time limits the polls, not that of its waiting.

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Running, assert_code, on, program, text};
use crate::support::TmuxServer;

/// A process that stops a server, and lets it run for a moment every 0.3 s.
struct Starving {
    server: Pid,
    process: Child,
}

impl Starving {
    fn start(server: Pid) -> Self {
        let pid = server.as_raw_nonzero();
        let script =
            format!("while kill -STOP {pid}; do sleep 0.3; kill -CONT {pid}; sleep 0.01; done");
        let process = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        Self { server, process }
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = kill_process(self.server, Signal::CONT);
    }
}

#[test]
fn a_server_that_waits_for_a_processor_loses_no_lines() {
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    server.new_session("first", 80, 10, "exec cat");
    server.tmux(&["set-option", "-g", "history-limit", "130"]);
    let print = "read go; for burst in $(seq 80); do \
                 for n in 1 2 3 4 5; do echo line $burst.$n; done; sleep 0.07; done; echo ends; exec cat";
    let pane = server.new_session("job", 80, 10, print);
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "job", "--source", "poll", "--json"]);
    let mut watch = Running::start(program(&args, &data));
    watch.wait_for("PaneOpened");
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let starving = Starving::start(server.pid());
    // On a busy machine, each takes seconds.
    for line in ["line 20.1", "line 40.1", "line 60.1"] {
        watch.wait_for(line);
    }
    drop(starving);
    watch.wait_for("ends");
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);
    let printed = text(&output.stdout);
    assert!(!printed.contains("OutputGap"), "{printed}");
    assert_eq!(printed.matches("line ").count(), 400, "{printed}");
}
