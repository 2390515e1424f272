//! Rules as they are written and as they are used: read from TOML, checked, compiled (pure).

use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::page::{Frame, Page, inner};
use super::{Judged, ScreenState};
use crate::error::{Error, Result};

/// The longest file: the built-in ones have a tenth of it.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Rules, and signs, of one agent: each is tried on each look.
const RULES_MAX: usize = 100;
/// What a compiled pattern may take, so that no rule eats the memory.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Rows a rule may look at.
const LINES_MAX: usize = 60;
/// Of the row that matched so many characters are shown.
const LINE_CHARS_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    agent: String,
    #[serde(default)]
    fallback: bool,
    input: Option<WrittenInput>,
    message: Option<String>,
    #[serde(default)]
    sign: Vec<WrittenSign>,
    #[serde(default)]
    rule: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenInput {
    frame: Frame,
    prompt: String,
    empty: String,
    below: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSign {
    #[serde(rename = "where")]
    place: Place,
    lines: Option<usize>,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    id: String,
    state: ScreenState,
    #[serde(rename = "where")]
    place: Place,
    lines: Option<usize>,
    pattern: String,
    input: Option<Condition>,
    #[serde(default)]
    inferred: bool,
}

/// Where a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Place {
    Input,
    AboveInput,
    BelowInput,
    LastMessage,
    Bottom,
    Cursor,
    Screen,
}

/// What the input box must be besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Condition {
    Empty,
    Shown,
    Absent,
}

/// The rules of one agent.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub name: String,
    /// It is tried after all others, and needs no signs.
    pub is_fallback: bool,
    input: Option<Input>,
    message: Option<Regex>,
    signs: Vec<Look>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Input {
    frame: Frame,
    prompt: Regex,
    empty: Regex,
    below: usize,
}

/// A pattern, and where it is looked for.
#[derive(Clone, Debug)]
struct Look {
    place: Place,
    lines: usize,
    pattern: Regex,
}

#[derive(Clone, Debug)]
struct Rule {
    id: String,
    state: ScreenState,
    look: Look,
    input: Option<Condition>,
    inferred: bool,
}

/// Reads the rules of an agent; an error names the rule, what is wrong with it and what to do.
pub(super) fn read(text: &str) -> Result<Agent> {
    if text.len() > FILE_BYTES_MAX {
        let why = format!("the state rules are longer than {FILE_BYTES_MAX} bytes");
        return Err(Error::invalid(why));
    }
    let file: File = toml::from_str(text)
        .map_err(|error| Error::invalid("the state rules are not as expected").because(error))?;
    let name = file.agent.clone();
    compile(file).map_err(|why| Error::invalid(format!("state rules of {name:?}: {why}")))
}

fn compile(file: File) -> Result<Agent, String> {
    if !is_id(&file.agent) {
        return Err("write agent as up to 32 small letters, digits and hyphens".into());
    }
    if file.rule.is_empty() || file.rule.len() > RULES_MAX || file.sign.len() > RULES_MAX {
        return Err(format!(
            "write 1 to {RULES_MAX} rules, and as many signs at most"
        ));
    }
    if file.fallback != file.sign.is_empty() {
        return Err("write a [[sign]] of its screen, or else fallback = true".into());
    }
    let input = file.input.map(Input::new).transpose()?;
    let message = file.message.as_deref().map(regex).transpose();
    let message = message.map_err(|why| format!("message: {why}"))?;
    let look = |place, lines, pattern: &str| {
        let needs_input = matches!(
            place,
            Place::Input | Place::AboveInput | Place::BelowInput | Place::LastMessage
        );
        if needs_input && input.is_none() {
            return Err("it looks at the input box: describe that in [input]".to_owned());
        }
        if place == Place::LastMessage && message.is_none() {
            return Err("it looks at the last message: write how one begins as message".to_owned());
        }
        Look::new(place, lines, pattern)
    };
    let mut signs = Vec::new();
    for (number, sign) in (1..).zip(&file.sign) {
        let sign = look(sign.place, sign.lines, &sign.pattern);
        signs.push(sign.map_err(|why| format!("sign {number}: {why}"))?);
    }
    let mut rules: Vec<Rule> = Vec::new();
    for (number, rule) in (1..).zip(file.rule) {
        let at = |why: String| format!("rule {number} ({}): {why}", rule.id);
        if !is_id(&rule.id) {
            return Err(at(
                "write its id as up to 32 small letters, digits and hyphens".into(),
            ));
        }
        if rules.iter().any(|known| known.id == rule.id) {
            return Err(at("another rule has this id: choose one of its own".into()));
        }
        if rule.input.is_some() && input.is_none() {
            return Err(at(
                "it asks for the input box: describe that in [input]".into()
            ));
        }
        let says_done = rule.state == ScreenState::Done;
        if says_done && rule.input != Some(Condition::Empty) {
            return Err(at(
                "nothing is done while something is typed: add input = \"empty\"".into(),
            ));
        }
        let look = look(rule.place, rule.lines, &rule.pattern).map_err(at)?;
        rules.push(Rule {
            id: rule.id,
            state: rule.state,
            look,
            input: rule.input,
            inferred: rule.inferred,
        });
    }
    Ok(Agent {
        name: file.agent,
        is_fallback: file.fallback,
        input,
        message,
        signs,
        rules,
    })
}

