//! Truncates texts to the length that an event needs (pure).

use crate::text::{first_bytes, first_chars, joined_words};
use serde_json::Value;

/// The maximum number of characters of a summary.
pub(super) const SUMMARY_CHARS_MAX: usize = 200;

/// The maximum number of characters of a tool's result. A screenful shows whether the tool succeeded.
const TOOL_RESULT_CHARS_MAX: usize = 500;

/// The maximum number of characters of a result or an error.
pub(super) const RESULT_CHARS_MAX: usize = 2_000;

/// Replaces the truncated text.
const ELLIPSIS: char = '…';

/// Returns the beginning of a text, trimmed.
pub(crate) fn summary(text: &str) -> String {
    cut(text, SUMMARY_CHARS_MAX)
}

/// Returns the beginning of a tool's result.
pub(super) fn tool_result(text: &str) -> String {
    cut(text, TOOL_RESULT_CHARS_MAX)
}

/// Returns the beginning of a result.
pub(crate) fn result(text: &str) -> String {
    cut(text, RESULT_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    let beginning = first_chars(text, chars_max);
    if beginning.len() == text.len() {
        return text.to_owned();
    }
    let split = split_word_bytes(beginning, &text[beginning.len()..]);
    format!("{}{ELLIPSIS}", &beginning[..beginning.len() - split])
}

/// Words with fewer bytes than this may be split, because they contain no secret.
const SPLIT_WORD_BYTES_MIN: usize = 8;

/// Returns the number of bytes of a word that truncation would split. Half a key is still a secret,
/// but no rule recognises it, so both halves are removed.
fn split_word_bytes(kept: &str, rest: &str) -> usize {
    // Keys consist of these characters. Other scripts may write whole sentences without blanks.
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/=.~%".contains(byte);
    if !rest.as_bytes().first().is_some_and(is_of_key) {
        return 0;
    }
    let bytes = kept.bytes().rev().take_while(is_of_key).count();
    if bytes < SPLIT_WORD_BYTES_MIN {
        0
    } else {
        bytes
    }
}

/// The beginning of a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPrefix {
    text: String,
}

impl TextPrefix {
    /// The maximum number of bytes: more than the longest result in any script, so that `result`
    /// truncates the text.
    const BYTES_MAX: usize = (RESULT_CHARS_MAX + 2) * 4;

    pub fn push(&mut self, piece: &str) {
        let room = Self::BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(first_bytes(piece, room));
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn clear(&mut self) {
        self.text.clear();
    }
}

// Summarises in one line the question of an agent: a tool's command, file or question (pure).

/// Names of tool arguments that describe the call, the most specific first: `command` and `cmd` of
/// shells, `question` of questions, paths of written files, `url`, `pattern`.
const SPECIFIC_ARGUMENTS: &[&str] = &[
    "command",
    "cmd",
    "commands",
    "question",
    "plan",
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "url",
    "query",
    "pattern",
    "description",
    "prompt",
    "input",
];

/// The arguments of [`SPECIFIC_ARGUMENTS`] that name an object. What the tool does with it, only the tool's name says.
const OBJECT_ARGUMENTS: &[&str] = &[
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "url",
    "query",
    "pattern",
];

/// Summarises a tool call beside the tool's name. Takes the name and the beginning of the JSON arguments; returns
/// `None` if both are empty.
pub(crate) fn tool_question(tool: &str, arguments: &str) -> Option<String> {
    let text = one_line(
        &argument(arguments)
            .map(|(_, text)| text)
            .unwrap_or_default(),
    );
    if text.is_empty() {
        Some(one_line(tool)).filter(|tool| !tool.is_empty())
    } else {
        Some(text)
    }
}

/// Summarises a tool call for the user who must allow it: its command or its question, or what the tool does with which
/// file. Takes and returns the same as [`tool_question`]; `None`, too, for a tool that asks several questions, because
/// only the screen shows which one is asked.
pub(crate) fn permission_question(tool: &str, arguments: &str) -> Option<String> {
    if asks_several(arguments) {
        return None;
    }
    let what = tool_question(tool, arguments)?;
    let names_object = argument(arguments)
        .is_some_and(|(name, text)| OBJECT_ARGUMENTS.contains(&name) && !text.trim().is_empty());
    Some(if names_object {
        one_line(&format!("{tool} {what}"))
    } else {
        what
    })
}

/// Returns true if a tool call asks several questions, or if more of them may follow in truncated JSON.
fn asks_several(arguments: &str) -> bool {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => value["questions"]
            .as_array()
            .is_some_and(|all| all.len() > 1),
        Err(_) => arguments.contains("\"questions\":"),
    }
}

