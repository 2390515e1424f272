//! Parses, validates and compiles rules from TOML (pure).

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::AgentState;
use super::agent_rules::{AgentRules, InputCondition, Need, Signature, StateRule};
use super::agent_rules::{LINES_MAX, Region, RowQuery};
use super::dialogue::{DialogueRules, ListRules};
use super::says::SaysRules;
use super::screen::ShellRules;
use super::screen::{INDENT_MAX, InputBox, InputFrame};
use crate::error::{Error, Result};

/// The maximum size of a file; the built-in files are ten times smaller.
const FILE_BYTES_MAX: usize = 64 << 10;
/// The maximum number of rules, and of signatures, of an agent, because each is tried on each capture.
const RULES_MAX: usize = 100;
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    agent: String,
    like: Option<String>,
    #[serde(default)]
    general: bool,
    #[serde(default)]
    fallback: bool,
    input: Option<InputSpec>,
    message: Option<String>,
    left: Option<String>,
    decoration: Option<String>,
    shells: Option<String>,
    shell: Option<ShellSpec>,
    #[serde(default)]
    sign: Vec<SignatureSpec>,
    #[serde(default)]
    rule: Vec<RuleSpec>,
    #[serde(default)]
    asks: Vec<QuestionSpec>,
    dialogue: Option<DialogueSpec>,
    says: Option<SaysSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaysSpec {
    text: Option<String>,
    tool: Option<String>,
    end: Option<String>,
    notice: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DialogueSpec {
    first: String,
    choice: Option<String>,
    list: Option<ListSpec>,
    buttons: Option<String>,
    inline: Option<String>,
    omit: Option<String>,
    entry: Option<String>,
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSpec {
    selected: String,
    button: Option<String>,
    foot: String,
    below: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionSpec {
    #[serde(rename = "where")]
    region: Region,
    lines: Option<usize>,
    pattern: String,
    under: Option<String>,
    #[serde(default)]
    first: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputSpec {
    frame: InputFrame,
    prompt: String,
    empty: String,
    below: usize,
    #[serde(default)]
    foot: String,
    indent: Option<usize>,
    hints: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellSpec {
    programs: Vec<String>,
    readers: Vec<String>,
    #[serde(default)]
    pagers: Vec<String>,
    viewer: Option<String>,
    heading: Option<String>,
    prompt: String,
    command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureSpec {
    #[serde(rename = "where")]
    region: Region,
    lines: Option<usize>,
    pattern: String,
    also: Option<String>,
    input: Option<InputCondition>,
    #[serde(default)]
    weak: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    id: String,
    state: AgentState,
    #[serde(rename = "where")]
    region: Region,
    lines: Option<usize>,
    pattern: String,
    also: Option<String>,
    under: Option<String>,
    input: Option<InputCondition>,
    needs: Option<Need>,
    #[serde(default)]
    inferred: bool,
}

/// Parses the rules of an agent. An error states the position, the problem and the fix in one line. `builtin` returns the
/// text of the built-in rules of an agent.
pub(super) fn read(
    text: &str,
    builtin: impl Fn(&str) -> Option<&'static str>,
) -> Result<AgentRules> {
    let mut file = parse(text)?;
    let name = quote(&file.agent);
    let wrong = |why: String| Error::invalid(format!("state rules of {name:?}: {why}"));
    if let Some(like) = file.like.take() {
        let base = builtin(&like).ok_or_else(|| {
            let like = quote(&like);
            wrong(format!(
                "like: {like:?} has no built-in rules: td-observe states lists those that have"
            ))
        })?;
        file = file.over(parse(base)?);
    }
    compile(file).map_err(wrong)
}

fn parse(text: &str) -> Result<RuleFile> {
    if text.len() > FILE_BYTES_MAX {
        let why = format!("state rules are longer than {FILE_BYTES_MAX} bytes: write fewer");
        return Err(Error::invalid(why));
    }
    toml::from_str(text).map_err(|error| Error::invalid(describe_toml_error(text, &error)))
}

impl RuleFile {
    /// Returns this file with what it does not set from the file of another agent, whose signs are weak ones here.
    fn over(self, base: Self) -> Self {
        fn list<T>(own: Vec<T>, base: Vec<T>) -> Vec<T> {
            if own.is_empty() { base } else { own }
        }
        let shared = base
            .sign
            .into_iter()
            .map(|sign| SignatureSpec { weak: true, ..sign });
        Self {
            agent: self.agent,
            like: None,
            general: self.general,
            fallback: self.fallback,
            input: self.input.or(base.input),
            message: self.message.or(base.message),
            left: self.left.or(base.left),
            decoration: self.decoration.or(base.decoration),
            shells: self.shells.or(base.shells),
            shell: self.shell.or(base.shell),
            sign: self.sign.into_iter().chain(shared).collect(),
            rule: list(self.rule, base.rule),
            asks: list(self.asks, base.asks),
            dialogue: self.dialogue.or(base.dialogue),
            says: self.says.or(base.says),
        }
    }
}

/// Describes a TOML error without its excerpt of the source.
fn describe_toml_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    let what = quote(error.message());
    format!("state rules, line {line}: {what}: see the format at the top of rules/claude.toml")
}

/// Joins the text to one line and truncates it to the length of a quotation.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    // The maximum number of characters of a user's text that an error quotes.
    line.chars().take(100).collect()
}

fn compile(file: RuleFile) -> Result<AgentRules, String> {
    if !is_id(&file.agent) {
        return Err("write agent as up to 32 small letters, digits and hyphens".into());
    }
    if file.rule.is_empty() || file.rule.len() > RULES_MAX || file.sign.len() > RULES_MAX {
        return Err(format!(
            "write 1 to {RULES_MAX} rules, and as many signs at most"
        ));
    }
    if (file.fallback || file.general) != file.sign.is_empty() {
        return Err("write a [[sign]] of its screen, or fallback = true".into());
    }
    if file.shell.is_some() && !file.fallback {
        return Err("[shell] is for the fallback: leave it out, or add fallback = true".into());
    }
    let input = file.input.map(InputBox::new).transpose()?;
    let message = optional("message", file.message.as_deref())?;
    let exit_text = optional("left", file.left.as_deref())?;
    let decoration = optional("decoration", file.decoration.as_deref())?;
    let shells = optional("shells", file.shells.as_deref())?;
    if shells
        .as_ref()
        .is_some_and(|shells| shells.captures_len() != 2)
    {
        return Err("shells: enclose the number in one pair of parentheses".into());
    }
    let has_list = (file.dialogue.as_ref()).is_some_and(|dialogue| dialogue.list.is_some());
    let query = |region: Region, lines: Option<usize>, pattern: &str, also: Option<&str>| {
        if region == Region::Dialogue && !has_list {
            return Err("it uses the dialogue: describe its choices in [dialogue.list]".to_owned());
        }
        if region.needs_input() && input.is_none() {
            return Err("it uses the input box: describe it in [input]".to_owned());
        }
        if region == Region::LastMessage && message.is_none() {
            return Err(
                "it uses the last message: write the pattern of its first row as message"
                    .to_owned(),
            );
        }
        match (region.has_lines(), lines) {
            (true, None) => return Err("write the number of lines to search".to_owned()),
            (false, Some(_)) => return Err("this region has no lines: leave them out".to_owned()),
            (_, Some(lines)) if !(1..=LINES_MAX).contains(&lines) => {
                return Err(format!("lines must be 1 to {LINES_MAX}"));
            }
            _ => {}
        }
        Ok(RowQuery {
            region,
            lines: lines.unwrap_or(LINES_MAX),
            pattern: regex("pattern", pattern)?,
            also: optional("also", also)?,
            under: None,
            is_first: false,
        })
    };
    let input_condition = |condition: Option<InputCondition>| {
        if condition.is_some() && input.is_none() {
            Err("it needs the input box: describe it in [input]".to_owned())
        } else {
            Ok(condition)
        }
    };
    let mut signs = Vec::new();
    for (number, sign) in (1..).zip(&file.sign) {
        let at = |why: String| format!("sign {number}: {why}");
        let query = query(sign.region, sign.lines, &sign.pattern, sign.also.as_deref());
        signs.push(Signature {
            query: query.map_err(at)?,
            input: input_condition(sign.input).map_err(at)?,
            is_weak: sign.weak,
        });
    }
    let mut rules: Vec<StateRule> = Vec::new();
    for (number, rule) in (1..).zip(file.rule) {
        let at = |why: String| format!("rule {number} ({}): {why}", quote(&rule.id));
        if !is_id(&rule.id) {
            return Err(at(
                "write its id as up to 32 small letters, digits and hyphens".into(),
            ));
        }
        if rules.iter().any(|known| known.id == rule.id) {
            return Err(at("another rule has this id: choose a unique one".into()));
        }
        let is_done = rule.state == AgentState::Done;
        let may_be_typed = matches!(rule.input, None | Some(InputCondition::Shown));
        if is_done && may_be_typed {
            return Err(at(
                "typed input excludes done: add input = \"empty\" or \"absent\"".into(),
            ));
        }
        let query = query(rule.region, rule.lines, &rule.pattern, rule.also.as_deref());
        let mut query = query.map_err(at)?;
        query.under = optional("under", rule.under.as_deref()).map_err(at)?;
        rules.push(StateRule {
            query,
            input: input_condition(rule.input).map_err(at)?,
            needs: rule.needs,
            id: rule.id,
            state: rule.state,
            inferred: rule.inferred,
        });
    }
    let mut questions = Vec::new();
    for (number, spec) in (1..).zip(&file.asks) {
        let at = |why: String| format!("asks {number}: {why}");
        let mut query = query(spec.region, spec.lines, &spec.pattern, None).map_err(at)?;
        query.under = optional("under", spec.under.as_deref()).map_err(at)?;
        if (query.under.as_ref()).is_some_and(|under| under.captures_len() > 2) {
            return Err(at(
                "under: at most one pair of parentheses, around the tool".into(),
            ));
        }
        query.is_first = spec.first;
        if query.pattern.captures_len() != 2 {
            return Err(at("enclose the question in one pair of parentheses".into()));
        }
        questions.push(query);
    }
    let dialogue = file.dialogue.map(DialogueRules::new).transpose()?;
    let says = file.says.map(SaysRules::new).transpose()?;
    if says.is_some() && (input.is_none() || message.is_none()) {
        return Err("says: describe the input box in [input], and write message".into());
    }
    Ok(AgentRules {
        name: file.agent,
        dialogue,
        asks: questions,
        is_general: file.general,
        is_fallback: file.fallback,
        shell: file.shell.map(ShellRules::new).transpose()?,
        input,
        message,
        exit_text,
        decoration,
        shells,
        says,
        signs,
        rules,
    })
}

fn is_id(id: &str) -> bool {
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&id.len()) && id.bytes().all(is_valid)
}

/// Compiles the pattern of the field `what`.
fn regex(what: &str, pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    // The maximum memory of a compiled pattern.
    let built = builder.size_limit(1 << 20).build();
    built.map_err(|error| {
        // The error shows the position in several lines and describes the problem in the last one.
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default();
        let why = quote(why.trim_start_matches("error: "));
        format!(
            "{what}: {:?} is not a regular expression: {why}: correct it",
            quote(pattern)
        )
    })
}

/// Compiles an optional pattern of the field `what`.
fn optional(what: &str, pattern: Option<&str>) -> Result<Option<Regex>, String> {
    pattern.map(|pattern| regex(what, pattern)).transpose()
}

/// Compiles an optional pattern of a choice, which has the groups of its key and its text.
fn with_groups(what: &str, pattern: &Option<String>) -> Result<Option<Regex>, String> {
    let pattern = optional(what, pattern.as_deref())?;
    let has =
        |pattern: &Regex, name: &str| pattern.capture_names().flatten().any(|known| known == name);
    match pattern {
        Some(pattern) if !has(&pattern, "key") || !has(&pattern, "label") => Err(format!(
            "{what}: name the groups of the key and the text: (?<key>…) and (?<label>…)"
        )),
        pattern => Ok(pattern),
    }
}

impl InputBox {
    fn new(spec: InputSpec) -> Result<Self, String> {
        if spec.below > LINES_MAX {
            return Err(format!("input: below is at most {LINES_MAX}: write less"));
        }
        Ok(Self {
            frame: spec.frame,
            prompt: regex("input: prompt", &spec.prompt)?,
            empty: regex("input: empty", &spec.empty)?,
            below: spec.below,
            foot: regex("input: foot", &spec.foot)?,
            indent: spec.indent.unwrap_or(INDENT_MAX),
            hints: optional("input: hints", spec.hints.as_deref())?,
        })
    }
}

impl DialogueRules {
    fn new(spec: DialogueSpec) -> Result<Self, String> {
        Ok(Self {
            first: regex("dialogue: first", &spec.first)?,
            choice: with_groups("dialogue: choice", &spec.choice)?,
            list: spec.list.map(ListRules::new).transpose()?,
            buttons: optional("dialogue: buttons", spec.buttons.as_deref())?,
            inline: with_groups("dialogue: inline", &spec.inline)?,
            omit: optional("dialogue: omit", spec.omit.as_deref())?,
            entry: optional("dialogue: entry", spec.entry.as_deref())?,
            keys: spec.keys,
        })
    }
}

impl ListRules {
    fn new(spec: ListSpec) -> Result<Self, String> {
        Ok(Self {
            selected: regex("dialogue: list: selected", &spec.selected)?,
            button: with_groups("dialogue: list: button", &spec.button)?,
            foot: regex("dialogue: list: foot", &spec.foot)?,
            below: spec.below,
        })
    }
}

impl SaysRules {
    fn new(spec: SaysSpec) -> Result<Self, String> {
        let text = optional("says: text", spec.text.as_deref())?;
        if text.as_ref().is_some_and(|text| text.captures_len() != 2) {
            return Err("says: text: enclose the text in one pair of parentheses".into());
        }
        Ok(Self {
            text,
            tool: optional("says: tool", spec.tool.as_deref())?,
            end: optional("says: end", spec.end.as_deref())?,
            notice: optional("says: notice", spec.notice.as_deref())?,
        })
    }
}

impl ShellRules {
    fn new(spec: ShellSpec) -> Result<Self, String> {
        Ok(Self {
            programs: spec.programs.into_iter().collect(),
            readers: spec.readers.into_iter().collect(),
            pagers: spec.pagers.into_iter().collect(),
            viewer: optional("shell: viewer", spec.viewer.as_deref())?,
            heading: optional("shell: heading", spec.heading.as_deref())?,
            prompt: regex("shell: prompt", &spec.prompt)?,
            command: regex("shell: command", &spec.command)?,
        })
    }
}
