//! Finds signs in a command's output that it has asked for input although its input is closed (pure).
//!
//! A read from a closed input leaves no trace outside of the command, so its output decides: it ends with an
//! open question, or reports that there was no answer. A wrong sign costs a line with a hint.

use crate::child::OutputStream;

/// The end of each output that is examined: a program without an answer soon ends.
const TAIL_BYTES: usize = 2 * 1024;

/// The longest line that is a question.
const QUESTION_BYTES: usize = 200;

/// Texts, in lower case, that ask for an answer or miss one.
const SIGNS: &[&str] = &[
    "[y/n",
    "(y/n",
    "[yes/no",
    "(yes/no",
    "eoferror",
    "eof when reading",
    "eof on stdin",
    "end of file on standard input",
    "not a tty",
    "not a terminal",
    "no tty present",
    "a terminal is required",
];

/// Words, in lower case, with which a question begins whose answer is missing, so that the next text follows it:
/// `Name: hello`. It is among the last lines, because such a program soon ends.
const BEGINNINGS: &[&str] = &[
    "are you sure",
    "choose",
    "continue",
    "do you want",
    "email",
    "enter ",
    "login",
    "name",
    "overwrite",
    "passphrase",
    "password",
    "please ",
    "press ",
    "proceed",
    "select ",
    "user",
    "what ",
    "which ",
    "your ",
];
const LAST_LINES: usize = 3;

/// The ends of a command's two outputs.
#[derive(Debug, Default)]
pub(super) struct Questions {
    tails: [Vec<u8>; 2],
    /// For each output: what follows the last piece that was printed as a question, if one was.
    answers: [Option<Vec<u8>>; 2],
}

impl Questions {
    /// Adds bytes of an output, as they were read.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let tail = &mut self.tails[stream.index()];
        let kept = bytes.len().min(TAIL_BYTES);
        let excess = (tail.len() + kept).saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
        tail.extend_from_slice(&bytes[bytes.len() - kept..]);
        let answer = &mut self.answers[stream.index()];
        if is_question(open_line(bytes)) {
            *answer = Some(Vec::new());
        } else if let Some(after) = answer {
            after.extend_from_slice(&bytes[..bytes.len().min(QUESTION_BYTES)]);
            // The command went on: this was a label.
            if memchr::memchr_iter(b'\n', after).count() > 1 || after.len() > QUESTION_BYTES {
                *answer = None;
            }
        }
    }

    /// Returns true if the output shows a question. After a failure, the last line is one even if it is complete.
    pub fn has_asked(&self, has_failed: bool) -> bool {
        let is_asked = |tail: &Vec<u8>| {
            let text = String::from_utf8_lossy(tail).to_ascii_lowercase();
            // Without an answer, the next text follows in the same line.
            let is_unanswered = |line: &str| {
                let begins = || {
                    BEGINNINGS
                        .iter()
                        .any(|word| line.trim_start().starts_with(word))
                };
                line.len() <= QUESTION_BYTES
                    && (line.contains("? ") || (line.contains(": ") && begins()))
            };
            let mut last = text.trim_end().lines().rev().take(LAST_LINES);
            is_question(open_line(tail))
                || (has_failed && is_question(open_line(tail.trim_ascii_end())))
                || last.any(is_unanswered)
                || SIGNS.iter().any(|sign| text.contains(sign))
        };
        self.answers.iter().any(Option::is_some) || self.tails.iter().any(is_asked)
    }
}

/// Returns the text after the last line end.
fn open_line(bytes: &[u8]) -> &[u8] {
    let end = memchr::memrchr(b'\n', bytes);
    &bytes[end.map_or(0, |at| at + 1)..]
}

/// Returns true if an open line ends as questions do: `Name: `, `Continue? `, `> `.
fn is_question(line: &[u8]) -> bool {
    let text = line.trim_ascii_end();
    line.len() <= QUESTION_BYTES
        && (text.ends_with(b"?")
            || text.ends_with(b":")
            || (text.len() < line.len() && text.ends_with(b">")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputStream::{Stderr, Stdout};

    fn has_asked_before(has_failed: bool, pieces: &[(OutputStream, &str)]) -> bool {
        let mut questions = Questions::default();
        for (stream, text) in pieces {
            questions.push(*stream, text.as_bytes());
        }
        questions.has_asked(has_failed)
    }

    fn has_asked(pieces: &[(OutputStream, &str)]) -> bool {
        has_asked_before(false, pieces)
    }

    #[test]
    fn a_complete_line_before_a_failure_may_be_a_question() {
        for text in ["Enter your name:\n", "What is it?\r\n"] {
            assert!(has_asked_before(true, &[(Stdout, text)]), "{text}");
            assert!(!has_asked_before(false, &[(Stdout, text)]), "{text}");
        }
        for text in ["Name:\nnot found\n", "[====>\n", "\n"] {
            assert!(!has_asked_before(true, &[(Stderr, text)]), "{text}");
        }
    }

    #[test]
    fn questions_are_found_and_other_output_is_not() {
        for pieces in [
            &[(Stdout, "Name: ")][..],
            &[(Stdout, "Name: "), (Stdout, "hello \n")],
            &[(Stdout, "Name? hello \n")],
            &[(Stdout, "Enter your name: hello \nand more\n")],
            &[(Stdout, "Username: hello \n")],
            &[(Stdout, "Do you want to continue? [Y/n] Abort.\n")],
            &[
                (Stdout, "Name: "),
                (Stderr, "Traceback\nEOFError: EOF when reading a line\n"),
            ],
            &[(Stderr, "rm: remove regular file 'x'? ")],
            &[(
                Stderr,
                "sudo: a terminal is required to read the password\n",
            )],
            &[(Stderr, "the input device is not a TTY\n")],
            &[(Stdout, "mysql> ")],
        ] {
            assert!(has_asked(pieces), "{pieces:?}");
        }
        for pieces in [
            &[][..],
            &[(Stdout, "ok\n")],
            &[(Stderr, "error: no such file\n")],
            &[(Stdout, "test result: ok. 5 passed; 0 failed\n")],
            &[(Stderr, "Press CTRL+C to quit\n")],
            &[(Stdout, "Name: job\nState: done\nStart: now\nEnd: now\n")],
            &[
                (Stdout, "Building: "),
                (Stdout, "done\nTesting\n"),
                (Stdout, "ok\n"),
            ],
            &[(Stdout, "[====>    ] 40%")],
            &[(Stdout, "no line end")],
        ] {
            assert!(!has_asked(pieces), "{pieces:?}");
        }
        let long = "x".repeat(3 * TAIL_BYTES) + ": ";
        assert!(!has_asked(&[(Stdout, &long)]));
    }
}
