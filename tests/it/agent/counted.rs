//! The second count, from whole JSON values and independent of the parser.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Counts;

/// Returns all JSON values of a file; of a broken line, those before the break.
fn values(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line))
        .flat_map(|line| {
            serde_json::Deserializer::from_str(line)
                .into_iter::<Value>()
                .map_while(Result::ok)
                .collect::<Vec<_>>()
        })
        .filter(Value::is_object)
        .collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub fn count(name: &str, bytes: &[u8]) -> Counts {
    let values = values(bytes);
    match name.split('/').next().unwrap() {
        "claude-stream-json" => claude_stream(&values),
        "claude-code-subagents" | "claude-code-transcripts" | "derived-corruptions" => {
            claude_transcript(&values)
        }
        "codex-exec-json" => codex_exec(&values),
        "codex-rollouts" => codex_rollout(&values),
        "gemini-stream-json" => gemini_stream(&values),
        "gemini-sessions" => gemini_session(&values),
        "sse-raw" | "sse-payload-lines" => sse(&values),
        other => panic!("{other} is not counted"),
    }
}

/// Counts the tools of Claude's messages by id, and their results.
fn claude_tools(values: &[Value], counts: &mut Counts) {
    let (mut called, mut answers) = (BTreeSet::new(), BTreeMap::new());
    for value in values {
        for block in list(value, "/message/content") {
            match text(block, "/type") {
                "tool_use" => drop(called.insert(text(block, "/id"))),
                "tool_result" => {
                    let failed = block["is_error"] == Value::Bool(true);
                    answers.entry(text(block, "/tool_use_id")).or_insert(failed);
                }
                _ => {}
            }
        }
    }
    counts.tools = called.len();
    counts.answered = answers.len();
    counts.failed_tools = answers.values().filter(|failed| **failed).count();
}

/// Returns the output tokens, one count per message: that of its last record.
fn claude_tokens(values: &[Value]) -> u64 {
    let mut tokens = BTreeMap::new();
    let mut streamed = "";
    for value in values {
        let is_model = text(value, "/message/model") != "<synthetic>";
        if text(value, "/type") == "assistant" && is_model {
            let count = number(value, "/message/usage/output_tokens");
            tokens.insert(text(value, "/message/id").to_owned(), count);
        }
        // With partial messages, the count of the stream is the right one.
        match text(value, "/event/type") {
            "message_start" => streamed = text(value, "/event/message/id"),
            "message_delta" => {
                let count = number(value, "/event/usage/output_tokens");
                tokens.insert(streamed.to_owned(), count);
            }
            _ => {}
        }
    }
    tokens.values().sum()
}

/// Returns the usage in the results of runs that the agent's own messages lack.
fn claude_missing(values: &[Value]) -> u64 {
    let runs = values.split(|value| text(value, "/subtype") == "init");
    let missing = runs.map(|run| {
        let is_own = |value: &&Value| text(value, "/parent_tool_use_id").is_empty();
        let own: Vec<Value> = run.iter().filter(is_own).cloned().collect();
        let results = run.iter().filter(|value| text(value, "/type") == "result");
        let taken: u64 = results
            .map(|value| number(value, "/usage/output_tokens"))
            .sum();
        taken.saturating_sub(claude_tokens(&own))
    });
    missing.sum()
}

fn claude_stream(values: &[Value]) -> Counts {
    let mut counts = Counts {
        output_tokens: claude_tokens(values) + claude_missing(values),
        ..Counts::default()
    };
    claude_tools(values, &mut counts);
    let mut is_open = false;
    for value in values {
        match (text(value, "/type"), text(value, "/subtype")) {
            ("result", subtype) => {
                let is_good = subtype == "success"
                    && matches!(value["is_error"], Value::Null | Value::Bool(false));
                counts.turns += usize::from(is_good);
                counts.failures += usize::from(!is_good);
                is_open = false;
            }
            ("system", "init") => {
                counts.failures += usize::from(is_open);
                is_open = true;
            }
            _ => {}
        }
    }
    counts.failures += usize::from(is_open);
    counts
}

/// A step of a transcript's main conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Prompt,
    Interruption,
    ApiError,
    /// An answer that ends a turn, certainly or possibly.
    End,
    MaybeEnd,
    Unfinished,
    Work,
    Confirmation,
}

