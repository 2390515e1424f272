//! Views of a pane by attached clients: decides when one is reported (pure).

use std::time::{Duration, Instant};

use crate::event::ScreenRow;

/// The shortest time between two reports, unless an agent in the pane is done or needs its user.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The views of one pane. A view is reported only where the pane has shown something since the last
/// report, so that the log of a pane that stays in view does not grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Views {
    viewed_since: Option<Instant>,
    /// The time until which the client counts as looked at, unless somebody touches it again.
    until: Option<Instant>,
    /// The last report.
    reported_at: Option<Instant>,
    /// The last change of the agent's state.
    state_at: Option<Instant>,
    /// The time at which the agent was done or came to need its user, until that is reported as seen.
    news_at: Option<Instant>,
}

impl Views {
    /// Returns true if a client shows the pane.
    pub fn is_viewed(&self) -> bool {
        self.viewed_since.is_some()
    }

    /// Takes how long a client that shows the pane counts as looked at; `None` if none does.
    pub fn set_viewed(&mut self, left: Option<Duration>, now: Instant) {
        self.until = left.map(|left| now + left);
        if left.is_some() {
            self.viewed_since.get_or_insert(now);
        } else {
            self.viewed_since = None;
        }
    }

    /// Takes a change of the agent's state; `is_news` if its turn has ended, or it needs its user.
    pub fn state_changed(&mut self, is_news: bool, now: Instant) {
        self.state_at = Some(now);
        self.news_at = is_news.then_some(now);
    }

    /// Returns when a view is due; `printed_at` is the time of the pane's last output.
    pub fn next_due(&self, printed_at: Option<Instant>) -> Option<Instant> {
        let due = self.due(printed_at)?;
        // Nobody may be there any more.
        self.until.is_some_and(|until| due < until).then_some(due)
    }

    fn due(&self, printed_at: Option<Instant>) -> Option<Instant> {
        let viewed_since = self.viewed_since?;
        let Some(reported_at) = self.reported_at else {
            return Some(viewed_since);
        };
        if let Some(news_at) = self.news_at {
            return Some(news_at.max(viewed_since));
        }
        let changed_at = printed_at.max(self.state_at)?;
        let due = viewed_since.max(reported_at + REPORT_INTERVAL);
        (changed_at > reported_at).then_some(due)
    }

    /// Returns true if a view is due, and considers it as reported.
    pub fn take_due(&mut self, printed_at: Option<Instant>, now: Instant) -> bool {
        let is_there = self.until.is_some_and(|until| now < until);
        let is_due = is_there && self.next_due(printed_at).is_some_and(|at| at <= now);
        if is_due {
            (self.reported_at, self.news_at) = (Some(now), None);
        }
        is_due
    }
}

/// The delay after a change of state, in which the agent draws its screen.
const DRAW_DELAY: Duration = Duration::from_millis(300);

/// The interval of snapshots while the screen changes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The snapshots of one pane.
#[derive(Debug, Default)]
pub(in crate::observe) struct Snapshots {
    due: Option<Instant>,
    taken_at: Option<Instant>,
    last: String,
}

impl Snapshots {
    /// Notes a change of the agent's state.
    pub fn state_changed(&mut self, now: Instant) {
        self.due_at(now + DRAW_DELAY);
    }

    pub fn shows(&mut self, screen: &str, now: Instant) {
        if screen != self.last {
            self.due_at(
                self.taken_at
                    .map_or(now + DRAW_DELAY, |at| (at + INTERVAL).max(now)),
            );
        }
    }

    /// Returns when a snapshot is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the rows to keep, if a snapshot is due and the screen differs from the last one.
    pub fn take(&mut self, screen: String, now: Instant) -> Option<Vec<ScreenRow>> {
        self.due.take_if(|due| *due <= now)?;
        if screen == self.last {
            return None;
        }
        self.taken_at = Some(now);
        let rows = (0..).zip(screen.lines());
        let rows = rows.filter(|(_, text)| !text.trim().is_empty());
        let rows = rows.map(|(row, text)| ScreenRow {
            row,
            text: text.trim_end().to_owned(),
        });
        let rows = rows.collect();
        self.last = screen;
        Some(rows)
    }

    fn due_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

/// The minimum time between two reports of what an agent says: a face shows it in one line, and streamed words change it
/// several times a second.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(1);

/// What the agent in one pane says or does, as its screen shows it.
#[derive(Debug, Default)]
pub(in crate::observe) struct Activity {
    shown: Option<String>,
    due: Option<Instant>,
    reported_at: Option<Instant>,
}

impl Activity {
    /// Notes what a screen shows. At the beginning of a turn, the screen still shows the words of the last one, which are
    /// not new.
    pub fn shows(&mut self, says: Option<String>, now: Instant) {
        if self.shown == says {
            return;
        }
        self.shown = says;
        let next = self
            .reported_at
            .map_or(now, |at| (at + ACTIVITY_INTERVAL).max(now));
        self.due = self.shown.is_some().then(|| self.due.unwrap_or(next));
    }

