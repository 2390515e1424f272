//! The command's own terminal (`--pty`): size, colours, line ends, and keys for full-screen programs.

use std::fs;

use super::pane::Typed;
use super::program::{Arriving, command, events, events_of};
use super::{end_of, kept, kept_of, text_of, warnings};
use crate::cli::assert_code;

#[test]
fn the_terminal_has_colours_and_plain_line_ends() {
    let data = tempfile::tempdir().unwrap();
    let script = r"test -t 1 && test -t 2 && echo is one; test -t 0 || echo input is none
        printf '\033[31mred\033[m\n'; echo problem >&2; printf 'no end'; exit 3";
    let (output, events) = events_of(&["--pty"], script, data.path());
    assert_code(&output, 3);
    let text = "is one\ninput is none\n\u{1b}[31mred\u{1b}[m\nproblem\nno end";
    assert_eq!(text_of(&events, "stdout"), text);
    assert_eq!(text_of(&events, "stderr"), "");
    assert_eq!(kept(data.path()), events);
    assert!(warnings(&events).is_empty(), "{events:#?}");
}

#[test]
fn a_long_output_is_complete_and_the_end_is_in_time() {
    let data = tempfile::tempdir().unwrap();
    let (output, events) = events_of(&["--pty"], "seq 1 200000", data.path());
    assert_code(&output, 0);
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(text_of(&events, "stdout") == expected);
    // The timeout ends the whole session.
    let stubborn = "trap '' TERM HUP; sh -c 'while :; do sleep 1000; done' & echo $$; while :; do sleep 1000; done";
    let options = ["--pty", "--timeout", "500ms", "--grace", "500ms"];
    let (output, events) = events_of(&options, stubborn, data.path());
    assert_code(&output, 124);
    super::group_in(&text_of(&events, "stdout")).until_empty();
    assert_eq!(end_of(&events), (None, Some(9)));
}

#[test]
fn a_command_may_close_and_reopen_its_terminal() {
    let data = tempfile::tempdir().unwrap();
    let away = "exec < /dev/null > /dev/null 2>&1; sleep 0.3; echo back > /dev/tty; sleep 0.3; seq 1 20000 > /dev/tty";
    let (output, events) = events_of(&["--pty"], away, data.path());
    assert_code(&output, 0);
    let text = text_of(&events, "stdout");
    assert!(
        text.starts_with("back\n1\n") && text.ends_with("\n20000\n"),
        "{}",
        text.len()
    );
}

#[test]
fn the_size_defaults_to_80_by_24() {
    let data = tempfile::tempdir().unwrap();
    let size = ["--json", "--pty", "--", "sh", "-c", "stty size < /dev/tty"];
    let inner = command(&size, data.path());
    // In its own session, the program has no terminal.
    let mut program = std::process::Command::new("setsid");
    program
        .arg("-w")
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("TD_DATA_DIR", data.path());
    let (output, _) = Arriving::start(program).end();
    assert_code(&output, 0);
    assert_eq!(text_of(&events(&output.stdout), "stdout"), "24 80\n");
}

#[test]
fn the_size_follows_the_pane() {
    let mut typed = Typed::new(100, 30);
    let script = r#"stty size < /dev/tty; trap 'echo changed' WINCH
        until [ "$(stty size < /dev/tty)" = "20 90" ]; do sleep 0.05; done; stty size < /dev/tty"#;
    fs::write(typed.data.path().join("size.sh"), script).unwrap();
    typed
        .line("td-observe run --pty --timeout 20s --execution-id size -- sh size.sh; echo code=$?");
    typed.shows("30 100");
    typed.resize(90, 20);
    typed.shows("code=0");
    let text = text_of(&kept_of(typed.data.path(), "size"), "stdout");
    assert_eq!(text, "30 100\nchanged\n20 90\n");
    typed.is_at_the_prompt();
}

/// A full-screen program that shows each key and ends with `q`.
const PANEL: &str = r"
    modes=$(stty -g); stty raw -echo
    printf '\033[?1049h\033[2J\033[3;5Hpanel %s' $(stty size | tr ' ' x)
    while :; do
        key=$(dd bs=1 count=1 2> /dev/null)
        printf '\033[5;5Hkey=%s ' $(printf %s $key | od -An -tx1 | tr -d ' ')
        [ $key = q ] && break
    done
    stty $modes; printf '\033[?1049l'; echo closed; exit 5";

#[test]
fn a_full_screen_program_gets_the_screen_and_the_keys() {
    let mut typed = Typed::new(100, 30);
    fs::write(typed.data.path().join("panel.sh"), PANEL).unwrap();
    typed.line("td-observe run --pty --stdin --execution-id panel -- sh panel.sh; echo code=$?");
    // Before the first key.
    typed.shows("    panel 30x100");
    assert!(
        !typed.screen().contains("$ td-observe"),
        "{}",
        typed.screen()
    );
    for (key, code) in [("x", "78"), ("C-c", "03"), ("C-z", "1a"), ("Escape", "1b")] {
        typed.key(key);
        typed.shows(&format!("    key={code}"));
    }
    typed.key("q");
    typed.shows("code=5");
    typed.is_at_the_prompt();
    let events = kept_of(typed.data.path(), "panel");
    assert_eq!(end_of(&events), (Some(5), None));
    assert!(
        text_of(&events, "stdout").ends_with("closed\n"),
        "{events:#?}"
    );
}

