//! A night of twelve agents, whose messages must be those of a naive model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::channel::{Sent, Unsent};
use super::log::{Entry, NotifyLog};
use super::message::News;
use super::rule::Rule;
use super::tact::{ChannelTraits, Job, Record, Tact};
use crate::board::Board;
use crate::clock::FakeClock;
use crate::event::{AgentState, Envelope, ExecutionId, PaneViewer, StateEvidence, TdEvent};
use crate::observe::PaneViews;
use crate::timestamp::Timestamp;

const SECOND: i64 = 1_000_000;

/// What is expected and what happens: the second, the channel, and what it does with which questions.
type Act = (i64, &'static str, &'static str, BTreeSet<String>);

/// A generator of numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Clone, Debug)]
enum Change {
    /// An agent enters a state.
    State(usize, AgentState),
    /// The client shows this agent, and somebody types.
    Shows(usize),
    /// Somebody types.
    Types,
    /// The client is detached.
    Leaves,
    /// The observer ends, and another one begins after so many seconds.
    Restarts(i64),
    /// The machine sleeps for so many seconds.
    Sleeps(i64),
}

const AGENTS: usize = 12;
const NIGHT: i64 = 8 * 3600;

fn rules() -> Vec<Rule> {
    let rule = |when: &[News], only: &[&str], after: Option<u64>, to: &[&str]| Rule {
        when: when.to_vec(),
        only: only.iter().map(|&only| only.to_owned()).collect(),
        after: after.map(Duration::from_secs),
        to: to.iter().map(|&to| to.to_owned()).collect(),
    };
    vec![
        rule(
            &[News::Waiting, News::Error],
            &[],
            None,
            &["phone", "status"],
        ),
        rule(&[News::Done], &["agent-1*"], None, &["phone"]),
        rule(&[News::Limited], &["agent-?"], Some(90), &["phone"]),
    ]
}

fn channels() -> Vec<ChannelTraits> {
    let channel = |name: &str, can_update| ChannelTraits {
        name: name.to_owned(),
        with_text: true,
        can_update,
        knows_ids: true,
        output: None,
    };
    vec![channel("phone", true), channel("status", false)]
}

/// 300 changes of state, three restarts, an hour's sleep, and a client that comes, types, idles and goes.
fn night(dice: &mut Dice) -> BTreeMap<i64, Vec<Change>> {
    let mut changes: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    let mut add = |at: i64, change| changes.entry(at).or_default().push(change);
    for _ in 0..300 {
        let at = 10 + dice.roll(NIGHT as u64 - 20) as i64;
        let states = [
            AgentState::Working,
            AgentState::Waiting,
            AgentState::Waiting,
            AgentState::Done,
            AgentState::Error,
            AgentState::Limited,
            AgentState::Idle,
        ];
        let agent = dice.roll(AGENTS as u64) as usize;
        let state = states[dice.roll(7) as usize];
        add(at, Change::State(agent, state));
        // Most questions are answered, some of them at once.
        if state == AgentState::Waiting && dice.roll(3) > 0 {
            let after = [2, 4, 7, 30, 600][dice.roll(5) as usize];
            add(at + after, Change::State(agent, AgentState::Working));
        }
    }
    for _ in 0..40 {
        let at = 10 + dice.roll(NIGHT as u64 - 20) as i64;
        add(at, Change::Shows(dice.roll(AGENTS as u64) as usize));
        if dice.roll(2) == 0 {
            add(at + dice.roll(200) as i64, Change::Types);
        }
        add(at + 20 + dice.roll(900) as i64, Change::Leaves);
    }
    for _ in 0..3 {
        let at = 10 + dice.roll(NIGHT as u64 - 20) as i64;
        add(at, Change::Restarts([1, 20, 300][dice.roll(3) as usize]));
    }
    add(
        10 + dice.roll(NIGHT as u64 - 20) as i64,
        Change::Sleeps(3600),
    );
    changes
}

