//! The command that shows a pane of a host on this terminal.

use super::name::HostName;
use super::rewrite::Rewriter;
use super::ssh::SshCommand;
use crate::board::{Place, Row};
use crate::child::TerminalProgram;

impl SshCommand {
    /// Returns the command that attaches this terminal to the session of a pane.
    ///
    /// # Errors
    /// The reason why there is none, in words.
    pub fn visit(&self, row: &Row, place: &Place) -> Result<TerminalProgram, String> {
        let name = row.host.as_deref().unwrap_or_default();
        let host: HostName = name.parse().map_err(str::to_owned)?;
        let attach = attach(&host, place)?;
        Ok(self.on_terminal(&host, &attach))
    }
}

/// Returns the command of the remote shell. The pane and the socket are what the host has said.
fn attach(host: &HostName, place: &Place) -> Result<String, String> {
    let pane = place.pane.as_str();
    let number = pane.strip_prefix('%').unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{host} names a pane that tmux cannot have: {pane:?}"
        ));
    }
    let of_host = Rewriter(Some(host.clone()));
    let socket = of_host
        .own_path(&place.server)
        .filter(|socket| socket.starts_with('/'))
        .ok_or_else(|| format!("{host} names no tmux server"))?;
    let socket = shlex::try_quote(socket)
        .map_err(|_| format!("{host} names a tmux server that cannot be"))?;
    // The pane keeps its size if another client shows it.
    Ok(format!(
        "tmux -S {socket} select-window -t {pane} \\; select-pane -t {pane} \\; attach-session -f ignore-size -t {pane}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_is_quoted_or_refused() {
        let host: HostName = "web".parse().unwrap();
        let of = |pane: &str, server: &str| {
            let place = serde_json::from_value(serde_json::json!({"pane": pane, "server": server}));
            attach(&host, &place.unwrap())
        };
        let command = of("%3", "web:/tmp/tmux-1000/default").unwrap();
        assert!(command.starts_with("tmux -S /tmp/tmux-1000/default select-window -t %3 "));
        let command = of("%3", "web:/tmp/$(touch x)").unwrap();
        assert!(
            command.starts_with("tmux -S '/tmp/$(touch x)' "),
            "{command}"
        );
        for (pane, server) in [
            ("%3;touch x", "web:/tmp/s"),
            ("%", "web:/tmp/s"),
            ("3", "web:/tmp/s"),
            ("%3", "db:/tmp/s"),
            ("%3", "web:-x"),
            ("%3", "/tmp/s"),
        ] {
            assert!(of(pane, server).is_err(), "{pane} {server}");
        }
    }
}
