//! A session of the UI from its start to its end.

use std::cmp::Ordering;
use std::time::Duration;

use super::{ASKS, Stage, view_of};
use crate::cli::ECHO;
use crate::support::within;

#[test]
fn a_session_from_start_to_quit() {
    let mut stage = Stage::new();
    let server = &stage.home.server;
    // Lines printed before the observation are not part of the history.
    let job = format!("stty -echo; read go; seq -f 'job line %g' 1 60; {ECHO}");
    let job = server.new_session("job", 80, 24, &job);
    let ask = server.new_session("ask", 80, 24, ASKS);
    server.wait_for_text(&ask, "Continue?");
    stage.start((120, 30), "--allow-input");
    let server = &stage.home.server;
    stage.shows("NEEDS YOU 1");
    stage.shows("WORKING 1");
    server.tmux(&["send-keys", "-t", &job, "Enter"]);

    // Both rows and all views.
    stage.types("]");
    stage.shows("output ask %1");
    stage.types("j");
    stage.until("the lines of job", |screen| {
        let view = view_of(screen);
        view.contains("output job %0") && view.contains("job line 60") && view.contains("ready")
    });
    stage.types("l");
    stage.until("logs", |screen| {
        let view = view_of(screen);
        view.contains("logs job %0") && view.contains("[pane %0 opened: ")
    });
    stage.types("s");
    stage.until("the screen", |screen| {
        let view = view_of(screen);
        view.contains("screen job %0") && view.contains("job line 60")
    });
    stage.types("t");
    stage.until("the timeline", |screen| {
        let view = view_of(screen);
        view.contains("timeline · ") && view.contains("job  ") && view.contains("ask  ")
    });
    stage.types("e");
    stage.until("events", |screen| {
        let view = view_of(screen);
        view.contains("events job %0") && view.contains("OutputUpdate")
    });
    stage.types("o");
    stage.shows("output job %0");

    // Lines 5 and 50 to 59.
    stage.types("/line 5");
    stage.keys(&["Enter"]);
    stage.shows("/line 5 11 of 11");
    stage.types("n");
    stage.shows("from the beginning again");
    stage.types("n");
    stage.shows("/line 5 2 of 11");
    stage.types("N");
    stage.shows("/line 5 1 of 11");
    stage.keys(&["Escape"]);
    stage.shows_no("/line 5");
    stage.types("fline 5");
    stage.keys(&["Enter"]);
    let filtered = stage.shows("filter line 5 (11 lines)");
    assert!(!view_of(&filtered).contains("line 49"), "{filtered}");
    stage.types("!");
    stage.until("the other lines", |screen| {
        let view = view_of(screen);
        screen.contains("(50 lines)") && view.contains("line 49") && !view.contains("line 50")
    });
    stage.keys(&["Escape"]);
    stage.shows_no("(50 lines)");

    // New lines do not scroll the view of a reader.
    stage.types("Gk");
    stage.shows("PAUSED, G follows");
    server.tmux(&["send-keys", "-t", &job, "brand new", "Enter"]);
    let paused = stage.shows("PAUSED, 1 new, G follows");
    assert!(!view_of(&paused).contains("brand new"), "{paused}");
    stage.types("G");
    stage.until("the new line", |screen| {
        screen.contains("following") && view_of(screen).contains("brand new")
    });

    stage.types("]");
    stage.until("the question below the output", |screen| {
        view_of(screen).contains("asks: Continue? [y/N]")
    });
    stage.types("r");
    stage.shows("to ask %1, typed + Enter:");
    stage.shows("ask asks: Continue? [y/N]");
    stage.types("y");
    stage.keys(&["Enter"]);
    server.wait_for_text(&ask, "got y");
    stage.shows("typed into ask %1");

    // The pane itself in its own size, and back.
    let size = [
        "display-message",
        "-p",
        "-t",
        &ask,
        "#{window_width}x#{window_height}",
    ];
    assert_eq!(server.tmux(&size), "80x24");
    stage.keys(&["Enter"]);
    stage.shows("td-observe: Ctrl-b d comes back");
    stage.keys(&["Space"]);
    stage.until("the pane of ask", |screen| {
        screen.contains("[ask]") && screen.contains("got y") && !screen.contains("output ask")
    });
    stage.types("by hand");
    server.wait_for_text(&ask, "by hand");
    assert_eq!(server.tmux(&size), "80x24");
    stage.keys(&["C-b", "d"]);
    stage.shows("output ask %1");
    assert_eq!(server.tmux(&size), "80x24");
    // The window's size is still unset.
    let option = ["show-options", "-wqv", "-t", &ask, "window-size"];
    assert_eq!(server.tmux(&option), "");
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}

