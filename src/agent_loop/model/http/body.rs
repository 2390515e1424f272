//! Request bodies of the APIs (pure).

use std::time::Duration;

use super::super::messages::{ContentBlock, Message, Request, Role};
use crate::timestamp::Timestamp;
use serde_json::{Value, json};

/// Returns the body for Anthropic's Messages API.
pub(super) fn anthropic(request: &Request, model: &str) -> Value {
    let messages = request.messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let blocks = message.content.iter().filter_map(|block| match block {
            // The API rejects empty text.
            ContentBlock::Text(text) if text.is_empty() => None,
            ContentBlock::Text(text) => Some(json!({"type": "text", "text": text})),
            ContentBlock::ToolUse { id, name, input } => {
                Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
            }
            ContentBlock::ToolResult {
                id,
                content,
                is_error,
            } => Some(json!({
                "type": "tool_result",
                "tool_use_id": id,
                "content": content,
                "is_error": is_error,
            })),
        });
        json!({"role": role, "content": blocks.collect::<Vec<_>>()})
    });
    let mut body = json!({
        "model": model,
        // Default maximum number of tokens in an answer. Anthropic's API requires a maximum.
        "max_tokens": request.max_tokens.unwrap_or(8_192),
        "stream": true,
        "messages": messages.collect::<Vec<_>>(),
    });
    if !request.system.is_empty() {
        body["system"] = json!(request.system);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

/// Returns the body for OpenAI's chat completions.
pub(super) fn chat(request: &Request, model: &str) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => push_user(message, &mut messages),
            Role::Assistant => messages.push(assistant(message)),
        }
    }
    let mut body = json!({
        "model": model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    if let Some(tokens) = request.max_tokens {
        body["max_completion_tokens"] = json!(tokens);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            }})
        });
        body["tools"] = tools.collect();
    }
    body
}

/// Adds a user message. Tool results are separate messages, which precede the text.
fn push_user(message: &Message, into: &mut Vec<Value>) {
    for block in &message.content {
        if let ContentBlock::ToolResult {
            id,
            content,
            is_error,
        } = block
        {
            let content = if *is_error {
                format!("Error: {content}")
            } else {
                content.clone()
            };
            into.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
        }
    }
    let text = text(message);
    if !text.is_empty() {
        into.push(json!({"role": "user", "content": text}));
    }
}

fn assistant(message: &Message) -> Value {
    let content = Some(text(message)).filter(|text| !text.is_empty());
    let mut answer = json!({"role": "assistant", "content": content});
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse { id, name, input } => Some(json!({
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": input.to_string()},
        })),
        ContentBlock::Text(_) | ContentBlock::ToolResult { .. } => None,
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        answer["tool_calls"] = json!(calls);
    }
    answer
}

fn text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.as_str()),
        ContentBlock::ToolUse { .. } | ContentBlock::ToolResult { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

// The retry policy: the requests that are retried, their delays and their number (pure).

#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    pub retries_max: u32,
    /// The first delay, if the server requests none; it doubles with each retry.
    pub first_delay: Duration,
    pub delay_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        // The first delay is that of the APIs' own libraries. The number of retries is higher, because
        // a loop runs for hours and most overloads end within 1 + 2 + 4 + 8 + 16 seconds.
        Self {
            retries_max: 5,
            first_delay: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
        }
    }
}

/// Returns true if a retry may succeed: after too many requests, and if the server is overloaded (529
/// is Anthropic's status) or temporarily unavailable.
pub(super) fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504 | 529)
}

impl RetryPolicy {
    /// Returns the delay after this number of attempts; `None` after the last one, or if the requested
    /// delay exceeds the maximum.
    pub fn delay(&self, attempts: u32, requested: Option<Duration>) -> Option<Duration> {
        if attempts > self.retries_max {
            return None;
        }
        match requested {
            Some(requested) => (requested <= self.delay_max).then_some(requested),
            None => {
                let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
                Some(self.first_delay.saturating_mul(doubled).min(self.delay_max))
            }
        }
    }
}

