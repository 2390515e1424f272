//! Sessions with difficult names: each is watched, logged in its own directory, and found by name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use td_observe::TdEvent;
use td_observe::internals::history::encode_name;
use td_observe::internals::tmux::resolve;
use td_observe::internals::track::TmuxVersion;
use td_observe::tmux::Target;

use crate::observed::{Observed, logs};
use crate::support::TmuxServer;

/// Names that users may choose. tmux replaces some characters: colons, dots, controls. From 3.7 on it
/// keeps colons and dots, and refuses invalid UTF-8.
const NAMES: [&[u8]; 38] = [
    b"two words",
    b" before",
    b"after ",
    b"   ",
    "漢字の名前".as_bytes(),
    "👩\u{200d}👩\u{200d}👧 family 🎉".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{202e}txt.exe".as_bytes(),
    b"=exact",
    b"$money",
    b"$7",
    b"%1",
    b"@3",
    b"-dash",
    b"~home",
    b"../../escape",
    b"/etc/passwd",
    b"a/b\\c",
    b"100%",
    b"%2E%2E",
    b"quote\"s and 'more'",
    b"semicolon;",
    b";",
    b"$(touch x) `y` && z | w > v",
    b"*",
    b"job-1",
    b"job-10",
    &[b'l'; 300],
    b"co:lon",
    b"dot.dot",
    b"..",
    b"tab\there",
    b"line\nend",
    b"esc\x1b[31m",
    b"bad \xff\xfe utf",
    b"cut \xe6\xbc",
    // `##` stands for one `#` where tmux would expand it.
    b"##{pid} ##S ##(touch x)",
    b"%%d %%H",
];

/// Returns true if tmux refuses names that are not valid text.
fn are_names_text(server: &TmuxServer) -> bool {
    server.version() >= TmuxVersion::new(3, 7)
}

/// Starts the server with a session that no test uses.
fn first_session_goes(server: &TmuxServer) {
    server.new_session("first", 20, 5, "exec cat");
    server.tmux(&["set-option", "-s", "exit-empty", "off"]);
    server.tmux(&["kill-session", "-t", "=first"]);
}

/// Starts a session of each name; returns their names in tmux with their panes.
fn start_all(server: &TmuxServer) -> BTreeMap<String, String> {
    let format = "#{pane_id} #{session_name}";
    let shape = [
        "new-session",
        "-d",
        "-x",
        "40",
        "-y",
        "5",
        "-P",
        "-F",
        format,
        "-s",
    ];
    let mut panes = BTreeMap::new();
    first_session_goes(server);
    let are_refused = are_names_text(server);
    let is_text =
        |name: &&[u8]| std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control));
    let names = NAMES
        .into_iter()
        .filter(|name| !are_refused || is_text(name));
    let mut count = 0;
    for raw_name in names {
        count += 1;
        let mut args: Vec<&OsStr> = shape.iter().map(OsStr::new).collect();
        args.extend([OsStr::from_bytes(raw_name), OsStr::new("exec cat")]);
        let made = server.tmux_os(&args);
        let (pane, name) = made.split_once(' ').unwrap();
        panes.insert(name.to_owned(), pane.to_owned());
    }
    assert_eq!(panes.len(), count);
    assert!(
        panes.keys().any(|name| name.contains("#{pid}")),
        "{panes:#?}"
    );
    panes
}