#[test]
fn on_a_narrow_terminal_enter_opens_a_view_and_escape_closes_it() {
    let mut stage = Stage::new();
    let server = &stage.home.server;
    let job = server.new_session("job", 80, 24, ECHO);
    server.new_session("other", 80, 24, "exec cat");
    server.wait_for_text(&job, "ready");
    stage.start((40, 10), "");
    stage.until("the board", |screen| {
        screen.contains("2 rows") && screen.contains('▸') && !screen.contains("output ")
    });
    let server = &stage.home.server;
    server.tmux(&["send-keys", "-t", &job, "some words", "Enter"]);
    stage.until("both rows", |screen| {
        screen.contains("● job ") && screen.contains("● other ")
    });
    // Rows keep their positions, and the selection its row: which is which depends on what was found first.
    let screen = stage.screen();
    let job_row = screen.lines().position(|line| line.contains("● job "));
    let selected = screen.lines().position(|line| line.contains('▸'));
    match job_row.cmp(&selected) {
        Ordering::Less => stage.types("g"),
        Ordering::Equal => {}
        Ordering::Greater => stage.types("G"),
    }
    stage.until("job", |screen| {
        let selected = screen.lines().find(|line| line.contains('▸'));
        selected.is_some_and(|line| line.contains("job"))
    });
    stage.keys(&["Enter"]);
    stage.until("the view", |screen| {
        screen.contains("output job %0") && screen.contains("\nsome words") && !screen.contains('▸')
    });
    stage.keys(&["Escape"]);
    stage.until("the board", |screen| {
        screen.contains("2 rows") && screen.contains('▸')
    });
    stage.types("q");
    stage.ended(0);
}

#[test]
fn after_rapid_switching_the_view_has_only_lines_of_its_row() {
    let mut stage = Stage::new();
    let server = &stage.home.server;
    for name in ["alpha", "beta"] {
        let prints = format!("i=0; while :; do i=$((i+1)); echo of {name} $i; sleep 0.01; done");
        server.new_session(name, 80, 24, &prints);
    }
    stage.start((120, 30), "");
    stage.shows("2 rows");
    for _ in 0..20 {
        stage.types("jkjkjkjkjkj");
        stage.types("kkjkjkjkjkj");
    }
    // When the last key is handled, all keys have been handled.
    stage.types("B");
    stage.shows("B has no meaning here");
    for name in ["alpha", "beta", "alpha"] {
        select(&stage, name);
        // The session continues to print.
        let mut last = String::new();
        for _ in 0..5 {
            last = stage.until(&format!("new lines of {name}"), |screen| {
                view_of(screen).matches("of ").count() > 20 && screen != last
            });
            let view = view_of(&last);
            let title = format!("output {name} ");
            let own = format!("of {name} ");
            assert!(view.starts_with(&title), "{last}");
            assert_eq!(
                view.matches("of ").count(),
                view.matches(&own).count(),
                "{last}"
            );
        }
    }
    stage.types("q");
    stage.ended(0);
}

/// Selects one of two rows. The rows may swap at any time: the row that printed last is the first.
#[track_caller]
fn select(stage: &Stage, name: &str) {
    let title = format!("output {name} ");
    let is_there = || {
        if view_of(&stage.screen()).starts_with(&title) {
            Ok(())
        } else {
            Err(())
        }
    };
    for key in ["j", "k"].into_iter().cycle().take(40) {
        if within(Duration::from_millis(500), is_there).is_ok() {
            return;
        }
        stage.types(key);
    }
    panic!("{name} is not selected:\n{}", stage.screen());
}
