//! Reads from a screen what its agent says or does at present (pure).

use regex::Regex;

use super::super::decoration::{LineKind, bare_line};
use super::super::one_line;
use super::super::turn::is_default_marker;
use crate::text::{first_sentence, last_sentence};

/// How an agent draws what it says and does.
#[derive(Clone, Debug)]
pub(super) struct SaysRules {
    /// Matches the first row of a text; its group is the text. Without it, texts have no mark: the last one is below the
    /// last other row.
    pub text: Option<Regex>,
    /// Matches the first row of a tool; its groups are the tool's name and what it does.
    pub tool: Option<Regex>,
    /// Matches rows that are no text, and end one: results of tools, advice, notes.
    pub end: Option<Regex>,
    /// Matches a row of the agent's progress that says what keeps it from its work; its group is the text.
    pub notice: Option<Regex>,
}

/// The words that a row begins.
enum Head<'r> {
    Text(&'r str),
    Tool(String),
    /// A prompt or another message that is not the agent's.
    Other,
}

impl SaysRules {
    /// Returns the tool or the last sentence at the end of the rows above an input box; if the turn `is_over`, the first
    /// sentence of the last paragraph. `is_message` tells the first rows of all messages, `is_status` the rows of the
    /// agent's progress.
    pub fn read(
        &self,
        rows: &[&str],
        is_over: bool,
        is_message: impl Fn(&str) -> bool,
        is_status: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let notice = |row: &&str| {
            Some(one_line(
                self.notice.as_ref()?.captures(row)?.get(1)?.as_str(),
            ))
        };
        if let Some(words) = rows.iter().rev().find_map(notice) {
            return Some(words);
        }
        let Some(text) = &self.text else {
            let last = rows.iter().rfind(|row| !row.is_empty() && !is_status(row));
            if let Some(words) = last.and_then(|row| self.tool_in(row)) {
                return Some(words);
            }
            let is_text = |row: &&str| !(is_message(row) || is_status(row) || self.is_end(row));
            let text = unmarked(rows, &is_status, is_text)?;
            return sentence_of(text.iter().copied(), is_over);
        };
        let heads = rows.iter().enumerate().rev();
        let mut heads = heads.filter(|(_, row)| !is_status(row));
        let head = heads.find_map(|(at, row)| Some((at, self.head(row, text, &is_message)?)));
        let (first, rest) = match head {
            // The prompt is pinned above a text of which the beginning has scrolled off.
            Some((0, Head::Other)) if rows.get(1).is_some_and(|row| !row.is_empty()) => {
                let blank = rows.iter().position(|row| row.is_empty())?;
                (None, rows.get(blank..)?)
            }
            Some((_, Head::Other)) => return None,
            Some((_, Head::Tool(words))) => return Some(words),
            Some((at, Head::Text(first))) => (Some(first), rows.get(at + 1..)?),
            // The text began above the screen.
            None => (None, rows),
        };
        let rest = rest.iter().copied();
        let rest = rest.take_while(|row| !self.is_end(row) && !is_status(row));
        sentence_of(first.into_iter().chain(rest), is_over)
    }

    fn head<'r>(
        &self,
        row: &'r str,
        text: &Regex,
        is_message: impl Fn(&str) -> bool,
    ) -> Option<Head<'r>> {
        if let Some(words) = self.tool_in(row) {
            return Some(Head::Tool(words));
        }
        let text = text.captures(row).filter(|_| !self.is_end(row));
        if let Some(text) = text {
            return Some(Head::Text(text.get(1).map_or("", |text| text.as_str())));
        }
        is_message(row).then_some(Head::Other)
    }

    /// Returns the tool in its first row, and what it does.
    fn tool_in(&self, row: &str) -> Option<String> {
        let tool = self.tool.as_ref()?.captures(row)?;
        let groups = tool.iter().skip(1).flatten().map(|group| group.as_str());
        Some(one_line(&groups.collect::<Vec<_>>().join(" ")))
    }

    fn is_end(&self, row: &str) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_match(row))
    }
}

