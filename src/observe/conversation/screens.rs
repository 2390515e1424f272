//! Chooses among several files the conversation that a screen shows.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::agent::{AgentEvent, StreamFormat, StreamParser};
use crate::observe::file_bytes::{after_partial_line, read_at};
use crate::timestamp::Timestamp;

/// The bytes of a file's end that are read for its last messages.
const TAIL_BYTES: u64 = 256 * 1024;

/// The most messages of a file that are searched on the screen.
const MESSAGES: usize = 16;

/// The letters and digits of a message that are compared; fewer than the minimum prove little.
const LETTERS: usize = 40;
const LETTERS_MIN: usize = 4;

/// Returns the file with the lowest message on the screen that no other file has, if there is one.
pub(super) fn choose(files: &[PathBuf], format: StreamFormat, screen: &str) -> Option<PathBuf> {
    let messages: Vec<Vec<String>> = files
        .iter()
        .map(|file| last_messages(file, format))
        .collect();
    lowest(&messages, &letters(screen)).map(|at| files[at].clone())
}

/// Returns the conversation with the lowest message on the screen that no other conversation has.
fn lowest(conversations: &[Vec<String>], screen: &str) -> Option<usize> {
    let places = conversations.iter().enumerate().filter_map(|(at, own)| {
        let others = || {
            conversations
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
        };
        let is_its = |message: &&String| !others().any(|(_, other)| other.contains(message));
        let shown = own.iter().filter(is_its);
        let place = shown.filter_map(|message| place(message, screen)).max()?;
        Some((place, at))
    });
    places.max().map(|(_, at)| at)
}

/// Returns the position of a message on the screen, or of the visible end or beginning of a long one.
fn place(message: &str, screen: &str) -> Option<usize> {
    let count = message.chars().count();
    if count < LETTERS_MIN {
        return None;
    }
    let begin: String = message.chars().take(LETTERS).collect();
    let end: String = message
        .chars()
        .skip(count.saturating_sub(LETTERS))
        .collect();
    screen.rfind(&end).or_else(|| screen.rfind(&begin))
}

/// Returns the letters and digits of a text, which a screen does not change.
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
        AgentEvent::PromptSent { prompt_summary, .. } => Some(letters(&prompt_summary)),
        // Short answers occur in many conversations, of which not all are known.
        AgentEvent::TokenReceived { token } => {
            Some(letters(&token)).filter(|letters| letters.chars().count() >= LETTERS)
        }
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
        buffer.drain(..after_partial_line(&buffer));
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversations(of: &[&[&str]]) -> Vec<Vec<String>> {
        let letters = |messages: &&[&str]| messages.iter().map(|text| letters(text)).collect();
        of.iter().map(letters).collect()
    }

    #[test]
    fn the_messages_that_a_screen_shows_count() {
        let screen = letters("│ > fix the te\n│ sts please │\n● All tests are fixed now.");
        let shown: &[&str] = &["fix the tests please", "All **tests** are fixed now."];
        let others: &[&str] = &["something else", "a"];
        let of = |of: &[&[&str]]| lowest(&conversations(of), &screen);
        assert_eq!(of(&[others, shown]), Some(1));
        assert_eq!(of(&[others]), None, "not shown, or too short to prove it");
    }

    #[test]
    fn shared_messages_are_ignored_and_the_lowest_other_one_decides() {
        let screen = letters("> before b\nDone, that was short.");
        let a: &[&str] = &["unique a", "Done, that was short.", "before a"];
        let b: &[&str] = &["before b", "Done, that was short."];
        assert_eq!(lowest(&conversations(&[a, b]), &screen), Some(1));
        assert_eq!(lowest(&conversations(&[a, a]), &screen), None);
        let screen = letters("> old words\nyes\n> new words\nyes");
        let (old, new): (&[&str], &[&str]) = (&["old words", "yes"], &["new words", "yes"]);
        assert_eq!(lowest(&conversations(&[old, new]), &screen), Some(1));
        assert_eq!(lowest(&conversations(&[new, old]), &screen), Some(0));
    }
}
