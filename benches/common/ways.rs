//! Ways to follow the output of panes with one interface: lines and gaps over a channel.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use td_observe::{Delivery, Engine, TdEvent, Watch};

use super::drains::{drain, until_followed};
use super::panes::{INTERVAL, watched};
use super::program::monotonic_ns;
use super::support::{CEILING, TmuxServer};

/// The capacity of the channel: more than any round produces.
const PIECES: usize = 1 << 18;

/// A way to follow a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// This library, polling every 200 ms.
    Fixed,
    /// This library with its defaults.
    Default,
    /// This library, streaming the panes.
    Stream,
    /// `pipe-pane 'cat >> file'` and `tail -F`.
    Tail,
}

/// Polling and `tail`, in the order of the figures.
pub const WAYS: [Way; 3] = [Way::Fixed, Way::Default, Way::Tail];

/// A report about a pane.
#[derive(Debug)]
pub enum Piece {
    /// Whole lines, and the time of their arrival.
    Lines(String, u64),
    /// Lines are missing here.
    Gap,
}

/// Follows all panes of a server until it is dropped.
pub struct Following {
    pub pieces: Receiver<Piece>,
    engine: Option<Engine>,
    tail: Option<Child>,
    reader: Option<JoinHandle<()>>,
}

impl Following {
    /// Follows the panes of this many sessions, from their current output on.
    pub fn start(way: Way, server: &TmuxServer, sessions: usize) -> Self {
        let (send, pieces) = sync_channel(PIECES);
        let watch = Watch::new(server.server());
        match way {
            Way::Fixed => Self::engine(watch.interval(INTERVAL).poll(), sessions, send, pieces),
            Way::Default => Self::engine(watch.poll(), sessions, send, pieces),
            Way::Stream => {
                let following = Self::engine(watch.stream(drain()), sessions, send, pieces);
                until_followed(server, sessions);
                following
            }
            Way::Tail => Self::tail(server, send, pieces),
        }
    }

    fn engine(
        watch: Watch,
        sessions: usize,
        send: SyncSender<Piece>,
        pieces: Receiver<Piece>,
    ) -> Self {
        let (engine, mut events) = watched(watch, sessions);
        let reader = thread::spawn(move || {
            for delivery in events.iter() {
                let piece = match delivery {
                    Delivery::Event(envelope) => match &envelope.event {
                        TdEvent::OutputUpdate { chunk, .. } if !chunk.is_empty() => {
                            Piece::Lines(chunk.clone(), monotonic_ns())
                        }
                        TdEvent::OutputGap { .. } => Piece::Gap,
                        _ => continue,
                    },
                    Delivery::Lagged { .. } => Piece::Gap,
                };
                if send.send(piece).is_err() {
                    return;
                }
            }
        });
        Self {
            pieces,
            engine: Some(engine),
            tail: None,
            reader: Some(reader),
        }
    }

    fn tail(server: &TmuxServer, send: SyncSender<Piece>, pieces: Receiver<Piece>) -> Self {
        let (tail, from, files) = tail_of(server);
        let mut lines = BufReader::new(from);
        let reader = thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                let line = std::mem::take(&mut line).replace('\r', "");
                if send.send(Piece::Lines(line, monotonic_ns())).is_err() {
                    return;
                }
            }
        });
        // Each file begins with a line of ours: once all of them have arrived, `tail` is running.
        for _ in 0..files {
            pieces.recv_timeout(CEILING).unwrap();
        }
        Self {
            pieces,
            engine: None,
            tail: Some(tail),
            reader: Some(reader),
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.shutdown();
        }
        if let Some(mut tail) = self.tail.take() {
            tail.kill().unwrap();
            tail.wait().unwrap();
        }
        self.reader.take().unwrap().join().unwrap();
    }
}

/// Pipes each pane of a server to a file that begins with a line of ours.
pub fn pipe_to_files(server: &TmuxServer) -> Vec<String> {
    let panes = server.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]);
    let to_file = |pane: &str| {
        let file = format!("{}/pane{}", server.directory().display(), &pane[1..]);
        fs::write(&file, "begin\n").unwrap();
        server.tmux(&["pipe-pane", "-t", pane, &format!("exec cat >> '{file}'")]);
        file
    };
    panes.lines().map(to_file).collect()
}

/// Starts `tail -F` on files to which the panes of a server are piped; returns it with its output and the
/// number of files.
pub fn tail_of(server: &TmuxServer) -> (Child, ChildStdout, usize) {
    let files = pipe_to_files(server);
    let mut tail = Command::new("tail")
        .args(["-q", "-n", "+1", "-F"])
        .args(&files)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let from = tail.stdout.take().unwrap();
    (tail, from, files.len())
}
