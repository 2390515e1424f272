//! Panes of odd shapes, and text that is noise or resembles tmux's replies to us.

use std::fmt::Write as _;
use std::fs;

use super::{Counted, Counting};
use crate::observed::{Observed, shown};
use crate::support::TmuxServer;

/// A program that waits, prints a file, and stays.
fn printing(server: &TmuxServer, text: &str) -> String {
    let path = server.directory().join("text");
    fs::write(&path, text).unwrap();
    format!(
        "echo ready; tmux wait-for go-$TMUX_PANE; cat '{}'; exec sleep 1000",
        path.display()
    )
}

#[test]
fn without_a_history_lines_are_reported_once_or_announced_as_lost() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    server.script("set-option -g history-limit 0");
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("none", 60, 24, &program.command());
    let mut observed = Observed::session(&server, "none");
    observed.until_started(1);
    program.until_more(100);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counted = Counted::of(&observed.replay(&pane), &["the end"]);
    assert_eq!(counted.settled.end, program.printed() + 1);
    let burst = server.new_session(
        "burst",
        60,
        24,
        "tmux wait-for go; seq -f 'line %g.' 500; exec cat",
    );
    let mut observed = Observed::session(&server, "burst");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("line 500.");
    observed.stop();
    let counted = Counted::of(&observed.replay(&burst), &[]);
    assert_eq!(counted.settled.end, 501);
}

#[test]
fn panes_of_one_column_or_one_row_are_observed_like_others() {
    let server = TmuxServer::new();
    let shapes = [(1, 24), (1, 1), (80, 1), (2, 2)];
    let panes: Vec<_> = shapes
        .iter()
        .map(|(width, height)| {
            let name = format!("{width}x{height}");
            let program = Counting::new(&server, &name, "0.02");
            let pane = server.new_session(&name, *width, *height, &program.command());
            let state = server.pane(&pane);
            assert_eq!((state.width, state.height), (*width, *height));
            (pane, program)
        })
        .collect();
    let mut observed = Observed::all(&server);
    observed.until_started(shapes.len());
    for (_, program) in &panes {
        program.until_more(40);
        program.end();
    }
    observed.until("the end of all", |seen| {
        let ended = |(pane, _): &(String, Counting)| {
            crate::observed::Replay::of(seen, pane)
                .texts()
                .contains(&"the end")
        };
        panes.iter().all(ended)
    });
    observed.stop();
    for (pane, program) in &panes {
        // Shown if one of them fails.
        let of_pane = |envelope: &&td_observe::Envelope| {
            envelope.event.pane().is_some_and(|of| **of == **pane)
        };
        let events: Vec<_> = observed.seen.iter().filter(of_pane).cloned().collect();
        eprintln!("{pane}:\n{}", shown(&events));
        let counted = Counted::of(&observed.replay(pane), &["the end"]);
        assert_eq!(counted.missing, [], "{pane}: {}", shown(&observed.seen));
        assert_eq!(counted.settled.end, program.printed() + 1);
    }
}

#[test]
fn lines_longer_than_the_pane_stay_whole() {
    let server = TmuxServer::new();
    let mut lines: Vec<String> = (1..=60)
        .map(|n| format!("{n} {}", "0123456789".repeat(60))[..500].to_owned())
        .collect();
    // As wide as the pane, and one column more or less.
    for width in [80, 160, 500] {
        for length in width - 1..=width + 1 {
            lines.push("x".repeat(length));
        }
    }
    lines.push("the end".to_owned());
    let program = printing(&server, &(lines.join("\n") + "\n"));
    let panes = [80, 500, 499, 37].map(|width| {
        let pane = server.new_session(&format!("wide-{width}"), width, 24, &program);
        server.wait_for_text(&pane, "ready");
        pane
    });
    let mut observed = Observed::all(&server);
    observed.until_started(panes.len());
    for pane in &panes {
        server.tmux(&["wait-for", "-S", &format!("go-{pane}")]);
    }
    observed.until("the end of all", |seen| {
        panes.iter().all(|pane| {
            crate::observed::Replay::of(seen, pane)
                .texts()
                .contains(&"the end")
        })
    });
    observed.stop();
    for pane in &panes {
        let replay = observed.replay(pane);
        assert_eq!(replay.texts(), lines, "{pane}");
        assert_eq!(replay.gaps, [], "{pane}");
    }
}

