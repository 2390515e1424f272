//! Loops of an embedder: several at once, with tools, with an emitter or without.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use td_observe::agent::Format;
use td_observe::agent_loop::{
    Cancel, CommandClient, ContentBlock, LlmClient, LlmError, LoopEnd, LoopEngine, Request,
    Response, Spec, StreamChunk, Tool, ToolCall, ToolError, Toolbox,
};
use td_observe::process::Command;
use td_observe::{Builder, EventBus};

use super::*;

/// Calls the tool `write` with its counter, and answers with the result.
struct Scripted {
    calls: u32,
}

impl LlmClient for Scripted {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &crossbeam_channel::Sender<StreamChunk>,
        _: &Cancel,
    ) -> Result<Response, LlmError> {
        let last = request.messages.last().unwrap();
        let mut response = Response::text("ok");
        if let Some(ContentBlock::ToolResult { content, .. }) = last.content.first() {
            response.text = format!("it said {content}");
        } else {
            self.calls += 1;
            response.tool_calls.push(ToolCall {
                id: format!("call-{}", self.calls),
                name: "write".into(),
                input: Ok(json!({ "text": self.calls.to_string() })),
            });
        }
        for piece in response.text.split_inclusive(' ') {
            let _ = chunks.send(StreamChunk::TextDelta(piece.to_owned()));
        }
        Ok(response)
    }
}

struct Write(PathBuf);

impl Tool for Write {
    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Writes n."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"text": {"type": "string"}}})
    }

    fn call(&mut self, input: &Value, _: &Cancel) -> Result<String, ToolError> {
        let text = input["text"].as_str().unwrap_or_default();
        fs::write(&self.0, text)?;
        Ok(format!("written {text}"))
    }
}

fn scripted(place: &Place, wanted: u32) -> LoopEngine {
    let spec = Spec::of_task("Count").check(&format!("test $(cat n) = {wanted}"));
    LoopEngine::new(spec, Scripted { calls: 0 })
        .tools(Toolbox::new().with(Write(place.work().join("n"))))
        .directory(place.work())
}

#[test]
fn tools_of_a_streamed_model_are_run_and_reported() {
    let place = Place::new();
    let bus = EventBus::new(10_000);
    let mut seen = bus.subscribe();
    let outcome = scripted(&place, 2).run(Some(&bus.emitter_for("loop-1")));
    assert!(outcome.success && outcome.iterations == 2, "{outcome:?}");
    bus.close();
    let events: Vec<Envelope> = seen
        .iter()
        .filter_map(|delivery| delivery.into_envelope())
        .collect();
    let kinds = kinds(&events);
    let tools: Vec<&&str> = kinds
        .iter()
        .filter(|kind| kind.starts_with("Tool"))
        .collect();
    assert_eq!(tools, [&"ToolCallStarted", &"ToolCallCompleted"].repeat(2));
    let tokens: Vec<&str> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::TokenReceived { token, .. } => Some(token.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(tokens.concat(), "okit said written 1okit said written 2");
}

#[test]
fn a_loop_without_an_emitter_has_the_same_result() {
    let (with, without) = (Place::new(), Place::new());
    let bus = EventBus::new(10_000);
    let observed = scripted(&with, 3).run(Some(&bus.emitter_for("loop-1")));
    let alone = scripted(&without, 3).run(None);
    assert_eq!(observed, alone);
    let n = |place: &Place| fs::read_to_string(place.work().join("n")).unwrap();
    assert_eq!((n(&with), n(&without)), ("3".into(), "3".into()));
    let never = scripted(&without, 0).max_iterations(2).run(None);
    assert_eq!((never.success, never.end), (false, LoopEnd::MaxIterations));
}

/// A tool that cannot continue.
struct Broken;

impl Tool for Broken {
    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Writes n."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn call(&mut self, _: &Value, _: &Cancel) -> Result<String, ToolError> {
        Err(ToolError::fatal("the disk is gone"))
    }
}

#[test]
fn an_iteration_whose_tool_cannot_continue_says_so() {
    let place = Place::new();
    let bus = EventBus::new(10_000);
    let mut seen = bus.subscribe();
    let spec = Spec::of_task("Count").check("false");
    let outcome = LoopEngine::new(spec, Scripted { calls: 0 })
        .tools(Toolbox::new().with(Broken))
        .directory(place.work())
        .max_iterations(2)
        .run(Some(&bus.emitter_for("loop-1")));
    assert!(!outcome.success, "{outcome:?}");
    bus.close();
    let events: Vec<Envelope> = (seen.iter())
        .filter_map(|delivery| delivery.into_envelope())
        .collect();
    let broken = IterationOutcome::ToolError {
        tool: "write".into(),
        error: "the disk is gone".into(),
    };
    assert_eq!(outcomes(&events)[0], broken, "{events:?}");
}

#[test]
fn several_loops_run_at_once_with_their_own_ids_and_files() {
    const LOOPS: usize = 5;
    let place = Place::new();
    let mut engine = Builder::new().data_dir(place.data()).start().unwrap();
    let mut loops = Vec::new();
    for number in 0..LOOPS {
        let work = place.work().join(number.to_string());
        fs::create_dir(&work).unwrap();
        // Each loop waits until all others have begun.
        let agent = format!(
            "touch ../begun-{number}; while test $(ls .. | grep -c begun) -lt {LOOPS}; \
             do sleep 0.01; done; echo I am {number}"
        );
        let spec = Spec::of_task(format!("loop {number}")).check("true");
        let agent = CommandClient::shell(agent);
        let looping = LoopEngine::of_command(spec, agent).directory(work);
        loops.push(engine.run_loop(None, looping, Map::new()).unwrap());
    }
    for looping in loops {
        assert!(looping.wait().unwrap().success);
    }
    engine.shutdown();
    let runs = files_in(&place.data().join("runs"));
    assert_eq!(runs.len(), LOOPS, "{runs:?}");
    let mut responses = BTreeSet::new();
    for run in runs {
        let run = DataDir::new(place.data()).run(&run.as_str().into());
        assert_eq!(ended(&read(&run)), (true, 1));
        let response = run.iteration_path(1).join("response.txt");
        responses.insert(fs::read_to_string(response).unwrap().trim().to_owned());
    }
    let expected: BTreeSet<String> = (0..LOOPS).map(|n| format!("I am {n}")).collect();
    assert_eq!(responses, expected);
}

#[test]
fn an_engine_that_stops_ends_its_loops() {
    let place = Place::new();
    let mut engine = Builder::new().data_dir(place.data()).start().unwrap();
    let mut events = engine.subscribe();
    let agent =
        CommandClient::new(Command::shell("echo here; exec sleep 1000").format(Format::Text));
    let looping =
        LoopEngine::of_command(Spec::of_task("x").check("true"), agent).directory(place.work());
    let looping = engine
        .run_loop(Some("it".into()), looping, Map::new())
        .unwrap();
    let is_token = |envelope: &Envelope| matches!(envelope.event, TdEvent::TokenReceived { .. });
    while !events
        .recv_timeout(crate::support::CEILING)
        .unwrap()
        .into_envelope()
        .is_some_and(|envelope| is_token(&envelope))
    {}
    let report = engine.shutdown();
    assert!(
        report.left.is_empty() && report.panicked.is_empty(),
        "{report:?}"
    );
    assert_eq!(looping.wait().unwrap().end, LoopEnd::Cancelled);
    assert_eq!(ended(&read(&place.directory())), (false, 1));
}
