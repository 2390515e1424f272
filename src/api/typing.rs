//! Types into a pane for all faces. A question is answered only by a text or keys with its id, while it is on the
//! screen and the program that asks it reads the input.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::agent::{
    AgentProgram, AgentScreen, DetectedState, KnownAgent, StateRules, is_same_dialogue,
    is_same_question,
};
use crate::board::{Row, RowState};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{AgentState, Dialogue, DialogueChoice, PaneId, StateEvidence, StateSource};
use crate::process::{ForegroundGroup, Program, RunningAgent, Stat, age, foreground, stat};
use crate::redact::{MARKER, Rules};
use crate::thread::{Stop, lock};
use crate::tmux::{Look, Moment, Permission, Server, Typing};

/// The beginning of the error of a text that stands in the pane without its Enter.
const WITHOUT_ENTER: &str = "the text was typed, but Enter was not pressed";

/// Returns true if an error of [`Input::send`] says that the text was typed, without its Enter.
#[cfg(feature = "mcp")]
pub(crate) fn is_without_enter(error: &Error) -> bool {
    error.is_invalid_input() && error.to_string().starts_with(WITHOUT_ENTER)
}

/// The resolution of a process's start time.
const TICK_MICROS: i64 = 20_000;

/// Input for a pane: what is typed, and what it answers.
pub(crate) struct Input<'a> {
    pub typing: Typing,
    /// Enter was neither asked for nor refused: it follows a text unless that is the key of a choice in a menu, which
    /// acts at once, so that Enter would answer the next question.
    pub may_leave_enter: bool,
    /// The id of the question that it answers.
    pub answers: Option<&'a str>,
}

/// The time in which a question that was answered takes no other answer. Its id changes with the next question, but
/// agents draw that up to half a second after the key, and the board follows within 1.5 s. Until then, a second press
/// would answer a question that nobody has seen. A question that is still there afterwards has not taken the answer.
const ANSWERED_TIME: Duration = Duration::from_secs(2);

/// The answers that this process gives or has just given: pane, question and time.
static ANSWERED: Mutex<Vec<(PaneId, String, Instant)>> = Mutex::new(Vec::new());

/// Returns true if this process has just answered a question of a pane, which the board may still show.
#[cfg(feature = "mcp")]
pub(crate) fn is_just_answered(pane: &PaneId, id: &str, clock: &Clock) -> bool {
    let now = clock.now();
    let is_of = |(of, known, at): &(PaneId, String, Instant)| {
        of == pane && known == id && now.saturating_duration_since(*at) < ANSWERED_TIME
    };
    lock(&ANSWERED).iter().any(is_of)
}

/// An answer that is being typed. Dropped without [`Answering::keep`], it was not typed, and may be given again.
struct Answering {
    pane: PaneId,
    id: String,
    at: Option<Instant>,
}

impl Answering {
    /// Begins to answer a question, unless it was just answered. Only a whole answer keeps others away.
    fn begin((pane, id): (&PaneId, &str), is_whole: bool, clock: &Clock) -> Result<Self> {
        let now = clock.now();
        let mut answered = lock(&ANSWERED);
        answered.retain(|(.., at)| now.saturating_duration_since(*at) < ANSWERED_TIME);
        if answered
            .iter()
            .any(|(of, known, _)| of == pane && known == id)
        {
            return Err(Error::invalid(format!(
                "the question has changed: pane {pane} was answered a moment ago, and what it asks next is not known yet"
            )));
        }
        if is_whole {
            answered.push((pane.clone(), id.to_owned(), now));
        }
        Ok(Self {
            pane: pane.clone(),
            id: id.to_owned(),
            at: is_whole.then_some(now),
        })
    }

    fn keep(mut self) {
        self.at = None;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            let own = |(pane, id, begun): &(PaneId, String, Instant)| {
                *pane == self.pane && *id == self.id && *begun == at
            };
            lock(&ANSWERED).retain(|answer| !own(answer));
        }
    }
}

fn choices_of(row: &Row) -> &[DialogueChoice] {
    let choices = row.dialogue.as_deref().map(|dialogue| &*dialogue.choices);
    choices.unwrap_or_default()
}