/// What an observer sees of one agent between two changes.
#[derive(Clone, Debug)]
struct Episode {
    agent: usize,
    news: Option<News>,
    question: String,
    start: i64,
    end: Option<i64>,
    seen: Option<i64>,
    told: BTreeSet<&'static str>,
}

/// The naive model: it goes through all that ever was, in each second.
#[derive(Default)]
struct Model {
    episodes: Vec<Episode>,
    /// Each message that can be changed: its episodes, and those that it shows as settled.
    sent: Vec<(BTreeSet<usize>, BTreeSet<usize>)>,
    last: BTreeMap<&'static str, i64>,
    silent_until: i64,
    acts: Vec<Act>,
}

impl Model {
    fn enter(&mut self, agent: usize, news: Option<News>, question: String, now: i64) {
        for episode in self.episodes.iter_mut().filter(|it| it.agent == agent) {
            episode.end.get_or_insert(now);
        }
        self.episodes.push(Episode {
            agent,
            news,
            question,
            start: now,
            end: None,
            seen: None,
            told: BTreeSet::new(),
        });
    }

    fn look(&mut self, agent: usize, now: i64) {
        for episode in self.episodes.iter_mut() {
            if episode.agent == agent && episode.end.is_none() {
                episode.seen.get_or_insert(now);
            }
        }
    }

    fn after(episode: &Episode, channel: &str) -> Option<i64> {
        let name = format!("agent-{}", episode.agent);
        match (episode.news?, channel) {
            (News::Waiting, _) => Some(5),
            (News::Error, _) => Some(0),
            (News::Done, "phone") if name.starts_with("agent-1") => Some(0),
            (News::Limited, "phone") if name.len() == "agent-1".len() => Some(90),
            _ => None,
        }
    }

    fn second(&mut self, now: i64) {
        if now < self.silent_until {
            return;
        }
        for (episodes, settled) in &mut self.sent {
            let before = settled.len();
            for &episode in episodes.iter() {
                let of = &self.episodes[episode];
                if of.end.is_some() || of.seen.is_some() {
                    settled.insert(episode);
                }
            }
            if settled.len() > before {
                let settled = settled.iter().map(|&it| self.episodes[it].question.clone());
                self.acts.push((now, "phone", "updated", settled.collect()));
            }
        }
        for channel in ["phone", "status"] {
            let is_free = self.last.get(channel).is_none_or(|last| now >= last + 10);
            let is_due = |episode: &Episode| {
                let after = Self::after(episode, channel);
                episode.end.is_none()
                    && episode.seen.is_none()
                    && !episode.told.contains(channel)
                    && after.is_some_and(|after| now >= episode.start + after)
            };
            let due: BTreeSet<usize> = (0..self.episodes.len())
                .filter(|&it| is_due(&self.episodes[it]))
                .collect();
            if !is_free || due.is_empty() {
                continue;
            }
            // What is due waits a second for what is about to be.
            let due_at =
                |episode: &Episode| Self::after(episode, channel).map(|it| episode.start + it);
            let first = due
                .iter()
                .filter_map(|&it| due_at(&self.episodes[it]))
                .min();
            let is_soon = |episode: &Episode| {
                let is_open = episode.end.is_none() && episode.seen.is_none();
                is_open && due_at(episode) == Some(now + 1) && !episode.told.contains(channel)
            };
            if first == Some(now) && self.episodes.iter().any(is_soon) {
                continue;
            }
            self.last.insert(channel, now);
            for &episode in &due {
                self.episodes[episode].told.insert(channel);
            }
            let questions = due.iter().map(|&it| self.episodes[it].question.clone());
            self.acts.push((now, channel, "sent", questions.collect()));
            if channel == "phone" {
                self.sent.push((due, BTreeSet::new()));
            }
        }
    }
}

fn news_of(state: AgentState) -> Option<News> {
    News::from_name(state.as_str())
}

/// Returns the event of a pane with an agent that comes under observation.
fn opened(id: &str) -> TdEvent {
    TdEvent::PaneOpened {
        execution_id: id.into(),
        pane: "%1".into(),
        width: 80,
        height: 24,
        command: "claude".into(),
        is_new: Some(false),
    }
}

