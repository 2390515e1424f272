//! Tact: decides which message each channel sends and when, what is withheld, and what is withdrawn (pure).
//!
//! ```text
//! rows of the board ──look──> items, per channel: waiting ──> sending ──> sent ──> settled
//!                                                    └─ settled before: withheld
//! ```
//!
//! A channel does one thing at a time: [`Tact::next`] says what, and [`Tact::finished`] takes the outcome.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::channel::{Sent, Unsent};
use super::message::{Item, News, Note, Settled};
use super::news::{NewsId, Past, Told, item, told_by};
use super::output::{OutputQueue, Size};
use super::rule::Rule;
use crate::agent_loop::RetryPolicy;
use crate::board::{Row, RowState};
use crate::event::AgentState;
use crate::history::fnv1a;
use crate::timestamp::Timestamp;

/// The time between two messages of a channel; what comes meanwhile is in the second one.
const BETWEEN_MESSAGES: Duration = Duration::from_secs(10);

/// The time for which what is due waits for what is about to be: questions that are asked together are one message.
const TOGETHER: Duration = Duration::from_secs(1);

/// The time after a start or a wake-up in which nothing is sent, so that all that has happened meanwhile is one message.
/// Panes are read within a second, and what the files of agents say follows a little later.
const GATHERING: Duration = Duration::from_secs(3);

/// The delays of retries, which go on as long as the message holds.
const RETRIES: RetryPolicy = RetryPolicy {
    retries_max: u32::MAX,
    first_delay: Duration::from_secs(1),
    delay_max: Duration::from_secs(300),
};

/// The attempts to change a message that was sent: the last one is ten minutes after the first.
const UPDATES_MAX: u32 = 10;

/// The messages of a channel that are changed when what they tell is settled. A night has fewer.
const SENT_MAX: usize = 256;

/// What the tact knows of a channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelTraits {
    pub name: String,
    /// Sends the words of rows, not only names and states.
    pub with_text: bool,
    /// Can change or remove what it has sent.
    pub can_update: bool,
    /// Takes a message that has the id of an earlier one for the same.
    pub knows_ids: bool,
    /// How long its messages may be; `None` if it gets no output.
    pub output: Option<Size>,
}

/// What a channel is to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Send(Note),
    Update(Note, Sent),
    /// Lines that rows have printed.
    Output(String),
}

