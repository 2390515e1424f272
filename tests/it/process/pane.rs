//! Commands in a real pane: the command becomes the terminal's foreground, and the shell gets it back.

use tempfile::TempDir;

use crate::support::{CEILING, TmuxServer, wait_for};

/// A pane with a shell that gets typed input.
pub struct Typed {
    pub server: TmuxServer,
    pub data: TempDir,
    pane: String,
    count: u32,
}

impl Typed {
    /// Opens a pane of this size.
    #[track_caller]
    pub fn new(columns: u32, rows: u32) -> Self {
        let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_td-observe"));
        let shell = format!(
            "cd '{data}' && exec env -u TMUX -u TMUX_PANE -u RUST_LOG -u NO_COLOR \
             TD_DATA_DIR='{data}' PATH=\"{path}:$PATH\" PS1='$ ' bash --norc --noprofile -i",
            data = data.path().display(),
            path = program.parent().unwrap().display(),
        );
        let pane = server.new_session("typed", columns, rows, &shell);
        let mut typed = Self {
            server,
            data,
            pane,
            count: 0,
        };
        typed.is_at_the_prompt();
        typed
    }

    #[track_caller]
    pub fn line(&self, text: &str) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "-l", text]);
        self.key("Enter");
    }

    /// Presses a key, named as in tmux.
    #[track_caller]
    pub fn key(&self, name: &str) {
        self.server.tmux(&["send-keys", "-t", &self.pane, name]);
    }

    #[track_caller]
    pub fn shows(&self, text: &str) {
        self.server.wait_for_text(&self.pane, text);
    }

    #[track_caller]
    pub fn screen(&self) -> String {
        self.server.screen(&self.pane)
    }

    /// Returns a tmux format, expanded for the pane.
    #[track_caller]
    pub fn format(&self, format: &str) -> String {
        self.server
            .tmux(&["display-message", "-p", "-t", &self.pane, format])
    }

    pub fn resize(&self, columns: u32, rows: u32) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.server
            .tmux(&["resize-window", "-t", "typed", "-x", &columns, "-y", &rows]);
    }

    /// Asserts that the shell has the terminal, with echo and line editing.
    #[track_caller]
    pub fn is_at_the_prompt(&mut self) {
        self.count += 1;
        let count = self.count;
        // Waits for the prompt: earlier input would be echoed twice.
        wait_for("the prompt", CEILING, || {
            let screen = self.screen();
            let last = screen
                .lines()
                .rfind(|line| !line.is_empty())
                .map(str::to_owned);
            if last.as_deref().map(str::trim_end) == Some("$") {
                Ok(())
            } else {
                Err(screen)
            }
        });
        self.line(&format!(
            "stty -a > modes{count}; echo at-prompt-{count}-$((40+2))"
        ));
        self.shows(&format!("\nat-prompt-{count}-42"));
        self.shows(&format!("echo at-prompt-{count}-$((40+2))"));
        let modes =
            std::fs::read_to_string(self.data.path().join(format!("modes{count}"))).unwrap();
        for mode in ["icanon", "echo", "isig", "icrnl", "opost", "onlcr"] {
            let is_set = modes.split([' ', ';', '\n']).any(|other| other == mode);
            assert!(is_set, "{mode}: {modes}");
        }
        // The next assertions must not see the old content.
        self.key("C-l");
        wait_for("an empty screen", CEILING, || {
            let screen = self.screen();
            if screen.contains("at-prompt-") {
                Err(screen)
            } else {
                Ok(())
            }
        });
    }
}

/// A command that prints its input.
const READS: &str = "echo ready; while read x; do echo \"took $x.\"; done; echo over";

