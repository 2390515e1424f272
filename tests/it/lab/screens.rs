//! The screen of an agent over time: a state must be reported soon after the screen that shows it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use td_observe::{Envelope, TdEvent};

use super::new_state;

/// The time after a change of the screen in which the state must be reported.
const WITHIN_MICROS: i64 = 1_500_000;

/// The longest time from an answer until the agent shows the next dialogue.
const NEXT_DIALOGUE_MICROS: i64 = 1_000_000;

/// The poll interval of the screen.
const INTERVAL: Duration = Duration::from_millis(100);

/// A screen and the time when it appeared, in microseconds since 1970.
struct Screen {
    at: i64,
    text: String,
}

/// Records the screens of a pane.
pub struct ScreenRecorder {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Screen>>,
}

impl ScreenRecorder {
    pub fn start(socket: PathBuf, pane: String) -> Self {
        let (stop, stopped) = bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let mut screens: Vec<Screen> = Vec::new();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let capture = Command::new("tmux")
                    .args(["-u", "-N", "-S"])
                    .arg(&socket)
                    .args(["capture-pane", "-p", "-t", &pane])
                    .stdin(Stdio::null())
                    .output();
                let Ok(capture) = capture else { continue };
                let text = String::from_utf8_lossy(&capture.stdout).into_owned();
                if screens.last().is_none_or(|last| last.text != text) {
                    screens.push(Screen { at: now(), text });
                }
            }
            screens
        });
        Self { stop, thread }
    }

    /// Checks that each state was reported soon after the screen showed it; prints the delays.
    ///
    /// The screen of an agent that works changes all the time, so the state `working` is due after the
    /// first change that follows the state before.
    pub fn check(self, lab: &str, seen: &[Envelope], pane: &str, keys: &[i64]) {
        drop(self.stop);
        let screens = self.thread.join().unwrap();
        let states = seen.iter().filter_map(|envelope| match &envelope.event {
            TdEvent::AgentState { pane: of, .. }
                if of.as_ref().is_some_and(|of| of.as_str() == pane) =>
            {
                let (state, asks) = new_state(&envelope.event)?;
                Some((envelope.ts.micros(), state, asks))
            }
            _ => None,
        });
        let (mut latest, mut late) = (0, Vec::new());
        for (at, state, asks) in states {
            let typed = keys.iter().rev().find(|typed| **typed <= at);
            let before = screens.iter().rev().skip_while(|screen| screen.at > at);
            let changed = before.clone().map(|screen| screen.at).next();
            let answered = typed.copied().unwrap_or(0) + NEXT_DIALOGUE_MICROS;
            let drawn = changed.unwrap_or(0).min(answered);
            let since = match state {
                // The dialogue was drawn when its question first appeared on the screen without
                // interruption, or by the last change after the answer to the previous dialogue, while
                // its command may be shown.
                "waiting" => {
                    let shown = before.take_while(|screen| screen.text.contains(asks));
                    shown.last().map(|screen| screen.at.max(drawn))
                }
                "working" => None,
                _ => changed,
            };
            let Some(since) = since else { continue };
            latest = latest.max(at - since);
            if at - since > WITHIN_MICROS {
                let late_ms = (at - since) / 1000;
                let text = screens.iter().rev().find(|screen| screen.at <= at);
                let text = text.map_or("", |screen| screen.text.as_str());
                late.push(format!("{state} {asks:?} {late_ms} ms\n{text}"));
            }
        }
        eprintln!(
            "{lab}: a state is reported at most {} ms after the screen",
            latest / 1000
        );
        assert!(late.is_empty(), "{lab}: {}", late.join("\n"));
    }
}

/// Returns the time in microseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}
