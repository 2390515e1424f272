//! The threads of notifications: one that decides, and one for each channel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::channel::build::{Surroundings, build, traits_of};
use super::channel::{Answers, Channel, Sent, Unsent};
use super::log::{Entry, NotifyLog, What};
use super::message::Note;
use super::settings::{ChannelSettings, Settings};
use super::tact::{ChannelTraits, Job, Record, Tact};
use crate::agent::AgentProgram;
use crate::api::ApiContext;
use crate::board::{ExecutionKind, Row, listed};
use crate::bus::{Delivery, EventBus, Subscription};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{ExecutionId, PaneId, TdEvent};
use crate::face::{conversation_text, one_line};
use crate::feed::Feed;
use crate::redact::Rules;
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};
use crate::timestamp::Timestamp;
use crate::tmux::Server;

/// The shortest time between two looks at the board, which a flood of output changes with each line.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The longest time between two looks. A later one shows that the machine or the process has slept.
const LOOK: Duration = Duration::from_secs(30);

/// The delay of a look after which everything that is due may be old.
const SLEPT: Duration = Duration::from_secs(5);

/// The time at the end for answers that are about to arrive: what a server on another continent needs.
const LAST_RESULTS: Duration = Duration::from_millis(500);

/// The time that a channel has at the end to see that it is to end.
const CHANNEL_END: Duration = Duration::from_millis(500);

/// The warnings of channels that may wait to be told.
const WARNINGS_MAX: usize = 16;

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
}

/// The running notifications of an observer.
pub(crate) struct Notifier {
    feed: Feed,
    stop: StopGuard,
    thread: Handle<()>,
}

impl Notifier {
    /// Starts to notify of what an observer sees; `None` if there are no rules.
    ///
    /// # Errors
    /// `is_invalid_input()` if the settings of a channel do not fit; otherwise when a thread cannot be started, or the log
    /// of notifications cannot be read.
    pub fn start(
        settings: &Settings,
        context: &ApiContext,
        output: Option<Subscription>,
    ) -> Result<Option<Self>> {
        if settings.rules.is_empty() {
            return Ok(None);
        }
        let (guard, stop) = stop_pair();
        let (warnings, warned) = bounded(WARNINGS_MAX);
        let answers = ApiAnswers {
            context: context.clone(),
            stop: stop.clone(),
        };
        let answers: Arc<dyn Answers> = Arc::new(answers);
        let servers = context.panes.servers.iter();
        let around = Surroundings {
            servers: servers.map(|observed| observed.server.clone()).collect(),
            answers: Some(answers).filter(|_| context.panes.allows_input),
            warnings,
            clock: context.clock.clone(),
            stop: stop.clone(),
        };
        let is_used = |name: &String| settings.rules.iter().any(|rule| rule.to.contains(name));
        let used = settings.channels.iter().filter(|it| is_used(&it.name));
        let built = |settings| Ok((traits_of(settings), build(settings, &around)?));
        let channels = used.map(built).collect::<Result<Vec<_>>>()?;
        let rules = settings.rules.clone();
        let (feed, bus) = (context.feed.clone(), context.bus.clone());
        let clock = feed.clock().clone();
        let mut log = NotifyLog::in_directory(feed.data().path());
        let past = log.read()?;
        let now = clock.wall();
        // What was there before anybody was told of it is no news.
        let news_from = past.first().map_or(now, |entry| entry.ts);
        let traits = channels.iter().map(|(traits, _)| traits.clone()).collect();
        let mut tact = Tact::new(rules, traits, news_from, now);
        learn(&mut tact, &past);
        let (done, results) = bounded(channels.len().max(1));
        let mut workers = Vec::new();
        for (number, (traits, mut channel)) in channels.into_iter().enumerate() {
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
            rules: context.panes.rules.clone(),
            warned,
            output,
            agents: HashMap::new(),
        };
        let thread = thread::spawn("td-notify", move || decider.run())?;
        Ok(Some(Self {
            feed,
            stop: guard,
            thread,
        }))
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
    /// The rules for secrets.
    rules: Rules,
    /// What channels warn of.
    warned: Receiver<String>,
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
        loop {
            let moment = self.moment();
            if has_slept(expected, moment) {
                self.tact.woke(moment.wall);
            }
            let wait = self.decide(&rows, moment);
            expected = self.after(moment, wait.max(BETWEEN_LOOKS));
            select_biased! {
                recv(self.stop) -> _ => break,
                recv(self.clock.after(BETWEEN_LOOKS)) -> _ => {}
            }
            let is_enough = || !self.results.is_empty() || thread::is_stopped(&self.stop);
            let view = self.feed.board_unless(version, expected.now, is_enough);
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
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Moment {
            now: moment.now + wait,
            wall: Timestamp::from_micros(moment.wall.micros().saturating_add(micros)),
        }
    }

    /// Returns the rows that this process notifies of: as lists show them, without those of other observers. What runs a
    /// command does not notify, so its observer does.
    fn own(&self, rows: Vec<Row>) -> Vec<Row> {
        let mut rows = listed(rows, |_| false);
        let observes = |kind| matches!(kind, ExecutionKind::Pane | ExecutionKind::Agent);
        rows.retain(|row| !observes(row.kind) || !self.feed.is_others(&row.execution_id));
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
        while let Ok(warning) = self.warned.try_recv() {
            log::warn!("{warning}");
            if let Some(row) = rows.iter().find(|row| row.is_observed()) {
                self.emit_warning(row.execution_id.clone(), warning);
            }
        }
        while let Ok((channel, outcome)) = self.results.try_recv() {
            let record = self.tact.finished(channel, outcome, now);
            records.extend(record.map(|record| (channel, record)));
        }
        self.learn_of_others();
        records.extend(self.tact.look(rows, now));
        for (channel, worker) in self.workers.iter().enumerate() {
            if let Some(job) = self.tact.next(channel, now) {
                // A channel that has no job has room for one.
                let _ = worker.jobs.try_send(job);
            }
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

    fn write(&mut self, entries: &[Entry]) {
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
                Ok(Delivery::Lagged { missed }) => {
                    self.tact.miss(missed);
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

    fn end(&mut self) {
        // What a channel has just taken is not sent again by the next observer.
        let deadline = self.clock.now() + LAST_RESULTS;
        while self.tact.is_busy()
            && let Ok((channel, outcome)) = self.results.recv_deadline(deadline)
        {
            let now = self.clock.wall();
            let name = &self.workers[channel].traits.name;
            if let Some(record) = self.tact.finished(channel, outcome, now) {
                let entry = self.entry(record, &name.clone(), now);
                self.write(&[entry]);
            }
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
        let now = self.clock.wall();
        self.write(&[Entry::new(What::Stopped, now)]);
    }
}

/// Types answers through the observer.
struct ApiAnswers {
    context: ApiContext,
    stop: Stop,
}

impl Answers for ApiAnswers {
    fn answer(&self, row: &str, question_id: &str, key: &str) -> std::result::Result<(), String> {
        let answered = self.context.answer(row, question_id, key, &self.stop);
        answered.map_err(|error| error.to_string())
    }
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