/// Returns the event of an agent's state; it asks the question if it waits.
fn in_state(id: &str, state: AgentState, question: &str) -> TdEvent {
    TdEvent::AgentState {
        execution_id: id.into(),
        agent_id: None,
        pane: Some("%1".into()),
        state: state.into(),
        evidence: StateEvidence::Confirmed.into(),
        agent: Some(Box::new("claude".into())),
        source: None,
        asks: (state == AgentState::Waiting).then(|| Box::new(question.to_owned())),
        detail: None,
        question_id: None,
        dialogue: None,
    }
}

/// The observer with its board, its views of panes, its tact and its log.
struct World {
    clock: FakeClock,
    began: Instant,
    board: Board,
    views: Vec<PaneViews>,
    tact: Tact,
    log: NotifyLog,
    directory: tempfile::TempDir,
    acts: Vec<Act>,
}

/// Returns the tact of an observer that begins.
fn begun(
    rules: Vec<Rule>,
    channels: Vec<ChannelTraits>,
    news_from: Timestamp,
    now: Timestamp,
) -> Tact {
    let mut tact = Tact::new(rules, channels, news_from, now);
    tact.gather(now);
    tact
}

fn id(agent: usize) -> String {
    format!("agent-{agent}")
}

impl World {
    fn new() -> Self {
        let clock = FakeClock::new();
        let directory = tempfile::tempdir().unwrap();
        let now = Timestamp::from_micros(0);
        Self {
            began: clock.clock().now(),
            clock,
            board: Board::default(),
            views: vec![PaneViews::default(); AGENTS],
            tact: begun(rules(), channels(), now, now),
            log: NotifyLog::in_directory(directory.path()),
            directory,
            acts: Vec::new(),
        }
    }

    fn instant(&self, now: i64) -> Instant {
        self.began + Duration::from_secs(now.unsigned_abs())
    }

    fn apply(&mut self, now: i64, event: TdEvent) {
        let ts = Timestamp::from_micros(now * SECOND);
        self.board.apply(&Envelope::new(Some(1), ts, event));
    }

    fn open(&mut self, agent: usize, now: i64) {
        self.apply(now, opened(&id(agent)));
    }

    fn enter(&mut self, agent: usize, state: AgentState, question: &str, now: i64) {
        self.apply(now, in_state(&id(agent), state, question));
        let is_news = news_of(state).is_some();
        let at = self.instant(now);
        self.views[agent].state_changed(is_news, at);
    }

    /// Reports what the client shows, as the poller of a pane does.
    fn view(&mut self, shown: Option<(usize, i64)>, now: i64) {
        let at = self.instant(now);
        for agent in 0..AGENTS {
            let left = shown.filter(|(shown, _)| *shown == agent);
            let left = left.map(|(_, touched)| (touched + 60 - now).clamp(0, 60));
            let left = left.map(|left| Duration::from_secs(left.unsigned_abs()));
            self.views[agent].set_viewed(left, at);
            if self.views[agent].take_due(None, at) {
                let event = TdEvent::PaneSeen {
                    execution_id: id(agent).as_str().into(),
                    pane: "%1".into(),
                    by: PaneViewer::Client.into(),
                };
                self.apply(now, event);
            }
        }
    }

