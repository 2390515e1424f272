//! The threads of notifications: one that decides, and one for each channel.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::channel::build::{Surroundings, build, traits_of};
use super::channel::{Answers, Asked, Channel, Sent, Unsent};
use super::log::{Entry, NotifyLog, What};
use super::message::Note;
use super::news::{Past, Told, told_by};
use super::settings::{ChannelKind, ChannelSettings, Settings};
use super::tact::{ChannelTraits, Job, Record, Tact};
use crate::agent::AgentProgram;
use crate::api::ApiContext;
use crate::board::{ExecutionKind, Place, Row, listed};
use crate::bus::{Delivery, EventBus, Filter, SubscribeOptions, Subscription};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{EventKind, ExecutionId, PaneId, TdEvent};
use crate::face::{conversation_text, one_line};
use crate::feed::Feed;
use crate::observe::RunProvider;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};
use crate::timestamp::Timestamp;
use crate::tmux::Server;

/// The shortest time between two looks at the board, which a flood of output changes with each line.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The longest time between two looks, which cost nothing. A much later one shows that the machine or the process has slept.
const LOOK: Duration = Duration::from_secs(2);

/// The delay of a look after which everything that is due may be old.
const SLEPT: Duration = Duration::from_secs(5);

/// The time at the end for answers that are about to arrive: what a server on another continent needs.
const LAST_RESULTS: Duration = Duration::from_millis(500);

/// The time that a command which has ended gives its last message: a server on another continent takes one second, and
/// the first retry follows within two.
const FINISH: Duration = Duration::from_secs(5);

/// The time that a channel has at the end to see that it is to end.
const CHANNEL_END: Duration = Duration::from_millis(500);

/// The warnings of channels that may wait to be told.
const WARNINGS_MAX: usize = 16;

/// The events that say what rows print.
const PRINTED: [EventKind; 5] = [
    EventKind::OutputUpdate,
    EventKind::PromptSent,
    EventKind::TokenReceived,
    EventKind::ToolCallStarted,
    EventKind::ToolCallCompleted,
];

/// The events with output that are read between two decisions.
const OUTPUT_BATCH: usize = 10_000;

/// The failures in a row after which the user is warned: half a minute of attempts.
const FAILURES: u32 = 5;

/// A channel that works on its thread.
struct Worker {
    traits: ChannelTraits,
    jobs: Sender<Job>,
    abort: Box<dyn Fn() + Send>,
    thread: Handle<()>,
    failures: u32,
    /// The last warning, which is not repeated.
    warned: Option<String>,
    /// What the channel warns of itself.
    warnings: Receiver<String>,
}

/// The running notifications of an observer.
pub(crate) struct Notifier {
    feed: Feed,
    stop: StopGuard,
    finish: StopGuard,
    thread: Handle<()>,
}

