//! Renders the outcome of a command or of a loop's checks as JUnit XML, as a fold over events (pure).
//!
//! A command is one test case, and so is each check of a loop. An iteration whose agent failed before a check
//! is an error. Text is sanitized for XML 1.0 and bounded: the report keeps the beginning and the end of a
//! long output.

use super::stream_lines::{LineEnd, StreamLine, StreamLines};
use crate::event::{Envelope, IterationOutcome, OutputStream, TdEvent};
use crate::text::first_bytes;
use crate::timestamp::Timestamp;

/// The bound, in bytes, on the beginning and on the end of each output of a case: some hundred lines.
const HALF_BYTES: usize = 64 * 1024;

/// Collects test cases.
#[derive(Debug, Default)]
pub(crate) struct JunitReport {
    /// The execution, once its first event is there.
    suite: String,
    /// The name of the only case if nothing is run.
    only: String,
    is_loop: bool,
    phase: String,
    began: Option<Timestamp>,
    last: Timestamp,
    cases: Vec<TestCase>,
    /// The case that is running.
    open: Option<TestCase>,
    lines: StreamLines,
    /// The timeout that decides the outcome of the open case.
    timeout: Option<String>,
}

#[derive(Debug, Default)]
struct TestCase {
    name: String,
    class: String,
    began: Timestamp,
    seconds: f64,
    outcome: CaseOutcome,
    outputs: [BoundedText; 2],
}

#[derive(Debug, Default)]
enum CaseOutcome {
    #[default]
    Passed,
    Failed(String),
    /// The test did not take place.
    Error(String),
}

impl JunitReport {
    /// Creates a report. The suite and the name of its only case are those of an execution that does not start.
    pub fn new(suite: String, only: String, now: Timestamp) -> Self {
        Self {
            suite,
            only,
            last: now,
            ..Self::default()
        }
    }

    /// Adds an event.
    pub fn push(&mut self, envelope: &Envelope) {
        let (event, ts) = (&envelope.event, envelope.ts);
        if self.began.is_none() {
            self.began = Some(ts);
            event.execution_id().clone_into(&mut self.suite);
        }
        self.last = ts;
        let is_from_loop_agent = self.is_loop && !matches!(event, TdEvent::ValidationOutput { .. });
        if let Some(case) = self.open.as_mut().filter(|_| !is_from_loop_agent) {
            let lines = &mut self.lines;
            lines.push_event(event, &mut |line| case.push_line(line));
        }
        match event {
            TdEvent::ExecutionStarted {
                command,
                pane: None,
                ..
            } if !self.is_loop => self.begin(command.clone(), ts),
            TdEvent::ExecutionCompleted {
                exit_code,
                signal,
                duration_ms,
                pane: None,
                ..
            } if !self.is_loop => {
                use CaseOutcome::{Error, Failed, Passed};
                let outcome = match (self.timeout.take(), exit_code, signal) {
                    (Some(timeout), ..) => Failed(timeout),
                    (None, Some(0), _) => Passed,
                    (None, Some(code), _) => Failed(format!("exit code {code}")),
                    (None, None, Some(signal)) => Failed(format!("ended by signal {signal}")),
                    (None, None, None) => Error("its exit code is not known".to_owned()),
                };
                self.end(outcome, *duration_ms);
            }
            TdEvent::LoopStarted { .. } => self.is_loop = true,
            TdEvent::PhaseStarted { phase_name, .. } => self.phase.clone_from(phase_name),
            TdEvent::ValidationStarted {
                iteration, command, ..
            } => self.begin(format!("iteration {iteration}: {command}"), ts),
            TdEvent::ValidationCompleted {
                exit_code,
                duration_ms,
                ..
            } => {
                let outcome = match exit_code {
                    0 => CaseOutcome::Passed,
                    code => CaseOutcome::Failed(format!("exit code {code}")),
                };
                self.end(outcome, *duration_ms);
            }
            TdEvent::IterationCompleted {
                iteration, outcome, ..
            } => self.end_iteration(*iteration, outcome, ts),
            TdEvent::Error {
                context, message, ..
            } if context == "timeout" => {
                self.timeout = Some(message.clone());
            }
            TdEvent::Error {
                context, message, ..
            }
            | TdEvent::Warning {
                context, message, ..
            } => {
                let text = format!("td-observe: {context}: {message}\n");
                self.note(&text);
            }
            _ => {}
        }
    }