    /// Lets the observer decide, with channels that take everything at once.
    fn second(&mut self, now: i64) {
        let ts = Timestamp::from_micros(now * SECOND);
        self.board.tick(ts);
        loop {
            let rows: Vec<_> = self.board.rows().cloned().collect();
            let mut records = self.tact.look(&rows, |_| false, ts);
            for channel in 0..2 {
                while let Some(job) = self.tact.next(channel, ts) {
                    let sent = match job {
                        Job::Send(note) => Sent(Some(note.id)),
                        Job::Update(_, sent) => sent,
                        Job::Output(_) => unreachable!("no channel gets output"),
                    };
                    let record = self.tact.finished(channel, Ok(sent), ts);
                    records.extend(record.map(|record| (channel, record)));
                }
            }
            if records.is_empty() {
                break;
            }
            for (channel, record) in records {
                let name = ["phone", "status"][channel];
                let act = match &record {
                    Record::Sent(note, _) => Some(("sent", note, false)),
                    Record::Updated(note, _) => Some(("updated", note, true)),
                    _ => None,
                };
                if let Some((what, note, only_settled)) = act {
                    let items = note.items.iter();
                    let items = items.filter(|item| !only_settled || item.settled.is_some());
                    let names = items.map(|item| format!("{} {}", item.row, item.since.seconds()));
                    self.acts.push((now, name, what, names.collect()));
                }
                self.log.append(&[Entry::of(record, name, ts)]).unwrap();
            }
        }
    }

    /// Replaces the observer: all that it had in memory is lost, but for the board, which is read from the logs.
    fn restart(&mut self, stopped: i64, now: i64) {
        let ts = Timestamp::from_micros(stopped * SECOND);
        for agent in 0..AGENTS {
            let id = ExecutionId::from(id(agent).as_str());
            let goes_on = |_: &crate::board::Row| crate::board::Fate::GoesOn;
            self.board.end(&id, None, false, ts, goes_on);
        }
        self.views = vec![PaneViews::default(); AGENTS];
        let now = Timestamp::from_micros(now * SECOND);
        self.log = NotifyLog::in_directory(self.directory.path());
        let past = self.log.read().unwrap();
        let news_from = past.first().map_or(now, |entry| entry.ts);
        self.tact = begun(rules(), channels(), news_from, now);
        for entry in &past {
            if let Some((channel, note, sent)) = entry.told() {
                self.tact.learn(channel, note, sent);
            }
        }
    }
}

/// Runs a night, and returns what was done and what the model expects.
fn run(seed: u64) -> (Vec<Act>, Vec<Act>) {
    let mut dice = Dice(seed);
    let changes = night(&mut dice);
    let (mut world, mut model) = (World::new(), Model::default());
    let mut states = [AgentState::Working; AGENTS];
    let mut shown: Option<(usize, i64)> = None;
    for agent in 0..AGENTS {
        world.open(agent, 0);
        world.enter(agent, AgentState::Working, "", 0);
        model.enter(agent, None, String::new(), 0);
    }
    model.silent_until = 3;
    let mut now = 0;
    let mut down_until = 0;
    let mut stopped = None;
    let mut pending: Vec<Change> = Vec::new();
    while now < NIGHT {
        now += 1;
        let mut today: Vec<Change> = std::mem::take(&mut pending);
        today.extend(changes.get(&now).cloned().unwrap_or_default());
        if let Some(at) = stopped
            && now >= down_until
        {
            stopped = None;
            world.restart(at, now);
            model.silent_until = now + 3;
            for (agent, state) in states.into_iter().enumerate() {
                world.open(agent, now);
                let last = model
                    .episodes
                    .iter()
                    .rev()
                    .find(|it| it.agent == agent)
                    .unwrap();
                let is_same = last.news == news_of(state) && last.end.is_none();
                let question = if is_same {
                    last.question.clone()
                } else {
                    format!("agent-{agent}:%1 {now}")
                };
                world.enter(agent, state, &question, now);
                if !is_same || news_of(state).is_none() {
                    model.enter(agent, news_of(state), question, now);
                }
            }
        }
        let mut slept = None;
        for change in today {
            match change {
                Change::State(agent, state) if stopped.is_some() => states[agent] = state,
                Change::State(agent, state) => {
                    if states[agent] == state && state != AgentState::Waiting {
                        continue;
                    }
                    states[agent] = state;
                    let question = format!("agent-{agent}:%1 {now}");
                    world.enter(agent, state, &question, now);
                    model.enter(agent, news_of(state), question, now);
                }
                Change::Shows(agent) => shown = Some((agent, now)),
                Change::Types => shown = shown.map(|(agent, _)| (agent, now)),
                Change::Leaves => shown = None,
                Change::Restarts(seconds) if stopped.is_none() => {
                    stopped = Some(now);
                    down_until = now + seconds;
                }
                Change::Restarts(_) => {}
                Change::Sleeps(seconds) => slept = Some(seconds),
            }
        }
        if let Some(seconds) = slept {
            now += seconds;
            // What would have happened meanwhile happens when the machine wakes up.
            for (_, missed) in changes.range(now - seconds + 1..=now) {
                pending.extend(missed.iter().cloned());
            }
            if stopped.is_none() {
                world.tact.gather(Timestamp::from_micros(now * SECOND));
                model.silent_until = now + 3;
            }
        }
        world.clock.advance(Duration::from_secs(1));
        if stopped.is_some() {
            continue;
        }
        world.view(shown, now);
        if let Some((agent, touched)) = shown
            && now < touched + 60
        {
            model.look(agent, now);
        }
        world.second(now);
        model.second(now);
    }
    (world.acts, model.acts)
}

