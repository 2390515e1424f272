//! Detection of typed command lines, by the prompts in front of them (pure).
//!
//! tmux does not mark echoed input. A line was typed if the cursor rested on it after a prompt and the line
//! then continued with other text. A line that begins with a known prompt was also typed, if the prompt is too
//! long to be a coincidence. Input to a running program, and input at a prompt that no capture has shown
//! empty, cannot be distinguished from output.

use std::collections::VecDeque;

/// The last characters of prompts, before a blank or the cursor.
const PROMPT_ENDS: &[char] = &['$', '#', '>', '%', '❯', '»', '›', 'λ', '➜'];

/// Characters that output contains so often that they count only at the end of a line.
const AMBIGUOUS: &[char] = &['>', '%'];

/// Minimum length of a prompt that is recognized on any line: output may begin like a shorter one (`$ make`
/// in a build's log).
const PROMPT_CHARS_MIN: usize = 6;

/// Maximum number of remembered prompts: the prompt of a shell changes with its directory.
const PROMPTS_MAX: usize = 16;

/// Maximum number of remembered lines with a prompt.
const LINES_MAX: usize = 256;

/// The prompts of one pane.
#[derive(Debug, Default)]
pub(super) struct EchoDetector {
    prompts: VecDeque<String>,
    /// The numbers of lines with a prompt, and the prompt.
    prompt_lines: VecDeque<(i64, String)>,
}

impl EchoDetector {
    /// Remembers the prompt, if any, on the cursor's line of a capture. `text` ends at the cursor.
    pub fn note(&mut self, number: i64, text: &str) {
        let Some(prompt) = prompt_of(text) else {
            return;
        };
        if self.prompt_lines.iter().any(|(known, _)| *known == number) {
            return;
        }
        if self.prompt_lines.len() >= LINES_MAX {
            self.prompt_lines.pop_front();
        }
        self.prompt_lines.push_back((number, prompt.to_owned()));
        let is_known = self.prompts.iter().any(|known| known == prompt);
        if !is_known && prompt.chars().count() >= PROMPT_CHARS_MIN {
            if self.prompts.len() >= PROMPTS_MAX {
                self.prompts.pop_front();
            }
            self.prompts.push_back(prompt.to_owned());
        }
    }

    /// Returns true if a line was typed.
    pub fn is_typed(&self, number: i64, text: &str) -> bool {
        let continues = |prompt: &str| {
            text.strip_prefix(prompt)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let has_prompt =
            (self.prompt_lines.iter()).any(|(line, prompt)| *line == number && continues(prompt));
        has_prompt || self.prompts.iter().any(|prompt| continues(prompt))
    }
}

/// Returns the prompt at the beginning of a line, without trailing blanks.
fn prompt_of(text: &str) -> Option<&str> {
    let trimmed = text.trim_end();
    // A percentage shows progress; its line may continue with a match.
    let is_percentage = trimmed
        .strip_suffix('%')
        .is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()));
    if trimmed.ends_with(PROMPT_ENDS) && !is_percentage {
        return Some(trimmed);
    }
    // Input already follows the prompt.
    let is_clear = |c: char| PROMPT_ENDS.contains(&c) && !AMBIGUOUS.contains(&c);
    text.char_indices()
        .filter(|(_, c)| is_clear(*c))
        .map(|(at, c)| at + c.len_utf8())
        .find(|end| text[*end..].starts_with(' '))
        .map(|end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_recognized_by_their_ends() {
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
    fn typed_lines_are_not_output() {
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
    fn the_memory_is_bounded() {
        let mut echo = EchoDetector::default();
        for number in 0..10_000 {
            echo.note(number, &format!("prompt number {number} $ "));
        }
        assert!(echo.prompts.len() <= PROMPTS_MAX && echo.prompt_lines.len() <= LINES_MAX);
        assert!(echo.is_typed(9_999, "prompt number 9999 $ ls"));
    }
}
