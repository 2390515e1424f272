//! Recordings of real programs, played in panes that are observed by captures and by bytes at the same
//! time: both replays equal the final screen of tmux.

use std::fs;
use std::path::PathBuf;

use super::by_bytes;
use crate::observed::{Observed, Replay};
use crate::recordings::{files_below, recordings};
use crate::stream_recordings::read;
use crate::support::CEILING;
use crate::support::{TmuxServer, within};

/// Recordings with a different replay: source, file, and reason.
const DIFFER: &[(&str, &str, &str)] = &[];

/// Returns the last lines of a replay and of tmux's screen, if they differ.
fn difference(replay: &Replay, shows: &[&str]) -> Option<String> {
    let text = replay.text();
    let replayed: Vec<&str> = text.lines().collect();
    let same = replayed.len().min(shows.len());
    let (shows, replayed) = (
        &shows[shows.len() - same..],
        &replayed[replayed.len() - same..],
    );
    let other = shows
        .iter()
        .zip(replayed)
        .rposition(|(shown, line)| shown != line)?;
    // The pane may have lost the beginning of the oldest line.
    let is_rest = other == 0 && replayed[0].ends_with(shows[0]);
    (!is_rest).then(|| {
        format!(
            "{other} of {same}: {:?} for {:?}",
            replayed[other], shows[other]
        )
    })
}

/// Plays some recordings; returns those that differ.
fn play(paths: &[PathBuf]) -> Vec<String> {
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    server.script("set-option -g history-limit 100000");
    let mut polled = Observed::all(&server);
    let mut bytes = Observed::start(&server, by_bytes);
    polled.until_started(1);
    bytes.until_started(1);
    let mut differ = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let Some((width, height, recorded)) = read(path) else {
            continue;
        };
        let directory = server.directory();
        fs::write(directory.join("recording"), &recorded).unwrap();
        let program = format!(
            "cd '{}' && stty -opost -echo && tmux wait-for go{at}; cat recording; \
             tmux wait-for -S done{at}; exec cat",
            directory.display()
        );
        let pane = server.new_session(&format!("play{at}"), width, height, &program);
        polled.until_started(at + 2);
        bytes.until_started(at + 2);
        server.tmux(&["wait-for", "-S", &format!("go{at}")]);
        server.tmux(&["wait-for", &format!("done{at}")]);
        let is_alternate = server.tmux(&["display-message", "-p", "-t", &pane, "#{alternate_on}"]);
        let captured = match &*is_alternate {
            // A full-screen program hides the lines.
            "1" => server.joined(&pane, &["-a"]),
            _ => server.joined(&pane, &["-S", "-"]),
        };
        let shows: Vec<&str> = captured.trim_end().lines().map(str::trim_end).collect();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (source, observed) in [("looks", &mut polled), ("bytes", &mut bytes)] {
            let same = within(CEILING / 4, || {
                observed.take_ready();
                difference(&observed.replay(&pane), &shows).map_or(Ok(()), Err)
            });
            if let Err(how) = same {
                eprintln!("{name} by {source}: {how}");
                differ.push(format!("{name} by {source}"));
            }
            observed
                .seen
                .retain(|envelope| envelope.event.pane().is_none());
        }
        server.tmux(&["kill-session", "-t", &format!("=play{at}")]);
    }
    polled.stop();
    bytes.stop();
    differ
}

#[test]
fn recordings_have_the_text_of_tmux_by_captures_and_by_bytes() {
    let Some(root) = recordings() else { return };
    let folders = ["pty-recordings", "asciicast"].map(|folder| root.join(folder));
    let exists = |folder: &&PathBuf| {
        let is_there = folder.is_dir();
        if !is_there {
            eprintln!("NOT TESTED: no recordings in {}", folder.display());
        }
        is_there
    };
    let mut paths: Vec<PathBuf> = folders
        .iter()
        .filter(exists)
        .flat_map(|folder| files_below(folder))
        .collect();
    paths.retain(|path| read(path).is_some());
    let differ: Vec<String> = std::thread::scope(|scope| {
        let parts = paths.chunks(paths.len().div_ceil(4).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || play(part))).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    eprintln!("{} recordings, {} differ", paths.len(), differ.len());
    let mut known: Vec<String> = DIFFER
        .iter()
        .map(|(name, source, _)| format!("{name} by {source}"))
        .collect();
    let mut differ = differ;
    differ.sort();
    known.sort();
    assert_eq!(differ, known);
}
