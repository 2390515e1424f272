//! Keeps a copy of every stream of a prefix as a run in a data directory, which faces read.
//!
//! `td-replica` reads the streams and appends to the copies; it blocks on Redis within deadlines, and ends when its handle
//! is dropped. It keeps no position of its own: the last event of a copy shows where its stream is read on.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use redis::Value;
use serde_json::Map;

use super::address::Address;
use super::copied_run::CopiedRun;
use super::entries::{Entry, entries, pairs, values};
use super::keys::{AboutRun, EntryId, Keys};
use super::link::{Link, LinkError, words};
use super::troubles::{Trouble, Troubles};
use crate::clock::Clock;
use crate::event::{ExecutionId, LineDecoder};
use crate::history::DataDir;
use crate::hosts::HostName;
use crate::thread::{Handle, Stop, StopGuard, is_stopped, lock, spawn, stop_pair};

/// The pauses before another attempt, which double.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The time for which Redis holds the question for more. The thread ends within it.
const HOLD: Duration = Duration::from_millis(250);

/// The number of entries that are read at once, of all streams together.
const ENTRIES_MAX: usize = 4096;

/// The least number of entries that are read at once of each stream.
const ENTRIES_MIN: usize = 16;

/// The number of names that are asked for at once.
const NAMES_MAX: usize = 500;

/// The interval at which everything is read that is said of runs, if changes cannot be.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// What is copied, and where to.
pub(crate) struct ReplicaOptions {
    pub address: Address,
    pub keys: Keys,
    /// The data directory of the copies.
    pub data: DataDir,
    pub clock: Clock,
}

/// The copies while they are kept. Dropping it ends the thread.
pub(crate) struct Replica {
    running: Option<StopGuard>,
    thread: Option<Handle<()>>,
    /// Closed once the copies of all runs are open, or cannot be.
    listed: Receiver<Infallible>,
    /// Closed once everything that was there is copied, or cannot be.
    known: Receiver<Infallible>,
    summaries: Arc<Mutex<Summaries>>,
}

/// Summaries of runs that are to be kept with their copies.
type Summaries = BTreeMap<ExecutionId, Map<String, serde_json::Value>>;

