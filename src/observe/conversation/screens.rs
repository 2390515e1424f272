//! Tells by what a screen shows which of several files is the conversation on it.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::agent::{AgentEvent, StreamFormat, StreamParser};
use crate::observe::file_bytes::read_at;
use crate::timestamp::Timestamp;

/// How much of a file's end is read for its last messages.
const TAIL_BYTES: u64 = 256 * 1024;

/// Messages of a file that are looked for on the screen.
const MESSAGES: usize = 4;

/// Letters and digits of a message that are looked for: a message of fewer tells little.
const LETTERS: usize = 40;
const LETTERS_MIN: usize = 4;

/// The file, the newest first, of whose last messages the screen shows the most; `None` where it shows
/// none, or as many of two of them.
pub(super) fn choose(files: &[PathBuf], format: StreamFormat, screen: &str) -> Option<PathBuf> {
    let screen = letters(screen);
    let mut scored: Vec<(usize, &PathBuf)> = files
        .iter()
        .map(|file| (score(&last_messages(file, format), &screen), file))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    match scored[..] {
        [(_, only)] => Some(only.clone()),
        [(most, first), (next, _), ..] if most > next => Some(first.clone()),
        _ => None,
    }
}

/// How many letters of these messages the screen shows.
fn score(messages: &[String], screen: &str) -> usize {
    let shown = messages.iter().map(|message| {
        let letters = letters(message);
        let count = letters.chars().count();
        if count < LETTERS_MIN {
            return 0;
        }
        // A long message may have scrolled: its beginning or its end is on the screen.
        let begin: String = letters.chars().take(LETTERS).collect();
        let end: String = letters
            .chars()
            .skip(count.saturating_sub(LETTERS))
            .collect();
        match screen.contains(&begin) || screen.contains(&end) {
            true => count.min(LETTERS),
            false => 0,
        }
    });
    shown.sum()
}

/// A text without what a screen changes: blanks, line ends, frames and Markdown.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

fn last_messages(file: &Path, format: StreamFormat) -> Vec<String> {
    let Ok(bytes) = tail(file) else {
        return Vec::new();
    };
    let mut events = Vec::new();
    StreamParser::of(format).push(&bytes, Timestamp::default(), &mut events);
    let messages = events.into_iter().rev().filter_map(|event| match event {
        AgentEvent::PromptSent { prompt_summary, .. } => Some(prompt_summary),
        AgentEvent::TokenReceived { token } => Some(token),
        _ => None,
    });
    messages.take(MESSAGES).collect()
}

fn tail(file: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(file)?;
    let bytes = file.metadata()?.len();
    let start = bytes.saturating_sub(TAIL_BYTES);
    let mut buffer = read_at(&file, start, bytes - start)?;
    if start > 0 {
        let cut = memchr::memchr(b'\n', &buffer).map_or(buffer.len(), |at| at + 1);
        buffer.drain(..cut);
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_that_a_screen_shows_count() {
        let screen = letters("│ > fix the te\n│ sts please │\n● All tests are fixed now.");
        let messages = [
            "fix the tests please".to_owned(),
            "All **tests** are fixed now.".to_owned(),
        ];
        assert_eq!(score(&messages, &screen), 17 + 19);
        assert_eq!(score(&["something else".to_owned()], &screen), 0);
        assert_eq!(score(&["a".to_owned()], &screen), 0, "too short to tell");
    }
}
