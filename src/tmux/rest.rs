//! Whether a tmux server stands still: by how often and how long the kernel has let it run.
//!
//! A server that has not run has done nothing, so that a listing of it holds, whatever it is asked for,
//! and need not be asked for again. Asking makes it run, a little also after its answer. So it is noted
//! how long it had run by some time after each question: what others asked of it in that time goes
//! unnoticed until the next listing. That comes soon after something had happened, and later and later while
//! nothing does: a listing is one more time in which something may go unnoticed, so that it would gain
//! nothing to ask more often.

use std::fs;
use std::time::Duration;

/// How long after a question a server has dealt with its end, as a rule. Where it takes longer, as on a
/// busy machine, it has run since, and is asked once more.
const ENDING: Duration = Duration::from_millis(3);

/// How old a listing may become while its server stands still: after something had happened, and at
/// most.
const AGE_LEAST: Duration = Duration::from_millis(500);
const AGE_MOST: Duration = Duration::from_secs(60);

/// By how much it grows, each time that the server was asked for nothing.
const AGE_FACTOR: u32 = 4;

/// How long a process has run in its life, in nanoseconds, and how often it was given a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    time: u64,
    turns: u64,
}

/// One server, by the questions that it was asked.
#[derive(Debug)]
pub(super) struct Rest {
    /// When the last question ended, until the server has had its time to deal with that.
    asked: Option<Duration>,
    /// How long the server had run a while after that.
    then: Option<Run>,
    /// It has not run between the last listing and then, as far as that is known.
    holds: bool,
    /// How old a listing may be.
    age: Duration,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            asked: None,
            then: None,
            holds: false,
            age: AGE_LEAST,
        }
    }
}

impl Rest {
    /// Notes that the server is asked for a listing: whether it stood still, in which case the next one
    /// comes later.
    pub fn lists(&mut self, server: u32) -> bool {
        let stood_still = self.is_still(server);
        self.age = match stood_still {
            true => (self.age * AGE_FACTOR).min(AGE_MOST),
            false => AGE_LEAST,
        };
        self.holds = true;
        stood_still
    }

    /// Notes that the server is asked for something else: if it has run since the listing, that does not
    /// hold any more, whatever comes.
    pub fn asks(&mut self, server: u32) {
        self.holds &= self.asked.is_some() || self.is_still(server);
    }

    /// Notes that a question ended then.
    pub fn asked(&mut self, now: Duration) {
        (self.asked, self.then) = (Some(now), None);
    }

    /// When to call [`Rest::note`].
    pub fn due(&self) -> Option<Duration> {
        Some(self.asked? + ENDING)
    }

    /// Notes how long the server has run, if it is time to.
    pub fn note(&mut self, server: u32, now: Duration) {
        if self.due().is_some_and(|due| due <= now) {
            (self.asked, self.then) = (None, run_of(server));
        }
    }

    /// Whether a listing that was taken then holds now.
    pub fn keeps(&self, server: u32, taken: Duration, now: Duration) -> bool {
        self.holds && now < taken + self.age && self.is_still(server)
    }

    fn is_still(&self, server: u32) -> bool {
        self.then.is_some() && self.then == run_of(server)
    }
}

/// Only Linux tells; see "scheduler statistics" in its documentation.
fn run_of(process: u32) -> Option<Run> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    parse(&text)
}

/// Time on a processor, time waiting for one, and turns; all 0 where the kernel does not count.
fn parse(schedstat: &str) -> Option<Run> {
    let mut fields = schedstat.split_ascii_whitespace();
    let run = Run {
        time: fields.next()?.parse().ok()?,
        turns: fields.nth(1)?.parse().ok()?,
    };
    (run.turns > 0).then_some(run)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_process_that_waits_stands_still_until_it_runs() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let mut says = |byte: u8| {
            to.write_all(&[byte]).unwrap();
            let mut said = [0];
            from.read_exact(&mut said).unwrap();
        };
        says(b'a');
        let pid = cat.id();
        // It waits for more once it has not run between two looks.
        let over = std::time::Instant::now() + Duration::from_secs(20);
        let mut rest = Rest::default();
        loop {
            assert!(std::time::Instant::now() < over);
            let before = run_of(pid);
            cat_waits(pid);
            if before == run_of(pid) {
                break;
            }
        }
        rest.asked(ms(100));
        rest.lists(pid);
        assert!(!rest.keeps(pid, ms(100), ms(101)), "not known yet");
        rest.note(pid, ms(101));
        assert_eq!(rest.due(), Some(ms(103)), "too early");
        rest.note(pid, ms(103));
        assert_eq!(rest.due(), None);
        assert!(rest.keeps(pid, ms(100), ms(599)));
        assert!(!rest.keeps(pid, ms(100), ms(600)), "for half a second");
        rest.lists(pid);
        assert!(rest.keeps(pid, ms(100), ms(2099)), "it stood still");
        says(b'b');
        assert!(!rest.keeps(pid, ms(100), ms(130)), "it has run");
        rest.lists(pid);
        rest.asked(ms(200));
        cat_waits(pid);
        rest.note(pid, ms(220));
        assert!(!rest.keeps(pid, ms(200), ms(700)), "half a second again");
        assert!(rest.keeps(pid, ms(200), ms(699)));
        says(b'c');
        cat_waits(pid);
        rest.asks(pid);
        rest.asked(ms(300));
        rest.note(pid, ms(320));
        assert!(
            !rest.keeps(pid, ms(200), ms(330)),
            "it ran before another question"
        );
        drop(to);
        cat.wait().unwrap();
        assert!(!rest.keeps(pid, ms(200), ms(201)), "gone");
    }

    /// Waits until a process sleeps.
    fn cat_waits(pid: u32) {
        let over = std::time::Instant::now() + Duration::from_secs(20);
        let sleeps = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.contains(") S ")
        };
        while !sleeps() {
            assert!(std::time::Instant::now() < over);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_kernel_that_does_not_count_tells_nothing() {
        assert_eq!(parse("5 6 7\n"), Some(Run { time: 5, turns: 7 }));
        for nothing in ["0 0 0\n", "", "5 6", "a b c"] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }
}