#[test]
fn a_night_of_twelve_agents_sends_what_a_naive_model_says() {
    let mut counts = BTreeMap::new();
    for seed in 1..=3 {
        let (mut acts, mut expected) = run(seed);
        acts.sort();
        expected.sort();
        for (act, expected) in acts.iter().zip(&expected) {
            assert_eq!(act, expected, "night {seed}");
        }
        assert_eq!(acts.len(), expected.len(), "night {seed}");
        for (_, channel, what, _) in acts {
            *counts.entry((channel, what)).or_insert(0) += 1;
        }
    }
    // The nights are not empty.
    assert!(counts[&("phone", "sent")] > 3 * 50, "{counts:?}");
    assert!(counts[&("phone", "updated")] > 3 * 30, "{counts:?}");
    assert!(counts[&("status", "sent")] > 3 * 30, "{counts:?}");
}

/// A tact with one rule and one channel, and a board with one agent.
struct Small {
    board: Board,
    tact: Tact,
}

impl Small {
    fn new(when: News) -> Self {
        let rule = Rule {
            when: vec![when],
            only: Vec::new(),
            after: Some(Duration::ZERO),
            to: vec!["phone".to_owned()],
        };
        let now = Timestamp::from_micros(0);
        let channels = channels().into_iter().take(1).collect();
        let mut small = Self {
            board: Board::default(),
            tact: begun(vec![rule], channels, now, now),
        };
        for agent in ["one", "two"] {
            small.apply(0, opened(agent));
        }
        small
    }

    fn apply(&mut self, now: i64, event: TdEvent) {
        let ts = Timestamp::from_micros(now * SECOND);
        self.board.apply(&Envelope::new(Some(1), ts, event));
    }

    fn enter(&mut self, now: i64, agent: &str, state: AgentState) {
        self.apply(now, in_state(agent, state, &format!("{agent} {now}")));
    }

    /// Returns what has been decided, and what the channel is to do.
    fn look(&mut self, now: i64) -> (Vec<Record>, Option<Job>) {
        let ts = Timestamp::from_micros(now * SECOND);
        let rows: Vec<_> = self.board.rows().cloned().collect();
        let records = self.tact.look(&rows, |_| false, ts);
        let records = records.into_iter().map(|(_, record)| record).collect();
        (records, self.tact.next(0, ts))
    }

    fn finish(&mut self, now: i64, outcome: Result<Sent, Unsent>) -> Option<Record> {
        self.tact
            .finished(0, outcome, Timestamp::from_micros(now * SECOND))
    }

    #[track_caller]
    fn send(&mut self, now: i64) -> super::message::Note {
        match self.look(now).1 {
            Some(Job::Send(note)) => note,
            other => panic!("{now}: {other:?}"),
        }
    }
}

fn later(seconds: Option<u64>) -> Result<Sent, Unsent> {
    Err(Unsent::Later(
        seconds.map(Duration::from_secs),
        "busy".to_owned(),
    ))
}

