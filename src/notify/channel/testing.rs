//! A tmux server with attached clients on terminals of their own, for the tests of the channels.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::never;
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action as Flow, tcflow};

use super::super::message::{Item, News, Note};
use crate::child::{self, Invocation};
use crate::clock::Clock;
use crate::escapes::{Action, BELL, State, advance};
use crate::text::Utf8Decoder;
use crate::thread::lock;
use crate::timestamp::Timestamp;
use crate::tmux::Server;

/// The longest wait of a test.
const CEILING: Duration = Duration::from_secs(20);

/// Returns a message about a job that asks.
pub(in crate::notify) fn note(id: &str, text: &str) -> Note {
    let item = Item {
        news: News::Waiting,
        row: "job@1/%0".into(),
        execution_id: "job@1".into(),
        pane: Some("%0".into()),
        server: None,
        name: "job".into(),
        agent: None,
        since: Timestamp::from_micros(0),
        question: 0,
        text: Some(text.into()),
        question_id: Some("q1".into()),
        dialogue: None,
        choices: Vec::new(),
        settled: None,
    };
    Note {
        id: id.into(),
        at: Timestamp::from_micros(0),
        items: vec![item],
    }
}

/// Waits for an event and returns its value. Panics with what was there instead.
#[track_caller]
pub(in crate::notify) fn wait_for<T, E: std::fmt::Debug>(
    what: &str,
    mut event: impl FnMut() -> Result<T, E>,
) -> T {
    let clock = Clock::system();
    let ceiling = clock.now() + CEILING;
    loop {
        match event() {
            Ok(value) => return value,
            Err(instead) if clock.now() > ceiling => panic!("no {what}: {instead:?}"),
            // The interval of the poll.
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A server of its own with the session `stage`, in which `cat` runs. It ends with the test.
pub(super) struct Stage {
    directory: tempfile::TempDir,
    pid: Pid,
}

impl Stage {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new();
        let directory = { directory }.prefix("td-test-").tempdir().unwrap();
        let mut stage = Self {
            directory,
            pid: Pid::INIT,
        };
        let shape = ["new-session", "-d", "-s", "stage", "-x", "80", "-y", "24"];
        stage.tmux(&[&shape[..], &["exec cat"]].concat());
        let pid = stage.tmux(&["display-message", "-p", "#{pid}"]);
        stage.pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        stage
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn server(&self) -> Server {
        Server::socket(self.socket())
    }

    fn args(&self, args: &[&str]) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["-u".into(), "-f".into(), "/dev/null".into()];
        all.extend(["-S".into(), self.socket().into()]);
        all.extend(args.iter().map(OsString::from));
        all
    }

    /// Runs a command and returns its output.
    #[track_caller]
    pub fn tmux(&self, args: &[&str]) -> String {
        let invocation = Invocation {
            program: "tmux".into(),
            args: self.args(args),
            env: Vec::new(),
            directory: self.directory.path().into(),
            stdin: Vec::new(),
            output_bytes_max: 1 << 20,
            timeout: CEILING,
        };
        let finished = child::run(&invocation, &Clock::system(), &never()).unwrap();
        assert!(finished.status.success(), "{args:?}: {finished:?}");
        String::from_utf8(finished.stdout).unwrap()
    }

    /// Returns all options of the user.
    pub fn options(&self) -> String {
        let scopes = [
            "-s", "-g", "-gw", "-w", "-gH", "-H", "-p", "-A", "-wA", "-pA",
        ];
        let shown = |scope| self.tmux(&["show-options", scope, "-t", "stage"]);
        let shown = scopes.map(|scope| format!("{scope}\n{}", shown(scope)));
        let session = self.tmux(&["show-options", "-t", "stage"]);
        let hooks = self.tmux(&["show-hooks", "-g"]);
        let environment = self.tmux(&["show-environment", "-g"]);
        shown.concat() + &session + &hooks + &environment
    }

    /// Records what the pane's program prints.
    pub fn record_pane(&self) -> PathBuf {
        let file = self.directory.path().join("output");
        let command = format!("cat > {}", file.display());
        self.tmux(&["pipe-pane", "-t", "stage", &command]);
        wait_for("pipe", || file.exists().then_some(()).ok_or("no file"));
        file
    }

    /// Stops or continues the server.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen {
            Signal::STOP
        } else {
            Signal::CONT
        };
        kill_process(self.pid, signal).unwrap();
    }

    /// Attaches a client on a terminal of its own.
    #[track_caller]
    pub fn attach(&self, columns: u16) -> Client {
        let (pty, terminal) = open().unwrap();
        pty.resize(Size::new(24, columns)).unwrap();
        let command = Command::new("tmux").args(self.args(&["attach-session", "-t", "stage"]));
        let command = command.env("TERM", "xterm").env_remove("TMUX");
        let child = command.spawn(terminal).unwrap();
        let output = File::from(pty.as_fd().try_clone_to_owned().unwrap());
        let client = Client {
            seen: Seen::read(output, columns.into()),
            terminal: std::fs::read_link(format!("/proc/{}/fd/0", child.id())).unwrap(),
            child,
            pty,
        };
        client.wait_for("[stage]");
        client
    }

    /// Attaches a client in control mode.
    #[track_caller]
    pub fn attach_control(&self) -> ControlClient {
        let mut child = std::process::Command::new("tmux")
            .arg("-C")
            .args(self.args(&["attach-session", "-t", "stage"]))
            .env_remove("TMUX")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let seen = Seen::read(child.stdout.take().unwrap(), 80);
        let client = ControlClient { child, seen };
        client.wait_for("%session-changed");
        client
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The process may have ended in the test.
        let _ = kill_process(self.pid, Signal::CONT);
        let _ = kill_process(self.pid, Signal::TERM);
    }
}

