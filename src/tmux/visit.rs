//! Shows a pane to the user, in the client that shows this program or in a new client. Copies text into
//! tmux's buffers.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::server::Server;
use crate::child::run_on_terminal;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;

/// The time for which the hint on how to return is shown, unless a key is pressed.
const HINT: Duration = Duration::from_secs(5);

impl Server {
    /// Switches the client that shows this program to another pane, and shows a hint how to go back: the client of the
    /// pane `own`, or of the popup in which this program runs. The key came from the client that was used last.
    ///
    /// # Errors
    /// Those of [`Server::run`], or if no client shows this program.
    pub(crate) fn switch_own_client(
        &self,
        own: Option<&PaneId>,
        pane: &PaneId,
        clock: &Clock,
    ) -> Result<()> {
        let session =
            own.map(|own| self.run(["display-message", "-p", "-t", own, "#{session_id}"], clock));
        let session = session.transpose()?;
        let viewers = self.viewers(clock)?;
        let client = viewers
            .last_used(session.as_deref().map(str::trim))
            .ok_or_else(|| Error::other(format!("no client of {self} shows this terminal")))?;
        self.switch_client(client, pane, clock)?;
        let hint = format!("td-observe: {} L goes back", self.prefix(pane, clock));
        // The hint is optional, so an error is ignored.
        let _ = self.show_message(&viewers.only(client), |_| hint.clone(), HINT, clock);
        Ok(())
    }

    /// Returns the prefix key of a pane's session as users write it, such as `Ctrl-b`.
    fn prefix(&self, pane: &PaneId, clock: &Clock) -> String {
        let key = self.run(["display-message", "-p", "-t", pane, "#{prefix}"], clock);
        // Without the key, the hint is less exact.
        match key.unwrap_or_default().trim() {
            "" | "None" => "prefix".to_owned(),
            key => match key.strip_prefix("C-") {
                Some(letter) => format!("Ctrl-{letter}"),
                None => key.to_owned(),
            },
        }
    }

    /// Attaches a client on this terminal to the session of a pane until the user detaches it, and shows a
    /// hint how. The pane keeps its size. If a signal ends this program, it also ends the client, and no
    /// status is returned.
    ///
    /// # Errors
    /// Those of [`Server::run`]; also if tmux cannot be started.
    pub(crate) fn attach(
        &self,
        pane: &PaneId,
        clock: &Clock,
        signals: &Receiver<i32>,
    ) -> Result<Option<ExitStatus>> {
        self.run(["select-window", "-t", pane], clock)?;
        self.run(["select-pane", "-t", pane], clock)?;
        let kept = self.keep_size(pane, clock);
        let status = self.attach_client(pane, clock, signals);
        if let Some(kept) = kept {
            self.free_size(pane, &kept, clock);
        }
        status
    }

    /// Fixes the size of a pane's window if no other client determines it: tmux ignores the new client's size
    /// only if there are others. Returns the window's own option to restore, which may be empty.
    fn keep_size(&self, pane: &PaneId, clock: &Clock) -> Option<String> {
        let format = "#{session_attached} #{window_width} #{window_height}";
        let window = self.run(["display-message", "-p", "-t", pane, format], clock);
        let window = window.unwrap_or_default();
        let (width, height) = window.trim().strip_prefix("0 ")?.split_once(' ')?;
        let option = ["show-options", "-wqv", "-t", pane, "window-size"];
        let option = self.run(option, clock).ok()?;
        let resize = ["resize-window", "-t", pane, "-x", width, "-y", height];
        self.run(resize, clock).ok()?;
        Some(option.trim().to_owned())
    }

    /// Lets later clients determine the size again.
    fn free_size(&self, pane: &PaneId, option: &str, clock: &Clock) {
        let freed = match option {
            "" => self.run(["set-option", "-wu", "-t", pane, "window-size"], clock),
            option => self.run(
                ["set-option", "-w", "-t", pane, "window-size", option],
                clock,
            ),
        };
        // The window may have closed in the meantime.
        if let Err(error) = freed {
            log::debug!("{error:?}");
        }
    }

    fn attach_client(
        &self,
        pane: &PaneId,
        clock: &Clock,
        signals: &Receiver<i32>,
    ) -> Result<Option<ExitStatus>> {
        // The hint is a format, in which `##` is `#`.
        let prefix = self.prefix(pane, clock).replace('#', "##");
        let hint = format!("td-observe: {prefix} d comes back");
        let mut command = Command::new("tmux");
        // Within another tmux, the client is nested on purpose. It shares the terminal with this program, and
        // therefore its process group. Its message that it has detached is not shown.
        command
            .args(self.address_args())
            .args(["attach-session", "-f", "ignore-size", "-t", pane, ";"])
            .args([
                "display-message",
                "-d",
                &HINT.as_millis().to_string(),
                &hint,
            ])
            .env_remove("TMUX")
            .stdout(Stdio::null());
        run_on_terminal(&mut command, signals)
    }

    /// Copies a text into a new buffer of the server, and into the clipboard if possible.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub(crate) fn copy(&self, text: &str, clock: &Clock) -> Result<()> {
        let args = ["load-buffer", "-w", "-"].map(Into::into).to_vec();
        let finished = self.start(args, text.as_bytes().to_vec(), clock)?;
        self.text(finished).map(drop)
    }
}
