//! Outputs that are forwarded because standard output is no terminal: byte for byte, unmixed, without
//! delay.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::pane::Typed;
use super::program::{Arriving, command, script};
use super::{end_of, kept, text_of};
use crate::cli::{assert_code, text};
use crate::resources::peak_kb;
use crate::support::{CEILING, wait_for};

/// Runs a script with and without the program in front; the outputs must be the same.
#[track_caller]
fn same(options: &[&str], script_: &str, data: &Path) -> Output {
    let plain = Command::new("sh").args(["-c", script_]).output().unwrap();
    let args = [options, &["--", "sh", "-c", script_]].concat();
    let passed = command(&args, data).output().unwrap();
    assert_eq!(passed.status.code(), plain.status.code(), "{script_}");
    assert!(
        passed.stdout == plain.stdout,
        "{script_}: {}",
        text(&passed.stdout)
    );
    assert!(
        passed.stderr == plain.stderr,
        "{script_}: {}",
        text(&passed.stderr)
    );
    passed
}

#[test]
fn the_outputs_are_those_of_the_command() {
    let data = tempfile::tempdir().unwrap();
    for script in [
        "echo out; echo err >&2; printf open; exit 3",
        r"printf '\033[31mred\033[m\r50%%\r100%%\n\0\t'; printf '\r\n' >&2",
        "seq 1 200000; seq 1 200000 >&2",
        "true",
        "exec false",
    ] {
        same(&[], script, data.path());
    }
}

#[test]
fn invalid_utf_8_is_forwarded_and_not_stored() {
    let data = tempfile::tempdir().unwrap();
    let random = data.path().join("random");
    let mut bytes = vec![0; 3_000_000];
    File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut bytes)
        .unwrap();
    fs::write(&random, &bytes).unwrap();
    let output = command(&["--", "cat", random.to_str().unwrap()], data.path())
        .output()
        .unwrap();
    assert_code(&output, 0);
    assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    let reported = text(&output.stderr);
    assert!(
        reported.lines().count() == 1 && reported.contains("UTF-8"),
        "{reported}"
    );
    // They are not shown otherwise than they are.
    assert!(reported.contains("passed on unchanged"), "{reported}");
    assert!(!reported.contains("shown as"), "{reported}");
}

#[test]
fn secrets_are_forwarded_and_not_stored() {
    let data = tempfile::tempdir().unwrap();
    let secret = ["ghp_", "abcdefghijklmnopqrst", "uvwxyz0123456789AB"].concat();
    let output = same(
        &[],
        &format!("echo key {secret}; echo {secret} >&2"),
        data.path(),
    );
    assert!(text(&output.stdout).contains(&secret));
    let kept = kept(data.path());
    let all = text_of(&kept, "stdout") + &text_of(&kept, "stderr");
    assert!(
        all.contains("[redacted:") && !all.contains(&secret),
        "{all}"
    );
}

#[test]
fn a_command_substitution_works() {
    let data = tempfile::tempdir().unwrap();
    let inner = command(&["printf", r"%s\n", "a b"], data.path());
    let program = inner.get_program().to_str().unwrap();
    let line = format!(r#"v=$({program} run printf '%s\n' 'a b'); printf '<%s>' "$v""#);
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("TD_DATA_DIR", data.path())
        .output()
        .unwrap();
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("<a b>".into(), String::new())
    );
}

