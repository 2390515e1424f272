//! Ships the logs of a data directory to Redis Streams.
//!
//! It runs on its caller's thread until the other end of `woken` is closed. It blocks on changes of the data directory,
//! and on Redis within deadlines. It only reads the logs, so it never delays who writes them.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use redis::Value;
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::batch::Batch;
use super::entries::{entries, last_own, last_trimmed, pairs};
use super::keys::{AboutRun, Keys, run_name};
use super::link::{Link, LinkError, words};
use super::shipped_run::ShippedRun;
use super::troubles::{Trouble, Troubles};
use crate::clock::Clock;
use crate::event::ExecutionId;
use crate::history::{Change, DataDir, RunChanges, RunDirectory};
use crate::hosts::HostName;
use crate::timestamp::Timestamp;

/// The pauses before another attempt, which double.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The most logs that are open at the same time, because each takes two descriptors.
const OPEN_MAX: usize = 128;

/// The most open logs that are read with a thread each.
const THREADS_MAX: usize = 4;

/// The time in which notifications of changes are collected: a batch for each line would cost ten times as much.
const COLLECT: Duration = Duration::from_millis(20);

/// The interval at which an idle Redis is asked if it is still there. One that was restarted may have lost its last
/// second, which is shipped again then.
const PING: Duration = Duration::from_secs(2);

/// The interval of scans of all runs, with and without notifications of changes.
const SCAN: Duration = Duration::from_secs(30);
const SCAN_UNREPORTED: Duration = Duration::from_millis(250);

/// The interval at which the metadata of a run are looked at while it changes.
const LOOK: Duration = Duration::from_secs(1);

/// The time after which a run is tried again whose key has something else, or whose log cannot be read.
const BLOCKED: Duration = Duration::from_secs(30);

/// The number of commands that are sent at once.
const COMMANDS_MAX: usize = 500;

/// The number of changes that Redis keeps for readers. One that is further behind reads everything.
const CHANGES_MAX: usize = 10_000;

/// What is shipped, and where to.
pub(crate) struct ShipperOptions {
    pub address: Address,
    pub keys: Keys,
    pub host: HostName,
    pub data: DataDir,
    /// About how many entries a stream keeps.
    pub max_len: Option<u64>,
    pub clock: Clock,
    /// Takes what is to be reported, each in one line.
    pub report: Box<dyn Fn(&str) + Send>,
    /// Takes the progress, at most once a second.
    pub announce: Box<dyn Fn(&Progress) + Send>,
}

/// How far a shipper is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// What keeps it from shipping.
    pub trouble: Option<String>,
    pub runs: BTreeMap<ExecutionId, RunProgress>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunProgress {
    /// The number of the last event that Redis has.
    pub shipped: u64,
    /// Its time.
    pub at: Timestamp,
    /// The number of the last event that the shipper knows of.
    pub known: u64,
}

/// What was removed before it was shipped.
#[derive(Debug, Default)]
struct Removed {
    runs: usize,
    events: u64,
}

/// Ships logs.
pub(crate) struct Shipper {
    options: ShipperOptions,
    /// The path of the data directory, as text.
    data: String,
    changes: RunChanges,
    runs: BTreeMap<ExecutionId, ShippedRun>,
    /// What is said of runs of this data directory that are no longer here.
    gone: BTreeMap<String, AboutRun>,
    /// What was removed before it was shipped, and is not reported yet.
    removed: Removed,
    /// What Redis says of the runs of this host.
    registry: BTreeMap<String, AboutRun>,
    troubles: Troubles,
    trouble: Option<String>,
    /// True if the progress differs from what was announced.
    has_moved: bool,
    announce_at: Instant,
    /// The run after which the next batch begins.
    turn: Option<ExecutionId>,
    uses: u64,
    /// True until the first connection is set up.
    is_new: bool,
}

impl Shipper {
    pub fn new(options: ShipperOptions) -> Self {
        let data = options.data.path();
        let data = crate::feed::real(data).to_string_lossy().into_owned();
        Self {
            data,
            changes: RunChanges::of(&options.data),
            runs: BTreeMap::new(),
            gone: BTreeMap::new(),
            removed: Removed::default(),
            registry: BTreeMap::new(),
            troubles: Troubles::default(),
            trouble: None,
            has_moved: true,
            announce_at: options.clock.now(),
            turn: None,
            uses: 0,
            is_new: true,
            options,
        }
    }

