//! Whether a tmux server stands still: by how often and how long the kernel has let it run (pure).
//!
//! A server that has not run has done nothing, so that a listing of it holds, whatever it is asked for,
//! and need not be asked for again. Asking makes it run, a little also after its answer. So it is noted
//! how long it had run by some time after each question: what others asked of it in that time goes
//! unnoticed until the next listing. That comes soon after something had happened, and later and later while
//! nothing does: a listing is one more time in which something may go unnoticed, so that it would gain
//! nothing to ask more often.

use std::time::Duration;

use super::counters::Run;

/// How long after a question a server has dealt with its end, as a rule. Where it takes longer, as on a
/// busy machine, it has run since, and is asked once more.
const ENDING: Duration = Duration::from_millis(3);

/// How old a listing may become while its server stands still: after something had happened, and at
/// most.
const AGE_LEAST: Duration = Duration::from_millis(500);
const AGE_MOST: Duration = Duration::from_secs(60);

/// By how much it grows, each time that the server was asked for nothing.
const AGE_FACTOR: u32 = 4;

/// One server, by the questions that it was asked. How long it has run by now is `None` where nobody
/// knows: then it may have done anything.
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
    pub fn lists(&mut self, run: Option<Run>) -> bool {
        let stood_still = self.is_still(run);
        self.age = match stood_still {
            true => (self.age * AGE_FACTOR).min(AGE_MOST),
            false => AGE_LEAST,
        };
        self.holds = true;
        stood_still
    }

    /// Notes that the server is asked for something else: if it has run since the listing, that does not
    /// hold any more, whatever comes.
    pub fn asks(&mut self, run: Option<Run>) {
        self.holds &= self.asked.is_some() || self.is_still(run);
    }

    /// Notes that a question ended then.
    pub fn asked(&mut self, now: Duration) {
        (self.asked, self.then) = (Some(now), None);
    }

    /// When to call [`Rest::note`].
    pub fn due(&self) -> Option<Duration> {
        Some(self.asked? + ENDING)
    }

    /// Notes how long the server has run, now that it is time to.
    pub fn note(&mut self, run: Option<Run>) {
        (self.asked, self.then) = (None, run);
    }

    /// Whether a listing that was taken then holds now.
    pub fn keeps(&self, run: Option<Run>, taken: Duration, now: Duration) -> bool {
        self.holds && now < taken + self.age && self.is_still(run)
    }

    fn is_still(&self, run: Option<Run>) -> bool {
        run.is_some() && self.then == run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_listing_holds_for_as_long_as_the_server_stands_still() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|turns| Some(Run::of(10 * turns, turns)));
        let mut rest = Rest::default();
        rest.asked(ms(100));
        rest.lists(a);
        assert!(!rest.keeps(a, ms(100), ms(101)), "not known yet");
        assert_eq!(rest.due(), Some(ms(103)));
        rest.note(a);
        assert_eq!(rest.due(), None);
        assert!(rest.keeps(a, ms(100), ms(599)));
        assert!(!rest.keeps(a, ms(100), ms(600)), "for half a second");
        assert!(rest.lists(a));
        assert!(rest.keeps(a, ms(100), ms(2099)), "it stood still");
        assert!(!rest.keeps(b, ms(100), ms(130)), "it has run");
        assert!(!rest.lists(b));
        rest.asked(ms(200));
        rest.note(b);
        assert!(!rest.keeps(b, ms(200), ms(700)), "half a second again");
        assert!(rest.keeps(b, ms(200), ms(699)));
        rest.asks(c);
        rest.asked(ms(300));
        rest.note(c);
        assert!(
            !rest.keeps(c, ms(200), ms(330)),
            "it ran before another question"
        );
        assert!(!rest.keeps(None, ms(200), ms(330)), "gone");
        rest.lists(d);
        rest.asked(ms(400));
        rest.note(None);
        assert!(!rest.keeps(None, ms(400), ms(430)), "nobody tells");
    }

    #[test]
    fn a_listing_grows_old_while_nothing_happens() {
        let run = Some(Run::of(1, 1));
        let mut rest = Rest::default();
        let mut ages = Vec::new();
        for _ in 0..6 {
            rest.asked(ms(0));
            rest.note(run);
            rest.lists(run);
            let age = (1..).map(|half| half * ms(500));
            ages.extend(
                age.take_while(|age| rest.keeps(run, ms(0), *age - ms(1)))
                    .last(),
            );
        }
        assert_eq!(ages, [2000, 8000, 32000, 60000, 60000, 60000].map(ms));
    }
}
