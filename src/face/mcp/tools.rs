//! The tools: their names, descriptions and schemas (pure).

use serde_json::{Map, Value, json};

/// The default time of a wait. Clients of MCP often give a tool a minute.
pub(super) const TIMEOUT_MS: u64 = 50_000;

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    ListPanes,
    ReadOutput,
    SearchHistory,
    WaitFor,
    SendInput,
    SendAndWait,
}

impl Tool {
    /// Every tool, in the order of the list.
    pub const ALL: [Self; 6] = [
        Self::ListPanes,
        Self::ReadOutput,
        Self::SearchHistory,
        Self::WaitFor,
        Self::SendInput,
        Self::SendAndWait,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ListPanes => "list_panes",
            Self::ReadOutput => "read_output",
            Self::SearchHistory => "search_history",
            Self::WaitFor => "wait_for",
            Self::SendInput => "send_input",
            Self::SendAndWait => "send_and_wait",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Returns true if the tool types into panes.
    pub fn types(self) -> bool {
        matches!(self, Self::SendInput | Self::SendAndWait)
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListPanes => {
                "Who needs attention? tmux panes, commands and agents with their states, most urgent first. A waiting row has its question, with the id that answers it."
            }
            Self::ReadOutput => {
                "What a pane printed: its last 50 lines, or with cursor the next lines after it, each once. lost_lines counts what is missing."
            }
            Self::SearchHistory => {
                "Finds lines in all that panes printed, also before they ended, newest first. The cursor of a match, given to read_output, begins at that line."
            }
            Self::WaitFor => {
                "Waits in one of several panes for text, an agent's state, the end of a turn or program, silence or a tmux channel: the first of the given conditions. Misses no line; text already shown does not count. output is what was printed meanwhile, or its end (output_is_cut). For a command that you start yourself, use send_and_wait; if you only want its output, run it in your shell. On timed_out, call again with the returned cursor."
            }
            Self::SendInput => {
                "Types text and Enter, or keys, into a pane. A waiting pane takes input only with answers, the id of its present question."
            }
            Self::SendAndWait => {
                "Types text and Enter, and waits for what follows: no answer is too fast to be found. With turn, returns an agent's answer."
            }
        }
    }

