//! aider's chat history, which is Markdown: prompts, replies and aider's own lines (pure).
//!
//! Measured on 0.86.2, `.aider.chat.history.md`: a line of a prompt begins with `#### `, a line of
//! aider itself with `> `, and a session with `# aider chat started at …`; all other lines are the
//! reply. `> Tokens: … sent, … received.` ends a reply, and the turn unless aider goes on by itself: after an edit,
//! a lint or a test that failed. `> litellm.…Error: …` is an error, `> ^C again to exit` an interruption. `> Retrying in 0.5 seconds...` follows an error that may be
//! temporary. Lines of aider itself end with two blanks.

use super::json::Json;
use super::note::{RecordNote, cost};
use super::{EventWriter, RecordHandler, StreamStatus, TokenUsage};

/// The beginning of the line that begins a session; the local time follows.
pub(crate) const SESSION_BEGIN: &str = "# aider chat started at ";

#[derive(Debug, Default)]
pub(super) struct AiderHistory {
    prompt: String,
    reply: String,
    /// The last error of the turn, which each attempt repeats.
    error: String,
    /// True while aider retries a failed request.
    is_retrying: bool,
}

impl RecordHandler for AiderHistory {
    fn is_text(&self) -> bool {
        true
    }

    fn record(&mut self, _record: &Json<'_>, _writer: &mut EventWriter) {}

    fn line(&mut self, line: &str, writer: &mut EventWriter) {
        if let Some(text) = line.strip_prefix("#### ") {
            self.write_reply(TokenUsage::default(), writer);
            if !self.prompt.is_empty() {
                self.prompt.push('\n');
            }
            self.prompt.push_str(text.trim_end());
        } else if let Some(own) = line.strip_prefix("> ") {
            self.write_prompt(writer);
            self.own_line(own.trim_end(), writer);
        } else if line.starts_with(SESSION_BEGIN) {
            self.prompt.clear();
            self.reply.clear();
            writer.set_status(StreamStatus::Unknown, "");
        } else if !line.trim().is_empty() || !self.reply.is_empty() {
            self.write_prompt(writer);
            self.reply.push_str(line);
            self.reply.push('\n');
        }
    }

    fn bytes_end(&mut self, writer: &mut EventWriter) {
        // aider writes all lines of a prompt at once.
        self.write_prompt(writer);
    }

    fn finish(&mut self, writer: &mut EventWriter) {
        self.write_prompt(writer);
        self.write_reply(TokenUsage::default(), writer);
        writer.finish();
    }
}

impl AiderHistory {
    fn own_line(&mut self, text: &str, writer: &mut EventWriter) {
        let is_retry = text.starts_with("Retrying in ");
        // Blank lines and hints follow the line that announces a retry.
        self.is_retrying = is_retry || self.is_retrying && !is_error(text);
        writer.note(cost_in(text));
        if let Some(usage) = tokens(text) {
            let reply = self.reply.clone();
            self.write_reply(usage, writer);
            if !reply.trim().is_empty() {
                writer.answered(&reply, false);
            }
        } else if is_error(text) && writer.status == StreamStatus::Working {
            self.write_reply(TokenUsage::default(), writer);
            self.failed(text, writer);
        } else if is_retry && writer.status == StreamStatus::Failed {
            writer.working("it tries again");
        } else if text.starts_with("^C")
            && (writer.status == StreamStatus::Working || self.is_retrying)
        {
            self.is_retrying = false;
            self.write_reply(TokenUsage::default(), writer);
            writer.interrupted("a human interrupted it".to_owned());
        }
    }

    fn write_prompt(&mut self, writer: &mut EventWriter) {
        let prompt = std::mem::take(&mut self.prompt);
        // aider writes a blank line of a prompt as `<blank>`.
        if !prompt.is_empty() && prompt != "<blank>" && !is_command(&prompt) {
            self.error.clear();
            self.is_retrying = false;
            writer.prompt_sent(&prompt);
        }
    }

    /// Reports an error once, even if it is repeated.
    fn failed(&mut self, text: &str, writer: &mut EventWriter) {
        const EVIDENCE: &str = "an error of the model's API";
        if self.error == text {
            writer.set_status(StreamStatus::Failed, EVIDENCE);
        } else {
            writer.failed(text, EVIDENCE);
            text.clone_into(&mut self.error);
        }
    }

