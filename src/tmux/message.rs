//! The attached clients of a server, and messages in their status lines, in which no text is a format.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::server::Server;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::track::TmuxVersion;

/// The attached clients of a server that show it on a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Viewers {
    version: TmuxVersion,
    pub(crate) clients: Vec<Viewer>,
}

/// An attached client: neither one in control mode, which has no status line, nor one that the user has suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "tui"),
    allow(dead_code, reason = "only the terminal UI and `next` switch clients")
)]
pub(crate) struct Viewer {
    name: String,
    /// The session and the pane that it shows.
    session: String,
    pub(crate) pane: PaneId,
    /// The time at which it was last used, in seconds since 1970.
    used_at: u64,
    /// The width of its terminal.
    pub(crate) columns: usize,
    /// The path of its terminal.
    pub(crate) terminal: PathBuf,
}

/// What is asked about each client. Only the name, at the end, can contain blanks.
const FIELDS: &str = "#{version} #{client_width} #{client_control_mode} #{client_flags} #{session_id} #{pane_id} \
                      #{client_activity} #{client_tty} #{client_name}";

impl Server {
    /// Lists the attached clients that show this server on a terminal.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub(crate) fn viewers(&self, clock: &Clock) -> Result<Viewers> {
        Ok(Viewers::parse(
            &self.run(["list-clients", "-F", FIELDS], clock)?,
        ))
    }

    /// Lets a client show another pane. `prefix L` goes back.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    #[cfg(feature = "tui")]
    pub(crate) fn switch_client(
        &self,
        client: &Viewer,
        pane: &PaneId,
        clock: &Clock,
    ) -> Result<()> {
        let args = ["switch-client", "-c", &client.name, "-t", pane];
        self.run(args, clock).map(drop)
    }

    /// Shows each client the text for its width, which takes the place of the status line until the time is over or the
    /// user presses a key, which tmux then handles as usual. Before tmux 3.7, the client shows no output of its panes
    /// meanwhile. A client that is gone shows nothing, which is no error.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub(crate) fn show_message(
        &self,
        viewers: &Viewers,
        text: impl Fn(usize) -> String,
        time: Duration,
        clock: &Clock,
    ) -> Result<()> {
        let (flags, ms) = (flags(viewers.version), time.as_millis());
        let mut lines = String::new();
        for client in &viewers.clients {
            let text = quoted(&escaped(&text(client.columns), viewers.version));
            let name = quoted(&client.name);
            // Writing to a string does not fail.
            let _ = writeln!(lines, "display-message -c {name} -d {ms} {flags} -- {text}");
        }
        // A batch must print something.
        lines.push_str("display-message -p shown\n");
        // By way of standard input, other users do not see the texts in the list of processes.
        let output = self.batch(lines, clock)?;
        match output.errors.trim() {
            "" => Ok(()),
            error => Err(Error::other(format!("{self}: {error}"))),
        }
    }
}

impl Viewers {
    fn parse(listed: &str) -> Self {
        let mut version = TmuxVersion::default();
        let mut clients = Vec::new();
        for line in listed.lines() {
            let fields: Vec<&str> = line.splitn(9, ' ').collect();
            let &[
                server,
                columns,
                control,
                flags,
                session,
                pane,
                used_at,
                terminal,
                name,
            ] = fields.as_slice()
            else {
                continue;
            };
            version = TmuxVersion::parse(server);
            let is_suspended = flags.split(',').any(|flag| flag == "suspended");
            if control != "1" && !is_suspended && !terminal.is_empty() {
                clients.push(Viewer {
                    name: name.to_owned(),
                    session: session.to_owned(),
                    pane: pane.into(),
                    used_at: used_at.parse().unwrap_or(0),
                    columns: columns.parse().unwrap_or(0),
                    terminal: terminal.into(),
                });
            }
        }
        Self { version, clients }
    }

    /// Returns the client with this name.
    #[cfg(feature = "tui")]
    pub(crate) fn named(&self, name: &str) -> Option<&Viewer> {
        self.clients.iter().find(|client| client.name == name)
    }

    /// Returns the client that was used last, among those that show a session, or among all.
    #[cfg(feature = "tui")]
    pub(crate) fn last_used(&self, session: Option<&str>) -> Option<&Viewer> {
        let shows = |client: &&Viewer| session.is_none_or(|session| client.session == session);
        let clients = self.clients.iter().filter(shows);
        clients.max_by_key(|client| client.used_at)
    }

    /// Returns this client alone, to be shown a message.
    #[cfg(feature = "tui")]
    pub(crate) fn only(&self, client: &Viewer) -> Self {
        Self {
            version: self.version,
            clients: vec![client.clone()],
        }
    }
}