    /// Ships until the other end of `woken` is closed.
    pub fn run(mut self, woken: &UnixStream) {
        let mut pause = PAUSE_MIN;
        self.find_runs(false);
        loop {
            match self.ship(woken, &mut pause) {
                Ok(()) => return,
                Err(error) => self.report_error(&error),
            }
            let until = self.now() + pause;
            pause = (pause * 2).min(PAUSE_MAX);
            loop {
                let rest = until.saturating_duration_since(self.now());
                match self.changes.wait(woken, rest) {
                    Change::Stop => return,
                    Change::Runs(runs) => {
                        self.note_changes(&runs);
                        self.look_at_ends(&runs);
                        self.announce_if_due();
                    }
                    Change::Any => self.find_runs(true),
                    Change::Nothing => {}
                }
                if self.now() >= until {
                    break;
                }
            }
            self.find_runs(false);
            self.report_removed();
            self.announce();
        }
    }

    fn now(&self) -> Instant {
        self.options.clock.now()
    }

    fn say(&self, text: &str) {
        (self.options.report)(text);
    }

    fn report_error(&mut self, error: &LinkError) {
        let text = format!(
            "{}: {}: {}; the log keeps what is not shipped",
            self.options.address.shown(),
            error.words,
            error.remedy()
        );
        if self.troubles.is_news(error.trouble.clone(), self.now()) {
            self.say(&text);
        }
        self.trouble = Some(text);
        self.has_moved = true;
    }

    fn report_once(&mut self, trouble: Trouble, text: &str) {
        if self.troubles.is_news(trouble, self.now()) {
            self.say(text);
        }
    }

    /// Ships until an error, or the end.
    fn ship(&mut self, woken: &UnixStream, pause: &mut Duration) -> Result<(), LinkError> {
        let mut link = Link::open(&self.options.address)?;
        self.read_registry(&mut link)?;
        for run in self.runs.values_mut() {
            (run.is_uncertain, run.blocked_until) = (true, None);
            run.registered = None;
        }
        let mut in_flight: Option<Batch> = None;
        let mut ping_at = self.now();
        let mut scan_at = self.now();
        loop {
            if self.now() >= scan_at {
                self.find_runs(false);
                self.report_removed();
                self.register_removed(&mut link)?;
                scan_at = self.now() + self.scan_interval();
            }
            let has_errands = self.has_errands();
            if has_errands && in_flight.is_none() {
                self.ask_for_last(&mut link)?;
                self.register(&mut link)?;
            }
            // Errands need their answers before those of a batch.
            let waits = has_errands && in_flight.is_some();
            let next = if waits { None } else { self.next_batch() };
            if let Some(sent) = in_flight.take() {
                let answers = link.receive_transaction(sent.len())?;
                self.note_answers(&sent, &answers);
                self.work_goes_on(pause);
                ping_at = self.now() + PING;
            }
            if let Some(mut batch) = next {
                link.send(batch.finish())?;
                in_flight = Some(batch);
                self.announce_if_due();
                // What stops the work is looked at between batches.
                match self.changes.wait(woken, Duration::ZERO) {
                    Change::Stop => {
                        let sent = in_flight.take();
                        sent.map(|sent| link.receive_transaction(sent.len()))
                            .transpose()?;
                        return Ok(());
                    }
                    Change::Runs(runs) => self.note_changes(&runs),
                    Change::Any => self.find_runs(true),
                    Change::Nothing => {}
                }
                continue;
            }
            if self.now() >= ping_at {
                link.ping()?;
                self.work_goes_on(pause);
                ping_at = self.now() + PING;
            }
            self.announce_if_due();
            match self
                .changes
                .wait(woken, self.idle_time(ping_at.min(scan_at)))
            {
                Change::Stop => {
                    self.announce();
                    return Ok(());
                }
                Change::Runs(runs) => {
                    self.note_changes(&runs);
                    crate::thread::park(Some(COLLECT));
                }
                Change::Any => self.find_runs(true),
                Change::Nothing => {}
            }
        }
    }

