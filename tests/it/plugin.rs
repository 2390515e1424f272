//! The plugin for tmux, by tmux's own plugin manager (Debian's `tmux-plugin-manager`): installed, used and uninstalled
//! with the keys of a real client. And `td-observe next` and `td-observe tmux` without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{assert_code, text};
use crate::support::{CEILING, TmuxServer, wait_for};
use crate::tui::{ASKS, Stage};

const MANAGER: &str = "/usr/share/tmux-plugin-manager";

/// A tmux server with the user's configuration, and a client of it in a pane of another server.
struct Desk {
    stage: Stage,
    terminal: TmuxServer,
    pane: String,
}

impl Desk {
    /// Attaches a client to the session `work`.
    #[track_caller]
    fn new() -> Self {
        let stage = Stage::new();
        stage.host.new_session("work", 140, 30, "exec cat");
        stage
            .host
            .tmux(&["set-option", "-g", "status-interval", "1"]);
        let terminal = TmuxServer::new();
        let socket = stage.host.socket().display().to_string();
        let attach =
            format!("exec env -u TMUX -u TMUX_PANE tmux -S {socket} attach-session -t work");
        let pane = terminal.new_session("terminal", 140, 30, &attach);
        let desk = Self {
            stage,
            terminal,
            pane,
        };
        desk.is_shown("work");
        desk
    }

    fn host(&self) -> &TmuxServer {
        &self.stage.host
    }

    fn home(&self) -> &Path {
        self.stage.home.directory()
    }

    /// Presses keys in the client.
    #[track_caller]
    fn keys(&self, names: &[&str]) {
        let args = [&["send-keys", "-t", &self.pane], names].concat();
        self.terminal.tmux(&args);
    }

    /// Waits until the client's terminal shows a text.
    #[track_caller]
    fn shows(&self, text: &str) {
        self.terminal.wait_for_text(&self.pane, text);
    }

    /// Waits until the client shows a session.
    #[track_caller]
    fn is_shown(&self, session: &str) {
        wait_for(session, CEILING, || {
            let shown = self.host().tmux(&["list-clients", "-F", "#{session_name}"]);
            if shown == session { Ok(()) } else { Err(shown) }
        });
    }

    /// Returns the bindings of td-observe.
    fn bindings(&self) -> Vec<String> {
        let all = self.host().tmux(&["list-keys", "-T", "prefix"]);
        let ours = all.lines().filter(|line| line.contains("td-observe"));
        ours.map(str::to_owned).collect()
    }

    fn option(&self, name: &str) -> String {
        self.host().tmux(&["show-option", "-gqv", name])
    }

    /// Writes the user's configuration, with the plugin manager, which the paths of this test precede.
    fn configure(&self, lines: &str) {
        let plugins = self.home().join("plugins");
        let configuration = format!(
            "set-environment -g TMUX_PLUGIN_MANAGER_PATH '{}/'\n{lines}\nrun-shell {MANAGER}/tpm\n",
            plugins.display()
        );
        fs::write(self.home().join(".tmux.conf"), configuration).unwrap();
    }

    /// Runs what a key of the plugin manager runs.
    #[track_caller]
    fn manager(&self, what: &str) {
        self.host()
            .tmux(&["run-shell", &format!("{MANAGER}/bindings/{what}")]);
    }

    /// Waits until the observer, which the plugin starts, shows that as many sessions wait.
    #[track_caller]
    fn waits_for_questions(&self, names: &[&str]) {
        for name in names {
            self.stage
                .home
                .wait_for_row(name, |row| row["state"] == "waiting");
        }
    }

    /// Starts a session that asks a question, and waits for the question.
    #[track_caller]
    fn ask(&self, name: &str) {
        let pane = self.host().new_session(name, 140, 29, ASKS);
        self.host().wait_for_text(&pane, "Continue?");
    }
}