/// Returns the rows of the last text of an agent that does not mark its texts: those below the last other row and a blank
/// one. The agent's progress may stand below the text.
fn unmarked<'a, 'r>(
    rows: &'a [&'r str],
    is_status: impl Fn(&str) -> bool,
    is_text: impl Fn(&&str) -> bool,
) -> Option<&'a [&'r str]> {
    let end = rows
        .iter()
        .rposition(|row| !row.is_empty() && !is_status(row))?;
    let rows = rows.get(..=end)?;
    let Some(other) = rows.iter().rposition(|row| !is_text(row)) else {
        return Some(rows);
    };
    let below = rows.get(other..)?;
    let blank = below.iter().position(|row| row.is_empty())?;
    below.get(blank..)
}

/// Returns the last sentence of a text, or the first one of the last paragraph of a text that `is_over`, if it has words.
fn sentence_of<'r>(rows: impl Iterator<Item = &'r str>, is_over: bool) -> Option<String> {
    let text = last_paragraph(rows);
    let sentence = one_line(if is_over {
        first_sentence(&text)
    } else {
        last_sentence(&text)
    });
    Some(sentence).filter(|sentence| sentence.contains(char::is_alphanumeric))
}

/// Returns the last paragraph of a text, in one line. Items of lists are paragraphs; frames are none.
fn last_paragraph<'r>(rows: impl Iterator<Item = &'r str>) -> String {
    let (mut last, mut open) = (String::new(), false);
    for row in rows {
        let bare = bare_line(row);
        match bare.kind {
            LineKind::Blank | LineKind::Rule => open = false,
            _ if is_default_marker(bare.text) => open = false,
            LineKind::Input | LineKind::Bullet | LineKind::Text => {
                let item = item(bare.text);
                if !open || item.is_some() || bare.kind != LineKind::Text {
                    last.clear();
                }
                open = true;
                let text = item.unwrap_or(bare.text);
                if !last.is_empty() && !is_broken(&last, text) {
                    last.push(' ');
                }
                last.push_str(text);
            }
        }
    }
    last
}

/// Returns true if a row may break a word that is longer than the pane is wide, such as a key: half a key is still a
/// secret, but no rule recognises it.
fn is_broken(before: &str, row: &str) -> bool {
    /// The minimum length of the first part. Few words of prose are as long.
    const PART_CHARS_MIN: usize = 20;
    let is_of_key = |c: &char| c.is_ascii_alphanumeric() || "-_+/=.~%".contains(*c);
    let part = before.chars().rev().take_while(is_of_key).count();
    part >= PART_CHARS_MIN && row.chars().next().is_some_and(|first| is_of_key(&first))
}