fn is_id(id: &str) -> bool {
    let is_it = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&id.len()) && id.bytes().all(is_it)
}

fn regex(pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    let built = builder.size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| error.to_string())
}

impl Input {
    fn new(written: WrittenInput) -> Result<Self, String> {
        if written.below > LINES_MAX {
            return Err(format!("input: below is at most {LINES_MAX}"));
        }
        Ok(Self {
            frame: written.frame,
            prompt: regex(&written.prompt).map_err(|why| format!("input: prompt: {why}"))?,
            empty: regex(&written.empty).map_err(|why| format!("input: empty: {why}"))?,
            below: written.below,
        })
    }

    /// Every row of it reads as if nothing was typed.
    fn is_empty(&self, page: &Page<'_>, mut rows: Range<usize>) -> bool {
        rows.all(|row| match inner(page.row(row)) {
            "" => true,
            text => self.empty.is_match(text),
        })
    }
}

impl Look {
    fn new(place: Place, lines: Option<usize>, pattern: &str) -> Result<Self, String> {
        let counts = matches!(place, Place::AboveInput | Place::BelowInput | Place::Bottom);
        match (counts, lines) {
            (true, None) => return Err("write how many lines it looks at".into()),
            (false, Some(_)) => return Err("lines do not count there: leave them out".into()),
            (_, Some(lines)) if !(1..=LINES_MAX).contains(&lines) => {
                return Err(format!("lines are 1 to {LINES_MAX}"));
            }
            _ => {}
        }
        Ok(Self {
            place,
            lines: lines.unwrap_or(LINES_MAX),
            pattern: regex(pattern).map_err(|why| format!("pattern: {why}"))?,
        })
    }

    /// The lowest row there that matches.
    fn find<'a>(&self, sight: &Sight<'_, 'a>) -> Option<&'a str> {
        let page = sight.page;
        let rows = match (self.place, &sight.input) {
            (Place::Screen, _) => page.all(),
            (Place::Cursor, _) => page.cursor(),
            (Place::Bottom, _) => page.last_of(page.all(), self.lines),
            (_, None) => return None,
            (Place::Input, Some(input)) => input.clone(),
            (Place::BelowInput, Some(input)) => {
                page.first_of(input.end..page.all().end, self.lines)
            }
            (Place::AboveInput, Some(_)) => page.last_of(0..sight.above, self.lines),
            (Place::LastMessage, Some(_)) => {
                let rows = page.last_of(0..sight.above, LINES_MAX);
                let begins = |row: &usize| {
                    let message = sight.message;
                    message.is_some_and(|message| message.is_match(page.row(*row)))
                };
                // One that begins above the screen has all that is shown.
                rows.clone().rfind(begins).unwrap_or(rows.start)..rows.end
            }
        };
        let mut texts = rows.rev().map(|row| page.row(row));
        match self.place {
            Place::Input => texts.find(|row| self.pattern.is_match(inner(row))),
            _ => texts.find(|row| self.pattern.is_match(row)),
        }
    }
}

/// A screen, as one agent's rules see it.
struct Sight<'p, 'a> {
    page: &'p Page<'a>,
    message: Option<&'p Regex>,
    input: Option<Range<usize>>,
    /// Where what stands above the input box ends.
    above: usize,
}

impl Agent {
    /// What the screen says, if it is this agent's.
    pub fn judge(&self, page: &Page<'_>) -> Option<Judged> {
        let find = |input: &Input| page.input(input.frame, &input.prompt, input.below);
        let input = self.input.as_ref().and_then(find);
        let is_framed = (self.input.as_ref()).is_some_and(|input| input.frame == Frame::Lines);
        let start = input.clone().map_or(0, |rows| rows.start);
        let sight = Sight {
            page,
            message: self.message.as_ref(),
            // Its upper edge is no row above it.
            above: start.saturating_sub(usize::from(is_framed)),
            input: input.clone(),
        };
        if !self.is_fallback && !self.signs.iter().any(|sign| sign.find(&sight).is_some()) {
            return None;
        }
        let is_empty = || match (&self.input, &input) {
            (Some(known), Some(rows)) => known.is_empty(page, rows.clone()),
            _ => false,
        };
        let holds = |rule: &Rule| match rule.input {
            None => true,
            Some(Condition::Empty) => is_empty(),
            Some(Condition::Shown) => input.is_some(),
            Some(Condition::Absent) => input.is_none(),
        };
        self.rules.iter().find_map(|rule| {
            let line = rule.look.find(&sight).filter(|_| holds(rule))?;
            Some(Judged {
                agent: self.name.clone(),
                state: rule.state,
                rule: rule.id.clone(),
                line: inner(line).chars().take(LINE_CHARS_MAX).collect(),
                inferred: rule.inferred,
            })
        })
    }
}