/// What a terminal has received.
#[derive(Clone)]
struct Seen(Arc<Mutex<Received>>);

struct Received {
    text: String,
    screen: avt::Terminal,
    bells: usize,
}

impl Seen {
    /// Reads in a thread, which ends with the other end.
    fn read(mut output: impl Read + Send + 'static, columns: usize) -> Self {
        let seen = Self(Arc::new(Mutex::new(Received {
            text: String::new(),
            screen: avt::Terminal::new(columns, 24).unwrap(),
            bells: 0,
        })));
        let received = seen.clone();
        std::thread::spawn(move || {
            let (mut decoder, mut state) = (Utf8Decoder::default(), State::Ground);
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut received = lock(&received.0);
                for byte in &buffer[..count] {
                    // A bell that ends a title is none.
                    let is_text = state == State::Ground;
                    let action = advance(&mut state, *byte);
                    if is_text && action == Action::Execute && *byte == BELL {
                        received.bells += 1;
                    }
                }
                decoder.push(&buffer[..count], |text| {
                    received.text.push_str(text);
                    received.screen.feed(text);
                });
            }
        });
        seen
    }
}

/// A client on a terminal of its own, which ends with the test.
pub(super) struct Client {
    child: Child,
    pty: Pty,
    terminal: PathBuf,
    seen: Seen,
}

impl Client {
    pub fn terminal(&self) -> &Path {
        &self.terminal
    }

    fn screen(&self) -> String {
        lock(&self.seen.0).screen.screen().text().join("\n")
    }

    /// Returns the number of bells that have rung.
    pub fn bells(&self) -> usize {
        lock(&self.seen.0).bells
    }

    #[track_caller]
    pub fn wait_for_bells(&self, bells: usize) {
        wait_for("bell", || match self.bells() {
            count if count == bells => Ok(()),
            count => Err((count, self.screen())),
        });
    }

    /// Waits for a text and returns the row that contains it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        wait_for(text, || {
            let screen = self.screen();
            let row = screen.lines().find(|row| row.contains(text));
            row.map(str::to_owned).ok_or(screen)
        })
    }

    #[track_caller]
    pub fn wait_for_gone(&self, text: &str) {
        wait_for("end of the message", || {
            let screen = self.screen();
            if screen.contains(text) {
                Err(screen)
            } else {
                Ok(())
            }
        });
    }

    pub fn types(&self, text: &str) {
        (&self.pty).write_all(text.as_bytes()).unwrap();
    }

    /// Stops or continues the output of the terminal, as Ctrl-S and Ctrl-Q do.
    pub fn stop_output(&self, is_stopped: bool) {
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&self.terminal, flags, Mode::empty()).unwrap();
        let flow = if is_stopped { Flow::OOff } else { Flow::OOn };
        tcflow(terminal, flow).unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A client in control mode.
pub(super) struct ControlClient {
    child: Child,
    seen: Seen,
}

impl ControlClient {
    pub fn received(&self) -> String {
        lock(&self.seen.0).text.clone()
    }

    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        wait_for(text, || {
            let received = self.received();
            received.contains(text).then_some(()).ok_or(received)
        });
    }
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a client, which may have ended before.
fn end(client: &mut Child) {
    let _ = client.kill();
    let _ = client.wait();
}
