//! Shows a pane to the user: in the client that shows this program, or in a client of its own. Copies text
//! into the buffers of tmux.

use std::convert::Infallible;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

use crossbeam_channel::{Receiver, bounded, select_biased};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::server::Server;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread;

/// The fields of a client: the session that it shows, the time of its last key, its name.
const CLIENT: &str = "#{session_id} #{client_activity} #{client_name}";

/// The time in ms for which the hint of how to come back stays, unless a key is pressed.
const HINT_MS: &str = "5000";

impl Server {
    /// Shows a pane in the client that shows this program's own pane. `prefix L` goes back.
    ///
    /// # Errors
    /// As for [`Server::run`], or if no client shows the own pane.
    pub(crate) fn switch_client(&self, own: &PaneId, pane: &PaneId, clock: &Clock) -> Result<()> {
        let session = self.run(["display-message", "-p", "-t", own, "#{session_id}"], clock)?;
        let session = session.trim();
        let clients = self.run(["list-clients", "-F", CLIENT], clock)?;
        let clients = clients.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let (shown, activity) = (fields.next()?, fields.next()?);
            let activity: u64 = activity.parse().ok()?;
            (shown == session).then_some((activity, fields.next()?))
        });
        // The key came from the client that was used last.
        let (_, client) = clients
            .max()
            .ok_or_else(|| Error::other(format!("no client of {self} shows this terminal")))?;
        self.run(["switch-client", "-c", client, "-t", pane], clock)?;
        let text = format!("td-observe: {} L goes back", self.prefix(pane, clock));
        // The message is an extra.
        let _ = self.run(
            ["display-message", "-d", HINT_MS, "-c", client, &text],
            clock,
        );
        Ok(())
    }

    /// Returns the prefix key of a pane's session, as people write it: `Ctrl-b`. The text is safe in a format.
    fn prefix(&self, pane: &PaneId, clock: &Clock) -> String {
        let key = self.run(["display-message", "-p", "-t", pane, "#{prefix}"], clock);
        // Without it, the hint is less exact.
        let key = key.unwrap_or_default().trim().replace('#', "##");
        match key.strip_prefix("C-") {
            Some(letter) => format!("Ctrl-{letter}"),
            None if key.is_empty() || key == "None" => "prefix".to_owned(),
            None => key,
        }
    }

    /// Attaches a client at this terminal to the session of a pane, until the user detaches it, and shows there
    /// how. The pane keeps its size. A signal that ends this program ends the client: then there is no status.
    ///
    /// # Errors
    /// As for [`Server::run`]; also if tmux cannot be started.
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

    /// Keeps the size of a pane's window where no other client does: tmux ignores the size of a client only
    /// beside others. Returns the window's own option that is to be set again; it may be empty.
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

    /// Lets the clients to come decide on the size, as before.
    fn free_size(&self, pane: &PaneId, option: &str, clock: &Clock) {
        let freed = match option {
            "" => self.run(["set-option", "-wu", "-t", pane, "window-size"], clock),
            option => self.run(
                ["set-option", "-w", "-t", pane, "window-size", option],
                clock,
            ),
        };
        // The window may have closed meanwhile.
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
        let hint = format!("td-observe: {} d comes back", self.prefix(pane, clock));
        let mut command = Command::new("tmux");
        // Within another tmux, the client is one on purpose. It shares the terminal with this program, and so
        // its process group.
        // tmux tells there that it has detached, which the user knows.
        command
            .args(self.address_args())
            .args(["attach-session", "-f", "ignore-size", "-t", pane, ";"])
            .args(["display-message", "-d", HINT_MS, &hint])
            .env_remove("TMUX")
            .stdout(Stdio::null());
        let mut client = command.spawn().map_err(|cause| {
            let is_missing = cause.kind() == io::ErrorKind::NotFound;
            let what = if is_missing {
                "tmux is missing"
            } else {
                "cannot start tmux"
            };
            Error::other(what).because(cause)
        })?;
        let pid = Pid::from_child(&client);
        let (done, ended) = bounded::<Infallible>(0);
        // It leaves the process to be reaped here: until then, the process id is that of the client.
        let waiting = thread::spawn("td-visit", move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Whatever it returns, reaping shows the end.
            let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
            drop(done);
        });
        let mut is_interrupted = false;
        if waiting.is_ok() {
            select_biased! {
                recv(signals) -> _ => {
                    is_interrupted = true;
                    // It restores the terminal and ends.
                    let _ = kill_process(pid, Signal::TERM);
                }
                recv(ended) -> _ => {}
            }
        }
        let status = client
            .wait()
            .map_err(|cause| Error::other("cannot wait for tmux").because(cause))?;
        if let Err(panicked) = waiting?.join() {
            log::error!("{panicked}");
        }
        Ok((!is_interrupted).then_some(status))
    }

    /// Copies a text into a new buffer of the server, and where it can into the clipboard.
    ///
    /// # Errors
    /// As for [`Server::run`].
    pub(crate) fn copy(&self, text: &str, clock: &Clock) -> Result<()> {
        let args = ["load-buffer", "-w", "-"].map(Into::into).to_vec();
        let finished = self.start(args, text.as_bytes().to_vec(), clock)?;
        let status = finished.status;
        let output = self.output(finished)?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::other(format!(
                "{self}: {}",
                output.complaints.trim()
            ))),
        }
    }
}
