//! Code on a real kernel of Python, from the library and from the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use td_observe::event::OutputStream;
use td_observe::kernel::{CellStatus, ConnectionInfo, Kernel};

use super::{KernelHome, interrupt, kernels_with, python};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

/// A dead kernel is reported within this time.
const DEAD: Duration = Duration::from_secs(5);

/// A kernel that another program started, with its connection file.
pub struct Foreign {
    pub child: std::process::Child,
    pub file: std::path::PathBuf,
}

impl Foreign {
    pub fn start(home: &KernelHome, python: &std::path::Path) -> Self {
        let file = home.runtime().join("kernel-foreign.json");
        fs::create_dir_all(home.runtime()).unwrap();
        let child = Command::new(python)
            .args(["-m", "ipykernel_launcher", "-f"])
            .arg(&file)
            .env("IPYTHONDIR", home.directory.path().join("ipython"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // The file exists before the kernel listens.
        wait_for("the kernel", CEILING, || {
            let info = ConnectionInfo::read(&file).map_err(|error| error.to_string())?;
            std::net::TcpStream::connect(("127.0.0.1", info.hb_port))
                .map_err(|error| error.to_string())
        });
        Self { child, file }
    }

    pub fn connection(&self) -> &str {
        self.file.to_str().unwrap()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Each line arrives before the next one is printed: the code waits for the reader.
#[test]
fn lines_are_shown_while_the_code_runs() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = "
import os, time
for i in range(5):
    print(f'Progress: {i+1}/5')
    while not os.path.exists(f'seen-{i}'): time.sleep(0.01)
";
    let mut running = Running::start(home.on_new(&["--json", "-c", code]));
    for number in 0..5 {
        running.wait_for(&format!("Progress: {}/5", number + 1));
        fs::write(home.directory.path().join(format!("seen-{number}")), "").unwrap();
    }
    let output = running.end();
    assert_code(&output, 0);
    assert!(home.processes().is_empty() && home.connections().is_empty());
}

#[test]
fn outputs_of_every_kind_become_text_and_events() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = "
import sys
from IPython.display import display
print('out'); print('err', file=sys.stderr)
display({'application/vnd.td-observe.log+json': {'level': 'warning', 'message': 'careful'}}, raw=True)
display({'application/vnd.td-observe.log+json': {'level': 'info', 'message': 'fine'}}, raw=True)
{'a': 1}";
    let output = Running::start(home.on_new(&["--json", "-c", code])).end();
    assert_code(&output, 0);
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..2], ["StreamOpened", "ExecutionStarted"]);
    assert_eq!(kinds.last(), Some(&"ExecutionCompleted"));
    assert_eq!(
        (&events[1]["cell"], &events[1]["command"]),
        (&1.into(), &code.trim_end().into())
    );
    let of = |stream: &str| -> String {
        let texts = events.iter().filter(|event| event["stream"] == stream);
        texts.map(|event| event["text"].as_str().unwrap()).collect()
    };
    assert_eq!(of("stdout"), "out\n[info] fine\n{'a': 1}\n");
    assert_eq!(of("stderr"), "err\n");
    let warning = events
        .iter()
        .find(|event| event["type"] == "Warning")
        .unwrap();
    assert_eq!(warning["message"], "careful");
    // Without a terminal the outputs are forwarded, and the history has the run.
    let failed = Running::start(home.on_new(&["-c", "print('x' * 3)\n1/0"])).end();
    assert_code(&failed, 1);
    assert_eq!(text(&failed.stdout), "xxx\n");
    assert!(text(&failed.stderr).contains("ZeroDivisionError"));
    let runs = crate::cli::run(&["runs", "--json"], &home.data());
    let states: Vec<(Value, Value)> = text(&runs.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|run| (run["kind"].clone(), run["state"].clone()))
        .collect();
    assert!(
        states.contains(&("kernel".into(), "failed".into())),
        "{states:?}"
    );
    assert!(
        states.contains(&("kernel".into(), "completed".into())),
        "{states:?}"
    );
}