    /// Returns true if Redis must be asked something about a run, or be told.
    fn has_errands(&self) -> bool {
        let now = self.now();
        let mut runs = self.runs.values();
        runs.any(|run| run.is_uncertain || run.must_be_looked_at(now))
    }

    /// Returns the time until something is due.
    fn idle_time(&self, due: Instant) -> Duration {
        let now = self.now();
        let due_of = |run: &ShippedRun| {
            let look = run.is_changed.then(|| run.look_at.unwrap_or(now));
            let work = (run.is_uncertain || run.is_ready).then(|| {
                run.blocked_until
                    .filter(|_| !run.is_uncertain)
                    .unwrap_or(now)
            });
            look.into_iter().chain(work).min()
        };
        let runs = self.runs.values().filter_map(due_of);
        let announce = self.has_moved.then_some(self.announce_at);
        let due = runs.chain(announce).fold(due, Instant::min);
        due.saturating_duration_since(now)
    }

    fn scan_interval(&self) -> Duration {
        if self.changes.are_reported() {
            SCAN
        } else {
            SCAN_UNREPORTED
        }
    }

    fn work_goes_on(&mut self, pause: &mut Duration) {
        *pause = PAUSE_MIN;
        self.has_moved |= self.trouble.take().is_some();
        if self.troubles.has_recovered() {
            let text = format!("{}: works again", self.options.address.shown());
            self.say(&text);
        }
    }
}

// The runs of the data directory.

impl Shipper {
    /// Finds new runs. What is not complete is read again, because some file systems report no changes.
    fn find_runs(&mut self, is_full: bool) {
        let found = match self.options.data.run_directories() {
            Ok(found) => found,
            Err(error) => {
                let text = format!("{error:?}");
                return self.report_once(Trouble::Log(String::new()), &text);
            }
        };
        for directory in found {
            match self.runs.get_mut(directory.execution_id()) {
                Some(run) if !is_full => run.is_ready |= !run.is_complete(),
                _ => self.note_run(directory),
            }
        }
    }

    fn note_changes(&mut self, runs: &[RunDirectory]) {
        for run in runs {
            self.note_run(run.clone());
        }
    }

    /// Notes that a run exists, and that it may have changed.
    fn note_run(&mut self, directory: RunDirectory) {
        let id = directory.execution_id();
        match self.runs.get_mut(id) {
            Some(run) if run.is_in_place() => return run.note_change(),
            // A new run has the name of one that was removed.
            Some(_) => self.note_removed(&id.clone()),
            None => {}
        }
        // Without metadata, the run is not open yet, or the directory is not a run.
        let Ok(Some(metadata)) = directory.metadata() else {
            return;
        };
        // Watch before reading, so that no change is missed.
        self.changes.watch(&directory);
        let id = directory.execution_id().clone();
        let name = run_name(&id, None);
        let stream = self.options.keys.stream(&self.options.host, &name);
        let mut run = ShippedRun::new(directory, name, stream);
        run.note_end(&metadata);
        self.runs.insert(id, run);
        self.has_moved = true;
    }

    /// Forgets a run that was removed, and counts what was not shipped of it.
    fn note_removed(&mut self, id: &ExecutionId) {
        let Some(run) = self.runs.remove(id) else {
            return;
        };
        self.changes.unwatch(&run.directory);
        self.has_moved = true;
        if run.is_complete() && run.known <= run.last.number {
            return;
        }
        self.removed.runs += 1;
        self.removed.events += run.known.saturating_sub(run.last.number);
        if let Some(about) = self.registry.get(&run.name) {
            self.gone.insert(run.name.clone(), about.clone());
        }
    }

    /// Reports what was removed before it was shipped, each run once.
    fn report_removed(&mut self) {
        let gone: Vec<ExecutionId> = (self.runs.values())
            .filter(|run| !run.is_in_place())
            .map(|run| run.id().clone())
            .collect();
        for id in &gone {
            self.note_removed(id);
        }
        let Removed { runs, events } = std::mem::take(&mut self.removed);
        if runs > 0 {
            let events = match events {
                0 => "an unknown number of events".to_owned(),
                1 => "1 event".to_owned(),
                events => format!("{events} events"),
            };
            let text = format!(
                "{} removed from {} with {events} that had not been shipped, and never will be: a larger --keep-size of \
                 the observer keeps more",
                if runs == 1 {
                    "1 run was".to_owned()
                } else {
                    format!("{runs} runs were")
                },
                self.data
            );
            self.say(&text);
        }
    }