    /// Adds a note that events were missed.
    pub fn lagged(&mut self, missed: u64) {
        self.note(&format!("td-observe: {missed} events were missed here\n"));
    }

    /// Returns the document. `problem` is the reason why not everything was run.
    pub fn finish(mut self, problem: Option<&str>) -> String {
        if let Some(case) = &self.open {
            let why = problem.unwrap_or("it was ended before it was done");
            let micros = self.last.micros().saturating_sub(case.began.micros());
            self.end(
                CaseOutcome::Error(why.to_owned()),
                u64::try_from(micros / 1000).unwrap_or(0),
            );
        } else if self.cases.is_empty() {
            let why = problem.unwrap_or("nothing was run");
            let name = std::mem::take(&mut self.only);
            self.begin(name, self.last);
            self.end(CaseOutcome::Error(why.to_owned()), 0);
        }
        self.document()
    }

    fn begin(&mut self, name: String, began: Timestamp) {
        let class = match (self.is_loop, self.phase.is_empty()) {
            (false, _) => "run".to_owned(),
            (true, true) => "loop".to_owned(),
            (true, false) => format!("loop.{}", self.phase),
        };
        self.open = Some(TestCase {
            name,
            class,
            began,
            ..TestCase::default()
        });
    }

    fn end(&mut self, outcome: CaseOutcome, duration_ms: u64) {
        let Some(mut case) = self.open.take() else {
            return;
        };
        self.lines.end_all(&mut |line| case.push_line(line));
        case.outcome = outcome;
        case.seconds = duration_ms as f64 / 1000.0;
        self.cases.push(case);
    }

    fn end_iteration(&mut self, iteration: u32, outcome: &IterationOutcome, ts: Timestamp) {
        let why = match outcome {
            IterationOutcome::ValidationPassed | IterationOutcome::ValidationFailed { .. } => {
                return;
            }
            IterationOutcome::MaxTurnsReached => "the agent has used up its turns".to_owned(),
            IterationOutcome::ToolError { tool, error } => format!("tool {tool}: {error}"),
            IterationOutcome::LlmError { error } => error.clone(),
        };
        // A check may have started nevertheless.
        if self.open.is_none() {
            self.begin(format!("iteration {iteration}"), ts);
        }
        self.end(CaseOutcome::Error(why), 0);
    }

    fn note(&mut self, text: &str) {
        if let Some(case) = &mut self.open {
            case.outputs[1].push(text);
        }
    }

    fn document(&self) -> String {
        let count = |is: fn(&CaseOutcome) -> bool| {
            let cases = self.cases.iter().filter(|case| is(&case.outcome));
            cases.count().to_string()
        };
        let failures = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
        let errors = count(|outcome| matches!(outcome, CaseOutcome::Error(_)));
        let began = self.began.unwrap_or(self.last);
        let seconds = self.last.micros().saturating_sub(began.micros()) as f64 / 1e6;
        // The cases follow each other. Their durations do not depend on the wall clock, which may be set back.
        let seconds = seconds.max(self.cases.iter().map(|case| case.seconds).sum());
        let (tests, time) = (self.cases.len().to_string(), format!("{seconds:.3}"));
        let counts = [
            ("tests", tests.as_str()),
            ("failures", &failures),
            ("errors", &errors),
            ("skipped", "0"),
            ("time", &time),
        ];
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
        push_attribute(&mut out, "name", "td-observe");
        // Schemas define no number of skipped cases for this element.
        for (name, value) in counts.into_iter().filter(|(name, _)| *name != "skipped") {
            push_attribute(&mut out, name, value);
        }
        out.push_str(">\n  <testsuite");
        push_attribute(&mut out, "name", &self.suite);
        for (name, value) in counts {
            push_attribute(&mut out, name, value);
        }
        // JUnit readers expect ISO 8601 without a fraction and a zone.
        let stamp = began.to_string();
        let stamp = stamp.split(['.', 'Z']).next().unwrap_or_default();
        push_attribute(&mut out, "timestamp", stamp);
        out.push_str(">\n");
        for case in &self.cases {
            case.write(&mut out);
        }
        out.push_str("  </testsuite>\n</testsuites>\n");
        out
    }
}