/// The outputs of the callback, joined, equal the result, and both equal the printed text.
#[test]
fn no_line_of_many_is_lost_or_repeated() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let mut kernel = start(&home);
    let mut calls = 0;
    for (lines, flush) in [(1_000_000, "False"), (20_000, "True")] {
        let code = format!("for i in range({lines}): print(i, flush={flush})");
        let mut got = String::new();
        calls = 0;
        let result = kernel.execute(&code, |stream, text| {
            assert_eq!(stream, OutputStream::Stdout);
            calls += 1;
            got.push_str(text);
        });
        let result = result.unwrap();
        assert_eq!(result.status, CellStatus::Ok);
        assert!(result.missed.is_empty() && result.lost_bytes == 0);
        assert!(got == result.stdout, "the callback and the result differ");
        let mut expected = String::new();
        (0..lines).for_each(|line| expected.push_str(&format!("{line}\n")));
        assert!(
            got == expected,
            "{} bytes instead of {}",
            got.len(),
            expected.len()
        );
    }
    // A flushed text is a message of its own; batches make few calls of many.
    kernel.batch_outputs(Duration::from_millis(100));
    let (mut batches, mut got) = (0, String::new());
    let code = "for i in range(20000): print(i, flush=True)";
    let result = kernel.execute(code, |_, text| {
        batches += 1;
        got.push_str(text);
    });
    let result = result.unwrap();
    assert!(got == result.stdout && got.lines().count() == 20_000);
    // One call each 100 ms, or each 64 KiB, and the last one.
    let most = result.duration.as_millis() as usize / 100 + got.len() / (64 * 1024) + 2;
    assert!(
        batches <= most && batches * 10 < calls,
        "{batches} calls in {:?} instead of {calls}",
        result.duration
    );
    // Both streams in their order, in batches.
    let code = "import sys\nfor i in range(50):\n    print(i, flush=True)\n    print(-i, file=sys.stderr, flush=True)";
    let (mut out, mut err) = (String::new(), String::new());
    let result = kernel.execute(code, |stream, text| match stream {
        OutputStream::Stdout => out.push_str(text),
        _ => err.push_str(text),
    });
    let result = result.unwrap();
    assert_eq!((result.stdout, result.stderr), (out, err));
}

fn start(home: &KernelHome) -> Kernel {
    // The library has no variables of its own: it uses Jupyter's runtime directory.
    Kernel::start(&home.find()).unwrap()
}

#[test]
fn a_kernel_is_interrupted_restarted_and_ended() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let mut kernel = start(&home);
    let file = kernel.connection_file().unwrap().to_owned();
    kernel.execute("x = 1", |_, _| {}).unwrap();
    interrupt(&mut kernel);
    // The kernel still works and has kept its variables.
    assert_eq!(kernel.execute("print(x)", |_, _| {}).unwrap().stdout, "1\n");
    kernel.restart().unwrap();
    let gone = kernel.execute("print(x)", |_, _| {}).unwrap();
    assert!(matches!(gone.status, CellStatus::Error { ref name, .. } if name == "NameError"));
    // The kernel dies and is restarted.
    let died = kernel
        .execute("import os; os._exit(3)", |_, _| {})
        .unwrap_err();
    assert!(
        died.is_gone() && died.to_string().contains("exit status: 3"),
        "{died}"
    );
    kernel.restart().unwrap();
    assert_eq!(kernel.execute("print(2)", |_, _| {}).unwrap().stdout, "2\n");
    let name = file.to_str().unwrap();
    assert!(file.exists() && kernels_with(name).len() == 1);
    drop(kernel);
    assert!(!file.exists());
    assert_eq!(kernels_with(name), Vec::<u32>::new());
}

