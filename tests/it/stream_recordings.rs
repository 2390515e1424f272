//! Recordings played in a pane of real tmux: the stream's terminal shows the same screen as tmux, and has
//! the same lines.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use td_observe::Clock;
use td_observe::internals::tmux::{CaptureResult, CaptureSpec, capture};
use td_observe::internals::track::{
    Capture, Change, StreamTracker, SyncPoint, TerminalModes, Tracker, unescape,
};

use super::recordings::{files_below, recordings};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Recordings that differ, and why.
const DIFFER: &[(&str, &str)] = &[];

/// A recording: columns, rows, bytes.
pub type Recording = (u32, u32, Vec<u8>);

/// Reads a recording; returns `None` for another file.
pub fn read(path: &Path) -> Option<Recording> {
    let name = path.file_name()?.to_str()?;
    if name == "alacritty.recording" {
        let size = fs::read_to_string(path.with_file_name("size.json")).ok()?;
        let size: serde_json::Value = serde_json::from_str(&size).ok()?;
        let number = |key: &str| Some(size.get(key)?.as_u64()? as u32);
        return Some((
            number("columns")?,
            number("screen_lines")?,
            fs::read(path).ok()?,
        ));
    }
    if name.ends_with(".pty.log") {
        return Some((80, 24, fs::read(path).ok()?));
    }
    if !name.ends_with(".cast") {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next()?).ok()?;
    let terminal = header.get("term").unwrap_or(&header);
    let number = |long: &str, short: &str| {
        let number = terminal.get(long).or_else(|| terminal.get(short))?;
        Some(number.as_u64()? as u32)
    };
    let events = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let printed = events.filter(|event| event.get(1).is_some_and(|kind| kind == "o"));
    let bytes: String = printed
        .filter_map(|event| Some(event.get(2)?.as_str()?.to_owned()))
        .collect();
    Some((
        number("width", "cols")?,
        number("height", "rows")?,
        bytes.into_bytes(),
    ))
}

fn capture_of(server: &TmuxServer, pane: &str, depth: u32) -> Capture {
    let spec = CaptureSpec {
        pane: pane.into(),
        depth,
        saved: true,
        resync: None,
    };
    let known = server.listing().server;
    let shown = capture(&server.server(), &Clock::system(), &known, &[spec]).unwrap();
    match shown.into_iter().next() {
        Some(CaptureResult::Captured(view)) => view.capture,
        other => panic!("{other:?}"),
    }
}

/// Plays a recording; returns the final difference between the stream and tmux, if any.
fn play(server: &TmuxServer, number: usize, (width, height, bytes): Recording) -> Option<String> {
    let directory = server.directory();
    fs::write(directory.join("recording"), &bytes).unwrap();
    let command = format!(
        "cd '{}' && stty -opost -echo && printf 'before\\r\\n$ ' && tmux wait-for go{number}; \
         cat recording; printf '\\033]2;done{number}\\033\\134'; exec cat",
        directory.display()
    );
    let pane = server.new_session(&format!("play{number}"), width, height, &command);
    server.wait_for_text(&pane, "$");
    // The program waits, so that the replies of all commands of the sync point describe the same state.
    let file = directory.join(format!("bytes{number}"));
    let sync_point = SyncPoint {
        capture: capture_of(server, &pane, 100),
        modes: TerminalModes::read(&server.tmux(&[
            "display-message",
            "-p",
            "-t",
            &pane,
            TerminalModes::FORMAT,
        ])),
        pending: unescape(&server.tmux(&["capture-pane", "-p", "-P", "-C", "-t", &pane])),
        version: server.version(),
    };
    let pipe = format!("exec cat > '{}'", file.display());
    server.tmux(&["pipe-pane", "-O", "-t", &pane, &pipe]);
    server.tmux(&["wait-for", "-S", &format!("go{number}")]);
    let end = format!("done{number}");
    wait_for("the end of the recording", CEILING, || {
        let title = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_title}"]);
        if title == end { Ok(()) } else { Err(title) }
    });
    let streamed = wait_for("the last byte", CEILING, || {
        let streamed = fs::read(&file).unwrap_or_default();
        let ended = format!("{end}\x1b\\");
        if streamed.ends_with(ended.as_bytes()) {
            Ok(streamed)
        } else {
            Err(streamed.len())
        }
    });
    let last = capture_of(server, &pane, 100_000);
    let joined = server.joined(&pane, &["-S", "-"]);
    server.tmux(&["kill-session", "-t", &format!("=play{number}")]);

    let (tracker, mut changes) = Tracker::fresh(&sync_point.capture);
    let mut stream = StreamTracker::new(tracker, &sync_point);
    let mut now = Duration::ZERO;
    for piece in streamed.chunks(1009) {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = stream.feed(rest);
            rest = &rest[taken..];
            changes.extend(stream.changes(now));
        }
        now += Duration::from_millis(7);
    }
    for _ in 0..3 {
        now += Duration::from_secs(1);
        changes.extend(stream.changes(now));
    }
    if let Some(difference) = stream.difference(&last) {
        return Some(format!("{difference:?}"));
    }
    if last.alternate || bytes.windows(4).any(|some| some == b"\x1b[3J") {
        return None;
    }
    // The lines that tmux still has are the last reported ones.
    let replayed = replay(&changes);
    let shown: Vec<&str> = joined.trim_end().lines().map(str::trim_end).collect();
    let replayed = &replayed[replayed.len().saturating_sub(shown.len())..];
    let other = shown
        .iter()
        .zip(replayed)
        .rposition(|(shown, line)| shown != line);
    other.map(|at| format!("line {at}: {:?} for {:?}", replayed[at], shown[at]))
}

/// Returns the lines of a reader of the changes.
fn replay(changes: &[Change]) -> Vec<String> {
    let mut lines = BTreeMap::new();
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                lines.extend((*first_line..).zip(chunk.lines().map(str::to_owned)));
            }
            Change::Revised { line, text } => drop(lines.insert(*line, text.clone())),
            Change::Gap { .. } => panic!("{change:?}"),
            Change::Screen { .. } => {}
        }
    }
    let last = lines.keys().next_back().copied().unwrap_or(0);
    let line = |number| {
        lines
            .get(&number)
            .map_or("", |line: &String| line.trim_end())
    };
    let mut lines: Vec<String> = (1..=last).map(|number| line(number).to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn recordings_are_shown_as_in_tmux() {
    let Some(root) = recordings() else { return };
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    server.script("set-option -g history-limit 100000");
    let (mut played, mut differ) = (0, Vec::new());
    for folder in ["pty-recordings", "asciicast", "build-logs"] {
        let folder = root.join(folder);
        if !folder.is_dir() {
            eprintln!("NOT TESTED: no recordings in {}", folder.display());
            continue;
        }
        for path in files_below(&folder) {
            let Some(recording) = read(&path) else {
                continue;
            };
            played += 1;
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            if let Some(how) = play(&server, played, recording) {
                eprintln!("{name}: {how}");
                differ.push(name);
            }
        }
    }
    eprintln!("{played} recordings, {} differ", differ.len());
    let known: Vec<&str> = DIFFER.iter().map(|(name, _)| *name).collect();
    assert_eq!(differ, known, "{DIFFER:?}");
}