/// What has been decided or has happened, as `notify log` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The channel has taken the message.
    Sent(Note, Sent),
    /// The message may have arrived, and is not sent again.
    Unconfirmed(Note, String),
    /// It was not taken, and is sent again at this time if it still holds.
    Failed(Note, String, Timestamp),
    /// There was nobody to tell.
    Nobody(Note, &'static str),
    /// It is given up.
    Refused(Note, String),
    /// The message shows what has become of it.
    Updated(Note, Sent),
    /// It could not be changed.
    NotUpdated(Note, String),
    /// This is not told.
    Withheld(Item, &'static str),
    /// What rows have printed was not taken, and is sent again at this time; or never, without one.
    OutputFailed(String, Option<Timestamp>),
    /// So many lines were not sent before the end.
    OutputLost(u64),
    /// The message is about to be sent; a channel that cannot tell one message from another does not get it twice.
    Sending(Note),
}

/// An item that is not sent yet.
#[derive(Clone, Debug)]
struct Waiting {
    id: NewsId,
    item: Item,
    due: Timestamp,
}

/// What is sent.
#[derive(Clone, Debug)]
enum Payload {
    Note(Note),
    Output(String),
}

/// A message that is sent, or sent again.
#[derive(Clone, Debug)]
struct Sending {
    payload: Payload,
    attempts: u32,
    /// The time of the next attempt; `None` during one.
    retry_at: Option<Timestamp>,
}

/// A message of which something still holds, or that is about to be changed.
#[derive(Clone, Debug)]
struct SentNote {
    note: Note,
    sent: Sent,
    /// The next attempt to change it, and the number of those before; `None` if it says what holds.
    update: Option<(Timestamp, u32)>,
}

/// The messages of one channel.
#[derive(Debug)]
struct Lane {
    traits: ChannelTraits,
    waiting: Vec<Waiting>,
    sending: Option<Sending>,
    sent: VecDeque<SentNote>,
    /// What was sent, given up or withheld, and may still hold.
    handled: HashSet<NewsId>,
    /// No message before this time.
    free_at: Timestamp,
    /// The message that is being changed.
    updating: Option<String>,
    /// What its rows print, if it gets that.
    output: Option<OutputQueue>,
}

/// The decisions about all messages.
#[derive(Debug)]
pub(super) struct Tact {
    rules: Vec<Rule>,
    lanes: Vec<Lane>,
    /// The last view of each row in any state.
    viewed: HashMap<String, Timestamp>,
    /// The rows that this process has seen, while anything refers to them.
    seen: HashSet<String>,
    /// The rows that have been at a prompt.
    at_prompt: HashSet<String>,
    /// Results from before this time are no news, only what needs the user is.
    news_from: Timestamp,
    /// Nothing is sent or settled before this time.
    gathers_until: Timestamp,
    now: Timestamp,
}

/// What holds of an item.
enum Holds {
    Yes,
    Unknown,
    No(Settled),
}

impl Tact {
    /// Begins to tell at `now` what has happened from `news_from` on, and whatever needs the user.
    pub fn new(
        rules: Vec<Rule>,
        channels: Vec<ChannelTraits>,
        news_from: Timestamp,
        now: Timestamp,
    ) -> Self {
        let lane = |traits: ChannelTraits| Lane {
            output: traits.output.map(OutputQueue::new),
            traits,
            waiting: Vec::new(),
            sending: None,
            sent: VecDeque::new(),
            handled: HashSet::new(),
            free_at: now,
            updating: None,
        };
        Self {
            rules,
            lanes: channels.into_iter().map(lane).collect(),
            viewed: HashMap::new(),
            seen: HashSet::new(),
            at_prompt: HashSet::new(),
            news_from,
            gathers_until: now,
            now,
        }
    }

    /// Learns that a channel has been told something, by this process before or by another one. `sent` is what may be
    /// changed of it.
    pub fn learn(&mut self, channel: &str, note: Note, sent: Option<Sent>) {
        let Some(lane) = self.lane_named(channel) else {
            return;
        };
        lane.free_at = lane.free_at.max(note.at.after(BETWEEN_MESSAGES));
        lane.handled.extend(note.items.iter().map(NewsId::of));
        lane.sent.retain(|known| known.note.id != note.id);
        if let Some(sent) = sent.filter(|_| lane.traits.can_update && !note.is_settled()) {
            lane.keep(note, sent);
        }
    }

    /// Learns that a channel has not taken a message.
    pub fn forget(&mut self, channel: &str, items: &[Item]) {
        if let Some(lane) = self.lane_named(channel) {
            for item in items {
                lane.handled.remove(&NewsId::of(item));
            }
        }
    }

    /// Learns that an earlier observer has left lines of output unsent.
    pub fn leave_out(&mut self, channel: &str, lines: u64) {
        let output = self
            .lane_named(channel)
            .and_then(|lane| lane.output.as_mut());
        if let Some(output) = output.filter(|_| lines > 0) {
            output.leave_out(lines);
        }
    }

    /// Takes the lines of output that were not sent, by channel.
    pub fn take_unsent(&mut self) -> Vec<(usize, Record)> {
        let lanes = self.lanes.iter_mut().enumerate();
        let unsent = lanes.filter_map(|(channel, lane)| {
            let output = lane.output.as_mut()?;
            let sending = lane.sending.take().map(|sending| sending.payload);
            let lines = match sending {
                Some(Payload::Output(text)) => text.lines().count() as u64,
                _ => 0,
            };
            let lines = lines + output.take_count();
            (lines > 0).then_some((channel, Record::OutputLost(lines)))
        });
        unsent.collect()
    }

    /// Returns the messages of a channel that may still be changed.
    pub fn open(&self, channel: usize) -> impl Iterator<Item = (&Note, &Sent)> {
        let sent = self.lanes.get(channel).into_iter();
        sent.flat_map(|lane| lane.sent.iter().map(|sent| (&sent.note, &sent.sent)))
    }

    /// Sends and settles nothing for a while, because much has happened meanwhile: the observer has begun, or has slept.
    pub fn gather(&mut self, now: Timestamp) {
        self.gathers_until = now.after(GATHERING);
    }

    /// Takes the rows of the board as they are now. What rows `are_others`, another process tells.
    pub fn look(
        &mut self,
        rows: &[Row],
        are_others: impl Fn(&Row) -> bool,
        now: Timestamp,
    ) -> Vec<(usize, Record)> {
        self.set_time(now);
        let mut told: BTreeMap<String, (&Row, Told)> = BTreeMap::new();
        for row in rows {
            let key = row.key().to_string();
            if let Some(seen) = row.seen {
                let viewed = self.viewed.entry(key.clone()).or_insert(seen);
                *viewed = seen.max(*viewed);
            }
            // A shell that has shown its prompt has a user, and is no script.
            if row.state == RowState::Agent(AgentState::Idle.into()) {
                self.at_prompt.insert(key.clone());
            }
            let past = Past {
                viewed: self.viewed.get(&key).copied(),
                was_at_prompt: self.at_prompt.contains(&key),
            };
            let told_now = if are_others(row) {
                match told_by(row, &past) {
                    Told::News { id, .. } => Told::Others(Some(id)),
                    _ => Told::Others(None),
                }
            } else {
                told_by(row, &past)
            };
            told.insert(key, (row, told_now));
        }
        self.viewed.retain(|row, _| told.contains_key(row));
        self.at_prompt.retain(|row| told.contains_key(row));
        let lanes = &self.lanes;
        self.seen
            .retain(|row| lanes.iter().any(|lane| lane.refers_to(row)));
        self.seen.extend(told.keys().cloned());
        let mut records = Vec::new();
        for channel in 0..self.lanes.len() {
            self.settle(channel, &told, &mut records);
            self.begin(channel, &told, &mut records);
        }
        records
    }

    /// Settles what no longer holds.
    fn settle(
        &mut self,
        channel: usize,
        told: &BTreeMap<String, (&Row, Told)>,
        records: &mut Vec<(usize, Record)>,
    ) {
        let (now, gathers) = (self.now, self.now < self.gathers_until);
        let seen = &self.seen;
        let Some(lane) = self.lanes.get_mut(channel) else {
            return;
        };
        let holds = |id: &NewsId| match told.get(&id.row) {
            Some((_, Told::Unknown | Told::Others(_))) => Holds::Unknown,
            Some((_, Told::News { id: now, is_seen })) if now == id => match is_seen {
                true => Holds::No(Settled::Seen),
                false => Holds::Yes,
            },
            // The rows of an observer that has just begun come one by one.
            _ if gathers => Holds::Unknown,
            Some(_) => Holds::No(Settled::Over),
            // The row of a pane may tell the end of what ran in it.
            None if matches!(id.news, News::Failed | News::Ended) => Holds::Unknown,
            // Another process tells it, which sees more.
            None if !seen.contains(&id.row) => Holds::Unknown,
            None => Holds::No(Settled::Gone),
        };
        let of_others = told.values().filter_map(|(_, told)| match told {
            Told::Others(id) => id.as_ref(),
            _ => None,
        });
        of_others.for_each(|id| lane.redate(id));
        // Whoever tells it now knows when.
        let is_others = |id: &NewsId| matches!(told.get(&id.row), Some((_, Told::Others(_))));
        lane.waiting.retain(|waiting| !is_others(&waiting.id));
        lane.waiting.retain_mut(|waiting| match holds(&waiting.id) {
            Holds::Yes => {
                // The question may have got its choices meanwhile.
                if let Some((row, _)) = told.get(&waiting.id.row) {
                    waiting.item = item(row, &waiting.id, lane.traits.with_text);
                }
                true
            }
            Holds::Unknown => true,
            Holds::No(settled) => {
                let why = reason(settled, waiting.due <= now);
                records.push((channel, Record::Withheld(waiting.item.clone(), why)));
                lane.handled.insert(waiting.id.clone());
                false
            }
        });
        if let Some(sending) = &mut lane.sending
            && sending.retry_at.is_some()
            && let Payload::Note(note) = &mut sending.payload
        {
            note.items.retain(|item| {
                let id = NewsId::of(item);
                let Holds::No(settled) = holds(&id) else {
                    return true;
                };
                let why = reason(settled, true);
                records.push((channel, Record::Withheld(item.clone(), why)));
                lane.handled.insert(id);
                false
            });
        }
        let is_dropped = |sending: &mut Sending| match &sending.payload {
            Payload::Note(note) => note.items.is_empty(),
            Payload::Output(_) => false,
        };
        lane.sending.take_if(is_dropped);
        for sent in &mut lane.sent {
            let mut is_changed = false;
            for item in &mut sent.note.items {
                if item.settled.is_none()
                    && let Holds::No(settled) = holds(&NewsId::of(item))
                {
                    item.settled = Some(settled);
                    is_changed = true;
                }
            }
            if is_changed {
                sent.update = Some((now, 0));
            }
        }
        // What no longer holds never holds again: its time is part of its identity.
        let is_current = |id: &NewsId| match told.get(&id.row) {
            Some((_, Told::News { id: now, .. })) => now == id,
            Some((_, Told::Unknown | Told::Others(_))) => true,
            Some((_, Told::Nothing)) | None => gathers,
        };
        lane.handled.retain(is_current);
    }

    /// Lets what is new wait for its time.
    fn begin(
        &mut self,
        channel: usize,
        told: &BTreeMap<String, (&Row, Told)>,
        records: &mut Vec<(usize, Record)>,
    ) {
        let now = self.now;
        let Some(lane) = self.lanes.get_mut(channel) else {
            return;
        };
        for (row, told) in told.values() {
            let Told::News { id, is_seen } = told else {
                continue;
            };
            if lane.knows(id) {
                continue;
            }
            lane.handled.insert(id.clone());
            let rules = self
                .rules
                .iter()
                .filter(|rule| rule.to.contains(&lane.traits.name));
            let after = rules
                .filter_map(|rule| rule.after(id.news, &row.name))
                .min();
            let item = item(row, id, lane.traits.with_text);
            let why = match after {
                None => "no rule tells it",
                Some(_) if !id.news.needs_user() && id.since < self.news_from => {
                    "it is older than the first notification"
                }
                Some(_) if *is_seen => reason(Settled::Seen, false),
                Some(after) => {
                    lane.handled.remove(id);
                    lane.waiting.push(Waiting {
                        id: id.clone(),
                        item,
                        // The clock may have been set back since.
                        due: id.since.min(now).after(after),
                    });
                    continue;
                }
            };
            records.push((channel, Record::Withheld(item, why)));
        }
    }

    /// Returns what a channel that does nothing is to do now. The caller reports the outcome with [`Tact::finished`].
    pub fn next(&mut self, channel: usize, now: Timestamp) -> Option<Job> {
        self.set_time(now);
        let now = self.now;
        let gathers_until = self.gathers_until;
        let lane = self.lanes.get_mut(channel)?;
        if lane.is_busy() || now < gathers_until {
            return None;
        }
        if let Some(sent) = lane
            .sent
            .iter()
            .find(|sent| sent.update.is_some_and(|(due, _)| due <= now))
        {
            lane.updating = Some(sent.note.id.clone());
            // An update is news of its own.
            let note = Note {
                at: now,
                ..sent.note.clone()
            };
            return Some(Job::Update(note, sent.sent.clone()));
        }
        if let Some(sending) = &mut lane.sending {
            sending.retry_at.take_if(|at| *at <= now)?;
            sending.attempts += 1;
            return Some(sending.payload.job());
        }
        if now < lane.free_at {
            return None;
        }
        if lane.together_at(now).is_some() {
            return None;
        }
        let due = lane.waiting.extract_if(.., |waiting| waiting.due <= now);
        let mut items: Vec<Item> = due.map(|waiting| waiting.item).collect();
        let payload = if items.is_empty() {
            Payload::Output(lane.output.as_mut()?.take()?)
        } else {
            items.sort_by_key(|item| (item.news, item.since));
            Payload::Note(Note {
                id: note_id(&lane.traits.name, &items),
                at: now,
                items,
            })
        };
        let job = payload.job();
        lane.free_at = now.after(BETWEEN_MESSAGES);
        lane.sending = Some(Sending {
            payload,
            attempts: 1,
            retry_at: None,
        });
        Some(job)
    }

    /// Returns true while a channel works.
    pub fn is_busy(&self) -> bool {
        self.lanes.iter().any(Lane::is_busy)
    }

    /// Takes a line that a row has printed, for the channels that get it.
    pub fn print(&mut self, row: &str, line: &str) {
        for lane in &mut self.lanes {
            let name = &lane.traits.name;
            let mut rules = self.rules.iter();
            if let Some(output) = &mut lane.output
                && rules.any(|rule| rule.to.contains(name) && rule.is_about(row))
            {
                output.push(row, line);
            }
        }
    }

    /// Notes that lines were missed.
    pub fn miss(&mut self) {
        let outputs = self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.output.as_mut());
        outputs.for_each(OutputQueue::miss);
    }

    /// Takes the outcome of what a channel was to do.
    pub fn finished(
        &mut self,
        channel: usize,
        outcome: Result<Sent, Unsent>,
        now: Timestamp,
    ) -> Option<Record> {
        self.set_time(now);
        let now = self.now;
        let lane = self.lanes.get_mut(channel)?;
        if let Some(id) = lane.updating.take() {
            return lane.updated(&id, outcome.map(drop), now);
        }
        let mut sending = lane.sending.take()?;
        let note = match &sending.payload {
            Payload::Note(note) => note.clone(),
            Payload::Output(_) => return lane.printed(sending, outcome.map(drop), now),
        };
        if !matches!(outcome, Err(Unsent::Later(..))) {
            lane.handled.extend(note.items.iter().map(NewsId::of));
        }
        Some(match outcome {
            Ok(sent) => {
                if sending.attempts > 1 {
                    lane.free_at = lane.free_at.max(now.after(BETWEEN_MESSAGES));
                }
                if lane.traits.can_update {
                    lane.keep(note.clone(), sent.clone());
                }
                Record::Sent(note, sent)
            }
            Err(Unsent::Unconfirmed(why)) => Record::Unconfirmed(note, why),
            Err(Unsent::Nobody(why)) => Record::Nobody(note, why),
            Err(Unsent::Never(why)) => Record::Refused(note, why),
            Err(Unsent::Later(after, why)) => {
                let delay = retry_delay(&note.id, sending.attempts);
                let at = now.after(after.map_or(delay, |after| after.max(delay)));
                sending.retry_at = Some(at);
                lane.sending = Some(sending);
                Record::Failed(note, why, at)
            }
        })
    }

    /// Returns when something is due, unless the board changes before or a channel is done with its job.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.now < self.gathers_until {
            // Then all is judged anew.
            return Some(self.gathers_until);
        }
        let lanes = self.lanes.iter().filter(|lane| !lane.is_busy());
        let next = |lane: &Lane| lane.together_at(self.now).or_else(|| lane.next_due());
        lanes.filter_map(next).min()
    }

    fn lane_named(&mut self, channel: &str) -> Option<&mut Lane> {
        self.lanes
            .iter_mut()
            .find(|lane| lane.traits.name == channel)
    }

    /// Sets the time. Where the clock was set back, what is due later is due as much earlier.
    fn set_time(&mut self, now: Timestamp) {
        let back = self.now.micros().saturating_sub(now.micros());
        self.now = now;
        if back <= 0 {
            return;
        }
        let shift = |at: &mut Timestamp| {
            *at = Timestamp::from_micros(at.micros().saturating_sub(back));
        };
        shift(&mut self.gathers_until);
        for lane in &mut self.lanes {
            shift(&mut lane.free_at);
            lane.waiting
                .iter_mut()
                .for_each(|waiting| shift(&mut waiting.due));
            if let Some(at) = lane.sending.as_mut().and_then(|it| it.retry_at.as_mut()) {
                shift(at);
            }
            let updates = lane.sent.iter_mut().filter_map(|sent| sent.update.as_mut());
            updates.for_each(|(at, _)| shift(at));
        }
    }
}

