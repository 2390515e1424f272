//! What a row's last line says of an agent: the present tool or sentence, and the conclusion of a turn (pure).

use crate::agent::{is_default_marker, one_line, tool_question};
use crate::text::{TextEnd, first_sentence, last_sentence, letters};
use crate::timestamp::Timestamp;

/// The end of an agent's answer, as it arrives in pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AnswerEnd {
    end: TextEnd,
    /// True from a prompt to the end of its turn.
    is_open: bool,
}

impl AnswerEnd {
    /// Adds a piece of the answer.
    pub fn push(&mut self, piece: &str) {
        self.end.push(piece);
    }

    pub fn is_empty(&self) -> bool {
        self.end.as_str().is_empty()
    }

    /// Forgets the answer, since another one begins.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that the agent is in a turn.
    pub fn begin_turn(&mut self) {
        self.is_open = true;
    }

    /// Ends the turn. The next one may begin without a prompt: at the end of what ran in the background.
    pub fn end_turn(&mut self) {
        self.push("\n\n");
        self.is_open = false;
    }

    /// Returns true if the turn of the last prompt has not ended.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the last sentence so far; it may not be complete.
    pub fn last_sentence(&self) -> Option<String> {
        let line = prose(self.end.as_str()).into_iter().flatten().last()?;
        let sentence = one_line(last_sentence(&line));
        Some(sentence).filter(|sentence| !sentence.is_empty())
    }

    /// Returns true if the answer contains a text that was read from a screen, which has no Markdown.
    pub fn contains(&self, shown: &str) -> bool {
        let answer: String = letters(self.end.as_str()).collect();
        let shown: String = letters(shown).collect();
        answer.contains(&shown)
    }

    /// Returns the conclusion: the first sentence of the last paragraph.
    pub fn conclusion(&self) -> Option<String> {
        conclusion(self.end.as_str())
    }
}

/// Returns the first sentence of a text's last paragraph that is neither code nor a table. Of a text that has tables only,
/// it is the last row.
pub(super) fn conclusion(text: &str) -> Option<String> {
    let Some(paragraph) = prose(text).pop() else {
        let rows = text.lines().map(str::trim);
        let mut rows =
            rows.filter(|row| row.starts_with('|') && row.contains(char::is_alphanumeric));
        let cells = rows.next_back()?.split('|').map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        return Some(one_line(&cells.join(" | ")));
    };
    let paragraph = paragraph.join(" ");
    let sentence = one_line(first_sentence(&paragraph));
    Some(sentence).filter(|sentence| !sentence.is_empty())
}

/// Returns what a tool does in one line, without the names of its arguments.
pub(super) fn tool_in_words(tool: &str, arguments: &str) -> String {
    match tool_question(tool, arguments) {
        Some(what) if what != tool => one_line(&format!("{tool} {what}")),
        _ => one_line(tool),
    }
}

/// Returns true for what a terminal or a shell prints of its own: the name of a key (`^C`), `exit` at the end of its input,
/// and what it says of a job that the user has put in the background or has stopped (`[1] 7181`, `[1]+  Stopped  make`,
/// `[1]  + 7181 suspended  vim`).
pub(super) fn is_echo(line: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let is_stop = |word: &str| matches!(word, "Stopped" | "suspended");
    let job = line.strip_prefix('[').and_then(|job| job.split_once(']'));
    let is_notice = job.is_some_and(|(job, rest)| {
        let mut words = rest.trim_start_matches(['+', '-', ' ']).split_whitespace();
        let first = words.next().unwrap_or_default();
        let is_of_process = is_number(first) && words.next().is_none_or(is_stop);
        is_number(job) && (is_of_process || is_stop(first))
    });
    line.strip_prefix('^').is_some_and(|key| key.len() == 1)
        || matches!(line, "exit" | "logout")
        || is_notice
}