    fn input(self) -> Value {
        let pane = "session, session:window.pane, %id, or a name or id of list_panes";
        let text = json!({"type": "string"});
        let whole = |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
        let states = json!({
            "type": "array",
            "items": {"enum": ["working", "waiting", "idle", "done", "error", "limited", "suspended"]},
            "description": "any of these states of its agent",
        });
        let turn = "its agent ends its turn, or asks";
        let timeout = json!({"type": "integer", "minimum": 0, "default": TIMEOUT_MS, "description": "up to a day, if your client waits so long"});
        let answers = "id of the question that this answers";
        let (properties, required) = match self {
            Self::ListPanes => (
                json!({
                    "pane": {"type": "string", "description": "only this one, with its whole question"},
                    "needs_you": {"type": "boolean", "description": "only rows that need someone"},
                    "limit": whole("rows; more than fit 4 KB only with this"),
                    "cursor": text,
                }),
                json!([]),
            ),
            Self::ReadOutput => (
                json!({
                    "pane": {"type": "string", "description": pane},
                    "cursor": {"type": "string", "description": "of an earlier result"},
                    "limit": whole("lines; more than fit 4 KB only with this"),
                    "screen": {"type": "boolean", "description": "the screen as it is now instead, for full-screen programs"},
                }),
                json!(["pane"]),
            ),
            Self::SearchHistory => (
                json!({
                    "pattern": {"type": "string", "description": "text, or with regex an expression"},
                    "regex": {"type": "boolean"},
                    "pane": {"type": "string", "description": "only this one"},
                    "since": {"type": "string", "description": "such as 90m, 12h, 3d, or a time"},
                    "limit": whole("matches"),
                    "cursor": {"type": "string", "description": "next_cursor of the last result"},
                }),
                json!(["pattern"]),
            ),
            Self::WaitFor => (
                json!({
                    "pane": {"type": "string", "description": pane},
                    "panes": {"type": "array", "items": text, "description": "instead of pane: any of them"},
                    "text": {"type": "string", "description": "a line contains it"},
                    "regex": {"type": "string", "description": "a line matches"},
                    "stop": {"type": "string", "description": "regex of a line that ends the wait without success"},
                    "state": states,
                    "turn": {"type": "boolean", "description": turn},
                    "exit": {"type": "boolean", "description": "its program ends"},
                    "idle_ms": {"type": "integer", "minimum": 1, "description": "it prints nothing for so long"},
                    "channel": {"type": "string", "description": "tmux wait-for -S CHANNEL"},
                    "timeout_ms": timeout,
                    "include_existing": {"type": "boolean", "description": "text on the screen counts, too"},
                    "cursor": {"type": "string", "description": "lines after it count, too"},
                }),
                json!([]),
            ),
            Self::SendInput => (
                json!({
                    "pane": {"type": "string", "description": pane},
                    "text": {"type": "string", "description": "several lines arrive as one paste; the key of a choice answers a question"},
                    "keys": {"type": "array", "items": text, "description": "instead of text: tmux key names, such as Escape, C-c"},
                    "enter": {"type": "boolean", "description": "false: no Enter after text; by default none follows the key of a choice"},
                    "answers": {"type": "string", "description": answers},
                }),
                json!(["pane"]),
            ),
            Self::SendAndWait => (
                json!({
                    "pane": {"type": "string", "description": pane},
                    "text": {"type": "string", "description": "to a question: the key of a choice, or a text"},
                    "enter": {"type": "boolean", "description": "false: no Enter; by default none follows the key of a choice"},
                    "answers": {"type": "string", "description": answers},
                    "contains": {"type": "string", "description": "a later line contains it; give one condition"},
                    "regex": {"type": "string", "description": "a later line matches"},
                    "state": states,
                    "turn": {"type": "boolean", "description": turn},
                    "idle_ms": {"type": "integer", "minimum": 1},
                    "timeout_ms": timeout,
                }),
                json!(["pane", "text"]),
            ),
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn output(self) -> Value {
        let text = json!({"type": "string"});
        let count = json!({"type": "integer"});
        let flag = json!({"type": "boolean"});
        let question = json!({
            "type": "object",
            "properties": {
                "id": text,
                "asks": text,
                "text": text,
                "choices": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"key": text, "label": text, "selected": flag},
                }},
            },
        });
        let outcome = json!({
            "outcome": {"enum": ["found", "stopped", "ended", "timed_out", "lost"]},
            "condition": text, "pane": text, "line": text, "state": text, "exit_status": count,
            "question": question, "answer": text, "output": text, "may_have_missed": flag,
            "output_is_cut": flag, "elapsed_ms": count, "cursor": text,
        });
        let sent = json!({"typed": flag, "pane": text, "question": question});
        let (mut properties, required) = match self {
            Self::ListPanes => (
                json!({
                    "panes": {"type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "pane": text, "id": text, "name": text, "server": text, "kind": text, "agent": text,
                            "state": text, "needs_you": flag, "for_s": count, "question": question,
                            "last_line": text, "exit_status": count, "is_you": flag,
                        },
                        "required": ["id", "name", "state"],
                    }},
                    "total": count,
                    "next_cursor": text,
                }),
                json!([]),
            ),
            Self::ReadOutput => (
                json!({
                    "id": text, "pane": text, "output": text, "open_line": text, "screen": text, "title": text,
                    "cursor": text, "more": flag, "lost_lines": count, "unknown_losses": count,
                }),
                json!([]),
            ),
            Self::SearchHistory => (
                json!({
                    "matches": {"type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "id": text, "name": text, "pane": text, "ts": text, "line": text, "cursor": text,
                        },
                        "required": ["id", "ts", "line", "cursor"],
                    }},
                    "next_cursor": text,
                    "complete": flag,
                    "unread_runs": count,
                }),
                json!([]),
            ),
            Self::WaitFor => (outcome, json!([])),
            Self::SendInput => (sent, json!([])),
            Self::SendAndWait => {
                let mut properties = sent;
                if let (Value::Object(all), Value::Object(more)) = (&mut properties, outcome) {
                    all.extend(more);
                }
                (properties, json!([]))
            }
        };
        // Every tool may refuse, with the reason and what to do instead.
        properties["reason"] = text.clone();
        properties["advice"] = text;
        json!({"type": "object", "properties": properties, "required": required})
    }

    fn annotations(self) -> Value {
        json!({
            "readOnlyHint": !self.types(),
            "destructiveHint": self.types(),
            "idempotentHint": !self.types(),
            // What runs in a pane may reach anywhere.
            "openWorldHint": self.types(),
        })
    }

    fn definition(self) -> Value {
        json!({
            "name": self.name(),
            "description": self.description(),
            "inputSchema": self.input(),
            "outputSchema": self.output(),
            "annotations": self.annotations(),
        })
    }
}

/// Returns the result of `tools/list`, without what belongs to its era.
pub(super) fn list() -> Map<String, Value> {
    let tools: Vec<Value> = Tool::ALL.into_iter().map(Tool::definition).collect();
    Map::from_iter([("tools".to_owned(), json!(tools))])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of the lengths of all descriptions in a value.
    fn descriptions(value: &Value) -> usize {
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) if name == "description" => text.len(),
                    value => descriptions(value),
                })
                .sum(),
            Value::Array(values) => values.iter().map(descriptions).sum(),
            _ => 0,
        }
    }

    #[test]
    fn the_list_is_short() {
        let list = json!(list());
        let length = list.to_string().len();
        assert!(length <= 16 * 1024, "{length}");
        let descriptions = descriptions(&list);
        // 1,500 tokens.
        assert!(descriptions <= 6_000, "{descriptions}");
    }

    #[test]
    fn each_tool_is_found_by_its_name() {
        for tool in Tool::ALL {
            assert_eq!(Tool::from_name(tool.name()), Some(tool));
        }
        assert_eq!(Tool::from_name("kill_server"), None);
    }
}