    /// Returns when a report is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns what is to be reported, if that is due and the screen `may_be_ahead` of what the agent writes.
    pub fn take(&mut self, may_be_ahead: bool, now: Instant) -> Option<String> {
        self.due.take_if(|due| *due <= now)?;
        let said = self.shown.clone().filter(|_| may_be_ahead)?;
        self.reported_at = Some(now);
        Some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_view_is_reported_when_it_begins_and_then_with_news_once_a_minute() {
        let begin = Instant::now();
        let at = |time| begin + seconds(time);
        let mut views = Views::default();
        assert!(!views.take_due(Some(at(0)), at(1)), "out of view");
        views.set_viewed(Some(seconds(600)), at(2));
        assert_eq!(views.next_due(Some(at(0))), Some(at(2)));
        assert!(views.take_due(Some(at(0)), at(2)));
        assert_eq!(views.next_due(Some(at(0))), None, "nothing new");
        assert_eq!(views.next_due(Some(at(9))), Some(at(62)));
        assert!(!views.take_due(Some(at(9)), at(61)));
        assert!(views.take_due(Some(at(9)), at(62)));
        // It goes out of view and comes back within the minute.
        views.set_viewed(None, at(63));
        views.set_viewed(Some(seconds(600)), at(64));
        assert_eq!(views.next_due(Some(at(9))), None, "nothing new");
        assert_eq!(views.next_due(Some(at(65))), Some(at(122)));
        // And later than that.
        views.set_viewed(None, at(66));
        assert_eq!(views.next_due(Some(at(65))), None);
        views.set_viewed(Some(seconds(600)), at(200));
        assert_eq!(views.next_due(Some(at(65))), Some(at(200)));
    }

    #[test]
    fn what_happens_after_the_user_has_gone_is_not_seen() {
        let begin = Instant::now();
        let at = |time| begin + seconds(time);
        let mut views = Views::default();
        views.set_viewed(Some(seconds(60)), at(0));
        assert!(views.take_due(None, at(0)));
        views.state_changed(true, at(61));
        assert!(!views.take_due(None, at(61)));
        assert_eq!(views.next_due(None), None);
        // He touches the client again.
        views.set_viewed(Some(seconds(60)), at(300));
        assert!(views.take_due(None, at(300)));
    }

    #[test]
    fn an_agent_that_is_done_is_seen_at_once() {
        let begin = Instant::now();
        let at = |time| begin + seconds(time);
        let mut views = Views::default();
        views.set_viewed(Some(seconds(600)), at(0));
        assert!(views.take_due(None, at(0)));
        views.state_changed(false, at(1));
        assert_eq!(views.next_due(None), Some(at(60)));
        views.state_changed(true, at(2));
        assert!(views.take_due(None, at(2)));
        assert_eq!(views.next_due(None), None);
        views.set_viewed(None, at(3));
        views.state_changed(true, at(4));
        assert_eq!(views.next_due(None), None, "out of view");
        views.set_viewed(Some(seconds(600)), at(9));
        assert!(views.take_due(None, at(9)));
        // It works again before it is viewed.
        views.set_viewed(None, at(10));
        views.state_changed(true, at(11));
        views.state_changed(false, at(12));
        views.set_viewed(Some(seconds(600)), at(13));
        assert_eq!(views.next_due(None), Some(at(69)));
    }

    #[test]
    fn what_an_agent_says_is_reported_once_a_second_while_it_works() {
        let (mut activity, start) = (Activity::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        // What the last turn has said.
        activity.shows(Some("All is well.".into()), at(0));
        assert_eq!(activity.take(false, at(0)), None);
        activity.shows(Some("All is well.".into()), at(100));
        assert_eq!(activity.next_due(), None);
        activity.shows(None, at(200));
        assert_eq!(activity.next_due(), None, "a prompt");
        activity.shows(Some("I".into()), at(300));
        assert_eq!(activity.take(true, at(300)).as_deref(), Some("I"));
        activity.shows(Some("I look".into()), at(400));
        assert_eq!(activity.next_due(), Some(at(1300)));
        activity.shows(Some("I look around.".into()), at(900));
        assert_eq!(activity.next_due(), Some(at(1300)));
        assert_eq!(activity.take(true, at(1299)), None);
        let said = activity.take(true, at(1300));
        assert_eq!(said.as_deref(), Some("I look around."));
        assert_eq!(activity.take(true, at(9000)), None);
    }

    #[test]
    fn a_screen_is_kept_after_a_change_of_state_and_every_ten_seconds() {
        let (mut snapshots, start) = (Snapshots::default(), Instant::now());
        let s = Duration::from_secs(1);
        snapshots.state_changed(start);
        assert_eq!(snapshots.take("a".into(), start), None, "not drawn yet");
        let rows = snapshots.take("a\n\n  b ".into(), start + s).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].row, rows[1].text.as_str()), (2, "  b"));
        snapshots.shows("c", start + 2 * s);
        assert_eq!(snapshots.next_due(), Some(start + 11 * s));
        assert_eq!(snapshots.take("c".into(), start + 5 * s), None);
        snapshots.state_changed(start + 6 * s);
        assert!(snapshots.take("c".into(), start + 7 * s).is_some());
        snapshots.state_changed(start + 8 * s);
        assert_eq!(snapshots.take("c".into(), start + 9 * s), None, "the same");
    }
}