impl Notifier {
    /// Starts to notify of what an observer sees; `None` if there are no rules. An observer that finds what has been there
    /// before it gathers all of it first.
    ///
    /// # Errors
    /// `is_invalid_input()` if the settings of a channel do not fit; otherwise when a thread cannot be started, or the log
    /// of notifications cannot be read.
    pub fn start(settings: &Settings, context: &ApiContext, gathers: bool) -> Result<Option<Self>> {
        if settings.rules.is_empty() {
            return Ok(None);
        }
        let has_output = settings.channels.iter().any(|channel| channel.output);
        let output = has_output.then(|| {
            let filter = Filter::all().kinds(PRINTED);
            context.bus.subscribe_with(SubscribeOptions {
                filter,
                // A flood must be counted to the last line. It is read ten times a second.
                capacity: Some(usize::MAX),
                ..SubscribeOptions::default()
            })
        });
        let (guard, stop) = stop_pair();
        let (finish, finishing) = stop_pair();
        let answers = ApiAnswers {
            context: context.clone(),
            stop: stop.clone(),
        };
        let answers: Arc<dyn Answers> = Arc::new(answers);
        let servers = context.panes.servers.iter();
        let around = Surroundings {
            servers: servers.map(|observed| observed.server.clone()).collect(),
            answers: Some(answers).filter(|_| context.panes.allows_input),
            // Each channel has its own.
            warnings: bounded(0).0,
            clock: context.clock.clone(),
            stop: stop.clone(),
        };
        let is_used = |name: &String| settings.rules.iter().any(|rule| rule.to.contains(name));
        let used = settings.channels.iter().filter(|it| is_used(&it.name));
        let built = |settings: &ChannelSettings| {
            let wants_answers =
                matches!(settings.kind, ChannelKind::Telegram { answers: true, .. });
            if wants_answers && around.answers.is_none() {
                log::warn!(
                    "channel {}: its questions get no buttons without --allow-input",
                    settings.name
                );
            }
            let (warnings, warned) = bounded(WARNINGS_MAX);
            let around = Surroundings {
                warnings,
                ..around.clone()
            };
            Ok((traits_of(settings), build(settings, &around)?, warned))
        };
        let channels = used.map(built).collect::<Result<Vec<_>>>()?;
        let rules = settings.rules.clone();
        let (feed, bus) = (context.feed.clone(), context.bus.clone());
        let clock = feed.clock().clone();
        let mut log = NotifyLog::in_directory(feed.data().path());
        let past = log.read()?;
        let now = clock.wall();
        // What was there before anybody was told of it is no news.
        let news_from = past.first().map_or(now, |entry| entry.ts);
        let traits = channels.iter().map(|(traits, ..)| traits.clone()).collect();
        let mut tact = Tact::new(rules, traits, news_from, now);
        if gathers {
            tact.gather(now);
        }
        learn(&mut tact, &past);
        let lost = |channel: &str| {
            let lost = past.iter().rev().take_while(|it| it.what != What::Started);
            let lost = lost.filter(|it| it.channel.as_deref() == Some(channel));
            lost.filter_map(|it| it.lines).sum()
        };
        for (traits, ..) in &channels {
            tact.leave_out(&traits.name, lost(&traits.name));
        }
        let (done, results) = bounded(channels.len().max(1));
        let mut workers = Vec::new();
        for (number, (traits, mut channel, warned)) in channels.into_iter().enumerate() {
            for (note, sent) in tact.open(number) {
                channel.adopt(note, sent);
            }
            let (jobs, queue) = bounded(1);
            let abort = channel.abort();
            let (done, feed) = (done.clone(), feed.clone());
            let thread = thread::spawn(format!("td-notify-{}", traits.name), move || {
                while let Ok(job) = queue.recv() {
                    let outcome = work(&mut *channel, job);
                    // An error means that the observer ends.
                    let _ = done.send((number, outcome));
                    feed.nudge();
                }
            })?;
            workers.push(Worker {
                traits,
                jobs,
                abort,
                thread,
                failures: 0,
                warned: None,
                warnings: warned,
            });
        }
        let mut decider = Decider {
            tact,
            log,
            workers,
            results,
            feed: feed.clone(),
            bus,
            clock,
            stop,
            finishing,
            runs: context.runs.clone(),
            rules: context.panes.rules.clone(),
            output,
            agents: HashMap::new(),
        };
        let thread = thread::spawn("td-notify", move || decider.run())?;
        Ok(Some(Self {
            feed,
            stop: guard,
            finish,
            thread,
        }))
    }

    /// Sends what is due within the next seconds, and ends all threads.
    pub fn finish(self) {
        drop(self.finish);
        self.feed.nudge();
        let deadline = self.feed.clock().now() + FINISH;
        match self.thread.join_deadline(deadline) {
            Ok(Ok(())) => drop(self.stop),
            Ok(Err(panicked)) => log::error!("{panicked}"),
            Err(thread) => {
                drop(self.stop);
                self.feed.nudge();
                thread.join_logged();
            }
        }
    }

    /// Ends all threads. What was not sent is sent by the next observer, if it still holds.
    pub fn stop(self) {
        drop(self.stop);
        self.feed.nudge();
        self.thread.join_logged();
    }
}

fn work(channel: &mut dyn Channel, job: Job) -> std::result::Result<Sent, Unsent> {
    match job {
        Job::Send(note) => channel.send(&note),
        Job::Update(note, sent) => channel.update(&note, &sent).map(|()| sent),
        Job::Output(text) => channel.output(&text).map(|()| Sent(None)),
    }
}

fn learn(tact: &mut Tact, entries: &[Entry]) {
    for entry in entries {
        if let Some((channel, note, sent)) = entry.told() {
            tact.learn(channel, note, sent);
        } else if let (What::Failed, Some(channel)) = (entry.what, &entry.channel) {
            tact.forget(channel, &entry.items);
        }
    }
}