impl Replica {
    /// Starts to keep the copies.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(options: ReplicaOptions) -> crate::Result<Self> {
        let (running, stop) = stop_pair();
        let (unlisted, listed) = stop_pair();
        let (unknown, known) = stop_pair();
        let summaries = Arc::default();
        let mut copier = Copier {
            summaries: Arc::clone(&summaries),
            unlisted: Some(unlisted),
            troubles: Troubles::default(),
            runs: BTreeMap::new(),
            unknown: Some(unknown),
            changes: None,
            read_at: options.clock.now(),
            decoder: LineDecoder::default(),
            options,
            stop,
        };
        let thread = spawn("td-replica", move || copier.run())?;
        Ok(Self {
            running: Some(running),
            thread: Some(thread),
            listed,
            known,
            summaries,
        })
    }

    /// Keeps summaries of runs with their copies, soon, or at the end.
    pub fn keep_summaries(
        &self,
        summaries: impl IntoIterator<Item = (ExecutionId, Map<String, serde_json::Value>)>,
    ) {
        lock(&self.summaries).extend(summaries);
    }

    /// Waits until the copies of all runs are open, or cannot be, or the deadline.
    pub fn wait_until_listed(&self, deadline: Instant) {
        // Nothing is ever sent.
        let _ = self.listed.recv_deadline(deadline);
    }

    /// Waits until everything that was there at the start is copied, or cannot be, or the deadline.
    pub fn wait_until_known(&self, deadline: Instant) {
        // Nothing is ever sent.
        let _ = self.known.recv_deadline(deadline);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

/// What the thread knows.
struct Copier {
    options: ReplicaOptions,
    /// The runs, by the keys of their streams.
    runs: BTreeMap<String, CopiedRun>,
    /// The last change that was read; `None` if the key has something else.
    changes: Option<EntryId>,
    /// When everything is read again, if changes cannot be.
    read_at: Instant,
    decoder: LineDecoder,
    troubles: Troubles,
    summaries: Arc<Mutex<Summaries>>,
    /// Dropped once the copies of all runs are open, or cannot be.
    unlisted: Option<StopGuard>,
    /// Dropped once everything that was there is copied, or cannot be.
    unknown: Option<StopGuard>,
    stop: Stop,
}

impl Copier {
    fn run(&mut self) {
        let mut pause = PAUSE_MIN;
        while !is_stopped(&self.stop) {
            let Err(error) = self.copy(&mut pause) else {
                break;
            };
            let text = format!(
                "{}: {}: {}; what was copied before is shown",
                self.options.address.shown(),
                error.words,
                error.remedy()
            );
            self.report(error.trouble, &text);
            (self.unlisted, self.unknown) = (None, None);
            self.take_summaries();
            let until = self.options.clock.now() + pause;
            // The end of the stop's channel ends the pause.
            let _ = self.stop.recv_deadline(until);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.take_summaries();
    }

    /// Keeps the summaries with the copies.
    fn take_summaries(&mut self) {
        let summaries = std::mem::take(&mut *lock(&self.summaries));
        for (id, summary) in summaries {
            let run = self.runs.values_mut().find(|run| *run.id() == id);
            if let Some(Err(error)) = run.map(|run| run.keep_summary(summary)) {
                self.report(Trouble::Log(id.to_string()), &format!("{error:?}"));
            }
        }
    }

    fn report(&mut self, trouble: Trouble, text: &str) {
        if self.troubles.is_news(trouble, self.options.clock.now()) {
            log::warn!("{text}");
        }
    }

    fn report_foreign(&mut self, key: &str, what: &str) {
        let text = format!(
            "{}: the key {key} has something else than td-observe keeps there ({what}), which is left out",
            self.options.address.shown()
        );
        self.report(Trouble::Foreign(key.to_owned()), &text);
    }

    /// Copies until an error, or the end.
    fn copy(&mut self, pause: &mut Duration) -> Result<(), LinkError> {
        let mut link = Link::open(&self.options.address)?;
        self.read_everything(&mut link)?;
        self.unlisted = None;
        while !is_stopped(&self.stop) {
            if self.changes.is_none() && self.options.clock.now() >= self.read_at {
                self.read_everything(&mut link)?;
            }
            self.find_positions(&mut link)?;
            self.take_summaries();
            let keys: Vec<String> = (self.runs.iter())
                .filter(|(_, run)| run.is_read())
                .map(|(key, _)| key.clone())
                .collect();
            let answer = if keys.is_empty() && self.changes.is_none() {
                // The end of the stop's channel ends the pause.
                let _ = self.stop.recv_deadline(self.options.clock.now() + HOLD);
                Value::Nil
            } else {
                link.ask(&self.question(&keys))?
            };
            *pause = PAUSE_MIN;
            if self.troubles.has_recovered() {
                log::warn!("{}: works again", self.options.address.shown());
            }
            let changed = self.take(&mut link, answer, &keys)?;
            if !changed {
                self.unknown = None;
            }
        }
        Ok(())
    }

    /// Returns the question for the next entries of streams, and of the changes.
    fn question(&self, keys: &[String]) -> redis::Cmd {
        let mut command = redis::cmd("XREAD");
        let count = (ENTRIES_MAX / keys.len().max(1)).max(ENTRIES_MIN);
        command.arg("COUNT").arg(count);
        // Nothing is known before the first answer, which must not be awaited.
        if self.unknown.is_none() {
            command.arg("BLOCK").arg(HOLD.as_millis().to_string());
        }
        command.arg("STREAMS");
        if self.changes.is_some() {
            command.arg(self.options.keys.changes());
        }
        for key in keys {
            command.arg(key);
        }
        if let Some(changes) = self.changes {
            command.arg(changes.to_string());
        }
        for key in keys {
            let run = self.runs.get(key);
            command.arg(run.map(CopiedRun::position).unwrap_or_default().to_string());
        }
        command
    }

    /// Copies the entries of an answer; returns true if there were some.
    fn take(
        &mut self,
        link: &mut Link,
        answer: Value,
        asked: &[String],
    ) -> Result<bool, LinkError> {
        let found = streams(answer);
        let answered: BTreeSet<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        // Before anything new is known of them: what is said of an end counts for the next question.
        for key in asked.iter().filter(|key| !answered.contains(key.as_str())) {
            let failed = self.runs.get_mut(key).and_then(|run| run.end().err());
            if let Some(error) = failed {
                self.report(Trouble::Log(key.to_owned()), &format!("{error:?}"));
            }
        }
        for (key, entries) in &found {
            if *key == self.options.keys.changes() {
                self.take_changes(link, entries)?;
            } else {
                self.take_entries(key, entries);
            }
        }
        Ok(!found.is_empty())
    }

    fn take_entries(&mut self, key: &str, found: &[Entry]) {
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        let missed = run.missed();
        let mut foreign = false;
        let mut failed = None;
        for entry in found {
            match run.append(entry, &mut self.decoder) {
                Ok(is_own) => foreign |= !is_own,
                Err(error) => failed = Some(error),
            }
        }
        let failed = failed.or(run.flush().err());
        let (id, missed) = (run.id().clone(), run.missed() - missed);
        if foreign {
            self.report_foreign(key, "an entry that is no event of the run");
        }
        if missed > 0 {
            let text = format!(
                "{missed} events of {id} were trimmed before they were read: ship --max-len keeps more"
            );
            self.report(Trouble::Trimmed(key.to_owned()), &text);
        }
        if let Some(error) = failed {
            let text = format!(
                "{error:?}: nothing more of this run is copied until Redis is connected to again"
            );
            self.report(Trouble::Log(key.to_owned()), &text);
            if let Some(run) = self.runs.get_mut(key) {
                run.give_up();
            }
        }
    }
}

// What is said of runs.

impl Copier {
    /// Reads what is said of all runs, after the position of later changes.
    fn read_everything(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let (hosts, changes) = (self.options.keys.hosts(), self.options.keys.changes());
        let mut last = redis::cmd("XREVRANGE");
        last.arg(&changes).arg("+").arg("-").arg("COUNT").arg(1);
        let mut all = redis::cmd("SMEMBERS");
        all.arg(&hosts);
        let mut answers = link.ask_all(&[last, all])?.into_iter();
        match answers.next().map(entries) {
            Some(Err(error)) => {
                self.refuse(&changes, &error)?;
                self.changes = None;
            }
            found => {
                let found = found.and_then(Result::ok).unwrap_or_default();
                self.changes = Some(found.first().map(|entry| entry.id).unwrap_or_default());
            }
        }
        self.read_at = self.options.clock.now() + READ_INTERVAL;
        let names = match answers.next() {
            Some(Value::ServerError(error)) => {
                self.refuse(&hosts, &error)?;
                Vec::new()
            }
            answer => values(answer),
        };
        for name in names {
            let Some(host) = host_of(&name) else {
                self.report_foreign(&hosts, "a name that no host has");
                continue;
            };
            let key = self.options.keys.runs(&host);
            let answer = link.ask_all(&[redis::cmd("HGETALL").arg(&key).to_owned()])?;
            match answer.into_iter().next() {
                Some(Value::ServerError(error)) => self.refuse(&key, &error)?,
                answer => {
                    let texts: Vec<Vec<u8>> = pairs(answer).map(|(_, about)| about).collect();
                    self.note_all(&host, &texts);
                }
            }
        }
        let keys: Vec<String> = self.runs.keys().cloned().collect();
        self.check_types(link, &keys)
    }

    /// Leaves out the streams of these runs that are none.
    fn check_types(&mut self, link: &mut Link, keys: &[String]) -> Result<(), LinkError> {
        for keys in keys.chunks(NAMES_MAX) {
            let types = keys
                .iter()
                .map(|key| redis::cmd("TYPE").arg(key).to_owned());
            let types = link.ask_all(&types.collect::<Vec<_>>())?;
            for (key, found) in keys.iter().zip(types) {
                let found = match found {
                    Value::SimpleString(found) => found,
                    Value::ServerError(error) => return Err(LinkError::of_server(&error)),
                    _ => String::new(),
                };
                if found != "stream" && found != "none" {
                    self.report_foreign(key, &found);
                    self.runs.get_mut(key).map(CopiedRun::give_up);
                }
            }
        }
        Ok(())
    }

    /// Reports a key that has something else; fails for other errors.
    fn refuse(&mut self, key: &str, error: &redis::ServerError) -> Result<(), LinkError> {
        if error.code() != "WRONGTYPE" {
            return Err(LinkError::of_server(error));
        }
        self.report_foreign(key, &words(error));
        Ok(())
    }

    /// Notes what is said of runs, the earliest first: of those that had the same name, it has the plain one.
    fn note_all(&mut self, host: &HostName, texts: &[Vec<u8>]) {
        let mut known: Vec<AboutRun> = Vec::new();
        for text in texts {
            match serde_json::from_slice(text) {
                Ok(about) => known.push(about),
                Err(_) => {
                    let registry = self.options.keys.runs(host);
                    self.report_foreign(&registry, "a run of which nothing can be read");
                }
            }
        }
        known.sort_by_key(|about| about.metadata.created);
        for about in known {
            self.note(host, about);
        }
    }

    /// Notes what is said of a run.
    fn note(&mut self, host: &HostName, about: AboutRun) {
        let registry = self.options.keys.runs(host);
        // A host says nothing of others.
        if !about
            .stream
            .starts_with(&self.options.keys.stream(host, ""))
        {
            return self.report_foreign(&registry, "a run with the stream of another host");
        }
        let noted = match self.runs.get_mut(&about.stream) {
            Some(run) => run.note(about),
            None => CopiedRun::new(&self.options.data, host, about)
                .map(|run| drop(self.runs.insert(run.stream().to_owned(), run))),
        };
        if let Err(error) = noted {
            self.report(Trouble::Log(error.to_string()), &format!("{error:?}"));
        }
    }

    /// Reads what is said of the runs that have changed.
    fn take_changes(&mut self, link: &mut Link, found: &[Entry]) -> Result<(), LinkError> {
        let before = self.changes.unwrap_or_default();
        self.changes = Some(found.last().map_or(before, |entry| entry.id));
        // What was trimmed in between is unknown.
        let mut first = redis::cmd("XRANGE");
        first.arg(self.options.keys.changes());
        first.arg("-").arg("+").arg("COUNT").arg(1);
        let first = entries(link.ask(&first)?).unwrap_or_default();
        if first.first().is_some_and(|first| first.id > before) {
            return self.read_everything(link);
        }
        let mut named: BTreeMap<HostName, Vec<&[u8]>> = BTreeMap::new();
        for entry in found {
            let host = entry.field(b"host").and_then(host_of);
            if let (Some(host), Some(run)) = (host, entry.field(b"run")) {
                named.entry(host).or_default().push(run);
            }
        }
        for (host, names) in named {
            for names in names.chunks(NAMES_MAX) {
                let mut command = redis::cmd("HMGET");
                command.arg(self.options.keys.runs(&host));
                for name in names {
                    command.arg(*name);
                }
                let texts = values(Some(link.ask(&command)?));
                self.note_all(&host, &texts);
            }
        }
        Ok(())
    }

    /// Finds where the streams are read on, of which that is not known.
    fn find_positions(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let lost: Vec<String> = (self.runs.iter())
            .filter(|(_, run)| run.is_lost())
            .map(|(key, _)| key.clone())
            .collect();
        self.check_types(link, &lost)?;
        for key in lost {
            if let Some(run) = self.runs.get_mut(&key) {
                run.find_position(link)?;
            }
        }
        Ok(())
    }
}

/// Returns the streams in an answer, each with its entries.
fn streams(answer: Value) -> Vec<(String, Vec<Entry>)> {
    let Value::Array(streams) = answer else {
        return Vec::new();
    };
    let streams = streams.into_iter().filter_map(|stream| {
        let Value::Array(parts) = stream else {
            return None;
        };
        let mut parts = parts.into_iter();
        let Some(Value::BulkString(key)) = parts.next() else {
            return None;
        };
        let entries = entries(parts.next()?).unwrap_or_default();
        Some((String::from_utf8(key).ok()?, entries))
    });
    streams.collect()
}

fn host_of(name: &[u8]) -> Option<HostName> {
    std::str::from_utf8(name).ok()?.parse().ok()
}
