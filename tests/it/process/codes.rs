//! The exit code of `td-observe run`: that of the command, or the reason for its absence.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::program::{Arriving, command, events_of};
use super::{end_of, kept};
use crate::cli::{Running, after_opening, assert_code, text};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_exit_code_is_that_of_the_command_or_128_plus_the_signal() {
    for (script, code, end) in [
        ("true", 0, (Some(0), None)),
        ("exit 3", 3, (Some(3), None)),
        ("exit 255", 255, (Some(255), None)),
        ("kill -HUP $$", 129, (None, Some(1))),
        ("kill -KILL $$", 137, (None, Some(9))),
        ("kill -TERM $$", 143, (None, Some(15))),
        // The code with which a shell reports a signal.
        ("sh -c 'kill -TERM $$'", 143, (Some(143), None)),
    ] {
        let data = tempfile::tempdir().unwrap();
        // The assignment keeps the shell from replacing itself with the last command.
        let (output, events) = events_of(&[], &format!("{script}; x=$?; exit $x"), data.path());
        assert_code(&output, code);
        assert_eq!(end_of(&events), end, "{script}");
        assert_eq!(kept(data.path()), events, "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_started_prints_one_line_and_leaves_no_run() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("plain"), "text").unwrap();
    fs::write(path("odd"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(path("odd"), fs::Permissions::from_mode(0o755)).unwrap();
    for (program, code) in [
        ("td-no-such-program", 127),
        (path("nothing").as_str(), 127),
        (path("plain").as_str(), 126),
        (path("").as_str(), 126),
        // The system reports the same error as for a missing program.
        (path("odd").as_str(), 127),
    ] {
        for options in [&[][..], &["--json"], &["--pty"], &["--stdin"]] {
            let data = tempfile::tempdir().unwrap();
            let args = [options, &["--", program, "arg"]].concat();
            let output = Running::start(command(&args, data.path())).end();
            assert_code(&output, code);
            let printed = if options.contains(&"--json") {
                after_opening(&output.stdout)
            } else {
                &output.stdout
            };
            assert!(printed.is_empty(), "{output:#?}");
            let stderr = text(&output.stderr);
            assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
            assert!(stderr.contains(program), "{stderr}");
            let names_interpreter = stderr.contains("interpreter");
            assert_eq!(names_interpreter, program.ends_with("odd"), "{stderr}");
            let runs = fs::read_dir(data.path().join("runs"));
            assert_eq!(runs.map_or(0, Iterator::count), 0, "{args:?}");
        }
    }
}

#[test]
fn what_run_refuses_exits_with_125_and_runs_nothing() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("ran");
    let touch = ["touch", file.to_str().unwrap()];
    for options in [
        &["--timeout", "soon"][..],
        &["--timeout", "0s"],
        &["--max-lines", "0"],
        &["--execution-id", ""],
        &["--as", "klaude"],
        &["--nonsense"],
        // These pass clap.
        &["--junit", "/no/such/place/junit.xml"],
        &["-L", "a", "-S", "/b"],
        &["--keep-age", "soon"],
    ] {
        let args = [options, &["--"], &touch].concat();
        let output = Running::start(command(&args, data.path())).end();
        assert_code(&output, 125);
        assert_eq!(text(&output.stderr).matches('\n').count(), 1, "{output:#?}");
        assert!(!file.exists(), "{options:?}");
    }
    for nothing in [&[][..], &["--"], &["--", ""]] {
        let output = Running::start(command(nothing, data.path())).end();
        assert_code(&output, 125);
    }
    // A data directory that cannot be written is known before the command runs, too.
    let plain = data.path().join("plain");
    fs::write(&plain, "a file").unwrap();
    let output = Running::start(command(&touch, &plain)).end();
    assert_code(&output, 125);
    assert!(!file.exists());
}

/// Signals that programs answer reach the command, also those that would end this program.
#[test]
fn signals_that_programs_answer_are_passed_on() {
    let script = "trap 'echo USR1' USR1; trap 'echo USR2' USR2; trap 'echo WINCH; exit 7' WINCH
        echo ready; while :; do sleep 0.01; done";
    for options in [&[][..], &["--pty"]] {
        let data = tempfile::tempdir().unwrap();
        let args = [options, &["--", "sh", "-c", script]].concat();
        let mut running = Arriving::start(command(&args, data.path()));
        running.until("ready");
        for (signal, name) in [
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
            (Signal::WINCH, "WINCH"),
        ] {
            kill_process(Pid::from_child(&running.running.child), signal).unwrap();
            running.until(name);
        }
        assert_code(&running.end().0, 7);
    }
    // A command that does not answer ends by the signal, and that is its exit code.
    let data = tempfile::tempdir().unwrap();
    let args = ["--", "sh", "-c", "echo ready; exec sleep 1000"];
    let mut running = Arriving::start(command(&args, data.path()));
    running.until("ready");
    kill_process(Pid::from_child(&running.running.child), Signal::USR1).unwrap();
    assert_code(&running.end().0, 128 + 10);
}

/// A command inherits the same as from a shell, and nothing of the program.
#[test]
fn a_command_inherits_no_blocked_signals_and_no_files() {
    let script = "grep SigBlk /proc/self/status; ls /proc/self/fd | tr '\\n' ' '";
    // Descriptors and signals that this test has inherited are inherited by the command, too.
    let plain = std::process::Command::new("sh")
        .args(["-c", script])
        .output();
    let plain = text(&plain.unwrap().stdout);
    for options in [&[][..], &["--pty"]] {
        let data = tempfile::tempdir().unwrap();
        let (output, events) = events_of(options, script, data.path());
        assert_code(&output, 0);
        let shown = super::text_of(&events, "stdout");
        assert!(shown.contains("SigBlk:\t0000000000000000\n"), "{shown}");
        assert_eq!(shown, plain, "{options:?}");
    }
}
