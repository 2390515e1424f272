//! What the program reports of itself to its own terminal (`OSC 7501`): a terminal of the test answers, or not.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use crate::cli::PROGRAM;
use crate::observer::Home;
use crate::support::{CEILING, wait_for};
use crate::tui::ASKS;

const QUESTION: &str = "\x1b]7501;?\x1b\\\x1b[c";
const REPORTS: &str = "\x1b]7501;state=";

/// A terminal, with a shell script in it.
struct Terminal {
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Reads the terminal to its end.
    reader: std::thread::JoinHandle<()>,
    child: std::process::Child,
}

impl Terminal {
    fn start(home: &Home, script: &str, environment: &[(&str, &str)]) -> Self {
        let (pty, child_end) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(30, 120)).unwrap();
        let program = std::path::Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = pty_process::blocking::Command::new("sh")
            .args(["-c", script])
            .env("TD_DATA_DIR", home.data())
            .env("HOME", home.directory())
            .env("PATH", path)
            .env("TERM", "xterm")
            .env_remove("TMUX")
            .env_remove("RUST_LOG")
            .env_remove("NO_COLOR");
        for (name, value) in environment {
            command = command.env(name, value);
        }
        let child = command.spawn(child_end).unwrap();
        let keys = File::from(pty.as_fd().try_clone_to_owned().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut pty = pty;
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pty.read(&mut part) {
                all.lock().unwrap().extend_from_slice(&part[..count]);
            }
        });
        Self {
            keys,
            shown,
            reader,
            child,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) -> String {
        wait_for(text, CEILING, || {
            let shown = self.text();
            if shown.contains(text) {
                Ok(shown)
            } else {
                Err(format!("{shown:?}"))
            }
        })
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end, and returns all that was shown.
    #[track_caller]
    fn ended(mut self) -> String {
        let status = wait_for("the end", CEILING, || {
            self.child.try_wait().unwrap().ok_or("it still runs")
        });
        wait_for("the end of the output", CEILING, || {
            self.reader.is_finished().then_some(()).ok_or("it is open")
        });
        assert!(status.success(), "{status}: {:?}", self.text());
        self.text()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shows the UI, and then what of its input it has left.
fn ui(home: &Home) -> Terminal {
    let script = format!(
        "td-observe tui -S {}; IFS= read -r rest; echo \"rest=<$rest>\"",
        home.server.socket().display()
    );
    Terminal::start(home, &script, &[])
}

const LEFT: &str = "\x1b[?1049l";

#[test]
fn the_ui_reports_whether_a_row_needs_the_user_where_its_terminal_answers() {
    let home = Home::new();
    let ask = home.server.new_session("ask", 80, 24, ASKS);
    home.server.wait_for_text(&ask, "Continue?");
    let mut terminal = ui(&home);
    terminal.shows(QUESTION);
    // Keys around the answer count.
    terminal.types("?\x1b]7501;?\x1b\\\x1b[?62;22c\x1b");
    let question = "YXNrOiBDb250aW51ZT8gW3kvTl0=";
    terminal.shows(&format!(
        "{REPORTS}blocked:kind=question:app=td-observe:msg={question}\x1b\\"
    ));
    home.server.tmux(&["send-keys", "-t", &ask, "y", "Enter"]);
    wait_for("the end of the question", CEILING, || {
        let shown = terminal.text();
        let (_, last) = shown.rsplit_once(REPORTS).unwrap();
        let is_over = last.starts_with("working:") || last.starts_with("idle:");
        if is_over {
            Ok(())
        } else {
            Err(last.to_owned())
        }
    });
    terminal.types("q");
    let shown = terminal.shows(LEFT);
    let (before, _) = shown.split_once(LEFT).unwrap();
    let (_, last) = before.rsplit_once(REPORTS).unwrap();
    assert!(last.starts_with("clear:app=td-observe\x1b\\"), "{last:?}");
    terminal.types("typed\n");
    let shown = terminal.ended();
    assert!(shown.contains("rest=<typed>"), "{shown:?}");
    assert!(
        !shown.split_once(LEFT).unwrap().1.contains("7501"),
        "{shown:?}"
    );
}

#[test]
fn a_terminal_that_does_not_answer_gets_the_question_alone() {
    let home = Home::new();
    let ask = home.server.new_session("ask", 80, 24, ASKS);
    home.server.wait_for_text(&ask, "Continue?");
    let mut terminal = ui(&home);
    terminal.shows(QUESTION);
    terminal.types("\x1b[?62;22c");
    terminal.shows("NEEDS YOU 1");
    terminal.types("q");
    terminal.shows(LEFT);
    terminal.types("typed\n");
    let shown = terminal.ended();
    assert!(shown.contains("rest=<typed>"), "{shown:?}");
    assert_eq!(shown.matches("7501").count(), 1, "{shown:?}");
}

#[test]
fn an_answer_that_comes_after_the_user_has_quit_is_not_left_to_the_shell() {
    let home = Home::new();
    home.server.new_session("job", 80, 24, "exec cat");
    let mut terminal = ui(&home);
    terminal.shows(QUESTION);
    terminal.types("q");
    terminal.types("\x1b]7501;?\x1b\\\x1b[?62;22c");
    terminal.shows(LEFT);
    terminal.types("typed\n");
    let shown = terminal.ended();
    assert!(shown.contains("rest=<typed>"), "{shown:?}");
    assert!(!shown.contains(REPORTS), "{shown:?}");
}

/// The entry of a terminal that reads reports.
const ENTRY: &str =
    "td-reads|a terminal that reads reports,\n\tuse=xterm,\n\tPst=\\E]7501;%p1%s\\E\\\\,\n";

/// Runs a script in a terminal whose entry says whether it reads reports.
fn line(home: &Home, script: &str, term: &str) -> Terminal {
    let source = home.directory().join("entry");
    std::fs::write(&source, ENTRY).unwrap();
    let entries = home.directory().join(".terminfo");
    let output = std::process::Command::new("tic")
        .args(["-x", "-o"])
        .args([&entries, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Terminal::start(home, script, &[("TERM", term)])
}

/// Returns what was reported, in order.
fn reported(shown: &str) -> Vec<&str> {
    let reports = shown.split("\x1b]7501;").skip(1);
    reports
        .map(|report| report.split_once("\x1b\\").unwrap().0)
        .collect()
}

#[test]
fn a_run_reports_its_work_and_its_end_and_leaves_what_is_typed() {
    let home = Home::new();
    let script = "td-observe run -- sh -c 'echo ready; until [ -e go ]; do sleep 0.05; done'; \
         IFS= read -r rest; echo \"rest=<$rest>\"; td-observe run -- sh -c 'exit 3'; echo code=$?";
    let script = format!("cd {}; {script}", home.directory().display());
    let mut terminal = line(&home, &script, "td-reads");
    terminal.shows("ready");
    terminal.types("typed ahead\n");
    std::fs::write(home.directory().join("go"), "").unwrap();
    terminal.shows("code=3");
    let shown = terminal.ended();
    assert!(shown.contains("rest=<typed ahead>"), "{shown:?}");
    let name = "app=td-observe:msg=c2g=";
    let failed = "state=error:app=td-observe:msg=c2g6IGV4aXQgY29kZSAz";
    assert_eq!(
        reported(&shown),
        [
            &format!("state=working:{name}"),
            &format!("state=done:{name}"),
            &format!("state=working:{name}"),
            failed
        ]
    );
}

#[test]
fn a_stopped_run_reports_no_end() {
    let home = Home::new();
    let script = "trap '' INT; td-observe run -- sh -c 'echo ready; exec sleep 1000'; echo code=$?";
    let mut terminal = line(&home, script, "td-reads");
    terminal.shows("ready");
    terminal.types("\x03");
    terminal.shows("code=");
    let shown = terminal.ended();
    let last = "state=clear:app=td-observe";
    assert_eq!(reported(&shown).last(), Some(&last), "{shown:?}");
}

#[test]
fn nothing_is_reported_to_a_pipe_nor_to_a_terminal_that_reads_no_reports() {
    let home = Home::new();
    let script = "td-observe run echo one | cat; td-observe run --json echo two; \
         td-observe -q run echo three; TMUX=/tmp/x,1,0 td-observe run echo four; \
         td-observe run echo five < /dev/null; TERM=xterm td-observe run echo six; \
         TERM=../td-reads td-observe run echo seven";
    let shown = line(&home, script, "td-reads").ended();
    assert!(
        shown.contains("seven") && !shown.contains("7501"),
        "{shown:?}"
    );
}

#[test]
fn a_loop_reports_whether_its_check_has_passed() {
    let home = Home::new();
    let script = "td-observe loop --task a --agent true --check true; \
         td-observe loop --task b --agent true --check false --max-iterations 1; echo over";
    let script = format!("cd {}; {script}", home.directory().display());
    let shown = line(&home, &script, "td-reads").ended();
    let states = reported(&shown).into_iter();
    let states: Vec<&str> = states
        .map(|report| report.split(':').next().unwrap())
        .collect();
    let expected = [
        "state=working",
        "state=done",
        "state=working",
        "state=error",
    ];
    assert_eq!(states, expected, "{shown:?}");
}

#[cfg(feature = "kernel")]
#[test]
fn a_kernel_reports_its_questions() {
    use crate::kernel::{KernelHome, python};
    let Some(python) = python() else { return };
    let (home, kernel) = (Home::new(), KernelHome::new(python));
    let code = "print(len(input('your name? ')))";
    let script = format!(
        "JUPYTER_RUNTIME_DIR='{}' td-observe kernel --kernel '{}' -c \"{code}\"",
        kernel.runtime().display(),
        kernel.spec
    );
    let mut terminal = line(&home, &script, "td-reads");
    // "python3: your name?"
    let asks = "state=blocked:kind=question:app=td-observe:msg=cHl0aG9uMzogeW91ciBuYW1lPw==";
    terminal.shows(asks);
    terminal.types("Ada\n");
    let shown = terminal.ended();
    let name = "app=td-observe:msg=cHl0aG9uMw==";
    let works = format!("state=working:{name}");
    let done = format!("state=done:{name}");
    assert_eq!(
        reported(&shown),
        [&*works, asks, &works, &done],
        "{shown:?}"
    );
}