/// The thread that decides.
struct Decider {
    tact: Tact,
    log: NotifyLog,
    workers: Vec<Worker>,
    results: Receiver<(usize, std::result::Result<Sent, Unsent>)>,
    feed: Feed,
    bus: Arc<EventBus>,
    clock: Clock,
    stop: Stop,
    /// Closed once nothing new comes.
    finishing: Stop,
    /// The observer's runs.
    runs: Option<Arc<dyn RunProvider>>,
    /// The rules for secrets.
    rules: Rules,
    /// What rows print and say, if a channel gets it.
    output: Option<Subscription>,
    /// The names of rows by execution and pane, and whether an agent with a conversation is in it.
    agents: HashMap<(ExecutionId, Option<PaneId>), (String, bool)>,
}

/// Both clocks at one time.
#[derive(Clone, Copy)]
struct Moment {
    now: Instant,
    wall: Timestamp,
}

impl Decider {
    fn run(&mut self) {
        let started = Entry::new(What::Started, self.clock.wall());
        self.write(&[started]);
        let (mut version, mut rows) = (None, Vec::new());
        let mut expected = self.moment();
        let mut is_current = false;
        loop {
            let moment = self.moment();
            if has_slept(expected, moment) {
                self.tact.gather(moment.wall);
            }
            let wait = self.decide(&rows, moment);
            let is_finishing = thread::is_stopped(&self.finishing);
            if is_finishing && is_current && !self.tact.is_busy() && wait >= FINISH {
                break;
            }
            expected = self.after(moment, wait.max(BETWEEN_LOOKS));
            select_biased! {
                recv(self.stop) -> _ => break,
                recv(self.clock.after(BETWEEN_LOOKS)) -> _ => {}
            }
            let ends = || thread::is_stopped(&self.stop) || thread::is_stopped(&self.finishing);
            let is_enough = || !self.results.is_empty() || ends();
            let view = self.feed.board_unless(version, expected.now, is_enough);
            is_current = view.is_none();
            if let Some(view) = view {
                version = Some(view.version);
                rows = self.own(view.rows);
                self.name_rows(&rows);
            }
            if thread::is_stopped(&self.stop) {
                break;
            }
        }
        self.end();
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.clock.now(),
            wall: self.clock.wall(),
        }
    }

    fn after(&self, moment: Moment, wait: Duration) -> Moment {
        Moment {
            now: moment.now + wait,
            wall: moment.wall.after(wait),
        }
    }

    /// Returns the rows as lists show them, each with what is known of its user's view.
    fn own(&self, mut rows: Vec<Row>) -> Vec<Row> {
        // Who looks at a pane looks at the command in it.
        let seen = rows
            .iter()
            .filter_map(|row| Some((row.place()?, row.seen?)));
        let seen: HashMap<Place, Timestamp> = seen.collect();
        for row in &mut rows {
            let of_pane = row.in_pane.as_ref().and_then(|place| seen.get(place));
            row.seen = row.seen.max(of_pane.copied());
        }
        // The row of a pane tells that a command in it has failed, if that took long enough.
        let panes = rows.iter().filter(|row| row.is_observed());
        let panes: HashSet<Place> = panes.filter_map(Row::place).collect();
        let mut rows = listed(rows, |_| false);
        rows.retain(|row| {
            let place = row.in_pane.as_ref();
            let has_failed = row.has_ended() && row.exit_status != Some(0);
            !(has_failed && place.is_some_and(|place| panes.contains(place)))
        });
        rows
    }

    fn name_rows(&mut self, rows: &[Row]) {
        if self.output.is_none() {
            return;
        }
        let named = rows.iter().map(|row| {
            let is_agent = row.agent.as_deref().is_some_and(AgentProgram::is_name);
            let key = (row.execution_id.clone(), row.pane.clone());
            (key, (row.name.clone(), is_agent))
        });
        self.agents = named.collect();
    }

    /// Decides what the channels do; returns how long nothing else is due.
    fn decide(&mut self, rows: &[Row], moment: Moment) -> Duration {
        let now = moment.wall;
        let mut records = VecDeque::new();
        self.read_output();
        // A warning needs a run to be in.
        if let Some(row) = rows.iter().find(|row| row.is_observed()) {
            for worker in &self.workers {
                while let Ok(warning) = worker.warnings.try_recv() {
                    let warning = format!("channel {}: {warning}", worker.traits.name);
                    log::warn!("{warning}");
                    self.emit_warning(row.execution_id.clone(), warning);
                }
            }
        }
        while let Ok((channel, outcome)) = self.results.try_recv() {
            let record = self.tact.finished(channel, outcome, now);
            records.extend(record.map(|record| (channel, record)));
        }
        self.learn_of_others();
        let (feed, runs) = (self.feed.clone(), self.runs.clone());
        let are_others = |row: &Row| {
            let observes = matches!(row.kind, ExecutionKind::Pane | ExecutionKind::Agent);
            // Another process writes the run, and notifies of it.
            let id = &row.execution_id;
            let is_elsewhere = |runs: &Arc<dyn RunProvider>| runs.is_written_elsewhere(id);
            observes && (feed.is_others(id) || runs.as_ref().is_some_and(is_elsewhere))
        };
        records.extend(self.tact.look(rows, are_others, now));
        for (channel, worker) in self.workers.iter().enumerate() {
            let Some(job) = self.tact.next(channel, now) else {
                continue;
            };
            if let Job::Send(note) = &job
                && !worker.traits.knows_ids
            {
                let sending = Record::Sending(note.clone());
                self.write(&[Entry::of(sending, &worker.traits.name, now)]);
            }
            // A channel that has no job has room for one.
            let _ = worker.jobs.try_send(job);
        }
        let mut entries = Vec::new();
        for (channel, record) in records {
            self.warn(channel, &record);
            let name = &self.workers[channel].traits.name;
            entries.push(self.entry(record, name, now));
        }
        self.write(&entries);
        let due = self.tact.next_due();
        let wait = due.map_or(LOOK, |due| {
            let micros = due.micros().saturating_sub(now.micros());
            Duration::from_micros(micros.max(0).unsigned_abs())
        });
        wait.min(LOOK)
    }

    /// Learns what another observer has sent, whose runs this one may take over.
    fn learn_of_others(&mut self) {
        let own = std::process::id();
        match self.log.read() {
            Ok(entries) => {
                let others: Vec<Entry> = entries.into_iter().filter(|it| it.by != own).collect();
                learn(&mut self.tact, &others);
            }
            Err(error) => log::warn!("{error:?}"),
        }
    }

    fn entry(&self, record: Record, channel: &str, now: Timestamp) -> Entry {
        let mut entry = Entry::of(record, channel, now);
        // What a server or a command says may contain a secret.
        entry.why = entry.why.map(|why| self.rules.text(&why).into_owned());
        entry
    }

    fn write(&self, entries: &[Entry]) {
        if let Err(error) = self.log.append(entries) {
            log::warn!("{error:?}");
        }
    }

    /// Warns of a channel that takes no messages, once until it takes one.
    fn warn(&mut self, channel: usize, record: &Record) {
        let worker = &mut self.workers[channel];
        let (note, why) = match record {
            Record::Sent(..) | Record::Updated(..) => {
                (worker.failures, worker.warned) = (0, None);
                return;
            }
            Record::Failed(note, why, _) => {
                worker.failures += 1;
                if worker.failures < FAILURES {
                    return;
                }
                (note, why)
            }
            Record::Refused(note, why) => (note, why),
            Record::Unconfirmed(..)
            | Record::Nobody(..)
            | Record::NotUpdated(..)
            | Record::Withheld(..)
            | Record::Sending(..)
            | Record::OutputLost(..)
            | Record::OutputFailed(..) => return,
        };
        if worker.warned.is_some() {
            return;
        }
        let why = self.rules.text(why);
        worker.warned = Some(why.to_string());
        let message = format!("channel {}: {why}", worker.traits.name);
        log::warn!("{message}");
        if let Some(item) = note.items.first() {
            self.emit_warning(item.execution_id.as_str().into(), message);
        }
    }

    fn emit_warning(&self, execution_id: ExecutionId, message: String) {
        self.bus.emitter_for(&execution_id).emit(TdEvent::Warning {
            execution_id,
            context: "notify".to_owned(),
            message,
        });
    }

    /// Takes what rows have printed: of an agent its conversation, of others their settled lines.
    fn read_output(&mut self) {
        let Some(output) = &mut self.output else {
            return;
        };
        for _ in 0..OUTPUT_BATCH {
            let envelope = match output.try_recv() {
                Ok(Delivery::Event(event)) => event,
                Ok(Delivery::Lagged { .. }) => {
                    self.tact.miss();
                    continue;
                }
                Err(_) => return,
            };
            let event = &envelope.event;
            let key = (
                ExecutionId::from(event.execution_id()),
                event.pane().cloned(),
            );
            let Some((name, is_agent)) = self.agents.get(&key) else {
                continue;
            };
            match (event, is_agent) {
                (TdEvent::OutputUpdate { chunk, .. }, false) => {
                    for line in chunk.lines() {
                        self.tact.print(name, &one_line(line));
                    }
                }
                (_, true) => {
                    for line in conversation_text(event).unwrap_or_default() {
                        self.tact.print(name, &one_line(&line));
                    }
                }
                _ => {}
            }
        }
    }

    fn finished(
        &mut self,
        channel: usize,
        outcome: std::result::Result<Sent, Unsent>,
        names: &[String],
    ) {
        let now = self.clock.wall();
        if let Some(record) = self.tact.finished(channel, outcome, now) {
            let entry = self.entry(record, &names[channel], now);
            self.write(&[entry]);
        }
    }

    fn end(&mut self) {
        let names: Vec<String> = (self.workers.iter())
            .map(|worker| worker.traits.name.clone())
            .collect();
        // What a channel has just taken is not sent again by the next observer.
        let deadline = self.clock.now() + LAST_RESULTS;
        while self.tact.is_busy()
            && let Ok((channel, outcome)) = self.results.recv_deadline(deadline)
        {
            self.finished(channel, outcome, &names);
        }
        let deadline = self.clock.now() + CHANNEL_END;
        for worker in self.workers.drain(..) {
            drop(worker.jobs);
            (worker.abort)();
            match worker.thread.join_deadline(deadline) {
                Ok(Ok(())) => {}
                Ok(Err(panicked)) => log::error!("{panicked}"),
                Err(thread) => log::debug!("{} ends on its own", thread.name()),
            }
        }
        // What was cut short may have arrived.
        while let Ok((channel, outcome)) = self.results.try_recv() {
            self.finished(channel, outcome, &names);
        }
        let now = self.clock.wall();
        let unsent = self.tact.take_unsent().into_iter();
        let mut entries: Vec<Entry> = unsent
            .map(|(channel, record)| Entry::of(record, &names[channel], now))
            .collect();
        entries.push(Entry::new(What::Stopped, now));
        self.write(&entries);
    }
}