#[test]
fn a_pane_that_printed_noise_still_works() {
    let server = TmuxServer::new();
    // tmux's replies to the noise must neither come back as output nor act as keys. At the end: the end
    // of any string, twice, as an escape at the end of the noise makes the first a part of a device control
    // string; a reset, the normal screen, plain letters, the full screen, and a clear one.
    let program = "stty -echo -isig -ixon; echo ready; tmux wait-for go; \
        i=0; while [ $i -lt 20 ]; do i=$((i+1)); head -c 20000 /dev/urandom; sleep 0.03; done; \
        printf '\\033\\\\\\033\\\\\\033c\\033[?1049l\\033(B\\017\\033[r\\033[H\\033[2J'; sleep 0.3; \
        echo; echo THE MARKER; seq -f 'line %g.' 1 200; echo the end; exec sleep 1000";
    let pane = server.new_session("noise", 80, 24, program);
    let quiet = server.new_session("beside", 80, 24, "exec cat");
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("the end");
    // The other pane is still watched.
    server.tmux(&["send-keys", "-t", &quiet, "still here", "Enter"]);
    observed.until_line("still here");
    observed.stop();
    let replay = observed.replay(&pane);
    let texts = replay.texts();
    let marker = texts
        .iter()
        .rposition(|text| *text == "THE MARKER")
        .unwrap();
    let want: Vec<String> = (1..=200).map(|n| format!("line {n}.")).collect();
    assert_eq!(texts[marker + 1..=marker + 200], want);
    assert!(
        replay.gaps.iter().all(|gap| gap.3 <= marker),
        "{:?}",
        replay.gaps
    );
    // Every line of the log is valid JSON, and there was no warning.
    assert_eq!(observed.logs().len(), 2);
    assert_eq!(
        super::warnings(&observed.seen),
        0,
        "{}",
        shown(&observed.seen)
    );
}

/// The format that the gateway requests of each pane, so that a pane can print a true reply.
const NUMBERS: &str = "#{pane_id} #{session_id} #{window_id} #{session_created} \
    #{window_index} #{pane_index} #{window_active} #{pane_active} #{pane_width} #{pane_height} \
    #{history_size} #{history_limit} #{cursor_x} #{cursor_y} #{alternate_on} \
    #{alternate_saved_x} #{alternate_saved_y} #{pane_in_mode} #{pane_dead} #{pane_dead_status} \
    #{pane_dead_signal} #{pane_pid} #{pane_pipe} #{window_activity} #{synchronized_output_flag}";

#[test]
fn text_that_imitates_replies_of_tmux_stays_text() {
    let server = TmuxServer::new();
    let victim = server.new_session("victim", 70, 10, "exec cat");
    // A mark like ours, but not the mark of the next batch.
    let mark = format!("td{:016x}{:016x}", 0x0123_4567_89ab_cdef_u64, u64::MAX);
    let true_answer = server.tmux(&["display-message", "-p", "-t", &victim, NUMBERS]);
    let pid = server.pid().as_raw_nonzero();
    let mut text = String::new();
    for (number, line) in [
        format!("{mark}h{true_answer}{mark}r{pid}"),
        true_answer.clone(),
        format!("{mark}s"),
        format!("{mark}t"),
        format!("{mark}z"),
        format!("{mark}s{pid} 1795310000 3.3a{mark}k/tmp/sock{mark}e"),
        format!("{mark}p{true_answer}{mark}nvictim{mark}wsh{mark}ccat{mark}e"),
        format!("{mark}h{}{mark}r{pid}", " ".repeat(25)),
        "can't find pane: %0".to_owned(),
        "no server running on /tmp/tmux-0/default".to_owned(),
        "%begin 1 2 0".to_owned(),
        r#"{"seq":1,"ts":"2026-01-21T10:00:01Z","event":{"type":"SessionEnded","execution_id":"x","session":"x","reason":"closed"}}"#.to_owned(),
    ]
    .iter()
    .cycle()
    .take(60)
    .enumerate()
    {
        writeln!(text, "{line}").unwrap();
        writeln!(text, "{number}").unwrap();
    }
    text.push_str("the end\n");
    let program = printing(&server, &text);
    let pane = server.new_session(&format!("{mark}p%0"), 300, 10, &program);
    server.tmux(&["rename-window", "-t", &pane, &format!("{mark}c{mark}e")]);
    server.tmux(&["select-pane", "-t", &pane, "-T", &format!("{mark}z")]);
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    server.tmux(&["wait-for", "-S", &format!("go-{pane}")]);
    observed.until_line("the end");
    server.tmux(&["send-keys", "-t", &victim, "of the victim", "Enter"]);
    observed.until_line("of the victim");
    observed.stop();
    let replay = observed.replay(&pane);
    let want: Vec<&str> = text.lines().collect();
    assert_eq!(replay.texts(), want);
    assert_eq!(replay.gaps, []);
    let replay = observed.replay(&victim);
    assert!(
        replay.texts().iter().all(|text| *text == "of the victim"),
        "{replay:?}"
    );
    assert_eq!(
        super::warnings(&observed.seen),
        0,
        "{}",
        shown(&observed.seen)
    );
    assert_eq!(super::runs_of(&observed.seen, "x"), Vec::<String>::new());
}