/// Returns the paragraphs of a text in Markdown: lines without their marks, and without code, tables, rules and the
/// marker that ends a turn.
fn prose(text: &str) -> Vec<Vec<String>> {
    let mut paragraphs = vec![Vec::new()];
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
        } else if line.is_empty() {
            paragraphs.push(Vec::new());
        } else if !is_code
            && !line.starts_with('|')
            && !is_default_marker(line)
            && line.contains(char::is_alphanumeric)
        {
            let line = line.trim_start_matches(['#', '>', '*', '-', '+', '•', '●', ' ']);
            let line = line.replace("**", "").replace('`', "");
            if let Some(last) = paragraphs.last_mut() {
                last.push(line);
            }
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

/// The times of an agent's last turn, which began before the observation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EarlierTurn {
    pub(super) began: Option<Timestamp>,
    /// `None` while the turn goes on.
    pub(super) ended: Option<Timestamp>,
    /// The time of the agent's last words or tool, while the turn goes on.
    pub(super) acted: Option<Timestamp>,
    /// The time at which the conversation was found.
    pub(super) found: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::END_BYTES_MAX;

    #[test]
    fn a_conclusion_is_the_first_sentence_of_the_last_paragraph() {
        for (answer, expected) in [
            ("Done.", "Done."),
            (
                "I looked around.\n\nAll 12 tests pass now. You can merge it.",
                "All 12 tests pass now.",
            ),
            (
                "## Result\n\n- **Fixed** `a.rs`, e.g. line 3. More\n- b",
                "Fixed a.rs, e.g. line 3.",
            ),
            (
                "It is fixed in version 1.2.3 of the\nlibrary! Ok.\n\n```sh\nmake test. now\n```\n",
                "It is fixed in version 1.2.3 of the library!",
            ),
            (
                "Summary of it. See:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
                "Summary of it.",
            ),
            ("1. First do this. Then that", "1. First do this."),
            (
                "All steps are done.\n\n[Output Complete]",
                "All steps are done.",
            ),
            (
                "All steps are done.\n\nOutput Complete",
                "All steps are done.",
            ),
            ("完成了。测试通过。", "完成了。"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n", "1 | 2"),
        ] {
            assert_eq!(conclusion(answer).as_deref(), Some(expected), "{answer}");
        }
        for nothing in ["", "\n\n", "```\ncode\n```", "───"] {
            assert_eq!(conclusion(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_last_sentence_grows_with_the_answer() {
        let mut answer = AnswerEnd::default();
        for (piece, expected) in [
            ("I read ", "I read"),
            ("the file. Now", "Now"),
            (" I run the tests.", "Now I run the tests."),
            ("\n\n```sh\nmake", "Now I run the tests."),
            ("\n```\nThey pass", "They pass"),
        ] {
            answer.push(piece);
            assert_eq!(answer.last_sentence().as_deref(), Some(expected));
        }
        for _ in 0..1_000 {
            answer.push("long ago ");
        }
        assert!(answer.end.as_str().len() <= 2 * END_BYTES_MAX);
    }

    #[test]
    fn a_tool_is_shown_by_what_it_does() {
        for (tool, arguments, expected) in [
            (
                "Bash",
                r#"{"command":"make test","description":"x"}"#,
                "Bash make test",
            ),
            ("Read", r#"{"file_path":"/w/a.rs"}"#, "Read /w/a.rs"),
            ("TodoRead", "{}", "TodoRead"),
            ("exec", "ls -l", "exec ls -l"),
        ] {
            assert_eq!(tool_in_words(tool, arguments), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_one_line_at_most(pieces in prop::collection::vec("(?s).{0,80}", 0..8)) {
            let mut answer = AnswerEnd::default();
            for piece in &pieces {
                answer.push(piece);
            }
            for line in [answer.last_sentence(), answer.conclusion()].into_iter().flatten() {
                prop_assert!(!line.contains('\n') && !line.is_empty());
            }
        }
    }
}