#[test]
fn a_dead_kernel_of_another_program_is_reported() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    for (signal, words) in [
        (Signal::KILL, "closed its connections"),
        (Signal::STOP, "heartbeat"),
    ] {
        let foreign = Foreign::start(&home, python);
        let info = ConnectionInfo::read(&foreign.file).unwrap();
        let mut kernel = Kernel::connect(&info).unwrap();
        let pid = Pid::from_child(&foreign.child);
        let mut since = None;
        let error = kernel
            .execute(
                "import time\nprint('go', flush=True)\ntime.sleep(100)",
                |_, text| {
                    if text.contains("go") {
                        kill_process(pid, signal).unwrap();
                        since = Some(Instant::now());
                    }
                },
            )
            .unwrap_err();
        assert!(
            error.is_gone() && error.to_string().contains(words),
            "{error}"
        );
        let took = since.unwrap().elapsed();
        // Allow for the load of other tests.
        assert!(took < DEAD + Duration::from_secs(3), "{took:?}");
        if signal == Signal::STOP {
            kill_process(pid, Signal::CONT).unwrap();
        }
        drop(foreign);
        fs::remove_file(home.runtime().join("kernel-foreign.json")).unwrap();
    }
}

#[test]
fn however_the_program_ends_its_kernel_ends_too() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    for signal in [Signal::KILL, Signal::TERM, Signal::HUP, Signal::INT] {
        let code = "import time\nprint('go', flush=True)\ntime.sleep(100)";
        // Only a killed process leaves its connection file behind.
        let before = home.connections();
        let mut running = Running::start(home.on_new(&["--json", "-c", code]));
        running.wait_for("\"text\":\"go");
        running.signal(signal);
        let output = running.end();
        if signal != Signal::KILL {
            assert_code(&output, 130);
            assert_eq!(home.connections(), before);
        }
        wait_for("the kernel's end", CEILING, || {
            match home.processes().as_slice() {
                [] => Ok(()),
                left => Err(left.to_vec()),
            }
        });
    }
}

/// The code counts the interrupts: a second one could end the kernel itself.
#[test]
fn a_reader_that_leaves_interrupts_a_foreign_kernel_once() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let foreign = Foreign::start(&home, python);
    let count = home.directory.path().join("count");
    let code = format!(
        "import signal, time\ncount = 0\ndef on(*_):\n    global count\n    count += 1\n    \
         open({:?}, 'w').write(str(count))\nsignal.signal(signal.SIGINT, on)\n\
         until = time.time() + 2\nwhile time.time() < until: print('y', flush=True)",
        count.display()
    );
    let args = ["--connection", foreign.connection(), "-c", &code];
    let mut command = home.command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    drop(reader);
    child.wait().unwrap();
    assert_eq!(
        (line.as_str(), fs::read_to_string(count).unwrap().as_str()),
        ("y\n", "1")
    );
}

/// An interrupt during the kernel's start, or just after the request, interrupts the code.
#[test]
fn an_early_interrupt_is_not_lost() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let foreign = Foreign::start(&home, python);
    let info = ConnectionInfo::read(&foreign.file).unwrap();
    let mut kernel = Kernel::connect(&info).unwrap();
    let control = kernel.control();
    for micros in [300, 1_000, 2_000, 5_000, 10_000, 20_000] {
        let control = control.clone();
        let early = std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_micros(micros));
            control.interrupt();
        });
        let result = kernel.execute(
            "import time\nfor _ in range(600): time.sleep(0.1)",
            |_, _| {},
        );
        early.join().unwrap();
        assert!(!result.unwrap().status.is_ok(), "{micros} µs");
    }
}

/// Without a terminal, `input()` reads the lines of standard input, and their end is its end.
#[test]
fn questions_are_answered_from_a_pipe() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = "a = input('a? '); b = input('b? '); print(a + b)\ntry: input('c? ')\n\
                except EOFError: print('end')";
    let answers = home.directory.path().join("answers");
    fs::write(&answers, "one\ntwo").unwrap();
    for options in [&[][..], &["--json"]] {
        let mut command = home.on_new(&[options, &["-c", code]].concat());
        command.stdin(fs::File::open(&answers).unwrap());
        let output = Running::start(command).end();
        assert_code(&output, 0);
        let shown = text(&output.stdout);
        assert!(shown.contains("onetwo") && shown.contains("end"), "{shown}");
        assert!(shown.contains("a? one"), "{shown}");
    }
    // Code from standard input leaves no answers there, and /dev/null has none.
    fs::write(&answers, "input('a? ')").unwrap();
    let mut read = home.on_new(&["-"]);
    read.stdin(fs::File::open(&answers).unwrap());
    let given = home.on_new(&["-c", "input('a? ')"]);
    for command in [read, given] {
        let output = Running::start(command).end();
        assert_code(&output, 1);
        let shown = text(&output.stderr);
        assert!(shown.contains("StdinNotImplementedError"), "{shown}");
    }
}

