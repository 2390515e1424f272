//! Reads the records of a conversation that were written in a span of time, with their times: events and notes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::file::{FileVersion, open, read_at, read_small};
use super::homes::format_of;
use super::transcript::{DOCUMENT_BYTES_MAX, PIECE_BYTES_MAX, journal_files, sub_agent_files};
use crate::agent::{
    AIDER_SESSION, AgentEvent, Format, KnownAgent, RecordContent, RecordNote, StreamFormat,
    StreamParser,
};
use crate::redact::Rules;
use crate::timestamp::{Timestamp, local_time};

/// An event or a note of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordedFact {
    Event(AgentEvent),
    Note(RecordNote),
}

/// What a record of a conversation says. Its texts are redacted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded<'a> {
    /// The time of the record; of one without a time, that of the record before. Of a file without times, only the last
    /// fact has one: that of the file's last change.
    pub at: Option<Timestamp>,
    /// The id of the sub-agent that wrote the record; `None` for the agent of the conversation itself.
    pub sub_agent: Option<&'a str>,
    pub fact: RecordedFact,
}

/// Reads what conversations recorded in a span of time.
pub(crate) struct RecordReader<'a> {
    pub since: Timestamp,
    pub until: Timestamp,
    /// The rules by which all texts are redacted before they are handed out.
    pub rules: &'a Rules,
    /// Ends the reading early if it returns true.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Receives what records say.