/// Makes a repository with the plugin, as the manager clones it.
fn repository(directory: &Path) -> PathBuf {
    let repository = directory.join("td-observe");
    fs::create_dir(&repository).unwrap();
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("td-observe.tmux");
    fs::copy(&plugin, repository.join("td-observe.tmux")).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(&repository)
            .args(args)
            .env("HOME", directory);
        let done = command.output().unwrap();
        assert!(
            done.status.success(),
            "git {args:?}: {}",
            text(&done.stderr)
        );
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    let author = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    git(&[&author[..], &["commit", "-q", "-m", "The plugin"]].concat());
    repository
}

fn has_manager() -> bool {
    let is_there = Path::new(MANAGER).join("tpm").exists();
    if !is_there {
        eprintln!("!!! tmux-plugin-manager is not installed: skipped");
    }
    is_there
}

#[test]
fn the_plugin_is_installed_used_and_uninstalled() {
    if !has_manager() {
        return;
    }
    let desk = Desk::new();
    let before = ["status-right", "status-right-length"].map(|name| desk.option(name));
    let sources = tempfile::tempdir().unwrap();
    let repository = repository(sources.path());
    let plugin = format!("set -g @plugin '{}'", repository.display());
    desk.configure(&plugin);
    desk.host().tmux(&[
        "source-file",
        &desk.home().join(".tmux.conf").display().to_string(),
    ]);
    desk.manager("install_plugins");
    assert_eq!(desk.bindings().len(), 2, "{:?}", desk.bindings());
    // Reading the configuration again changes nothing.
    let counts = desk.option("status-right");
    desk.manager("install_plugins");
    assert_eq!(desk.option("status-right"), counts);

    desk.ask("first");
    desk.waits_for_questions(&["first"]);
    desk.ask("second");
    desk.waits_for_questions(&["second"]);
    desk.shows("2 need you, ");
    // The pane that has needed the user longest, then the next one, then the first again.
    for session in ["first", "second", "first"] {
        desk.keys(&["C-b", "N"]);
        desk.is_shown(session);
    }
    // The terminal UI in a popup; Enter shows the pane of the selected row behind it, and closes it.
    desk.keys(&["C-b", "B"]);
    desk.shows("output first");
    desk.keys(&["j"]);
    desk.shows("output second");
    desk.keys(&["Enter"]);
    desk.is_shown("second");
    desk.shows("Continue? [y/N]");

    desk.configure("");
    desk.manager("clean_plugins");
    assert!(!desk.home().join("plugins/td-observe").exists());
    wait_for("nothing of the plugin", CEILING, || {
        // The line of the user's own configuration is known until the server ends.
        desk.host().tmux(&["set-option", "-gu", "@plugin"]);
        let options = desk.host().tmux(&["show-options", "-g"]);
        let left: Vec<&str> = options
            .lines()
            .filter(|line| line.contains("td-observe"))
            .collect();
        match (left.as_slice(), desk.bindings().as_slice()) {
            ([], []) => Ok(()),
            (options, keys) => Err(format!("{options:?} {keys:?}")),
        }
    });
    let after = ["status-right", "status-right-length"].map(|name| desk.option(name));
    assert_eq!(after, before);
    wait_for("the end of the observer", CEILING, || {
        let known = desk.stage.home.data().join("observer.json");
        if known.exists() {
            Err("it runs")
        } else {
            Ok(())
        }
    });
}

#[test]
fn the_users_own_settings_win() {
    if !has_manager() {
        return;
    }
    let desk = Desk::new();
    let sources = tempfile::tempdir().unwrap();
    let repository = repository(sources.path());
    desk.configure(&format!(
        "bind-key B next-window\n\
         set -g @td-observe-next-key M-n\n\
         set -g @td-observe-start off\n\
         set -g @td-observe-format 'busy {{working}}'\n\
         set -g status-left '#{{E:@td-observe-counts}} '\n\
         set -g status-right 'right'\n\
         set -g @plugin '{}'",
        repository.display()
    ));
    desk.host().tmux(&[
        "source-file",
        &desk.home().join(".tmux.conf").display().to_string(),
    ]);
    desk.manager("install_plugins");
    let bindings = desk.bindings();
    assert!(
        matches!(bindings.as_slice(), [next] if next.contains("M-n") && next.contains("td-observe next")),
        "{bindings:?}"
    );
    let mine = desk.host().tmux(&["list-keys", "-T", "prefix"]);
    assert!(
        mine.lines()
            .any(|line| line.ends_with("next-window") && line.contains(" B ")),
        "{mine}"
    );
    assert_eq!(desk.option("status-right"), "right");
    desk.shows("busy ");
    assert!(!desk.stage.home.data().join("observer.json").exists());
    // A key tells why it does nothing.
    desk.keys(&["C-b", "M-n"]);
    desk.shows("td-observe: nothing observes");
}