/// A traceback has colours only where colours are shown.
#[test]
fn a_traceback_has_no_colours_in_a_pipe() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    for (options, is_coloured) in [
        (&[][..], false),
        (&["--color", "never"], false),
        (&["--color", "always"], true),
    ] {
        // What the code prints itself is passed on unchanged.
        let code = "print('\\x1b[32mgreen\\x1b[0m')\n1/0";
        let output = Running::start(home.on_new(&[options, &["-c", code]].concat())).end();
        assert_code(&output, 1);
        assert_eq!(text(&output.stdout), "\u{1b}[32mgreen\u{1b}[0m\n");
        let error = text(&output.stderr);
        assert!(
            error.contains("ZeroDivisionError: division by zero") || is_coloured,
            "{error}"
        );
        assert_eq!(error.contains('\u{1b}'), is_coloured, "{error:?}");
        let args = [options, &["--json", "-c", "1/0"]].concat();
        let output = Running::start(home.on_new(&args)).end();
        assert_code(&output, 1);
        let events = text(&output.stdout);
        assert!(events.contains("ZeroDivisionError"), "{events}");
        assert_eq!(events.contains("\\u001b"), is_coloured, "{events}");
    }
}

#[test]
fn a_traceback_is_not_lost_to_the_limit() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = "for i in range(100): print(i)\n1/0";
    for options in [&[][..], &["--json"]] {
        let args = [options, &["--max-lines", "3", "-c", code]].concat();
        let output = Running::start(home.on_new(&args)).end();
        assert_code(&output, 1);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(shown.contains("division by zero"), "{shown}");
    }
}

/// Python prints a byte that is not UTF-8 unchanged.
#[test]
fn bytes_that_are_not_utf_8_are_replaced() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let output = Running::start(home.on_new(&["-c", "print('a\\udc80b')"])).end();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "a\u{fffd}b\n");
}

#[test]
fn a_missing_program_of_a_kernel_is_reported_as_such() {
    let home = KernelHome::new(std::path::Path::new("/no/such/python"));
    let output = Running::start(home.on_new(&["-c", "1"])).end();
    assert_code(&output, 127);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("/no/such/python") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.05)";
    crate::cli::ends_quietly_unread(home.on_new(&["--json", "-c", code]));
    crate::cli::ends_quietly_unread(home.on_new(&["-c", code]));
    assert!(home.processes().is_empty() && home.connections().is_empty());
}

#[test]
fn an_unusable_kernel_is_one_clear_line() {
    let home = KernelHome::new(std::path::Path::new("/no/such/python"));
    for (args, code, words) in [
        (
            vec!["-c", "1", "--kernel", "cobol"],
            2,
            "no kernel named \"cobol\"",
        ),
        (
            vec!["-c", "1", "--connection", "absent"],
            2,
            "no connection file \"absent\"",
        ),
        (vec![], 2, "nothing to run and nothing to listen to"),
        (vec!["absent.py"], 2, "cannot read \"absent.py\""),
        (
            vec!["-c", "1", "--save"],
            2,
            "give a file that ends in .ipynb",
        ),
        (vec!["-c", "1", "--execution-id", ""], 2, "the id is empty"),
    ] {
        let output = Running::start(home.command(&args)).end();
        assert_code(&output, code);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(words) && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );
    }
    let output = Running::start(home.on_new(&["-c", "1"])).end();
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("/no/such/python") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert_eq!(home.connections(), Vec::<std::path::PathBuf>::new());
}
