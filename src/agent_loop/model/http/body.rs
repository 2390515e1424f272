//! Request bodies of the APIs (pure).

use serde_json::{Value, json};

use super::super::request::{ContentBlock, Message, Request, Role};

/// Default maximum number of tokens in an answer. Anthropic's API requires a maximum.
const MAX_TOKENS: u32 = 8_192;

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
        "max_tokens": request.max_tokens.unwrap_or(MAX_TOKENS),
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
            let content = match is_error {
                true => format!("Error: {content}"),
                false => content.clone(),
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

#[cfg(test)]
mod tests {
    use super::super::super::request::ToolSpec;
    use super::*;

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
