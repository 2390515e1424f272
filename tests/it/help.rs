//! The program explains itself: help, the guide, manual pages, and suggestions for misspelled names.

use std::path::Path;
use std::process::Command;

use crate::cli::{assert_code, ends_quietly_unread, program, refused, run, text};
use crate::support::{TmuxServer, wait_for};

const TOPICS: [&str; 12] = [
    "watching",
    "streaming",
    "waiting",
    "running",
    "loops",
    "agents",
    "history",
    "events",
    "secrets",
    "limits",
    "library",
    "performance",
];

const COMMANDS: [&str; 15] = [
    "demo",
    "watch",
    "run",
    "loop",
    "agents",
    "states",
    "wait",
    "runs",
    "log",
    "replay",
    "export",
    "hooks",
    "completions",
    "man",
    "help",
];

/// Checks for one line on standard error that contains all of these texts, and exit code 2.
#[track_caller]
fn assert_refused(args: &[&str], data: &Path, parts: &[&str]) {
    let output = run(args, data);
    assert_code(&output, refused(args));
    let complaint = text(&output.stderr);
    assert_eq!(complaint.lines().count(), 1, "{args:?}: {complaint}");
    for part in parts {
        assert!(complaint.contains(part), "{args:?}: {part:?}: {complaint}");
    }
}

