//! Turns that end early: limits, broken tools, cancels and panics.

use super::*;

#[test]
fn a_conversation_ends_when_its_turns_are_used_up() {
    let call = || reply("Again.", &[("obey", json!({"text": "x"}))]);
    let (conversation, _) =
        converse_observed(&mut Scripted::new([call(), call()]), 2, &Cancel::new());
    assert!(matches!(conversation.end, ConversationEnd::MaxTurnsReached));
    assert_eq!(
        conversation.end.outcome(),
        Some(IterationOutcome::MaxTurnsReached)
    );
    // The last tools are run: the check may depend on their effects.
    assert_eq!((conversation.turns, conversation.tool_calls), (2, 2));
    let (conversation, events) = converse_observed(&mut Scripted::default(), 0, &Cancel::new());
    assert!(matches!(conversation.end, ConversationEnd::MaxTurnsReached));
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn a_tool_that_cannot_continue_ends_the_conversation() {
    let calls = [
        ("obey", json!({"do": "stop", "text": "the disk is gone"})),
        ("obey", json!({"text": "never"})),
    ];
    let (conversation, events) =
        converse_observed(&mut Scripted::new([reply("", &calls)]), 5, &Cancel::new());
    let Some(IterationOutcome::ToolError { tool, error }) = conversation.end.outcome() else {
        panic!("{conversation:?}");
    };
    assert_eq!((&*tool, &*error), ("obey", "the disk is gone"));
    assert_eq!(
        names(&events),
        [
            "PromptSent",
            "ResponseCompleted",
            "ToolCallStarted",
            "ToolCallCompleted"
        ]
    );
}

#[test]
fn a_truncated_answer_ends_the_conversation_with_the_partial_text() {
    let error = LlmError::message("the line is dead").with_partial(Response::text("Half an"));
    let mut client = Scripted::new([reply("One.", &[("obey", json!({"text": "x"}))]), Err(error)]);
    let (conversation, events) = converse_observed(&mut client, 5, &Cancel::new());
    let ConversationEnd::LlmError(error) = &conversation.end else {
        panic!("{conversation:?}");
    };
    assert_eq!(error.partial(), "Half an");
    assert_eq!(conversation.text, "One.\n\nHalf an");
    let outcome = conversation.end.outcome();
    assert_eq!(
        outcome,
        Some(IterationOutcome::LlmError {
            error: "the line is dead".into()
        })
    );
    assert!(
        matches!(events.last(), Some(TdEvent::Error { message, .. }) if message == "the line is dead"),
        "{events:?}"
    );
}

#[test]
fn a_cancel_in_a_tool_prevents_the_next_tool() {
    let calls = [
        ("obey", json!({"do": "cancel", "text": "last"})),
        ("obey", json!({"text": "never"})),
    ];
    let (conversation, events) =
        converse_observed(&mut Scripted::new([reply("", &calls)]), 5, &Cancel::new());
    assert!(
        matches!(&conversation.end, ConversationEnd::LlmError(error) if error.is_cancelled()),
        "{conversation:?}"
    );
    assert_eq!(conversation.tool_calls, 1);
    assert!(
        !names(&events).contains(&"Error"),
        "a wish is no error: {events:?}"
    );
    let cancel = Cancel::new();
    cancel.cancel();
    let (conversation, events) = converse_observed(&mut Scripted::default(), 5, &cancel);
    assert_eq!(conversation.turns, 0);
    assert!(events.is_empty(), "{events:?}");
}

struct Broken;

impl LlmClient for Broken {
    fn stream(
        &mut self,
        _: &Request,
        _: &Sender<StreamChunk>,
        _: &Cancel,
    ) -> Result<Response, LlmError> {
        panic!("on purpose")
    }
}

#[test]
fn a_panic_of_a_client_or_tool_ends_only_its_conversation() {
    let (conversation, events) = converse_observed(&mut Broken, 5, &Cancel::new());
    let outcome = conversation.end.outcome();
    assert!(
        matches!(&outcome, Some(IterationOutcome::LlmError { error }) if error.contains("on purpose")),
        "{outcome:?}"
    );
    assert_eq!(names(&events), ["PromptSent", "Error"]);
    let mut on_part = |part: ConversationPart<'_>| {
        assert!(!matches!(part, ConversationPart::Text(_)), "on purpose")
    };
    let conversation = converse(
        &mut Scripted::new([Ok(Response::text("one two three"))]),
        &mut Toolbox::new(),
        Request::prompt(""),
        Converse::new().on_part(&mut on_part),
        &Cancel::new(),
    );
    // The scripted client panics when nobody receives; others do not.
    assert!(conversation.turns == 1, "{conversation:?}");
}