    fn write_reply(&mut self, usage: TokenUsage, writer: &mut EventWriter) {
        let reply = std::mem::take(&mut self.reply);
        let reply = reply.trim_end();
        if !reply.is_empty() {
            writer.set_answer(reply);
            writer.token(reply.to_owned().into());
            writer.response_completed(reply, usage, false);
        }
    }
}

/// Parses `Tokens: 4.4k sent, 210 received.`, which costs may follow.
fn tokens(text: &str) -> Option<TokenUsage> {
    let counts = text.strip_prefix("Tokens: ")?;
    let number = |what: &str| {
        let before = counts.split(what).next()?;
        let word = before.split([' ', ',']).rfind(|word| !word.is_empty())?;
        let (digits, factor) = match word.strip_suffix('k') {
            Some(digits) => (digits, 1_000.0),
            None => (word, 1.0),
        };
        let count: f64 = digits.parse().ok()?;
        Some((count * factor) as u64)
    };
    Some(TokenUsage {
        input_tokens: number(" sent")?,
        output_tokens: number(" received")?,
        ..TokenUsage::default()
    })
}

/// Parses the cost of a message in `Tokens: 4.4k sent, 210 received. Cost: $0.0067 message, $0.02 session.`, of which the
/// cost is a line of its own if caches were used.
fn cost_in(text: &str) -> Option<RecordNote> {
    let is_usage = text.starts_with("Tokens: ") || text.starts_with("Cost: ");
    let (_, costs) = text.split_once("Cost: $").filter(|_| is_usage)?;
    let (dollars, _) = costs.split_once(" message")?;
    cost(dollars.parse().ok()?)
}

/// Returns true if a prompt is a command of aider, which is not sent to a model.
fn is_command(prompt: &str) -> bool {
    const FOR_THE_MODEL: &[&str] = &["/ask", "/code", "/architect", "/context", "/lint", "/test"];
    let word = prompt.split_whitespace().next().unwrap_or_default();
    word.starts_with('/') && !FOR_THE_MODEL.contains(&word)
}

fn is_error(text: &str) -> bool {
    let word = text.split([':', ' ']).next().unwrap_or_default();
    let is_api =
        word.starts_with("litellm.") && (word.ends_with("Error") || word.ends_with("Exception"));
    is_api || text.starts_with("Empty response received from LLM")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::stream::event::AgentEvent;
    use crate::agent::{StreamFormat, StreamParser};
    use crate::timestamp::Timestamp;

    /// Returns the status after a history, and the errors that were reported.
    fn read(history: &str) -> (StreamStatus, Vec<String>) {
        let (mut parser, mut events) = (StreamParser::of(StreamFormat::AiderHistory), Vec::new());
        parser.push(history.as_bytes(), Timestamp::default(), &mut events);
        let errors = events.iter().filter_map(|event| match event {
            AgentEvent::AgentFailed { error, .. } => Some(error.clone()),
            _ => None,
        });
        (parser.status(), errors.collect())
    }

    #[test]
    fn a_retried_error_does_not_end_the_turn() {
        const PROMPT: &str = "#### go on  \n";
        const FAILED: &str = "> litellm.APIError: APIError: OpenAIException - no access  \n";
        const AGAIN: &str = "> Retrying in 0.5 seconds...  \n";
        const LIMIT: &str =
            "> litellm.RateLimitError: RateLimitError: OpenAIException - rate limit  \n";
        let (status, errors) = read(&[PROMPT, FAILED, AGAIN].concat());
        assert_eq!((status, errors.len()), (StreamStatus::Working, 1));
        let (status, errors) = read(&[PROMPT, FAILED, AGAIN, FAILED, AGAIN, FAILED].concat());
        assert_eq!((status, errors.len()), (StreamStatus::Failed, 1));
        // Another turn fails with the same error.
        let (_, errors) = read(&[PROMPT, FAILED, PROMPT, FAILED].concat());
        assert_eq!(errors.len(), 2);
        let (status, _) = read(&[PROMPT, LIMIT, AGAIN].concat());
        assert_eq!(status, StreamStatus::Working);
        let (status, errors) = read(&[PROMPT, LIMIT, AGAIN, LIMIT].concat());
        assert_eq!((status, errors.len()), (StreamStatus::Failed, 1));
        // The user stops the retries, or presses the key when nothing runs.
        const STOPPED: &str = ">  \n> ^C again to exit  \n";
        let (status, _) = read(&[PROMPT, LIMIT, AGAIN, STOPPED].concat());
        assert_eq!(status, StreamStatus::Interrupted);
        let (status, _) = read(&[PROMPT, LIMIT, AGAIN, LIMIT, STOPPED].concat());
        assert_eq!(status, StreamStatus::Failed);
    }

    #[test]
    fn a_reply_after_which_aider_goes_on_ends_no_turn() {
        let (mut parser, mut events) = (StreamParser::of(StreamFormat::AiderHistory), Vec::new());
        let history = "#### fix it  \n\nI edit it.\n\n> Tokens: 1k sent, 9 received.  \n\
            > The LLM did not conform to the edit format.  \n\nNow it is right.\n\n\
            > Tokens: 2k sent, 9 received.  \n";
        parser.push(history.as_bytes(), Timestamp::default(), &mut events);
        let turns = |events: &[AgentEvent]| -> Vec<String> {
            let turns = events.iter().filter_map(|event| match event {
                AgentEvent::TurnCompleted { summary, .. } => Some(summary.clone()),
                _ => None,
            });
            turns.collect()
        };
        assert_eq!(turns(&events), [""; 0]);
        assert_eq!(parser.status(), StreamStatus::MaybeDone);
        // aider shows its prompt again.
        parser.end_turn(Timestamp::default(), &mut events);
        assert_eq!(turns(&events), ["Now it is right."]);
        assert_eq!(parser.status(), StreamStatus::Done);
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let (mut parser, mut events) = (StreamParser::of(StreamFormat::AiderHistory), Vec::new());
        parser.push(b"#### hi", Timestamp::default(), &mut events);
        assert_eq!(events, []);
        parser.finish(Timestamp::default(), &mut events);
        assert!(
            matches!(&events[..], [AgentEvent::PromptSent { prompt_summary, .. }, ..] if prompt_summary == "hi"),
            "{events:?}"
        );
    }

    #[test]
    fn token_counts_are_parsed() {
        let usage = tokens("Tokens: 4.4k sent, 210 received. Cost: $0.01 message").unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (4_400, 210));
        let usage = tokens("Tokens: 592 sent, 34 received.").unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (592, 34));
        assert!(tokens("Tokens: none").is_none());
        assert!(tokens("Repo-map: using 1024 tokens").is_none());
    }

    #[test]
    fn commands_are_not_prompts() {
        assert!(is_command("/clear") && is_command("/add a.rs"));
        assert!(!is_command("/ask why") && !is_command("look at /tmp") && !is_command(""));
    }
}
