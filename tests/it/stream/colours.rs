//! Colours of programs: in the events and the log beside the text, and on terminals with colours.

use std::io::Write;

use td_observe::{Envelope, TdEvent};

use super::{streamed, wait_until_streamed};
use crate::cli::{Running, assert_code, on, program, run, text};
use crate::support::TmuxServer;

const QUIET: &str = "stty raw -echo; exec cat >/dev/null";

/// Returns the colours of the settled lines: the coloured text and the SGR parameters.
fn colours(events: &[Envelope]) -> Vec<(String, String)> {
    let mut colours = Vec::new();
    for envelope in events {
        let TdEvent::OutputUpdate { chunk, styles, .. } = &envelope.event else {
            continue;
        };
        let lines: Vec<&str> = chunk.lines().collect();
        for style in styles.as_slice() {
            let line = lines[style.line as usize].chars();
            let run = line.skip(style.from as usize);
            let run = run.take((style.to - style.from) as usize).collect();
            colours.push((run, style.sgr()));
        }
    }
    colours
}

#[test]
fn events_and_the_history_have_the_colours_of_lines() {
    let server = TmuxServer::new();
    let pane = server.new_session("job", 80, 24, QUIET);
    let mut observed = streamed(&server);
    observed.until_started(1);
    wait_until_streamed(&server, 1);
    let mut terminal = server.terminal(&pane);
    let key = format!("ghp_{}", "Ab1".repeat(12));
    let link = "\x1b]8;;http://x\x1b\\\x1b[1;38;5;208mlink\x1b[m\x1b]8;;\x1b\\";
    write!(terminal, "\x1b[31mred\x1b[0m plain\r\nnone\r\n{link}\r\n").unwrap();
    observed.until_line("link");
    // A line with a secret has no colours, because the positions would not match the redacted text.
    write!(
        terminal,
        "\x1b[32mtoken={key}\x1b[m\r\n\x1b[33mend\x1b[m\r\n"
    )
    .unwrap();
    observed.until_line("end");
    observed.stop();
    let expected = [("red", "31"), ("link", "1;38;5;208")];
    let holds = |colours: Vec<(String, String)>| {
        let colours: Vec<(&str, &str)> =
            colours.iter().map(|(run, sgr)| (&**run, &**sgr)).collect();
        assert!(colours.starts_with(&expected), "{colours:?}");
        // The next line may or may not have arrived in the same event.
        assert!(!colours.iter().any(|(_, sgr)| *sgr == "32"), "{colours:?}");
    };
    holds(colours(&observed.seen));
    let logs = observed.logs();
    holds(colours(logs.values().next().unwrap()));
    let shown = format!("{:?}", logs.values());
    assert!(!shown.contains(&key), "{shown}");
}

#[test]
fn only_a_terminal_shows_colours() {
    let data = tempfile::tempdir().unwrap();
    for (more, line) in [
        (&["--color", "always"][..], "\x1b[31mred\x1b[0m plain"),
        (&["--color", "never"], "job | red plain"),
        (&[], "job | red plain"),
        (&["--json"], r#""styles":[[0,0,3,"31"]]"#),
    ] {
        let server = TmuxServer::new();
        server.new_session("keeper", 20, 5, "exec cat");
        let pane = server.new_session("job", 80, 24, QUIET);
        let socket = server.socket().display().to_string();
        let args = [&["watch", "job"], more].concat();
        let mut watch = Running::start(program(&on(&socket, &args), data.path()));
        wait_until_streamed(&server, 1);
        let mut terminal = server.terminal(&pane);
        write!(terminal, "\x1b[31mred\x1b[0m plain\r\n").unwrap();
        watch.wait_for(line);
        server.tmux(&["kill-session", "-t", "=job"]);
        let output = watch.end();
        assert_code(&output, 0);
        let is_coloured = more.contains(&"always");
        let shown = text(&output.stdout);
        assert_eq!(shown.contains("\x1b[31m"), is_coloured, "{shown:?}");
    }
    // The log shows the same later.
    let shown = run(&["log", "job", "--color", "always"], data.path());
    let shown = text(&shown.stdout);
    assert!(shown.contains("\x1b[31mred\x1b[0m plain\n"), "{shown:?}");
}