impl TestCase {
    fn push_line(&mut self, mut line: StreamLine<'_>) {
        let mut text = String::new();
        line.push(&mut text, false);
        if line.end != LineEnd::Continues {
            text.push('\n');
        }
        let output = usize::from(line.stream == OutputStream::Stderr.as_str());
        self.outputs[output].push(&text);
    }

    fn write(&self, out: &mut String) {
        out.push_str("    <testcase");
        push_attribute(out, "name", &self.name);
        push_attribute(out, "classname", &self.class);
        push_attribute(out, "time", &format!("{:.3}", self.seconds));
        out.push_str(">\n");
        let (element, message) = match &self.outcome {
            CaseOutcome::Passed => ("", ""),
            CaseOutcome::Failed(message) => ("failure", message.as_str()),
            CaseOutcome::Error(message) => ("error", message.as_str()),
        };
        if !element.is_empty() {
            out.push_str(&format!("      <{element}"));
            push_attribute(out, "message", message);
            push_attribute(out, "type", element);
            out.push('>');
            let [stdout, stderr] = &self.outputs;
            let output = if stderr.start.is_empty() {
                stdout
            } else {
                stderr
            };
            push_escaped(out, message, false);
            push_escaped(out, "\n", false);
            // A failure repeats the end of the output.
            push_escaped(out, output.end(4 * 1024), false);
            out.push_str(&format!("</{element}>\n"));
        }
        for (name, output) in ["system-out", "system-err"].iter().zip(&self.outputs) {
            if !output.start.is_empty() {
                out.push_str(&format!("      <{name}>"));
                push_escaped(out, &output.text(), false);
                out.push_str(&format!("</{name}>\n"));
            }
        }
        out.push_str("    </testcase>\n");
    }
}

/// The beginning and the end of a text.
#[derive(Debug, Default)]
struct BoundedText {
    start: String,
    end: String,
    /// The number of bytes dropped between them.
    lost: usize,
}

impl BoundedText {
    fn push(&mut self, text: &str) {
        let room = HALF_BYTES.saturating_sub(self.start.len());
        let room = if self.end.is_empty() { room } else { 0 };
        let first = first_bytes(text, room);
        self.start.push_str(first);
        self.end.push_str(&text[first.len()..]);
        // Cut in large steps, so that each byte is moved at most once.
        if self.end.len() > 2 * HALF_BYTES {
            let cut = first_bytes(&self.end, self.end.len() - HALF_BYTES).len();
            self.end.drain(..cut);
            self.lost += cut;
        }
    }

    /// Returns up to `bytes` bytes from the end.
    fn end(&self, bytes: usize) -> &str {
        let text = if self.end.is_empty() {
            &self.start
        } else {
            &self.end
        };
        &text[first_bytes(text, text.len().saturating_sub(bytes)).len()..]
    }

    fn text(&self) -> String {
        let gap = match self.lost {
            0 => String::new(),
            bytes => format!("\n[{bytes} bytes are left out here]\n"),
        };
        [self.start.as_str(), &gap, &self.end].concat()
    }
}

// Writes text in XML 1.0: escapes it, and replaces characters that XML cannot represent (pure).

/// Appends an attribute, after a blank.
fn push_attribute(out: &mut String, name: &str, value: &str) {
    out.push_str(&format!(" {name}=\""));
    push_escaped(out, value, true);
    out.push('"');
}

/// Appends text between tags, or in an attribute.
fn push_escaped(out: &mut String, text: &str, is_attribute: bool) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if is_attribute => out.push_str("&quot;"),
            // A parser would read a line feed, and in attributes blanks.
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' if is_attribute => out.push_str(&format!("&#{};", u32::from(c))),
            c => out.push(valid(c)),
        }
    }
}