/// Checks that sessions of all names are watched and that each run is in its own directory.
fn all_are_watched(server: &TmuxServer, mut observed: Observed, panes: &BTreeMap<String, String>) {
    observed.until_started(panes.len());
    for pane in panes.values() {
        server.tmux(&["send-keys", "-t", pane, "-l", &format!("in {pane}")]);
        server.tmux(&["send-keys", "-t", pane, "Enter"]);
    }
    for pane in panes.values() {
        observed.until_line(&format!("in {pane}"));
    }
    observed.stop();
    let started: BTreeMap<String, (String, String)> = observed
        .seen
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::SessionStarted {
                execution_id,
                session,
                panes,
            } => Some((
                session.clone(),
                (execution_id.to_string(), panes.iter().next()?.to_string()),
            )),
            _ => None,
        })
        .collect();
    let found: BTreeMap<_, _> = started
        .iter()
        .map(|(name, (_, pane))| (name.clone(), pane.clone()))
        .collect();
    assert_eq!(&found, panes);
    let data = server.directory().join("data");
    let logs = logs(&data);
    assert_eq!(logs.len(), panes.len());
    for (name, (id, pane)) in &started {
        assert!(id.starts_with(&format!("{name}@")), "{id:?}");
        let log = &logs[&encode_name(id)];
        let of_pane = |line: &str| {
            log.iter().any(|envelope| {
                matches!(&envelope.event, TdEvent::OutputUpdate { chunk, .. } if chunk.contains(line))
            })
        };
        assert!(of_pane(&format!("in {pane}\n")), "{name:?}");
        assert!(
            log.iter()
                .all(|envelope| envelope.event.execution_id() == id)
        );
    }
    // Nothing was created anywhere else.
    let made = fs::read_dir(&data).unwrap().flatten();
    let made: Vec<_> = made.map(|entry| entry.file_name()).collect();
    assert_eq!(made, ["runs"]);
    for name in ["escape", "x", "v"] {
        assert!(!server.directory().join(name).exists());
        assert!(!data.join("runs").join(name).exists());
    }
}

#[test]
fn every_name_is_watched_and_logged_in_its_own_directory() {
    let server = TmuxServer::new();
    let panes = start_all(&server);
    let observed = Observed::all(&server);
    all_are_watched(&server, observed, &panes);
}

#[test]
fn every_name_is_watched_without_a_locale() {
    let server = TmuxServer::with_env(&[("LC_ALL", "C"), ("LANG", ""), ("LC_CTYPE", "")]);
    let panes = start_all(&server);
    let access = server.server().with_env("LC_ALL", "C").with_env("LANG", "");
    let observed = Observed::with(&server, access);
    all_are_watched(&server, observed, &panes);
}

#[test]
fn every_name_that_is_no_id_finds_its_session() {
    let server = TmuxServer::new();
    let panes = start_all(&server);
    let listing = server.listing();
    for (name, pane) in &panes {
        let target = Target::parse(name).unwrap();
        let meant: Vec<String> = resolve(&target, &listing)
            .iter()
            .map(|state| state.pane().to_string())
            .collect();
        match name.as_str() {
            // These are ids for tmux, too: such a session is found only by its own id.
            "$7" | "%1" | "@3" => assert_ne!(meant, [pane.as_str()], "{name:?}"),
            _ => assert_eq!(meant, [pane.as_str()], "{name:?}"),
        }
    }
}

#[test]
fn a_watch_of_one_difficult_name_shows_that_session_only() {
    let server = TmuxServer::new();
    let panes = start_all(&server);
    for part in ["job-1", " before", "semicolon;", "#{pid}", "utf", "*"] {
        let Some((name, pane)) = panes.iter().find(|(name, _)| name.contains(part)) else {
            assert!(part == "utf" && are_names_text(&server), "{part}");
            continue;
        };
        let mut observed = Observed::session(&server, name);
        observed.until_started(1);
        server.tmux(&["kill-session", "-t", pane]);
        observed.until("its end", |seen| {
            seen.iter()
                .any(|envelope| matches!(envelope.event, TdEvent::SessionEnded { .. }))
        });
        observed.stop();
        let ids = observed
            .seen
            .iter()
            .map(|envelope| envelope.event.execution_id());
        assert!(
            ids.clone().all(|id| id.starts_with(&format!("{name}@"))),
            "{:?}",
            ids.collect::<Vec<_>>()
        );
    }
}
