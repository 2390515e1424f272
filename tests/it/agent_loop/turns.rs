//! Turns of an iteration: answers, tools, results, their events, and the end of the iteration.

mod faults;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, bounded};
use serde_json::{Value, json};
use td_observe::agent::{AgentEvent, Format};
use td_observe::agent_loop::{
    Cancel, CommandClient, ContentBlock, Conversation, ConversationEnd, ConversationPart, Converse,
    LlmClient, LlmError, Request, Response, Role, StreamChunk, Tool, ToolCall, ToolError, Toolbox,
    Usage, converse,
};
use td_observe::event::{Completion, IterationOutcome};
use td_observe::process::Command;
use td_observe::{Envelope, EventBus, TdEvent};

use crate::support::CEILING;

/// Gives scripted answers, and records the requests.
#[derive(Default)]
struct Scripted {
    answers: VecDeque<Result<Response, LlmError>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Result<Response, LlmError>>) -> Self {
        Self {
            answers: answers.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl LlmClient for Scripted {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        _: &Cancel,
    ) -> Result<Response, LlmError> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.pop_front().expect("an answer");
        let text = match &answer {
            Ok(response) => &response.text,
            Err(error) => error.partial(),
        };
        for word in text.split_inclusive(' ') {
            chunks
                .send(StreamChunk::TextDelta(word.to_owned()))
                .unwrap();
        }
        answer
    }
}

fn reply(text: &str, calls: &[(&str, Value)]) -> Result<Response, LlmError> {
    let mut response = Response::text(text);
    response.tool_calls = calls
        .iter()
        .enumerate()
        .map(|(index, (name, input))| ToolCall {
            id: format!("t{index}"),
            name: (*name).to_owned(),
            input: Ok(input.clone()),
        })
        .collect();
    response.usage = Usage {
        input_tokens: 10,
        output_tokens: 1,
    };
    Ok(response)
}

/// Does what its input requests.
struct Obedient(Arc<Mutex<Vec<String>>>);

impl Tool for Obedient {
    fn name(&self) -> &str {
        "obey"
    }

    fn description(&self) -> &str {
        "Does what it is told."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn call(&mut self, input: &Value, cancel: &Cancel) -> Result<String, ToolError> {
        let text = input["text"].as_str().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push(text.clone());
        match input["do"].as_str() {
            Some("stop") => Err(ToolError::fatal(text)),
            Some("cancel") => {
                cancel.cancel();
                Ok(text)
            }
            _ => Ok(text),
        }
    }
}

/// Converses with events; returns the result and the events.
fn converse_observed(
    client: &mut dyn LlmClient,
    max_turns: u32,
    cancel: &Cancel,
) -> (Conversation, Vec<TdEvent>) {
    let bus = EventBus::new(10_000);
    let mut events = bus.subscribe();
    let emitter = bus.emitter_for("loop");
    let mut toolbox = Toolbox::new().with(Obedient(Arc::default()));
    let conversation = converse(
        client,
        &mut toolbox,
        Request::prompt("Do it.").system("Be quick."),
        Converse::new().max_turns(max_turns).emitter(&emitter, 3),
        cancel,
    );
    emitter.loop_completed(Completion::Succeeded, 1);
    let mut seen = Vec::new();
    loop {
        let event = events.recv_timeout(CEILING).unwrap();
        let Envelope { event, .. } = event.into_envelope().unwrap();
        if matches!(event, TdEvent::LoopCompleted { .. }) {
            return (conversation, seen);
        }
        seen.push(event);
    }
}

fn names(events: &[TdEvent]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().map(TdEvent::type_name).collect();
    // Tokens may be merged on the way.
    names.dedup_by(|one, other| one == other && *one == "TokenReceived");
    names
}

#[test]
fn tools_are_run_and_their_results_go_back() {
    let mut client = Scripted::new([
        reply(
            "Let me see.",
            &[("obey", json!({"text": "one"})), ("other", json!({}))],
        ),
        reply("Done.", &[]),
    ]);
    let requests = Arc::clone(&client.requests);
    let (conversation, events) = converse_observed(&mut client, 10, &Cancel::new());
    assert!(
        matches!(conversation.end, ConversationEnd::Ended),
        "{conversation:?}"
    );
    assert_eq!(conversation.end.outcome(), None);
    assert_eq!(conversation.text, "Let me see.\n\nDone.");
    assert_eq!((conversation.turns, conversation.tool_calls), (2, 2));
    let used = Usage {
        input_tokens: 20,
        output_tokens: 2,
    };
    assert_eq!(conversation.usage, used);
    assert_eq!(
        names(&events),
        [
            "PromptSent",
            "TokenReceived",
            "ResponseCompleted",
            "ToolCallStarted",
            "ToolCallCompleted",
            "ToolCallStarted",
            "ToolCallCompleted",
            "PromptSent",
            "TokenReceived",
            "ResponseCompleted",
        ]
    );
    assert!(
        matches!(&events[0], TdEvent::PromptSent { iteration: 3, prompt_summary, .. } if prompt_summary == "Be quick.\n\nDo it.")
    );
    let successes: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            TdEvent::ToolCallCompleted { success, .. } => Some(*success),
            _ => None,
        })
        .collect();
    assert_eq!(successes, [true, false]);
    let requests = requests.lock().unwrap();
    assert_eq!(requests[0].tools.len(), 1);
    assert_eq!(requests[1].messages.len(), 3);
    assert_eq!(requests[1].messages[1].role, Role::Assistant);
    assert!(matches!(
        &requests[1].messages[2].content[..],
        [
            ContentBlock::ToolResult { id: first, content, is_error: false },
            ContentBlock::ToolResult { id: second, is_error: true, .. },
        ] if first == "t0" && content == "one" && second == "t1"
    ));
    assert_eq!(conversation.messages.len(), 4);
}