#[test]
fn lines_for_the_configuration_work_and_are_taken_back() {
    let desk = Desk::new();
    let before = ["status-right", "status-right-length"].map(|name| desk.option(name));
    let lines = |more: &[&str]| {
        let printed = desk.stage.home.run(&[&["tmux"], more].concat());
        assert_code(&printed, 0);
        text(&printed.stdout)
    };
    // Twice, as a configuration that is read again.
    let printed = lines(&["--key", "W"]);
    desk.host().script(&printed);
    desk.host().script(&printed);
    assert_eq!(desk.bindings().len(), 2);
    let right = desk.option("status-right");
    assert_eq!(right.matches("@td-observe-counts").count(), 1, "{right}");
    // A key that is the user's by now stays.
    desk.host()
        .tmux(&["bind-key", "N", "display-message", "mine"]);
    desk.host().script(&lines(&["--key", "W", "--remove"]));
    assert_eq!(desk.bindings(), [""; 0]);
    let after = ["status-right", "status-right-length"].map(|name| desk.option(name));
    assert_eq!(after, before);
    let keys = desk.host().tmux(&["list-keys", "-T", "prefix"]);
    assert!(
        keys.lines()
            .any(|line| line.ends_with("display-message mine")),
        "{keys}"
    );
    // What tmux or the shell would read differently is refused.
    for wrong in [
        ["--key", "a b"],
        ["--format", "it's"],
        ["--format", "#(reboot)"],
        ["--program", "a;b"],
    ] {
        let refused = desk.stage.home.run(&[&["tmux"], &wrong[..]].concat());
        assert_code(&refused, 2);
    }
}

#[test]
fn next_says_why_it_goes_nowhere() {
    let desk = Desk::new();
    let home = &desk.stage.home;
    let tmux = format!("{},1,0", desk.host().socket().display());
    let next = |args: &[&str]| {
        let mut command = home.command(&[&["next"], args].concat());
        command.env("TMUX", &tmux);
        crate::cli::Running::start(command).end()
    };
    // Neither tmux nor a terminal.
    let nowhere = home.run(&["next"]);
    assert_code(&nowhere, 2);
    let unobserved = next(&[]);
    assert_code(&unobserved, 3);
    home.start();
    let idle = next(&[]);
    assert_code(&idle, 1);
    assert_eq!(text(&idle.stdout), "nothing needs you\n");
    // Of another server than the client's.
    let pane = home.server.new_session("far", 80, 24, ASKS);
    home.server.wait_for_text(&pane, "Continue?");
    home.wait_for_row("far", |row| row["state"] == "waiting");
    let far = next(&[]);
    assert_code(&far, 1);
    assert_eq!(text(&far.stdout), "on another tmux server: far\n");
    let unknown = next(&["--client", "/dev/pts/none"]);
    assert_code(&unknown, 2);
}

#[test]
fn next_attaches_outside_tmux() {
    let mut stage = Stage::new();
    let pane = stage.home.server.new_session("asks", 80, 24, ASKS);
    stage.home.server.wait_for_text(&pane, "Continue?");
    stage.home.start();
    stage
        .home
        .wait_for_row("asks", |row| row["state"] == "waiting");
    stage.run((100, 30), "-u TMUX -u TMUX_PANE", "next");
    stage.shows("Continue? [y/N]");
    stage.home.server.tmux(&["detach-client", "-s", "asks"]);
    stage.ended(0);
}