    /// Says of runs that they are gone.
    fn register_removed(&mut self, link: &mut Link) -> Result<(), LinkError> {
        while let Some((name, about)) = self.gone.first_key_value() {
            let name = name.clone();
            let about = AboutRun {
                is_removed: true,
                last: Some(last_own(link, &about.stream)?.number),
                ..about.clone()
            };
            self.say_of_run(link, &name, &about)?;
            self.gone.remove(&name);
        }
        Ok(())
    }

    /// Notes the ends of runs while nothing can be shipped: what is removed later can then be counted.
    fn look_at_ends(&mut self, changed: &[RunDirectory]) {
        for directory in changed {
            let run = self.runs.get_mut(directory.execution_id());
            if let Some(run) = run
                && let Ok(Some(metadata)) = run.directory.metadata()
            {
                run.note_end(&metadata);
                self.has_moved = true;
            }
        }
    }
}

// Redis: what it has, and what is said there of runs.

impl Shipper {
    fn read_registry(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let key = self.options.keys.runs(&self.options.host);
        let answer = link.ask_all(&[redis::cmd("HGETALL").arg(&key).to_owned()])?;
        let known: Vec<(String, AboutRun)> = match answer.into_iter().next() {
            Some(Value::ServerError(error)) if error.code() == "WRONGTYPE" => {
                self.report_foreign(&key, &words(&error));
                Vec::new()
            }
            Some(Value::ServerError(error)) => return Err(LinkError::of_server(&error)),
            answer => pairs(answer)
                .filter_map(|(name, about)| {
                    Some((
                        String::from_utf8(name).ok()?,
                        serde_json::from_slice(&about).ok()?,
                    ))
                })
                .collect(),
        };
        self.registry = known.into_iter().collect();
        if std::mem::take(&mut self.is_new) {
            // What an earlier shipper began, and is no longer here.
            for (name, about) in &self.registry {
                let id = &about.metadata.execution_id;
                let is_here = self.runs.contains_key(id) || self.options.data.run(id).exists();
                if about.data == self.data && about.last.is_none() && !is_here {
                    self.gone.insert(name.clone(), about.clone());
                }
            }
            self.removed.runs += self.gone.len();
        }
        Ok(())
    }

    fn report_foreign(&mut self, key: &str, what: &str) {
        let text = format!(
            "{}: the key {key} has something else than td-observe keeps there ({what}): delete it, or choose another \
             --stream-prefix; everything else is shipped",
            self.options.address.shown()
        );
        self.report_once(Trouble::Foreign(key.to_owned()), &text);
    }

    /// Asks for the last entries of runs of which they are not known.
    fn ask_for_last(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let uncertain = self.runs.values().filter(|run| run.is_uncertain);
        let ids: Vec<ExecutionId> = uncertain.map(|run| run.id().clone()).collect();
        for ids in ids.chunks(COMMANDS_MAX) {
            for id in ids {
                self.find_name(id);
            }
            let streams = ids.iter().filter_map(|id| self.runs.get(id));
            let commands = streams.map(|run| {
                let mut command = redis::cmd("XREVRANGE");
                command
                    .arg(&run.stream)
                    .arg("+")
                    .arg("-")
                    .arg("COUNT")
                    .arg(1);
                command
            });
            let commands: Vec<redis::Cmd> = commands.collect();
            let answers = link.ask_all(&commands)?;
            for (id, answer) in ids.iter().zip(answers) {
                self.note_last(link, id, answer)?;
            }
        }
        Ok(())
    }

    /// Chooses the name of a run: another one has its name if the run began at another time.
    fn find_name(&mut self, id: &ExecutionId) {
        let Some(run) = self.runs.get_mut(id) else {
            return;
        };
        let began = run.directory.metadata().ok().flatten();
        let began = began.map_or(Timestamp::default(), |metadata| metadata.created);
        let is_same = |about: &AboutRun| {
            let other = about.metadata.created;
            other == began || began == Timestamp::default() || other == Timestamp::default()
        };
        let name = run_name(id, None);
        run.name = match self.registry.get(&name) {
            Some(about) if !is_same(about) => run_name(id, Some(began)),
            _ => name,
        };
        run.stream = self.options.keys.stream(&self.options.host, &run.name);
        run.registered = self.registry.get(&run.name).cloned();
    }