impl Payload {
    fn job(&self) -> Job {
        match self {
            Self::Note(note) => Job::Send(note.clone()),
            Self::Output(text) => Job::Output(text.clone()),
        }
    }
}

impl Lane {
    /// Returns true while the channel works.
    fn is_busy(&self) -> bool {
        let is_sending = |sending: &Sending| sending.retry_at.is_none();
        self.updating.is_some() || self.sending.as_ref().is_some_and(is_sending)
    }

    /// Returns true if the channel has been told something, or is about to be.
    fn knows(&self, id: &NewsId) -> bool {
        self.handled.contains(id)
            || self.waiting.iter().any(|waiting| waiting.id == *id)
            || self
                .sending_items()
                .iter()
                .any(|item| NewsId::of(item) == *id)
    }

    /// Gives what another process has told of a row the time that this process has for it, so that it is the same if
    /// this one takes the row over.
    fn redate(&mut self, id: &NewsId) {
        if self.handled.iter().any(|told| told.is_like(id)) {
            self.handled.insert(id.clone());
        }
        let items = self.sent.iter_mut().flat_map(|sent| &mut sent.note.items);
        for item in items.filter(|item| item.settled.is_none()) {
            if NewsId::of(item).is_like(id) {
                item.since = id.since;
            }
        }
    }