/// Returns the options that a version has: `-l` expands no format, `-C` shows the panes' output meanwhile.
fn flags(version: TmuxVersion) -> &'static str {
    if version >= TmuxVersion::new(3, 7) {
        "-l -C"
    } else if version >= TmuxVersion::new(3, 4) {
        "-l"
    } else {
        ""
    }
}

/// Escapes a text that [`flags`] precede, so that the status line shows it as it is.
///
/// The text is drawn as a line with styles (`#[…]`), in which `##` is `#`. Before tmux 3.4, it is expanded as a format
/// before that: `%` is of a time, and `##` is `#`, except directly before `[`.
fn escaped(text: &str, version: TmuxVersion) -> String {
    let is_expanded = version < TmuxVersion::new(3, 4);
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(['#', '%']) {
        escaped.push_str(&rest[..at]);
        rest = &rest[at..];
        let signs = rest.len() - rest.trim_start_matches('#').len();
        if signs == 0 {
            escaped.push_str(if is_expanded { "%%" } else { "%" });
            rest = &rest[1..];
            continue;
        }
        rest = &rest[signs..];
        let copies = if is_expanded && !rest.starts_with('[') {
            4
        } else {
            2
        };
        escaped.extend(std::iter::repeat_n('#', copies * signs));
    }
    escaped + rest
}

/// Returns a text as one word of tmux's command language. Control characters, of which a line end would begin another
/// command, become blanks.
fn quoted(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_on_terminals_are_viewers() {
        let listed = "3.3a 80 0 attached,focused,UTF-8 $0 %1 50 /dev/pts/4 /dev/pts/4\n\
                      3.3a 90 1 attached,control-mode,UTF-8 $0 %1 90  client-77\n\
                      3.3a 70 0 attached,suspended,UTF-8 $1 %2 80 /dev/pts/5 /dev/pts/5\n\
                      3.3a 60 0 attached,read-only $1 %2 70 /dev/pts/6 a name\n";
        let viewers = Viewers::parse(listed);
        let viewer = |name: &str,
                      columns,
                      (session, pane, used_at): (&str, &str, u64),
                      terminal: &str| Viewer {
            name: name.into(),
            session: session.into(),
            pane: pane.into(),
            used_at,
            columns,
            terminal: terminal.into(),
        };
        let expected = [
            viewer("/dev/pts/4", 80, ("$0", "%1", 50), "/dev/pts/4"),
            viewer("a name", 60, ("$1", "%2", 70), "/dev/pts/6"),
        ];
        assert_eq!(viewers.clients, expected);
        assert_eq!(viewers.version, TmuxVersion::parse("3.3a"));
        assert_eq!(Viewers::parse("").clients, []);
    }

    #[cfg(feature = "tui")]
    #[test]
    fn the_client_that_was_used_last_is_found() {
        let listed = "3.3a 80 0 attached $0 %1 50 /dev/pts/4 one\n\
                      3.3a 90 1 control-mode $0 %1 90  control\n\
                      3.3a 60 0 attached $1 %2 70 /dev/pts/6 a name\n";
        let viewers = Viewers::parse(listed);
        let name = |viewer: Option<&Viewer>| viewer.map(|viewer| viewer.name.clone());
        assert_eq!(name(viewers.last_used(None)), Some("a name".into()));
        assert_eq!(name(viewers.last_used(Some("$0"))), Some("one".into()));
        assert_eq!(name(viewers.last_used(Some("$7"))), None);
        assert_eq!(name(viewers.named("a name")), Some("a name".into()));
        assert_eq!(name(viewers.named("control")), None);
    }

    #[test]
    fn signs_of_formats_and_styles_are_escaped() {
        let (old, new) = (TmuxVersion::parse("3.3a"), TmuxVersion::parse("3.4"));
        for (text, in_old, in_new) in [
            ("plain 'é'", "plain 'é'", "plain 'é'"),
            ("#(a) #{b}", "####(a) ####{b}", "##(a) ##{b}"),
            ("##[c] #[", "####[c] ##[", "####[c] ##["),
            ("%H 5%", "%%H 5%%", "%H 5%"),
            ("#", "####", "##"),
        ] {
            assert_eq!(escaped(text, old), in_old);
            assert_eq!(escaped(text, new), in_new);
        }
    }

    #[test]
    fn a_quoted_text_is_one_word_of_one_line() {
        assert_eq!(quoted("a'b\n;\0c"), r"'a'\''b ; c'");
    }
}