/// Returns the text of the first row of a list's item, `- item` or `2. item`, without a mark that is no number.
fn item(row: &str) -> Option<&str> {
    let (mark, text) = row.split_once(' ')?;
    let number = mark.strip_suffix(['.', ')']).unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    match mark {
        "-" | "*" | "•" => Some(text.trim_start()),
        _ => is_number.then_some(row),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AgentScreen, StateRules};

    const CLAUDE: &str = "──────────────────────────\n❯ \n──────────────────────────\n  ⏸ manual mode on · esc to interrupt";
    const CODEX: &str = "› Ask Codex to do anything\n\n  mock-model default · /tmp/work · tidy up\n  ? for shortcuts";
    const GEMINI: &str = "▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄\n >   Type your message or @path/to/file\n▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀\n workspace (/directory)\n /tmp/work   no sandbox";
    const QWEN: &str = "──────────────────────────\n>   Type your message or @path/to/file\n──────────────────────────\n  Enter to steer · Ctrl+Q to queue · Auto mode (shift + tab to cycle)";
    const COPILOT: &str = " /tmp/work [⎇ master%]\n──────────────────────────\n❯\n──────────────────────────\n ◎ Working · 494 B esc esc interrupt";
    const AIDER: &str =
        "Repo-map: using 1024 tokens, auto refresh\n──────────────────────────\n> tidy up\n\n";

    #[test]
    fn what_an_agent_has_said_is_its_conclusion_without_the_marker() {
        let input = "──────────────────────────\n>   Type your message or @path/to/file\n──────────────────────────\n  Auto mode (shift + tab to cycle)";
        for (above, expected) in [
            ("  ◆︎ I look. All is\n    well.", "I look."),
            ("  ◆︎ I look.\n\n    It is\n    well. Bye.\n", "It is well."),
            ("  ◆︎ It is well.\n\n    [Output Complete]\n", "It is well."),
        ] {
            let screen = format!("│ >_ Qwen Code (v0.24.4) │\n  > tidy up\n\n{above}\n{input}");
            let rows: Vec<&str> = screen.lines().collect();
            let detected = StateRules::builtin().detect(&AgentScreen::of(&rows));
            let detected = detected.unwrap();
            assert_eq!(detected.state.as_str(), "done", "{screen}");
            assert_eq!(detected.says.as_deref(), Some(expected), "{screen}");
        }
    }

    #[test]
    fn what_an_agent_says_is_the_end_of_its_last_message() {
        for (foot, above, expected) in [
            // The user has asked, and the agent has said nothing.
            (
                CLAUDE,
                "● All is well.\n\n✻ Baked for 1s\n\n❯ tidy up. Do\n  it well\n\n✶ Musing… (0s)",
                None,
            ),
            (CLAUDE, "❯ tidy up\n\n●\n\n✶ Musing… (0s)", None),
            (
                CLAUDE,
                "❯ tidy up\n\n● I look first.\n\n  Then I read the\n  files. There are\n\n✶ Musing… (9s · ↓ 3 tokens)\n  ⎿  Tip: Use it",
                Some("There are"),
            ),
            (
                CLAUDE,
                "● I see two:\n\n  - a first one\n  - a second\n    one\n\n✶ Musing… (9s)",
                Some("a second one"),
            ),
            (
                CLAUDE,
                "● I run it.\n\n● Bash(make test. Now)\n  ⎿  $ make test. Now\n\n✶ Musing… (9s)",
                Some("make test. Now"),
            ),
            (
                CLAUDE,
                "● Read 1 file (ctrl+o to expand)\n\n✻ Baked for 2s · done 8:44 PM",
                Some("Read 1 file (ctrl+o to expand)"),
            ),
            (
                CLAUDE,
                "● I run it.\n\n  Runs a command\n  ⎿  $ make test\n\n✶ Musing… (9s)",
                Some("make test"),
            ),
            // The transcript has the command.
            (
                CLAUDE,
                "● I run it.\n\n● Running 1 shell command…\n\n✶ Musing… (9s)",
                None,
            ),
            (
                CLAUDE,
                "● I run it.\n\n  Running 1 shell command…\n\n✶ Musing… (9s)",
                Some("I run it."),
            ),
            // A word that is longer than the pane is wide.
            (
                CLAUDE,
                "● The key is\n  ghp_0123456789abcdefghij\n  0123456789abcdef",
                Some("The key is ghp_0123456789abcdefghij0123456789abcdef"),
            ),
            // The message began above the screen.
            (
                CLAUDE,
                "  and so on.\n\n  The end of it",
                Some("The end of it"),
            ),
            (
                CODEX,
                "› tidy up\n\n• I look. It is\n  all well.\n\n• Working (0s • esc to interrupt)\n",
                Some("It is all well."),
            ),
            (
                CODEX,
                "• I look.\n\n• Ran ls -l\n  └ a\n    b\n",
                Some("Ran ls -l"),
            ),
            (CODEX, "• I look.\n\n› tidy up\n", None),
            (
                CODEX,
                "› tell me all\n  with them .\n\n  Paragraph 7: I look. There\n  are\n",
                Some("There are"),
            ),
            (
                CODEX,
                "› tell me all\n  and well\n\n\n• Working (0s • esc to interrupt)\n",
                None,
            ),
            (
                CODEX,
                "  >_ OpenAI Codex (v0.171.0)\n     /tmp/work\n\n◦ Reconnecting to server… (48s)\n",
                Some("Reconnecting to server…"),
            ),
            (
                CODEX,
                "• It is well.\n  └ Tip: Use /init to create\n\n  Worked for 7s • 20:46\n",
                Some("It is well."),
            ),
            (
                GEMINI,
                "✦ It is\n  well. I lo\n\n    ? for shortcuts\n──────────────────\n Shift+Tab to accept edits",
                Some("I lo"),
            ),
            (
                GEMINI,
                "✦ I look.\n╭───────────────────╮\n│ ⊶  Shell ls -l    │\n│                   │\n│ a                 │\n╰───────────────────╯\n",
                Some("Shell ls -l"),
            ),
            (GEMINI, "✦ I look.\n\n > tidy up\n", None),
            (
                QWEN,
                "  > tidy up\n\n  ◆︎ Step 1. I\n    look\n\n  .. Loading wit.exe... (3s · ↓ 1 tokens · esc to cancel)\n",
                Some("I look"),
            ),
            (
                QWEN,
                "  ◆︎ Step 1.\n\n  ..Shell echo step 1; sleep 1 (Runs a command)\n\n  .  Loading wit.exe... (3s · esc to cancel)\n",
                Some("Shell echo step 1; sleep 1"),
            ),
            // Queued text.
            (
                QWEN,
                "  ◆︎ I look\n\n  .  Loading wit.exe... (3s · esc to cancel)\n  do it\n  Ctrl+Q to queue · ↑ to edit queued messages\n",
                Some("I look"),
            ),
            (
                COPILOT,
                " ❯ tidy up       00:30 ┃\n                  ┃\n ● First. It    ┃\n   is well. The   ┃\n                  ┃\n",
                Some("The"),
            ),
            (
                COPILOT,
                " ● I run it.       ┃\n                  ┃\n $ Shell Runs a command   6s ┃\n   touch a   ┃\n",
                None,
            ),
            (COPILOT, " ● I look.\n\n ❯ tidy up\n", None),
            (COPILOT, " ● Tip: /resume\n   └ Switch sessions\n", None),
            (
                COPILOT,
                " ❯ tidy up\n\n ● Request failed due to a transient API error. Retrying...\n",
                Some("Request failed due to a transient API error. Retrying..."),
            ),
            (
                "  ┃\n  ┃  Build · Mock Mock\n  ╹▀▀▀▀▀▀▀▀▀▀▀▀\n   ⬝⬝⬝■ Internal server error [retrying in 35s attempt #5]     esc interrupt",
                "  ┃\n  ┃  tidy up\n  ┃\n\n     ▣  Build · Mock\n",
                Some("Internal server error"),
            ),
            (
                "Retrying in 16.0 seconds...",
                AIDER,
                Some("Retrying in 16.0 seconds..."),
            ),
            (
                CODEX,
                "╭─────────────────────────────╮\n│ >_ OpenAI Codex (v0.171.0)  │\n│    /tmp/work                │\n╰─────────────────────────────╯\n",
                None,
            ),
            // aider prints its texts without a mark.
            (
                "First there\nare",
                "Repo-map: using 1024 tokens, auto refresh\n──────────────────────────\n> tidy\nup\n\nI look.\n",
                Some("First there are"),
            ),
            (
                "   ░█  Waiting for openai/mock",
                "Repo-map: disabled\n──────────────────────────\n> tidy up\n\nlitellm.RateLimitError: usage limit\nThe API provider has rate limited you.\nRetrying in 0.2 seconds...",
                None,
            ),
            (
                "I look. It is",
                "Repo-map: disabled\n──────────────────────────\n> tidy up\n\nlitellm.RateLimitError: usage limit\nThe API provider has rate limited you.\nRetrying in 0.2 seconds...\n",
                Some("It is"),
            ),
            (
                QWEN,
                "  ◆︎ Step 1.\n\n  > tidy up\n  .  Loading wit.exe... (3s · esc to cancel)\n",
                None,
            ),
        ] {
            let screen = format!("{above}\n{foot}");
            let rows: Vec<&str> = screen.lines().collect();
            let detected = StateRules::builtin().detect(&AgentScreen::of(&rows));
            let says = detected.unwrap().says;
            assert_eq!(says.as_deref(), expected, "{screen}");
        }
    }
}
