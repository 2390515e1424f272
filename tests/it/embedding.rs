//! The example in the library's documentation, on a real pane.

#[path = "embed.rs"]
mod example;

use crate::observed::logs;
use crate::support::TmuxServer;

#[test]
fn the_documented_example_watches_a_real_pane() {
    let server = TmuxServer::new();
    let program = "tmux wait-for go; echo one; echo two; exec cat";
    server.new_session("job-1", 40, 5, program);
    server.new_session("job-10", 40, 5, "tmux wait-for go; echo ten; exec cat");
    let data = server.directory().join("data");
    std::thread::scope(|scope| {
        let watching =
            scope.spawn(|| example::watch_session(server.server(), "job-1", &data, "two").unwrap());
        // The watch has begun when the log contains the session's start, which follows the baseline.
        crate::support::wait_for("the session's start", crate::support::CEILING, || {
            let log = std::fs::read_dir(data.join("runs"))
                .ok()
                .and_then(|mut runs| runs.next());
            let path = log.ok_or("no run")?.unwrap().path().join("events.jsonl");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.contains("SessionStarted") {
                Ok(())
            } else {
                Err("not started")
            }
        });
        server.tmux(&["wait-for", "-S", "go"]);
        // Each signal wakes all waiting programs; the second session may have come later.
        assert_eq!(watching.join().unwrap(), "one\ntwo\n");
    });
    let logs = logs(&data);
    assert_eq!(logs.len(), 1, "job-10 has no run: {:?}", logs.keys());
}
