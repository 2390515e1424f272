//! Types a text into a pane, for `wait --send`.

use std::time::Duration;

use crossbeam_channel::select_biased;

use super::failure::Failure;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::thread::Stop;
use crate::tmux::Server;

/// The time between a text and Enter. Programs that draw their own input, such as agents, take what comes
/// faster than a person types for a paste, in which Enter is a line end.
const TYPING: Duration = Duration::from_millis(300);

/// The most bytes of one command: tmux refuses arguments beyond 16 KiB.
const BYTES_MAX: usize = 4 * 1024;

/// Programs that take Enter at once.
const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"];

/// The state of a pane before something is typed there.
const FIELDS: &str =
    "#{window_active}#{pane_active} #{pane_in_mode} #{pane_dead} #{pane_current_command}";

/// The first field of the pane that a session's client has.
const ACTIVE: &str = "11";

/// A text to type.
#[derive(Clone, Debug)]
pub(super) struct Typing {
    pub text: String,
    pub presses_enter: bool,
}

impl Typing {
    /// Types the text into one of a target's panes: the active one, or the first.
    pub fn send(
        &self,
        server: &Server,
        panes: &[PaneId],
        stop: &Stop,
        clock: &Clock,
    ) -> Result<(), Failure> {
        let mut chosen: Option<(&PaneId, String)> = None;
        for pane in panes {
            let about = server.run(["display-message", "-p", "-t", pane, FIELDS], clock)?;
            if chosen.is_none() || about.starts_with(ACTIVE) {
                chosen = Some((pane, about));
            }
        }
        let Some((pane, about)) = chosen else {
            return Err(Failure::usage("--send: there is no pane to type into"));
        };
        let mut fields = about.trim_end().splitn(4, ' ').skip(1);
        let mut next = || fields.next().unwrap_or_default();
        let (modes, is_dead, program) = (next(), next(), next());
        let refused = |why: &str| Failure::usage(format!("--send: pane {pane} {why}"));
        if !matches!(modes, "" | "0") {
            return Err(refused(
                "is in copy mode, which would take the text for its keys: leave it first",
            ));
        }
        if is_dead == "1" {
            return Err(refused("has no program any more that could read the text"));
        }
        for part in parts(&self.text) {
            server.run(["send-keys", "-t", pane, "-l", "--", part], clock)?;
        }
        if !self.presses_enter {
            return Ok(());
        }
        if !self.text.is_empty() && !SHELLS.contains(&program) {
            select_biased! {
                recv(stop) -> _ => return Ok(()),
                recv(clock.after(TYPING)) -> _ => {}
            }
        }
        server.run(["send-keys", "-t", pane, "Enter"], clock)?;
        Ok(())
    }
}

/// Divides a text into parts that are short enough.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len().min(BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, more) = rest.split_at(end);
        rest = more;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_short_and_whole() {
        let text = "é".repeat(BYTES_MAX);
        let all: Vec<&str> = parts(&text).collect();
        assert_eq!(all.concat(), text);
        assert!(all.iter().all(|part| part.len() <= BYTES_MAX));
        assert_eq!(parts("").count(), 0);
    }
}