fn step(value: &Value) -> Option<Step> {
    let content = match &value["message"]["content"] {
        Value::String(content) => content.as_str(),
        Value::Array(blocks) => blocks.first().map_or("", |block| text(block, "/text")),
        _ => "",
    };
    let blocks: Vec<&str> = list(value, "/message/content")
        .iter()
        .map(|block| text(block, "/type"))
        .collect();
    match (text(value, "/type"), text(value, "/subtype")) {
        ("system", "turn_duration" | "stop_hook_summary") => Some(Step::Confirmation),
        ("user", _) if blocks.contains(&"tool_result") => Some(Step::Work),
        ("user", _) if value["isMeta"] == true || value["isCompactSummary"] == true => None,
        ("user", _) if content.starts_with("[Request interrupted by user") => {
            Some(Step::Interruption)
        }
        ("user", _) => {
            let skipped = [
                "<command-name>",
                "<local-command-",
                "<bash-",
                "<task-notification>",
            ];
            (!skipped.iter().any(|begin| content.starts_with(begin))).then_some(Step::Prompt)
        }
        ("assistant", _) if value["isApiErrorMessage"] == true => Some(Step::ApiError),
        ("assistant", _) if text(value, "/message/model") == "<synthetic>" => None,
        ("assistant", _) if !blocks.contains(&"text") || blocks.contains(&"tool_use") => {
            Some(Step::Work)
        }
        ("assistant", _) => {
            let version: Vec<u32> = text(value, "/version")
                .split('.')
                .map(|part| part.parse().unwrap())
                .collect();
            Some(match text(value, "/message/stop_reason") {
                "" if version < vec![2, 1, 76] => Step::MaybeEnd,
                "" => Step::Unfinished,
                "tool_use" | "pause_turn" => Step::Work,
                _ => Step::End,
            })
        }
        _ => None,
    }
}

fn claude_transcript(values: &[Value]) -> Counts {
    let mut counts = Counts {
        output_tokens: claude_tokens(values),
        ..Counts::default()
    };
    claude_tools(values, &mut counts);
    let is_sub_agent = values
        .iter()
        .filter(|value| !value["message"].is_null())
        .all(|value| value["isSidechain"] == true);
    let steps: Vec<Step> = values
        .iter()
        .filter(|value| is_sub_agent || value["isSidechain"] != true)
        .filter_map(step)
        .collect();
    for (at, step) in steps.iter().enumerate() {
        let next = steps.get(at + 1);
        match step {
            Step::End => counts.turns += 1,
            // The next prompt or the end of the file also confirms it.
            Step::MaybeEnd => {
                let goes_on = matches!(
                    next,
                    Some(Step::Work | Step::MaybeEnd | Step::Interruption | Step::ApiError)
                );
                counts.turns += usize::from(!goes_on);
            }
            Step::Unfinished => counts.turns += usize::from(next == Some(&Step::Confirmation)),
            Step::ApiError => counts.failures += 1,
            _ => {}
        }
    }
    // A file that ends in the middle of a turn was cut off.
    let last = steps.iter().rev().find(|step| **step != Step::Confirmation);
    let is_confirmed = steps.last() == Some(&Step::Confirmation);
    counts.failures += usize::from(match last {
        Some(Step::Prompt | Step::Work | Step::Unfinished) => !is_confirmed,
        Some(Step::Interruption) => true,
        _ => false,
    });
    counts
}

fn codex_exec(values: &[Value]) -> Counts {
    let mut counts = Counts::default();
    let mut tools = BTreeSet::new();
    let mut open_turns = 0_i32;
    for value in values {
        let kind = text(value, "/item/type");
        let is_tool = [
            "command_execution",
            "file_change",
            "mcp_tool_call",
            "collab_tool_call",
            "web_search",
        ];
        if is_tool.contains(&kind) {
            tools.insert(text(value, "/item/id"));
            if text(value, "/type") == "item.completed" {
                counts.answered += 1;
                let exit = &value["item"]["exit_code"];
                let is_bad = text(value, "/item/status") == "failed"
                    || (kind == "command_execution" && exit.as_i64() != Some(0));
                counts.failed_tools += usize::from(is_bad);
            }
        }
        match text(value, "/type") {
            "turn.started" => open_turns += 1,
            "turn.completed" => {
                open_turns -= 1;
                counts.turns += 1;
                counts.output_tokens += number(value, "/usage/output_tokens");
            }
            "turn.failed" => {
                open_turns -= 1;
                counts.failures += 1;
            }
            _ => {}
        }
    }
    counts.tools = tools.len();
    counts.failures += usize::try_from(open_turns).unwrap();
    counts
}