type Take<'t> = &'t mut dyn FnMut(Recorded<'_>);

impl RecordReader<'_> {
    /// Reads the file, or the directory of files, of a conversation: `file` and `agent` are those of a row of the board.
    /// The format is that of the agent, or else the one that the first records show.
    ///
    /// Gives all events in the order of the file to `take`, except [`AgentEvent::TokenReceived`], whose texts the events
    /// of responses and turns summarize, and ends of the agent that only the end of the file would show. Then follow the
    /// sub-agents of Claude Code, whose files belong to the conversation. Memory is bounded by the longest record, or by
    /// the size of a document.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a regular one. Sub-agents that cannot be read are left out.
    #[cfg_attr(
        not(feature = "report"),
        allow(dead_code, reason = "the report uses it")
    )]
    pub(crate) fn read(
        &self,
        file: &Path,
        agent: Option<&str>,
        take: &mut dyn FnMut(Recorded<'_>),
    ) -> io::Result<()> {
        let agent = agent.and_then(KnownAgent::named);
        let parser = match agent.map(|agent| (agent, format_of(agent))) {
            // These agents also write streams.
            Some((KnownAgent::Claude, _)) => StreamParser::new(Format::Claude),
            Some((KnownAgent::Codex, _)) => StreamParser::new(Format::Codex),
            Some((KnownAgent::Gemini, _)) => StreamParser::new(Format::Gemini),
            Some((_, Some(format))) => StreamParser::of(format),
            _ => StreamParser::new(Format::Auto),
        };
        let format = self.conversation(file, parser, None, take)?;
        // They may work while the agent itself waits, and its file is older than the span.
        if agent == Some(KnownAgent::Claude) || format == Some(StreamFormat::ClaudeTranscript) {
            self.sub_agents(file, take);
        }
        Ok(())
    }

    fn sub_agents(&self, conversation: &Path, take: Take<'_>) {
        let mut files: Vec<(String, PathBuf)> = sub_agent_files(conversation).collect();
        files.sort();
        for (id, file) in files {
            if (self.is_stopped)() {
                return;
            }
            let parser = StreamParser::of(StreamFormat::ClaudeTranscript);
            if let Err(error) = self.conversation(&file, parser, Some(&id), take) {
                log::debug!("{}: {error}", file.display());
            }
        }
    }

    /// Reads the files of one agent; returns their format, once it is known.
    fn conversation(
        &self,
        path: &Path,
        mut parser: StreamParser,
        sub_agent: Option<&str>,
        take: Take<'_>,
    ) -> io::Result<Option<StreamFormat>> {
        parser.keep_notes();
        let mut facts = Facts {
            reader: self,
            sub_agent,
            take,
            time: None,
            undated: None,
            held: None,
        };
        let mut files = vec![path.to_owned()];
        if parser.format() == Some(StreamFormat::VibeJournal) && path.is_dir() {
            files = journal_files(path).collect();
            files.sort();
        }
        let mut changed = None;
        for file in files {
            changed = self.file(&file, &mut parser, &mut facts)?;
            if (self.is_stopped)() {
                return Ok(parser.format());
            }
        }
        let now = changed.unwrap_or_default();
        parser.finish_records(now, &mut |content| facts.add(content));
        facts.finish(changed);
        Ok(parser.format())
    }

    /// Reads one file; returns the time of its last change, unless later parts of it are not of the span.
    fn file(
        &self,
        path: &Path,
        parser: &mut StreamParser,
        facts: &mut Facts<'_>,
    ) -> io::Result<Option<Timestamp>> {
        let file = open(path)?;
        let version = FileVersion::of(&file.metadata()?);
        let changed = version.modified();
        // Its records are older than its last change. The files of a journal continue each other.
        let is_journal = parser.format() == Some(StreamFormat::VibeJournal);
        if changed.is_some_and(|at| at < self.since) && !is_journal {
            return Ok(changed);
        }
        let now = changed.unwrap_or_default();
        let mut add = |content| facts.add(content);
        if parser.format().is_some_and(StreamFormat::is_document) {
            if version.bytes > DOCUMENT_BYTES_MAX {
                return Err(io::Error::other("the document is too long"));
            }
            let bytes = read_small(path, OFlags::empty(), DOCUMENT_BYTES_MAX);
            parser.read_records(&bytes.unwrap_or_default(), now, &mut add);
            return Ok(changed);
        }
        let (mut at, end) = match parser.format() {
            Some(StreamFormat::AiderHistory) => self.sessions(&file, version.bytes, now)?,
            _ => (0, version.bytes),
        };
        while at < end && !(self.is_stopped)() {
            let piece = read_at(&file, at, (end - at).min(PIECE_BYTES_MAX))?;
            if piece.is_empty() {
                break;
            }
            at += piece.len() as u64;
            parser.read_records(&piece, now, &mut add);
        }
        Ok(changed.filter(|_| end == version.bytes))
    }

    /// Returns the part of aider's history with the sessions of the span: its records have no times, but its sessions
    /// begin with one.
    fn sessions(&self, file: &File, bytes: u64, now: Timestamp) -> io::Result<(u64, u64)> {
        let (mut begin, mut end) = (0, bytes);
        let mut take = |at: u64, time: Timestamp| {
            if time <= self.since {
                begin = at;
            } else if time > self.until && end == bytes {
                end = at;
            }
        };
        let mut from = 0;
        while let Some(next) = read_sessions(file, from, PIECE_BYTES_MAX, now, &mut take)?
            && !(self.is_stopped)()
        {
            from = next;
        }
        Ok((begin, end.max(begin)))
    }
}

/// Calls `take` with the position and the time of each session of aider's history that begins in the piece at this
/// position. Returns the position of the next piece; `None` at the end of the file.
fn read_sessions(
    file: &File,
    from: u64,
    bytes_max: u64,
    now: Timestamp,
    take: &mut dyn FnMut(u64, Timestamp),
) -> io::Result<Option<u64>> {
    /// The length of `2026-11-30 03:58:18`.
    const TIME_BYTES: usize = 19;
    let length = AIDER_SESSION.len() + TIME_BYTES;
    // The pieces overlap, so that each of these lines, and the end of the line before, is within one of them.
    let piece = read_at(file, from, bytes_max + length as u64)?;
    for at in memchr::memmem::find_iter(&piece, AIDER_SESSION) {
        let is_line = match at.checked_sub(1) {
            Some(before) => piece[before] == b'\n',
            None => from == 0,
        };
        let time = piece.get(at + AIDER_SESSION.len()..at + length);
        let time = time.and_then(|time| std::str::from_utf8(time).ok());
        if is_line && let Some(time) = time.and_then(|time| local_time(time, now)) {
            take(from + at as u64, time);
        }
    }
    let is_last = piece.len() as u64 <= bytes_max;
    Ok((!is_last).then_some(from + bytes_max - 1))
}