/// Types answers through the observer.
struct ApiAnswers {
    context: ApiContext,
    stop: Stop,
}

impl Answers for ApiAnswers {
    fn answer(&self, asked: &Asked, key: &str) -> std::result::Result<(), String> {
        let row = &asked.news.row;
        // The question of an earlier observer has another id here.
        let rows = self.context.feed.rows();
        let now = rows.iter().find(|now| now.key().to_string() == *row);
        let is_asked = |now: &&Row| match told_by(now, &Past::default()) {
            Told::News { id, .. } => id == asked.news,
            _ => false,
        };
        let id = now
            .filter(is_asked)
            .and_then(|now| now.question_id.as_deref());
        let id = id.unwrap_or(&asked.question_id);
        let answered = self.context.answer(row, id, key, &self.stop);
        answered.map_err(|error| error.to_string())
    }
}

/// Checks the settings of a channel, without beginning anything.
///
/// # Errors
/// What does not fit, in words.
pub(crate) fn check_channel(settings: &ChannelSettings) -> std::result::Result<(), String> {
    let (_running, stop) = stop_pair();
    let around = Surroundings {
        servers: Vec::new(),
        answers: None,
        warnings: bounded(0).0,
        clock: Clock::system(),
        stop,
    };
    let built = build(settings, &around);
    built.map(drop).map_err(|error| error.to_string())
}