    fn note_last(
        &mut self,
        link: &mut Link,
        id: &ExecutionId,
        answer: Value,
    ) -> Result<(), LinkError> {
        let Some(stream) = self.runs.get(id).map(|run| run.stream.clone()) else {
            return Ok(());
        };
        let (last, line) = match entries(answer) {
            Err(error) if error.code() == "WRONGTYPE" => {
                self.block(id, &words(&error));
                return Ok(());
            }
            Err(error) => return Err(LinkError::of_server(&error)),
            Ok(entries) => match entries.into_iter().next() {
                None => (last_trimmed(link, &stream)?, None),
                Some(entry) if entry.envelope().is_some() => (entry.id, entry.line),
                Some(_) => {
                    self.report_foreign(&stream, "an entry without an envelope");
                    (last_own(link, &stream)?, None)
                }
            },
        };
        let Some(run) = self.runs.get_mut(id) else {
            return Ok(());
        };
        run.go_on_after(last, line.as_deref());
        let registered = run.registered.as_ref().and_then(|about| about.last);
        if registered == Some(last.number)
            && !run.is_open()
            && !run.directory.is_written().unwrap_or(true)
        {
            run.set_complete();
        }
        Ok(())
    }

    /// Sends nothing of a run for a while, because its key has something else.
    fn block(&mut self, id: &ExecutionId, what: &str) {
        let until = self.now() + BLOCKED;
        let Some(run) = self.runs.get_mut(id) else {
            return;
        };
        run.blocked_until = Some(until);
        run.is_uncertain = false;
        let stream = run.stream.clone();
        self.report_foreign(&stream, what);
    }

    /// Says of runs what has changed.
    fn register(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let now = self.now();
        let is_due = |run: &&ShippedRun| run.must_be_looked_at(now);
        let due: Vec<ExecutionId> = (self.runs.values().filter(is_due))
            .map(|run| run.id().clone())
            .collect();
        for id in due {
            let Some(run) = self.runs.get_mut(&id) else {
                continue;
            };
            run.is_changed = run.is_ready;
            run.look_at = Some(now + LOOK);
            if let Ok(Some(metadata)) = run.directory.metadata() {
                run.note_end(&metadata);
            }
            let (name, news) = (run.name.clone(), run.news(&self.data));
            if let Some(about) = news
                && self.say_of_run(link, &name, &about)?
                && let Some(run) = self.runs.get_mut(&id)
            {
                run.registered = Some(about);
            }
        }
        Ok(())
    }

    /// Says something of a run, and tells the readers that it changed; returns true if Redis accepts it.
    fn say_of_run(
        &mut self,
        link: &mut Link,
        name: &str,
        about: &AboutRun,
    ) -> Result<bool, LinkError> {
        let (keys, host) = (&self.options.keys, &self.options.host);
        // Metadata can always be serialized.
        let text = serde_json::to_string(about).unwrap_or_default();
        let mut commands = [redis::cmd("SADD"), redis::cmd("HSET"), redis::cmd("XADD")];
        let [add, set, tell] = &mut commands;
        add.arg(keys.hosts()).arg(host.as_str());
        set.arg(keys.runs(host)).arg(name).arg(text);
        tell.arg(keys.changes())
            .arg("MAXLEN")
            .arg("~")
            .arg(CHANGES_MAX)
            .arg("*");
        tell.arg("host").arg(host.as_str()).arg("run").arg(name);
        let names = [keys.hosts(), keys.runs(host), keys.changes()];
        let answers = link.transact(&commands)?;
        let mut is_said = true;
        for (key, answer) in names.iter().zip(answers) {
            if let Value::ServerError(error) = answer {
                is_said = false;
                self.report_foreign(key, &words(&error));
            }
        }
        if is_said {
            self.registry.insert(name.to_owned(), about.clone());
        }
        Ok(is_said)
    }
}

// Batches.