/// Returns the most specific argument of a tool call and its name; no name for other text than JSON.
fn argument(arguments: &str) -> Option<(&'static str, String)> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => question_in(&value),
        // Truncated JSON, a patch or a script.
        Err(_) => cut_value(arguments).or_else(|| Some(("", arguments.to_owned()))),
    }
}

/// Returns true if a failure is a usage limit, which only waiting or paying resolves.
pub(crate) fn is_limit(failure: &str) -> bool {
    let failure = failure.to_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    // Also matches sentences such as "Number of request tokens has exceeded your per-minute rate limit".
    contains_any(&[
        "usage limit",
        "hour limit",
        "weekly limit",
        "session limit",
        "rate limit",
        "rate_limit",
        "ratelimit",
        "limit reached",
        "hit your",
        "quota",
        "credit balance",
        "too many requests",
        "(429)",
        " 429",
        "resource_exhausted",
    ])
}

/// What follows the reason in the words of an agent that retries, and counts.
const RETRYING: &str = " [retrying";

/// What stands before the reason in the words of an agent that has retried.
const LAST_ERROR: &str = "Last error: ";

/// Returns the words of a failure in one line, its reason first. Where an agent shows the answer of its API as JSON,
/// they are those before it and its message: `API Error: 401: invalid x-api-key`.
pub(super) fn failure_words(text: &str) -> String {
    let text = text.split_once(RETRYING).map_or(text, |(reason, _)| reason);
    let text = match text.split_once(LAST_ERROR) {
        Some((before, reason)) => one_line(&format!("{} ({})", reason.trim(), before.trim())),
        None => one_line(text),
    };
    let Some((before, json)) = text.split_once('{') else {
        return text;
    };
    let Some(message) = message_in(json) else {
        return text;
    };
    let before = before.trim_matches(['[', ' ', ':', '-', '\'', '"']);
    if before.is_empty() {
        message
    } else {
        format!("{before}: {message}")
    }
}

/// Returns the innermost message of an answer in JSON, which may be cut off, and may hold another one as a text.
fn message_in(json: &str) -> Option<String> {
    let (_, value) = json.split_once("\"message\"")?;
    let value = value.trim_start().strip_prefix(':')?.trim_start();
    let text = value.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    let quoted = format!("\"{}\"", &text[..end?]);
    let message: String = serde_json::from_str(&quoted).ok()?;
    let inner = message_in(&message);
    Some(inner.unwrap_or_else(|| one_line(&message))).filter(|message| !message.is_empty())
}

/// Describes the failure of a program by its exit status: `make failed (2)`, `claude killed (137)`.
pub(crate) fn failure_in_words(program: &str, status: i32) -> String {
    let how = if (129..=192).contains(&status) {
        "killed"
    } else {
        "failed"
    };
    format!("{program} {how} ({status})")
}

/// What stands before the exit status in the detail of an agent that was killed.
const EXIT_STATUS: &str = "exit status ";

/// Returns the detail of an agent that was killed.
pub(crate) fn exit_status_in_words(status: i32) -> String {
    format!("{EXIT_STATUS}{status}")
}

/// Returns the exit status of the agent, if it was killed.
pub(crate) fn exit_status_of_detail(detail: &str) -> Option<i32> {
    detail.strip_prefix(EXIT_STATUS)?.parse().ok()
}

/// Joins the text to one line without control characters, and truncates it to a summary.
pub(crate) fn one_line(text: &str) -> String {
    summary(&joined_words(text, SUMMARY_CHARS_MAX * 4))
}

fn question_in(value: &Value) -> Option<(&'static str, String)> {
    match value {
        Value::String(text) => Some(("", text.clone())),
        Value::Object(fields) => {
            // `{"questions":[{"question":…}]}`.
            if let Some(Value::Array(questions)) = fields.get("questions") {
                return questions.iter().find_map(question_in);
            }
            let mut specific = SPECIFIC_ARGUMENTS
                .iter()
                .filter_map(|name| Some((*name, text_of(fields.get(*name)?)?)));
            specific.find(|(_, text)| !text.trim().is_empty())
        }
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| command_of(&words))
        }
        _ => None,
    }
}