/// The longest delay that a server may ask for: beyond a day, nobody waits.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// Parses the delay in a `retry-after` header: seconds, or a date.
pub(crate) fn requested_delay(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds).min(DELAY_MAX));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(header)
        .ok()?;
    let micros = date.as_microsecond().saturating_sub(now.micros());
    // The date may be in the past.
    Some(Duration::from_micros(micros.try_into().unwrap_or(0)).min(DELAY_MAX))
}

#[cfg(test)]
mod tests {
    mod body {

        use super::super::*;
        use crate::agent_loop::model::messages::ToolSpec;

        fn request() -> Request {
            let mut request = Request::prompt("a\0b").system("s");
            request.messages.push(Message {
                role: Role::Assistant,
                content: vec![
                    ContentBlock::Text(String::new()),
                    ContentBlock::ToolUse {
                        id: "t".into(),
                        name: "read".into(),
                        input: json!({"path": "x"}),
                    },
                ],
            });
            request.messages.push(Message {
                role: Role::User,
                content: vec![ContentBlock::ToolResult {
                    id: "t".into(),
                    content: "gone".into(),
                    is_error: true,
                }],
            });
            request.tools.push(ToolSpec {
                name: "read".into(),
                description: "Reads.".into(),
                input_schema: json!({"type": "object"}),
            });
            request
        }

        #[test]
        fn the_body_for_anthropic() {
            assert_eq!(
                anthropic(&request(), "m"),
                json!({
                    "model": "m",
                    "max_tokens": 8192,
                    "stream": true,
                    "system": "s",
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "a\0b"}]},
                        {"role": "assistant", "content": [
                            {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "x"}},
                        ]},
                        {"role": "user", "content": [
                            {"type": "tool_result", "tool_use_id": "t", "content": "gone", "is_error": true},
                        ]},
                    ],
                    "tools": [
                        {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}},
                    ],
                })
            );
        }

        #[test]
        fn the_body_for_openai() {
            assert_eq!(
                chat(&request().max_tokens(7), "m"),
                json!({
                    "model": "m",
                    "stream": true,
                    "stream_options": {"include_usage": true},
                    "max_completion_tokens": 7,
                    "messages": [
                        {"role": "system", "content": "s"},
                        {"role": "user", "content": "a\0b"},
                        {"role": "assistant", "content": null, "tool_calls": [
                            {"id": "t", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}},
                        ]},
                        {"role": "tool", "tool_call_id": "t", "content": "Error: gone"},
                    ],
                    "tools": [
                        {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}},
                    ],
                })
            );
        }
    }

    mod retry {

        use super::super::*;

        #[test]
        fn delays_double_and_are_bounded() {
            let policy = RetryPolicy {
                retries_max: 4,
                first_delay: Duration::from_secs(1),
                delay_max: Duration::from_secs(5),
            };
            let seconds = |attempts, requested: Option<u64>| {
                let delay = policy.delay(attempts, requested.map(Duration::from_secs));
                delay.map(|delay| delay.as_secs())
            };
            assert_eq!(
                [1, 2, 3, 4, 5].map(|n| seconds(n, None)),
                [Some(1), Some(2), Some(4), Some(5), None]
            );
            assert_eq!(seconds(1, Some(0)), Some(0));
            assert_eq!(seconds(1, Some(5)), Some(5));
            assert_eq!(seconds(1, Some(6)), None, "longer than the maximum");
            assert_eq!(
                RetryPolicy {
                    retries_max: u32::MAX,
                    ..policy
                }
                .delay(u32::MAX, None),
                Some(policy.delay_max)
            );
        }

        #[test]
        fn requested_delays_are_seconds_or_dates() {
            // 1994-11-06T08:49:30Z
            let now = Timestamp::from_micros(784_111_770_000_000);
            for (header, seconds) in [
                ("0", Some(0)),
                (" 17 ", Some(17)),
                ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
                ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
                ("-3", None),
                ("soon", None),
                ("", None),
                ("99999999999999999999999", None),
            ] {
                let found = requested_delay(header, now).map(|delay| delay.as_secs());
                assert_eq!(found, seconds, "{header}");
            }
        }
    }
}
