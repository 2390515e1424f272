//! The standard input of a command: none, or that of the program.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use super::pane::Typed;
use super::program::{Arriving, command, script};
use super::{end_of, kept, text_of};
use crate::cli::{assert_code, text};

#[test]
fn the_default_input_is_empty() {
    for options in [&[][..], &["--pty"]] {
        let data = tempfile::tempdir().unwrap();
        let mut program = command(&[options, &["--", "cat"]].concat(), data.path());
        program.stdin(Stdio::piped());
        let mut running = Arriving::start(program);
        // Kept open: reading it would block.
        let held = running.running.child.stdin.take();
        let (output, _) = running.end();
        drop(held);
        assert_code(&output, 0);
        assert_eq!(text_of(&kept(data.path()), "stdout"), "", "{options:?}");
    }
}

/// Asks whether the terminal reads reports of its status, and shows the answer.
const ASKS: &str = r#"
import os, tty
terminal = os.open("/dev/tty", os.O_RDWR)
tty.setraw(terminal)
for piece in [b"before \x1b]75", b"01;", b"?\x1b", b"\\"]:
    os.write(terminal, piece)
answer = b""
while not answer.endswith(b"\x1b\\"):
    answer += os.read(terminal, 1)
os.write(terminal, b"answer: %r\r\n" % answer)
"#;

#[test]
fn a_terminal_of_its_own_reads_reports() {
    let data = tempfile::tempdir().unwrap();
    let script = data.path().join("asks.py");
    fs::write(&script, ASKS).unwrap();
    let script = script.display().to_string();
    let (output, _) =
        Arriving::start(command(&["--pty", "--", "python3", &script], data.path())).end();
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    assert!(shown.contains(r"answer: b'\x1b]7501;?\x1b\\'"), "{shown}");
}

/// Whoever is asked cannot answer without `--stdin`, and is told so.
#[test]
fn a_question_without_an_answer_names_the_option() {
    let mut typed = Typed::new(100, 30);
    let ask = r#"printf "Name? "; read name; echo "got <$name>""#;
    fs::write(typed.data.path().join("ask.sh"), ask).unwrap();
    typed.line("td-observe run sh ask.sh; echo code=$?");
    typed.shows("code=0");
    let screen = typed.screen();
    assert!(
        screen.contains("got <>") && screen.contains("hint: "),
        "{screen}"
    );
    assert!(
        screen.contains("with --stdin it reads your keys"),
        "{screen}"
    );
    typed.is_at_the_prompt();
    typed.line("td-observe run --stdin sh ask.sh; echo code=$?");
    typed.shows("Name?");
    typed.line("Ada");
    typed.shows("code=0");
    assert!(!typed.screen().contains("hint: "), "{}", typed.screen());
    typed.is_at_the_prompt();
    typed.line("td-observe run seq 3; echo code=$?");
    typed.shows("code=0");
    assert!(!typed.screen().contains("hint: "), "{}", typed.screen());
    // Without a newline or with one: a failure after a question is a missing answer.
    typed.line("clear; td-observe run -- sh -c 'echo Your name:; read x'; echo code=$?");
    typed.shows("code=1");
    assert!(typed.screen().contains("hint: "), "{}", typed.screen());
    typed.is_at_the_prompt();
    // A program that runs this one cannot type.
    let data = tempfile::tempdir().unwrap();
    let output = script(&[], ask, data.path());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn an_inherited_pipe_is_read_as_it_is_written() {
    for options in [&["--stdin"][..], &["--stdin", "--pty"]] {
        let data = tempfile::tempdir().unwrap();
        let script = "while read line; do echo got $line; done; echo over; exit 3";
        let args = [options, &["--json", "--", "sh", "-c", script]].concat();
        let mut program = command(&args, data.path());
        program.stdin(Stdio::piped());
        let mut running = Arriving::start(program);
        let mut pipe = running.running.child.stdin.take().unwrap();
        for word in ["one", "two"] {
            writeln!(pipe, "{word}").unwrap();
            running.until(&format!(r#""text":"got {word}\n""#));
        }
        drop(pipe);
        let (output, _) = running.end();
        assert_code(&output, 3);
        let kept = kept(data.path());
        assert_eq!(text_of(&kept, "stdout"), "got one\ngot two\nover\n");
        assert_eq!(end_of(&kept), (Some(3), None));
    }
}

#[test]
fn large_inputs_and_outputs_do_not_block_each_other() {
    let data = tempfile::tempdir().unwrap();
    let mut program = command(&["--stdin", "-q", "--", "cat"], data.path());
    program.stdin(Stdio::piped());
    let mut running = Arriving::start(program);
    let mut pipe = running.running.child.stdin.take().unwrap();
    let lines: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    pipe.write_all(lines.as_bytes()).unwrap();
    drop(pipe);
    let (output, _) = running.end();
    assert_code(&output, 0);
    assert!(text_of(&kept(data.path()), "stdout") == lines);
}
