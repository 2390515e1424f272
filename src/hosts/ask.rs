//! Asks several hosts the same at once, a few at a time: the program there answers on its standard output.
//!
//! The threads `td-ask-N` block on their ssh, and on a slot before that. They end when the host has answered, or when the
//! face is stopped, and are joined by [`Asked::answers`].

use std::sync::Arc;
use std::time::Duration;

use super::CONNECTS_MAX;
use super::limit::Limit;
use super::name::HostName;
use super::problem::Problem;
use super::ssh::{AskLimits, SshCommand};
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{Handle, Stop, spawn};

/// The most that a host may take for its report: the time to read some 100 GB of histories from a disk. A host that falls
/// silent is noticed by ssh.
const REPORT_TIME: Duration = Duration::from_secs(300);

/// The most bytes of a report: that of a night of 1,000 agents has a tenth.
const REPORT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A host, and the words of its report.
#[derive(Clone, Debug)]
pub(crate) struct ReportQuestion {
    pub host: HostName,
    /// The program there, as a word of the remote shell.
    pub program: String,
    /// The arguments.
    pub args: Vec<String>,
}

/// The hosts that are being asked.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    threads: Vec<(HostName, Handle<std::result::Result<T, Problem>>)>,
}

/// Begins to ask all hosts for their reports; `read` makes of each what is kept of it.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn ask_for_reports<T: Send + 'static>(
    questions: Vec<ReportQuestion>,
    ssh: &SshCommand,
    read: impl Fn(&[u8]) -> std::result::Result<T, String> + Send + Sync + 'static,
    (stop, clock): (&Stop, &Clock),
) -> Result<Asked<T>> {
    let limit = Arc::new(Limit::of(CONNECTS_MAX));
    let read = Arc::new(read);
    let mut threads = Vec::new();
    for (number, question) in questions.into_iter().enumerate() {
        let (ssh, stop, clock) = (ssh.clone(), stop.clone(), clock.clone());
        let (limit, read) = (Arc::clone(&limit), Arc::clone(&read));
        let host = question.host.clone();
        let ask = move || {
            let slot = limit.take(&stop);
            let stopped = || Problem::new("it was stopped");
            let _slot = slot.ok_or_else(stopped)?;
            let answer = question.ask(&ssh, (&stop, &clock))?;
            read(&answer).map_err(|why| {
                let host = &question.host;
                Problem::new(format!(
                    "what td-observe on {host} printed is no report: {why}; is something printed by its shell's start \
                     files, or is it another version?"
                ))
            })
        };
        threads.push((host, spawn(format!("td-ask-{number}"), ask)?));
    }
    Ok(Asked { threads })
}

impl<T> Asked<T> {
    /// Waits for all hosts; returns their answers, or why there is none, in their order.
    pub fn answers(self) -> Vec<(HostName, std::result::Result<T, Problem>)> {
        let threads = self.threads.into_iter();
        let answers = threads.map(|(host, thread)| {
            let answer = thread.join();
            let answer = answer.unwrap_or_else(|panicked| Err(Problem::new(panicked.to_string())));
            (host, answer)
        });
        answers.collect()
    }
}

impl ReportQuestion {
    fn ask(
        &self,
        ssh: &SshCommand,
        (stop, clock): (&Stop, &Clock),
    ) -> std::result::Result<Vec<u8>, Problem> {
        // Whatever its configuration says, a host reports on itself alone. Each shell has env.
        let command = format!("env TD_HOSTS=local {} {}", self.program, self.words()?);
        let limits = AskLimits {
            time: REPORT_TIME,
            bytes: REPORT_BYTES_MAX,
        };
        let answer = ssh.ask(&self.host, &command, limits, (stop, clock));
        let answer = answer.map_err(|error| Problem::of_asking(&self.host, &error))?;
        if !answer.status.success() {
            return Err(Problem::of_report(&self.host, &answer));
        }
        if answer.stdout.len() >= REPORT_BYTES_MAX {
            return Err(Problem::new(format!(
                "the report of {} is larger than 64 MiB: ask for a shorter span, or for some of its runs",
                self.host
            )));
        }
        Ok(answer.stdout)
    }

    /// Returns the arguments, each as one word of a shell.
    fn words(&self) -> std::result::Result<String, Problem> {
        shlex::try_join(self.args.iter().map(String::as_str))
            .map_err(|_| Problem::new("the name of a run has a zero byte"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_a_shell_is_one_word_each() {
        let question = ReportQuestion {
            host: "web".parse().unwrap(),
            program: "td-observe".to_owned(),
            args: ["report", "--", "$(touch x)", "a'b", ";c"]
                .map(str::to_owned)
                .to_vec(),
        };
        let words = question.words().unwrap();
        assert_eq!(shlex::split(&words).unwrap(), question.args);
        assert_eq!(words, "report -- '$(touch x)' \"a'b\" ';c'");
    }
}