impl Shipper {
    /// Returns the next entries of all runs, in turn; `None` if there are none.
    fn next_batch(&mut self) -> Option<Batch> {
        let now = self.now();
        let is_due = |run: &&ShippedRun| {
            run.is_ready && !run.is_uncertain && run.blocked_until.is_none_or(|until| until <= now)
        };
        let due: Vec<ExecutionId> = (self.runs.values().filter(is_due))
            .map(|run| run.id().clone())
            .collect();
        let start = match &self.turn {
            Some(turn) => due.partition_point(|id| id <= turn),
            None => 0,
        };
        let mut batch = Batch::new(self.options.max_len);
        let mut open = self.runs.values().filter(|run| run.is_open()).count();
        for id in due[start..].iter().chain(&due[..start]) {
            if batch.is_full() {
                break;
            }
            self.turn = Some(id.clone());
            if open >= OPEN_MAX {
                self.close_oldest();
            }
            self.uses += 1;
            let Some(run) = self.runs.get_mut(id) else {
                continue;
            };
            if run.blocked_until.take().is_some() {
                run.is_uncertain = true;
                continue;
            }
            run.used = self.uses;
            open += usize::from(!run.is_open());
            let filled = run.fill(&mut batch, open <= THREADS_MAX);
            let back = run.clock_back.take();
            if let Err(error) = filled {
                run.close();
                run.blocked_until = Some(now + BLOCKED);
                // A later scan finds that it is gone.
                if run.is_in_place() {
                    self.report_once(Trouble::Log(id.to_string()), &format!("{error:?}"));
                }
            }
            if let Some((now, before)) = back {
                self.report_clock(id, now, before);
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn report_clock(&mut self, id: &ExecutionId, now: Timestamp, before_ms: u64) {
        let before = i64::try_from(before_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(before);
        let host = self.options.host.clone();
        let text = format!(
            "the clock of {host} went back from {before} to {now} in {id:?}: the entries keep the order of the events, \
             with the earlier time in their ids until the clock has passed it"
        );
        self.report_once(Trouble::ClockWentBack(host.to_string()), &text);
    }

    /// Closes the log that was not used for the longest time. What is on its way must not be read again.
    fn close_oldest(&mut self) {
        let settled = self.runs.values_mut();
        let settled = settled.filter(|run| run.is_open() && run.is_settled());
        if let Some(run) = settled.min_by_key(|run| run.used) {
            run.close();
        }
    }

    fn note_answers(&mut self, sent: &Batch, answers: &[Value]) {
        self.has_moved = true;
        let mut answers = answers.iter();
        for (id, entries) in &sent.runs {
            let mut refused = None;
            for (entry, answer) in entries.iter().zip(answers.by_ref()) {
                match (answer, self.runs.get_mut(id)) {
                    (Value::ServerError(error), _) => refused = Some(error.clone()),
                    (_, Some(run)) => run.last = *entry,
                    (_, None) => {}
                }
            }
            match refused {
                Some(error) if error.code() == "WRONGTYPE" => self.block(id, &words(&error)),
                // Another shipper was faster.
                Some(_) => {
                    if let Some(run) = self.runs.get_mut(id) {
                        run.is_uncertain = true;
                    }
                }
                None => {}
            }
            if let Some(run) = self.runs.get_mut(id).filter(|run| run.is_complete()) {
                (run.is_changed, run.look_at) = (true, None);
                run.close();
            }
        }
    }
}

// The progress, for `ship --status`.

impl Shipper {
    fn progress(&self) -> Progress {
        let runs = self.runs.values().map(|run| {
            let micros = i64::try_from(run.last.ms.saturating_mul(1000)).unwrap_or(i64::MAX);
            let progress = RunProgress {
                shipped: run.last.number,
                at: Timestamp::from_micros(micros),
                known: run.known,
            };
            (run.id().clone(), progress)
        });
        Progress {
            trouble: self.trouble.clone(),
            runs: runs.collect(),
        }
    }

    fn announce_if_due(&mut self) {
        if self.has_moved && self.now() >= self.announce_at {
            self.announce();
        }
    }

    fn announce(&mut self) {
        if std::mem::take(&mut self.has_moved) {
            (self.options.announce)(&self.progress());
        }
        self.announce_at = self.now() + LOOK;
    }
}
