//! The terminal UI in a real tmux: keys are pressed in a pane, and its screen is read.

mod endings;
mod history;
mod live;
mod session;
mod without;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{PROGRAM, text};
use crate::observer::Home;
use crate::support::{CEILING, TmuxServer, wait_for};

/// Starts the UI and prints the terminal's state before and after. `td-observe` gets the script's
/// arguments.
const SCRIPT: &str = r#"
cd "$HOME"
echo before
stty -g > modes-before
sh -c 'echo $$ > pid; exec td-observe "$@"' td-observe "$@"
echo "code=$?"
stty -g > modes-after
echo over
exec cat
"#;

/// A session that asks a question and waits.
pub const ASKS: &str = r#"printf "Continue? [y/N] "; read a; echo "got $a"; exec cat"#;

/// A pane for the UI, and the observed server: each has its own tmux server.
pub struct Stage {
    pub home: Home,
    pub host: TmuxServer,
    pane: String,
}

impl Stage {
    /// Prepares the servers; shows nothing yet.
    pub fn new() -> Self {
        let home = Home::new();
        let directory = home.directory().display().to_string();
        let temporary = home.directory().join("tmp");
        fs::create_dir(&temporary).unwrap();
        fs::write(home.directory().join("script.sh"), SCRIPT).unwrap();
        let programs = Path::new(PROGRAM).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let host = TmuxServer::with_env(&[
            ("HOME", &directory),
            ("PATH", &path),
            ("TD_DATA_DIR", &home.data().display().to_string()),
            ("TMPDIR", &temporary.display().to_string()),
            ("XDG_RUNTIME_DIR", &format!("{directory}/run")),
        ]);
        Self {
            home,
            host,
            pane: String::new(),
        }
    }

    /// Runs the program with these arguments in the pane.
    #[track_caller]
    pub fn run(&mut self, (columns, rows): (u32, u32), environment: &str, args: &str) {
        let script = self.home.directory().join("script.sh");
        let command = format!(
            "exec env -u RUST_LOG -u NO_COLOR {environment} sh {} {args}",
            script.display()
        );
        self.pane = self.host.new_session("host", columns, rows, &command);
    }

    /// Starts the UI with more options, for the observed server.
    #[track_caller]
    pub fn start(&mut self, size: (u32, u32), options: &str) {
        let socket = self.home.server.socket();
        let args = format!("tui -S {} {options}", socket.display());
        self.run(size, "", &args);
    }

    pub fn screen(&self) -> String {
        self.host.screen(&self.pane)
    }

    /// Waits until the screen satisfies the predicate.
    #[track_caller]
    pub fn until(&self, what: &str, is_met: impl Fn(&str) -> bool) -> String {
        wait_for(what, CEILING, || {
            let screen = self.screen();
            if is_met(&screen) {
                Ok(screen)
            } else {
                Err(Shown(screen))
            }
        })
    }

    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits until no line of the screen contains the text.
    #[track_caller]
    pub fn shows_no(&self, text: &str) -> String {
        self.until(&format!("no {text}"), |screen| !screen.contains(text))
    }

    #[track_caller]
    pub fn types(&self, text: &str) {
        self.host.tmux(&["send-keys", "-t", &self.pane, "-l", text]);
    }

    #[track_caller]
    pub fn keys(&self, names: &[&str]) {
        let args = [&["send-keys", "-t", &self.pane], names].concat();
        self.host.tmux(&args);
    }

    /// Sends a signal to the process of the UI.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.home.directory().join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end, and checks that the terminal is restored.
    #[track_caller]
    pub fn ended(&self, code: i32) {
        let screen = self.shows("over");
        assert_eq!(screen, format!("before\ncode={code}\nover"));
        self.is_as_before();
    }

    /// Checks the modes of the terminal that the screen does not show.
    #[track_caller]
    pub fn is_as_before(&self) {
        let modes = "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag} #{mouse_any_flag}";
        let modes = ["display-message", "-p", "-t", &self.pane, modes];
        assert_eq!(self.host.tmux(&modes), "0 1 0 0");
        let read = |name| fs::read_to_string(self.home.directory().join(name)).unwrap();
        assert_eq!(read("modes-before"), read("modes-after"));
    }

    /// Waits until nothing is left of an observer that belonged to the UI.
    #[track_caller]
    pub fn left_nothing(&self) {
        wait_for("nothing that is left", CEILING, || {
            let mut left = self.files_left();
            left.extend(self.processes_left());
            let piped = ["list-panes", "-a", "-f", "#{pane_pipe}"].map(OsStr::new);
            // Without a server there are no panes.
            let piped = text(&self.home.server.try_tmux(&piped, "").stdout);
            left.extend((!piped.is_empty()).then_some(piped));
            left.is_empty().then_some(()).ok_or(left)
        });
        assert!(!self.home.data().join("observer.json").exists());
    }

    fn files_left(&self) -> Vec<String> {
        let places = ["tmp", "run/td-observe"].map(|name| self.home.directory().join(name));
        let found = |place: PathBuf| fs::read_dir(place).into_iter().flatten().flatten();
        let files = places.into_iter().flat_map(found);
        files
            .map(|file| file.path().display().to_string())
            .collect()
    }

    /// Returns the processes of the program that this stage started.
    fn processes_left(&self) -> Vec<String> {
        let program = fs::canonicalize(PROGRAM).unwrap();
        let places = [self.home.directory(), self.home.server.directory()];
        let is_ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program)
                && places
                    .iter()
                    .any(|place| environment.contains(&place.display().to_string()))
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .map(|entry| entry.path())
            .filter(|process| is_ours(process))
            .map(|process| {
                let line = fs::read(process.join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).replace('\0', " ")
            })
            .collect()
    }
}

/// A screen in a failure message, shown as drawn.
struct Shown(String);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

/// Returns the view's part of a wide screen: the columns to the right of the board.
pub fn view_of(screen: &str) -> String {
    let right = |line: &str| line.split_once('│').map(|(_, right)| format!("{right}\n"));
    screen.lines().filter_map(right).collect()
}