    /// Returns when what is due is sent, if it waits for what is about to be due.
    fn together_at(&self, now: Timestamp) -> Option<Timestamp> {
        let dues = || self.waiting.iter().map(|waiting| waiting.due);
        let first = dues().filter(|due| *due <= now).min()?;
        let until = first.after(TOGETHER);
        let soon = now.after(TOGETHER);
        let next = dues().filter(|due| *due > now && *due <= soon).min()?;
        (now < until).then_some(next.min(until))
    }

    /// Returns the items of the message that is sent.
    fn sending_items(&self) -> &[Item] {
        match self.sending.as_ref().map(|sending| &sending.payload) {
            Some(Payload::Note(note)) => &note.items,
            Some(Payload::Output(_)) | None => &[],
        }
    }

    /// Returns true if something that is told, or is about to be, is of this row.
    fn refers_to(&self, row: &str) -> bool {
        let sent = self.sent.iter().flat_map(|sent| &sent.note.items);
        let waiting = self.waiting.iter().map(|waiting| &waiting.item);
        let mut items = self.sending_items().iter().chain(sent).chain(waiting);
        items.any(|item| item.row == row)
    }

    fn keep(&mut self, note: Note, sent: Sent) {
        if self.sent.len() >= SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(SentNote {
            note,
            sent,
            update: None,
        });
    }