#[test]
fn typed_input_goes_to_the_command() {
    let mut typed = Typed::new(100, 30);
    typed.line(
        "td-observe run --stdin -- sh -c 'echo ready; read x; echo got $x.; exit 3'; echo code=$?",
    );
    typed.shows("│   ready");
    typed.line("some words");
    typed.shows("got some words.");
    typed.shows("code=3");
    typed.is_at_the_prompt();
    // The command also gets the end of the input.
    typed.line(&format!(
        "td-observe run --stdin -- sh -c '{}'; echo code=$?",
        "echo ready; cat; exit 4"
    ));
    typed.shows("│   ready");
    typed.line("a line");
    typed.key("C-d");
    typed.shows("code=4");
    typed.is_at_the_prompt();
}

#[test]
fn ctrl_c_ends_the_command_and_is_reported() {
    let mut typed = Typed::new(100, 30);
    for option in ["--stdin", ""] {
        typed.line(&format!(
            "td-observe run {option} -- sh -c 'echo ready; sleep 1000; :'; echo code=$?"
        ));
        typed.shows("│   ready");
        typed.key("C-c");
        typed.shows("code=130");
        typed.shows("FAILURE: signal 2");
        typed.is_at_the_prompt();
    }
}

#[test]
fn ctrl_z_stops_command_and_program_and_fg_continues_them() {
    let mut typed = Typed::new(100, 50);
    std::fs::write(typed.data.path().join("reads.sh"), READS).unwrap();
    typed.line("td-observe run --stdin -- sh reads.sh; echo code=$?");
    typed.shows("│   ready");
    for round in 1..=8 {
        typed.key("C-z");
        typed.shows("Stopped");
        typed.is_at_the_prompt();
        typed.line("fg; echo end=$?");
        // The shell prints the job after it has given the terminal away: earlier input goes to the
        // shell.
        typed.shows("\ntd-observe run --stdin -- sh reads.sh");
        typed.line(&format!("word{round}"));
        typed.shows(&format!("took word{round}."));
    }
    typed.key("C-d");
    typed.shows("over");
    typed.shows("end=0");
    typed.is_at_the_prompt();
}

#[test]
fn terminal_modes_are_restored_when_a_signal_ends_the_command() {
    let mut typed = Typed::new(100, 30);
    // The command asks for a secret and is interrupted.
    typed.line("td-observe run --stdin -- sh -c 'stty -echo -icanon; echo ready; exec sleep 1000'; echo code=$?");
    typed.shows("│   ready");
    typed.key("C-c");
    typed.shows("code=130");
    typed.is_at_the_prompt();
    // The command is stopped while the shell has the terminal.
    let script = "stty -echo; echo ready; read x; stty echo; echo got $x.";
    typed.line(&format!(
        "td-observe run --stdin -- sh -c '{script}'; echo code=$?"
    ));
    typed.shows("│   ready");
    typed.key("C-z");
    typed.shows("Stopped");
    typed.is_at_the_prompt();
    typed.line("fg");
    typed.shows("\ntd-observe run --stdin");
    typed.line("secret");
    typed.shows("got secret.");
    typed.is_at_the_prompt();
    // The command times out.
    typed.line("td-observe run --timeout 1s --stdin -- sh -c 'stty -echo -icanon; exec sleep 1000'; echo code=$?");
    typed.shows("code=124");
    typed.is_at_the_prompt();
}

#[test]
fn a_command_that_uses_a_terminal_it_does_not_have_is_stopped_with_a_warning() {
    let mut typed = Typed::new(160, 30);
    typed.line("td-observe run --timeout 2s -- sh -c 'echo ready; read x < /dev/tty; echo got $x'; echo code=$?");
    typed.shows(
        "it was stopped because it uses the terminal, which it does not have: run --stdin lends",
    );
    typed.shows("code=124");
    typed.is_at_the_prompt();
}

#[test]
fn a_command_in_the_background_of_a_shell_takes_no_terminal() {
    let mut typed = Typed::new(100, 30);
    typed.line("td-observe run -q --execution-id bg -- sh -c 'while [ ! -e go ]; do sleep 0.02; done; echo done' &");
    typed.shows("[1]");
    typed.is_at_the_prompt();
    typed.line("touch go; wait; td-observe log bg; echo code=$?");
    typed.shows("code=0");
    typed.is_at_the_prompt();
}
