//! The reason why a host is not read, in words, and what to do about it (pure).

use std::fmt;

use super::name::HostName;
use crate::child::ChildOutput;

/// The most characters of foreign words in a reason.
const WORDS_MAX: usize = 300;

/// The exit code of ssh for its own failures.
const SSH_FAILED: i32 = 255;

/// The exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// The exit code of wrong usage.
#[cfg(feature = "report")]
const USAGE: i32 = 2;

/// The exit code of `status --print-socket` if no observer runs.
const UNOBSERVED: i32 = 3;

/// The reason why a host is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Problem {
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The ssh itself cannot be started.
    pub fn ssh_is_missing(error: &crate::Error) -> Self {
        Self(format!(
            "{error}: install openssh-client, or name another program with TD_SSH_COMMAND"
        ))
    }

    /// A host could not be asked.
    pub fn of_asking(host: &HostName, error: &crate::Error) -> Self {
        if error.is_missing_program() {
            Self::ssh_is_missing(error)
        } else if error.is_timeout() {
            Self::silent(host.as_str())
        } else {
            Self(error.to_string())
        }
    }

    /// The program on a host did not report.
    #[cfg(feature = "report")]
    pub fn of_report(host: &HostName, answer: &ChildOutput) -> Self {
        let said = String::from_utf8_lossy(&answer.stderr);
        match answer.status.code() {
            Some(USAGE) if said.contains("unrecognized subcommand") => Self(format!(
                "td-observe on {host} has no reports: it is too old, or built without them; update it there"
            )),
            Some(USAGE | UNOBSERVED) => Self(format!(
                "td-observe on {host} refuses the report: {}",
                last_words(&said)
            )),
            _ => Self::of_answer(host, answer),
        }
    }

    /// The program on a host did not say where its observer listens.
    pub fn of_answer(host: &HostName, answer: &ChildOutput) -> Self {
        let said = String::from_utf8_lossy(&answer.stderr);
        match answer.status.code() {
            Some(SSH_FAILED) | None => Self::of_ssh(host, &said),
            Some(NOT_FOUND) => Self(format!(
                "td-observe is not found on {host}: install it there, or name it: [hosts.\"{host}\"] command = \"/path\" \
                 in the configuration"
            )),
            Some(UNOBSERVED) => Self(format!(
                "no observer runs on {host}: --start starts it, or ssh {host} td-observe start"
            )),
            Some(code) if said.contains("--print-socket") => Self(format!(
                "td-observe on {host} is too old to say where its observer listens (exit code {code}): update it there"
            )),
            Some(code) => Self(format!(
                "td-observe on {host} failed with exit code {code}: {}",
                last_words(&said)
            )),
        }
    }

    /// ssh failed with these words.
    pub fn of_ssh(host: &HostName, said: &str) -> Self {
        let words = last_words(said);
        let remedy = if said.contains("Permission denied") {
            format!(
                ": ssh {host} must work without a password: a key in ssh-agent or ~/.ssh/config"
            )
        } else if said.contains("Host key verification failed")
            || said.contains("HOST IDENTIFICATION")
        {
            format!(": ssh {host} once by hand shows its key, and what is wrong with it")
        } else if words.is_empty() {
            format!("ssh {host} ended without a word: try it by hand")
        } else {
            String::new()
        };
        Self(format!("{words}{remedy}"))
    }

    /// The host has not answered for some time.
    pub fn silent(host: &str) -> Self {
        Self(format!(
            "{host} does not answer: the network, the host or its observer hangs"
        ))
    }
}

/// Returns the last line of foreign words, without control characters.
pub(super) fn last_words(said: &str) -> String {
    let mut lines = said.lines().map(str::trim);
    let last = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
    let plain = last.chars().filter(|c| !c.is_control());
    plain.take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn each_failure_has_its_remedy() {
        let host: HostName = "web".parse().unwrap();
        let of = |code: i32, stderr: &str| {
            let answer = ChildOutput {
                status: ExitStatus::from_raw(code << 8),
                stdout: Vec::new(),
                stderr: stderr.into(),
                truncated: false,
            };
            Problem::of_answer(&host, &answer).to_string()
        };
        for (code, said, words) in [
            (127, "sh: 1: td-observe: not found", "install it there"),
            (3, "", "--start starts it"),
            (2, "td-observe: --print-socket: unknown", "too old"),
            (1, "td-observe: no space", "no space"),
            (
                255,
                "ann@web: Permission denied (publickey,password).\r\n",
                "without a password",
            ),
            (255, "Host key verification failed.", "by hand"),
            (
                255,
                "ssh: connect to host web port 22: Connection refused\n",
                "Connection refused",
            ),
            (255, "", "without a word"),
        ] {
            let problem = of(code, said);
            assert!(problem.contains(words), "{code} {said:?}: {problem}");
            assert!(!problem.contains(['\n', '\r']), "{problem:?}");
        }
        assert_eq!(last_words("a\n\x1b[31mred\x07\n\n"), "[31mred");
        assert_eq!(last_words(&"x".repeat(1_000)).len(), WORDS_MAX);
    }
}