#[test]
fn a_message_that_is_not_taken_is_sent_again_under_its_id_as_far_as_it_holds() {
    let mut small = Small::new(News::Waiting);
    small.look(0);
    small.enter(10, "one", AgentState::Waiting);
    small.enter(10, "two", AgentState::Waiting);
    let note = small.send(10);
    assert_eq!(note.items.len(), 2);
    let Some(Record::Failed(_, _, at)) = small.finish(10, later(None)) else {
        panic!("it has failed");
    };
    // The first retry follows within two seconds.
    assert!(
        at.micros() > 10 * SECOND && at.micros() <= 12 * SECOND,
        "{at:?}"
    );
    // One is answered meanwhile.
    small.enter(11, "two", AgentState::Working);
    let (records, job) = small.look(12);
    assert!(
        matches!(&*records, [Record::Withheld(item, _)] if item.row == "two:%1"),
        "{records:?}"
    );
    let Some(Job::Send(again)) = job else {
        panic!("{job:?}");
    };
    assert_eq!((&again.id, again.items.len()), (&note.id, 1));
    // The server names a time.
    let Some(Record::Failed(_, _, at)) = small.finish(12, later(Some(60))) else {
        panic!("it has failed");
    };
    assert_eq!(at.micros(), 72 * SECOND);
    assert_eq!(small.look(71).1, None);
    assert_eq!(small.send(72).id, note.id);
    assert!(matches!(
        small.finish(72, Ok(Sent(None))),
        Some(Record::Sent(..))
    ));
    assert_eq!(small.look(100), (Vec::new(), None));
}

#[test]
fn a_message_whose_items_are_all_settled_is_not_sent_again() {
    let mut small = Small::new(News::Waiting);
    small.look(0);
    small.enter(10, "one", AgentState::Waiting);
    small.send(10);
    small.finish(10, later(None));
    small.enter(11, "one", AgentState::Working);
    let (records, job) = small.look(12);
    assert_eq!((records.len(), job), (1, None));
    assert_eq!(small.tact.next_due(), None);
}

#[test]
fn what_is_given_up_is_not_sent_again_and_what_comes_is_combined() {
    let mut small = Small::new(News::Waiting);
    small.look(0);
    small.enter(10, "one", AgentState::Waiting);
    small.send(10);
    let refused = small.finish(10, Err(Unsent::Never("no such chat".to_owned())));
    assert!(matches!(refused, Some(Record::Refused(..))));
    // The channel is free ten seconds after the message.
    small.enter(12, "two", AgentState::Waiting);
    assert_eq!(small.look(19).1, None);
    assert_eq!(
        small.tact.next_due(),
        Some(Timestamp::from_micros(20 * SECOND))
    );
    assert_eq!(small.send(20).items.len(), 1);
}

#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let mut small = Small::new(News::Waiting);
    small.look(3600);
    small.enter(3610, "one", AgentState::Waiting);
    small.send(3610);
    small.finish(3610, Ok(Sent(None)));
    small.enter(3611, "two", AgentState::Waiting);
    small.look(3611);
    // An hour back: the second message is due nine seconds later.
    assert_eq!(small.look(11).1, None);
    assert_eq!(small.send(20).items.len(), 1);
}

#[test]
fn what_is_older_than_the_first_notification_is_told_only_if_it_needs_the_user() {
    let at = |seconds: i64| Timestamp::from_micros(seconds * SECOND);
    for (state, news, is_told) in [
        (AgentState::Done, News::Done, false),
        (AgentState::Error, News::Error, true),
    ] {
        let mut small = Small::new(news);
        small.enter(5, "one", state);
        let channels = channels().into_iter().take(1).collect();
        let rule = Rule {
            when: vec![news],
            only: vec!["on*".to_owned()],
            after: None,
            to: vec!["phone".to_owned()],
        };
        small.tact = begun(vec![rule], channels, at(50), at(50));
        small.look(50);
        assert_eq!(small.look(60).1.is_some(), is_told, "{news:?}");
    }
}