/// Returns the command as the user would type it: `["bash","-lc","make"]` is `make`.
fn command_of(words: &[&str]) -> String {
    match words {
        [shell, flags, script]
            if shell.ends_with("sh") && flags.starts_with('-') && flags.contains('c') =>
        {
            (*script).to_owned()
        }
        words => words.join(" "),
    }
}

/// Returns the most specific argument of truncated JSON.
fn cut_value(arguments: &str) -> Option<(&'static str, String)> {
    let candidates = SPECIFIC_ARGUMENTS.iter().filter_map(|name| {
        let at = arguments.find(&format!("\"{name}\":"))? + name.len() + 3;
        let text = arguments[at..].trim_start().strip_prefix('"')?;
        Some((at, *name, text))
    });
    let (_, name, text) = candidates.min_by_key(|(at, ..)| *at)?;
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next()? {
                'n' | 't' | 'r' => value.push(' '),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    Some((name, value))
}

#[cfg(test)]
mod tests {
    mod summary {

        use super::super::*;

        #[test]
        fn a_text_is_cut_between_characters() {
            assert_eq!(summary("  short \n"), "short");
            let long = "é".repeat(SUMMARY_CHARS_MAX + 1);
            assert_eq!(summary(&long), "é".repeat(SUMMARY_CHARS_MAX) + "…");
            assert_eq!(summary(&long[2..]), "é".repeat(SUMMARY_CHARS_MAX));
        }

        #[test]
        fn no_part_of_a_cut_key_remains() {
            let key = "ghp_0123456789abcdefghij0123456789abcdef";
            for kept in [1, 8, 20, 38] {
                let before = "b ".repeat((SUMMARY_CHARS_MAX - kept) / 2);
                let text = format!("{before}{key} and more");
                let short = summary(&text);
                let left = short.len().saturating_sub(before.len() + "…".len());
                assert!(left < SPLIT_WORD_BYTES_MIN, "{short}");
                assert!(short.starts_with(before.trim_end()), "{short}");
            }
            let before = "b ".repeat((TOOL_RESULT_CHARS_MAX - 20) / 2);
            let short = tool_result(&format!("{before}{key} and more"));
            assert_eq!(short, format!("{before}…"), "of what a tool answered, too");
            // A key that ends exactly at the limit stays complete, so that a rule recognises it.
            let whole = format!("{} {key}", "b".repeat(SUMMARY_CHARS_MAX - 1 - key.len()));
            assert_eq!(summary(&format!("{whole} and more")), format!("{whole}…"));
        }

        #[test]
        fn a_kept_beginning_is_bounded() {
            let mut beginning = TextPrefix::default();
            for _ in 0..100_000 {
                beginning.push("界!");
            }
            assert!(beginning.as_str().len() <= TextPrefix::BYTES_MAX);
            assert!(beginning.as_str().starts_with("界!界!"));
        }
    }

    mod question {

        use super::super::*;
        use proptest::prelude::*;

        #[test]
        fn a_tool_asks_about_its_command_file_or_question() {
            for (tool, arguments, expected) in [
                (
                    "Bash",
                    r#"{"command":"touch a && ls","description":"Runs a command"}"#,
                    "touch a && ls",
                ),
                (
                    "exec_command",
                    r#"{"cmd":"touch a","justification":"x"}"#,
                    "touch a",
                ),
                (
                    "shell",
                    r#"{"command":["bash","-lc","make -j2"]}"#,
                    "make -j2",
                ),
                (
                    "Write",
                    r#"{"file_path":"/w/hello.py","content":"print"}"#,
                    "/w/hello.py",
                ),
                (
                    "AskUserQuestion",
                    r#"{"questions":[{"question":"Which colour shall it be?","options":[]}]}"#,
                    "Which colour shall it be?",
                ),
                (
                    "ExitPlanMode",
                    r##"{"plan":"# Plan\n\n1. Do this"}"##,
                    "# Plan 1. Do this",
                ),
                (
                    "apply_patch",
                    "*** Begin Patch\n*** Add File: a",
                    "*** Begin Patch *** Add File: a",
                ),
                ("Bash", r#"{"command":"echo \"a\nb"#, r#"echo "a b"#),
                ("TodoRead", "{}", "TodoRead"),
            ] {
                assert_eq!(
                    tool_question(tool, arguments).as_deref(),
                    Some(expected),
                    "{tool} {arguments}"
                );
            }
            assert_eq!(tool_question("", ""), None);
        }

        #[test]
        fn the_user_is_asked_what_a_tool_does_with_a_file() {
            for (tool, arguments, expected) in [
                (
                    "Write",
                    r#"{"file_path":"/w/hello.py","content":"print"}"#,
                    "Write /w/hello.py",
                ),
                (
                    "Edit",
                    r#"{"replace_all":false,"file_path":"/w/a.rs","old_st"#,
                    "Edit /w/a.rs",
                ),
                (
                    "WebFetch",
                    r#"{"url":"https://a.b/"}"#,
                    "WebFetch https://a.b/",
                ),
                ("Bash", r#"{"command":"make"}"#, "make"),
                (
                    "AskUserQuestion",
                    r#"{"questions":[{"question":"Which?"}]}"#,
                    "Which?",
                ),
                ("Write", "{}", "Write"),
                ("apply_patch", "*** Begin Patch", "*** Begin Patch"),
            ] {
                assert_eq!(
                    permission_question(tool, arguments).as_deref(),
                    Some(expected),
                    "{tool} {arguments}"
                );
            }
            for several in [
                "",
                r#"{"questions":[{"question":"Which?"},{"question":"How many?"}]}"#,
                r#"{"questions":[{"question":"Which?"},{"quest"#,
            ] {
                assert_eq!(permission_question("", several), None, "{several}");
            }
        }

        #[test]
        fn no_part_of_a_cut_key_remains() {
            let command = format!("{}ghp_{}", "b ".repeat(80), "0123456789".repeat(4));
            let arguments = serde_json::json!({ "command": command }).to_string();
            let question = tool_question("Bash", &arguments).unwrap();
            assert_eq!(question, "b ".repeat(80) + "…");
        }

        #[test]
        fn the_words_of_a_failure_are_no_json() {
            for (shown, expected) in [
                (
                    "Invalid API key · Fix external API key",
                    "Invalid API key · Fix external API key",
                ),
                (
                    r#"[API Error: {"error":{"code":401,"message":"invalid x-api-key","status":"UNAUTHENTICATED"}}]"#,
                    "API Error: invalid x-api-key",
                ),
                (
                    r#"API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is \"too\" long"}}"#,
                    "API Error: 400: prompt is \"too\" long",
                ),
                (
                    r#"{"error":{"message":"{\n  \"error\": {\n \"message\": \"API key not valid.\",\n","code":400"#,
                    "API key not valid.",
                ),
                // A row that is cut off has no whole message.
                (
                    r#"[API Error: {"error":{"message":"inval"#,
                    r#"[API Error: {"error":{"message":"inval"#,
                ),
                (
                    "Failed to get response; retried 5 times (16.67 seconds) Last error: 429 usage limit",
                    "429 usage limit (Failed to get response; retried 5 times (16.67 seconds))",
                ),
                (
                    "You exceeded your quota. [retrying attempt #1] esc",
                    "You exceeded your quota.",
                ),
                ("a { b", "a { b"),
                ("", ""),
            ] {
                assert_eq!(failure_words(shown), expected, "{shown}");
            }
        }

        #[test]
        fn limits_are_distinguished_from_other_failures() {
            for failure in [
                "You've hit your 5-hour limit · resets 3:53pm (UTC)",
                "API Error: Request rejected (429) · usage limit",
                "Quota exceeded. Check your plan and billing details.",
                "Your credit balance is too low to access the Anthropic API.",
            ] {
                assert!(is_limit(failure), "{failure}");
            }
            for failure in [
                "Invalid API key · Fix external API key",
                "unexpected status 401",
                "the run was cut off",
            ] {
                assert!(!is_limit(failure), "{failure}");
            }
        }

        proptest! {
            #[test]
            fn any_arguments_give_one_line(tool in ".{0,20}", arguments in ".{0,300}") {
                if let Some(line) = tool_question(&tool, &arguments) {
                    prop_assert!(!line.contains('\n') && line.chars().count() <= SUMMARY_CHARS_MAX + 1);
                }
            }
        }
    }
}