fn codex_rollout(values: &[Value]) -> Counts {
    let mut counts = Counts::default();
    let (mut calls, mut outputs, mut totals) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut last, mut is_prompted) = ("", false);
    for value in values {
        let kind = text(value, "/payload/type");
        let id = text(value, "/payload/call_id");
        match kind {
            "function_call" | "custom_tool_call" | "local_shell_call" => drop(calls.insert(id)),
            "function_call_output" | "custom_tool_call_output" => drop(outputs.insert(id)),
            // A command of the user's, such as `/compact`, has no prompt and no answer.
            "task_complete" | "turn_complete" => {
                let has_answer = !text(value, "/payload/last_agent_message").is_empty();
                counts.turns += usize::from(is_prompted || has_answer);
            }
            "task_started" => is_prompted = false,
            "user_message" => is_prompted = true,
            "item_completed" if text(value, "/payload/item/type") == "UserMessage" => {
                is_prompted = true;
            }
            "token_count" => {
                let total = number(value, "/payload/info/total_token_usage/total_tokens");
                if total > 0 && totals.insert(total) {
                    counts.output_tokens +=
                        number(value, "/payload/info/last_token_usage/output_tokens");
                }
            }
            _ => {}
        }
        if [
            "task_started",
            "task_complete",
            "turn_complete",
            "turn_aborted",
        ]
        .contains(&kind)
        {
            // A turn that starts while another is open cuts that one off.
            counts.failures += usize::from(kind == "task_started" && last == kind);
            last = kind;
        }
    }
    counts.tools = calls.len();
    counts.answered = outputs.len();
    counts.failures += usize::from(matches!(last, "task_started" | "turn_aborted"));
    counts
}

fn gemini_stream(values: &[Value]) -> Counts {
    let of = |kind: &'static str| {
        values
            .iter()
            .filter(move |value| text(value, "/type") == kind)
    };
    let results = of("result").count();
    let good = of("result").filter(|value| text(value, "/status") == "success");
    Counts {
        tools: of("tool_use").count(),
        answered: of("tool_result").count(),
        failed_tools: of("tool_result")
            .filter(|value| text(value, "/status") != "success")
            .count(),
        turns: good.clone().count(),
        failures: results - good.clone().count() + of("init").count() - results,
        output_tokens: good
            .map(|value| number(value, "/stats/output_tokens"))
            .sum(),
    }
}

fn gemini_session(values: &[Value]) -> Counts {
    // The last record of an id counts.
    let mut messages: Vec<&Value> = Vec::new();
    for value in values.iter().filter(|value| !text(value, "/id").is_empty()) {
        messages.retain(|other| text(other, "/id") != text(value, "/id"));
        messages.push(value);
    }
    let calls: Vec<&Value> = messages
        .iter()
        .flat_map(|message| list(message, "/toolCalls"))
        .collect();
    let answered = calls
        .iter()
        .filter(|call| ["success", "error", "cancelled"].contains(&text(call, "/status")));
    let answers = messages.iter().filter(|message| {
        text(message, "/type") == "gemini" && list(message, "/toolCalls").is_empty()
    });
    let is_last_failed = messages
        .iter()
        .rev()
        .find(|message| text(message, "/type") != "info")
        .is_some_and(|message| text(message, "/type") == "error");
    Counts {
        tools: calls.len(),
        answered: answered.clone().count(),
        failed_tools: answered
            .filter(|call| text(call, "/status") != "success")
            .count(),
        turns: answers.count(),
        failures: usize::from(is_last_failed),
        output_tokens: messages
            .iter()
            .map(|message| number(message, "/tokens/output"))
            .sum(),
    }
}

/// Counts one answer of an API.
fn sse(values: &[Value]) -> Counts {
    let mut counts = Counts::default();
    let (mut anthropic, mut chat) = (0, 0);
    let (mut has_failed, mut is_finished) = (false, false);
    for value in values {
        counts.tools += usize::from(
            matches!(
                text(value, "/content_block/type"),
                "tool_use" | "server_tool_use"
            ) || value.pointer("/choices/0/delta/tool_calls/0/id").is_some(),
        );
        counts.answered += usize::from(!text(value, "/content_block/tool_use_id").is_empty());
        has_failed |= !value["error"].is_null() || text(value, "/type") == "response.failed";
        match text(value, "/type") {
            "message_delta" => anthropic = number(value, "/usage/output_tokens"),
            "message_stop" => is_finished = true,
            "response.completed" => {
                is_finished = true;
                counts.output_tokens += number(value, "/response/usage/output_tokens");
            }
            _ => {}
        }
        is_finished |= !text(value, "/choices/0/finish_reason").is_empty();
        chat = chat.max(number(value, "/usage/completion_tokens"));
    }
    if has_failed || !is_finished {
        counts.failures = 1;
        // An incomplete message has no count; one that failed after its count has.
        counts.output_tokens += if has_failed { chat } else { 0 };
        return counts;
    }
    counts.turns = 1;
    counts.output_tokens += anthropic + chat;
    counts
}