#[test]
fn a_pager_works_in_the_terminal() {
    let mut typed = Typed::new(100, 30);
    let lines: String = (1..=500)
        .map(|number| format!("line {number}.\n"))
        .collect();
    fs::write(typed.data.path().join("text"), lines).unwrap();
    typed.line("LESS= td-observe run --pty --stdin -- less text; echo code=$?");
    typed.shows("line 29.");
    typed.key("G");
    typed.shows("line 500.");
    typed.line("?line 250\\.");
    typed.shows("line 250.");
    typed.key("q");
    typed.shows("code=0");
    typed.is_at_the_prompt();
}

#[test]
fn the_terminal_is_restored_after_a_killed_program() {
    let mut typed = Typed::new(100, 30);
    for (script, code) in [
        ("stty raw -echo; echo ready; kill -9 $$", 137),
        ("echo ready; sleep 1000; :", 124),
    ] {
        typed.line(&format!(
            "td-observe run --timeout 1s --pty --stdin -- sh -c '{script}'; echo code=$?"
        ));
        typed.shows(&format!("code={code}"));
        typed.is_at_the_prompt();
    }
    // Ctrl-C in a shell within the terminal goes to the inner command.
    // It may arrive before `sleep` starts. The typed line does not contain the text that the trap prints.
    typed.line("td-observe run --pty --stdin -- sh -c 'trap \"echo ca\\ught; exit 6\" INT; echo ready; sleep 1000'; echo code=$?");
    typed.shows("\nready");
    typed.key("C-c");
    typed.shows("caught");
    typed.shows("code=6");
    typed.is_at_the_prompt();
}

/// Returns a text without its control sequences, all of which begin with `ESC [` and end with a letter.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| {
        part.split_once(char::is_alphabetic)
            .map_or("", |(_, text)| text)
    });
    first + &rest.collect::<String>()
}

/// The lines that are left of a progress that moves the cursor up are those that a pane shows at its end.
#[test]
fn lines_that_are_drawn_again_end_as_in_a_pane() {
    let scripts = [
        (
            "docker",
            r"for n in 1 2 3 4 5; do printf 'layer %s: Waiting\n' $n; done
            for p in 1 2 3 4; do for n in 5 3 1; do
            printf '\033[%sA\033[2K\rlayer %s: %s/4\033[%sB\r' $((6-n)) $n $p $((6-n)); sleep 0.02; done; done
            printf 'Digest: done\n'",
        ),
        (
            "compose",
            r"printf '[+] Running 0/1\n 1 begins\n'
            for n in 2 3 4 5 6; do printf '\033[%sA\033[0G[+] Running %s/6\033[K\n' $n $n
            for i in $(seq $n); do printf ' %s is at %s of 6\033[K\n' $i $n; done; sleep 0.05; done",
        ),
        (
            "npm",
            r"for n in 1 2 3 4 5 6; do test $n = 1 || printf '\033[2K\033[1A\033[2K\033[1A\033[2K\033[1A\033[2K\033[G'
            printf 'fetch %s\nbuild %s\nlink %s\n' $n $n $n; sleep 0.05; done; echo 'added 6 packages'",
        ),
        (
            "pip",
            r"echo Collecting; for n in 1 2 3 4; do printf '\r   %s/4 MB' $n; sleep 0.05; done
            printf '\r\033[KDownloaded\nInstalled\n'",
        ),
        (
            "cargo",
            r"for n in 1 2 3 4; do printf '\r\033[K   Compiling unit-%s\n  Building [=> ] %s/4' $n $n; sleep 0.05; done
            printf '\r\033[K    Finished\n'",
        ),
        (
            "saved",
            r"echo begin; printf '\n\n\n\033[3A\0337'
            for n in 1 2 3 4 5; do printf '\0338one %s\033[K\ntwo %s\033[K\n' $n $n; sleep 0.05; done; echo end",
        ),
        (
            "reversed",
            r"printf 'one 0\ntwo 0\n'
            for n in 1 2 3 4 5; do printf '\033M\033M\r\033[2Kone %s\n\033[2Ktwo %s\n' $n $n; sleep 0.05; done; echo end",
        ),
    ];
    let tmux = crate::support::TmuxServer::new();
    for (name, script) in scripts {
        let data = tempfile::tempdir().unwrap();
        let (output, events) = events_of(&["--pty"], script, data.path());
        assert_code(&output, 0);
        let text = plain(&text_of(&events, "stdout"));
        // A carriage return replaces what was reported of its line.
        let lines = text
            .lines()
            .map(|line| line.rsplit('\r').next().unwrap_or_default());
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();

        let whole = format!("{script}\nprintf 'THE END'; sleep 1000");
        let pane = tmux.new_session(name, 80, 24, &whole);
        tmux.wait_for_text(&pane, "THE END");
        let screen = tmux.screen(&pane);
        let rows = screen
            .lines()
            .filter(|row| !row.is_empty() && *row != "THE END");
        let rows: Vec<&str> = rows.map(str::trim_end).collect();
        assert_eq!(lines, rows, "{name}");
    }
}