/// Sends one message through a channel, and returns why it was not sent, in words.
///
/// # Errors
/// The reason.
pub(crate) fn try_channel(
    settings: &ChannelSettings,
    servers: Vec<Server>,
    clock: Clock,
) -> std::result::Result<(), String> {
    let (_running, stop) = stop_pair();
    let (warnings, _warned) = bounded(WARNINGS_MAX);
    let at = clock.wall();
    let around = Surroundings {
        servers,
        answers: None,
        warnings,
        clock,
        stop,
    };
    let mut channel = build(settings, &around).map_err(|error| error.to_string())?;
    match channel.send(&Note::test(&settings.name, at)) {
        Ok(_) => Ok(()),
        Err(Unsent::Later(_, why) | Unsent::Never(why)) => Err(why),
        Err(Unsent::Nobody(why)) => Err(why.to_owned()),
        Err(Unsent::Unconfirmed(why)) => Err(format!("{why}; it may have arrived")),
    }
}

/// Returns true if it is much later than a look was expected: the process or the machine has slept.
fn has_slept(expected: Moment, now: Moment) -> bool {
    let wall = now.wall.micros().saturating_sub(expected.wall.micros());
    let wall = Duration::from_micros(wall.max(0).unsigned_abs());
    now.now.saturating_duration_since(expected.now).max(wall) >= SLEPT
}
