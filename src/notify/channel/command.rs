//! Runs a command of the user for each message: the message is its input and its variables, and no part of its command
//! line.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::message::{Note, cut};
use super::{Channel, Sent, Unsent};
use crate::child::{self, Invocation, event_variables, variable};
use crate::clock::Clock;
use crate::face::one_line;
use crate::thread::Stop;

/// The time after which a command is killed. A command that sends a message over the network has its own deadlines
/// within that; one that hangs would hold up all later messages of its channel.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most characters of a command's error message that are kept.
const REASON_CHARS_MAX: usize = 200;

/// Runs a command for each message, and again when everything in it is settled.
#[derive(Debug)]
pub(in crate::notify) struct CommandChannel {
    name: String,
    command: String,
    timeout: Duration,
    clock: Clock,
    stop: Stop,
}

impl CommandChannel {
    /// Creates a channel with its name in the configuration and the command for `sh -c`, which is killed when `stop` is
    /// closed.
    pub fn new(name: String, command: String, clock: Clock, stop: Stop) -> Self {
        Self {
            name,
            command,
            timeout: TIMEOUT,
            clock,
            stop,
        }
    }

    fn run(&self, envelope: &Value) -> Result<(), Unsent> {
        let mut stdin = envelope.to_string().into_bytes();
        stdin.push(b'\n');
        let invocation = Invocation {
            program: "sh".into(),
            // The last argument is the name that the shell gives to its error messages.
            args: vec!["-c".into(), self.command.clone().into(), "notify".into()],
            env: variables(&envelope["event"])
                .into_iter()
                .chain(hidden())
                .collect(),
            directory: ".".into(),
            stdin,
            output_bytes_max: 64 * 1024,
            timeout: self.timeout,
        };
        let finished = match child::run(&invocation, &self.clock, &self.stop) {
            Ok(finished) => finished,
            // It may have sent the message before.
            Err(error) if error.is_timeout() || error.is_gone() => {
                return Err(Unsent::Unconfirmed(error.to_string()));
            }
            Err(error) if error.is_missing_program() => {
                return Err(Unsent::Never(error.to_string()));
            }
            Err(error) => return Err(Unsent::Later(None, error.to_string())),
        };
        if finished.status.success() {
            return Ok(());
        }
        let mut reason = format!("the command failed ({})", finished.status);
        let errors = String::from_utf8_lossy(&finished.stderr);
        if let Some(line) = errors.lines().find(|line| !line.trim().is_empty()) {
            reason = format!("{reason}: {}", cut(&one_line(line), REASON_CHARS_MAX));
        }
        match finished.status.code() {
            // The shell did not find it, or may not execute it.
            Some(126 | 127) => Err(Unsent::Never(reason)),
            _ => Err(Unsent::Later(None, reason)),
        }
    }
}

impl Channel for CommandChannel {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        self.run(&note.envelope(&note.id, &self.name))
            .map(|()| Sent::default())
    }

    /// Runs the command once more when everything is settled; a command that shows each message would otherwise show
    /// one about several items again and again.
    fn update(&mut self, note: &Note, _: &Sent) -> Result<(), Unsent> {
        if !note.is_settled() {
            return Ok(());
        }
        let id = format!("{}.resolved", note.id);
        self.run(&note.envelope(&id, &self.name))
    }

    /// Runs the command with an envelope whose event has the type `NotificationOutput`.
    fn output(&mut self, text: &str) -> Result<(), Unsent> {
        let event = json!({"type": "NotificationOutput", "channel": self.name, "text": text});
        let (schema, ts) = (crate::event::SCHEMA, self.clock.wall());
        self.run(&json!({"schema": schema, "ts": ts, "event": event}))
    }
}

/// Returns the variables with the secrets of other channels, which are empty for the command.
fn hidden() -> impl Iterator<Item = (OsString, OsString)> {
    let names = std::env::vars_os().map(|(name, _)| name);
    let secrets = names.filter(|name| name.to_string_lossy().starts_with("TD_NOTIFY_TOKEN_"));
    secrets.map(|name| (name, OsString::new()))
}