/// Returns the key that a text stands for in the menu of a row, which takes it at once: the key of a choice, or its label.
/// A choice may take several keys.
fn key_of_choice<'t>(row: &'t Row, text: &'t str) -> Option<&'t str> {
    let choices = choices_of(row);
    if !KnownAgent::takes_keys(row.agent.as_deref(), !choices.is_empty()) {
        return None;
    }
    if choices.is_empty() {
        return (text.chars().count() == 1).then_some(text);
    }
    let is_meant = |choice: &&DialogueChoice| {
        !choice.key.is_empty() && (choice.key == text || choice.label.eq_ignore_ascii_case(text))
    };
    choices.iter().find(is_meant).map(|choice| &*choice.key)
}

impl Input<'_> {
    /// Types into one of a target's panes, the active one or otherwise the first, and returns it. `row_of` returns
    /// the present row of a pane, `None` if nothing observes it.
    ///
    /// # Errors
    /// `is_invalid_input()` if the pane cannot read the input, if it waits for the answer to another question, or
    /// if the program that asked is not in the foreground; otherwise those of [`Server::run`].
    pub fn send(
        &self,
        (server, panes): (&Server, &[PaneId]),
        row_of: &dyn Fn(&PaneId) -> Result<Option<Row>>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<PaneId> {
        let rules = StateRules::builtin();
        let pane = Typing::pane_of(server, panes, clock)?;
        let (mut typing, mut choice) = (self.typing.clone(), None);
        if let Typing::Text { text, .. } = &self.typing
            && self.may_leave_enter
            && self.answers.is_some()
            && let Some(row) = row_of(&pane)?
            && let Some(key) = key_of_choice(&row, text)
        {
            typing = Typing::keys(key.split(' ').map(str::to_owned).collect())?;
            choice = ListedChoice::of(&row, key);
            if let Some(choice) = &choice {
                typing = choice.typing();
            }
        }
        let mut judge = |moment, look: &Look| {
            let row = row_of(&look.pane)?.filter(|row| !row.has_ended());
            let shown = question_on(&rules, row.as_ref(), look);
            match (moment, &choice) {
                (Moment::Begin, _) => self.begin(row.as_ref(), shown, look, clock),
                (Moment::Enter, Some(choice)) => choice.enter(shown),
                (Moment::Enter, None) => self.enter(row.as_ref(), shown, &look.pane),
            }
        };
        let answer = match self.answers {
            Some(id) => Some(Answering::begin(
                (&pane, id),
                self.is_whole(&typing),
                clock,
            )?),
            None => None,
        };
        typing.send(server, &pane, &mut judge, (stop, clock))?;
        if let Some(answer) = answer {
            answer.keep();
        }
        Ok(pane)
    }

    /// Returns true if a text or keys answer a question, rather than move in its choices or begin a text.
    fn is_whole(&self, typing: &Typing) -> bool {
        const MOVES: [&str; 13] = [
            "Up", "Down", "Left", "Right", "Tab", "BTab", "Home", "End", "PageUp", "PageDown",
            "BSpace", "DC", "Space",
        ];
        match typing {
            Typing::Text {
                text,
                presses_enter,
            } => *presses_enter || text.chars().count() <= 1,
            Typing::Keys(keys) | Typing::Choice(keys) => {
                keys.iter().any(|key| !MOVES.contains(&key.as_str()))
            }
        }
    }

    /// Judges if the text or the keys may be typed.
    fn begin(
        &self,
        row: Option<&Row>,
        shown: Option<DetectedState>,
        look: &Look,
        clock: &Clock,
    ) -> Result<Permission> {
        let pane = &look.pane;
        let Some(row) = row else {
            return match (self.answers, shown) {
                (Some(_), _) => Err(Error::invalid(format!(
                    "nothing observes pane {pane}, so no question in it has an id: td-observe start observes it"
                ))),
                (None, Some(shown)) => Err(Error::invalid(format!(
                    "pane {pane} waits for an answer to {:?}: it is answered with the id of the question, which an \
                     observer knows (td-observe start)",
                    shown.asks.unwrap_or(shown.line)
                ))),
                (None, None) => Ok(Permission::Program),
            };
        };
        match (row.is_waiting(), self.answers) {
            (true, Some(id)) if row.question_id.as_deref() == Some(id) => {
                self.check_choice(row, shown.as_ref())?;
                check_screen(row, shown)?;
                self.check_selected(row, look)?;
                check_process(row, look, true, clock)?;
                Ok(Permission::Screen)
            }
            (true, Some(_)) => Err(Error::invalid(format!(
                "the question has changed: {}",
                in_words(row, pane)
            ))),
            (true, None) => Err(Error::invalid(in_words(row, pane))),
            (false, Some(_)) => Err(Error::invalid(format!(
                "pane {pane} has no open question any more: its state is {}",
                row.state.as_str()
            ))),
            (false, None) => match shown {
                Some(shown) => Err(Error::invalid(format!(
                    "pane {pane} asks {:?}: the board is about to have the id of this question",
                    shown.asks.unwrap_or(shown.line)
                ))),
                None => {
                    if is_agent_that_reads(row) {
                        self.check_input(row, look)?;
                        check_process(row, look, false, clock)?;
                    }
                    Ok(Permission::Program)
                }
            },
        }
    }

    /// Checks that an agent at rest shows where it takes a prompt: a menu that its user has opened, such as a list of
    /// sessions or models, takes letters for keys, and Enter for the selected row.
    fn check_input(&self, row: &Row, look: &Look) -> Result<()> {
        let agent = row.agent.as_deref().unwrap_or_default();
        let is_at_work = matches!(&row.state, RowState::Agent(state) if state.known() == Some(AgentState::Working));
        let rows: Vec<&str> = look.rows.iter().map(String::as_str).collect();
        let is_text = matches!(self.typing, Typing::Text { .. });
        if !is_text || is_at_work || StateRules::builtin().shows_input(agent, &rows) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{agent} in pane {} shows no input box, so that a menu may be open, which would take the text: look at the \
             pane",
            look.pane
        )))
    }

    /// Checks that a text is not typed into a menu, which would take its letters for keys, and Enter for the selected
    /// choice.
    fn check_choice(&self, row: &Row, shown: Option<&DetectedState>) -> Result<()> {
        let Typing::Text { text, .. } = &self.typing else {
            return Ok(());
        };
        let takes_text = shown.is_none_or(|shown| shown.takes_text);
        if text.is_empty() || takes_text || key_of_choice(row, text).is_some() {
            return Ok(());
        }
        let choices = row.dialogue.iter().flat_map(|dialogue| &dialogue.choices);
        let choices = choices.filter(|choice| !choice.key.is_empty());
        let choices: Vec<String> = choices
            .map(|choice| format!("{} {}", choice.key, choice.label))
            .collect();
        Err(Error::invalid(format!(
            "{text:?} is no choice of the dialogue, which takes no text: {}",
            choices.join(" | ")
        )))
    }

    /// Checks that Enter chooses what the dialogue of a row says, where only colours show the selected choice.
    fn check_selected(&self, row: &Row, look: &Look) -> Result<()> {
        let choices = choices_of(row);
        let Some(by_enter) = choices.iter().find(|choice| choice.key == "Enter") else {
            return Ok(());
        };
        let key = match &self.typing {
            Typing::Text { text, .. } => key_of_choice(row, text),
            Typing::Keys(keys) | Typing::Choice(keys) => keys.first().map(String::as_str),
        };
        let labels: Vec<&str> = choices.iter().map(|choice| &*choice.label).collect();
        let selected = look.highlighted(&labels);
        // A mark shows the selected choice of a list.
        let is_list = !look.are_beside(&labels);
        if key == Some("Escape") || is_list || selected == Some(&by_enter.label) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "Enter would not choose {:?}: {} is selected in pane {}; look at it",
            by_enter.label,
            selected.unwrap_or("another choice"),
            look.pane
        )))
    }

    /// Judges if Enter may follow the text.
    fn enter(
        &self,
        row: Option<&Row>,
        shown: Option<DetectedState>,
        pane: &PaneId,
    ) -> Result<Permission> {
        let waiting = row.filter(|row| row.is_waiting());
        let Some(id) = self.answers else {
            return match waiting.map(|row| in_words(row, pane)).or_else(|| {
                let shown = shown?;
                Some(format!(
                    "pane {pane} asks {:?}",
                    shown.asks.unwrap_or(shown.line)
                ))
            }) {
                Some(asks) => Err(Error::invalid(format!(
                    "{WITHOUT_ENTER}, because a question came between: {asks}"
                ))),
                None => Ok(Permission::Program),
            };
        };
        // The text may have answered the question, and Enter would answer the next one.
        let is_open = waiting.is_some_and(|row| {
            row.question_id.as_deref() == Some(id) && check_screen(row, shown).is_ok()
        });
        Ok(if is_open {
            Permission::Screen
        } else {
            Permission::Needless
        })
    }
}

