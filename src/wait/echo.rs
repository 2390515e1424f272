//! Which lines are command lines that somebody typed: where a prompt stood, and what was typed
//! behind it (pure).
//!
//! tmux does not tell what is an echo. What is known: a line on which the cursor rested behind a
//! prompt, and which goes on with other text, was typed into; and so was a line that begins with
//! exactly a prompt that was seen, if that is long enough to be no accident. What is typed while a
//! program runs, or at a prompt that was never at rest during a look, cannot be told from output.

use std::collections::VecDeque;

/// Characters that prompts end with, before a blank or the cursor.
const ENDS: &[char] = &['$', '#', '>', '%', '❯', '»', '›', 'λ', '➜'];

/// Of these, those that output has so often that they count only where nothing is behind them.
const AMBIGUOUS: &[char] = &['>', '%'];

/// A prompt shorter than this may well be how a line of output begins (`$ make` in a build's log).
const PROMPT_CHARS_MIN: usize = 6;

/// Prompts that are remembered: a shell's changes with its directory.
const PROMPTS_MAX: usize = 16;

/// Lines that prompts stood on.
const LINES_MAX: usize = 256;

/// What is known of typed lines in one pane.
#[derive(Debug, Default)]
pub(super) struct EchoDetector {
    prompts: VecDeque<String>,
    /// The numbers of lines on which a prompt stood, and the prompt.
    stood: VecDeque<(i64, String)>,
}

impl EchoDetector {
    /// The line of the cursor, up to the cursor, in a look.
    pub fn note(&mut self, number: i64, text: &str) {
        let Some(prompt) = prompt_of(text) else {
            return;
        };
        if self.stood.iter().any(|(known, _)| *known == number) {
            return;
        }
        if self.stood.len() >= LINES_MAX {
            self.stood.pop_front();
        }
        self.stood.push_back((number, prompt.to_owned()));
        let is_known = self.prompts.iter().any(|known| known == prompt);
        if !is_known && prompt.chars().count() >= PROMPT_CHARS_MIN {
            if self.prompts.len() >= PROMPTS_MAX {
                self.prompts.pop_front();
            }
            self.prompts.push_back(prompt.to_owned());
        }
    }

    /// Whether the line was typed.
    pub fn is_typed(&self, number: i64, text: &str) -> bool {
        let goes_on = |prompt: &str| {
            text.strip_prefix(prompt)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let stood_here =
            (self.stood.iter()).any(|(line, prompt)| *line == number && goes_on(prompt));
        stood_here || self.prompts.iter().any(|prompt| goes_on(prompt))
    }
}

/// The prompt that a line begins with, without the blanks behind it.
fn prompt_of(text: &str) -> Option<&str> {
    let trimmed = text.trim_end();
    // A percentage is progress, which may go on with what is waited for.
    let is_share = trimmed
        .strip_suffix('%')
        .is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()));
    if trimmed.ends_with(ENDS) && !is_share {
        return Some(trimmed);
    }
    // Something was typed already.
    let clear = |c: char| ENDS.contains(&c) && !AMBIGUOUS.contains(&c);
    text.char_indices()
        .filter(|(_, c)| clear(*c))
        .map(|(at, c)| at + c.len_utf8())
        .find(|end| text[*end..].starts_with(' '))
        .map(|end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_known_by_their_ends() {
        for (text, prompt) in [
            ("$ ", Some("$")),
            ("user@host:~/x$ ", Some("user@host:~/x$")),
            ("user@host:~/x$ make te", Some("user@host:~/x$")),
            ("host% ", Some("host%")),
            ("> ", Some(">")),
            ("~/x ❯ cargo", Some("~/x ❯")),
            ("50% of it", None),
            ("copied 50%", None),
            ("a > b", None),
            ("Compiling... ", None),
            ("", None),
            ("Continue? [y/N] ", None),
        ] {
            assert_eq!(prompt_of(text), prompt, "{text:?}");
        }
    }

    #[test]
    fn what_is_typed_behind_a_prompt_is_no_output() {
        let mut echo = EchoDetector::default();
        echo.note(5, "$ ");
        echo.note(7, "user@host:~$ ");
        echo.note(8, "working on it ");
        for (number, text, is_typed) in [
            (5, "$ echo DONE", true),
            (5, "$5 are DONE", false),
            (6, "$ echo DONE", false),
            (7, "user@host:~$ echo DONE", true),
            (9, "user@host:~$ echo DONE", true),
            (9, "user@host:~$", true),
            (8, "working on it DONE", false),
        ] {
            assert_eq!(echo.is_typed(number, text), is_typed, "{number} {text:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut echo = EchoDetector::default();
        for number in 0..10_000 {
            echo.note(number, &format!("prompt number {number} $ "));
        }
        assert!(echo.prompts.len() <= PROMPTS_MAX && echo.stood.len() <= LINES_MAX);
        assert!(echo.is_typed(9_999, "prompt number 9999 $ ls"));
    }
}