#[test]
fn text_arrives_while_the_command_runs() {
    let data = tempfile::tempdir().unwrap();
    let go = data.path().join("go");
    let wait = format!("while ! test -e {}; do sleep 0.01; done", go.display());
    let script = format!("echo first; {wait}; echo last");
    let mut running = Arriving::start(command(&["--", "sh", "-c", &script], data.path()));
    running.until("first");
    fs::write(&go, "").unwrap();
    let (output, lines) = running.end();
    assert_code(&output, 0);
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn an_unread_output_blocks_the_command_and_not_the_other_output() {
    let data = tempfile::tempdir().unwrap();
    let script =
        "i=0; while [ $i -lt 200000 ]; do echo $i; i=$((i+1)); done & seq 1 100000 >&2; wait";
    let mut child = command(&["--", "sh", "-c", script], data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // All of one output first, then all of the other.
    let stderr = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(stderr.lines().take(100_000).count(), 100_000);
    let mut stdout = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(stdout.lines().count(), 200_000);
}

#[test]
fn a_reader_that_does_not_read_costs_no_memory_and_delays_no_timeout() {
    let data = tempfile::tempdir().unwrap();
    let args = ["--timeout", "2s", "--grace", "300ms", "--", "yes"];
    let mut child = command(&args, data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = wait_for("the timeout", CEILING, || {
        peak = peak_kb(child.id()).unwrap_or(peak);
        child.try_wait().unwrap().ok_or(peak)
    });
    assert_eq!(status.code(), Some(124));
    assert!(peak < 60 * 1024, "{peak} kB");
}

#[test]
fn the_end_of_an_ended_command_waits_for_its_reader_until_a_signal() {
    for reads in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let mut child = command(&["--", "sh", "-c", "seq 1 60000"], data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The pipes hold more than half of it, so that the command ends.
        wait_for("the end of the command", CEILING, || {
            let events = fs::read_dir(data.path().join("runs")).map_or(0, Iterator::count);
            if events > 0 { Ok(()) } else { Err(events) }
        });
        if reads {
            let mut out = String::new();
            child
                .stdout
                .take()
                .unwrap()
                .read_to_string(&mut out)
                .unwrap();
            assert_eq!(out.lines().count(), 60_000);
            assert_eq!(child.wait().unwrap().code(), Some(0));
        } else {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            wait_for("the program's end", CEILING, || {
                child.try_wait().unwrap().ok_or("it still runs")
            });
        }
    }
}

#[test]
fn a_full_disk_causes_a_failure() {
    let data = tempfile::tempdir().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(&["--", "echo", "lost"], data.path())
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_code(&output, 1);
    let reported = text(&output.stderr);
    assert!(
        reported.contains("cannot write to standard output"),
        "{reported}"
    );
    assert_eq!(text_of(&kept(data.path()), "stdout"), "lost\n");
}

#[test]
fn notices_go_to_standard_error() {
    let data = tempfile::tempdir().unwrap();
    let output = script(
        &["--timeout", "300ms"],
        "echo begun; exec sleep 1000",
        data.path(),
    );
    assert_code(&output, 124);
    assert_eq!(text(&output.stdout), "begun\n");
    let reported = text(&output.stderr);
    assert!(reported.contains("did not end within 300ms"), "{reported}");
    assert_eq!(end_of(&kept(data.path())), (None, Some(15)));
}

#[test]
fn each_line_begins_with_the_local_time() {
    let data = tempfile::tempdir().unwrap();
    let lines = "echo one; printf 'tw'; sleep 0.3; printf 'o\n\nlast'; echo err >&2";
    let output = command(&["--timestamps", "--", "sh", "-c", lines], data.path())
        .env("TZ", "Asia/Kolkata")
        .output()
        .unwrap();
    assert_code(&output, 0);
    let stamped = regex::Regex::new(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (.*)$").unwrap();
    let plain = |bytes: &[u8]| -> Vec<String> {
        let lines = text(bytes);
        let lines = lines.lines().map(|line| {
            let found = stamped.captures(line).unwrap_or_else(|| panic!("{line:?}"));
            found[1].to_owned()
        });
        lines.collect()
    };
    assert_eq!(plain(&output.stdout), ["one", "two", "", "last"]);
    assert_eq!(plain(&output.stderr), ["err"]);
    let now = Command::new("date")
        .env("TZ", "Asia/Kolkata")
        .arg("+%Y-%m-%d %H:")
        .output()
        .unwrap();
    // The hour may have changed meanwhile.
    let (now, then) = (text(&now.stdout), text(&output.stdout));
    assert!(
        then[..11] == now[..11] || then.contains(" 23:"),
        "{now} {then}"
    );
}

#[test]
fn output_of_an_own_terminal_is_forwarded_too() {
    let data = tempfile::tempdir().unwrap();
    let output = script(
        &["--pty"],
        r"printf '\033[31mred\033[m\n'; test -t 1 && echo yes",
        data.path(),
    );
    assert_eq!(output.stdout, b"\x1b[31mred\x1b[m\nyes\n");
}

#[test]
fn on_a_terminal_the_frame_is_shown_with_the_times() {
    let typed = Typed::new(100, 30);
    typed.line("td-observe run sh -c 'echo out; echo problem >&2; exit 7'; echo code=$?");
    typed.shows("code=7");
    typed.shows("│   [stderr] problem");
    typed.shows("FAILURE: exit code 7");
    typed.line("clear; td-observe run --timestamps sh -c 'echo out'; echo again=$?");
    typed.shows("again=0");
    let screen = typed.screen();
    let row = screen.lines().find(|row| row.ends_with(" out")).unwrap();
    assert!(
        regex::Regex::new(r"^ │   \d{4}-.*\.\d{3} out$")
            .unwrap()
            .is_match(row),
        "{screen}"
    );
}

#[test]
fn an_inherited_input_is_forwarded_too() {
    let data = tempfile::tempdir().unwrap();
    let mut child = command(&["--stdin", "--", "tr", "a-z", "A-Z"], data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"through\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "THROUGH\n");
}