/// Returns what a row asks, and how to answer it.
fn in_words(row: &Row, pane: &PaneId) -> String {
    let agent = row.agent.as_deref().unwrap_or("the program");
    let asks = row.asks.as_deref().unwrap_or("a question");
    let id = row.question_id.as_deref().unwrap_or_default();
    format!(
        "{agent} in pane {pane} waits for an answer to {asks:?}, which is given with the id of the question, {id}"
    )
}

/// Returns true for the row of an agent that takes a prompt. The shell behind an agent that is suspended or was killed may be
/// meant.
fn is_agent_that_reads(row: &Row) -> bool {
    let RowState::Agent(state) = &row.state else {
        return false;
    };
    let reads = [
        AgentState::Idle,
        AgentState::Done,
        AgentState::Working,
        AgentState::Limited,
    ];
    let is_agent = row.agent.as_deref().is_some_and(|agent| agent != "shell");
    is_agent && state.known().is_some_and(|state| reads.contains(&state))
}

/// A choice in a list, where it is not known that its key chooses it: it is selected first, and then chosen.
struct ListedChoice {
    dialogue: Dialogue,
    /// Its place among the choices.
    place: usize,
    keys: Vec<String>,
}

impl ListedChoice {
    /// Returns the choice of this key if a mark shows which choice is selected, and if no rules know the agent or the
    /// key moves the mark.
    fn of(row: &Row, key: &str) -> Option<Self> {
        let dialogue = row.dialogue.as_deref()?;
        let has_rules = StateRules::builtin().is_named(row.agent.as_deref()?);
        let is_move = key.starts_with("Up ") || key.starts_with("Down ");
        let mut choices = dialogue.choices.iter();
        let has_mark = choices.clone().any(|choice| choice.selected);
        if has_rules && !is_move || !has_mark {
            return None;
        }
        let place = choices.position(|choice| choice.key == key)?;
        // Enter chooses the selected choice.
        let is_selected = dialogue.choices[place].selected;
        let keys = key.split(' ');
        let keys = keys.filter(|key| *key != "Enter" && !is_selected);
        Some(Self {
            dialogue: dialogue.clone(),
            place,
            keys: keys.map(str::to_owned).collect(),
        })
    }