#[test]
fn without_an_emitter_the_result_is_the_same_and_every_part_is_received_in_full() {
    let long = "x".repeat(10_000);
    let answers = || {
        [
            reply("Let me see.", &[("obey", json!({"text": long}))]),
            reply("Done.", &[]),
        ]
    };
    let (with, _) = converse_observed(&mut Scripted::new(answers()), 10, &Cancel::new());
    let mut parts = Vec::new();
    let mut on_part = |part: ConversationPart<'_>| {
        parts.push(match part {
            ConversationPart::Prompt { turn, text } => format!("prompt {turn} {}", text.len()),
            ConversationPart::Text(text) => format!("text {text}"),
            ConversationPart::Response(response) => format!("response {}", response.text),
            ConversationPart::ToolCall(call) => format!("call {}", call.input_text().len()),
            ConversationPart::ToolResult { outcome, .. } => {
                format!("result {}", outcome.content.len())
            }
            other => format!("{other:?}"),
        });
    };
    let without = converse(
        &mut Scripted::new(answers()),
        &mut Toolbox::new().with(Obedient(Arc::default())),
        Request::prompt("Do it.").system("Be quick."),
        Converse::new().max_turns(10).on_part(&mut on_part),
        &Cancel::new(),
    );
    assert_eq!(without.text, with.text);
    assert_eq!(without.messages, with.messages);
    assert_eq!((without.turns, without.usage), (with.turns, with.usage));
    assert_eq!(
        parts,
        [
            "prompt 1 17",
            "text Let ",
            "text me ",
            "text see.",
            "response Let me see.",
            "call 10011",
            "result 10000",
            "prompt 2 10000",
            "text Done.",
            "response Done.",
        ]
    );
}

#[test]
fn an_agent_program_reports_its_own_messages_once() {
    let output = concat!(
        "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n",
        "{\"type\":\"item.started\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"status\":\"in_progress\"}}\n",
        "{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"aggregated_output\":\"a\",\"exit_code\":0,\"status\":\"completed\"}}\n",
        "{\"type\":\"item.completed\",\"item\":{\"id\":\"j\",\"type\":\"agent_message\",\"text\":\"One file.\"}}\n",
        "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}}\n",
    );
    let command = Command::new("printf").args(["%s", output]);
    let mut client = CommandClient::new(command.format(Format::Codex));
    let (conversation, events) = converse_observed(&mut client, 5, &Cancel::new());
    assert!(
        matches!(conversation.end, ConversationEnd::Ended),
        "{conversation:?}"
    );
    assert_eq!((conversation.turns, conversation.tool_calls), (1, 0));
    assert_eq!(conversation.usage.input_tokens, 7);
    assert_eq!(
        names(&events),
        [
            "PromptSent",
            "ToolCallStarted",
            "ToolCallCompleted",
            "TokenReceived",
            "ResponseCompleted",
            "TurnCompleted",
            "AgentCompleted",
        ]
    );
}

#[test]
fn a_token_is_an_event_before_the_next_one_arrives() {
    /// Emits a word for each message.
    struct Slow(crossbeam_channel::Receiver<&'static str>);
    impl LlmClient for Slow {
        fn stream(
            &mut self,
            _: &Request,
            chunks: &Sender<StreamChunk>,
            _: &Cancel,
        ) -> Result<Response, LlmError> {
            let mut text = String::new();
            for word in &self.0 {
                text.push_str(word);
                chunks
                    .send(StreamChunk::TextDelta(word.to_owned()))
                    .unwrap();
            }
            Ok(Response::text(text))
        }
    }
    let (sender, words) = bounded(0);
    let bus = EventBus::new(1_000);
    let mut events = bus.subscribe();
    let emitter = bus.emitter_for("loop");
    let talk = std::thread::spawn(move || {
        converse(
            &mut Slow(words),
            &mut Toolbox::new(),
            Request::prompt("p"),
            Converse::new().emitter(&emitter, 1),
            &Cancel::new(),
        )
    });
    for word in ["one ", "two ", "three"] {
        sender.send(word).unwrap();
        loop {
            let event = events.recv_timeout(CEILING).unwrap().into_envelope();
            if matches!(event, Some(Envelope { event: TdEvent::TokenReceived { token, .. }, .. }) if token == word)
            {
                break;
            }
        }
    }
    drop(sender);
    assert_eq!(talk.join().unwrap().text, "one two three");
}

#[test]
fn warnings_of_agents_are_warning_events() {
    struct Warns;
    impl LlmClient for Warns {
        fn stream(
            &mut self,
            _: &Request,
            chunks: &Sender<StreamChunk>,
            _: &Cancel,
        ) -> Result<Response, LlmError> {
            let warning = AgentEvent::Warning {
                context: "model".into(),
                message: "asked again".into(),
            };
            chunks.send(StreamChunk::Agent(warning)).unwrap();
            Ok(Response::text("x"))
        }
    }
    let (_, events) = converse_observed(&mut Warns, 1, &Cancel::new());
    assert_eq!(
        names(&events),
        ["PromptSent", "Warning", "ResponseCompleted"]
    );
}