#[test]
fn each_chapter_and_the_help_of_each_command_is_printed() {
    let data = tempfile::tempdir().unwrap();
    let list = text(&run(&["help"], data.path()).stdout);
    for name in COMMANDS.iter().chain(&TOPICS) {
        let has_it = list
            .lines()
            .any(|line| line.starts_with(&format!("  {name} ")));
        assert!(has_it, "{name}: {list}");
    }
    for topic in TOPICS {
        let output = run(&["help", topic], data.path());
        assert_code(&output, 0);
        let shown = text(&output.stdout);
        let chapter = std::fs::read_to_string(format!(
            "{}/src/guide/{topic}.md",
            env!("CARGO_MANIFEST_DIR")
        ));
        assert!(shown.ends_with(&chapter.unwrap()), "{topic}: {shown}");
        let is_safe = |c: char| !c.is_control() || c == '\n';
        assert!(shown.chars().all(is_safe), "{topic}");
    }
    for command in COMMANDS {
        let helped = text(&run(&["help", command], data.path()).stdout);
        let help_text = text(&run(&[command, "--help"], data.path()).stdout);
        assert!(
            help_text.contains("Examples:") && helped.starts_with(&help_text),
            "{command}"
        );
    }
    let nested = text(&run(&["help", "runs", "prune"], data.path()).stdout);
    assert!(nested.contains("--dry-run"), "{nested}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_closed_pipe_ends_a_chapter_quietly() {
    let data = tempfile::tempdir().unwrap();
    ends_quietly_unread(program(&["help", "events"], data.path()));
    ends_quietly_unread(program(&["completions", "zsh"], data.path()));
}

#[test]
fn a_chapter_on_a_terminal_goes_through_the_pager() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let pane = tmux.new_session("pager", 100, 30, "PS1='$ ' exec sh");
    let help = format!("{} help streaming", env!("CARGO_BIN_EXE_td-observe"));
    for (pager, shown) in [
        ("PAGER='sed -n \"1s/^# /paged: /p\"'", "paged: Streaming"),
        // Without a pager, or with one that cannot be started, the text is printed.
        ("PAGER=", "## What is found too late"),
        ("PAGER=/nonexistent/pager", "## What is found too late"),
    ] {
        let path = data.path().display();
        let line = format!("clear; TD_DATA_DIR={path} {pager} {help}; echo 'status:' $?");
        tmux.tmux(&["send-keys", "-t", &pane, &line, "Enter"]);
        wait_for(shown, crate::support::CEILING, || {
            let screen = tmux.screen(&pane);
            if screen.contains(shown) && screen.contains("status: 0\n") {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }
}

#[test]
fn help_has_own_options_first_and_fits_eighty_columns() {
    let data = tempfile::tempdir().unwrap();
    for command in COMMANDS {
        for columns in [80, 100] {
            let mut help_command = program(&[command, "--help"], data.path());
            help_command.env("COLUMNS", columns.to_string());
            let help = text(&help_command.output().unwrap().stdout);
            for line in help.lines() {
                assert!(
                    line.chars().count() <= columns,
                    "{command} {columns}: {line}"
                );
            }
            let at = |heading: &str| help.find(heading);
            if let Some(global) = at("\nGlobal options:") {
                assert!(at("\nOptions:").is_some_and(|own| own < global), "{help}");
            }
        }
    }
}

#[test]
fn options_without_a_meaning_are_left_out_of_the_help_and_refused() {
    let data = tempfile::tempdir().unwrap();
    for (command, more, option, value) in [
        ("runs", &[][..], "--no-log", None),
        ("runs", &[], "-L", Some("work")),
        ("runs", &[], "--color", Some("never")),
        ("states", &[], "-L", Some("work")),
        ("states", &[], "--no-log", None),
        ("log", &["x"], "-S", Some("/tmp/x")),
        ("log", &["x"], "--no-log", None),
        ("replay", &["x"], "-L", Some("work")),
        ("export", &["x", "--format", "text"], "--json", None),
        ("schema", &[], "--data-dir", Some("/tmp")),
        ("start", &[], "--no-log", None),
        ("wait", &["x", "--exit"], "--no-log", None),
        ("demo", &[], "-L", Some("work")),
        ("agents", &[], "-L", Some("work")),
        ("hooks", &["show", "claude"], "--json", None),
        ("man", &["/nonexistent/x"], "-q", None),
        ("help", &[], "--no-log", None),
    ] {
        let help = text(&run(&[command, "--help"], data.path()).stdout);
        let (options, _) = help.split_once("Examples:").unwrap();
        let names_it = |line: &str| {
            let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
            words.next() == Some(option) || words.next() == Some(option)
        };
        assert!(!options.lines().any(names_it), "{command} {option}: {help}");
        let mut args = vec![command];
        args.extend(more);
        args.push(option);
        args.extend(value);
        assert_refused(&args, data.path(), &[&format!("{command}: "), "leave"]);
    }
    // Options that do nothing useful are accepted.
    for command in ["demo", "runs", "replay"] {
        let help = text(&run(&[command, "--help"], data.path()).stdout);
        assert!(!help.contains("--quiet"), "{help}");
    }
    assert_code(&run(&["runs", "-q"], data.path()), 0);
    for command in [&["runs", "prune"][..], &["wait"], &["status"], &["stop"]] {
        let help = text(&run(&[command, &["--help"]].concat(), data.path()).stdout);
        assert!(help.contains("--quiet"), "{help}");
    }
    let watch = text(&run(&["watch", "--help"], data.path()).stdout);
    for option in [
        "-L <NAME>",
        "-S <PATH>",
        "--data-dir",
        "--no-log",
        "--json",
        "--color",
    ] {
        assert!(watch.contains(option), "{option}: {watch}");
    }
}

#[test]
fn a_misspelled_name_is_refused_with_suggestions() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("build", 80, 24, "exec cat");
    tmux.new_session("agent", 80, 24, "exec cat");
    let socket = tmux.socket().display().to_string();
    assert_refused(
        &["wacth"],
        data.path(),
        &["did you mean watch?", "runs", "replay"],
    );
    assert_refused(
        &["help", "streming"],
        data.path(),
        &["did you mean \"streaming\"?", "waiting"],
    );
    assert_refused(
        &["wait", "-S", &socket, "biuld", "--exit"],
        data.path(),
        &["did you mean \"build\"?", "there are: agent, build"],
    );
    assert_code(
        &run(
            &["run", "-q", "--execution-id", "make@1", "true"],
            data.path(),
        ),
        0,
    );
    for command in [&["log"][..], &["replay"], &["export", "--format", "text"]] {
        let args = [command, &["mkae@1"]].concat();
        assert_refused(
            &args,
            data.path(),
            &["did you mean \"make@1\"?", "there are: "],
        );
    }
    assert_refused(
        &["log", "make@1", "--type", "OutputUpdat"],
        data.path(),
        &["did you mean \"OutputUpdate\"?", "there are LoopStarted, "],
    );
    assert_refused(
        &["log", "--execution", "mkae@1"],
        data.path(),
        &["did you mean \"make@1\"?", "there are: make@1"],
    );
    assert_refused(
        &["log", "make@1", "--execution", "mkae@1"],
        data.path(),
        &["did you mean \"make@1\"?"],
    );
    // A file from elsewhere has executions that no run has.
    let elsewhere = tempfile::tempdir().unwrap();
    let file = data.path().join("runs/make@1/events.jsonl");
    let file = file.to_str().unwrap();
    let args = ["log", file, "--execution", "make@1", "--grep", "nothing"];
    let silent = run(&args, elsewhere.path());
    assert_code(&silent, 1);
    assert_eq!(text(&silent.stderr), "");
    assert_refused(
        &["status", "mkae@1"],
        data.path(),
        &["did you mean \"make@1\"?", "there are: true, make@1"],
    );
    for command in [
        &["run", "--as", "cluade", "true"][..],
        &["loop", "--as", "cluade"],
    ] {
        assert_refused(
            command,
            data.path(),
            &["did you mean \"claude\"?", "there are: auto, claude, "],
        );
    }
    assert_refused(
        &["states", "--show", "cluade"],
        data.path(),
        &["did you mean \"claude\"?", "there are: "],
    );
    assert_refused(
        &["hooks", "show", "cluade"],
        data.path(),
        &["there are hooks for claude only"],
    );
    assert_refused(
        &["runs", "prnue"],
        data.path(),
        &["did you mean \"prune\"?"],
    );
    #[cfg(feature = "kernel")]
    assert_refused(
        &["kernel", "--kernel", "pyhton3", "-c", "1"],
        data.path(),
        &["did you mean \"python3\"?", "there are: "],
    );
    // A missing target is awaited, and a similar name is suggested.
    let mut watch = crate::cli::Running::start(program(
        &[
            "watch",
            "-S",
            &socket,
            "--execution-id",
            "w",
            "biuld",
            "agent",
        ],
        data.path(),
    ));
    watch.wait_for("agent | [watching");
    watch.signal(rustix::process::Signal::INT);
    let note = text(&watch.end().stderr);
    assert!(
        note.contains("\"biuld\" does not exist; did you mean \"build\"?"),
        "{note}"
    );
    assert!(!note.contains("\"agent\""), "{note}");
    assert_eq!(note.lines().count(), 1, "{note}");
}

#[test]
fn manual_pages_are_shown_without_a_warning() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pages = place.path().join("man/man1");
    assert_code(&run(&["man", pages.to_str().unwrap()], data.path()), 0);
    // Where documentation is excluded, `man` is another program.
    let version = Command::new("man").arg("--version").output();
    let is_installed = version.is_ok_and(|output| text(&output.stdout).starts_with("man "));
    if !is_installed {
        eprintln!("!!! man is not installed: its warnings are NOT tested (apt-get install man-db)");
    }
    for command in COMMANDS
        .map(|name| format!("td-observe-{name}"))
        .iter()
        .chain([
            &"td-observe".to_owned(),
            &"td-observe-runs-prune".to_owned(),
        ])
    {
        let page = pages.join(format!("{command}.1"));
        assert!(page.exists(), "{page:?}");
    }
    for page in std::fs::read_dir(&pages).unwrap().filter(|_| is_installed) {
        let page = page.unwrap().path();
        let shown = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(&page)
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{shown:#?}"
        );
        assert!(text(&shown.stdout).contains("SYNOPSIS"), "{shown:#?}");
        let has_examples = text(&shown.stdout).matches("xamples:").count();
        assert_eq!(has_examples, 0, "the heading is enough: {shown:#?}");
    }
    let unwritable = run(&["man", "/dev/null/x"], data.path());
    assert_code(&unwritable, 2);
    assert!(
        text(&unwritable.stderr).contains("/dev/null/x"),
        "{unwritable:?}"
    );
}

#[test]
fn the_readme_is_short_and_its_links_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.len() <= 12 * 1024, "{} bytes", readme.len());
    for topic in TOPICS {
        let link = format!("[{topic}](src/guide/{topic}.md)");
        assert!(readme.contains(&link), "{link}");
    }
    for (_, rest) in readme
        .match_indices("](")
        .map(|(at, _)| readme.split_at(at + 2))
    {
        let path = rest.split(')').next().unwrap();
        assert!(root.join(path).is_file(), "{path}");
    }
    assert!(!root.join("examples").exists());
}