    /// Returns the keys: a number may choose at once, and moves only select.
    fn typing(&self) -> Typing {
        if self.keys.is_empty() {
            Typing::Keys(vec!["Enter".to_owned()])
        } else {
            Typing::Choice(self.keys.clone())
        }
    }

    /// Judges if Enter may follow the keys.
    fn enter(&self, shown: Option<DetectedState>) -> Result<Permission> {
        let shown = shown.and_then(|shown| shown.dialogue);
        let Some(shown) = shown.filter(|shown| is_same_words(&self.dialogue, shown)) else {
            return Ok(Permission::Needless);
        };
        let selected = shown.choices.iter().find(|choice| choice.selected);
        if shown
            .choices
            .get(self.place)
            .is_some_and(|meant| meant.selected)
        {
            return Ok(Permission::Screen);
        }
        Err(Error::invalid(format!(
            "Enter was not pressed, because it would choose {:?}: look at the pane, and send the keys of the program",
            selected.map_or("another choice", |choice| &choice.label)
        )))
    }
}

/// Returns the question that a screen shows. The program of a row that waits is an agent.
fn question_on(rules: &StateRules, row: Option<&Row>, look: &Look) -> Option<DetectedState> {
    let agent = row.filter(|row| row.is_waiting()).and_then(|row| {
        let agent = row.agent.as_deref()?;
        let is_agent = row.dialogue.is_some() || AgentProgram::is_name(agent);
        is_agent.then_some(agent)
    });
    let rows: Vec<&str> = look.rows.iter().map(String::as_str).collect();
    let screen = AgentScreen {
        rows: &rows,
        cursor: Some(look.cursor),
        program: Some(&look.program),
        is_full: look.is_full,
    };
    rules
        .detect_running(agent, &screen)
        .filter(|shown| shown.state == AgentState::Waiting)
}