/// Gives the facts of the records of one file their times, and those of the span to the caller.
struct Facts<'a> {
    reader: &'a RecordReader<'a>,
    sub_agent: Option<&'a str>,
    take: Take<'a>,
    /// The time of the last record that has one.
    time: Option<Timestamp>,
    /// The last fact of a file without times, until another one follows.
    undated: Option<RecordedFact>,
    /// The end of a turn while agents run in the background, until one of them has sent the agent on, or none did before
    /// the next prompt.
    held: Option<(Option<Timestamp>, RecordedFact)>,
}

impl Facts<'_> {
    fn add(&mut self, content: RecordContent) {
        let before = self.time;
        self.time = content.time.or(before);
        // What a prompt or a tool's result shows of what came before had happened by the record before.
        let is_later = |event: &AgentEvent| {
            matches!(
                event,
                AgentEvent::PromptSent { .. } | AgentEvent::ToolCallCompleted { .. }
            )
        };
        let earlier = content.events.iter().position(is_later).unwrap_or(0);
        let mut notes = content.notes.into_iter().peekable();
        let mut at = self.time;
        for (place, event) in content.events.into_iter().enumerate() {
            while let Some((_, note)) = notes.next_if(|(events, _)| *events <= place) {
                self.give(at, RecordedFact::Note(note));
            }
            let is_start = matches!(event, AgentEvent::ToolCallStarted { .. });
            let is_earlier = place < earlier && !is_start;
            at = if is_earlier { before } else { self.time };
            match event {
                AgentEvent::TurnCompleted { .. } => {
                    let end = (at, RecordedFact::Event(event));
                    self.held = Some(end);
                    if !content.has_agents {
                        self.pass_held();
                    }
                    continue;
                }
                AgentEvent::PromptSent { .. } => self.pass_held(),
                _ => {}
            }
            self.give(at, RecordedFact::Event(event));
        }
        for (_, note) in notes {
            self.give(at, RecordedFact::Note(note));
        }
    }

    fn give(&mut self, at: Option<Timestamp>, fact: RecordedFact) {
        if matches!(fact, RecordedFact::Event(AgentEvent::TokenReceived { .. })) {
            return;
        }
        if at.is_some() {
            self.pass_undated(None);
            self.pass(at, fact);
        } else if let Some(before) = self.undated.replace(fact) {
            self.pass(None, before);
        }
    }

    fn pass_held(&mut self) {
        if let Some((at, end)) = self.held.take() {
            self.give(at, end);
        }
    }

    /// Passes the fact without a time that was kept back.
    fn pass_undated(&mut self, at: Option<Timestamp>) {
        if let Some(fact) = self.undated.take() {
            self.pass(at, fact);
        }
    }

    fn redact(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(redacted) = self.reader.rules.text(text) {
            *text = redacted;
        }
    }

    /// Passes a fact to the caller if it is of the span. What has no time may be of it.
    fn pass(&mut self, at: Option<Timestamp>, mut fact: RecordedFact) {
        let span = self.reader.since..=self.reader.until;
        if at.is_some_and(|at| !span.contains(&at)) {
            return;
        }
        match &mut fact {
            RecordedFact::Event(event) => event.for_each_text(&mut |text| self.redact(text)),
            RecordedFact::Note(RecordNote::Summary { text }) => self.redact(text),
            RecordedFact::Note(RecordNote::Cost { .. } | RecordNote::MoreTokens { .. }) => {}
        }
        (self.take)(Recorded {
            at,
            sub_agent: self.sub_agent,
            fact,
        });
    }

    /// Passes the last fact of a file without times, which was changed last at this time.
    fn finish(&mut self, changed: Option<Timestamp>) {
        self.pass_held();
        self.pass_undated(changed.filter(|_| self.time.is_none()));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn time(second: u32) -> String {
        format!("2026-11-23T19:00:{second:02}Z")
    }

    /// Reads a conversation; returns what its records say, each with its second and its sub-agent.
    fn read_in(
        file: &Path,
        agent: Option<&str>,
        (since, until): (Timestamp, Timestamp),
    ) -> Vec<String> {
        let rules = Rules::builtin();
        let reader = RecordReader {
            since,
            until,
            rules: &rules,
            is_stopped: &|| false,
        };
        let mut found = Vec::new();
        let mut take = |recorded: Recorded<'_>| {
            let fact = match recorded.fact {
                RecordedFact::Event(event) => match event {
                    AgentEvent::PromptSent { prompt_summary, .. } => prompt_summary,
                    AgentEvent::ResponseCompleted { input_tokens, .. } => format!("{input_tokens}"),
                    AgentEvent::TurnCompleted { summary, .. } => format!("turn {summary}"),
                    other => format!("{other:?}"),
                },
                RecordedFact::Note(RecordNote::Summary { text }) => format!("= {text}"),
                RecordedFact::Note(note) => format!("{note:?}"),
            };
            let second = recorded.at.map(|at| at.micros() / 1_000_000 % 60);
            let second = second.map_or_else(|| "-".to_owned(), |second| second.to_string());
            let of = recorded.sub_agent.unwrap_or_default();
            found.push(format!("{second} {of}{fact}"));
        };
        reader.read(file, agent, &mut take).unwrap();
        found
    }

    fn all() -> (Timestamp, Timestamp) {
        (
            Timestamp::from_micros(i64::MIN),
            Timestamp::from_micros(i64::MAX),
        )
    }

    fn prompt(second: u32, text: &str) -> String {
        format!(
            "{{\"type\":\"user\",\"isSidechain\":false,\"sessionId\":\"s\",\"timestamp\":\"{}\",\"message\":{{\"content\":\"{text}\"}}}}\n",
            time(second)
        )
    }

    fn answer(second: u32, id: &str, tokens: u32) -> String {
        format!(
            "{{\"type\":\"assistant\",\"isSidechain\":false,\"sessionId\":\"s\",\"timestamp\":\"{}\",\"message\":{{\"id\":\"{id}\",\"content\":[{{\"type\":\"text\",\"text\":\"Yes {id}.\"}}],\"usage\":{{\"input_tokens\":{tokens}}}}}}}\n",
            time(second)
        )
    }

    #[test]
    fn facts_have_the_times_of_their_records_and_are_of_the_span() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        let note = "{\"type\":\"system\",\"subtype\":\"away_summary\",\"content\":\"All is done.\",\"sessionId\":\"s\"}\n";
        let text = [
            prompt(1, "one"),
            answer(3, "a", 7),
            // Without a time.
            note.to_owned(),
            prompt(20, "two"),
            answer(30, "b", 8),
        ];
        fs::write(&file, text.concat()).unwrap();
        // What the next prompt shows of the answer had happened before.
        let first = ["1 one", "3 = All is done."];
        let end = ["3 7", "3 turn Yes a."];
        let second = ["20 two", "30 8", "30 turn Yes b."];
        let facts = read_in(&file, Some("claude"), all());
        assert_eq!(facts, [&first[..], &end, &second].concat());
        assert_eq!(read_in(&file, None, all()), facts, "found by its content");
        let of = |since: u32, until: u32| {
            read_in(&file, Some("claude"), (at(&time(since)), at(&time(until))))
        };
        assert_eq!(of(20, 59), second);
        assert_eq!(of(0, 2), ["1 one"]);
        assert_eq!(
            of(3, 20),
            ["3 = All is done.", "3 7", "3 turn Yes a.", "20 two"]
        );
    }

    #[test]
    fn an_answer_that_calls_a_tool_is_older_than_the_tool_s_result() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        let result = "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"x\"}]";
        let text = [
            prompt(1, "one"),
            answer(3, "a", 7).replace("\"usage\"", "\"stop_reason\":\"tool_use\",\"usage\""),
            // The user has allowed it.
            prompt(50, "R").replace("\"R\"", result),
        ];
        fs::write(&file, text.concat()).unwrap();
        let facts = read_in(&file, Some("claude"), all());
        assert_eq!(facts[..2], ["1 one", "3 7"]);
        assert!(facts[2].starts_with("50 ToolCallCompleted"), "{facts:?}");
    }

    #[test]
    fn a_turn_goes_on_while_agents_in_the_background_send_it_on() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        let end = "\"stop_reason\":\"end_turn\",\"usage\"";
        let said = |second, id: &str| answer(second, id, 7).replace("\"usage\"", end);
        let result = "\"isSidechain\":false,\"toolUseResult\":{\"status\":\"async_launched\",\"agentId\":\"b\"}";
        let launched = prompt(3, "R").replace(
            "\"R\"",
            "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"ok\"}]",
        );
        let launched = launched.replace("\"isSidechain\":false", result);
        let notified = "<task-notification>\\n<task-id>b</task-id>\\n<status>completed</status>\\n</task-notification>";
        let records = [
            prompt(1, "one"),
            launched,
            said(4, "a"),
            prompt(20, notified),
            said(22, "b"),
        ];
        let turns = |records: &[String]| {
            fs::write(&file, records.concat()).unwrap();
            let mut facts = read_in(&file, Some("claude"), all());
            facts.retain(|fact| {
                fact.contains("turn ") || fact.ends_with("one") || fact.ends_with("two")
            });
            facts
        };
        assert_eq!(turns(&records), ["1 one", "22 turn Yes b."]);
        // Nothing has sent it on.
        assert_eq!(turns(&records[..3]), ["1 one", "4 turn Yes a."]);
        let next = [&records[..3], &[prompt(30, "two")]].concat();
        assert_eq!(turns(&next), ["1 one", "4 turn Yes a.", "30 two"]);
    }

    #[test]
    fn sub_agents_belong_to_the_session() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        fs::write(&file, [prompt(1, "one"), answer(9, "a", 7)].concat()).unwrap();
        let directory = home.path().join("S/subagents");
        fs::create_dir_all(directory.join("agent-d.jsonl")).unwrap();
        for (id, second) in [("b", 5), ("c", 4)] {
            let text = [prompt(second, "look"), answer(second + 1, id, 20)].concat();
            let text = text.replace("\"isSidechain\":false", "\"isSidechain\":true");
            fs::write(directory.join(format!("agent-{id}.jsonl")), text).unwrap();
        }
        let facts = read_in(&file, Some("claude"), all());
        let expected = [
            "1 one",
            "9 7",
            "9 turn Yes a.",
            "5 blook",
            "6 b20",
            "6 bturn Yes b.",
            "4 clook",
            "5 c20",
            "5 cturn Yes c.",
        ];
        assert_eq!(facts, expected);
    }

    #[test]
    fn texts_are_redacted() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        let key = ["sk-ant-api03-", "abcdefghijklmnopqrstuvwxyz0123456789"].concat();
        let note = format!(
            "{{\"type\":\"system\",\"subtype\":\"away_summary\",\"content\":\"I used {key}.\",\"sessionId\":\"s\"}}\n"
        );
        fs::write(&file, prompt(1, &format!("use {key}")) + &note).unwrap();
        let facts = read_in(&file, Some("claude"), all());
        assert_eq!(facts.len(), 2, "{facts:?}");
        for fact in facts {
            assert!(
                fact.contains("[redacted:") && !fact.contains("abcdef"),
                "{fact}"
            );
        }
    }

    #[test]
    fn documents_and_journals_are_read() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.messages.json");
        let document = r#"{"messages":[{"id":"1","role":"user","content":"one","ts":1764403201000},
            {"id":"2","role":"assistant","content":"Yes.","ts":1764403203000,"metrics":{"inputTokens":7,"cost":0.5}}]}"#;
        fs::write(&file, document).unwrap();
        let facts = read_in(&file, Some("cline"), all());
        let expected = ["1 one", "3 7", "3 Cost { dollars: 0.5 }", "3 turn Yes."];
        assert_eq!(facts, expected);
        let record = |second: u32, change: &str| {
            format!(
                "{{\"payload\":{{\"delta\":[{change}]}},\"recovery_journal_record_version\":1,\"type\":\"projection_delta\"}}\n"
            )
            .replace("TIME", &time(second))
        };
        let journal = home.path().join("journal");
        fs::create_dir(&journal).unwrap();
        let user = r#"{"op":"append_entry","entry":{"type":"message","role":"user","updatedAt":"TIME","content":"one"}}"#;
        let said = r#"{"op":"append_entry","entry":{"type":"message","role":"assistant","updatedAt":"TIME","content":[{"text":"Yes."}]}}"#;
        let state = |status: &str, tokens: u32| {
            format!(
                r#"{{"op":"set_envelope","state":{{"latestTurn":{{"id":"t","status":"{status}"}},"session":{{"updatedAt":"TIME","tokenUsage":{{"inputTokens":{tokens}}}}}}}}}"#
            )
        };
        let first = [record(1, user), record(2, &state("in_progress", 10))].concat();
        fs::write(journal.join("0001.jsonl"), first).unwrap();
        let second = [record(3, said), record(4, &state("completed", 17))].concat();
        fs::write(journal.join("0002.jsonl"), second).unwrap();
        let facts = read_in(&journal, Some("vibe"), all());
        assert_eq!(facts, ["1 one", "4 7", "4 turn Yes."]);
    }

    #[test]
    fn a_history_without_times_is_read_by_its_sessions() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".aider.chat.history.md");
        let session = |day: u32| {
            format!(
                "\n# aider chat started at 2026-11-{day:02} 03:58:18\n\n#### do {day}  \n\nYes {day}.\n\n> Tokens: {day} sent, 9 received.  \n"
            )
        };
        let text: String = (1..=9).map(session).collect();
        fs::write(&file, &text).unwrap();
        let changed = at("2026-11-23T19:00:42Z");
        let open = File::options().write(true).open(&file).unwrap();
        let modified = std::time::UNIX_EPOCH
            + std::time::Duration::from_micros(changed.micros().unsigned_abs());
        open.set_modified(modified).unwrap();
        let of = |day: u32| [format!("- do {day}"), format!("- {day}")];
        let whole = read_in(&file, Some("aider"), all());
        let mut expected: Vec<String> = (1..=9).flat_map(of).collect();
        // The end of the last turn is the last change of the file.
        expected.push("42 turn Yes 9.".to_owned());
        assert_eq!(whole, expected);
        // The session that went on at the beginning of the span, and those that began in it.
        let noon = |day: u32| local_time(&format!("2026-11-{day:02} 12:00"), changed).unwrap();
        let facts = read_in(&file, Some("aider"), (noon(4), noon(6)));
        assert_eq!(facts[..5], expected[6..11]);
        assert_eq!(facts.len(), 7, "the last turn of the part ends: {facts:?}");
        let later = at("2026-11-23T19:00:43Z");
        assert_eq!(read_in(&file, Some("aider"), (later, all().1)), [""; 0]);
        // Pieces of any size find all sessions.
        let (open, mut found) = (File::open(&file).unwrap(), Vec::new());
        for bytes_max in 1..200 {
            let mut at = Some(0);
            found.clear();
            while let Some(from) = at {
                let mut take = |at: u64, _| found.push(at);
                // The next piece begins one byte before the end of this one.
                let bytes_max = bytes_max + 1;
                at = read_sessions(&open, from, bytes_max, changed, &mut take).unwrap();
            }
            found.dedup();
            assert_eq!(found.len(), 9, "{bytes_max}: {found:?}");
        }
        let line = |at: &u64| text[usize::try_from(*at).unwrap()..].starts_with("# aider");
        assert!(found.iter().all(line), "{found:?}");
    }

    #[test]
    fn reading_stops_when_it_is_no_longer_wanted() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("S.jsonl");
        let long = "x".repeat(100_000);
        let text: String = (0..50).map(|_| prompt(1, &long)).collect();
        fs::write(&file, text).unwrap();
        let (rules, count) = (Rules::none(), Cell::new(0));
        let reader = RecordReader {
            since: all().0,
            until: all().1,
            rules: &rules,
            is_stopped: &|| count.get() > 0,
        };
        let mut take = |_: Recorded<'_>| count.set(count.get() + 1);
        reader.read(&file, Some("claude"), &mut take).unwrap();
        let count = count.get();
        assert!((1..20).contains(&count), "{count}");
        let missing = home.path().join("missing");
        assert!(reader.read(&missing, None, &mut |_| ()).is_err());
        assert!(reader.read(home.path(), None, &mut |_| ()).is_err());
    }
}