    /// Takes the outcome of a message with output.
    fn printed(
        &mut self,
        mut sending: Sending,
        outcome: Result<(), Unsent>,
        now: Timestamp,
    ) -> Option<Record> {
        match outcome.err()? {
            Unsent::Later(after, why) => {
                let delay = retry_delay(&self.traits.name, sending.attempts);
                let at = now.after(after.map_or(delay, |after| after.max(delay)));
                sending.retry_at = Some(at);
                self.sending = Some(sending);
                Some(Record::OutputFailed(why, Some(at)))
            }
            Unsent::Unconfirmed(why) | Unsent::Never(why) => Some(Record::OutputFailed(why, None)),
            Unsent::Nobody(why) => Some(Record::OutputFailed(why.to_owned(), None)),
        }
    }

    /// Takes the outcome of a change of a message.
    fn updated(&mut self, id: &str, outcome: Result<(), Unsent>, now: Timestamp) -> Option<Record> {
        let at = self.sent.iter().position(|sent| sent.note.id == id)?;
        let sent = &mut self.sent[at];
        let attempts = sent.update.map_or(0, |(_, attempts)| attempts) + 1;
        let note = sent.note.clone();
        let record = match outcome {
            Ok(()) => Record::Updated(note, sent.sent.clone()),
            Err(Unsent::Later(after, why)) => {
                if attempts < UPDATES_MAX {
                    let delay = retry_delay(id, attempts);
                    let delay = after.map_or(delay, |after| after.max(delay));
                    sent.update = Some((now.after(delay), attempts));
                    return None;
                }
                Record::NotUpdated(note, why)
            }
            Err(Unsent::Unconfirmed(why) | Unsent::Never(why)) => Record::NotUpdated(note, why),
            Err(Unsent::Nobody(why)) => Record::NotUpdated(note, why.to_owned()),
        };
        sent.update = None;
        if sent.note.is_settled() {
            self.sent.remove(at);
        }
        Some(record)
    }