/// Checks that the screen still shows the question of a row, if it was read there.
fn check_screen(row: &Row, shown: Option<DetectedState>) -> Result<()> {
    let source = row.source.as_ref().and_then(|source| source.known());
    if source != Some(StateSource::Screen) && row.dialogue.is_none() {
        return Ok(());
    }
    let Some(shown) = shown else {
        return Err(Error::invalid(
            "the question is not on the screen any more: look at the pane",
        ));
    };
    if let (Some(before), Some(now)) = (&row.dialogue, &shown.dialogue)
        && !is_same_shown(before, now)
    {
        return Err(Error::invalid(
            "the dialogue on the screen has changed, and the board is about to have the present one: look at the pane",
        ));
    }
    if source != Some(StateSource::Screen) {
        return Ok(());
    }
    let Some(now) = shown.asks else {
        return Ok(());
    };
    let before = row.asks.as_deref();
    // The row's question is redacted.
    let redacted = Rules::builtin().text(&now).into_owned();
    if is_same_question(before, Some(&now)) || is_same_question(before, Some(&redacted)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the question has changed: the pane asks {redacted:?}, and the board is about to have the id of this question"
    )))
}

/// Returns true if a screen shows the dialogue of a row, which is redacted, with the same choice selected, which
/// Enter takes.
fn is_same_shown(of_row: &Dialogue, shown: &Dialogue) -> bool {
    let selected = |dialogue: &Dialogue| dialogue.choices.iter().position(|choice| choice.selected);
    selected(of_row) == selected(shown) && is_same_words(of_row, shown)
}

/// Returns true if a screen shows the text and the choices of a row's dialogue, which is redacted.
fn is_same_words(of_row: &Dialogue, shown: &Dialogue) -> bool {
    let rules = Rules::builtin();
    let mut redacted = shown.clone();
    redacted.text = rules.text(&shown.text).into_owned();
    for choice in &mut redacted.choices {
        choice.label = rules.text(&choice.label).into_owned();
    }
    // A user's own patterns have redacted more.
    let has_gaps = of_row.text.contains(MARKER);
    let is_same = |now: &Dialogue| {
        let text = if has_gaps { &of_row.text } else { &now.text };
        let now = Dialogue {
            text: text.clone(),
            ..now.clone()
        };
        is_same_dialogue(of_row, &now)
    };
    is_same(shown) || is_same(&redacted)
}

/// Checks that the agent of a row is in the foreground of the pane's terminal, and no shell that reads commands. If it
/// `asked`, it has run since before its question.
fn check_process(row: &Row, look: &Look, asked: bool, clock: &Clock) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let agent = row.agent.as_deref().unwrap_or("the program");
    let gone = || {
        let pane = &look.pane;
        Error::invalid(format!(
            "{agent} does not read the input of pane {pane} any more: it has ended, or is suspended"
        ))
    };
    let first = stat(look.pid).ok_or_else(gone)?;
    let now = clock.wall();
    let is_older = |age: Duration| {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        now.micros().saturating_sub(age) <= row.since.micros().saturating_add(TICK_MICROS) || !asked
    };
    let is_alive = |process: &Stat| !process.is_zombie && is_older(age(process));
    let members = members(&first, clock.now());
    if !members.iter().any(is_alive) {
        return Err(gone());
    }
    let reads_commands =
        |process: &Stat| Program::of(process.pid).is_some_and(|program| program.is_interactive);
    let is_agent = row.agent.as_deref().is_some_and(|agent| agent != "shell");
    if is_agent && members.iter().any(reads_commands) {
        return Err(gone());
    }
    // The process of this agent was found when it asked.
    let evidence = row.evidence.as_ref().and_then(|evidence| evidence.known());
    if is_agent && asked && evidence == Some(StateEvidence::Confirmed) {
        let running = RunningAgent::find(look.pid);
        let is_same = |running: &RunningAgent| {
            row.agent.as_deref() == Some(running.program.name()) && is_older(running.age())
        };
        if !running.as_ref().is_some_and(is_same) {
            return Err(gone());
        }
    }
    Ok(())
}

/// Returns the processes in the foreground of a terminal.
fn members(first: &Stat, now: Instant) -> Vec<Stat> {
    let pids = match (foreground(first, now), first.foreground) {
        (ForegroundGroup::Group { members, .. }, _) => members,
        (_, Some(group)) => vec![group],
        (_, None) => Vec::new(),
    };
    pids.into_iter().filter_map(stat).collect()
}
