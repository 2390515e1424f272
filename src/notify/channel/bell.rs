//! The bell of the terminals on which clients of tmux are attached, and which clients are attached.
//!
//! The byte goes to the client's own terminal. A pane's terminal never gets it, because what is written there belongs
//! to the pane's program.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::super::message::Note;
use super::{Channel, Sent, Unsent};
use crate::clock::Clock;
use crate::error::Error;
use crate::tmux::{Server, Viewers};

/// Rings once for each message, which it cannot show.
#[derive(Debug)]
pub(in crate::notify) struct BellChannel {
    servers: Vec<Server>,
    clock: Clock,
}

impl BellChannel {
    /// Creates a channel to the clients of these servers. Each query has the server's deadline.
    pub fn new(servers: Vec<Server>, clock: Clock) -> Self {
        Self { servers, clock }
    }
}

impl Channel for BellChannel {
    fn send(&mut self, _: &Note) -> Result<Sent, Unsent> {
        ring_all(&attached(&self.servers, &self.clock)?).map(|()| Sent::default())
    }

    /// Does nothing: a bell cannot be taken back.
    fn update(&mut self, _: &Note, _: &Sent) -> Result<(), Unsent> {
        Ok(())
    }

    fn output(&mut self, _: &str) -> Result<(), Unsent> {
        Err(Unsent::Never("a bell shows no output".into()))
    }
}

/// Returns the servers that are attached on a terminal, with their clients.
///
/// # Errors
/// If there are none.
pub(super) fn attached<'a>(
    servers: &'a [Server],
    clock: &Clock,
) -> Result<Vec<(&'a Server, Viewers)>, Unsent> {
    let mut attached = Vec::new();
    let mut unsent = Unsent::Nobody("no tmux client is attached");
    for server in servers {
        match server.viewers(clock) {
            Ok(viewers) if viewers.clients.is_empty() => {}
            Ok(viewers) => attached.push((server, viewers)),
            // A server that does not run has no clients.
            Err(error) if error.is_gone() => {}
            Err(error) => unsent = refused(&error),
        }
    }
    if attached.is_empty() {
        return Err(unsent);
    }
    Ok(attached)
}

/// Returns what a failed query means for a message.
pub(super) fn refused(error: &Error) -> Unsent {
    if error.is_missing_program() || error.is_invalid_input() {
        Unsent::Never(error.to_string())
    } else {
        Unsent::Later(None, error.to_string())
    }
}

/// Rings the bell of each client's terminal.
///
/// # Errors
/// If it rings nowhere.
pub(super) fn ring_all(attached: &[(&Server, Viewers)]) -> Result<(), Unsent> {
    let clients = attached.iter().flat_map(|(_, viewers)| &viewers.clients);
    let mut refusals = Vec::new();
    let mut has_rung = false;
    for client in clients {
        match ring(&client.terminal) {
            Ok(()) => has_rung = true,
            Err(error) => refusals.push((client.terminal.display(), error)),
        }
    }
    match refusals.first() {
        Some((terminal, error)) if !has_rung => {
            let text = format!("the bell of {terminal} does not ring: {error}");
            // A stopped terminal may continue.
            Err(match error.kind() {
                ErrorKind::WouldBlock => Unsent::Later(None, text),
                _ => Unsent::Never(text),
            })
        }
        _ => Ok(()),
    }
}

/// Rings the bell of a terminal without waiting for it.
fn ring(terminal: &Path) -> io::Result<()> {
    // The terminal must not become that of the observer, and one that is stopped must not block.
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    let options = options.write(true).custom_flags(flags.bits().cast_signed());
    let mut file = options.open(terminal)?;
    let metadata = file.metadata()?;
    if !metadata.file_type().is_char_device() || !rustix::termios::isatty(&file) {
        return Err(io::Error::other("it is not a terminal"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    match file.write(b"\x07")? {
        // A stopped terminal takes no byte.
        0 => Err(ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::{Stage, note, wait_for};
    use super::*;

    #[test]
    fn the_bell_rings_at_the_clients_terminal_and_not_in_the_pane() {
        let stage = Stage::new();
        let options = stage.options();
        let output = stage.record_pane();
        let client = stage.attach(80);
        let before = client.bells();
        let mut channel = BellChannel::new(vec![stage.server()], Clock::system());
        assert_eq!(channel.send(&note("n1", "text")), Ok(Sent(None)));
        client.wait_for_bells(before + 1);
        // What the pane prints later has passed its pipe after all that came before.
        stage.tmux(&["send-keys", "-t", "stage", "marker", "Enter"]);
        client.wait_for("marker");
        wait_for("output of the pane", || {
            let output = fs::read(&output).unwrap_or_default();
            if output.ends_with(b"marker\r\n") {
                Ok(())
            } else {
                Err(output)
            }
        });
        let output = fs::read(&output).unwrap();
        assert!(!output.contains(&7), "{output:?}");
        assert_eq!(client.bells(), before + 1);
        assert_eq!(stage.options(), options);
    }

    #[test]
    fn a_stopped_terminal_is_not_waited_for() {
        let stage = Stage::new();
        let client = stage.attach(80);
        let before = client.bells();
        client.stop_output(true);
        let mut channel = BellChannel::new(vec![stage.server()], Clock::system());
        let refused = channel.send(&note("n1", "text")).unwrap_err();
        assert!(matches!(&refused, Unsent::Later(None, _)), "{refused:?}");
        client.stop_output(false);
        assert_eq!(channel.send(&note("n1", "text")), Ok(Sent(None)));
        client.wait_for_bells(before + 1);
    }

    #[test]
    fn nobody_attached_is_reported() {
        let stage = Stage::new();
        let mut channel = BellChannel::new(vec![stage.server()], Clock::system());
        let nobody = Err(Unsent::Nobody("no tmux client is attached"));
        assert_eq!(channel.send(&note("n1", "text")), nobody);
        stage.tmux(&["kill-server"]);
        assert_eq!(channel.send(&note("n1", "text")), nobody);
    }

    #[test]
    fn only_a_terminal_gets_the_byte() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        ring(&file).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"");
        ring(Path::new("/dev/null")).unwrap_err();
        let stage = Stage::new();
        let client = stage.attach(80);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(client.terminal(), &link).unwrap();
        ring(&link).unwrap_err();
        ring(&directory.path().join("missing")).unwrap_err();
        // No reader: opening for writing would block.
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        ring(&fifo).unwrap_err();
    }
}