/// Returns the character, or the replacement character if XML 1.0 does not allow it.
fn valid(c: char) -> char {
    match c {
        '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}' => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    //! Tests JUnit reports of commands and loops.
    mod junit {

        use super::super::*;
        use crate::face::samples::{check, checked, completed, log, output, started};

        fn report(events: Vec<TdEvent>, problem: Option<&str>) -> String {
            let mut report = JunitReport::new(
                "suite".to_owned(),
                "case".to_owned(),
                Timestamp::from_micros(0),
            );
            for envelope in log(events) {
                report.push(&envelope);
            }
            report.finish(problem)
        }

        fn validation(iteration: u32) -> TdEvent {
            TdEvent::ValidationStarted {
                execution_id: "l".into(),
                iteration,
                command: "cargo test".into(),
            }
        }

        #[test]
        fn a_command_is_one_case_with_its_output() {
            let text = report(
                vec![
                    started("make <all>"),
                    output("stdout", "10%\r50%\r\u{1b}[32m100%\u{1b}[0m\nopen"),
                    output("stderr", "oh\u{7} \"no\"\n"),
                    completed(Some(2), None),
                ],
                None,
            );
            let expected = "<testcase name=\"make &lt;all&gt;\" classname=\"run\" time=\"1.500\">";
            assert!(text.contains(expected), "{text}");
            for part in [
                " tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\"",
                "<failure message=\"exit code 2\" type=\"failure\">exit code 2\noh",
                "<system-out>100%\nopen\n</system-out>",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        }

        #[test]
        fn each_check_of_a_loop_is_a_case_and_a_failed_agent_is_an_error() {
            let loop_started = TdEvent::LoopStarted {
                execution_id: "l".into(),
                loop_type: "ralph".into(),
                task_description: "t".into(),
                phases: None,
            };
            let failed = TdEvent::IterationCompleted {
                execution_id: "l".into(),
                iteration: 2,
                outcome: IterationOutcome::LlmError {
                    error: "529".into(),
                },
            };
            let text = report(
                vec![
                    loop_started,
                    output("stderr", "of the agent\n"),
                    validation(1),
                    check("test a failed", true),
                    checked(101, 2_000),
                    failed,
                    validation(3),
                    check("ok", false),
                    checked(0, 1),
                ],
                None,
            );
            assert!(
                text.contains("tests=\"3\" failures=\"1\" errors=\"1\""),
                "{text}"
            );
            assert!(
                text.contains("name=\"iteration 1: cargo test\" classname=\"loop\" time=\"2.000\"")
            );
            assert!(
                text.contains("<system-err>test a failed\n</system-err>"),
                "{text}"
            );
            assert!(text.contains("<error message=\"529\""), "{text}");
            assert!(!text.contains("of the agent"), "{text}");
            // The events of the log are 0.1 s apart, and the cases took longer.
            let total = " errors=\"1\" skipped=\"0\" time=\"2.001\"";
            assert!(text.contains(total), "{text}");
        }

        #[test]
        fn incomplete_cases_are_errors() {
            let text = report(vec![started("sleep 9")], None);
            assert!(
                text.contains("errors=\"1\"") && text.contains("ended before it was done"),
                "{text}"
            );
            let text = report(Vec::new(), Some("no such program"));
            assert!(
                text.contains("<error message=\"no such program\""),
                "{text}"
            );
        }

        #[test]
        fn both_ends_of_a_long_output_are_kept() {
            let mut events = vec![started("flood")];
            events.extend((0..20_000).map(|n| output("stdout", &format!("line {n} é\n"))));
            events.push(completed(Some(0), None));
            let text = report(events, None);
            assert!(text.len() < 4 * HALF_BYTES, "{}", text.len());
            for part in ["line 0 é\n", "line 19999 é\n", "bytes are left out here"] {
                assert!(text.contains(part), "{part}");
            }
        }
    }

    mod xml {

        use super::super::*;

        #[test]
        fn texts_and_attributes_are_escaped_and_have_no_invalid_character() {
            let (mut text, mut attribute) = (String::new(), String::new());
            let nasty = "a<b>&\"]]>\0\u{1b}\u{fffe}\t\n\ré";
            push_escaped(&mut text, nasty, false);
            push_attribute(&mut attribute, "name", nasty);
            assert_eq!(
                text,
                "a&lt;b&gt;&amp;\"]]&gt;\u{fffd}\u{fffd}\u{fffd}\t\n&#13;é"
            );
            assert_eq!(
                attribute,
                " name=\"a&lt;b&gt;&amp;&quot;]]&gt;\u{fffd}\u{fffd}\u{fffd}&#9;&#10;&#13;é\""
            );
        }
    }
}