/// Returns the variables of `--on-state`, and those that only notifications have.
fn variables(event: &Value) -> Vec<(OsString, OsString)> {
    let mut variables = event_variables(event);
    let resolved = match event["resolved"].as_bool() {
        Some(true) => json!(1),
        _ => Value::Null,
    };
    variables.extend([
        variable("TD_NOTIFICATION", &event["notification"]),
        variable("TD_TEXT", &event["text"]),
        variable("TD_RESOLVED", &resolved),
    ]);
    variables
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crossbeam_channel::never;

    use super::super::super::message::Settled;
    use super::super::testing::note;
    use super::*;

    fn channel(command: &str) -> CommandChannel {
        CommandChannel::new("mine".into(), command.into(), Clock::system(), never())
    }

    #[test]
    fn the_message_is_input_and_variables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let command = format!(
            "cat > {path}/stdin; env > {path}/env; echo \"$TD_ASKS|$TD_RESOLVED|$#\" >> {path}/out"
        );
        let mut channel = channel(&command);
        let mut message = note("n1", "$(touch x)\0 `y` \"é'");
        let sent = channel.send(&message);
        assert_eq!(sent, Ok(Sent(None)));
        let stdin = fs::read_to_string(directory.path().join("stdin")).unwrap();
        assert!(stdin.ends_with("}\n"));
        let stdin: Value = serde_json::from_str(&stdin).unwrap();
        assert_eq!(stdin, message.envelope("n1", "mine"));
        let env = fs::read_to_string(directory.path().join("env")).unwrap();
        for line in [
            "TD_EVENT=Notification",
            "TD_NOTIFICATION=n1",
            "TD_EXECUTION_ID=job@1",
            "TD_PANE=%0",
            "TD_SESSION=job",
            "TD_TITLE=job asks",
            "TD_STATE=waiting",
            "TD_AGENT=",
            "TD_ASKS=$(touch x) `y` \"é'",
            "TD_TEXT=$(touch x) `y` \"é'",
            "TD_SUMMARY=",
            "TD_MARKER=",
            "TD_EXIT_STATUS=",
            "TD_RESOLVED=",
        ] {
            assert!(env.lines().any(|set| set == line), "no {line} in {env}");
        }
        assert_eq!(channel.update(&message, &Sent(None)), Ok(()));
        message.items[0].settled = Some(Settled::Over);
        assert_eq!(channel.update(&message, &Sent(None)), Ok(()));
        let text = "$(touch x) `y` \"é'";
        let out = fs::read_to_string(directory.path().join("out")).unwrap();
        assert_eq!(out, format!("{text}||0\n{text}|1|0\n"));
        let stdin = fs::read_to_string(directory.path().join("stdin")).unwrap();
        let stdin: Value = serde_json::from_str(&stdin).unwrap();
        assert_eq!(stdin["event"]["id"], "n1.resolved");
        assert_eq!(stdin["event"]["notification"], "n1");
    }

    #[test]
    fn output_is_an_event_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out");
        let command = format!("echo \"$TD_EVENT $TD_TEXT $TD_STATE\" > {}", file.display());
        assert_eq!(channel(&command).output("two\nlines"), Ok(()));
        let out = fs::read_to_string(file).unwrap();
        assert_eq!(out, "NotificationOutput two\nlines \n");
    }

    #[test]
    fn a_failure_has_the_first_line_of_its_error_message() {
        let later = |text: &str| Err(Unsent::Later(None, text.to_owned()));
        let send = |command: &str| channel(command).send(&note("n1", "text"));
        assert_eq!(send("true"), Ok(Sent(None)));
        assert_eq!(send("exit 3"), later("the command failed (exit status: 3)"));
        let failed = send("echo; printf 'no\\033[31m route\\nmore\\n' >&2; exit 1");
        let reason = "the command failed (exit status: 1): no^[[31m route";
        assert_eq!(failed, later(reason));
        let Err(Unsent::Later(_, reason)) = send("printf %1000s x | tr ' ' y >&2; false") else {
            panic!()
        };
        assert_eq!(reason.chars().filter(|c| *c == 'y').count(), 199);
        let Err(Unsent::Never(reason)) = send("td-no-such-command") else {
            panic!()
        };
        assert!(reason.contains("td-no-such-command"), "{reason}");
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let mut channel = CommandChannel {
            timeout: Duration::from_millis(200),
            ..channel("sleep 1000")
        };
        let killed = channel.send(&note("n1", "text"));
        assert!(matches!(killed, Err(Unsent::Unconfirmed(_))), "{killed:?}");
    }
}