    fn next_due(&self) -> Option<Timestamp> {
        let updates = self.sent.iter().filter_map(|sent| sent.update);
        let update = updates.map(|(due, _)| due).min();
        let message = match &self.sending {
            Some(sending) => sending.retry_at,
            None => {
                let waiting = self.waiting.iter().map(|waiting| waiting.due).min();
                let output = self.output.as_ref().filter(|output| !output.is_empty());
                let due = waiting
                    .into_iter()
                    .chain(output.map(|_| self.free_at))
                    .min();
                due.map(|due| due.max(self.free_at))
            }
        };
        update.into_iter().chain(message).min()
    }
}

/// Returns why something is not told.
fn reason(settled: Settled, was_due: bool) -> &'static str {
    match (settled, was_due) {
        (Settled::Seen, false) => "you have looked at it",
        (Settled::Seen, true) => "you looked at it before it could be sent",
        (Settled::Over, false) => "it was settled before it was due",
        (Settled::Over, true) => "it was settled before it could be sent",
        (Settled::Gone, _) => "it has left the board",
    }
}

/// Returns the id of a message, which depends on what it tells, so that an observer that ends before it knows whether it
/// was taken sends it again under the same id.
fn note_id(channel: &str, items: &[Item]) -> String {
    let mut text = channel.to_owned();
    for item in items {
        let at = item.since.micros();
        text.push_str(&format!(
            "\n{}\n{}\n{at}\n{}",
            item.row,
            item.news.as_str(),
            item.question
        ));
    }
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// Returns the delay of the next attempt, which differs a little from message to message.
fn retry_delay(id: &str, attempts: u32) -> Duration {
    let delay = RETRIES.delay(attempts, None).unwrap_or(RETRIES.delay_max);
    let jitter = fnv1a(format!("{id}{attempts}").as_bytes()) % 500;
    // Up to a half more.
    delay.mul_f64(1.0 + jitter as f64 / 1000.0)
}
